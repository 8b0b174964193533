r"""Non-negative factors: counts or intensities as sums of parts, none of which takes away.

Problem.     $\min_{W, H \ge 0} D(X\,\|\,WH)$ with rows of $X$ as sums of the parts (rows of $H$).
Squared.     $\frac12\|X - WH\|^2$: one column of $W$, or one row of $H$, in closed form at a time (HALS).
KL.          $\sum x\log\frac{x}{\hat x} - x + \hat x$, the likelihood of Poisson counts and, up to scales,
             the aspect model of topics: $h \leftarrow h\,[W^\top(X/\hat X)]/[W^\top 1]$, $W$ likewise (EM).
Promise.     Neither cost ever rises.
Cost.        $O(ndk)$ a step.
References.  Lee and Seung (2001); Cichocki and Phan (2009); Gaussier and Goutte (2005).
"""

from typing import Any

import numpy as np
from scipy.special import xlogy

from tractable.core.checks import check, check_count, check_entries, check_option
from tractable.core.host_random import generator
from tractable.core.iterate import Ended, Status, is_close
from tractable.core.keys import takes_key
from tractable.core.module import HostResult, field
from tractable.core.progress import track
from tractable.core.rows import Rows, points
from tractable.core.types import Key, Values

__all__ = ["NonNegativeFactors"]


class NonNegativeFactors(Ended, HostResult):
    """Parts (rows of `components`) and how much of each is in every row of the fit (`amounts`)."""

    components: Values = field(show=False)
    amounts: Values = field(show=False)
    cost: Any
    trace: Values = field(show=False)
    num_steps: Any
    code: Any = field(show=False)
    loss: str = field(static=True, default="squared")

    @classmethod
    @takes_key
    def fit(
        cls, X: Any, num_components: int, *, key: Key, loss: str = "squared", weights: Any = None,
        max_steps: int = 500, tol: float | int = 1e-7, progress: bool = True,
    ) -> "NonNegativeFactors":  # fmt: skip
        """The parts of a table without negative entries.

        >>> found = NonNegativeFactors.fit(np.array([[1.0, 2.0], [2.0, 4.0]]), 1, key=0)
        >>> (found.amounts @ found.components).round(3).tolist()
        [[1.0, 2.0], [2.0, 4.0]]
        """
        check_option("loss", loss, ("squared", "kl"))
        rows = Rows.of(X, None, weights)
        x, w = _nonnegative(rows.X), np.asarray(rows.weights)
        k = check_count("num_components", num_components, 1)
        random, level = generator(key), np.sqrt(max(float(x.mean()), 1e-300) / k)
        a = level * random.uniform(0.5, 1.5, (len(x), k))
        h = level * random.uniform(0.5, 1.5, (k, x.shape[1]))
        trace, code = [_cost(x, a, h, w, loss)], Status.exhausted
        for _ in track(range(check_count("max_steps", max_steps)), label="Factorising", progress=progress):
            a = _amounts(x, a, h, loss)
            h = _amounts(x.T, h.T, a.T, loss, w).T
            trace.append(_cost(x, a, h, w, loss))
            if is_close(trace[-1] / trace[0], trace[-2] / trace[0], tol) if trace[0] > 0 else True:
                code = Status.converged
                break
        return cls(h, a, trace[-1], np.array(trace), len(trace) - 1, np.asarray(int(code)), loss)

    def transform(self, X: Any, *, max_steps: int = 1000, tol: float | int = 1e-10) -> np.ndarray:
        """How much of each part is in new rows: a convex problem for each."""
        x, h = _nonnegative(points(X, self.components.shape[1])), np.asarray(self.components)
        a = np.full((len(x), len(h)), max(float(x.mean()), 1e-300) / max(float(h.mean()) * len(h), 1e-300))
        for _ in range(max_steps):
            before, a = a, _amounts(x, a, h, self.loss)
            if np.abs(a - before).max() <= tol * max(float(np.abs(a).max()), 1e-300):
                break
        return a

    def inverse(self, Z: Any) -> np.ndarray:
        """The rows that these amounts make."""
        return points(Z, self.components.shape[0], name="Z") @ np.asarray(self.components)


def _nonnegative(x: Any) -> np.ndarray:
    table = np.asarray(x)
    check_entries("X", table, lambda v: v >= 0, "zero or positive", "Shift or split signed columns first.")
    return table


def _amounts(
    x: np.ndarray, a: np.ndarray, h: np.ndarray, loss: str, weights: np.ndarray | None = None
) -> np.ndarray:
    """Better amounts `a` for fixed parts `h`; `weights` are those of columns of `x`, as columns of `h`."""
    w = np.ones(h.shape[1]) if weights is None else weights
    if loss == "kl":
        made = a @ h
        ratio = np.divide(x, made, out=np.zeros_like(made), where=made > 0)
        below = h @ w
        return a * ((ratio * w) @ h.T) / np.where(below > 0, below, 1.0)
    a = a.copy()
    weighted = h * w
    right, gram = x @ weighted.T, h @ weighted.T
    for j in range(len(h)):
        if gram[j, j] > 0:
            a[:, j] = np.maximum(a[:, j] + (right[:, j] - a @ gram[:, j]) / gram[j, j], 0.0)
    return a


def _cost(x: np.ndarray, a: np.ndarray, h: np.ndarray, w: np.ndarray, loss: str) -> float:
    made = a @ h
    if loss == "squared":
        return float(0.5 * (w @ (x - made) ** 2).sum())
    check(bool(((made > 0) | (x == 0)).all()), "X", "explained by some part", "a part that vanished")
    logs = xlogy(x, x) - xlogy(x, np.where(made > 0, made, 1.0))
    return float((w @ (logs - x + made)).sum())
