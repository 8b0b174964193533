r"""Matern processes on the line as linear stochastic differential equations: exact in time linear in the
rows.

Model.       A Matern process of order $p + \frac12$ is the first entry of a Markov state of $p + 1$ entries,
             the function and its derivatives. In units of $\lambda = \sqrt{2p + 1}/\ell$ and of the variance,
             the state a time $\Delta$ later is $N(A s, Q)$ with $A = e^{-x}\sum_{k \le p} x^k N^k/k!$,
             $x = \lambda\Delta$, $N$ nilpotent, and $Q = P_\infty - A P_\infty A^\top = \int_0^x e^{Fu} q
             e^{F^\top u}\,du$ (the integral where the difference would cancel).
Algorithm.   A Kalman filter forward (evidence), a smoother back without any inverse (Durbin and Koopman), at
             all rows and at new ones among them.
Bridge.      Equal to `gp.regression` with the same kernel, to rounding.
Cost.        $O(n)$ time and memory, plus sorting.
References.  Hartikainen and Sarkka (2010); Sarkka and Solin (2019) section 12.3; Durbin and Koopman (2012)
             4.4.
"""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check, has_values
from tractable.core.chunks import bucket_size, pad_rows
from tractable.core.iterate import run
from tractable.core.linalg import symmetrise
from tractable.core.module import Module
from tractable.core.types import Array, ArrayLike, Scalar
from tractable.distributions.continuous import Normal
from tractable.gp.noise import RowNoise
from tractable.gp.points import Observed, as_points, log_copies, observe
from tractable.gp.prior import means
from tractable.gp.regression import GaussianProcess
from tractable.kernels.base import Scaled
from tractable.kernels.stationary import Matern12, Matern32, Matern52

__all__ = ["MarkovProcess", "SeriesPosterior"]

_ORDERS: dict[type, int] = {Matern12: 0, Matern32: 1, Matern52: 2}
_COMPANION = (
    np.array([[-1.0]]),
    np.array([[0.0, 1], [-1, -2]]),
    np.array([[0.0, 1, 0], [0, 0, 1], [-1, -3, -3]]),
)
_STATIONARY = (
    np.array([[1.0]]),
    np.array([[1.0, 0], [0, 1]]),
    np.array([[1.0, 0, -1 / 3], [0, 1 / 3, 0], [-1 / 3, 0, 1]]),
)
_DIFFUSION = (2.0, 4.0, 16 / 3)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


