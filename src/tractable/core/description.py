r"""How objects show themselves: values where they are few, shapes where they are many, verdicts always.

Fields.      Each field of a module is shown as `name=value`; `field(show=False)` hides one, and
             `field(about="...")` says beside it what it is. `None` is not shown where it is the default.
             A class with `_shown = ("mean", "samples")` shows these fields and properties instead; one
             with `_columns()`, the columns of a table by name, shows the first rows of that table.
Arrays.      Up to eight values with six significant digits; beyond that, and for tracers, `float64[9]`.
Verdict.     What has a `verdict` or a `status` ends with its sentence: a result is never printed without it.
             What makes no claim but has a `_note()` ends with that.
Shape.       One line where it fits, otherwise one line for each field.
Cost.        Large arrays are neither read nor moved; nothing is compiled.
"""

import dataclasses
import enum
import functools
import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np

from tractable.core.checks import has_values

__all__ = ["Described", "aligned", "as_html", "as_text", "describe", "sentence_of", "shortened"]

_WIDTH = 88
_ABSENT = object()
_SMALL = 8  # values of an array, entries of a container
_MOST_ROWS = 24


class Described:
    """What shows itself by its described fields: a base of results that are no modules."""

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


def as_text(module: Any) -> str:
    """A module on one line, or as a table; the sentence of its verdict ends it."""
    sentence, name = sentence_of(module), type(module).__name__
    if cells := _cells(module):
        lines = shortened(aligned(cells, numbers=True), _MOST_ROWS + 1)  # with the header
        return "\n".join([*lines, *([sentence] if sentence else [])])
    rows = _rows(module)
    line = f"{name}({', '.join(f'{key}={text}' for key, text, _ in rows)})"
    if len(line) > _WIDTH or "\n" in line:
        width = max(len(key) for key, _, _ in rows)
        line = "\n".join([name, *(_row(key.ljust(width), text, about) for key, text, about in rows)])
    return f"{line}\n  {sentence}" if sentence else line


def as_html(module: Any) -> str:
    """A module as a small table: name, value and meaning of each field, and the verdict below it."""
    rows = _html_rows(_cells(module)) or "".join(
        f"<tr><th>{html.escape(key)}</th><td><pre>{html.escape(text)}</pre></td>"
        f"<td>{html.escape(about)}</td></tr>"
        for key, text, about in _rows(module)
    )
    sentence = sentence_of(module)
    verdict = f"<p><em>{html.escape(sentence)}</em></p>" if sentence else ""
    return f"<table><caption>{html.escape(type(module).__name__)}</caption>{rows}</table>{verdict}"


def aligned(rows: Sequence[Sequence[str]], *, numbers: bool = False) -> list[str]:
    """Rows of cells as lines of text with columns of one width each; `numbers` after the first end alike."""
    sides = ["<", *(">" if numbers else "<") * len(rows[0])] if rows else []
    forms = [f"{side}{max(map(len, column))}" for side, column in zip(sides, zip(*rows))]
    return ["  ".join(map(format, row, forms)).rstrip() for row in rows]


def shortened(entries: Iterable[str], most: int = _MOST_ROWS) -> list[str]:
    """The first entries of a list, and how many more there are.

    >>> shortened("abcd", 2)
    ['a', 'b', '... and 2 more']
    """
    listed = list(entries)
    return listed if len(listed) <= most else [*listed[:most], f"... and {len(listed) - most} more"]


def sentence_of(module: Any) -> str:
    """The sentence of the `verdict`, or else of the `status`; "" where there is none, or no values yet."""
    if hasattr(module, "_note"):
        return module._note() if _has_numbers(module) else ""
    names = [name for name in ("verdict", "status") if hasattr(type(module), name) or name in vars(module)]
    if not names or not _has_numbers(module):
        return ""
    try:
        if np.ndim(getattr(module, "code", 0)):
            return _endings(module)
        said = [getattr(module, name) for name in names]
    except (TypeError, ValueError, AttributeError):  # a stack of results, or a tree that holds other things
        return "No verdict: the fields do not hold one result."
    sentences = [getattr(one, "sentence", one) for one in said]
    return next((text for text in sentences if isinstance(text, str) and text), "")


def describe(value: Any) -> str:
    """One value in few words, whatever it is.

    >>> describe(np.array([0.0, 1 / 3])), describe(np.zeros((1000, 3))), describe({"a": 1})
    ('[0.0, 0.333333]', 'float64[1000, 3]', '{a: 1}')
    """
    if isinstance(value, str):
        return repr(value if len(value) <= 60 else value[:57] + "...")
    if isinstance(value, enum.Enum):
        return value.name
    if value is None or isinstance(value, bool | int | float | complex | np.generic):
        return _number(value)
    if _is_array(value):
        return _array(value)
    if isinstance(value, Mapping):
        return _joined("{", (f"{key}: {describe(value[key])}" for key in value), len(value), "}")
    if isinstance(value, tuple | list | set | frozenset) and type(value).__repr__ in _PLAIN:
        opening, closing = "()" if isinstance(value, tuple) else "[]" if isinstance(value, list) else "{}"
        return _joined(opening, (describe(entry) for entry in value), len(value), closing)
    return _object(value)


