r"""How dependence passes through indexing: gathers, scatters and slices that start where a program says.

Known.       An index that no latent moves picks entries: their numbers are picked in its stead.
Moving.      Where a latent moves an index, the result depends on the index and on every entry that it may
             pick: all along the axes that it moves on, and no others.
Values.      The values of moving indices are examples; only their entries that are free of latents are read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tractable.programs.dependence_rules import Call, Numbers, Rule, spread, unknown

__all__ = ["RULES"]


@dataclass(frozen=True)
class Windows:
    """Where the windows of a gather or scatter lie: `shape` of the operand, `sizes` of a window on its axes.

    `axes[c]` is the axis of the operand that column `c` of the index moves on; `offsets` are the axes of the
    output along which a window extends.
    """

    shape: tuple[int, ...]
    sizes: tuple[int, ...]
    axes: tuple[int, ...]
    offsets: tuple[int, ...]
    collapsed: tuple[int, ...]
    batching: tuple[int, ...]
    index_batching: tuple[int, ...]
    drop: bool

    def over_batch(self, array: np.ndarray) -> np.ndarray:
        """An array over the positions of the index, as one that broadcasts with the output."""
        return np.expand_dims(array, self.offsets)

    def places(self, index: np.ndarray, free: Sequence[int] = ()) -> np.ndarray:
        """The flat place in the operand of each entry of the output; -1 where a window falls outside.

        Axes in `free` are those along which the operand has been reduced to one entry.
        """
        windows = [d for d in range(len(self.shape)) if d not in self.collapsed and d not in self.batching]
        rank = index.ndim - 1 + len(self.offsets)
        flat: Any = np.zeros((1,) * rank, np.int64)
        inside: Any = np.ones((1,) * rank, bool)
        for axis, extent in enumerate(self.shape):
            place = np.zeros((1,) * rank, np.int64)
            if axis in free:
                extent = 1
            else:
                if axis in self.axes:
                    start = index[..., self.axes.index(axis)].astype(np.int64)
                    last = extent - self.sizes[axis]
                    inside = inside & self.over_batch((start >= 0) & (start <= last))
                    place = self.over_batch(np.clip(start, 0, last))
                elif axis in self.batching:
                    along = self.index_batching[self.batching.index(axis)]
                    count = np.arange(index.shape[along])
                    place = self.over_batch(_along(count, along, index.ndim - 1))
                if axis in windows:
                    steps = np.arange(self.sizes[axis])
                    place = place + _along(steps, self.offsets[windows.index(axis)], rank)
            flat = flat * extent + place
        return np.where(inside, flat, -1) if self.drop else flat


def _whole(numbers: Any) -> tuple[int, ...]:
    """Dimension numbers as plain integers: they come in NumPy's as well."""
    return tuple(map(int, numbers))


def _along(values: np.ndarray, axis: int, rank: int) -> np.ndarray:
    return values.reshape([-1 if each == axis else 1 for each in range(rank)])


