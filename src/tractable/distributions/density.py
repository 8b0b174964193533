r"""Is this function a density? Non-negativity and the unit integral, checked by quadrature.

Check.       $p(x) \ge 0$ at every node and $\int p(x)\,dx = 1$, over an interval or a box of up to three
             dimensions, with finite or infinite ends.
Method.      Infinite ranges are mapped to $(-1, 1)$. In one dimension panels are halved until the 15-point
             Kronrod and 7-point Gauss rules agree; in more, a tensor rule of Gauss-Legendre panels is refined
             until it settles.
Cost.        Some hundred evaluations in one dimension, up to $10^6$ in three; not to be used inside `jit`.
References.  Davis and Rabinowitz (1984), "Methods of numerical integration".
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check
from tractable.core.module import Module, field
from tractable.core.types import Array, ArrayLike
from tractable.core.verdict import Verdict

__all__ = ["DensityCheck", "check_density"]

# The 15 nodes of Kronrod's rule on [-1, 1] (non-negative half), its weights, and those of Gauss' 7 nodes.
_KRONROD = np.array([
    0.991455371120813, 0.949107912342759, 0.864864423359769, 0.741531185599394, 0.586087235467691,
    0.405845151377397, 0.207784955007898, 0.0,
])  # fmt: skip
_KRONROD_WEIGHTS = np.array([
    0.022935322010529, 0.063092092629979, 0.104790010322250, 0.140653259715525, 0.169004726639267,
    0.190350578064785, 0.204432940075298, 0.209482141084728,
])  # fmt: skip
_GAUSS_WEIGHTS = np.array(
    [0.0, 0.129484966168870, 0.0, 0.279705391489277, 0.0, 0.381830050505119, 0.0, 0.417959183673469]
)
_NODES = np.concatenate([-_KRONROD, _KRONROD[-2::-1]])
_FINE = np.concatenate([_KRONROD_WEIGHTS, _KRONROD_WEIGHTS[-2::-1]])
_COARSE = np.concatenate([_GAUSS_WEIGHTS, _GAUSS_WEIGHTS[-2::-1]])
_MOST_PANELS = 2**14


class DensityCheck(Module):
    """What a check of a density found: its integral with an error estimate, and its least value."""

    integral: float = field(static=True)
    error: float = field(static=True)
    least: float = field(static=True)
    where: tuple[float, ...] = field(static=True)
    tolerance: float = field(static=True)

    @property
    def nonnegative(self) -> bool:
        """Whether no node had a negative (or undefined) value."""
        return self.least >= 0

    @property
    def normalised(self) -> bool:
        """Whether the integral is one, to within the tolerance and its own error."""
        return self.error <= self.tolerance and abs(self.integral - 1) <= self.tolerance

    @property
    def valid(self) -> bool:
        """Whether the function is a density."""
        return self.nonnegative and self.normalised

    @property
    def verdict(self) -> Verdict:
        """Whether the function is a density, or why it is not."""
        said = "A density."
        if not self.nonnegative:
            said = f"Not a density: its value is {self.least:.3g} at {self.where}."
        elif not self.normalised:
            what = f"its integral is {self.integral:.10g}, with an error of about {self.error:.1e}"
            said = f"Not a density: {what}."
        numbers = {"integral": self.integral, "error": self.error, "least": self.least}
        return Verdict(self.valid, said, numbers)


def check_density(
    density: Callable[[Array], Array], low: ArrayLike | Sequence[float], high: ArrayLike | Sequence[float],
    *, tolerance: float = 1e-8,
) -> DensityCheck:  # fmt: skip
    r"""Check $p \ge 0$ and $\int p = 1$ between `low` and `high`, numbers or vectors, possibly infinite.

    `density` takes one point: a number where `low` is a number, else a vector. Its mass may lie anywhere that
    64 panels of the (mapped) interval do not miss; bring `low` and `high` near a density that is narrow.

    >>> check_density(lambda x: jnp.exp(-x), 0.0, jnp.inf).verdict
    A density.
    >>> check_density(lambda xy: xy[0] + xy[1], [0.0, 0.0], [1.0, 1.0]).valid
    True
    """
    first, last = (np.asarray(end, float) for end in (low, high))
    must = f"of the shape of `low`, {first.shape}"
    check(first.shape == last.shape and first.ndim <= 1, "high", must, last.shape)
    check(first.size <= 3, "low", "a number or a vector of at most three", f"{first.size} numbers")
    check(bool((first < last).all()), "low", "below `high`", f"{low}, with `high` = {high}")
    evaluate = jax.jit(jax.vmap(density))
    if first.size == 1:
        shape = (-1,) if first.ndim == 0 else (-1, 1)
        result = _adaptive(
            lambda x: evaluate(jnp.asarray(x.reshape(shape))), first.item(), last.item(), tolerance
        )
    else:
        result = _tensor(lambda x: evaluate(jnp.asarray(x)), first, last, tolerance)
    integral, error, least, where = result
    return DensityCheck(integral, error, least, where, tolerance)


def _adaptive(evaluate: Callable, low: float, high: float, tolerance: float) -> tuple[Any, ...]:
    edges = np.linspace(-1.0, 1.0, 65)
    left, right = edges[:-1], edges[1:]
    total, error, least, where, panels = 0.0, 0.0, np.inf, (np.nan,), 0
    while left.size:
        half, t = (right - left) / 2, ((right + left) / 2)[:, None] + ((right - left) / 2)[:, None] * _NODES
        x, slope = _from_unit(t, low, high)
        values = _padded(evaluate, x.ravel()).reshape(t.shape)
        least, where = _least(values, x, least, where)
        fine, coarse = half * ((values * slope) @ _FINE), half * ((values * slope) @ _COARSE)
        gap, panels = np.abs(fine - coarse), panels + left.size
        done = (gap <= tolerance / 100 * half) | (half < 1e-10) | (panels > _MOST_PANELS) | ~np.isfinite(gap)
        total, error = total + fine[done].sum(), error + gap[done].sum()
        middle = (left + right)[~done] / 2
        left, right = np.concatenate([left[~done], middle]), np.concatenate([middle, right[~done]])
    return float(total), float(error), float(least), where


def _tensor(evaluate: Callable, low: np.ndarray, high: np.ndarray, tolerance: float) -> tuple[Any, ...]:
    nodes, weights = np.polynomial.legendre.leggauss(16)
    before, least, where = np.nan, np.inf, (np.nan,)
    for panels in (1, 2, 4, 8, 16, 32) if low.size == 2 else (1, 2, 4, 6):
        edges = np.linspace(-1.0, 1.0, panels + 1)
        half = 1 / panels
        t = ((edges[1:] + edges[:-1]) / 2)[:, None] + half * nodes
        axes = [_from_unit(t.ravel(), a, b) for a, b in zip(low, high)]
        points = np.stack([g.ravel() for g in np.meshgrid(*(x for x, _ in axes), indexing="ij")], -1)
        scale = np.array(1.0)
        for _, slope in axes:
            scale = np.multiply.outer(scale, slope * half * np.tile(weights, panels))
        values = np.asarray(evaluate(points))
        least, where = _least(values, points, least, where)
        total = float((values * scale.ravel()).sum())
        error = abs(total - before)
        if error <= tolerance / 10:
            break
        before = total
    return total, float(error), float(least), where


def _from_unit(t: np.ndarray, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """The point of (low, high) at t in (-1, 1), and dx/dt."""
    if np.isfinite(low) and np.isfinite(high):
        return low + (high - low) * (t + 1) / 2, np.full_like(t, (high - low) / 2)
    if np.isfinite(low):
        return low + (1 + t) / (1 - t), 2 / (1 - t) ** 2
    if np.isfinite(high):
        return high - (1 - t) / (1 + t), 2 / (1 + t) ** 2
    return t / (1 - t**2), (1 + t**2) / (1 - t**2) ** 2


def _padded(evaluate: Callable, x: np.ndarray) -> np.ndarray:
    """Values at `x`, whose length is padded to a power of two: few programs are compiled."""
    size = 1 << (x.size - 1).bit_length()
    return np.asarray(evaluate(np.concatenate([x, np.full(size - x.size, x[0])])))[: x.size]


def _least(values: np.ndarray, points: np.ndarray, least: float, where: tuple) -> tuple[float, tuple]:
    flat = values.ravel()
    worst = int(np.argmin(flat))  # NaN counts as least
    if not flat[worst] >= least:
        at = points.reshape(flat.size, -1)[worst]
        return float(flat[worst]), tuple(float(v) for v in at)
    return least, where
