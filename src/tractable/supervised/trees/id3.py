r"""ID3: classification trees on categorical attributes, with one branch for each value.

Growth.      If all rows have one class, or no attribute is left, a leaf; else split on $A^* = \arg\max_A
             \mathrm{Gain}(S, A)$ (of equals the first) into the rows of each value and go on with the other
             attributes. A value that no row of the node has gives a leaf with the node's majority.
Prediction.  A value never seen (or missing) is answered with the majority of the node where it turns up.
Cost.        $O(d\,n)$ for each level, at most $d$ levels.
References.  Quinlan (1986); Mitchell (1997) chapter 3.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tractable.core.checks import check
from tractable.core.module import HostResult, field
from tractable.core.rows import row_weights
from tractable.core.types import ArrayLike, Float, Int
from tractable.core.verdict import Verdict
from tractable.supervised.trees.tree import split_gain

__all__ = ["ID3Tree", "fit_id3"]


class ID3Tree(HostResult):
    """A fitted ID3 tree: `children[node, value]` by the codes of `values`, attribute -1 for a leaf."""

    attribute: Int[np.ndarray, " m"]
    children: Int[np.ndarray, "m v"]
    counts: Float[np.ndarray, "m k"]
    majority: Int[np.ndarray, " m"]
    values: tuple = field(static=True)
    labels: tuple = field(static=True)
    names: tuple = field(static=True)

    def predict(self, rows: Any) -> list[Any]:
        """The label of each row."""
        return [self.labels[int(self.majority[self._leaf(row)])] for row in self._checked(rows)]

    def probabilities(self, rows: Any) -> Float[np.ndarray, "n k"]:
        """The class shares where each row ends; an empty branch has those of the node above it."""
        counts = self.counts[[self._leaf(row) for row in self._checked(rows)]]
        return counts / counts.sum(1, keepdims=True)

    def text(self) -> str:
        """The tree as indented lines, one for each branch."""
        lines = []
        for node, tests in self._walk():
            test = f"{self.names[tests[-1][0]]} = {tests[-1][1]}" if tests else "all rows"
            answer = f"  -> {self._label(node)}" if self.attribute[node] < 0 else ""
            lines.append("|   " * (len(tests) - 1) + ("|-- " if tests else "") + test + answer)
        return "\n".join(lines)

    def rules(self) -> list[str]:
        """One rule for each leaf: a conjunction of values, and the label."""
        rules = []
        for node, tests in self._walk():
            if self.attribute[node] < 0:
                told = " and ".join(f"{self.names[a]} = {value}" for a, value in tests)
                rules.append(f"if {told}: {self._label(node)}" if told else f"always: {self._label(node)}")
        return rules

    def _label(self, node: int) -> Any:
        return self.labels[int(self.majority[node])]

    def _walk(self) -> Iterator[tuple[int, list[tuple[int, Any]]]]:
        waiting: list[tuple[int, list[tuple[int, Any]]]] = [(0, [])]
        while waiting:
            node, tests = waiting.pop()
            yield node, tests
            a = int(self.attribute[node])
            if a >= 0:
                branches = list(zip(self.children[node], self.values[a]))
                waiting += [(int(child), [*tests, (a, value)]) for child, value in reversed(branches)]

    def _leaf(self, row: Any) -> int:
        node = 0
        while self.attribute[node] >= 0:
            known = self.values[int(self.attribute[node])]
            value = row[int(self.attribute[node])]
            if value not in known:
                return node
            node = int(self.children[node, known.index(value)])
        return node

    def _checked(self, rows: Any) -> list[list[Any]]:
        table = _table(rows)
        width = len(table[0])
        check(width == len(self.names), "rows", f"of {len(self.names)} attributes", f"{width} attributes")
        return table

    @property
    def verdict(self) -> Verdict:
        """Size, and the share of training rows that it gets wrong."""
        leaves = self.attribute < 0
        wrong = (self.counts.sum(1) - self.counts.max(1))[leaves & (self.children[:, 0] == -1)].sum()
        share = float(wrong / self.counts[0].sum())
        root = "no split" if leaves[0] else f"root {self.names[self.attribute[0]]}"
        sentence = f"{int(leaves.sum())} leaves, {root}, training error {share:.4g}."
        return Verdict(True, sentence, {"training_error": share})


def fit_id3(
    rows: Any, labels: Any, weights: ArrayLike | None = None, names: Sequence[str] | None = None
) -> ID3Tree:
    """The ID3 tree of a table of categories (a list of rows, an array, or a data frame) and its labels.

    >>> tree = fit_id3([["sun", "hot"], ["sun", "cold"], ["rain", "hot"], ["rain", "cold"]], [1, 1, 0, 0])
    >>> tree.rules()
    ['if x0 = rain: 0', 'if x0 = sun: 1']
    """
    if names is None and hasattr(rows, "columns"):
        names = [str(name) for name in rows.columns]
    table, y = _table(rows), _plain(labels)
    check(len(y) == len(table), "labels", f"one per row ({len(table)})", len(y))
    names = tuple(names) if names is not None else tuple(f"x{j}" for j in range(len(table[0])))
    check(len(names) == len(table[0]), "names", f"one per attribute ({len(table[0])})", len(names))
    w = row_weights(weights, len(y))
    keep = w > 0
    kept = [row for row, k in zip(table, keep) if k]
    columns = [_codes([row[j] for row in kept]) for j in range(len(names))]
    known, codes = _codes([label for label, k in zip(y, keep) if k])
    attribute, children, counts, majority = _grow([c for _, c in columns], [len(v) for v, _ in columns],
                                                  codes, len(known), w[keep])  # fmt: skip
    return ID3Tree(attribute, children, counts, majority, tuple(v for v, _ in columns), known, names)


def _grow(
    columns: list[np.ndarray], sizes: list[int], codes: np.ndarray, num_labels: int, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Nodes in the order in which they are opened."""
    width, attribute, children, counts, majority = max(sizes), [-1], [[-1] * max(sizes)], [], []
    counts.append(np.bincount(codes, weights, num_labels))
    majority.append(int(counts[0].argmax()))
    waiting = [(0, np.arange(len(codes)), list(range(len(columns))))]
    while waiting:
        node, mine, free = waiting.pop()
        if (counts[node] > 0).sum() <= 1 or not free:
            continue
        tables = [_cross(columns[a][mine], codes[mine], weights[mine], sizes[a], num_labels) for a in free]
        gains = np.array([split_gain(table) for table in tables])
        chosen = int(np.flatnonzero(gains >= gains.max() - 1e-12)[0])  # of equals the first
        a = free[chosen]
        attribute[node] = a
        for value in range(sizes[a]):
            child, here = len(attribute), mine[columns[a][mine] == value]
            children[node][value] = child
            attribute.append(-1)
            children.append([-1] * width)
            counts.append(tables[chosen][value] if len(here) else counts[node])
            majority.append(int(counts[child].argmax()) if len(here) else majority[node])
            if len(here):
                waiting.append((child, here, [b for b in free if b != a]))
    return np.array(attribute), np.array(children), np.array(counts), np.array(majority)


def _cross(
    column: np.ndarray, codes: np.ndarray, weights: np.ndarray, size: int, num_labels: int
) -> np.ndarray:
    return np.bincount(column * num_labels + codes, weights, size * num_labels).reshape(size, num_labels)


def _codes(values: list[Any]) -> tuple[tuple, np.ndarray]:
    """The distinct values (sorted where they can be) and the code of each entry."""
    try:
        known = tuple(sorted(set(values)))
    except TypeError:
        known = tuple(dict.fromkeys(values))
    place = {value: code for code, value in enumerate(known)}
    return known, np.array([place[value] for value in values], np.int64)


def _plain(values: Any) -> list[Any]:
    return values.tolist() if hasattr(values, "tolist") else list(values)


def _table(rows: Any) -> list[list[Any]]:
    if hasattr(rows, "to_numpy"):
        rows = rows.to_numpy(dtype=object)
    table = [_plain(row) for row in _plain(rows)]
    check(len(table) > 0 and len(table[0]) > 0, "rows", "at least one row of at least one attribute", "none")
    widths = {len(row) for row in table}
    check(len(widths) == 1, "rows", "of one length", f"lengths {sorted(widths)}")
    return table
