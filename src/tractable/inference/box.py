r"""Posteriors of one or two free numbers by quadrature, on a box that is found: no gradient, no chain.

Box.         A coarse grid about the start is widened where the density on its rim is above $e^{-30}$ of its
             largest value, and narrowed to where it is above that, until neither happens. The moments there
             give new axes (the mean, and a root of the covariance), in which a second box is found.
Rule.        `grid_posterior` on that box, with panels doubled until two rules agree to $10^{-7}$ or better.
Several.     Modes inside the widening box are all seen; one beyond a valley deeper than the rim's bound, and
             outside the first box, is not.
Cost.        One program of the density; some thousands of evaluations, all of them in batches.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check, to_device
from tractable.core.module import Module
from tractable.core.types import Array, Float, Scalar
from tractable.inference.grid import GridPosterior, grid_posterior, values_at

__all__ = ["Placed", "found_box_posterior"]

_DEEP = 30.0  # nats below the top: what lies lower has no mass worth counting
_COARSE = {1: 65, 2: 25}  # points along an axis of the grid by which the box is found
_FIRST = 6.0  # half the width of the first box, in free numbers
_ROUNDS = 60
_SAME = {1: 1e-8, 2: 1e-7}  # difference of two rules in the log-evidence
_PANELS, _MOST = {1: 8, 2: 4}, {1: 128, 2: 16}  # along an axis: to begin with, and in the end


class Placed(Module):
    """A density in coordinates `w` with `u = centre + root w`."""

    density: Callable[..., Any]
    centre: Float[Array, " d"]
    root: Float[Array, "d d"]

    def __call__(self, w: Float[Array, " d"]) -> Scalar:
        return self.density(self.point(w))

    def point(self, w: Array) -> Array:
        return self.centre + self.root @ w

    @property
    def log_det(self) -> float:
        return float(np.log(np.abs(np.diag(np.asarray(self.root)))).sum())


def found_box_posterior(
    density: Callable[[Array], Any], start: Float[Array, " d"]
) -> tuple[GridPosterior, Placed]:
    """The posterior on a grid in coordinates of its own, and the way from them to the free numbers.

    Its log-evidence is that of `density` less `placed.log_det`.
    """
    dim = int(np.size(start))
    check(dim in _COARSE, "start", "of one or two free numbers", dim, "Use `mcmc` or `importance`.")
    placed = Placed(density, jnp.asarray(start), to_device(np.eye(dim)))
    low, high = _box(placed, -_FIRST * np.ones(dim), _FIRST * np.ones(dim))
    placed = _straightened(placed, low, high)
    low, high = _box(placed, -_FIRST * np.ones(dim), _FIRST * np.ones(dim))
    panels = _PANELS[dim]
    found = grid_posterior(placed, low, high, num_panels=panels)
    while float(found.log_evidence.standard_error) > _SAME[dim] and panels < _MOST[dim]:
        panels *= 2
        found = grid_posterior(placed, low, high, num_panels=panels)
    return found, placed


def _box(placed: Placed, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The box outside of which the density is nothing to speak of."""
    for _ in range(_ROUNDS):
        axes = _axes(low, high)
        values = _values(placed, axes)
        known = np.isfinite(values)
        fix = "Choose a start inside the support."
        check(bool(known.any()), "log_density", "finite somewhere about the start", "nowhere", fix)
        inside = values > values[known].max() - _DEEP
        places = [_places(inside, axis) for axis in range(inside.ndim)]
        open_ended = any(own[0] == 0 or own[-1] == len(line) - 1 for own, line in zip(places, axes))
        side = _widened if open_ended else _narrowed
        new = [side(own, line) for own, line in zip(places, axes)]
        after = np.array([pair[0] for pair in new]), np.array([pair[1] for pair in new])
        if np.array_equal(after[0], low) and np.array_equal(after[1], high):
            break
        low, high = after
    return low, high


def _places(inside: np.ndarray, axis: int) -> np.ndarray:
    """Where along an axis something is inside."""
    others = tuple(i for i in range(inside.ndim) if i != axis)
    return np.flatnonzero(inside.any(others))


def _widened(places: np.ndarray, line: np.ndarray) -> tuple[float, float]:
    """Ends farther out where the rim is inside; nothing is narrowed before the top is known to be within."""
    width = line[-1] - line[0]
    below = line[0] - width if places[0] == 0 else line[0]
    above = line[-1] + width if places[-1] == len(line) - 1 else line[-1]
    return float(below), float(above)


def _narrowed(places: np.ndarray, line: np.ndarray) -> tuple[float, float]:
    """Ends near what is inside, where that is less than half: so the search comes to an end."""
    if places[-1] - places[0] >= len(line) // 2:
        return float(line[0]), float(line[-1])
    cell = line[1] - line[0]
    return float(line[places[0]] - cell), float(line[places[-1]] + cell)


def _straightened(placed: Placed, low: np.ndarray, high: np.ndarray) -> Placed:
    """New axes from the moments of the density on a grid of the box."""
    axes = _axes(low, high)
    values = _values(placed, axes)
    masses = np.exp(values - np.nanmax(values))
    masses = np.where(np.isnan(masses), 0.0, masses).ravel() / np.nansum(masses)
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape((-1, len(axes)))
    mean = masses @ points
    cells = np.array([line[1] - line[0] for line in axes])
    cov = (points - mean).T @ ((points - mean) * masses[:, None]) + np.diag(cells**2 / 12)
    root = np.linalg.cholesky(cov)
    own = np.asarray(placed.root)
    return Placed(placed.density, to_device(np.asarray(placed.centre) + own @ mean), to_device(own @ root))


def _axes(low: np.ndarray, high: np.ndarray) -> list[np.ndarray]:
    return [np.linspace(a, b, _COARSE[len(low)]) for a, b in zip(low, high)]


def _values(placed: Placed, axes: list[np.ndarray]) -> np.ndarray:
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape((-1, len(axes)))
    return values_at(placed, points).reshape([len(line) for line in axes])
