r"""The plan of a discrete block, made on the host once for each pattern of dependence.

Elements.    All discrete latents, one after the other; element $e$ has the values $0, \dots, K_e - 1$.
Sites.       `scopes[s][u]` marks the elements that unit $u$ of site $s$ may depend on.
Plan.        Which replays show the tables of all units (`discrete_replays`), and how the product of the
             tables is summed (`messages.rounds_plan`).
Cost.        Array operations in the number of units and elements; Python in the number of elements that share
             a unit with others. What is too large is refused here, by name, with its predicted cost.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tractable.core.checks import check, check_count, to_device
from tractable.core.module import Module, field
from tractable.core.types import Array, Int, Shape
from tractable.messages.cost import BUDGET, Budget, TooLarge
from tractable.messages.rounds import Rounds
from tractable.messages.rounds_plan import plan_rounds
from tractable.programs.discrete_colours import colour_elements, count_digits
from tractable.programs.discrete_replays import Read, Replays

__all__ = ["DiscretePlan", "plan_discrete"]

SMALL = 3e5  # log-densities that take a millisecond: fewer are not worth a program of their own
FIX = (
    "Observe some of them, or write the model so that fewer of them meet in one site: discrete latents are "
    "summed over, never sampled."
)


class DiscretePlan(Module):
    """Replays, and rounds of elimination of their tables; a pytree whose shapes alone name a program."""

    shapes: tuple[Shape, ...] = field(static=True)
    cards: Shape = field(static=True)
    tops: Int[Array, " elements"]  # the largest value of each element
    replays: tuple[Replays, ...]
    rounds: Rounds

    def __repr__(self) -> str:
        runs = " + ".join(str(part.num_replays) for part in self.replays)
        return f"DiscretePlan({self.tops.size} elements, {runs or 0} replays, {self.rounds!r})"


class _Units(NamedTuple):
    """Units of one site whose scopes have equally many elements with equal numbers of values."""

    site: int
    rows: np.ndarray
    members: np.ndarray
    cards: Shape


class _Shared(NamedTuple):
    """Sites that share replays, and the colours of their elements."""

    units: list[_Units]
    colours: np.ndarray
    digits: Shape

    @property
    def size(self) -> int:
        return sum(len(part.rows) for part in self.units)

    @property
    def work(self) -> float:
        return float(self.size) * math.prod(map(float, self.digits))


def plan_discrete(
    shapes: Sequence[Shape],
    cards: Sequence[int],
    scopes: Sequence[Any],
    budget: Budget = BUDGET,
    names: Sequence[str] = (),
    sites: Sequence[str] = (),
) -> DiscretePlan:
    """The plan for latents of `shapes` with `cards` values each, and sites whose units depend on the elements
    that the sparse Boolean matrices `scopes` (units, elements) mark. `names` and `sites` are for messages.

    >>> from scipy.sparse import eye_array
    >>> plan_discrete([(100,)], [3], [eye_array(100, format="csr"), eye_array(100, format="csr")])
    DiscretePlan(100 elements, 3 replays, Rounds(100 variables, 100 bags in 1 groups, 0 chains))
    """
    shapes = tuple(tuple(int(n) for n in shape) for shape in shapes)
    cards = tuple(check_count(f"cards[{i}]", k, 1) for i, k in enumerate(cards))
    check(len(shapes) == len(cards), "cards", f"one number for each of {len(shapes)} latents", len(cards))
    words = _Words(shapes, tuple(names), tuple(sites))
    sizes = np.repeat(np.array(cards, np.int64), [math.prod(shape) for shape in shapes])
    by_site = [_units_of(site, scope, sizes, budget, words) for site, scope in enumerate(scopes)]
    shared = _share([units for units in by_site if units], sizes)
    for part in shared:
        _check_replays(part, budget, words)
    replays = tuple(_replays(part, by_site) for part in shared)
    tied = [part.members for group in shared for part in group.units if part.cards]
    rounds = plan_rounds(tied, sizes, budget, lambda elements: words.fix(elements, by_site))
    return DiscretePlan(shapes, cards, to_device((sizes - 1).astype(np.int32)), replays, rounds)


# --- scopes --------------------------------------------------------------------------------------------


def _units_of(site: int, scope: Any, sizes: np.ndarray, budget: Budget, words: "_Words") -> list[_Units]:
    """The units of one site by the numbers of values of their elements; single values do not count."""
    from scipy.sparse import csr_array

    num_units, num_elements = np.shape(scope)
    must = f"of shape (units, {sizes.size})"
    check(num_elements == sizes.size, f"scopes[{site}]", must, f"shape {(num_units, num_elements)}")
    rows, columns = csr_array(scope).nonzero()
    live = sizes[columns] > 1
    order = np.lexsort((columns[live], rows[live]))
    rows, columns = rows[live][order], columns[live][order].astype(np.int64)
    counts = np.bincount(rows, minlength=num_units)
    starts = np.cumsum(counts) - counts
    cells = np.bincount(rows, np.log(sizes[columns]), num_units)
    if cells.size and cells.max() > math.log(budget.max_bytes / 8):
        largest = int(cells.argmax())
        own = columns[starts[largest] : starts[largest] + counts[largest]]
        words.refuse_table(site, own, float(cells[largest]), budget)
    found = []
    for k in np.unique(counts):
        units = np.flatnonzero(counts == k)
        members = columns[starts[units][:, None] + np.arange(k)]
        kinds, which = np.unique(sizes[members], axis=0, return_inverse=True) if k else ([[]], np.zeros(1))
        for number, kind in enumerate(kinds):
            own = which.reshape(-1) == number if k else slice(None)
            found.append(_Units(site, units[own], members[own], tuple(int(n) for n in kind)))
    return found


# --- sites that share replays --------------------------------------------------------------------------


def _share(by_site: list[list[_Units]], sizes: np.ndarray) -> list[_Shared]:
    """Sites in as few sets of replays as cost no more than apart, or next to nothing."""
    alone = [_coloured(units, sizes) for units in by_site]
    found: list[_Shared] = []
    for own in sorted(alone, key=lambda part: -math.prod(map(float, part.digits))):
        for number, other in enumerate(found):
            both = _joined(other, own, sizes)
            if both.work <= max(SMALL, 1.25 * (other.work + own.work)):
                found[number] = both
                break
        else:
            found.append(own)
    return found


def _coloured(units: list[_Units], sizes: np.ndarray) -> _Shared:
    colours = colour_elements([part.members for part in units], sizes)
    return _Shared(units, colours, count_digits(colours, sizes))


def _joined(other: _Shared, own: _Shared, sizes: np.ndarray) -> _Shared:
    """Both with one colouring; units of one element fit any colouring."""
    units = other.units + own.units
    if max(part.members.shape[1] for part in own.units) > 1:
        return _coloured(units, sizes)
    colours = other.colours.copy()
    new = (colours < 0) & (own.colours >= 0)
    room = np.array(other.digits or (1,))
    fits = room[None, :] >= sizes[new][:, None]
    cheapest = np.where(fits, room[None, :], room.max() + 1).argmin(1)
    colours[new] = np.where(fits.any(1), cheapest, room.argmax())
    return _Shared(units, colours, count_digits(colours, sizes))


def _replays(shared: _Shared, by_site: list[list[_Units]]) -> Replays:
    totals = {part.site: sum(len(u.rows) for u in by_site[part.site]) for part in shared.units}
    reads = tuple(_read(part, shared, totals[part.site]) for part in shared.units)
    colours = to_device(np.maximum(shared.colours, 0).astype(np.int32))
    return Replays(shared.digits, sum(totals.values()), colours, reads)


def _read(part: _Units, shared: _Shared, num_units: int) -> Read:
    colours = shared.colours[part.members]
    whole = np.array_equal(part.rows, np.arange(num_units))
    rows = None if whole else to_device(part.rows.astype(np.int32))
    if (colours == colours[:1]).all():
        return Read(part.site, part.cards, tuple(colours[0].tolist()), rows, None)
    strides = np.array([math.prod(shared.digits[c + 1 :]) for c in range(len(shared.digits))])
    states = np.stack(np.unravel_index(np.arange(math.prod(part.cards)), part.cards))
    index = strides[colours] @ states
    return Read(part.site, part.cards, None, rows, to_device(index.astype(np.int32)))


# --- what is too large ---------------------------------------------------------------------------------


class _Words(NamedTuple):
    """The names of latents and sites in messages."""

    shapes: tuple[Shape, ...]
    names: tuple[str, ...]
    sites: tuple[str, ...]

    def site(self, number: int) -> str:
        return repr(self.sites[number]) if self.sites else f"number {number}"

    def latents(self, elements: np.ndarray) -> str:
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])
        numbers, counts = np.unique(np.searchsorted(ends, elements, side="right"), return_counts=True)
        called = [repr(self.names[i]) if self.names else f"latent {i}" for i in numbers]
        listed = [f"{name} ({count} elements)" if count > 1 else name for name, count in zip(called, counts)]
        return ", ".join(listed)

    def fix(self, elements: np.ndarray, by_site: list[list[_Units]]) -> str:
        ties = [
            self.site(parts[0].site)
            for parts in by_site
            if any(p.members.shape[1] > 1 and np.isin(p.members, elements).any() for p in parts)
        ]
        tied = (
            f"The sites {', '.join(ties)} tie together" if len(ties) > 1 else f"The site {''.join(ties)} ties"
        )
        return f"{tied} the discrete latents {self.latents(elements)}. {FIX}"

    def refuse_table(self, site: int, elements: np.ndarray, log_cells: float, budget: Budget) -> None:
        must = f"at least the table of one unit of the site {self.site(site)}, {budget.max_bytes:.4g} bytes"
        size = f"10^{(log_cells + math.log(8)) / math.log(10):.1f} bytes"
        got = f"{size}, since it depends on {self.latents(elements)}"
        check(False, "budget", must, got, FIX, TooLarge)


def _check_replays(shared: _Shared, budget: Budget, words: _Words) -> None:
    num_bytes = 8 * shared.work
    if num_bytes > budget.max_bytes:
        called = ", ".join(dict.fromkeys(words.site(part.site) for part in shared.units))
        runs = float(math.prod(map(float, shared.digits)))
        must = f"at least the tables of the sites {called}, {budget.max_bytes:.4g} bytes"
        got = f"{num_bytes:.3g} bytes: {runs:.3g} assignments of {shared.size} units"
        check(False, "budget", must, got, FIX, TooLarge)
