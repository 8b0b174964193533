r"""A table from wherever it is: a file of CSV, TSV, Parquet or gzip, a data frame, columns by name.

Files.       By their first bytes, not their names. The text is decoded (`tables.files`), its dialect found
             in the first lines (`tables.dialect`), and pandas parses it, digits exactly.
Frames.      What speaks Arrow's stream or the dataframe protocol (polars, Arrow, DuckDB, ...) becomes a
             pandas frame; a mapping is columns by name; an array has columns `x0`, `x1`, ....
Cells.       Words that are numbers but for a sign of money, a percent sign or marks of thousands become
             numbers (`tables.cells`). Rows that are too short end with empty cells; one that is too long is
             refused by its line.
Said.        What was done beyond plain reading is in `frame.attrs["notes"]`, and `describe_table` shows it.
Cost.        Linear in the bytes.
"""

import io
import re
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tractable._hints import nearest
from tractable.tables.dialect import Dialect, dialect_of, own_names
from tractable.tables.files import MOST_BYTES, Text, WrongTable, file_of, text_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["check_columns", "read_table"]

_PARQUET = b"PAR1"
_WORDS = ("category", "ordered", "text", "identifier")  # kinds whose cells are not to be made numbers
_MISSING = ["?", "N.A.", "n.a.", "#REF!", "#DIV/0!", "#VALUE!", "#NUM!", "#NAME?"]
_MOST_NAMES = 8
_PROTOCOLS = ("__arrow_c_stream__", "__dataframe__")


def read_table(
    source: Any, *, kinds: Mapping[str, str] | None = None, most_bytes: int = MOST_BYTES
) -> "pd.DataFrame":
    """The table of a file or a frame, with names that are text and occur once.

    Columns of which `kinds` says that they are categories, ordered, text or identifiers stay words. What
    cannot be read is a `WrongTable` with one sentence.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "prices.csv"
    >>> _ = path.write_text("town;price\\nKöln;1,5\\nUlm;2,25\\n", encoding="latin-1")
    >>> read_table(path).to_dict("list")
    {'town': ['Köln', 'Ulm'], 'price': [1.5, 2.25]}
    """
    kinds = dict(kinds or {})
    if isinstance(source, str | Path):
        frame = _from_file(Path(source), kinds, most_bytes)
        where = f"{source}: "
    else:
        frame, where = _from_memory(source), ""
    if len(frame) == 0:
        raise WrongTable(f"{where}there must be at least one row below the names; got none.")
    if frame.shape[1] == 0:
        raise WrongTable(f"{where}there must be at least one column; got none.")
    return _with_numbers(frame, kinds)


def _from_file(path: Path, kinds: Mapping[str, str], most_bytes: int) -> "pd.DataFrame":
    path, first = file_of(path, most_bytes)
    if first.startswith(_PARQUET):
        return _parquet(path)
    text = text_of(path, most_bytes)
    dialect = dialect_of(text.content)
    frame = _parsed(path, text, dialect, kinds)
    if dialect.extra is not None and bool(frame[dialect.extra].isna().all()):
        frame = frame.drop(columns=dialect.extra)  # each row ends with a delimiter
    frame.attrs["notes"] = _notes(text, dialect, frame)
    return frame


def _parquet(path: Path) -> "pd.DataFrame":
    import pandas as pd
    import pyarrow as pa

    try:
        return _own_columns(pd.read_parquet(path))
    except (ValueError, OSError, KeyError, pa.ArrowException) as error:
        raise WrongTable(f"{path}: there must be a whole Parquet file; got {_line(error)}.") from error


def _parsed(path: Path, text: Text, dialect: Dialect, kinds: Mapping[str, str]) -> "pd.DataFrame":
    """The frame that pandas makes of the text."""
    import pandas as pd

    words = {*dialect.words, *(name for name, kind in kinds.items() if kind in _WORDS)}
    options: Any = {
        "sep": dialect.delimiter, "decimal": dialect.decimal, "names": list(dialect.names),
        "skiprows": dialect.skipped, "header": 0 if dialect.has_names else None, "index_col": False,
        "dtype": dict.fromkeys(words & set(dialect.names), str), "na_values": _MISSING,
        "low_memory": False, "skipinitialspace": True, "encoding": "utf-8",
        "skip_blank_lines": len(dialect.names) > 1,  # in a single column an empty line is an empty cell
    }  # fmt: skip
    if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):
        options["float_precision"] = "round_trip"  # later ones always give the nearest number
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # cells that would be lost
            return pd.read_csv(io.BytesIO(text.content), **options)
    except (ValueError, OverflowError, RecursionError, pd.errors.ParserWarning) as error:
        raise WrongTable(f"{path}: {_fault(error)}") from error


def _fault(error: Exception) -> str:
    """What pandas says of a text, in our words."""
    words = _line(error)
    if found := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", words):
        must, line, got = found.groups()
        fix = "Put cells with a delimiter in quotes."
        return f"line {line} must have at most {must} cells; got {got}. {fix}"
    if found := re.search(r"EOF inside string starting at row (\d+)", words):
        return f"quotes must be closed; got one that is open from line {int(found[1]) + 1} to the end."
    return f"there must be a table in CSV, TSV or Parquet; got {words}."