def _take(numbers: np.ndarray, places: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    flat = np.append(numbers.ravel(), 0)  # place -1: outside, free of all
    return np.broadcast_to(flat[places], shape)


def _gather(call: Call) -> Sequence[Numbers]:
    dims, mode = call.params["dimension_numbers"], str(call.params["mode"])
    windows = Windows(
        call.shape(0),
        _whole(call.params["slice_sizes"]),
        _whole(dims.start_index_map),
        _whole(dims.offset_dims),
        _whole(dims.collapsed_slice_dims),
        _whole(dims.operand_batching_dims),
        _whole(dims.start_indices_batching_dims),
        "FILL" in mode,
    )
    index, shape = call.values[1], call.out_shape()
    if index is None:
        index = np.zeros(call.shape(1), np.int64)
        known = np.zeros(index.shape, bool)
    else:
        known = call.filled(1) == 0
    exact = _take(call.filled(0), windows.places(index), shape)
    if known.all():
        return [exact]
    free = _moving_axes(windows, known)
    reduced = call.sets.reduce(call.filled(0), free)
    assert reduced is not None
    loose = _take(np.expand_dims(reduced, free), windows.places(index, free), shape)
    moved = call.sets.reduce(call.numbers[1], (index.ndim - 1,))
    moved = None if moved is None else windows.over_batch(moved)
    united = spread(call.sets.union(loose, moved), shape)
    assert united is not None
    return [np.where(windows.over_batch(np.all(known, axis=-1, keepdims=True)[..., 0]), exact, united)]


def _moving_axes(windows: Windows, known: np.ndarray) -> tuple[int, ...]:
    """The axes that an unknown index moves on; a window as long as its axis has nowhere to go."""
    fixed = [bool(known[..., column].all()) for column in range(known.shape[-1])]
    columns = zip(windows.axes, fixed)
    return tuple(
        sorted(axis for axis, good in columns if not good and windows.sizes[axis] < windows.shape[axis])
    )


def _scatter(call: Call) -> Sequence[Numbers]:
    dims, mode = call.params["dimension_numbers"], str(call.params["mode"])
    shape = call.shape(0)
    inserted, batching = _whole(dims.inserted_window_dims), _whole(dims.operand_batching_dims)
    lengths = iter(call.shape(2)[axis] for axis in dims.update_window_dims)
    sizes = tuple(1 if axis in inserted or axis in batching else next(lengths) for axis in range(len(shape)))
    windows = Windows(
        shape,
        sizes,
        _whole(dims.scatter_dims_to_operand_dims),
        _whole(dims.update_window_dims),
        inserted,
        batching,
        _whole(dims.scatter_indices_batching_dims),
        "CLIP" not in mode,
    )
    index = call.values[1]
    known = np.zeros(call.shape(1), bool) if index is None else call.filled(1) == 0
    index = np.zeros(call.shape(1), np.int64) if index is None else index
    free = () if known.all() else _moving_axes(windows, known)
    if not known.all():
        windows = Windows(**{**windows.__dict__, "drop": False})
    places = np.broadcast_to(windows.places(index, free), call.shape(2)).ravel()
    new = call.filled(2)
    if not known.all():
        moved = call.sets.reduce(call.numbers[1], (known.ndim - 1,))
        new = call.sets.union(new, None if moved is None else windows.over_batch(moved))
    assert new is not None
    small = tuple(1 if axis in free else extent for axis, extent in enumerate(shape))
    hit = places >= 0
    count = int(np.prod(small))
    arriving = call.sets.unite(places[hit], new.ravel()[hit], count).reshape(small)
    if call.step.name == "scatter" and known.all():
        written = np.zeros(count, bool)
        written[places[hit]] = True
        return [np.where(written.reshape(shape), arriving, call.filled(0))]
    return [spread(call.sets.union(call.filled(0), arriving), shape)]


def _dynamic_slice(call: Call) -> Sequence[Numbers]:
    shape, sizes = call.shape(0), call.params["slice_sizes"]
    held, starts = call.filled(0), call.values[1 : 1 + len(shape)]
    if len(call.numbers) != 1 + len(shape):
        return unknown(call)
    for axis, (extent, size, start) in enumerate(zip(shape, sizes, starts)):
        if size == extent:
            continue
        if start is None or call.numbers[1 + axis] is not None:
            found = call.sets.reduce(held, (axis,))
            assert found is not None
            held = np.expand_dims(found, axis)
        else:
            first = int(np.clip(start, 0, extent - size))
            held = held[(slice(None),) * axis + (slice(first, first + size),)]
    return [spread(call.sets.union(held, call.sets.everything(call.numbers[1:])), tuple(sizes))]


def _dynamic_update(call: Call) -> Sequence[Numbers]:
    shape, sizes = call.shape(0), call.shape(1)
    held, new, starts = call.filled(0), call.filled(1), call.values[2:]
    known = [size == extent or start is not None for extent, size, start in zip(shape, sizes, starts)]
    moving = any(each is not None for each in call.numbers[2:])
    if all(known) and not moving:
        first = [
            0 if start is None else int(np.clip(start, 0, e - s)) for e, s, start in zip(shape, sizes, starts)
        ]
        out = np.array(held)
        out[tuple(slice(a, a + size) for a, size in zip(first, sizes))] = new
        return [out]
    loose = tuple(axis for axis, (extent, size) in enumerate(zip(shape, sizes)) if size < extent)
    found = call.sets.reduce(new, loose)
    assert found is not None
    arriving = call.sets.union(np.expand_dims(found, loose), call.sets.everything(call.numbers[2:]))
    return [spread(call.sets.union(held, arriving), shape)]


_SCATTERS = ("scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max")
RULES: dict[str, Rule] = {
    "gather": _gather,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update,
    **dict.fromkeys(_SCATTERS, _scatter),
    **dict.fromkeys((name.replace("-", "_") for name in _SCATTERS), _scatter),
}
