r"""Calibration: whether stated uncertainty is true, on rows that were not used in the fit.

Coverage.    Intervals of mass $c$ should hold the share $c$ of what happened.
PIT.         $u = F(y)$ is uniform if $F$ is the distribution of $y$; for counts $F(y^-) + v\,p(y)$ with
             $v$ uniform. The Kolmogorov-Smirnov test says how surprising the departure is.
Reliability. Among cases given probability $p$, the share $p$ should happen; the expected calibration error
             is the mean gap over bins, $\sum_b \frac{n_b}{n}|\bar o_b - \bar p_b|$.
Cost.        One sort.
References.  Dawid (1984); Gneiting, Balabdaoui and Raftery (2007); Guo, Pleiss, Sun and Weinberger (2017).
"""

from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from scipy.stats import binomtest, kstest

from tractable.core.checks import (
    as_float,
    check,
    check_count,
    check_entries,
    check_finite,
    check_length,
    check_option,
)
from tractable.core.estimate import Estimate
from tractable.core.module import Module
from tractable.core.types import Array, ArrayLike, Float, Int, Key
from tractable.core.verdict import Verdict

__all__ = [
    "Coverage", "Reliability", "coverage_curve", "interval_coverage", "pit", "reliability",
    "uniformity",
]  # fmt: skip


class Coverage(Estimate):
    """The observed share inside the intervals with its standard error, against the nominal one."""

    nominal: float
    p_value: float  # of the exact binomial test of the nominal share

    @property
    def verdict(self) -> Verdict:
        """Whether the intervals are right, too narrow or too wide."""
        share = f"{float(self.value):.1%} ± {float(self.standard_error):.1%}"
        said = f"{share} are inside intervals of {self.nominal:.0%}"
        if self.p_value >= 0.01:
            sentence = f"{said}: consistent (p = {self.p_value:.2g})."
        else:
            kind = "too narrow" if float(self.value) < self.nominal else "too wide"
            sentence = f"{said}: the intervals are {kind} (p = {self.p_value:.2g})."
        return Verdict(self.p_value >= 0.01, sentence, {"share": self.value, "p_value": self.p_value})

    def __repr__(self) -> str:
        return self.verdict.sentence


class Reliability(Module):
    """For each bin of stated probability: its mean, the share that happened, and the number of cases."""

    confidence: Float[Array, " bins"]
    frequency: Float[Array, " bins"]
    counts: Int[Array, " bins"]
    edges: Float[Array, " edges"]

    @property
    def expected_error(self) -> float:
        """The mean gap between probability and frequency, weighted by cases (ECE)."""
        return float((self.counts * self._gaps()).sum() / self.counts.sum())

    def _gaps(self) -> Array:
        return jnp.where(self.counts > 0, jnp.abs(self.confidence - self.frequency), 0.0)

    def _columns(self) -> dict[str, Any]:
        cases = np.asarray(self.counts)
        columns = {"probability": self.confidence, "frequency": self.frequency, "cases": cases}
        return {name: np.asarray(values)[cases > 0] for name, values in columns.items()}

    def _note(self) -> str:
        return f"expected calibration error {self.expected_error:.4f}"


def interval_coverage(observed: ArrayLike, lower: ArrayLike, upper: ArrayLike, mass: float) -> Coverage:
    """The share of observed values inside their intervals, which should hold `mass`.

    >>> interval_coverage([0.0, 1.0, 5.0, 2.0], [-1.0] * 4, [3.0] * 4, 0.9)
    75.0% ± 21.7% are inside intervals of 90%: consistent (p = 0.34).
    """
    y, low, high = (
        np.asarray(as_float(n, v)) for n, v in (("observed", observed), ("lower", lower), ("upper", upper))
    )
    check_length("lower", low, "observed", y)
    check_length("upper", high, "observed", y)
    check(y.ndim == 1 and y.size > 0, "observed", "a vector of at least one value", f"shape {y.shape}")
    check_finite("observed", y)
    check_entries("lower", low, lambda v: v <= high, "at most `upper`")
    check(0 < mass < 1, "mass", "between 0 and 1", mass)
    inside = (low <= y) & (y <= high)
    share = inside.mean()
    error = np.sqrt(share * (1 - share) / y.size)
    p_value = float(binomtest(int(inside.sum()), y.size, mass).pvalue)
    return Coverage(jnp.asarray(share), jnp.asarray(error), float(mass), p_value)