def _notes(text: Text, dialect: Dialect, frame: "pd.DataFrame") -> list[tuple[str, str, str]]:
    """Code, column and sentence of what was done beyond plain reading."""
    notes = []
    if text.num_foreign:
        said = f"{text.num_foreign} lines are not UTF-8 as the others are, and were read as Windows-1252."
        notes.append(("encoding", "", said))
    elif text.encoding != "utf-8":
        notes.append(("encoding", "", f"The file was read as {text.encoding}."))
    if dialect.decimal == ",":
        notes.append(("decimal", "", "Commas were read as decimal marks."))
    if not dialect.has_names:
        notes.append(("no_names", "", "The first line holds numbers: the columns were given names."))
    if short := _num_short(text, dialect, frame):
        notes.append(("short_rows", "", f"{short} rows have fewer cells than there are columns."))
    notes += [
        ("name_again", name, f"The name {name!r} occurs more than once; a number was put behind the others.")
        for name in dialect.again
    ]
    return notes


def _num_short(text: Text, dialect: Dialect, frame: Any) -> int:
    """How many rows end early; in text with quotes delimiters are not cells, and none is counted."""
    if len(dialect.delimiter) > 1 or b'"' in text.content or not bool(frame.iloc[:, -1].isna().any()):
        return 0
    mark, width = dialect.delimiter.encode(), len(dialect.names)
    lines = text.content.split(b"\n")[dialect.skipped + dialect.has_names :]
    return sum(line.count(mark) < width - 1 for line in lines if line.strip())


def _from_memory(source: Any) -> "pd.DataFrame":
    import numpy as np
    import pandas as pd

    if isinstance(source, pd.DataFrame):
        return _own_columns(source)
    if isinstance(source, pd.Series):
        return _own_columns(source.to_frame())
    if (
        isinstance(source, Mapping)
        or hasattr(source, "__arrow_c_stream__")
        or hasattr(source, "__dataframe__")
    ):
        return _own_columns(_converted(source))
    if isinstance(source, list) and source and all(isinstance(row, Mapping) for row in source):
        return _own_columns(pd.DataFrame(source))
    if isinstance(source, np.ndarray | list | tuple):
        try:
            table = np.asarray(source)
        except ValueError as error:
            raise WrongTable(f"`source` must be a table; got rows of different lengths: {error}.") from error
        table = table[:, None] if table.ndim == 1 else table
        if table.ndim == 2:
            names: Any = [f"x{j}" for j in range(table.shape[1])]
            return pd.DataFrame(table, columns=names)
    must = "a path, a data frame, an Arrow table, columns by name or an array of two axes"
    raise WrongTable(f"`source` must be {must}; got {type(source).__name__}.")


def _converted(source: Any) -> "pd.DataFrame":
    import pandas as pd
    import pyarrow as pa

    try:
        if isinstance(source, Mapping):
            return pd.DataFrame(dict(source))
        if hasattr(source, "__arrow_c_stream__"):
            return pa.table(source).to_pandas()
        from pyarrow.interchange import from_dataframe

        return from_dataframe(source).to_pandas()
    except (ValueError, TypeError, NotImplementedError, pa.ArrowException) as error:
        raise WrongTable(f"`source` must be a table; got {_line(error)}.") from error


def _own_columns(frame: "pd.DataFrame") -> "pd.DataFrame":
    """A frame whose names are text and occur once; its rows are counted from zero, durations in seconds."""
    notes = list(frame.attrs.get("notes", ()))
    names, again = own_names([" ".join(map(str, n)) if isinstance(n, tuple) else str(n).strip()
                              for n in frame.columns])  # fmt: skip
    frame = frame.reset_index(drop=True).infer_objects()
    frame.columns = list(names)
    frame = frame.assign(
        **{str(name): _real(frame[name]) for name in names if frame[name].dtype.kind in "cm"}
    )
    said = "occurs more than once; a number was put behind the others."
    frame.attrs["notes"] = notes + [("name_again", name, f"The name {name!r} {said}") for name in again]
    return frame


def _real(column: Any) -> Any:
    """Durations as seconds; complex numbers are refused."""
    if column.dtype.kind == "m":
        return column.dt.total_seconds()
    raise WrongTable(f"the column {column.name!r} must hold real numbers; got complex ones.")


def check_columns(frame: Any, names: Iterable[str], where: Any = "") -> None:
    """Refuse names that are no columns of a frame; `where` is the file that it comes from."""
    known = set(frame.columns)
    missing = [name for name in names if name not in known]
    if missing:
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        listed = [str(name) for name in frame.columns]
        got = ", ".join(map(repr, listed[:_MOST_NAMES])) + ", ..." * (len(listed) > _MOST_NAMES)
        place = f"{where}: " if where else ""
        said = nearest(missing[0], listed)
        said = f" {said}" if said.startswith("Did") else ""  # all columns are named already
        raise WrongTable(f"{place}there must be a column {missing[0]!r}{more}; got {got}.{said}")


def _with_numbers(frame: Any, kinds: Mapping[str, str]) -> "pd.DataFrame":
    """Columns of words that are numbers, as numbers."""
    from tractable.tables.cells import disguised_numbers, is_words

    notes, changed = list(frame.attrs.get("notes", ())), {}
    for name in frame.columns:
        if kinds.get(name, "number") not in _WORDS and is_words(frame[name]):
            values, how = disguised_numbers(frame[name])
            if values is not None:
                changed[name] = values
                notes.append(("disguised", name, f"{name!r} was read as numbers: {how}."))
    if changed:
        frame = frame.assign(**changed)
    frame.attrs["notes"] = notes
    return frame


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()).rstrip(".")[:300] or type(error).__name__