_PLAIN = {kind.__repr__ for kind in (tuple, list, set, frozenset)}


def _rows(module: Any) -> list[tuple[str, str, str]]:
    fields = {f.name: f for f in dataclasses.fields(module)} if dataclasses.is_dataclass(module) else {}
    if shown := getattr(type(module), "_shown", None):
        names = [name for name in shown if name in fields or _has_numbers(module)]
    else:
        said = ("verdict", "code", "status") if hasattr(type(module), "status") else ("verdict",)
        names = [name for name, f in fields.items() if name not in said and _is_shown(module, f)]
    abouts = {name: f.metadata.get("about", "") for name, f in fields.items()}
    values = {name: _value(module, name) for name in names}
    return [(name, describe(x), abouts.get(name, "")) for name, x in values.items() if x is not _ABSENT]


def _cells(module: Any) -> list[list[str]]:
    """The header and the rows of the table of a module; nothing where it has none, or no values yet."""
    if not hasattr(module, "_columns") or not _has_numbers(module) or np.ndim(getattr(module, "code", 0)):
        return []
    columns = module._columns()
    if not columns:
        return []
    texts = [[x if isinstance(x, str) else describe(x) for x in column] for column in columns.values()]
    return [list(columns), *(list(row) for row in zip(*texts))]


def _html_rows(cells: list[list[str]]) -> str:
    kinds = ["th", *["td"] * len(cells)]
    rows = [[f"<{kind}>{html.escape(text)}</{kind}>" for text in row] for kind, row in zip(kinds, cells)]
    return "".join(f"<tr>{''.join(row)}</tr>" for row in rows)


def _is_shown(module: Any, f: dataclasses.Field) -> bool:
    absent = f.default is None and getattr(module, f.name, None) is None
    return f.repr and f.metadata.get("show", True) and not f.name.startswith("_") and not absent


def _value(module: Any, name: str) -> Any:
    """A field, or a property where the object has values that it can be made of."""
    try:
        return getattr(module, name)
    except (TypeError, ValueError, AttributeError):
        return _ABSENT


def _row(key: str, text: str, about: str) -> str:
    first, *rest = text.split("\n")
    return "\n".join([f"  {key}  {first}{'  ' + about if about else ''}", *(f"    {line}" for line in rest)])


def _has_numbers(module: Any) -> bool:
    """Whether the leaves have values: neither tracers nor the placeholders of a transformed tree."""
    leaves = jax.tree.leaves(module)
    return has_values(leaves) and not any(type(leaf) in (object, jax.ShapeDtypeStruct) for leaf in leaves)


def _endings(module: Any) -> str:
    """How each of a stack of runs ended, counted."""
    codes, counts = np.unique(np.asarray(module.code), return_counts=True)
    names = [eqx.tree_at(lambda m: m.code, module, code).status.name for code in codes]
    ends = ", ".join(f"{count} {name}" for count, name in zip(counts, names))
    return f"{counts.sum()} runs: {ends}."


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype") and not hasattr(value, "to_frame")


def _array(value: Any) -> str:
    known = isinstance(value, np.ndarray) or (isinstance(value, jax.Array) and has_values(value))
    if known and getattr(value.dtype, "kind", "?") in "biufcUS" and 0 < int(value.size) <= _SMALL:
        return _nested(np.asarray(value).tolist())
    return f"{value.dtype}[{', '.join(str(size) for size in value.shape)}]"


def _nested(values: Any) -> str:
    if isinstance(values, list):
        return f"[{', '.join(_nested(entry) for entry in values)}]"
    return repr(values) if isinstance(values, str) else _number(values)


def _number(value: Any) -> str:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float):
        return repr(float(f"{value:.6g}"))
    return f"{value:.6g}" if isinstance(value, complex) else str(value)


def _joined(opening: str, entries: Iterable[str], count: int, closing: str) -> str:
    if count > _SMALL:
        return f"{opening}{count} entries{closing}"
    texts = list(entries)
    end = "," if opening == "(" and count == 1 else ""
    return f"{opening}{', '.join(texts)}{end}{closing}"


def _object(value: Any) -> str:
    if isinstance(value, functools.partial):
        return f"partial({describe(value.func)})"
    if isinstance(value, type) or (callable(value) and not dataclasses.is_dataclass(value)):
        return getattr(value, "__name__", type(value).__name__)
    if type(value).__repr__ is object.__repr__:
        return f"{type(value).__name__}()"
    if dataclasses.is_dataclass(value):
        return repr(value)
    if hasattr(value, "shape"):  # frames, sparse matrices
        return f"{type(value).__name__}[{', '.join(str(size) for size in value.shape)}]"
    first = repr(value).split("\n")[0]
    return first if len(first) <= 60 else first[:57] + "..."
