r"""The formats of the UAI competitions, read and written: models, evidence, marginals, partition functions.

Format.      `.uai`: `BAYES` or `MARKOV`, the number of variables and of the states of each, the scopes of the
             factors (for `BAYES` parents first, the variable last), and a table per factor, last variable
             fastest. `.evid`: a count, then pairs of variable and state. `.MAR`: for each variable a count
             and its probabilities. `.PR`: $\log_{10} Z$, the part of $Z$ that agrees with the evidence.
Names.       The format has numbers alone: variable 7 is `x7`, its states are `0`, `1`, ...
Cost.        Linear in the file.
References.  The UAI 2014 inference competition, file formats.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from tractable.core.checks import check
from tractable.graphs.bayes_net import BayesNet
from tractable.graphs.drafts import Draft, Source, first_not_number
from tractable.graphs.markov_field import MarkovField

__all__ = [
    "parse_evidence", "parse_marginals", "parse_partition", "parse_uai",
    "render_evidence", "render_marginals", "render_partition", "render_uai",
]  # fmt: skip

_WHOLE = re.compile(r"[0-9]{1,15}")
_WORD = re.compile(r"\S+")
_FEW = 1 << 16  # states of variables that no table holds: harmless
_SLACK = 1e-3  # probabilities of a result are printed with about six digits


def parse_uai(path: str, text: str) -> Draft | MarkovField:
    """A network (as the draft of one) or a field; `path` is for the errors."""
    words = _Words(path, text)
    kind = words.next("BAYES or MARKOV")
    if kind not in ("BAYES", "MARKOV"):
        words.fail("file", "a UAI file that starts with BAYES or MARKOV", repr(kind))
    sizes = _sizes(words, max(len(text), _FEW))
    scopes, places = [], []
    for _ in range(words.count("number of factors")):
        places.append(words.at)
        scopes.append(_scope(words, len(sizes)))
    tables = [_table(words, [sizes[i] for i in scope], place) for scope, place in zip(scopes, places)]
    words.end()
    return (_network if kind == "BAYES" else _field)(words, sizes, scopes, places, tables)


def _sizes(words: "_Words", most: int) -> list[int]:
    """The numbers of states. Tables list them all: more than the file has room for is a mistake, which must
    not be paid for in memory."""
    sizes, total = [], 0
    for _ in range(words.count("number of variables", 1)):
        sizes.append(words.whole("number of states", 1))
        total += sizes[-1]
        if total > most:
            words.fail("number of states", f"at most {most} of all variables together in such a file", total)
    return sizes


def render_uai(model: BayesNet | MarkovField) -> str:
    """The network or field as a `.uai` file, each number with all its digits."""
    order = _numbering(model.names)
    number = {name: i for i, name in enumerate(order)}
    if isinstance(model, BayesNet):
        tables = [model.tables[name] for name in order]
        kind, factors = "BAYES", [(each.axes.names, np.asarray(each.probs, float)) for each in tables]
    else:
        kind, factors = "MARKOV", [(names, _weights(names, logs)) for names, logs in model.factors]
    lines = [kind, str(len(order))]
    lines += [" ".join(str(len(model.states[name])) for name in order), str(len(factors))]
    lines += [" ".join(map(str, (len(names), *(number[name] for name in names)))) for names, _ in factors]
    for _, cells in factors:
        rows = cells.reshape(-1, cells.shape[-1]).tolist()
        lines += ["", str(cells.size), *(" " + " ".join(map(repr, row)) for row in rows)]
    return "\n".join([*lines, ""])


def parse_evidence(path: str, text: str, model: BayesNet | MarkovField) -> dict[str, Any]:
    """Evidence on the variables of `model`; a file of one sample may say so in a number before it."""
    words, order = _Words(path, text), _numbering(model.names)
    if len(words.words) % 2 == 0 and words.words[:1] == ["1"]:
        words.at = 1
    evidence: dict[str, Any] = {}
    for _ in range(words.count("number of observations")):
        variable = words.whole("variable", 0, len(order) - 1)
        states = model.states[order[variable]]
        state = states[words.whole(f"state of variable {variable}", 0, len(states) - 1)]
        if evidence.setdefault(order[variable], state) != state:
            words.fail("evidence", "one state per variable", f"two for variable {variable}", back=1)
    words.end()
    return evidence


def render_evidence(evidence: Mapping[str, Any], model: BayesNet | MarkovField) -> str:
    """One state for each observed variable, as an `.evid` file."""
    order, pairs = _numbering(model.names), []
    for name, state in evidence.items():
        check(name in order, "evidence", "about variables of the network", repr(name))
        states = model.states[name]
        check(state in states, name, f"one of its states {states}", repr(state))
        pairs += [order.index(name), states.index(state)]
    return " ".join(map(str, [len(evidence), *pairs])) + "\n"


def parse_marginals(path: str, text: str, model: BayesNet | MarkovField) -> dict[str, dict[Any, float]]:
    """`{variable: {state: probability}}` of a `.MAR` file."""
    words, order = _Words(path, text), _numbering(model.names)
    words.require("MAR")
    if words.words[1:3] == ["1", str(len(order))] and len(order) > 1:
        words.at = 2  # one sample, said in a number before it
    words.same("number of variables", len(order))
    found = {}
    for name in order:
        states = model.states[name]
        words.same(f"number of states of {name}", len(states))
        probs = words.numbers(name, len(states))
        if not (probs >= 0).all() or not abs(float(probs.sum()) - 1) <= _SLACK:
            words.fail(name, "given probabilities with a sum of one", f"{probs.tolist()}", back=1)
        found[name] = dict(zip(states, probs.tolist()))
    words.end()
    return found


def render_marginals(marginals: Mapping[str, Mapping[Any, float]], model: BayesNet | MarkovField) -> str:
    """The marginals of all variables as a `.MAR` file; those left out count as observed in `marginals`."""
    order = _numbering(model.names)
    parts = [[len(model.states[n]), *(float(marginals[n][s]) for s in model.states[n])] for n in order]
    return "MAR\n" + " ".join([str(len(order)), *(repr(x) for part in parts for x in part)]) + "\n"


def parse_partition(path: str, text: str) -> float:
    r"""$\log Z$, the natural logarithm, of a `.PR` file."""
    words = _Words(path, text)
    words.require("PR")
    word = words.next("logarithm")
    if word.lower() in ("-inf", "-infinity"):
        value = -math.inf
    else:
        words.at -= 1
        value = float(words.numbers("log10 of the partition function", 1)[0])
    words.end()
    return value * math.log(10)


def render_partition(log_value: float) -> str:
    r"""$\log Z$ as a `.PR` file, in base ten."""
    return f"PR\n{float(log_value) / math.log(10)!r}\n"


class _Words:
    """The words of a file, taken one by one; an error names the line of the last one taken."""

    def __init__(self, path: str, text: str):
        self.words, self.at = text.split(), 0
        self.source = Source(path, text, lambda text: [match.start() for match in _WORD.finditer(text)])

    def fail(self, name: str, must: str, got: Any, back: int = 1) -> NoReturn:
        self.source.fail(self.at - back, name, must, got)

    def next(self, what: str) -> str:
        if self.at >= len(self.words):
            self.source.fail(self.at, "file", "complete", f"its end before the {what}")
        self.at += 1
        return self.words[self.at - 1]

    def whole(self, what: str, least: int = 0, most: int = 10**15) -> int:
        word = self.next(what)
        if not _WHOLE.fullmatch(word) or not least <= int(word) <= most:
            span = f"from {least} to {most}" if most < 10**15 else f"of at least {least}"
            self.fail(what, f"a whole number {span}", repr(word))
        return int(word)

    def count(self, what: str, least: int = 0) -> int:
        """A number of things, each of which takes at least one more word."""
        count = self.whole(what, least)
        if count > len(self.words) - self.at:
            left = len(self.words) - self.at
            self.fail(what, "as many as follow in the file", f"{count}, with {left} words left")
        return count

    def same(self, what: str, wanted: int) -> None:
        if self.whole(what) != wanted:
            self.fail(what, f"{wanted}, as in the network", self.words[self.at - 1])

    def require(self, word: str) -> None:
        if self.next(word) != word:
            self.fail("file", f"one that starts with {word}", repr(self.words[self.at - 1]))

    def numbers(self, name: str, count: int) -> np.ndarray:
        if count > len(self.words) - self.at:
            self.source.fail(len(self.words), "file", "complete", f"its end inside {name}")
        words = self.words[self.at : self.at + count]
        bad = first_not_number(words)
        if bad is not None:
            self.source.fail(self.at + bad, name, "made of numbers", repr(words[bad]))
        self.at += count
        return np.array(words, float)

    def end(self) -> None:
        if self.at < len(self.words):
            self.fail("file", "at its end here", repr(self.words[self.at]), back=0)


def _scope(words: _Words, num_variables: int) -> tuple[int, ...]:
    length = words.count("number of variables of a factor")
    scope = tuple(words.whole("variable of a factor", 0, num_variables - 1) for _ in range(length))
    if len(set(scope)) < length:
        words.fail("factor", "of distinct variables", scope)
    return scope


def _table(words: _Words, shape: Sequence[int], place: int) -> tuple[np.ndarray, int]:
    """The numbers of a factor, and where they start."""
    size = words.whole("number of cells")
    if size != math.prod(shape):
        line = words.source.line(place)
        words.fail("number of cells", f"{math.prod(shape)}, by the scope in line {line}", size)
    if len(shape) > 32:
        words.fail("factor", "of at most 32 variables", len(shape))
    start = words.at
    return words.numbers("the table of a factor", size).reshape(shape), start


def _network(
    words: _Words,
    sizes: list[int],
    scopes: list[tuple[int, ...]],
    places: list[int],
    tables: list[tuple[np.ndarray, int]],
) -> Draft:
    draft = Draft(words.source)
    for i, size in enumerate(sizes):
        draft.declare(f"x{i}", [str(state) for state in range(size)], 2 + i)
    for scope, place, (cells, start) in zip(scopes, places, tables):
        if not scope:
            words.source.fail(place, "factor", "of at least one variable in a BAYES file", "none")
        *given, name = (f"x{i}" for i in scope)
        draft.shape(name, given, place)
        draft.define(name, given, cells, place, range(start, start + cells.size, cells.shape[-1]))
    return draft


def _field(
    words: _Words,
    sizes: list[int],
    scopes: list[tuple[int, ...]],
    places: list[int],
    tables: list[tuple[np.ndarray, int]],
) -> MarkovField:
    factors = []
    for scope, (cells, start) in zip(scopes, tables):
        ok = (cells >= 0) & np.isfinite(cells)
        if not ok.all():
            place = int(np.flatnonzero(~ok.reshape(-1))[0])
            words.source.fail(
                start + place, "factor", "of finite numbers from zero", words.words[start + place]
            )
        with np.errstate(divide="ignore"):
            logs = np.log(cells)
        if not scope:  # a constant: the same number for each state of the first variable
            scope, logs = (0,), np.full(sizes[0], logs)
        factors.append((tuple(f"x{i}" for i in scope), logs))
    states = {f"x{i}": tuple(str(state) for state in range(size)) for i, size in enumerate(sizes)}
    return MarkovField(factors, states)


def _numbering(names: Sequence[str]) -> list[str]:
    """The variables in the order of their numbers: that of `x0`, `x1`, ... where these are the names."""
    numbered = [f"x{i}" for i in range(len(names))]
    return numbered if set(numbered) == set(names) else list(names)


def _weights(names: Sequence[str], logs: Any) -> np.ndarray:
    with np.errstate(over="ignore"):
        weights = np.exp(np.asarray(logs, float))
    finite = bool(np.isfinite(weights).all())
    fix = "Subtract a constant from its logarithms."
    check(finite, f"factor of {', '.join(names)}", "finite to be written", "an infinite number", fix)
    return weights
