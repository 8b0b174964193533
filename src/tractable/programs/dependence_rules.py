r"""How one step of a program passes dependence on: from the numbers of its operands to those of its outputs.

Numbers.     Each entry of an array holds the number of a set of elements (`element_sets`); None is an array
             free of all.
Rules.       What moves entries moves numbers, in NumPy; entry by entry sets unite; sums unite along axes; a
             contraction is the outer union of what each side holds along the contracted axes; factorisations
             mix a matrix. A primitive without a rule passes all of its operands to each entry of its
             outputs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tractable.programs.element_sets import ElementSets
from tractable.programs.tape import Step, Tape

__all__ = ["RULES", "Call", "Numbers", "unknown"]

Numbers = np.ndarray | None

ELEMENTWISE = """
abs acos acosh add add_any and asin asinh atan atan2 atanh bessel_i0e bessel_i1e cbrt ceil clamp clz
complex conj convert_element_type copy copy_p cos cosh digamma div eq eq_to erf erf_inv erfc exp exp2
expm1 floor ge gt igamma igamma_grad_a igammac imag integer_pow is_finite le le_to lgamma log log1p
logistic lt lt_to max min mul mulhi ne neg nextafter not or polygamma population_count pow
random_gamma_grad real reduce_precision regularized_incomplete_beta rem round rsqrt shift_left
shift_right_arithmetic shift_right_logical sharding_constraint sign sin sinh sqrt square stop_gradient
sub tan tanh name xor zeta
"""


@dataclass(frozen=True)
class Call:
    """One step with the numbers of its operands, and their values where these are known and matter."""

    tape: Tape
    step: Step
    sets: ElementSets
    numbers: list[Numbers]
    values: list[np.ndarray | None]

    @property
    def params(self) -> dict[str, Any]:
        return self.step.params

    def shape(self, place: int) -> tuple[int, ...]:
        """The shape of an operand."""
        return tuple(self.tape.types[self.step.inputs[place]].shape)

    def out_shape(self, place: int = 0) -> tuple[int, ...]:
        """The shape of an output."""
        return tuple(self.tape.types[self.step.outputs[place]].shape)

    def filled(self, place: int) -> np.ndarray:
        """The numbers of an operand, zeros where it is free."""
        found = self.numbers[place]
        return np.broadcast_to(np.int64(0), self.shape(place)) if found is None else found


Rule = Callable[[Call], Sequence[Numbers]]
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a function as the rule of these primitives."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def unknown(call: Call) -> Sequence[Numbers]:
    """Every entry of every output depends on all that any operand depends on."""
    total = call.sets.everything(call.numbers)
    return [spread(total, call.out_shape(place)) for place in range(len(call.step.outputs))]


def spread(numbers: Numbers, shape: tuple[int, ...]) -> Numbers:
    return None if numbers is None else np.broadcast_to(numbers, shape)


@rule(*ELEMENTWISE.split())
def _entry_by_entry(call: Call) -> Sequence[Numbers]:
    return [spread(call.sets.union_of(call.numbers), call.out_shape())]


@rule("optimization_barrier", "device_put")
def _each_to_each(call: Call) -> Sequence[Numbers]:
    return call.numbers


@rule("reshape")
def _reshape(call: Call) -> Sequence[Numbers]:
    order, numbers = call.params["dimensions"], call.filled(0)
    return [(numbers if order is None else numbers.transpose(order)).reshape(call.out_shape())]


@rule("squeeze", "expand_dims")
def _squeeze(call: Call) -> Sequence[Numbers]:
    return [call.filled(0).reshape(call.out_shape())]


@rule("transpose")
def _transpose(call: Call) -> Sequence[Numbers]:
    return [call.filled(0).transpose(call.params["permutation"])]


@rule("broadcast_in_dim")
def _broadcast(call: Call) -> Sequence[Numbers]:
    shape, kept = call.out_shape(), call.params["broadcast_dimensions"]
    new = tuple(axis for axis in range(len(shape)) if axis not in kept)
    return [np.broadcast_to(np.expand_dims(call.filled(0), new), shape)]


@rule("tile")
def _tile(call: Call) -> Sequence[Numbers]:
    return [np.tile(call.filled(0), call.params["reps"])]


@rule("rev")
def _reverse(call: Call) -> Sequence[Numbers]:
    return [np.flip(call.filled(0), call.params["dimensions"])]


@rule("slice")
def _slice(call: Call) -> Sequence[Numbers]:
    starts, limits = call.params["start_indices"], call.params["limit_indices"]
    strides = call.params["strides"] or (1,) * len(starts)
    return [call.filled(0)[tuple(map(slice, starts, limits, strides))]]


@rule("concatenate")
def _concatenate(call: Call) -> Sequence[Numbers]:
    return [np.concatenate([call.filled(i) for i in range(len(call.numbers))], call.params["dimension"])]


@rule("stack")
def _stack(call: Call) -> Sequence[Numbers]:
    return [np.stack([call.filled(i) for i in range(len(call.numbers))], call.params["axis"])]


@rule("split")
def _split(call: Call) -> Sequence[Numbers]:
    ends = np.cumsum(call.params["sizes"])[:-1]
    return np.split(call.filled(0), ends, call.params["axis"])


@rule("unstack")
def _unstack(call: Call) -> Sequence[Numbers]:
    return list(np.moveaxis(call.filled(0), call.params["axis"], 0))


@rule("pad")
def _pad(call: Call) -> Sequence[Numbers]:
    shape, config = call.out_shape(), call.params["padding_config"]
    out = np.full(shape, call.filled(1), np.int64)
    places = [low + np.arange(size) * (gap + 1) for size, (low, _, gap) in zip(call.shape(0), config)]
    inside = [(place >= 0) & (place < size) for place, size in zip(places, shape)]
    if shape:
        kept = np.ix_(*(place[good] for place, good in zip(places, inside)))
        out[kept] = call.filled(0)[np.ix_(*inside)]
        return [out]
    return [call.filled(0)]


@rule("select_n")
def _select(call: Call) -> Sequence[Numbers]:
    """The chosen case where the predicate is known, else all cases and the predicate."""
    shape, cases = call.out_shape(), range(1, len(call.numbers))
    known = call.values[0]
    if known is None:
        return [spread(call.sets.union_of(call.numbers), shape)]
    chosen = np.broadcast_to(known.astype(np.int64), shape)
    return (
        [np.asarray(np.choose(chosen, [call.filled(i) for i in cases]))]
        if len(cases) <= 32
        else unknown(call)
    )


@rule(
    *("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or", "reduce_xor"),
    *("argmax", "argmin"),
)
def _reduce(call: Call) -> Sequence[Numbers]:
    return [call.sets.reduce(call.numbers[0], call.params["axes"])]


@rule("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
def _cumulate(call: Call) -> Sequence[Numbers]:
    numbers, axis = call.filled(0), call.params["axis"]
    moved = np.moveaxis(np.flip(numbers, axis) if call.params["reverse"] else numbers, axis, 0)
    columns = moved.reshape(moved.shape[0], -1)
    distinct, which = np.unique(columns, axis=1, return_inverse=True)
    found = np.stack([running(call.sets, column) for column in distinct.T], axis=1)
    out = np.moveaxis(found[:, which.ravel()].reshape(moved.shape), 0, axis)
    return [np.flip(out, axis) if call.params["reverse"] else out]


def running(sets: ElementSets, numbers: np.ndarray) -> np.ndarray:
    """The unions of the first, the first two, ... of a list of numbers.

    A number that came before adds nothing, so that there are as many unions as different numbers. Where they
    would hold more than the limit of `sets`, all are the last.
    """
    distinct, first, which = np.unique(numbers, return_index=True, return_inverse=True)
    order = np.argsort(first)
    count = len(distinct)
    heights = np.maximum.accumulate(np.argsort(order)[which])
    _, lengths = sets.members(distinct[order])
    if (lengths * np.arange(count, 0, -1)).sum() > sets.limit:
        return np.broadcast_to(sets.everything([distinct]), numbers.shape)  # pyright: ignore
    owners = np.repeat(np.arange(count), np.arange(1, count + 1))
    inside = np.arange(len(owners)) - owners * (owners + 1) // 2
    return sets.unite(owners, distinct[order][inside], count)[heights]


@rule("sort")
def _sort(call: Call) -> Sequence[Numbers]:
    axis, keys = call.params["dimension"], call.params["num_keys"]
    along = [_over(call, place, axis) for place in range(len(call.numbers))]
    key = call.sets.union_of(along[:keys])
    return [spread(call.sets.union(key, each), call.out_shape()) for each in along]


@rule("top_k")
def _top(call: Call) -> Sequence[Numbers]:
    axis = call.params["axis"] if "axis" in call.params else len(call.shape(0)) - 1
    return [spread(_over(call, 0, axis), call.out_shape(place)) for place in range(2)]


def _over(call: Call, place: int, axis: Any) -> Numbers:
    """The union along an axis, which is kept with length one."""
    found = call.sets.reduce(call.numbers[place], (axis,))
    return None if found is None else np.expand_dims(found, axis)


@rule("dot_general")
def _contract(call: Call) -> Sequence[Numbers]:
    (left_sum, right_sum), (left_batch, right_batch) = call.params["dimension_numbers"]
    left = _contracted(call, 0, left_sum, left_batch)
    right = _contracted(call, 1, right_sum, right_batch)
    batch = len(left_batch)
    others = (left.ndim - batch, right.ndim - batch)
    left = left.reshape(left.shape + (1,) * others[1])
    right = right.reshape(right.shape[:batch] + (1,) * others[0] + right.shape[batch:])
    return [spread(call.sets.union(left, right), call.out_shape())]


def _contracted(call: Call, place: int, axes: Sequence[Any], batch: Sequence[Any]) -> np.ndarray:
    """One side of a contraction: batch axes first, then the free ones."""
    shape = call.shape(place)
    free = [axis for axis in range(len(shape)) if axis not in axes and axis not in batch]
    moved = call.filled(place).transpose([*batch, *free, *axes])
    found = call.sets.reduce(moved, range(len(batch) + len(free), len(shape)))
    assert found is not None
    return found


@rule("triangular_solve")
def _solve(call: Call) -> Sequence[Numbers]:
    matrix = call.sets.reduce(call.filled(0), (len(call.shape(0)) - 2, len(call.shape(0)) - 1))
    assert matrix is not None
    axis = len(call.shape(1)) - (2 if call.params["left_side"] else 1)
    return [spread(call.sets.union(matrix[..., None, None], _over(call, 1, axis)), call.out_shape())]


@rule(
    "cholesky", "eigh", "eig", "lu", "qr", "svd", "schur", "hessenberg", "geqrf", "lu_pivots_to_permutation"
)
def _factorise(call: Call) -> Sequence[Numbers]:
    """All outputs of a matrix depend on all of it; leading axes stay apart."""
    shape, rank = call.shape(0), 1 if call.step.name == "lu_pivots_to_permutation" else 2
    total = call.sets.reduce(call.filled(0), range(len(shape) - rank, len(shape)))
    return [_under(total, call.out_shape(place)) for place in range(len(call.step.outputs))]


@rule("tridiagonal_solve")
def _tridiagonal(call: Call) -> Sequence[Numbers]:
    lines = [call.sets.reduce(call.filled(i), (len(call.shape(i)) - 1,)) for i in range(3)]
    total = call.sets.union_of(lines)
    assert total is not None
    return [
        spread(
            call.sets.union(total[..., None, None], _over(call, 3, len(call.shape(3)) - 2)), call.out_shape()
        )
    ]


@rule("fft")
def _fourier(call: Call) -> Sequence[Numbers]:
    shape, rank = call.shape(0), len(call.params["fft_lengths"])
    return [_under(call.sets.reduce(call.filled(0), range(len(shape) - rank, len(shape))), call.out_shape())]


def _under(numbers: Numbers, shape: tuple[int, ...]) -> Numbers:
    """Numbers of leading axes, for all entries of the axes behind."""
    assert numbers is not None
    return np.broadcast_to(numbers.reshape(numbers.shape + (1,) * (len(shape) - numbers.ndim)), shape)
