r"""How a text is a table: its delimiter, its decimal mark, its names, found in the first lines.

Delimiter.   Of comma, semicolon, tab and bar the one under which most lines have as many cells as the
             first; of equals the one with more cells. Blanks, where none of them divides the first line and
             all lines have as many words.
Decimals.    A comma, where cells such as `1,5` occur under another delimiter and none such as `1.5`.
Names.       The first line; numbers with fractions, or some number twice, are data, and names are made. A
             name that occurs again gets a number, and one that is empty the place of its column.
Words.       Columns whose whole numbers begin with a zero (`007`, postal codes) are words.
Cost.        At most `_MOST_LINES` lines are looked at.
"""

import csv
import re
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Dialect", "dialect_of", "own_names"]

_MOST_LINES = 200
_MOST_BYTES = 1 << 18
_DELIMITERS = ",;\t|"
_BLANKS = r"\s+"
_POINT = re.compile(r"[+-]?\d*\.\d+(?:[eE][+-]?\d+)?")
_COMMA = re.compile(r"[+-]?\d+,\d+(?:[eE][+-]?\d+)?")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_PADDED = re.compile(r"0\d+")


class Dialect(NamedTuple):
    """What is needed to read a text as a table.

    `names` are those of the columns that the rows have; `has_names` says whether the first line holds them,
    and `skipped` how many lines come before it. `words` are columns that must not become numbers, `again` are
    names that occurred twice.
    """

    delimiter: str
    decimal: str
    names: tuple[str, ...]
    has_names: bool
    skipped: int
    words: tuple[str, ...]
    again: tuple[str, ...]
    extra: str | None


def dialect_of(text: bytes) -> Dialect:
    """The dialect of a table in UTF-8 with lines that end with a newline."""
    lines, skipped, delimiter = _first_lines(text)
    delimiter = delimiter or _delimiter(lines)
    rows = _cells(lines, delimiter)
    comma = delimiter != "," and _has_decimal_commas(rows[1:])
    header, body = rows[0], rows[1:]
    has_names = not _are_data(header, comma)
    body = body if has_names else rows
    width, extra = len(header), None
    given = [cell.strip() for cell in header] if has_names else [""] * width
    if has_names and body and all(len(row) == width + 1 for row in body):
        # a delimiter at the end of each row, or names of the rows without a name of their own
        ends = all(row[-1].strip() == "" for row in body)
        given = [*given, ""] if ends else ["", *given]
    if has_names and given and given[-1] == "":
        extra = f"column_{len(given)}"
    names, again = own_names(given)
    words = [
        name for j, name in enumerate(names)
        if any(_PADDED.fullmatch(row[j].strip()) for row in body if j < len(row))
    ]  # fmt: skip
    return Dialect(delimiter, "," if comma else ".", names, has_names, skipped, tuple(words), again, extra)


def own_names(given: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of which each occurs once, and those that occurred again.

    >>> own_names(["a", "a", ""])
    (('a', 'a.1', 'column_3'), ('a',))
    """
    taken, again, names = set(given), dict[str, None](), list[str]()
    seen: set[str] = set()
    for place, name in enumerate(given, start=1):
        root = name or f"column_{place}"
        found, count = root, 0
        while found in seen or (count and found in taken):
            count += 1
            found = f"{root}.{count}"
        if count:
            again[root] = None
        seen.add(found)
        names.append(found)
    return tuple(names), tuple(again)


def _first_lines(text: bytes) -> tuple[list[str], int, str | None]:
    """The first lines with something in them, how many come before, and the delimiter that a line names."""
    head = text[:_MOST_BYTES]
    lines = head.decode("utf-8", errors="ignore").split("\n")
    if len(text) > len(head):
        lines.pop()  # it was cut
    skipped, delimiter = 0, None
    while skipped < len(lines) and (not lines[skipped].strip() or lines[skipped].startswith("#")):
        skipped += 1
    if skipped < len(lines) and (found := re.fullmatch(r"sep=(.)", lines[skipped].strip(), re.IGNORECASE)):
        delimiter, skipped = found[1], skipped + 1
    kept = [line for line in lines[skipped : skipped + _MOST_LINES] if line.strip()]
    return kept or [""], skipped, delimiter


def _delimiter(lines: list[str]) -> str:
    best, found = (0.0, 1), ","
    for delimiter in _DELIMITERS:
        rows = _cells(lines, delimiter)
        width = len(rows[0])
        if width > 1:
            share = sum(len(row) in (width, width + 1) for row in rows) / len(rows)
            if (share, width) > best:
                best, found = (share, width), delimiter
    if best[1] == 1 and _are_blank_columns(lines):
        return _BLANKS
    return found


def _are_blank_columns(lines: list[str]) -> bool:
    widths = {len(line.split()) for line in lines}
    return len(lines) > 2 and len(widths) == 1 and min(widths) > 1 and '"' not in "".join(lines)


def _cells(lines: list[str], delimiter: str) -> list[list[str]]:
    if delimiter == _BLANKS:
        return [line.split() for line in lines]
    try:
        rows = list(csv.reader((line + "\n" for line in lines), delimiter=delimiter))
    except csv.Error:
        return [line.split(delimiter) for line in lines]
    return [row for row in rows if row] or [[""]]


def _has_decimal_commas(rows: list[list[str]]) -> bool:
    cells = [cell.strip() for row in rows for cell in row]
    return any(map(_COMMA.fullmatch, cells)) and not any(map(_POINT.fullmatch, cells))


def _are_data(header: list[str], comma: bool) -> bool:
    """Whether the first line holds numbers as data have them: with fractions, or one twice."""
    cells = [cell.strip().replace(",", ".") if comma else cell.strip() for cell in header]
    if not all(_NUMBER.fullmatch(cell) for cell in cells):
        return False
    return any(not cell.isdigit() for cell in cells) or len(set(cells)) < len(cells)
