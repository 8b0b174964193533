r"""Tables of factors from plain replays of a model, at assignments in which many tables are read at once.

Colours.     The elements of discrete latents are coloured so that the elements which one unit of a site
             depends on have different colours. All elements of a colour take their values together: if the
             colours have $K_1, \dots, K_c$ values, $\prod K_i$ replays show every unit at all states of its
             scope ($K$ for a mixture, $K^2$ for a chain of any length).
Reading.     The table of a unit is its log-density at the replays in which its elements pass through their
             values and other colours rest at zero.
Memory.      Replays run side by side, in chunks of at most `MOST_BYTES`.
Cost.        Sites share replays where that costs no more evaluations to speak of.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.module import Module, field
from tractable.core.types import Array, Float, Int, Shape

__all__ = ["Read", "Replays", "assignment_of", "tables_of"]

MOST_BYTES = 200e6
_NUMBERS_PER_UNIT = 6  # of intermediate results beside each log-density

LogFactors = Callable[..., Sequence[Array]]


class Read(Module):
    """Units of one site whose scopes have the same numbers of values: how their tables are read.

    With `axes`, all scopes have the same colours; else `index` says, for each unit and state, in which replay
    it is seen. `rows` chooses units (None: all).
    """

    site: int = field(static=True)
    cards: Shape = field(static=True)
    axes: Shape | None = field(static=True)
    rows: Int[Array, " units"] | None
    index: Int[Array, "units states"] | None


class Replays(Module):
    """Replays that several sites share; `digits[c]` is the number of values of colour `c`."""

    digits: Shape = field(static=True)
    num_units: int = field(static=True)
    colours: Int[Array, " elements"]
    reads: tuple[Read, ...]

    @property
    def num_replays(self) -> int:
        return math.prod(self.digits)


def tables_of(
    replays: Replays, shapes: Sequence[Shape], tops: Array, log_factors: LogFactors, args: tuple[Any, ...]
) -> list[Float[Array, "..."]]:
    """The tables of all reads, (units, states ...) each; `tops` are the largest values of elements."""
    sites = sorted({read.site for read in replays.reads})

    def replay(digits: Array) -> list[Array]:
        values = jnp.minimum(digits[replays.colours], tops)
        parts = log_factors(assignment_of(values, shapes), *args)
        return [jnp.reshape(parts[site], (-1,)) for site in sites]

    num = replays.num_replays
    numbers = np.stack(np.unravel_index(np.arange(num), replays.digits or (1,)), 1)
    numbers = jnp.asarray(numbers if replays.digits else np.zeros((1, 1), np.int64))
    each = 8 * (_NUMBERS_PER_UNIT * replays.num_units + replays.colours.size)
    fit = max(1, int(MOST_BYTES // each))
    if num <= fit:
        seen = jax.vmap(replay)(numbers)
    else:
        seen = jax.lax.map(jax.checkpoint(replay), numbers, batch_size=fit)
    found = dict(zip(sites, seen))
    return [_read(read, replays.digits, found[read.site]) for read in replays.reads]


def _read(read: Read, digits: Shape, seen: Array) -> Array:
    """Tables (units, states ...) from the log-densities (replays, units)."""
    seen = seen if read.rows is None else seen[:, read.rows]
    if read.axes is not None:
        grid = seen.reshape((*digits, seen.shape[1]))
        sizes = dict(zip(read.axes, read.cards))
        grid = grid[tuple(slice(0, sizes[c]) if c in sizes else 0 for c in range(len(digits)))]
        ranks = sorted(read.axes)
        return grid.transpose((len(ranks), *(ranks.index(c) for c in read.axes)))
    assert read.index is not None
    table = jnp.take_along_axis(seen.T, read.index, 1)
    return table.reshape((seen.shape[1], *read.cards))


def assignment_of(values: Array, shapes: Sequence[Shape]) -> list[Array]:
    """The values of all elements, one after the other, as latents in their natural shapes."""
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    return [values[int(end) - math.prod(shape) : int(end)].reshape(shape) for end, shape in zip(ends, shapes)]
