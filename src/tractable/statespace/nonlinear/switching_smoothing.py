r"""Smoothing of switching systems: merged Gaussians, all paths of modes, or drawn paths with exact states.

Backward.    From $z_{t+1} = k$ with its smoothed Gaussian, mode $j$ of time $t$ has the Gaussian that the
             filter's belief of $j$ turns it into, and weight $p(z_{t+1} = k \mid y)\,p(j \mid k)$; those of
             one $j$ are merged by their moments.
Kim.         $p(j \mid k) \propto p(z_t = j \mid y_{\le t})\,\Pi_{jk}$: later readings tell of $z_t$ through
             $z_{t+1}$ alone.
Corrected.   $\times\,p(x_{t+1} = \hat x \mid z_t = j, z_{t+1} = k, y_{\le t})$ at the smoothed mean $\hat x$
             of $k$: also through the state (expectation correction). Where that law has no density for some
             mode, it is left out.
Exact.       The smoother of each path of modes, weighted by $p(\text{path} \mid y)$.
Drawn.       Particles of the Rao-Blackwellised filter; backward draws of $(z_t, x_t)$ by weights $w_t^i\,
             \Pi_{z^i z_{t+1}}\,p(x_{t+1} \mid i)$; the states are then forgotten and smoothed exactly given
             each path of modes.
Host.        Readings enter through the filters, which are compiled; the passes back are NumPy over all modes,
             paths or particles of a time at once, and compile nothing.
Cost.        $O(T K^2 d^3)$ merged; a filter and a smoother for each path else.
References.  Kim (1994); Barber (2006); Fong, Godsill, Doucet and West (2002).
"""

from typing import Any

import numpy as np

from tractable.core.estimate import Estimate
from tractable.core.module import HostResult, field
from tractable.core.verdict import Verdict
from tractable.inference.particles.replicates import mean_of_replicates
from tractable.messages.gaussian_turned import Turned, times, turn
from tractable.statespace.nonlinear.switching_passes import Kept, Modes

__all__ = [
    "DrawnSmoothed", "SwitchingSmoothed", "averages", "distance", "draw_back", "smoothed_by_mode",
    "smoothed_mixture",
]  # fmt: skip

_NEAR = 0.05  # of a probability, and of a standard deviation: nearer than readings usually tell


class SwitchingSmoothed(HostResult):
    """Beliefs of modes and states from all readings."""

    modes: Any
    mean: Any
    cov: Any = field(show=False)
    log_likelihood: float
    between: Any = field(show=False)  # lost by merging backward, as a share of a variance
    gap: Any = field(about="from the exact modes, and means in deviations, where measured")
    measured: int = field(static=True, about="readings on which the exact smoother was run beside this")
    method: str = field(static=True)

    @property
    def verdict(self) -> Verdict:
        """How far this is from the mixture over all paths, where that was computed."""
        far, length = np.asarray(self.gap), len(self.modes)
        numbers = {"modes": float(far[0]), "means": float(far[1]), "between": float(self.between.max())}
        if not np.isfinite(np.asarray(self.mean)).all():
            return Verdict(False, "Do not use: a reading has no density under any mode.")
        if self.method == "exact":
            return Verdict(True, "Exact: all paths of modes were followed.", {"modes": 0.0, "means": 0.0})
        said = f"modes are within {far[0]:.2g} and means within {far[1]:.2g} deviations of all paths of modes"
        if self.measured == length:
            good = bool(far.max() <= _NEAR)
            fix = "" if good else ' Use method="exact".'
            return Verdict(good, f"{'Measured' if good else 'Rough'}: {said}.{fix}", numbers)
        fix = "Compare with `particle_smoother`."
        return Verdict(
            False, f"Not certified: on the first {self.measured} of {length} readings {said}. {fix}", numbers
        )


class DrawnSmoothed(HostResult):
    """Modes and states from all readings, by drawn paths of modes, with errors from replicates."""

    mode_shares: Any = field(show=False)
    means: Any = field(show=False)
    seconds: Any = field(show=False)
    num_distinct: Any = field(show=False)
    _shown = ("modes", "mean")

    @property
    def modes(self) -> Estimate:
        r"""$p(z_t = k \mid y)$, shape (times, modes)."""
        return mean_of_replicates(self.mode_shares)

    @property
    def mean(self) -> Estimate:
        r"""$E[x_t \mid y]$."""
        return mean_of_replicates(self.means)

    @property
    def cov(self) -> Estimate:
        r"""$\mathrm{Cov}[x_t \mid y]$."""
        return mean_of_replicates(self.seconds - self.means[..., :, None] * self.means[..., None, :])

    @property
    def verdict(self) -> Verdict:
        """Whether the paths pass through several particles at each time, and the replicates agree."""
        least, error = int(self.num_distinct.min()), float(self.modes.standard_error.max())
        good = least >= 5 and error <= _NEAR
        numbers = {"num_distinct": float(least), "standard_error": error}
        said = f"modes have errors up to {error:.2g}, from {least} distinct particles or more at any time"
        fix = "" if good else " Take more particles and paths."
        return Verdict(good, f"{'Good' if good else 'Weak'}: {said}.{fix}", numbers)


