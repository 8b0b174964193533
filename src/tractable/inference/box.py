r"""Posteriors of one or two free numbers by quadrature, on a box that is found: no gradient, no chain.

Box.         A coarse grid about the start is widened where the density on its rim is above $e^{-30}$ of its
             largest value, and narrowed to where it is above that, until neither happens. The moments there
             give new axes (the mean, and a root of the covariance), in which a second box is found.
Rule.        The trapezoidal rule, whose error falls faster than any power of the spacing where a smooth
             density has died away at both ends; points are doubled until every second of them says nearly
             the same.
Draws.       The rule integrates what has few frequencies, and that is known between its points too: the
             density is made finer by its Fourier series, without another evaluation.
Several.     Modes inside the widening box are all seen; one beyond a valley deeper than the rim's bound, and
             outside the first box, is not.
Undefined.   Where the density is not a number counts as outside, if it can hold little by how the density
             falls towards it. That share of the mass is part of the error.
Cost.        One program of the density; a few thousand evaluations, all of them in batches.
References.  Trefethen and Weideman (2014).
"""

from collections.abc import Callable
from itertools import pairwise
from math import ceil
from typing import Any

import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check, to_device
from tractable.core.estimate import Estimate
from tractable.core.module import HostResult, Module
from tractable.core.types import Array, Float, Scalar
from tractable.core.verdict import Verdict
from tractable.inference.grid import values_at

__all__ = ["BoxPosterior", "found_box_posterior"]

_DEEP = 30.0  # nats below the top: what lies lower has no mass worth counting
_COARSE = {1: 128, 2: 32}  # points along an axis of the grid by which the box is found: one batch
_FIRST = 6.0  # half the width of the first box, in free numbers
_ROUNDS = 60
_SAME = {1: 1e-8, 2: 1e-7}  # difference of two rules in the log-evidence
_POINTS, _MOST = {1: 127, 2: 31}, {1: 2017, 2: 241}  # along an axis: to begin with, and in the end
_FINE = {1: 4096, 2: 256}  # along an axis, for draws
_SMOOTH = 0.2  # factor of the error as points are doubled; a bend makes it a quarter
_COARSEST = 1e-3  # difference of two rules up to which the result is trusted


class Placed(Module):
    """A density in coordinates `w` with `u = centre + root w`."""

    density: Callable[..., Any]
    centre: Float[Array, " d"]
    root: Float[Array, "d d"]

    def __call__(self, w: Float[Array, " d"]) -> Scalar:
        return self.density(self.centre + self.root @ w)

    def points(self, w: np.ndarray) -> np.ndarray:
        """Free numbers from rows of coordinates."""
        return np.asarray(self.centre) + w @ np.asarray(self.root).T

    @property
    def log_det(self) -> float:
        return float(np.log(np.abs(np.diag(np.asarray(self.root)))).sum())


class BoxPosterior(HostResult):
    """A posterior on a lattice: its evidence with the error of the rule, moments and draws."""

    log_evidence: Estimate
    placed: Placed
    axes: tuple[np.ndarray, ...]
    masses: np.ndarray  # of the points of the lattice; they sum to one
    undefined: float = 0.0  # share of the mass that may be where the density is not a number

    @property
    def mean(self) -> np.ndarray:
        return self.masses.ravel() @ self.placed.points(_product(self.axes))

    @property
    def cov(self) -> np.ndarray:
        away = self.placed.points(_product(self.axes)) - self.mean
        return away.T @ (away * self.masses.reshape((-1, 1)))

    @property
    def verdict(self) -> Verdict:
        """How far to trust the lattice."""
        error = float(self.log_evidence.standard_error)
        said = "Accurate: two rules agree, and the box holds all of the mass"
        part = f", but for {self.undefined:.1g} of it where the density is not a number"
        said += f"{part if self.undefined else ''}."
        if not error < _COARSEST:
            said = f"Too coarse: the rule is off by some {error:.2g} in the log evidence."
        return Verdict(error < _COARSEST, said, {"error": error, "undefined": self.undefined})

    def draws(self, random: np.random.Generator, count: int) -> np.ndarray:
        """Free numbers, a row each: one from each of `count` equal shares of the mass, in random order."""
        dim = len(self.axes)
        factor = ceil(_FINE[dim] / len(self.axes[0]))
        fine = np.cumsum(_refined(self.masses, factor).ravel())
        shares = (np.arange(count) + random.random(count)) / count
        chosen = random.permutation(np.searchsorted(fine / fine[-1], shares).clip(0, fine.size - 1))
        cells = np.stack(np.unravel_index(chosen, [len(line) * factor for line in self.axes]), -1)
        steps = np.array([line[1] - line[0] for line in self.axes]) / factor
        first = np.array([line[0] for line in self.axes])
        return self.placed.points(first + steps * (cells + random.random(cells.shape) - 0.5))


