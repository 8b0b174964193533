r"""Unknown starts: the exact diffuse likelihood, its score, and states, by regression on the start.

Model.       $x_1 = x^* + \sum_j \delta_j e_j$ with $\delta$ flat over the states without a prior. Readings
             are linear in $\delta$: series $0$ is the data, series $j$ the response of zero readings to a
             unit start; all share one pass of covariances.
Likelihood.  With whitened innovations $w_0 + W\delta$: $\ell = \ell_0 + \frac12 b^\top S^{-1} b -
             \frac12\log|S|$, $S = W^\top W$, $b = W^\top w_0$: the limit of $\log p(y) + \frac q2\log\kappa$
             for $\delta \sim N(0, \kappa I)$, $\kappa \to \infty$. Any proper spread may be added to a flat
             start, so that no innovation is singular.
Centred.     The data's pass then begins at $\hat\delta$, by its responses: a level of $10^9$ with changes of
             one would otherwise leave $\ell$ as a difference of numbers of $10^{18}$.
States.      $\delta \mid y \sim N(-S^{-1}b, S^{-1})$; means and covariances of states follow linearly.
Score.       Given $\delta$ it is that of `messages.gaussian_back`; averaged over $\delta \mid y$.
Cost.        That of $1 + q$ series with shared covariances.
References.  de Jong (1991); Durbin and Koopman (2012) chapter 5.
"""

from typing import NamedTuple

import numpy as np

from tractable.core.blas import one_blas_thread
from tractable.core.checks import check
from tractable.messages.gaussian_back import Score, adjoint, score, smoothed_covariances, smoothed_means
from tractable.messages.gaussian_host import HostChain, Passed
from tractable.messages.gaussian_recursion import apply
from tractable.statespace.kalman.passes import passed

__all__ = ["Started", "ahead", "diffuse_score", "one_step", "smoothed", "started"]


class Started(NamedTuple):
    """A pass over the data from the most probable start, the responses to each unknown start, and the
    posterior of what the start has beyond."""

    chain: HostChain
    passed: Passed
    seen: np.ndarray
    start: np.ndarray
    start_cov: np.ndarray
    log_likelihood: float

    @property
    def weights(self) -> np.ndarray:
        r"""$(1, \hat\delta)$."""
        return np.concatenate([[1.0], self.start])


def started(chain: HostChain, unknown: np.ndarray, y: np.ndarray) -> Started:
    """The pass over one series `(T, m)`; `unknown` are the states with a flat start."""
    places, d = np.flatnonzero(unknown), len(chain.cov)
    q = len(places)
    means = np.concatenate([chain.mean[:1], np.eye(d)[places]])
    ys = np.concatenate(
        [y[:, None], np.where(np.isnan(y)[:, None], np.nan, np.zeros((len(y), q, y.shape[1])))], 1
    )
    many = chain._replace(mean=means, b=_only_first(chain.b, q), c=_only_first(chain.c, q))
    found = passed(many, ys)
    white = _white(found)
    if q == 0:
        base = float(found.log_densities[:, 0].sum())
        return Started(many, found, ~np.isnan(ys), np.zeros(0), np.zeros((0, 0)), base)
    W, w = white[:, 1:].transpose(0, 2, 1).reshape(-1, q), white[:, 0].reshape(-1)
    # in units in which the columns have length one
    scale = np.sqrt((W**2).sum(0))
    _check_told(scale, W, y)
    left, values, right = np.linalg.svd(W / scale, full_matrices=False)
    _check_told(values, W, y)
    first = -(right.T @ (left.T @ w / values)) / scale
    means[0, places] += first
    found, w = _centred(found, first), w + W @ first
    b = left.T @ w
    inverse = (right.T / values**2) @ right / np.outer(scale, scale)
    sizes = found.covariances.log_det[found.covariances.slot].sum() + (~np.isnan(y)).sum() * np.log(2 * np.pi)
    total = -0.5 * float(sizes + w @ w - b @ b) - float(np.log(values).sum() + np.log(scale).sum())
    return Started(many, found, ~np.isnan(ys), -(right.T @ (b / values)) / scale, inverse, total)