def smoothed_by_mode(modes: Modes, kept: Kept, corrected: bool) -> tuple[Any, Any, Any, Any]:
    """Probabilities of modes, means, covariances and losses of each time, from the filter's beliefs."""
    weights, chain = np.asarray(kept.log_weights), np.asarray(modes.log_transition)
    means, covs = (np.array(leaf) for leaf in (kept.beliefs.mean, kept.beliefs.spread))
    logs, losses = weights.copy(), np.zeros(len(weights))
    for t in range(len(weights) - 2, -1, -1):
        turned = _turn(modes, slice(None), means[t][:, None], covs[t][:, None])  # from each mode to each
        inside = weights[t][:, None] + chain
        if corrected:
            told = _log_density(turned.mean, turned.cov, means[t + 1][None])
            inside = inside + np.where(np.isfinite(told).all(0), told, 0.0)
        joint = logs[t + 1][None] + inside - _finite(_log_sum(inside, 0))[None]
        found = turned.back(means[t + 1][None], covs[t + 1][None])
        means[t], covs[t], lost = _merge(joint, *found)
        logs[t], losses[t] = _log_sum(joint, 1), lost.max()
    mean, cov, _ = _merge(logs, means, covs)
    return np.exp(logs), mean, cov, losses


def smoothed_paths(modes: Modes, kept: Kept, paths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and covariances of each time (t, n, ...) given all readings and each path of modes (n, t)."""
    means, covs = (np.array(leaf) for leaf in (kept.beliefs.mean, kept.beliefs.spread))
    for t in range(len(means) - 2, -1, -1):
        turned = _turn(modes, paths[:, t + 1], means[t], covs[t])
        means[t], covs[t] = turned.back(means[t + 1], covs[t + 1])
    return means, covs


def smoothed_mixture(modes: Modes, kept: Kept, paths: np.ndarray) -> tuple[Any, Any, Any]:
    """Probabilities of modes, means and covariances of each time, from all paths of modes."""
    means, covs = smoothed_paths(modes, kept, paths)
    logs = np.asarray(kept.log_weights)[-1]
    shares = np.exp(logs - _log_sum(logs, 0))
    marks = np.eye(len(modes.log_initial))[paths]
    mean, cov, _ = _merge(np.broadcast_to(logs, means.shape[:2]), means, covs)
    return np.einsum("n,ntk->tk", shares, marks), mean, cov


def distance(found: Any, exact: Any) -> np.ndarray:
    """The largest distance of a probability, and of a mean in exact standard deviations."""
    scale = np.sqrt(np.maximum(np.diagonal(exact[2], axis1=1, axis2=2), 0.0))
    away = np.where(scale > 0, np.abs(found[1] - exact[1]) / np.where(scale > 0, scale, 1.0), 0.0)
    return np.array([np.abs(found[0] - exact[0]).max(), away.max()])


def draw_back(
    modes: Modes, history: Any, random: np.random.Generator, num_paths: int
) -> tuple[np.ndarray, np.ndarray]:
    """Paths of modes (replicates, paths, times) drawn backward, and how many particles they pass through."""
    cloud, logs = history.particles, np.asarray(history.log_weights)
    mode, mean, cov = (np.asarray(a) for a in (cloud.mode, cloud.belief.mean, cloud.belief.spread))
    chain, (num, length, _) = np.asarray(modes.log_transition), logs.shape
    rows, paths = np.arange(num)[:, None], np.zeros((num, num_paths, length), np.int64)
    index = _choose(random, np.repeat(logs[:, -1][:, None], num_paths, 1))
    distinct = [_distinct(index)]
    paths[..., -1] = mode[:, -1][rows, index]
    x = _draw(random, mean[:, -1][rows, index], cov[:, -1][rows, index])
    for t in range(length - 2, -1, -1):
        after = paths[..., t + 1]
        turned = _turn(modes, slice(None), mean[:, t][:, :, None], cov[:, t][:, :, None])
        scores = logs[:, t][:, None] + chain[mode[:, t][:, None], after[..., None]]
        # (replicates, particles, modes, ...) to (replicates, paths, particles, ...)
        to_mean, to_cov = (np.moveaxis(leaf, 2, 1)[rows, after] for leaf in turned[:2])
        index = _choose(random, scores + _log_density(to_mean, to_cov, x[:, :, None]))
        gain, bias, rest = (leaf[rows, index, after] for leaf in turned[2:])
        x = _draw(random, times(gain, x) + bias, rest)
        paths[..., t] = mode[:, t][rows, index]
        distinct.append(_distinct(index))
    return paths, np.stack(distinct[::-1], 1)


def averages(modes: Modes, kept: Kept, paths: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Over the paths of each replicate (r, p, t): modes, means and second moments of the states."""
    num, count, length = paths.shape
    means, covs = smoothed_paths(modes, kept, paths.reshape(-1, length))
    seconds = covs + means[..., :, None] * means[..., None, :]
    marks = np.eye(len(modes.log_initial))[paths].mean(1)
    each = [leaf.reshape(length, num, count, *leaf.shape[2:]).mean(2) for leaf in (means, seconds)]
    return marks, np.swapaxes(each[0], 0, 1), np.swapaxes(each[1], 0, 1)


def _turn(modes: Modes, which: Any, mean: np.ndarray, cov: np.ndarray) -> Turned:
    """The steps of the modes `which`, turned round at beliefs."""
    A, b, Q = (np.asarray(a)[which] for a in (modes.moves.weights, modes.moves.bias, modes.moves.spread))
    return turn(A, b, Q, mean, cov)


def _log_density(mean: np.ndarray, cov: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Of points under normal laws; NaN where a covariance is singular."""
    sign, log_det = np.linalg.slogdet(cov)
    values = np.linalg.eigvalsh(cov)
    whole = (sign > 0) & (values[..., 0] > 10 * cov.shape[-1] * np.finfo(float).eps * values[..., -1])
    safe = np.where(whole[..., None, None], cov, np.eye(cov.shape[-1]))
    away = x - mean
    squares = np.einsum("...i,...ij,...j->...", away, np.linalg.inv(safe), away)
    return np.where(whole, -0.5 * (squares + log_det + cov.shape[-1] * np.log(2 * np.pi)), np.nan)


def _merge(
    logs: np.ndarray, means: np.ndarray, covs: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One Gaussian for those along the last axis of the weights, and what is lost by it."""
    shares = np.exp(logs - _finite(_log_sum(logs, -1))[..., None])
    possible = shares.sum(-1, keepdims=True) > 0
    shares = np.where(possible, shares, 1 / logs.shape[-1])
    mean = np.einsum("...n,...ni->...i", shares, means)
    apart = means - mean[..., None, :]
    within = np.einsum("...n,...nij->...ij", shares, covs)
    between = np.einsum("...n,...ni,...nj->...ij", shares, apart, apart)
    inside, middle = (np.diagonal(leaf, axis1=-2, axis2=-1) for leaf in (within, between))
    uneven = np.abs(np.diagonal(covs, axis1=-2, axis2=-1) - inside[..., None, :])
    total = inside + middle
    loss = (middle + np.einsum("...n,...ni->...i", shares, uneven)) / np.where(total > 0, total, np.inf)
    return mean, within + between, np.where(possible[..., 0], loss.max(-1), 0.0)


def _choose(random: np.random.Generator, logs: np.ndarray) -> np.ndarray:
    """One index along the last axis for each row, by weight; NaN has none."""
    weights = np.exp(np.where(np.isnan(logs), -np.inf, logs) - np.nanmax(logs, -1, keepdims=True))
    ends = np.cumsum(weights, -1)
    shares = random.random((*logs.shape[:-1], 1)) * ends[..., -1:]
    return np.minimum((ends <= shares).sum(-1), logs.shape[-1] - 1)


def _draw(random: np.random.Generator, mean: np.ndarray, cov: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(cov)
    noise = random.standard_normal(mean.shape) * np.sqrt(np.maximum(values, 0.0))
    return mean + times(vectors, noise)


def _distinct(index: np.ndarray) -> Any:
    order = np.sort(index, -1)
    return 1 + (order[..., 1:] != order[..., :-1]).sum(-1)


def _log_sum(logs: np.ndarray, axis: int) -> Any:
    return np.logaddexp.reduce(logs, axis=axis)


def _finite(value: Any) -> Any:
    return np.where(value > -np.inf, value, 0.0)