def found_box_posterior(
    density: Callable[[Array], Any], start: Float[Array, " d"], *, accuracy: float | int | None = None
) -> BoxPosterior:
    """The posterior of one or two free numbers, whose log-density is given up to no constant.

    Points are doubled until the error of the log-evidence is below `accuracy`.

    >>> found = found_box_posterior(lambda u: -0.5 * ((u[0] - 40.0) / 3.0) ** 2, jnp.zeros(1))
    >>> found.mean.round(6), np.sqrt(found.cov).round(6)
    (array([40.]), array([[3.]]))
    """
    dim = int(np.size(start))
    check(dim in _COARSE, "start", "of one or two free numbers", dim, "Use `mcmc` or `importance`.")
    check(accuracy is None or accuracy > 0, "accuracy", "positive", accuracy)
    placed = Placed(density, jnp.asarray(start), to_device(np.eye(dim)))
    low, high = _box(placed, -_FIRST * np.ones(dim), _FIRST * np.ones(dim))
    placed = _straightened(placed, low, high)
    low, high = _box(placed, -_FIRST * np.ones(dim), _FIRST * np.ones(dim))
    axes = _lattice(low, high, _POINTS[dim])
    values = _values(placed, axes)
    undefined, wanted = _undefined(values), _SAME[dim] if accuracy is None else accuracy
    differences = [_difference(values, axes)]
    while (error := _error(differences)) > max(wanted, undefined) and len(axes[0]) < _MOST[dim]:
        finer = _lattice(low, high, 2 * len(axes[0]) - 1)
        axes, values = finer, _between(placed, finer, values)
        undefined = _undefined(values)
        differences.append(_difference(values, axes))
    total = _total(values, axes)
    found = Estimate(to_device(np.asarray(total + placed.log_det)), to_device(np.asarray(error + undefined)),
                     method="quadrature")  # fmt: skip
    masses = np.exp(np.where(np.isnan(values), -np.inf, values) - total)
    masses *= np.prod([line[1] - line[0] for line in axes])
    return BoxPosterior(found, placed, tuple(axes), masses, undefined)


def _undefined(values: np.ndarray) -> float:
    """The share of the mass that may be where the density is not a number: it falls on from the edge of that
    as fast as it fell, on average, from its top to there (a bound where it is log-concave)."""
    hidden = np.isnan(values)
    if not hidden.any():
        return 0.0
    edge = np.zeros_like(hidden)
    for axis in range(hidden.ndim):
        own, of = np.moveaxis(edge, axis, 0), np.moveaxis(hidden, axis, 0)
        own[1:] |= of[:-1]
        own[:-1] |= of[1:]
    below = values[edge & ~hidden] - np.nanmax(values, initial=-np.inf)
    beyond = np.exp(below) * max(values.shape) / np.maximum(-below, 1e-300)
    share = float(beyond.sum() / np.nansum(np.exp(values - np.nanmax(values)))) if below.size else 1.0
    must = "a number or minus infinity in the box"
    check(share < _COARSEST, "log_density", must, f"NaN where {min(share, 1.0):.1%} of the mass may be")
    return max(share, float(np.finfo(float).tiny))  # never nothing: callers ask why it is not a number


def _between(placed: Placed, axes: list[np.ndarray], known: np.ndarray) -> np.ndarray:
    """The values on a lattice of which every second point is known."""
    values = np.full([len(line) for line in axes], np.nan)
    inner = (slice(None, None, 2),) * len(axes)
    fresh = np.ones(values.shape, bool)
    values[inner], fresh[inner] = known, False
    values[fresh] = values_at(placed, _product(axes)[fresh.ravel()])
    return values


def _difference(values: np.ndarray, axes: list[np.ndarray]) -> float:
    """Of the log-evidence by all points, and by every second along each axis."""
    inner = (slice(None, None, 2),) * len(axes)
    return abs(_total(values, axes) - _total(values[inner], [line[::2] for line in axes]))


def _error(differences: list[float]) -> float:
    """Of the last rule: the last difference is that of the rule before. Where they fall, twice in turn,
    faster than a bend or jump of the density lets them, the error falls on at least so."""
    factors = [after / before for before, after in pairwise(differences)][-2:]
    return differences[-1] * (max(factors) if len(factors) == 2 and max(factors) < _SMOOTH else 1.0)


def _total(values: np.ndarray, axes: list[np.ndarray]) -> float:
    top = np.nanmax(values)
    cell = np.prod([line[1] - line[0] for line in axes])
    return float(top + np.log(np.nansum(np.exp(values - top)) * cell))


def _refined(masses: np.ndarray, factor: int) -> np.ndarray:
    """The same function at `factor` times as many points along each axis; an odd number has no last
    frequency of two meanings."""
    for axis, count in enumerate(masses.shape):
        masses = np.fft.irfft(np.fft.rfft(masses, axis=axis), count * factor, axis=axis)
    return np.clip(masses, 0.0, None)


def _box(placed: Placed, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The box outside of which the density is nothing to speak of."""
    for _ in range(_ROUNDS):
        axes = _lattice(low, high, _COARSE[len(low)])
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
    axes = _lattice(low, high, _COARSE[len(low)])
    values = _values(placed, axes)
    masses = np.exp(values - np.nanmax(values))
    masses = np.where(np.isnan(masses), 0.0, masses).ravel() / np.nansum(masses)
    points = _product(axes)
    mean = masses @ points
    cells = np.array([line[1] - line[0] for line in axes])
    cov = (points - mean).T @ ((points - mean) * masses[:, None]) + np.diag(cells**2 / 12)
    root = np.linalg.cholesky(cov)
    own = np.asarray(placed.root)
    return Placed(placed.density, to_device(np.asarray(placed.centre) + own @ mean), to_device(own @ root))


def _lattice(low: np.ndarray, high: np.ndarray, count: int) -> list[np.ndarray]:
    return [np.linspace(a, b, count) for a, b in zip(low, high)]


def _product(axes: Any) -> np.ndarray:
    """The points of a lattice, a row each."""
    return np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape((-1, len(axes)))


def _values(placed: Placed, axes: list[np.ndarray]) -> np.ndarray:
    return values_at(placed, _product(axes)).reshape([len(line) for line in axes])
