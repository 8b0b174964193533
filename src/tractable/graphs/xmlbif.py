r"""The XML Interchange Format (XMLBIF 0.3) of Bayesian networks, read and written.

Format.      `VARIABLE` with `NAME` and one `OUTCOME` per state; `DEFINITION` with one `FOR`, a `GIVEN` per
             parent and a `TABLE` of numbers: the parents in the order of `GIVEN`, the states of the variable
             fastest. `PROPERTY` elements and comments are skipped; spaces around names and outcomes too.
Safety.      Documents that declare entities are refused: their text could grow without bound.
Cost.        One pass of expat.
References.  Cozman (1998), "The Interchange Format for Bayesian networks", XMLBIF 0.3.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn
from xml.parsers import expat
from xml.sax.saxutils import escape

import numpy as np

from tractable.core.checks import check
from tractable.graphs.bayes_net import BayesNet
from tractable.graphs.drafts import Draft, FileError, Source, first_not_number, label_text, states_text

__all__ = ["parse_xmlbif", "render_xmlbif"]

_PARENTS = {
    "BIF": (), "NETWORK": ("BIF",), "VARIABLE": ("NETWORK",), "DEFINITION": ("NETWORK",),
    "NAME": ("NETWORK", "VARIABLE"), "OUTCOME": ("VARIABLE",), "FOR": ("DEFINITION",),
    "GIVEN": ("DEFINITION",), "TABLE": ("DEFINITION",), "PROPERTY": ("NETWORK", "VARIABLE", "DEFINITION"),
}  # fmt: skip
_HEADER = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE BIF [
  <!ELEMENT BIF ( NETWORK )*>
  <!ATTLIST BIF VERSION CDATA #REQUIRED>
  <!ELEMENT NETWORK ( NAME, ( PROPERTY | VARIABLE | DEFINITION )* )>
  <!ELEMENT NAME (#PCDATA)>
  <!ELEMENT VARIABLE ( NAME, ( OUTCOME | PROPERTY )* ) >
  <!ATTLIST VARIABLE TYPE (nature|decision|utility) "nature">
  <!ELEMENT OUTCOME (#PCDATA)>
  <!ELEMENT DEFINITION ( FOR | GIVEN | TABLE | PROPERTY )* >
  <!ELEMENT FOR (#PCDATA)>
  <!ELEMENT GIVEN (#PCDATA)>
  <!ELEMENT TABLE (#PCDATA)>
  <!ELEMENT PROPERTY (#PCDATA)>
]>
<BIF VERSION="0.3">
<NETWORK>
<NAME>unknown</NAME>"""


def parse_xmlbif(path: str, data: bytes) -> Draft:
    """The variables and tables of an XMLBIF file; `path` is for the errors."""
    return _Reader(path, data).draft()


def render_xmlbif(net: BayesNet) -> str:
    """The network as an XMLBIF file, each number with all its digits."""
    lines = [_HEADER]
    for name in net.names:
        outcomes = [_element("OUTCOME", name, state) for state in states_text(name, net.states[name])]
        lines += ['<VARIABLE TYPE="nature">', _element("NAME", "name", name), *outcomes, "</VARIABLE>"]
    for name, table in net.tables.items():
        rows = np.asarray(table.probs, float).reshape(-1, len(net.states[name])).tolist()
        given = [_element("GIVEN", "name", parent) for parent in table.given]
        lines += ["<DEFINITION>", _element("FOR", "name", name), *given, "  <TABLE>"]
        lines += [f"    {' '.join(map(repr, row))}" for row in rows]
        lines += ["  </TABLE>", "</DEFINITION>"]
    return "\n".join([*lines, "</NETWORK>", "</BIF>", ""])


@dataclass
class _Part:
    """A `VARIABLE` or a `DEFINITION`: the texts inside each of its elements, with their places."""

    tag: str
    start: int
    texts: dict[str, list[tuple[str, int]]] = field(default_factory=dict)


