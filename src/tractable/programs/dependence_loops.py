r"""How dependence passes through branches and loops; a scan is never unrolled.

Scan.        One step, element by element: $c_t = C c_{t-1} \cup X x_t$ and $y_t = D c_{t-1} \cup E x_t$. So
             $c_t = \bigcup_j C^j X x_{t-j}$: shifts over the few lags $j$ at which $C^j$ has not vanished,
             as in a chain that carries given values, and all earlier steps for carries that feed themselves.
Values.      A body that looks at values (an index that comes with each step) is laid out over all steps by
             `vmap`, so that each has its own $X$ and $E$; the links $C$ are those of all steps together.
Cost.        $O(T w)$ for $T$ steps and $w$ lags; $O(T^2)$ elements where all earlier steps matter, up to the
             limit of the sets.
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from scipy.sparse import csr_array

from tractable.programs.carry_lags import lags
from tractable.programs.dependence_rules import Call, Numbers, Rule, running, spread, unknown
from tractable.programs.dependence_walk import MOVING, UNKNOWN, follow, looked_at
from tractable.programs.element_sets import ElementSets
from tractable.programs.tape import record, runner, settled_masks

__all__ = ["RULES"]

MAX_ROUNDS = 16


def _cond(call: Call) -> Sequence[Numbers]:
    branches, index = call.params["branches"], call.values[0]
    if index is not None:
        chosen = branches[int(np.clip(index, 0, len(branches) - 1))]
        return follow(record(chosen), call.sets, call.numbers[1:], call.values[1:])
    found = [follow(record(each), call.sets, call.numbers[1:], call.values[1:]) for each in branches]
    united = [call.sets.union_of([call.numbers[0], *each]) for each in zip(*found)]
    return [spread(each, call.out_shape(place)) for place, each in enumerate(united)]


def _while(call: Call) -> Sequence[Numbers]:
    """Rounds of the body until the carries no longer grow."""
    tests, held = call.params["cond_nconsts"], call.params["body_nconsts"]
    checked, consts, carry = (
        call.numbers[:tests],
        call.numbers[tests : tests + held],
        call.numbers[tests + held :],
    )
    test, body = record(call.params["cond_jaxpr"]), record(call.params["body_jaxpr"])
    for _ in range(MAX_ROUNDS):
        given = [*consts, *carry]
        found = follow(body, call.sets, given, [None] * len(given))
        stop = follow(test, call.sets, [*checked, *carry], [None] * (tests + len(carry)))
        parts = [call.sets.union_of([old, new, *stop]) for old, new in zip(carry, found)]
        grown = [spread(each, call.out_shape(place)) for place, each in enumerate(parts)]
        if all(_equal(a, b) for a, b in zip(grown, carry)):
            return carry
        carry = grown
    return unknown(call)


def _equal(a: Numbers, b: Numbers) -> bool:
    return b is None if a is None else b is not None and np.array_equal(a, b)


def _scan(call: Call) -> Sequence[Numbers]:
    length, count = call.params["length"], call.params["num_carry"]
    if length == 0:
        return [*_parts(call)[1], *[None] * (len(call.step.outputs) - count)]
    body = _Body(call)
    carries, outputs = body.local[:count], body.local[count:]
    new = np.concatenate([*carries, np.zeros((length, 0), np.int64)], axis=1)[:, body.kept]
    entering = np.concatenate([body.start[None], body.resolved(new, None)])
    states = _states(call.sets, body.links(new), entering)
    ends = np.zeros(len(body.kept), np.int64)
    ends[body.kept] = states[-1]
    final = np.split(ends, np.cumsum([each.shape[1] for each in carries])[:-1]) if count else []
    found = [ends.reshape(call.out_shape(place)) for place, ends in enumerate(final)]
    for place, each in enumerate(outputs, start=count):
        rows = body.resolved(each, states[:-1]).reshape(call.out_shape(place))
        found.append(rows[::-1] if call.params["reverse"] else rows)
    return found


def _parts(call: Call) -> tuple[list[Numbers], list[Numbers], list[Numbers]]:
    """The numbers of what a scan holds, of what it starts from, and of the rows that it reads."""
    held, count = call.params["num_consts"], call.params["num_carry"]
    return call.numbers[:held], call.numbers[held : held + count], call.numbers[held + count :]


class _Body:
    """One step of a scan in sets of its own: the moving elements that it holds, carries and reads, in order.

    `local[k]` are the numbers of output `k` in these sets, one row per step; `kept` marks the elements of the
    carries that move.
    """

    def __init__(self, call: Call):
        self.call, self.length = call, call.params["length"]
        consts, carry, rows = _parts(call)
        masks = settled_masks(call.step, [0 if each is None else MOVING for each in call.numbers])
        moves = [bool(mask) for mask in masks[: len(carry)]]
        marks = [each is not None for each in consts] + moves + [each is not None for each in rows]
        body = call.params["jaxpr"]
        shapes = [tuple(variable.aval.shape) for variable in body.jaxpr.invars]
        sizes = [int(np.prod(shape)) if mark else 0 for shape, mark in zip(shapes, marks)]
        starts = np.cumsum([0, *sizes])
        self.num_held = int(starts[len(consts)])
        self.num_carried = int(starts[len(consts) + len(carry)]) - self.num_held
        self.sets = ElementSets(int(starts[-1]), call.sets.limit)
        given = [self.sets.singles(int(a), s) if m else None for a, s, m in zip(starts, shapes, marks)]
        self.held = _flat(consts, ())
        self.read = _flat([_forward(each, call) for each in rows], (self.length,))
        places = range(len(consts), len(consts) + len(carry))
        self.start = _flat([call.filled(i) for i, moved in zip(places, moves) if moved], ())
        self.kept = np.repeat(moves, [int(np.prod(call.shape(i))) for i in places]).astype(bool)
        self.local = [self._laid_out(each, k) for k, each in enumerate(self._local(body, given, moves))]

    def _laid_out(self, numbers: Numbers, place: int) -> np.ndarray:
        """The local numbers of an output as one row per step."""
        shape = tuple(self.call.params["jaxpr"].out_avals[place].shape)
        size = int(np.prod(shape))
        if numbers is None:
            return np.broadcast_to(np.int64(0), (self.length, size))
        return np.broadcast_to(
            numbers.reshape(-1 if numbers.shape != shape else 1, size), (self.length, size)
        )

    def _local(self, body: ClosedJaxpr, given: list[Numbers], moves: list[bool]) -> list[Numbers]:
        held, count = self.call.params["num_consts"], self.call.params["num_carry"]
        values = [None if each is not None else value for each, value in zip(given, self.call.values)]
        # a value of the start is no value of the carry: those that are known are run along
        known = _known_carries(self.call, values, moves)
        examples = [*values[:held], *known, *values[held + count :]]
        if not looked_at(record(body), given, examples):
            return follow(record(body), self.sets, given, [None] * len(given))
        axes = [None] * held + [0] * (len(given) - held)
        over = [None if axis is None else self.length for axis in axes]
        types = [
            jax.ShapeDtypeStruct(v.aval.shape if n is None else (n, *v.aval.shape), v.aval.dtype)
            for v, n in zip(body.jaxpr.invars, over)
        ]
        wide = jax.make_jaxpr(jax.vmap(jaxpr_as_fun(body), in_axes=tuple(axes), axis_size=self.length))(
            *types
        )
        laid = [
            each if each is None or n is None else np.broadcast_to(each, (n, *each.shape))
            for each, n in zip(given, over)
        ]
        rows = [_forward(each, self.call) for each in examples[held + count :]]
        return follow(record(wide), self.sets, laid, [*examples[: held + count], *rows])

    def links(self, new: np.ndarray) -> csr_array:
        """Which carried elements each carried element is made of, at any step."""
        width = new.shape[1]
        pairs = np.unique(np.arange(width) * self.sets.num_sets + new)
        owner, numbers = np.divmod(pairs, self.sets.num_sets)
        elements, lengths = self.sets.members(numbers)
        places, owner = elements - self.num_held, np.repeat(owner, lengths)
        inside = (places >= 0) & (places < self.num_carried)
        ones = np.ones(int(inside.sum()), bool)
        return csr_array((ones, (owner[inside], places[inside])), shape=(width, width))

    def resolved(self, local: np.ndarray, states: np.ndarray | None) -> np.ndarray:
        """The numbers outside of local ones, row by row; without `states` nothing is carried."""
        sets, length = self.call.sets, self.length
        # an owner for each set that occurs at a step, however many entries have it
        keys, which = np.unique(np.arange(length)[:, None] * self.sets.num_sets + local, return_inverse=True)
        step, numbers = np.divmod(keys, self.sets.num_sets)
        distinct, place = np.unique(numbers, return_inverse=True)
        elements, lengths = self.sets.members(distinct)
        owner = np.repeat(np.arange(len(distinct)), lengths)
        fixed = elements < self.num_held
        # what a set holds of the constants is the same at every step: united once
        base = sets.unite(owner[fixed], self.held[elements[fixed]], len(distinct))
        elements, lengths = elements[~fixed], np.bincount(owner[~fixed], minlength=len(distinct))
        many = lengths[place]
        begins = np.repeat((np.cumsum(lengths) - lengths)[place] - (np.cumsum(many) - many), many)
        chosen = elements[np.arange(many.sum()) + begins] - self.num_held
        at = np.repeat(step, many)
        carried = chosen < self.num_carried
        found = np.zeros(len(chosen), np.int64)
        if states is not None:
            found[carried] = states[at[carried], chosen[carried]]
        found[~carried] = self.read[at[~carried], chosen[~carried] - self.num_carried]
        owners = np.concatenate([np.arange(len(keys)), np.repeat(np.arange(len(keys)), many)])
        united = sets.unite(owners, np.concatenate([base[place], found]), len(keys))
        return united[which.ravel()].reshape(local.shape)


def _flat(parts: Sequence[Numbers], lead: tuple[int, ...]) -> np.ndarray:
    """The numbers of all arrays that have some, one after the other behind the axes `lead`."""
    pieces = [each.reshape(*lead, -1) for each in parts if each is not None]
    return np.concatenate([*pieces, np.zeros((*lead, 0), np.int64)], axis=-1)


def _forward(rows: Any, call: Call) -> Any:
    return rows[::-1] if rows is not None and call.params["reverse"] else rows


def _known_carries(call: Call, values: list[Any], moves: list[bool]) -> list[Any]:
    """The values before each step of the carries that nothing unknown reaches; None for all others."""
    held, count = call.params["num_consts"], call.params["num_carry"]
    marks = [UNKNOWN if value is None else 0 for value in values]
    masks = settled_masks(call.step, marks)[:count]
    places = [i for i in range(count) if not masks[i] and not moves[i]]
    if not places:
        return [None] * count
    tape = record(call.params["jaxpr"])
    run = runner(tape, [tape.outputs[i] for i in places])
    consts = {tape.inputs[i]: values[i] for i in range(held) if values[i] is not None}
    rows = {tape.inputs[i]: values[i] for i in range(held + count, len(values)) if values[i] is not None}
    slots = [tape.inputs[held + i] for i in places]

    def trail(start, consts, rows):
        def step(carry, row):
            return run({**consts, **dict(zip(slots, carry)), **row}), carry

        return jax.lax.scan(step, start, rows, call.params["length"], call.params["reverse"])[1]

    found = jax.jit(trail)([jax.numpy.asarray(values[held + i]) for i in places], consts, rows)
    known: list[Any] = [None] * count
    for i, each in zip(places, found):
        known[i] = _forward(np.asarray(each), call)
    return known


def _states(sets: ElementSets, links: csr_array, entering: np.ndarray) -> np.ndarray:
    """The numbers of the carries before each step and after the last, from what enters them at each."""
    total = entering
    for lag, rows, forever in lags(links):
        reached = np.flatnonzero(np.diff(rows.indptr))
        patterns = [
            rows.indices[a:b].tobytes() for a, b in zip(rows.indptr[reached], rows.indptr[reached + 1])
        ]
        distinct, first, which = np.unique(np.array(patterns, object), return_index=True, return_inverse=True)
        chosen = [rows.indices[rows.indptr[i] : rows.indptr[i + 1]] for i in reached[first]]
        merged = [_merged(sets, entering[:, each]) for each in chosen]
        if forever:
            merged = [running(sets, each) for each in merged]
        shifted = np.zeros((len(entering), len(distinct)), np.int64)
        shifted[lag:] = np.stack(merged, axis=1)[: max(len(entering) - lag, 0)]
        added = np.zeros_like(entering)
        added[:, reached] = shifted[:, which]
        united = sets.union(total, added)
        assert united is not None
        total = united
    return total


def _merged(sets: ElementSets, numbers: np.ndarray) -> np.ndarray:
    found = sets.reduce(numbers, (1,))
    assert found is not None
    return found


RULES: dict[str, Rule] = {"cond": _cond, "while": _while, "scan": _scan}