class MarkovProcess(Module):
    """A `GaussianProcess` on the line with a Matern kernel (or one times a variance), in state-space form.

    >>> process = MarkovProcess(GaussianProcess(2.0 * Matern32(0.5), noise=0.1))
    >>> round(float(process.log_evidence([0.0, 1.0], [0.3, -0.2])), 6)
    -2.606261
    """

    process: GaussianProcess

    def __check_init__(self) -> None:
        kernel = self.process.kernel
        base = kernel.kernel if isinstance(kernel, Scaled) else kernel
        known = type(base) in _ORDERS and jnp.size(getattr(base, "length_scale", 1.0)) == 1
        fix = "Use `GaussianProcess` itself for other kernels."
        check(known, "kernel", "a Matern12, Matern32 or Matern52, or one times a variance", repr(kernel), fix)
        certain = self.process.mean.variances(jnp.zeros((1, 1))) is None
        check(certain, "mean", "without uncertain coefficients", type(self.process.mean).__name__)
        by_row = isinstance(self.process.noise, RowNoise)
        check(not by_row, "noise", "one variance, or a function of the point", "one for each row")

    def log_evidence(self, x: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> Scalar:
        r"""$\log p(y) = \sum_n \log p(y_n \mid y_{1:n-1})$, by the filter alone."""
        return _evidence(self.process, _sorted(observe(x, y, weights))[0])

    def posterior(self, x: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> "SeriesPosterior":
        """The process after seeing targets at points in any order; equal points are welcome with noise."""
        series, _ = _sorted(observe(as_points("x", x, 1), y, weights))
        evidence = _evidence(self.process, series)
        if has_values(evidence):
            fix = "Where points repeat without noise, raise `noise`, or drop them."
            check(bool(jnp.isfinite(evidence)), "x", "points whose targets have a density", "none", fix)
        return SeriesPosterior(self.process, series, evidence)


class SeriesPosterior(Module):
    """A Markov process after seeing a series: predictions by one pass of filter and smoother."""

    process: GaussianProcess
    series: Observed
    log_evidence: Scalar

    def latent(self, x: ArrayLike) -> Normal:
        """The function at each point."""
        mean, variance = self._smoothed(x)
        return Normal(mean, jnp.sqrt(variance))

    def predictive(self, x: ArrayLike) -> Normal:
        """A new target at each point."""
        mean, variance = self._smoothed(x)
        return Normal(mean, jnp.sqrt(variance + self.process.noise.at(as_points("x", x, 1))))

    def _smoothed(self, x: ArrayLike) -> tuple[Array, Array]:
        new = np.asarray(as_points("x", x, 1))
        old, n = self.series, self.series.num_rows
        rows = np.concatenate([np.asarray(old.X)[:n], new])
        y = np.concatenate([np.asarray(old.y)[:n], np.zeros(len(new))])
        weights = np.concatenate([np.asarray(old.weights)[:n], np.zeros(len(new))])
        merged, order = _sorted(observe(rows, y, weights))
        mean, variance = _smooth(self.process, merged)
        places = np.argsort(order, kind="stable")[n:]
        return jnp.asarray(np.asarray(mean)[places]), jnp.asarray(np.asarray(variance)[places])

    def __repr__(self) -> str:
        if not has_values(self):
            return "SeriesPosterior(...)"
        return (
            f"SeriesPosterior({self.series.num_rows} rows, log-evidence {float(self.log_evidence):.4f}, "
            f"exact: Kalman smoother, {self.process.kernel!r})"
        )


def _sorted(observed: Observed) -> tuple[Observed, np.ndarray]:
    """The rows in order, padded to a bucket size (nothing here is cubic), and the order."""
    n = observed.num_rows
    order = np.argsort(np.asarray(observed.X)[:n, 0], kind="stable")
    parts = [np.asarray(a)[order] for a in (observed.X, observed.y, observed.within, observed.weights)]
    padded: Any = pad_rows(tuple(parts[:3]), parts[3], size=bucket_size(n))
    (rows, y, within), weights = padded
    return Observed(rows, y, weights, within, observed.count), order


class _Filtered(Module):
    """Predicted moments at each row with what its target taught."""

    mean: Array
    cov: Array
    gap: Array  # target minus its prediction, over the variance; zero where there is none
    precision: Array  # one over the variance of the prediction; zero where there is no target
    log_density: Array


def _filter(process: GaussianProcess, series: Observed) -> tuple[_Filtered, tuple[Array, Array]]:
    base, variance, moves = _parts(process, series)
    residual = series.y - means(process.mean, series.X)
    noise = process.noise.at(series.X) / series.safe_weights() / variance
    start = (jnp.zeros(len(base)), jnp.asarray(base))

    def step(state: Any, row: Any) -> Any:
        (mean, cov), (move, drift, target, extra, seen) = state, row
        mean, cov = move @ mean, symmetrise(move @ cov @ move.T + drift)
        spread = cov[0, 0] + extra
        precision = jnp.where(seen, 1 / jnp.where(seen, spread, 1.0), 0.0)
        gap = (target - mean[0]) * precision
        shown = -0.5 * (jnp.log(2 * jnp.pi * variance * spread) + (target - mean[0]) * gap / variance)
        after = mean + cov[:, 0] * gap, symmetrise(cov - precision * jnp.outer(cov[:, 0], cov[:, 0]))
        return after, _Filtered(mean, cov, gap, precision, jnp.where(seen, shown, 0.0))

    rows = (*moves, residual, noise, series.present)
    return run(step, start, rows).trace, moves


def _parts(process: GaussianProcess, series: Observed) -> tuple[np.ndarray, Array, tuple[Array, Array]]:
    """The stationary covariance, the variance of the function, transition and drift to each row."""
    kernel, variance = process.kernel, 1.0
    base: Any = kernel
    if isinstance(kernel, Scaled):
        base, variance = kernel.kernel, kernel.variance
    order = _ORDERS[type(base)]
    rate = math.sqrt(2 * order + 1) / jnp.reshape(base.length_scale, ())
    x = series.X[:, 0]
    gaps = rate * jnp.concatenate([jnp.zeros(1, x.dtype), jnp.diff(x)])
    moves, drifts = jax.vmap(lambda gap: _transition(order, gap))(gaps)
    return _STATIONARY[order], jnp.asarray(variance), (moves, drifts)


def _transition(order: int, gap: Array) -> tuple[Array, Array]:
    """$A$ and $Q$ a scaled time `gap` later."""

    def move(u: Array) -> Array:
        nilpotent = _COMPANION[order] + np.eye(order + 1)
        terms = [u**k / math.factorial(k) * np.linalg.matrix_power(nilpotent, k) for k in range(order + 1)]
        return jnp.exp(-u) * sum(terms[1:], start=terms[0])

    short = jnp.minimum(gap, 0.5)
    columns = jax.vmap(lambda node: move(0.5 * short * (1 + node))[:, -1])(jnp.asarray(_NODES))
    integral = 0.5 * short * _DIFFUSION[order] * (columns.T * jnp.asarray(_WEIGHTS)[None]) @ columns
    whole = move(gap)
    stationary = jnp.asarray(_STATIONARY[order])
    return whole, jnp.where(gap < 0.5, integral, stationary - whole @ stationary @ whole.T)


@eqx.filter_jit
def _evidence(process: GaussianProcess, series: Observed) -> Scalar:
    copies = log_copies(process.noise.at(series.X), series)
    return _filter(process, series)[0].log_density.sum() + copies


@eqx.filter_jit
def _smooth(process: GaussianProcess, series: Observed) -> tuple[Array, Array]:
    """Mean and variance of the function at each row."""
    filtered, (moves, _) = _filter(process, series)
    base, variance, _ = _parts(process, series)
    size = len(base)
    first = jnp.eye(size)[0]
    later = jnp.concatenate([moves[1:], jnp.eye(size)[None]])

    def back(state: Any, row: Any) -> Any:
        (score, information), (seen, onward) = state, row
        kept = onward @ (jnp.eye(size) - seen.precision * jnp.outer(seen.cov[:, 0], first))
        score = seen.gap * first + kept.T @ score
        information = seen.precision * jnp.outer(first, first) + kept.T @ information @ kept
        column = seen.cov[:, 0]
        return (score, information), (
            seen.mean[0] + column @ score,
            seen.cov[0, 0] - column @ information @ column,
        )

    start = (jnp.zeros(size), jnp.zeros((size, size)))
    reverse = jax.tree.map(lambda leaf: leaf[::-1], (filtered, later))
    mean, spread = run(back, start, reverse).trace
    known = jnp.finfo(spread.dtype).eps  # a difference: known to a unit of rounding of the variance
    return mean[::-1] + means(process.mean, series.X), variance * jnp.maximum(spread[::-1], known)
