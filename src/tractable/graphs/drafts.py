r"""From the parts of a network file to a network: what every format checks, with file and line in each error.

Identity.    A row of printed digits sums to one up to their rounding, and is kept as printed. A row that
             misses one by more than six digits explain is divided: $p_k \leftarrow p_k / \sum_j p_j$ where
             $|\sum_j p_j - 1| \le 10^{-4}$; a row further off is refused.
Cost.        Linear in the file; lines are counted only for an error or a report.
"""

import math
import re
import sys
import warnings
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple, NoReturn

import jax
import numpy as np

from tractable.core.checks import check
from tractable.core.types import Array
from tractable.distributions.tables import ConditionalTable
from tractable.graphs.bayes_net import BayesNet

__all__ = [
    "Draft",
    "FileError",
    "RoundedRow",
    "RoundedTables",
    "Source",
    "first_not_number",
    "label_text",
    "states_text",
]

_LARGEST_GAP = 1e-4
_QUIET_GAP = 1.5e-6  # three thirds in six digits miss one by 1e-6
_ROUNDING = 1e-12  # what the sum itself may lose; rows as near as this are kept to the last bit
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_MOST_CELLS, _MOST_AXES = 2**24, 32  # of all tables of a file: `default` may ask for more than it lists


class FileError(ValueError):
    """A file that is not what its format asks for: `path` and `line` say where."""

    def __init__(self, path: str, line: int, message: str):
        super().__init__(f"{path}:{line}: {message}")
        self.path, self.line = path, line


class RoundedTables(UserWarning):
    """Rows of a file missed one by more than six printed digits explain; they were renormalised."""


class RoundedRow(NamedTuple):
    """A row that is rounded: whose, where, and what it sums to."""

    variable: str
    line: int
    total: float


class Source:
    """A file whose parts are numbered from zero by `find(text)`, and which knows the line of each of them."""

    def __init__(self, path: str, text: str, find: Callable[[str], Sequence[int]]):
        """`find` gives the places in the text where the parts start, and is called if there is an error."""
        self.path, self.text, self._find = path, text, find

    def line(self, position: int) -> int:
        """The line, from one, of a part; that of the end of the text if there is no such part."""
        known = position < len(self._starts)
        place = self._starts[position] if known else len(self.text.rstrip())
        return bisect_left(self._line_ends, place) + 1

    @cached_property
    def _starts(self) -> Sequence[int]:
        return self._find(self.text)

    def fail(self, position: int, name: str, must: str, got: Any, fix: str = "") -> NoReturn:
        """Raise a `FileError` at a position, in the format of `core.checks.check`."""
        message = f"`{name}` must be {must}; got {got}." + (f" {fix}" if fix else "")
        raise FileError(self.path, self.line(position), message)

    @cached_property
    def _line_ends(self) -> list[int]:
        return [i for i, character in enumerate(self.text) if character == "\n"]


class _Table(NamedTuple):
    given: tuple[str, ...]
    probs: np.ndarray
    position: int


