r"""Missing entries of a Gaussian mixture, integrated out exactly: no row is dropped, no value is invented.

Identity.    With the observed part $o$ and the missing part $m$ of a row, $p(x_o) = \sum_k w_kN(x_o;
             \mu_{k,o}, \Sigma_{k,oo})$, and given component $k$, $x_m \mid x_o \sim N(\hat x_{k,m}, C_k)$
             with $\hat x_{k,m} = \mu_{k,m} + \Sigma_{k,mo}\Sigma_{k,oo}^{-1}(x_o - \mu_{k,o})$ and $C_k =
             \Sigma_{k,mm} - \Sigma_{k,mo}\Sigma_{k,oo}^{-1}\Sigma_{k,om}$. The expected statistics are
             those of the completed row, plus $C_k$ in the second moment.
Valid.       Where entries are missing at random: whether one is missing depends on observed entries alone.
Cost.        One factor per component and pattern of missing entries: $O(\text{patterns}\cdot kd^3 + nkd^2)$.
References.  Ghahramani and Jordan (1994); Little and Rubin (2002) chapter 11.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tractable.core.checks import namespace
from tractable.distributions.soft_moments import Quadratics, SoftMoments, precision_roots, scores

__all__ = [
    "has_gaps", "impute", "moments_of_shares", "observed_moments", "observed_scores", "regress",
]  # fmt: skip

_LOG_2PI = float(np.log(2 * np.pi))


def has_gaps(rows: Any) -> bool:
    """Whether entries are missing; rows that are traced are taken as whole."""
    return namespace(rows) is np and bool(np.isnan(np.asarray(rows)).any())


def observed_scores(model: Any, rows: np.ndarray) -> np.ndarray:
    r"""$\log w_k + \log N(x_o; \mu_{k,o}, \Sigma_{k,oo})$ of each row; $\log w_k$ where nothing is
    observed."""
    found = np.empty((len(rows), model.num_components))
    for index, known in patterns(rows):
        found[index] = scores(_marginal(model, known), rows[np.ix_(index, known)])
    return found


def observed_moments(model: Any, rows: np.ndarray, weights: np.ndarray) -> tuple[SoftMoments, Any]:
    """The expected moments about the model's centre, and the log-evidence; additive over rows."""
    joint = observed_scores(model, rows)
    heights = np.logaddexp.reduce(joint, axis=1)
    shares = weights[:, None] * np.exp(joint - np.where(heights > -np.inf, heights, 0.0)[:, None])
    return moments_of_shares(model, rows, shares), float(weights @ np.where(weights > 0, heights, 0.0))


def moments_of_shares(model: Any, rows: np.ndarray, shares: np.ndarray) -> SoftMoments:
    """The expected moments of rows of which each component owns the given share, (n, k)."""
    k, dim, centre = model.num_components, model.dim, np.asarray(model.centre)
    means, cov = np.asarray(model.means), np.asarray(model.covariances)
    first, second = np.zeros((k, dim)), np.zeros((k, dim, dim))
    for index, known in patterns(rows):
        rest = np.setdiff1d(np.arange(dim), known)
        seen, own = rows[np.ix_(index, known)], shares[index]
        expected, left = regress(means, cov, known, rest)
        filled = np.empty((k, len(index), dim))
        filled[:, :, known] = seen
        filled[:, :, rest] = expected(seen)
        filled -= centre
        weighted = own.T[:, :, None] * filled
        first += weighted.sum(1)
        second += weighted.swapaxes(1, 2) @ filled
        second[:, rest[:, None], rest] += own.sum(0)[:, None, None] * left
    full = model.spread.needs_full
    second = second if full else np.diagonal(second, axis1=1, axis2=2).copy()
    return SoftMoments(shares.sum(0), first, second)


def impute(model: Any, rows: Any) -> np.ndarray:
    r"""Rows with each missing entry replaced by its mean given the others, $E[x_m \mid x_o]$.

    >>> from tractable.latent.mixtures.gaussian import GaussianMixture
    >>> one = GaussianMixture([1.0], [[0.0, 0.0]], np.array([[[1.0, 0.5], [0.5, 1.0]]]))
    >>> impute(one, [[2.0, np.nan]]).tolist()
    [[2.0, 1.0]]
    """
    filled = np.array(rows, float)
    shares = model.responsibilities(filled)
    means, cov = np.asarray(model.means), np.asarray(model.covariances)
    for index, known in patterns(filled):
        rest = np.setdiff1d(np.arange(model.dim), known)
        if len(rest):
            expected = regress(means, cov, known, rest)[0](filled[np.ix_(index, known)])
            filled[np.ix_(index, rest)] = np.einsum("nk,knm->nm", shares[index], expected)
    return filled


def regress(
    means: np.ndarray, cov: np.ndarray, known: np.ndarray, rest: np.ndarray
) -> tuple[Callable[[np.ndarray], np.ndarray], np.ndarray]:
    """What the columns `known` say of the columns `rest` within each component: the means as a function of
    values (n, o) -> (k, n, m), and the covariances that are left."""
    across = cov[:, rest[:, None], known]
    gain = np.linalg.solve(cov[:, known[:, None], known], across.swapaxes(1, 2)).swapaxes(1, 2)
    left = cov[:, rest[:, None], rest] - gain @ across.swapaxes(1, 2)

    def expected(values: np.ndarray) -> np.ndarray:
        return means[:, None, rest] + (values[None] - means[:, None, known]) @ gain.swapaxes(1, 2)

    return expected, 0.5 * (left + left.swapaxes(1, 2))


def patterns(rows: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows with the same entries observed: their indices, and the columns."""
    seen = ~np.isnan(rows)
    kinds, which = np.unique(np.packbits(seen, axis=1), axis=0, return_inverse=True)
    order = np.argsort(which.ravel(), kind="stable")
    for index in np.split(order, np.cumsum(np.bincount(which.ravel(), minlength=len(kinds)))[:-1]):
        yield index, np.flatnonzero(seen[index[0]])


def _marginal(model: Any, known: np.ndarray) -> Quadratics:
    cov = np.asarray(model.covariances)[:, known[:, None], known]
    root, log_det = precision_roots(cov)
    with np.errstate(divide="ignore"):
        offset = np.log(np.asarray(model.weights)) - 0.5 * (log_det + len(known) * _LOG_2PI)
    return Quadratics(offset, np.asarray(model.means)[:, known], root)
