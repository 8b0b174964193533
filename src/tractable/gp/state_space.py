r"""Matern processes on the line as linear stochastic differential equations: exact in time linear in the
rows.

Model.       A Matern process of order $p + \frac12$ is the first entry of a Markov state of $p + 1$ entries,
             the function and its derivatives. In units of $\lambda = \sqrt{2p + 1}/\ell$ and of the variance,
             the state a time $\Delta$ later is $N(A s, Q)$ with $A = e^{-x}\sum_{k \le p} x^k N^k/k!$,
             $x = \lambda\Delta$, $N$ nilpotent, and $Q = P_\infty - A P_\infty A^\top = \int_0^x e^{Fu} q
             e^{F^\top u}\,du$ (the integral where the difference would cancel).
Algorithm.   The filter (evidence) and the square-root smoother of `messages.gaussian_chain`, at all rows and
             at new ones among them.
Bridge.      Equal to `gp.regression` with the same kernel, to rounding.
Cost.        $O(n)$ time and memory, plus sorting.
References.  Hartikainen and Sarkka (2010); Sarkka and Solin (2019) section 12.3.
"""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check, has_values
from tractable.core.chunks import bucket_size, pad_rows
from tractable.core.module import HostResult, Module
from tractable.core.types import Array, ArrayLike, Scalar
from tractable.distributions.continuous import Normal
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.linear_gaussian import LinearGaussian
from tractable.gp.noise import RowNoise
from tractable.gp.points import Observed, as_points, log_copies, observe
from tractable.gp.prior import means
from tractable.gp.regression import GaussianProcess
from tractable.kernels.base import Scaled
from tractable.kernels.stationary import Matern12, Matern32, Matern52
from tractable.messages.gaussian_chain import GaussianChain

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


class SeriesPosterior(HostResult):
    """A Markov process after seeing a series: predictions by one pass of filter and smoother. New points are
    sorted in among the rows on the host."""

    process: GaussianProcess
    series: Observed
    log_evidence: Scalar

    def latent(self, x: ArrayLike) -> Normal:
        """The function at each point."""
        mean, variance = self._smoothed(x)
        return Normal(mean, jnp.sqrt(variance))

    def predict_dist(self, x: ArrayLike) -> Normal:
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


def _chain(process: GaussianProcess, series: Observed) -> tuple[GaussianChain, Array]:
    """The state at each row as a Gaussian chain, and the targets, NaN where a row does not count."""
    kernel, variance = process.kernel, 1.0
    base: Any = kernel
    if isinstance(kernel, Scaled):
        base, variance = kernel.kernel, kernel.variance
    order = _ORDERS[type(base)]
    rate = math.sqrt(2 * order + 1) / jnp.reshape(base.length_scale, ())
    moves, drifts = jax.vmap(lambda gap: _transition(order, gap))(rate * jnp.diff(series.X[:, 0]))
    size, noise = order + 1, process.noise.at(series.X) / series.safe_weights()
    initial = Gaussian(jnp.zeros(size), variance * jnp.asarray(_STATIONARY[order]))
    look = LinearGaussian(jnp.eye(1, size), means(process.mean, series.X)[:, None], noise[:, None, None])
    chain = GaussianChain(initial, LinearGaussian(moves, jnp.zeros(size), variance * drifts), look)
    return chain, jnp.where(series.present, series.y, jnp.nan)[:, None]


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
    chain, targets = _chain(process, series)
    return chain.log_evidence(targets) + log_copies(process.noise.at(series.X), series)


@eqx.filter_jit
def _smooth(process: GaussianProcess, series: Observed) -> tuple[Array, Array]:
    """Mean and variance of the function at each row."""
    chain, targets = _chain(process, series)
    smooth = chain.smooth(targets, form="square-root").marginals
    before = chain.initial.cov[0, 0]  # a variance is known to a unit of rounding of this
    variance = jnp.maximum(smooth.cov[:, 0, 0], jnp.finfo(smooth.cov.dtype).eps * before)
    return smooth.mean[:, 0] + means(process.mean, series.X), variance
