r"""Matern processes on the line as linear stochastic differential equations: exact in time linear in the
rows.

Model.       A Matern process of order $p + \frac12$ is the first entry of a Markov state of $p + 1$ entries,
             the function and its derivatives (`kernels.matern_states`).
Algorithm.   The filter (evidence) and the square-root smoother of `messages.gaussian_chain`, at all rows and
             at new ones among them.
Bridge.      Equal to `gp.regression` with the same kernel, to rounding.
Cost.        $O(n)$ time and memory, plus sorting.
References.  Hartikainen and Sarkka (2010); Sarkka and Solin (2019) section 12.3.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check, has_values
from tractable.core.chunks import bucket_size
from tractable.core.module import HostResult, Module
from tractable.core.programs import program
from tractable.core.rows import Rows
from tractable.core.types import Array, Scalar
from tractable.distributions.continuous import Normal
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.linear_gaussian import LinearGaussian
from tractable.gp.noise import RowNoise
from tractable.gp.points import Observed, Table, log_copies, observe
from tractable.gp.prior import means
from tractable.gp.regression import GaussianProcess
from tractable.kernels.base import Scaled
from tractable.kernels.matern_states import STATIONARY, matern_transition
from tractable.kernels.stationary import Matern12, Matern32, Matern52
from tractable.messages.gaussian_chain import GaussianChain

__all__ = ["MarkovProcess", "SeriesPosterior"]

_ORDERS: dict[type, int] = {Matern12: 0, Matern32: 1, Matern52: 2}


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

    def log_evidence(self, X: Table, y: Any = None, weights: Any = None) -> Scalar:
        r"""$\log p(y) = \sum_n \log p(y_n \mid y_{1:n-1})$, by the filter alone."""
        return _evidence(self.process, _sorted(X, y, weights)[0])

    def posterior(self, X: Table, y: Any = None, weights: Any = None) -> "SeriesPosterior":
        """The process after seeing targets at points in any order; equal points are welcome with noise."""
        series, _ = _sorted(X, y, weights)
        evidence = _evidence(self.process, series)
        if has_values(evidence):
            fix = "Where points repeat without noise, raise `noise`, or drop them."
            check(bool(jnp.isfinite(evidence)), "X", "points whose targets have a density", "none", fix)
        return SeriesPosterior(self.process, series, evidence)


class SeriesPosterior(HostResult):
    """A Markov process after seeing a series: predictions by one pass of filter and smoother. New points are
    sorted in among the rows on the host."""

    process: GaussianProcess
    series: Observed
    log_evidence: Scalar

    _shown = ("num_rows", "log_evidence", "process")

    @property
    def num_rows(self) -> int:
        """How many rows were seen."""
        return self.series.num_rows

    def latent(self, X: Table) -> Normal:
        """The function at each point."""
        mean, variance = self._smoothed(Rows.of(X, num_columns=1).X)
        return Normal(mean, jnp.sqrt(variance))

    def predict_dist(self, X: Table) -> Normal:
        """A new target at each point."""
        rows = Rows.of(X, num_columns=1).X
        mean, variance = self._smoothed(rows)
        return Normal(mean, jnp.sqrt(variance + self.process.noise.at(rows)))

    def _smoothed(self, new: np.ndarray) -> tuple[Array, Array]:
        old, n = self.series, self.num_rows
        pairs = (old.X, new), (old.y, np.zeros(len(new))), (old.weights, np.zeros(len(new)))
        X, y, weights = (np.concatenate([np.asarray(seen)[:n], more]) for seen, more in pairs)
        merged, order = _sorted(Rows(X, y, weights))
        places = np.argsort(order, kind="stable")[n:]
        mean, variance = (np.asarray(part)[places] for part in _smooth(self.process, merged))
        return jnp.asarray(mean), jnp.asarray(variance)


def _sorted(X: Table, y: Any = None, weights: Any = None) -> tuple[Observed, np.ndarray]:
    """The rows in order, padded to a bucket size (nothing here is cubic), and the order."""
    rows = Rows.of(X, y, weights, target="number", num_columns=1, absent="keep")
    order = np.argsort(np.asarray(rows.X)[:, 0], kind="stable")
    return observe(rows.take(order), size=bucket_size), order


def _chain(process: GaussianProcess, series: Observed) -> tuple[GaussianChain, Array]:
    """The state at each row as a Gaussian chain, and the targets, NaN where a row does not count."""
    kernel, variance = process.kernel, 1.0
    base: Any = kernel
    if isinstance(kernel, Scaled):
        base, variance = kernel.kernel, kernel.variance
    order = _ORDERS[type(base)]
    rate = math.sqrt(2 * order + 1) / jnp.reshape(base.length_scale, ())
    moves, drifts = jax.vmap(lambda gap: matern_transition(order, gap))(rate * jnp.diff(series.X[:, 0]))
    size, noise = order + 1, process.noise.at(series.X) / series.safe_weights()
    initial = Gaussian(jnp.zeros(size), variance * jnp.asarray(STATIONARY[order]))
    look = LinearGaussian(jnp.eye(1, size), means(process, series.X)[:, None], noise[:, None, None])
    chain = GaussianChain(initial, LinearGaussian(moves, jnp.zeros(size), variance * drifts), look)
    return chain, jnp.where(series.present, series.y, jnp.nan)[:, None]


@program
def _evidence(process: GaussianProcess, series: Observed) -> Scalar:
    chain, targets = _chain(process, series)
    return chain.log_evidence(targets) + log_copies(process.noise.at(series.X), series)


@program
def _smooth(process: GaussianProcess, series: Observed) -> tuple[Array, Array]:
    """Mean and variance of the function at each row."""
    chain, targets = _chain(process, series)
    smooth = chain.smooth(targets, form="square-root").marginals
    before = chain.initial.cov[0, 0]  # a variance is known to a unit of rounding of this
    variance = jnp.maximum(smooth.cov[:, 0, 0], jnp.finfo(smooth.cov.dtype).eps * before)
    return smooth.mean[:, 0] + means(process, series.X), variance
