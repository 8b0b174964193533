r"""Bayesian softmax regression by Laplace's approximation, the prior precision fixed or by evidence.

Model.       $p(y = k \mid x) \propto e^{a_k}$ with $a = QV^\top z$ over standardised rows $z$, $Q$ an
             orthonormal basis of the vectors of sum zero over the classes, and
             $V_{jk} \sim N(0, \alpha^{-1})$ (intercepts $N(0, 10^2)$): the prior treats all classes alike.
Posterior.   $N(V_{MAP}, S)$ with $S^{-1}$ the Hessian of the negative log-posterior;
             evidence as in `supervised.logistic.bayes`.
Predictive.  The logits of a row are Gaussian; their softmax is averaged over 512 fixed quasi-random points,
             in antithetic pairs.
Cost.        Newton steps of $O(nd^2K^2 + d^3K^3)$; a prediction $O(d^2K^2 + 512K^2)$ per row.
References.  Bishop (2006) section 4.5; MacKay (1992); Owen (1998).
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.special import ndtri
from scipy.special import softmax as softmax_of

from tractable.core.checks import namespace
from tractable.core.host_random import generator
from tractable.core.module import field
from tractable.core.numerics import softmax
from tractable.core.rows import Rows, points
from tractable.core.types import Array, ArrayLike, Float
from tractable.supervised.logistic.bayes import StandardPosterior, mode_and_precision
from tractable.supervised.logistic.softmax import class_rows, softmax_sweep, zero_sum_basis

__all__ = ["BayesianSoftmax", "fit_bayes_softmax"]

_PAIRS = 256
_BLOCK = 256


class BayesianSoftmax(StandardPosterior):
    """A Gaussian over the free coefficients $V$ (a row per column of the design), with its evidence."""

    mean: Float[Array, "p q"]
    cov: Float[Array, "s s"] = field(show=False)

    def logits(self, X: ArrayLike | Rows) -> tuple[Any, Any]:
        """Mean (rows, classes) and a root (rows, classes, classes - 1) of the covariance of the logits."""
        z, xp = self.design(X), namespace(self, X)
        p, q = self.mean.shape
        spread = xp.einsum("ni,iajb,nj->nab", z, xp.asarray(self.cov).reshape(p, q, p, q), z, optimize=True)
        basis = zero_sum_basis(q + 1)
        return z @ xp.asarray(self.mean) @ basis.T, basis[None] @ _roots(spread, xp)

    def predict_proba(self, X: ArrayLike | Rows) -> Any:
        """The mean over the posterior of each class probability."""
        x = points(X, self.centre.shape[0])
        parts = [self._average(x[i : i + _BLOCK]) for i in range(0, max(len(x), 1), _BLOCK)]
        return namespace(self, x).concatenate(parts)

    def _average(self, rows: Any) -> Any:
        mean, root = self.logits(rows)
        xp = namespace(mean)
        shares = softmax_of if xp is np else softmax
        shift = xp.einsum("nka,sa->snk", root, _points(root.shape[2]), optimize=True)
        return (shares(mean[None] + shift, axis=2).mean(0) + shares(mean[None] - shift, axis=2).mean(0)) / 2


def fit_bayes_softmax(
    X: ArrayLike | Rows,
    y: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    *,
    num_classes: int | None = None,
    intercept: bool = True,
    prior_precision: float | int | str = "evidence",
    spread: float | int | None = None,
) -> BayesianSoftmax:
    r"""Laplace's posterior for codes `y`; $\alpha$ is given, or the one of largest evidence."""
    rows, codes, k = class_rows(X, y, weights, num_classes, intercept)
    sweep = softmax_sweep(rows, codes, zero_sum_basis(k))
    found, evidence, alpha, edge = mode_and_precision(
        rows, sweep, prior_precision, copies=k - 1, tol=1e-3, spread=spread
    )
    mean, cov = found.beta.reshape(rows.size, -1), np.linalg.inv(found.hessian)
    parts, ended = (jnp.asarray(mean), jnp.asarray((cov + cov.T) / 2)), (found.num_steps, found.status)
    return BayesianSoftmax.of(rows, evidence, alpha, ended, edge, *parts)


def _roots(covs: Any, xp: Any) -> Any:
    """Lower roots of small covariances, one for each row; a direction without variance has none."""
    columns, count = [], covs.shape[1]
    for j in range(count):
        left = covs[:, :, j] - sum(column * column[:, j, None] for column in columns)
        some = left[:, j] > 1e-14 * covs[:, j, j]
        size = xp.where(some, xp.sqrt(xp.where(some, left[:, j], 1.0)), 1.0)
        columns.append(xp.where(some[:, None] & (np.arange(count) >= j)[None], left / size[:, None], 0.0))
    return xp.stack(columns, 2)


def _points(dim: int) -> np.ndarray:
    """Quasi-random standard normal points, the same in every call."""
    from scipy.stats import qmc

    return ndtri(qmc.Sobol(dim, rng=generator(0)).random(_PAIRS))
