r"""Maps of class probabilities by held-out rows: by temperature, by class, or by their order alone.

Temperature. `supervised.selection.tempering`: averaged over how far to believe the classifier, the base rate
             among the members.
Vector.      $q_k \propto p_k^{a_k} e^{b_k}$ with $a_k, b_k$ near one and zero ($N(\cdot, \tau^2)$, the
             best of three $\tau$ by log-score).
Isotonic.    A rising step function of each class's probability by pooled neighbours, with one pseudo-row at
             the base rate in each step, so that nothing is impossible; several classes are brought to sum to
             one.
Choice.      Each is fitted without a fifth of the rows and scored on it. Temperature stays unless another
             gains more than one standard error over it.
Cost.        Eighteen fits of at most $O(nK)$ a step.
References.  Guo et al. (2017); Zadrozny and Elkan (2002); Kull et al. (2019).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from tractable.core.checks import check_option
from tractable.core.module import Module, field
from tractable.core.rows import Rows
from tractable.core.types import ArrayLike, Float, Values
from tractable.core.verdict import Verdict
from tractable.supervised.selection.tempering import TemperedShares

__all__ = ["METHODS", "CalibratedShares", "IsotonicShares", "VectorShares", "fit_share_map"]

METHODS = ("temperature", "vector", "isotonic")
_SPREADS = (0.03, 0.2, 1.0)
_FOLDS = 5


class VectorShares(Module):
    """Probabilities by a power and a factor for each class."""

    powers: Float[Values, " k"]
    shifts: Float[Values, " k"]
    floor: Float[Values, " k"] = field(show=False)  # what lifts a probability of zero

    def __call__(self, probs: ArrayLike) -> Float[Values, "n k"]:
        """Calibrated probabilities of rows for which the classifier says `probs`."""
        logs = _logs(np.asarray(probs, float), np.asarray(self.floor))
        found = logs * np.asarray(self.powers) + np.asarray(self.shifts)
        return np.exp(found - logsumexp(found, axis=1, keepdims=True))


class IsotonicShares(Module):
    """Probabilities by steps that rise with those of the classifier; `steps[k]` are ends and heights."""

    steps: tuple[Float[Values, "_m 2"], ...] = field(show=False)
    base: Float[Values, " k"]

    def __call__(self, probs: ArrayLike) -> Float[Values, "n k"]:
        """Calibrated probabilities of rows for which the classifier says `probs`."""
        table = np.asarray(probs, float)
        pairs = zip(table.T[-len(self.steps) :], self.steps)
        found = np.column_stack([np.interp(p, *np.asarray(steps).T) for p, steps in pairs])
        if len(self.steps) == 1:
            return np.column_stack([1 - found, found])
        return found / found.sum(1, keepdims=True)


class CalibratedShares(Module):
    """The chosen map, and the held-out log-scores of all."""

    chosen: Any = field(show=False)
    method: str = field(static=True)
    scores: Float[Values, " m"] = field(about="mean held-out log-score of each map")

    def __call__(self, probs: ArrayLike) -> Float[Values, "n k"]:
        return self.chosen(probs)

    @property
    def verdict(self) -> Verdict:
        """Which map was taken."""
        numbers: dict[str, float] = dict(zip(METHODS, map(float, np.asarray(self.scores))))
        told = ", ".join(f"{name} {score:.4f}" for name, score in numbers.items())
        return Verdict(True, f"Calibrated by {self.method}; held-out log-scores: {told}.", numbers)


def fit_share_map(
    probs: ArrayLike, codes: ArrayLike, weights: ArrayLike | None = None, *, num_classes: int | None = None,
    method: str = "auto",
) -> CalibratedShares:  # fmt: skip
    """The map of probabilities that did not see their rows: `method` is one of `METHODS`, or "auto".

    >>> probs = np.column_stack([1 - np.linspace(0.01, 0.99, 200), np.linspace(0.01, 0.99, 200)])
    >>> hits = np.random.default_rng(0).random(200) < probs[:, 1]
    >>> fit_share_map(probs, hits.astype(int)).method
    'temperature'
    """
    check_option("method", method, ("auto", *METHODS))
    rows = Rows.of(probs, codes, weights, target="class", num_classes=num_classes)
    fold = np.arange(rows.num_rows) % _FOLDS
    if method != "auto" or rows.num_rows < 2 * _FOLDS or rows.num_classes < 2:
        method = "temperature" if method == "auto" else method
        return CalibratedShares(_FITS[method](rows), method, np.full(len(METHODS), np.nan))
    logs = np.empty((len(METHODS), rows.num_rows))
    for f in range(_FOLDS):
        test = fold == f
        held = rows.take(test)
        for m, name in enumerate(METHODS):
            said = _FITS[name](rows.take(~test))(held.X)
            with np.errstate(divide="ignore"):
                logs[m, test] = np.log(said[np.arange(held.num_rows), held.y])
    scores = np.average(logs, axis=1, weights=rows.weights)
    best = int(scores.argmax())
    gain = np.average(logs[best] - logs[0], weights=rows.weights)
    error = np.sqrt(np.average((logs[best] - logs[0] - gain) ** 2, weights=rows.weights) / rows.num_rows)
    chosen = METHODS[best] if gain > error else METHODS[0]
    return CalibratedShares(_FITS[chosen](rows), chosen, scores)


def _temperature(rows: Rows) -> TemperedShares:
    counts = np.bincount(rows.y, rows.weights, rows.num_classes)
    return TemperedShares.of(counts).add(rows.X, rows.y, rows.weights)


def _vector(rows: Rows) -> VectorShares:
    """The best of three prior spreads, by the fifth of rows that a fit has not seen."""
    fold = np.asarray(np.arange(rows.num_rows) % _FOLDS == 0)
    if rows.num_rows < _FOLDS:
        return _vector_of(rows, _SPREADS[0])
    seen, held = rows.take(~fold), rows.take(fold)

    def score(spread: float) -> float:
        said = _vector_of(seen, spread)(held.X)[np.arange(held.num_rows), held.y]
        return float(held.weights @ np.log(said))

    return _vector_of(rows, max(_SPREADS, key=score))


def _vector_of(rows: Rows, spread: float) -> VectorShares:
    count, w = rows.num_classes, rows.weights
    floor = _base(rows) / (w.sum() + 1)
    logs = _logs(rows.X, floor)
    hit = np.eye(count)[rows.y]

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        scores = logs * theta[:count] + theta[count:]
        total = np.asarray(logsumexp(scores, axis=1, keepdims=True))
        miss = w[:, None] * (np.exp(scores - total) - hit)
        away = np.concatenate([theta[:count] - 1, theta[count:]]) / spread**2
        value = w @ (total[:, 0] - scores[np.arange(len(w)), rows.y]) + 0.5 * spread**2 * away @ away
        return float(value), np.concatenate([(miss * logs).sum(0), miss.sum(0)]) + away

    start = np.concatenate([np.ones(count), np.zeros(count)])
    found = minimize(loss, start, jac=True, method="L-BFGS-B").x
    return VectorShares(found[:count], found[count:], floor)


def _isotonic(rows: Rows) -> IsotonicShares:
    base = _base(rows)
    classes = range(rows.num_classes) if rows.num_classes > 2 else [rows.num_classes - 1]
    parts = tuple(
        _steps(np.asarray(rows.X)[:, k], (rows.y == k).astype(float), rows.weights, base[k]) for k in classes
    )
    return IsotonicShares(parts, base)


def _steps(p: np.ndarray, hit: np.ndarray, w: np.ndarray, base: float) -> np.ndarray:
    """Ends and heights of the pools, each with a pseudo-row at the base rate."""
    from sklearn.isotonic import isotonic_regression

    order = np.argsort(p, kind="stable")
    p, hit, w = p[order], hit[order], w[order]
    heights = np.asarray(isotonic_regression(hit, sample_weight=w))
    pool = np.cumsum(np.diff(heights, prepend=heights[0]) > 0)
    mass, hits = np.bincount(pool, w), np.bincount(pool, w * hit)
    lifted = np.maximum.accumulate((hits + base) / (mass + 1))
    ends = [(p[pool == g][[0, -1]], height) for g, height in enumerate(lifted)]
    return np.array([(end, height) for pair, height in ends for end in pair], float)


def _base(rows: Rows) -> np.ndarray:
    counts = np.bincount(rows.y, rows.weights, rows.num_classes) + 1
    return counts / counts.sum()


def _logs(probs: np.ndarray, floor: np.ndarray) -> np.ndarray:
    """Logarithms of probabilities that were lifted by less than a row among all."""
    return np.log((1 - floor.sum()) * probs + floor)


_FITS: dict[str, Callable[[Rows], Any]] = {
    "temperature": _temperature,
    "vector": _vector,
    "isotonic": _isotonic,
}
