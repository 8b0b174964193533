"""Where the sites of a program are drawn: children below their parents, each plate a rectangle of its own.

Blocks.      A plate with what is in it is one block, laid out inside first; a site outside of plates is one
             too. Blocks move towards the mean of their neighbours, to the nearest place where they touch no
             other block of the same rows.
Cost.        The square of the number of blocks in each of a few sweeps.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from tractable.programs.run import Plate

__all__ = ["ROW", "Frame", "lines_of", "node_width", "placed"]

ROW = 1.35  # the height of a row, in units of the picture
_LETTER, _MARGIN, _GAP = 0.105, 0.34, 0.3
_LONG = 13  # letters of a line


@dataclasses.dataclass(frozen=True)
class Frame:
    """A plate as it is drawn: its lower left corner, its size and its label."""

    low: tuple[float, float]
    size: tuple[float, float]
    label: str


@dataclasses.dataclass
class _Block:
    """Sites with places relative to the middle of the block, its width, and its first and last row."""

    at: dict[str, float]
    width: float
    top: int
    bottom: int
    x: float = 0.0


def placed(
    parents: Mapping[str, Sequence[str]], plates: Mapping[str, tuple[Plate, ...]]
) -> tuple[dict[str, tuple[float, float]], list[Frame]]:
    """The middle of each site, and the frames of the plates, the outer ones first."""
    rows = _rows(parents)
    near: dict[str, set[str]] = {name: set(parents[name]) for name in parents}
    for name, own in parents.items():
        for parent in own:
            near[parent].add(name)
    block = _arranged(list(parents), 0, plates, rows, near)
    at = {name: (x, -ROW * rows[name]) for name, x in block.at.items()}
    return at, _frames(at, plates)


def lines_of(name: str) -> list[str]:
    """A name in lines of not too many letters, broken after `_`, a space, a comma or before a bracket."""
    pieces, start = [], 0
    for i, letter in enumerate(name):
        if letter in "_ ,|" or (i + 1 < len(name) and name[i + 1] == "("):
            pieces.append(name[start : i + 1])
            start = i + 1
    pieces.append(name[start:])
    lines = [""]
    for piece in pieces:
        if lines[-1] and len(lines[-1]) + len(piece) > _LONG:
            lines.append("")
        lines[-1] += piece
    return [line.strip() for line in lines if line.strip()]


def node_width(name: str) -> float:
    """The width of a site, by its longest line."""
    lines = lines_of(name)
    return max(0.62, _LETTER * max(map(len, lines)) + _MARGIN + 0.1 * (len(lines) - 1))


def _rows(parents: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """The longest way from a root; roots come down to just above their first child."""
    rows: dict[str, int] = {}
    for name, own in parents.items():  # parents are named before their children
        rows[name] = max((rows[parent] + 1 for parent in own), default=0)
    for name, own in parents.items():
        below = [rows[child] for child, others in parents.items() if name in others]
        if not own and below:
            rows[name] = min(below) - 1
    return rows


def _arranged(
    names: list[str],
    depth: int,
    plates: Mapping[str, tuple[Plate, ...]],
    rows: Mapping[str, int],
    near: Mapping[str, set[str]],
) -> _Block:
    """The sites, those in one plate more than `depth` as blocks of their own."""
    inner: dict[tuple[Plate, ...], list[str]] = {}
    blocks: list[_Block] = []
    for name in names:
        if len(plates[name]) > depth:
            inner.setdefault(plates[name][: depth + 1], []).append(name)
        else:
            blocks.append(_Block({name: 0.0}, node_width(name) + _GAP, rows[name], rows[name]))
    for path, members in inner.items():
        block = _arranged(members, depth + 1, plates, rows, near)
        least = 0.1 * len(_label(path[-1])) + 0.2
        block.width = max(block.width, least) + _GAP
        blocks.append(block)
    _settle(blocks, near)
    left = min(block.x - block.width / 2 for block in blocks)
    right = max(block.x + block.width / 2 for block in blocks)
    middle = (left + right) / 2
    at = {name: block.x + x - middle for block in blocks for name, x in block.at.items()}
    ends = [rows[name] for name in names]
    return _Block(at, right - left, min(ends), max(ends))


def _settle(blocks: list[_Block], near: Mapping[str, set[str]]) -> None:
    """Blocks go where their neighbours are, without touching each other."""
    done: list[_Block] = []
    for block in sorted(blocks, key=lambda b: (b.top, -len(b.at))):
        block.x = _nearest(block, _wanted(block, done, near), done)
        done.append(block)
    for sweep in range(8):
        order = sorted(blocks, key=lambda b: b.top, reverse=sweep % 2 == 0)
        for block in order:
            others = [other for other in blocks if other is not block]
            block.x = _nearest(block, _wanted(block, others, near), others)


def _wanted(block: _Block, others: list[_Block], near: Mapping[str, set[str]]) -> float:
    """Where the block's sites would be in line with their neighbours outside of it."""
    where = {name: other.x + x for other in others for name, x in other.at.items()}
    pulls = [where[other] - x for name, x in block.at.items() for other in near[name] if other in where]
    return float(np.mean(pulls)) if pulls else block.x


def _nearest(block: _Block, wanted: float, others: list[_Block]) -> float:
    """The free place nearest to the one that is wanted."""
    beside = [o for o in others if o.top <= block.bottom and block.top <= o.bottom]
    ends = [(o.x, (o.width + block.width) / 2) for o in beside]
    options = [wanted, *(x + side * reach for x, reach in ends for side in (-1, 1))]
    free = [x for x in options if all(abs(x - other) >= reach - 1e-9 for other, reach in ends)]
    return min(free, key=lambda x: abs(x - wanted))


def _frames(at: Mapping[str, tuple[float, float]], plates: Mapping[str, tuple[Plate, ...]]) -> list[Frame]:
    paths = sorted({p[:k] for p in plates.values() for k in range(1, len(p) + 1)}, key=len)
    found = []
    for path in paths:
        members = [name for name, own in plates.items() if own[: len(path)] == path]
        inside = max(len(plates[name]) for name in members) - len(path)
        pad, foot = 0.12 + 0.1 * inside, 0.24 * (inside + 1)
        left = min(at[name][0] - node_width(name) / 2 for name in members) - pad
        right = max(at[name][0] + node_width(name) / 2 for name in members) + pad
        low = min(at[name][1] for name in members) - 0.28 - 0.06 * inside - foot
        high = max(at[name][1] for name in members) + 0.28 + pad
        short = 0.1 * len(_label(path[-1])) + 0.15 - (right - left)
        left, right = left - max(short, 0) / 2, right + max(short, 0) / 2
        found.append(Frame((left, low), (right - left, high - low), _label(path[-1])))
    return found


def _label(plate: Plate) -> str:
    return f"{plate.name}: {plate.size}"