def diffuse_score(found: Started) -> Score:
    """The derivative of the diffuse likelihood with respect to the matrices of each time."""
    with one_blas_thread():
        back = adjoint(found.chain, found.passed, found.seen)
        mean = found.weights
        spread = np.outer(mean, mean)
        spread[1:, 1:] += found.start_cov
        return score(found.chain, found.passed, back, found.seen, spread)


def smoothed(found: Started) -> tuple[np.ndarray, np.ndarray]:
    """Means `(T, d)` and covariances `(T, d, d)` of the states given all readings."""
    with one_blas_thread():
        back = adjoint(found.chain, found.passed, found.seen)
        means = smoothed_means(found.passed, back)
        covs, _ = smoothed_covariances(found.chain, found.passed, back)
    return _combined(found, means, covs)


def ahead(found: Started) -> tuple[np.ndarray, np.ndarray]:
    """Means and covariances of the states before each reading, with the start known as well as it is at the
    end: of times behind the last reading, the forecast."""
    slot = found.passed.covariances.slot
    return _combined(found, found.passed.predicted, found.passed.covariances.predicted[slot])


def one_step(found: Started) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of each reading of one entry given those before it; NaN until the start is told."""
    white, q = _white(found.passed)[:, :, 0], len(found.start)
    slot = found.passed.covariances.slot
    root = 1 / found.passed.covariances.whitener[slot][:, 0, 0]
    looked = (
        apply(found.chain.C, found.passed.predicted)[:, :, 0]
        + np.broadcast_to(found.chain.c, (1, 1 + q, 1) if len(found.chain.c) == 1 else found.chain.c.shape)[
            :, :, 0
        ]
    )
    if q == 0:
        return looked[:, 0], root**2
    W = white[:, 1:]
    mean, variance = np.full(len(W), np.nan), np.full(len(W), np.nan)
    S, b = np.zeros((q, q)), np.zeros(q)
    told = 0
    for t in range(len(W)):
        if told >= q and _is_regular(S):
            start = -np.linalg.solve(S, b)
            mean[t] = looked[t, 0] + looked[t, 1:] @ start
            variance[t] = root[t] ** 2 + looked[t, 1:] @ np.linalg.solve(S, looked[t, 1:])
        S, b = S + np.outer(W[t], W[t]), b + W[t] * white[t, 0]
        told += bool(found.seen[t, 0, 0])
    return mean, variance


def _combined(found: Started, means: np.ndarray, covs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean = np.einsum("n,tnd->td", found.weights, means)
    effects = means[:, 1:]
    return mean, covs + np.einsum("tid,ij,tje->tde", effects, found.start_cov, effects, optimize=True)


def _centred(found: Passed, first: np.ndarray) -> Passed:
    """The pass of which series 0 begins at another start: its own means, and its responses so often."""
    parts = {}
    for name in ("predicted", "filtered", "gaps"):
        parts[name] = leaf = getattr(found, name).copy()
        leaf[:, 0] += np.einsum("tnd,n->td", leaf[:, 1:], first)
    return found._replace(**parts)


def _white(found: Passed) -> np.ndarray:
    """The whitened innovations, zero where a reading is missing."""
    return apply(found.covariances.whitener[found.covariances.slot], found.gaps)


def _only_first(shift: np.ndarray, q: int) -> np.ndarray:
    """A shift of the data that the responses do not have."""
    if not shift.any():
        return shift[:, :1]
    return np.concatenate([shift[:, :1], np.zeros((len(shift), q, shift.shape[2]))], 1)


def _is_regular(S: np.ndarray) -> bool:
    scale = np.sqrt(np.diag(S))
    return bool((scale > 0).all()) and float(np.linalg.cond(S / np.outer(scale, scale))) < 1e13


def _check_told(sizes: np.ndarray, W: np.ndarray, y: np.ndarray) -> None:
    told = len(sizes) and sizes.min() > 1e-9 * max(sizes.max(), 1e-300) and np.isfinite(sizes).all()
    fix = "Give more readings, or take out a component."
    got = f"{int((~np.isnan(y)).sum())} readings for {W.shape[1]} unknown starts"
    check(bool(told), "y", "readings that tell every state without a prior", got, fix)
