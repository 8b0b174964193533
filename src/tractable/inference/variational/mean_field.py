r"""Mean field of a Gaussian, and both directions of KL: what independence costs, and where it errs.

Exclusive.   $\min_q\mathrm{KL}(q \,\|\, p)$ over $q = \prod_i N(m_i, v_i)$ for $p = N(\mu, \Lambda^{-1})$:
             $v_i = 1/\Lambda_{ii} \le \Sigma_{ii}$ (too narrow: zero forcing) and the sweep $m_i \leftarrow
             \mu_i - \Lambda_{ii}^{-1}\sum_{j \ne i}\Lambda_{ij}(m_j - \mu_j)$, which contracts to $m = \mu$,
             in two dimensions by $\rho^2$ per sweep.
Inclusive.   $\min_q\mathrm{KL}(p \,\|\, q)$ over products is the product of the true marginals (moment
             matching): wherever $p > 0$, $q > 0$ (zero avoiding). The divergence left is the total
             correlation, $\sum_i H[p_i] - H[p]$.
Cost.        $O(d^2)$ per sweep.
References.  Bishop (2006) section 10.1.2; Minka (2005), "Divergence measures and message passing".
"""

import jax.numpy as jnp

from tractable.core.checks import as_float, check, check_shape
from tractable.core.factors import psd_inverse
from tractable.core.iterate import Run, run, run_until
from tractable.core.module import Module
from tractable.core.programs import program
from tractable.core.types import Array, ArrayLike, Float, Scalar
from tractable.distributions.divergence import kl
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.information import as_probabilities
from tractable.inference.variational.cavi import product_table

__all__ = [
    "KLDirections", "inclusive_mean_field", "inclusive_mean_field_table", "kl_directions",
    "mean_field_gaussian", "mean_field_path",
]  # fmt: skip


class KLDirections(Module):
    """A correlated Gaussian beside its best products in either direction of KL."""

    exclusive: Gaussian  # the minimiser of KL(q || p)
    inclusive: Gaussian  # the minimiser of KL(p || q): the product of the marginals
    exclusive_kl: Scalar  # KL(exclusive || p), the least possible
    inclusive_kl: Scalar  # KL(p || inclusive), the least possible: the total correlation
    exclusive_reversed: Scalar  # KL(p || exclusive)
    inclusive_reversed: Scalar  # KL(inclusive || p)
    _shown = ("exclusive_kl", "exclusive_reversed", "inclusive_kl", "inclusive_reversed")


def mean_field_gaussian(
    target: Gaussian, start: ArrayLike | None = None, *, max_steps: int = 10_000, tol: float = 1e-14
) -> Run:
    r"""Coordinate ascent from the means `start` (default zero): `run.state` is the product as a `Gaussian`,
    `run.trace` the divergence $\mathrm{KL}(q \,\|\, p)$ after each sweep, which never rises."""
    first, precision = _begin(target, start)
    return _ascend(target, precision, first, jnp.asarray(tol), max_steps)


def mean_field_path(target: Gaussian, start: ArrayLike, num_sweeps: int) -> Float[Array, "s d"]:
    r"""The means after each of `num_sweeps` sweeps.

    >>> correlated = Gaussian([0.0, 0.0], [[1.0, 0.9], [0.9, 1.0]])
    >>> [round(float(m), 6) for m in mean_field_path(correlated, [0.0, 1.0], 1)[0]]
    [0.9, 0.81]
    """
    first, precision = _begin(target, start)

    def step(m, _):
        m = _sweep(target.mean, precision, m)
        return m, m

    return run(step, first, num_steps=num_sweeps).trace


def inclusive_mean_field(target: Gaussian) -> Gaussian:
    r"""The product of the marginals, $\arg\min_q\mathrm{KL}(p \,\|\, q)$ over products."""
    return Gaussian(target.mean, jnp.diag(jnp.diagonal(target.cov)))


def inclusive_mean_field_table(probs: ArrayLike) -> Float[Array, "..."]:
    r"""The same for a table of joint probabilities: $\prod_i p_i(z_i)$ as a table."""
    p = as_probabilities("probs", probs)
    axes = range(p.ndim)
    return product_table([p.sum(tuple(j for j in axes if j != i)) for i in axes])


def kl_directions(target: Gaussian) -> KLDirections:
    """Both best products of independent normals, and both divergences of each."""
    narrow = Gaussian(target.mean, jnp.diag(1 / jnp.diagonal(psd_inverse(target.cov))))
    wide = inclusive_mean_field(target)
    return KLDirections(
        narrow, wide, kl(narrow, target), kl(target, wide), kl(target, narrow), kl(wide, target)
    )


def _begin(target: Gaussian, start: ArrayLike | None) -> tuple[Array, Array]:
    check(target.mean.ndim == 1, "target", "one Gaussian", f"shape {target.mean.shape}", "Use `jax.vmap`.")
    first = jnp.zeros_like(target.mean) if start is None else as_float("start", start)
    check_shape("start", first, target.mean.shape, "One mean per coordinate.")
    return first, psd_inverse(target.cov)


def _sweep(mean: Array, precision: Array, m: Array) -> Array:
    """Each coordinate in turn, with the newest values of the others."""

    def update(m, i):
        others = precision[i] @ (m - mean) - precision[i, i] * (m[i] - mean[i])
        return m.at[i].set(mean[i] - others / precision[i, i]), None

    return run(update, m, jnp.arange(m.size)).state


@program
def _ascend(target: Gaussian, precision: Array, first: Array, tol: Array, max_steps: int) -> Run:
    spread = jnp.diag(1 / jnp.diagonal(precision))

    def step(m):
        m = _sweep(target.mean, precision, m)
        return m, kl(Gaussian(m, spread), target)

    found = run_until(step, first, max_steps=max_steps, tol=tol)
    return Run(Gaussian(found.state, spread), found.trace, found.num_steps, found.code)
