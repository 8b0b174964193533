"""A program from a file of the user, and its arguments from a table and the command line.

Columns.     A column becomes the argument of its name: numbers as they are, truth values and words as codes
             0, 1, ... in order. A function that also takes `school_labels` gets the words themselves, for
             `plate("school", school_labels)`, and one that takes `num_school` how many there are.
Errors.      What goes wrong in the user's code is one sentence with the file and the line of it.
"""

import ast
import inspect
import linecache
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd

from tractable._hints import nearest
from tractable.programs.language import Model
from tractable.tables.files import WrongTable

__all__ = ["Given", "Loaded", "UserFault", "arguments", "load_program"]

_NAME = "tractable_user_program"
_Answer = TypeVar("_Answer")


class UserFault(Exception):
    """Something wrong in the user's program, in one sentence."""


class Loaded(NamedTuple):
    """A model of a file."""

    file: Path
    name: str
    model: Model

    def guarded(self, act: Callable[[], _Answer]) -> _Answer:
        """What `act` gives; what goes wrong in the file is said with its line."""
        return _guarded(self.file, act)


class Given(NamedTuple):
    """The arguments of a model, and the words behind those that are codes."""

    values: dict[str, Any]
    labels: dict[str, tuple[str, ...]]


def load_program(path: Path, wanted: str | None) -> Loaded:
    """The model of a file: the only one, or the one of that name."""
    module = types.ModuleType(_NAME)
    module.__file__ = str(path)
    sys.modules[_NAME] = module  # for what looks up the module of a function
    sys.path.insert(0, str(path.resolve().parent))
    _guarded(path, lambda: exec(compile(path.read_text("utf-8"), str(path), "exec"), module.__dict__))
    every = {name: each for name, each in vars(module).items() if isinstance(each, Model)}
    own = {n: each for n, each in every.items() if getattr(each.function, "__module__", _NAME) == _NAME}
    known = own or every
    listed = ", ".join(known) or "none"
    if wanted is not None and wanted not in every:
        raise UserFault(f"`--model` must be a model of {path}; got {wanted!r}. {nearest(wanted, every)}")
    if wanted is None and len(known) != 1:
        fix = "Put `@tr.model` above the function." if not known else "Choose one with `--model`."
        raise UserFault(f"{path}: there must be one model; got {listed}. {fix}")
    name = next(iter(known)) if wanted is None else wanted
    return Loaded(path, name, every[name])


def arguments(
    loaded: Loaded, file: Path, frame: pd.DataFrame | None, source: Path | None, settings: list[str]
) -> Given:
    """The arguments that the function of a model takes, by name."""
    parameters = inspect.signature(loaded.model.function).parameters
    values = dict(_setting(text, parameters) for text in settings)
    labels: dict[str, tuple[str, ...]] = {}
    columns: dict[str, Any] = {} if frame is None else {str(n): frame[n] for n in frame.columns}
    for name in parameters:
        root = name.removesuffix("_labels") if name.endswith("_labels") else name.removeprefix("num_")
        if name in values:
            continue
        if name in columns:
            values[name], words = _column(columns[name], name, source)
            if words is not None:
                labels[name] = words
        elif root != name and root in columns:
            words = _words(columns[root], root, source)
            values[name] = words if name.endswith("_labels") else len(words)
    missing = [
        name for name, each in parameters.items()
        if name not in values and each.default is inspect.Parameter.empty
        and each.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    ]  # fmt: skip
    if missing:
        have = f"columns {', '.join(columns)}" if columns else "no table"
        fix = f"{nearest(missing[0], columns)} Or give it with `--set {missing[0]}=...`.".strip()
        raise WrongTable(f"`{loaded.name}` must have its argument {missing[0]!r}; got {have}. {fix}")
    return Given(values, labels)


def _setting(text: str, parameters: Any) -> tuple[str, Any]:
    """`name=value`, the value in the notation of Python, or else a word."""
    name, mark, value = (part.strip() for part in text.partition("="))
    if not mark or not name:
        raise WrongTable(f"`--set` must be like name=value; got {text!r}.")
    if name not in parameters:
        raise WrongTable(
            f"`--set` must name an argument of the model; got {name!r}. {nearest(name, parameters)}"
        )
    try:
        found = ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value
    return name, np.asarray(found) if isinstance(found, list | tuple) else found


def _column(column: pd.Series, name: str, source: Path | None) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """A column as numbers, and the words behind codes."""
    gaps = np.asarray(column.isna())
    if gaps.any():
        row = int(np.argmax(gaps)) + 1
        fix = "Fill it in, or leave the row out."
        raise WrongTable(f"{source}: the column {name!r} must be filled; got nothing in row {row}. {fix}")
    if pd.api.types.is_bool_dtype(column):
        return column.to_numpy(int), None
    if pd.api.types.is_numeric_dtype(column):
        values = column.to_numpy()
        if not np.isfinite(values.astype(float)).all():
            row = int(np.argmax(~np.isfinite(values.astype(float)))) + 1
            raise WrongTable(
                f"{source}: the column {name!r} must be finite; got {values[row - 1]}, row {row}."
            )
        return values, None
    words = _words(column, name, source)
    places = {word: place for place, word in enumerate(words)}
    return np.array([places[str(word)] for word in column]), words


def _words(column: pd.Series, name: str, source: Path | None) -> tuple[str, ...]:
    if bool(column.isna().any()):
        _column(column, name, source)
    if pd.api.types.is_numeric_dtype(column):
        return tuple(str(value) for value in np.unique(column.to_numpy()))
    return tuple(sorted({str(word) for word in column}))


def _guarded(path: Path, act: Callable[[], _Answer]) -> _Answer:
    try:
        return act()
    except SyntaxError as error:
        if error.filename != str(path):
            raise UserFault(_said(path, error)) from error
        raise UserFault(f"{path}:{error.lineno}: {error.msg}.") from error
    except MemoryError:
        raise
    except Exception as error:  # whatever the user's file raises: said with its line, and chained
        raise UserFault(_said(path, error)) from error


def _said(path: Path, error: BaseException) -> str:
    """The error in one sentence, with the last line of the file that it passed through."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    code = linecache.getline(str(path), line).strip() if line else ""
    place = f"{path}:{line}" + (f", `{code}`" if code else "") if line else str(path)
    words = " ".join(str(error).split()) or "no message"
    kind = "" if words.startswith("`") else f"{type(error).__name__}: "
    return f"{place}: {kind}{words}"