class _Reader:
    """Collects the parts of the document in order; places are bytes of the file."""

    def __init__(self, path: str, data: bytes):
        # Latin-1 has one character per byte: expat's byte index then is an index of this text.
        self.source = Source(path, data.decode("latin-1"), lambda text: range(len(text)))
        self.data, self.fail = data, self.source.fail
        self.parts: list[_Part] = []
        self.open: list[tuple[str, int]] = []
        self.pieces: list[str] = []
        declared = re.match(rb"<\?xml[^>]*encoding=[\"']([^\"']*)", data)
        latin = declared is not None and declared[1].lower() in (b"iso-8859-1", b"latin-1", b"latin1")
        self.parser = expat.ParserCreate("iso-8859-1" if latin else "utf-8")
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self.pieces.append
        self.parser.EntityDeclHandler = self._entity

    def draft(self) -> Draft:
        try:
            self.parser.Parse(self.data, True)
        except expat.ExpatError as error:
            got = f"an error of XML, {expat.ErrorString(error.code)}"
            raise FileError(
                self.source.path, error.lineno, f"`file` must be well-formed; got {got}."
            ) from error
        draft = Draft(self.source)
        for part in self.parts:
            if part.tag == "VARIABLE":
                name, _ = self._only(part, "NAME")
                draft.declare(name, [state for state, _ in part.texts.get("OUTCOME", [])], part.start)
        for part in self.parts:
            if part.tag == "DEFINITION":
                self._definition(draft, part)
        return draft

    def _definition(self, draft: Draft, part: _Part) -> None:
        name, _ = self._only(part, "FOR")
        given = tuple(parent for parent, _ in part.texts.get("GIVEN", []))
        shape = draft.shape(name, given, part.start)
        text, place = self._only(part, "TABLE")
        words = text.split()
        bad = first_not_number(words)
        if bad is not None:
            self.fail(place, name, "given a table of numbers", repr(words[bad]))
        if len(words) != math.prod(shape):
            self.fail(place, name, f"given a table of {math.prod(shape)} numbers", len(words))
        rows = [place] * math.prod(shape[:-1])
        draft.define(name, given, np.array(words, float).reshape(shape), part.start, rows)

    def _only(self, part: _Part, tag: str) -> tuple[str, int]:
        found = part.texts.get(tag, [])
        if len(found) != 1:
            self.fail(part.start, part.tag, f"a part with one `{tag}`", len(found))
        return found[0]

    def _start(self, tag: str, attributes: Mapping[str, str]) -> None:
        place = self.parser.CurrentByteIndex
        inside = self.open[-1][0] if self.open else None
        if tag not in _PARENTS:
            self.fail(place, "element", f"one of {', '.join(_PARENTS)}", f"`{tag}`")
        if (inside not in _PARENTS[tag]) if _PARENTS[tag] else inside is not None:
            where = " or ".join(_PARENTS[tag]) or "the top"
            self.fail(place, tag, f"an element inside {where}", f"one inside {inside or 'nothing'}")
        if tag == "NETWORK" and any(part.tag == "NETWORK" for part in self.parts):
            self.fail(place, "file", "of one network", "a second `NETWORK`")
        if tag == "VARIABLE" and attributes.get("TYPE", "nature") != "nature":
            self.fail(place, "VARIABLE", "of type `nature`", f"`{attributes['TYPE']}`")
        if tag in ("NETWORK", "VARIABLE", "DEFINITION"):
            self.parts.append(_Part(tag, place))
        self.open.append((tag, place))
        self.pieces.clear()

    def _end(self, tag: str) -> None:
        _, place = self.open.pop()
        if self.open and tag not in ("NETWORK", "VARIABLE", "DEFINITION"):
            texts = self.parts[-1].texts
            texts.setdefault(tag, []).append(("".join(self.pieces).strip(), place))
        self.pieces.clear()

    def _entity(self, name: str, *_: Any) -> NoReturn:
        self.fail(self.parser.CurrentByteIndex, "file", "free of entity declarations", f"`{name}`")


def _element(tag: str, name: str, label: str) -> str:
    text = label_text(name, label)
    kept = text.strip() == text
    check(kept, name, "text without spaces at its ends to be written", repr(text), "Rename it.")
    return f"  <{tag}>{escape(text)}</{tag}>"