def pit(observed: ArrayLike, predictive: Any, *, key: Key | None = None) -> Array:
    r"""$F_i(y_i)$ of each observed value: uniform if the predictive distributions are right.

    `predictive` is a distribution with a `cdf` whose shape is that of `observed`, or an array of draws of
    shape `(draws, rows)`. Counts, and draws (whose ranks are counts), jump: with a `key` the value is uniform
    within the jump, which is exact; without one it is the middle of the jump.
    """
    y = as_float("observed", observed)
    check(y.ndim == 1 and y.size > 0, "observed", "a vector of at least one value", f"shape {y.shape}")
    check_finite("observed", y)
    if hasattr(predictive, "cdf"):
        upper = jnp.broadcast_to(predictive.cdf(y), y.shape)
        if not predictive.discrete:
            return upper
        lower = jnp.broadcast_to(predictive.cdf(y - 1), y.shape)
    else:
        draws = as_float("predictive", predictive)
        ok = draws.ndim == 2 and draws.shape[1:] == y.shape
        check(
            ok, "predictive", f"draws of shape (draws, {y.size}), or a distribution", f"shape {draws.shape}"
        )
        # the rank of the observed value among the draws and itself, ties included
        lower = (draws < y[None]).sum(0) / (draws.shape[0] + 1)
        upper = ((draws <= y[None]).sum(0) + 1) / (draws.shape[0] + 1)
    place = 0.5 if key is None else jr.uniform(key, y.shape, y.dtype)
    return lower + place * (upper - lower)


def uniformity(values: ArrayLike) -> Verdict:
    """The Kolmogorov-Smirnov test of values in [0, 1] against the uniform distribution.

    The numbers of the verdict are the largest `distance` between the two distribution functions and its
    `p_value`.
    """
    u = np.asarray(as_float("values", values)).reshape(-1)
    check(u.size > 0, "values", "at least one value", "none")
    check_entries("values", u, lambda v: (v >= 0) & (v <= 1), "between 0 and 1")
    test = kstest(u, "uniform")
    numbers = {"distance": float(test.statistic), "p_value": float(test.pvalue)}
    size = f"(distance {test.statistic:.3f} on {u.size} values, p = {test.pvalue:.2g})"
    if test.pvalue >= 0.01:
        return Verdict(
            True, f"No departure from uniform is visible {size}: calibrated as far as seen.", numbers
        )
    sentence = f"Not uniform {size}: the stated distributions are not those of the outcomes."
    return Verdict(False, sentence, numbers)


def coverage_curve(values: ArrayLike, masses: ArrayLike | None = None) -> tuple[Array, Array]:
    r"""Masses $c$, and the share of the values `pit` within the central interval of each."""
    u = as_float("values", values).reshape(-1)
    grid = jnp.linspace(0.0, 1.0, 21) if masses is None else as_float("masses", masses)
    depth = 2 * jnp.abs(u - 0.5)
    return grid, (depth[None] <= grid[:, None]).mean(1, dtype=u.dtype)


def reliability(
    probabilities: ArrayLike, outcomes: ArrayLike, *, num_bins: int = 10, bins: str = "equal_width"
) -> Reliability:
    """Stated probabilities against what happened.

    `probabilities` of shape `(n,)` with outcomes 0 or 1; or `(n, classes)` with labels, where the probability
    of the most probable class is judged by whether it was right. `bins` are "equal_width" or "equal_mass".
    """
    check_option("bins", bins, ("equal_width", "equal_mass"))
    p, happened = _confidence(as_float("probabilities", probabilities), np.asarray(outcomes))
    num_bins = check_count("num_bins", num_bins)
    shares = np.linspace(0, 1, num_bins + 1)
    edges = shares if bins == "equal_width" else np.quantile(p, shares)
    index = np.clip(np.searchsorted(edges, p, side="right") - 1, 0, num_bins - 1)
    counts = np.bincount(index, minlength=num_bins)
    safe = np.where(counts > 0, counts, 1)
    confidence = np.where(counts > 0, np.bincount(index, p, num_bins) / safe, np.nan)
    frequency = np.where(counts > 0, np.bincount(index, happened, num_bins) / safe, np.nan)
    return Reliability(*(jnp.asarray(values) for values in (confidence, frequency, counts, edges)))


def _confidence(p: Array, outcomes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    values = np.asarray(p, float)
    check(
        values.ndim in (1, 2) and values.size > 0, "probabilities", "(n,) or (n, classes)", f"shape {p.shape}"
    )
    check_entries("probabilities", values, lambda v: (v >= 0) & (v <= 1), "between 0 and 1")
    check(
        outcomes.shape == values.shape[:1], "outcomes", f"one per row ({len(values)},)", f"{outcomes.shape}"
    )
    if values.ndim == 1:
        check_entries("outcomes", outcomes, lambda v: (v == 0) | (v == 1), "0 or 1")
        return values, outcomes.astype(float)
    check_entries("probabilities", values, lambda v: np.abs(v.sum(1) - 1) <= 1e-6, "rows that sum to 1")
    must = f"labels from 0 to {values.shape[1] - 1}"
    check_entries("outcomes", outcomes, lambda v: (v >= 0) & (v < values.shape[1]) & (v == np.floor(v)), must)
    return values.max(1), (values.argmax(1) == outcomes).astype(float)