class Draft:
    """Variables and tables as they are read; `network` checks them together."""

    def __init__(self, source: Source):
        self.source = source
        self.states: dict[str, tuple[str, ...]] = {}
        self._declared: dict[str, int] = {}
        self._tables: dict[str, _Table] = {}
        self._rounded: list[tuple[str, int, float]] = []
        self._cells = 0

    def declare(self, name: str, states: Sequence[str], position: int) -> None:
        """A variable with its states, each once."""
        fail = self.source.fail
        if name in self.states:
            fail(position, name, "declared once", f"again after line {self.line_of_variable(name)}")
        if not name:
            fail(position, "variable", "given a name", "none")
        if not states:
            fail(position, name, "a variable with at least one state", "none")
        if len(set(states)) < len(states):
            twice = next(state for i, state in enumerate(states) if state in states[:i])
            fail(position, name, "a variable with distinct states", f"{twice!r} twice")
        self.states[name] = tuple(states)
        self._declared[name] = position

    def line_of_variable(self, name: str) -> int:
        return self.source.line(self._declared[name])

    def shape(self, name: str, given: Sequence[str], position: int) -> tuple[int, ...]:
        """The shape of the table of `name`, its parents first; all must be declared, none repeated."""
        fail = self.source.fail
        if name not in self.states:
            fail(position, name, "a declared variable", "a table without one")
        if name in self._tables:
            line = self.source.line(self._tables[name].position)
            fail(position, name, "given one table", f"another after line {line}")
        for i, parent in enumerate(given):
            if parent not in self.states:
                fail(position, name, "given declared parents", repr(parent))
            if parent == name or parent in given[:i]:
                fail(position, name, "given distinct parents other than itself", repr(parent))
        shape = tuple(len(self.states[variable]) for variable in (*given, name))
        self._cells += math.prod(shape)
        most = max(_MOST_CELLS, len(self.source.text))
        if len(shape) > _MOST_AXES or self._cells > most:
            limit = f"of at most {_MOST_AXES} variables, and {most} cells with all tables before it"
            fail(position, name, f"a table {limit}", f"{len(shape)} variables, {self._cells} cells")
        return shape

    def define(
        self, name: str, given: Sequence[str], probs: np.ndarray, position: int, rows: Sequence[int]
    ) -> None:
        """The table of `name` with its parents on the first axes; `rows`: the position of each row."""
        probs = np.ascontiguousarray(probs, float)
        with np.errstate(over="ignore"):
            total = probs.sum(-1)
        gap = np.abs(total - 1).reshape(-1)
        if not (gap <= _LARGEST_GAP).all() or not (probs >= 0).all():
            self._refuse_row(name, tuple(given), probs, rows)
        if (gap > _ROUNDING).any():
            self._rounded += [
                (name, rows[i], total.reshape(-1)[i]) for i in map(int, np.flatnonzero(gap > _ROUNDING))
            ]
            off = np.flatnonzero(gap > _QUIET_GAP)
            probs.reshape(-1, probs.shape[-1])[off] /= total.reshape(-1)[off, None]
        self._tables[name] = _Table(tuple(given), probs, position)

    def rounded_rows(self) -> tuple[RoundedRow, ...]:
        """The rows that do not sum to one, in the order of the file."""
        rows = sorted(self._rounded, key=lambda row: row[1])
        return tuple(RoundedRow(name, self.source.line(at), float(total)) for name, at, total in rows)

    def network(self) -> BayesNet:
        """The network, once every variable has a table and no variable is its own ancestor."""
        fail = self.source.fail
        if not self.states:
            fail(sys.maxsize, "network", "of at least one variable", "none")
        for name, position in self._declared.items():
            if name not in self._tables:
                fail(position, name, "given a table", "none")
        try:
            TopologicalSorter({name: table.given for name, table in self._tables.items()}).prepare()
        except CycleError as error:
            cycle = error.args[1][:-1]
            first = min(range(len(cycle)), key=lambda i: list(self.states).index(cycle[i]))
            around = [*cycle[first:], *cycle[: first + 1]]
            position = max(self._tables[name].position for name in cycle)
            fail(position, "network", "without a cycle", " -> ".join(around))
        self._report()
        arrays = jax.device_put([self._tables[name].probs for name in self.states])  # one transfer is quicker
        return BayesNet([self._conditional(name, probs) for name, probs in zip(self.states, arrays)])

    def _conditional(self, name: str, probs: Array) -> ConditionalTable:
        given = self._tables[name].given
        states = [self.states[variable] for variable in (*given, name)]
        return ConditionalTable(name, given, probs, states, validate=False)

    def _refuse_row(
        self, name: str, given: tuple[str, ...], probs: np.ndarray, rows: Sequence[int]
    ) -> NoReturn:
        flat = probs.reshape(-1, probs.shape[-1])
        with np.errstate(over="ignore"):
            total = flat.sum(-1)
        ok = (flat >= 0).all(-1) & (np.abs(total - 1) <= _LARGEST_GAP)
        row = int(np.flatnonzero(~ok)[0])
        index = np.unravel_index(row, probs.shape[:-1]) if given else ()
        where = ", ".join(f"{parent}={self.states[parent][i]}" for parent, i in zip(given, index))
        must = "a table of numbers from zero whose rows sum to one within 1e-4"
        shown = np.array2string(flat[row], threshold=8, separator=", ").replace("\n", "")
        got = f"{shown} with sum {total[row]:.9g}" + (f" for {where}" if where else "")
        self.source.fail(rows[row], name, must, got)

    def _report(self) -> None:
        if self._rounded:
            name, position, total = max(self._rounded, key=lambda row: abs(row[2] - 1))
            if abs(total - 1) > _QUIET_GAP:
                where = f"{self.source.path}:{self.source.line(position)}"
                rest = "such rows were renormalised (`rounded_rows` lists all that are rounded)"
                warnings.warn(
                    f"{where}: `{name}` has a row with sum {total:.9g}; {rest}.", RoundedTables, stacklevel=4
                )


def first_not_number(words: Sequence[str]) -> int | None:
    """The place of the first word that is not a decimal number; None if all are."""
    if all(map(_NUMBER.fullmatch, words)):
        return None
    return next(i for i, word in enumerate(words) if not _NUMBER.fullmatch(word))


def label_text(name: str, label: Any) -> str:
    """A state or a variable as one line of text; what no format can carry is refused."""
    text = str(label)
    if not text.isprintable():
        raise ValueError(
            f"`{name}` must be printable text on one line to be written; got {text!r}. Rename it."
        )
    return text


def states_text(name: str, states: Sequence[Any]) -> tuple[str, ...]:
    """The states of a variable as text, which must keep them apart."""
    texts = tuple(label_text(name, state) for state in states)
    distinct = len(set(texts)) == len(texts)
    check(distinct, name, "a variable whose states differ as text to be written", states, "Rename them.")
    return texts
