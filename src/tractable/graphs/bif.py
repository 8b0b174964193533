r"""The Interchange Format (BIF 0.15) of Bayesian networks, read and written.

Format.      `variable lung { type discrete [ 2 ] { yes, no }; }` and
             `probability ( lung | smoke ) { (yes) 0.1, 0.9; (no) 0.01, 0.99; }`. A row starts with the states
             of the parents; `default` stands for the rows left out; `table` lists every number, the states of
             the variable slowest, those of the last parent fastest. Commas may be left out. `//` and `/* */`
             are comments, `property ...;` lines are skipped.
Labels.      Any text without spaces, quotes and ``{}()[];,|``, such as `<5`, `12+` or `Asy/Patch`; any text
             in double quotes, where ``\"`` is a quote and ``\\`` a backslash.
Cost.        One pass of a regular expression: about a microsecond per token.
References.  Cozman (1998), "The Interchange Format for Bayesian networks".
"""

import itertools
import math
import re
from typing import NamedTuple, NoReturn

import numpy as np

from tractable.graphs.bayes_net import BayesNet
from tractable.graphs.drafts import Draft, Source, first_not_number, label_text, states_text

__all__ = ["parse_bif", "render_bif"]

_WORD = r'(?:[^\s{}()\[\];,|"/\x00-\x1f\x7f]|/(?![/*]))+'
_COMMENT = r"//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/"
_STRING = r'"(?:[^"\\\n]|\\.)*"'
_TOKEN = re.compile(rf"[\s,]*(?:{_COMMENT}|([{{}}()\[\];|]|{_WORD}|{_STRING}|/\*|\S)|\Z)")
# what only the last two alternatives leave over: an open quote, an open comment, a control character
_STRAY = frozenset(['"', "/*", *map(chr, range(32)), "\x7f"])
_PLAIN = re.compile(_WORD)
_STRUCTURE = frozenset("{}()[];|")
_BLOCKS = frozenset(["network", "variable", "probability"])
_DEFAULT = -1  # the place of the row that stands for those left out


def parse_bif(path: str, text: str) -> Draft:
    """The variables and tables of a BIF file; `path` is for the errors."""
    return _Reader(path, text).draft()


def render_bif(net: BayesNet) -> str:
    """The network as a BIF file, each number with all its digits."""
    states = {name: states_text(name, net.states[name]) for name in net.names}
    lines = ["network unknown {", "}"]
    for name, labels in states.items():
        listed = ", ".join(map(_quoted, labels))
        lines += [f"variable {_quoted(label_text('name', name))} {{"]
        lines += [f"  type discrete [ {len(labels)} ] {{ {listed} }};", "}"]
    for name, table in net.tables.items():
        rows = np.asarray(table.probs, float).reshape(-1, len(states[name])).tolist()
        given = ", ".join(map(_quoted, table.given))
        lines += [f"probability ( {_quoted(name)}{' | ' + given if given else ''} ) {{"]
        heads = itertools.product(*(map(_quoted, states[parent]) for parent in table.given))
        for head, row in zip(heads, rows):
            lines += [f"  {'(' + ', '.join(head) + ')' if given else 'table'} {', '.join(map(repr, row))};"]
        lines += ["}"]
    return "\n".join([*lines, ""])


class _Block(NamedTuple):
    """`word head { statement; ... }`: the tokens from `start` to `brace`, and those of each statement."""

    start: int
    brace: int
    statements: list[tuple[int, int]]


