r"""Closed forms of $\mathrm{KL}(p \| q)$ for vectors, for matrices, and through a common bijection.

Gaussians.   With $\Sigma_i = L_i L_i^\top$ and $M = L_2^{-1} L_1$ (lower triangular):
             $\mathrm{KL} = \frac12 \{\sum_i (M_{ii}^2 - 1 - \log M_{ii}^2) + \sum_{i>j} M_{ij}^2
             + \|L_2^{-1}(\mu_1 - \mu_2)\|^2\}$. Every term is at least zero: nothing cancels.
Invariance.  $\mathrm{KL}(f(x) \| f(y)) = \mathrm{KL}(x \| y)$ for a bijection $f$.
Cost.        $O(d^3)$ per unit.
References.  Kullback (1959) chapter 9.
"""

from itertools import product
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import is_concrete
from tractable.core.factors import positive_definite_factor
from tractable.core.linalg import PsdFactor
from tractable.core.numerics import log_softmax
from tractable.core.types import Array, Scalar
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.gaussian_forms import GaussianInformation, GaussianPrecision, to_covariance
from tractable.distributions.kl_pairs import mass_terms, scale_excess
from tractable.distributions.kl_registry import find_kl, register_kl
from tractable.distributions.matrix import MatrixNormal
from tractable.distributions.multinomial import Multinomial
from tractable.distributions.transformed import Transformed

__all__ = ["gaussian_kl"]


def gaussian_kl(p: Any, q: Any) -> Scalar:
    r"""$\frac12 \{\mathrm{tr}(\Sigma_2^{-1}\Sigma_1) + (\mu_1-\mu_2)^\top \Sigma_2^{-1} (\mu_1-\mu_2) - d
    + \log|\Sigma_2|/|\Sigma_1|\}$ of one unit.

    Infinite for singular $\Sigma_1$ (no density with respect to $q$), NaN for singular $\Sigma_2$.
    """
    p, q = to_covariance(p), to_covariance(q)
    factor = positive_definite_factor(q.cov)
    shift = factor.half_solve(p.mean - q.mean)
    value = _spread(positive_definite_factor(p.cov), factor) + 0.5 * shift @ shift
    flat = jnp.isnan(positive_definite_factor(jax.lax.stop_gradient(p.cov)).lower).any()
    known = jnp.isfinite(p.cov).all() & jnp.isfinite(factor.lower).all()
    return jnp.where(flat & known, jnp.inf, value)


for _first, _second in product((Gaussian, GaussianPrecision, GaussianInformation), repeat=2):
    register_kl(_first, _second)(gaussian_kl)


@register_kl(MatrixNormal, MatrixNormal)
def matrix_normal_kl(p, q):
    r"""That of $\mathrm{vec}(X) \sim N(\mathrm{vec}(M), V \otimes U)$, whose factors are Kronecker products
    too."""
    rows, other_rows = positive_definite_factor(p.row_cov), positive_definite_factor(q.row_cov)
    columns, other_columns = positive_definite_factor(p.column_cov), positive_definite_factor(q.column_cov)
    a, b = other_rows.half_solve(rows.lower), other_columns.half_solve(columns.lower)
    shift = other_columns.half_solve(other_rows.half_solve(p.loc - q.loc).T)
    diagonal = jnp.outer(jnp.diag(a), jnp.diag(b)) ** 2
    below = (a**2).sum() * (b**2).sum() - diagonal.sum()
    return 0.5 * (scale_excess(diagonal).sum() + below + (shift**2).sum())


@register_kl(Multinomial, Multinomial)
def multinomial_kl(p, q):
    """As many times that of one draw; infinite for different totals, whose supports do not meet."""
    one = mass_terms(log_softmax(p.logits), log_softmax(q.logits)).sum()
    return jnp.where(p.total == q.total, p.total * one, jnp.inf)


def _same_map(p: Transformed, q: Transformed) -> bool:
    """Whether both see bases with a closed form through one bijection, as far as values are known."""
    alike = jax.tree.structure(p.bijection) == jax.tree.structure(q.bijection)
    concrete = all(is_concrete(leaf) for leaf in jax.tree.leaves((p.bijection, q.bijection)))
    if not alike or not concrete or not bool(eqx.tree_equal(p.bijection, q.bijection)):
        return False
    return p.base.unit_shape == q.base.unit_shape and find_kl(p.base, q.base) is not None


@register_kl(Transformed, Transformed, applies=_same_map)
def transformed_kl(p, q):
    """That of the bases: a bijection changes no divergence."""
    rule = find_kl(p.base, q.base)
    return jnp.asarray(np.nan) if rule is None else rule(p.base, q.base)


def _spread(p: PsdFactor, q: PsdFactor) -> Array:
    m = q.half_solve(p.lower)
    return 0.5 * (scale_excess(jnp.diag(m) ** 2).sum() + (jnp.tril(m, -1) ** 2).sum())