class _Reader:
    """The tokens of a file with their positions, and the blocks made of them."""

    def __init__(self, path: str, text: str):
        # Positions are those of tokens; where they stand in the text is found when a line is asked for.
        self.tokens: list[str] = [token for token in _TOKEN.findall(text) if token]
        self.source = Source(path, text, _token_starts)
        self.fail = self.source.fail
        if not _STRAY.isdisjoint(self.tokens):
            at = next(i for i, token in enumerate(self.tokens) if token in _STRAY)
            fix = "Close quotes and comments, and remove control characters."
            self.fail(at, "text", "made of words, numbers and signs", repr(self.tokens[at]), fix)
        self.codes: dict[str, dict[str, int]] = {}  # the place of each state among those of its variable

    def draft(self) -> Draft:
        draft, tables, at = Draft(self.source), [], 0
        while at < len(self.tokens):
            word = self.tokens[at]
            if word not in _BLOCKS:
                self._expected(at, "`network`, `variable` or `probability`")
            block, at = self._block(at)
            if word == "variable":
                self._variable(draft, block)
            elif word == "probability":
                tables.append(block)
        self.codes = {name: {s: i for i, s in enumerate(states)} for name, states in draft.states.items()}
        for block in tables:  # when every variable is known
            self._probability(draft, block)
        return draft

    def _block(self, start: int) -> tuple[_Block, int]:
        brace = self._find("{", start)
        at, statements = brace + 1, []
        while (word := self._token(at)) != "}":
            stop = self._find(";", at)
            if word in _BLOCKS:
                self._expected(at, "`}`, the end of the block")
            if word != "property":
                statements.append((at, stop))
            at = stop + 1
        return _Block(start, brace, statements), at + 1

    def _variable(self, draft: Draft, block: _Block) -> None:
        at = block.start + 1
        if block.brace != at + 1:
            self._expected(at if block.brace == at else at + 1, "one name before `{`")
        name = self._label(at)
        if len(block.statements) != 1:
            got = f"{len(block.statements)} statements"
            self.fail(at, name, "described by one `type` statement", got)
        start, stop = block.statements[0]
        for i, sign in enumerate(("type", "discrete", "[")):
            self._require(start + i, sign)
        for i, sign in ((4, "]"), (5, "{")):
            self._require(start + i, sign)
        self._require(stop - 1, "}")
        states = [self._label(i) for i in range(start + 6, stop - 1)]
        if self.tokens[start + 3] != str(len(states)):
            fix = "A state with spaces or signs needs quotes."
            must = f"a variable with as many states as its count says, {self.tokens[start + 3]}"
            self.fail(start + 3, name, must, f"{len(states)}: {', '.join(states)}", fix)
        draft.declare(name, states, block.start)

    def _probability(self, draft: Draft, block: _Block) -> None:
        start = block.start
        self._require(start + 1, "(")
        self._require(block.brace - 1, ")")
        bar = start + 3 if self._token(start + 3) == "|" else None
        labels = [self._label(i) for i in range(start + 2, block.brace - 1) if i != bar]
        if not labels:
            self._expected(start + 2, "a variable")
        name, given = labels[0], tuple(labels[1:])
        shape = draft.shape(name, given, start)
        for first, stop in block.statements:
            if "}" in self.tokens[first:stop]:
                self._expected(self.tokens.index("}", first), f"`;` in the table of {name!r}")
        if [self.tokens[first] for first, _ in block.statements] == ["table"]:
            first, stop = block.statements[0]
            numbers = self._numbers(name, first + 1, stop, math.prod(shape))
            probs = np.moveaxis(np.array(numbers).reshape(shape[-1], *shape[:-1]), 0, -1)
            rows = [first] * math.prod(shape[:-1])
        else:
            probs, rows = self._rows(name, given, shape, block)
        draft.define(name, given, probs, start, rows)

    def _rows(
        self, name: str, given: tuple[str, ...], shape: tuple[int, ...], block: _Block
    ) -> tuple[np.ndarray, list[int]]:
        """A table from its rows, and their positions; `default` fills what is not listed."""
        listed = self._listed_rows(name, given, shape[-1], block)
        count, default = math.prod(shape[:-1]), listed.pop(_DEFAULT, None)
        if default is None and len(listed) < count:
            missing = next(i for i in range(count) if i not in listed)
            index = np.unravel_index(missing, shape[:-1]) if given else ()
            states = [list(self.codes[parent])[i] for parent, i in zip(given, index)]
            must, got = f"a table of {count} rows, or with `default`", f"no row ({', '.join(states)})"
            self.fail(block.start, name, must, got)
        filler, place = default or ([0.0] * shape[-1], block.start)
        probs, places = np.tile(np.array(filler), (count, 1)), [place] * count
        if listed:
            probs[list(listed)] = [numbers for numbers, _ in listed.values()]
        for row, (_, position) in listed.items():
            places[row] = position
        return probs.reshape(shape), places

    def _listed_rows(
        self, name: str, given: tuple[str, ...], size: int, block: _Block
    ) -> dict[int, tuple[list[float], int]]:
        """The numbers and the position of each row that the file lists, by the number of the row."""
        rows: dict[int, tuple[list[float], int]] = {}
        for start, stop in block.statements:
            if self.tokens[start] == "(":
                row, after = self._row(name, given, start)
            elif self.tokens[start] == "default":
                row, after = _DEFAULT, start + 1
            else:
                self._expected(start, "`table` alone, `default` or a row `(...)`")
            if row in rows:
                got = f"again after line {self.source.line(rows[row][1])}"
                self.fail(start, name, "a table with each row once", got)
            rows[row] = self._numbers(name, after, stop, size), start
        return rows

    def _row(self, name: str, given: tuple[str, ...], start: int) -> tuple[int, int]:
        """The number of the row that starts with these states, and where its numbers start."""
        close = self._find(")", start)
        if close - start - 1 != len(given):
            must = f"a table whose rows name {len(given)} states, of {', '.join(given) or 'no parents'}"
            self.fail(start, name, must, close - start - 1)
        row = 0
        for i, parent in enumerate(given, start + 1):
            codes, label = self.codes[parent], self._label(i)
            if label not in codes:
                got = f"{label!r}, none of {', '.join(codes)}"
                self.fail(i, name, f"given states of {parent!r}", got)
            row = row * len(codes) + codes[label]
        return row, close + 1

    def _numbers(self, name: str, start: int, stop: int, count: int) -> list[float]:
        words = self.tokens[start:stop]
        bad = first_not_number(words)
        if bad is not None:
            self._expected(start + bad, f"a number in the table of {name!r}, or `;`")
        if len(words) != count:
            self.fail(start, name, f"given {count} numbers here", len(words))
        return list(map(float, words))

    def _label(self, at: int) -> str:
        word = self._token(at)
        if word in _STRUCTURE:
            self._expected(at, "a name")
        return re.sub(r'\\(["\\])', r"\1", word[1:-1]) if word[0] == '"' else word

    def _token(self, at: int) -> str:
        if at >= len(self.tokens):
            self.fail(len(self.tokens), "file", "complete", "its end inside a block")
        return self.tokens[at]

    def _find(self, sign: str, start: int) -> int:
        try:
            return self.tokens.index(sign, start)
        except ValueError:
            self.fail(len(self.tokens), "file", "complete", f"its end before a `{sign}`")

    def _require(self, at: int, sign: str) -> None:
        if self._token(at) != sign:
            self._expected(at, f"`{sign}`")

    def _expected(self, at: int, what: str) -> NoReturn:
        got = f"`{self._token(at)}`"
        self.fail(at, "text", what, got)


def _token_starts(text: str) -> list[int]:
    return [match.start(1) for match in _TOKEN.finditer(text) if match[1]]


def _quoted(label: str) -> str:
    """A label as it stands in a file: in quotes where it is not one word."""
    if _PLAIN.fullmatch(label):
        return label
    return '"' + label.replace("\\", "\\\\").replace('"', '\\"') + '"'
