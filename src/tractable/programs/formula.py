r"""A formula and a table as arrays: columns of coefficients, groups of rows, the response, an offset.

Formula.     `y ~ x1 + x2 + (1 + x1 | group)`, read and evaluated by the package `formulae`: interactions,
             categories, splines and other transformations that remember their data, and effects of groups. A
             formula may call functions, so it is code: it comes from the author of the analysis.
Cost.        One pass over the table; categories and groups take a column each while they are coded.
"""

import contextlib
import dataclasses
import sys
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from tractable._hints import nearest
from tractable.core.checks import check, check_entries
from tractable.core.user_code import is_library

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Columns", "Formula", "Grouping", "as_frame", "explains_all", "read_formula", "user_frame"]


@dataclasses.dataclass(frozen=True)
class Grouping:
    """The effects that one factor moves: their design `columns`, and the group (`codes`) of each row.

    Codes beyond the `levels` are groups that the formula has not seen, listed in `fresh`.
    """

    factor: str
    effects: tuple[str, ...]
    levels: tuple[str, ...]
    columns: np.ndarray  # (rows, effects)
    codes: np.ndarray  # (rows,)
    fresh: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Columns:
    """The right side of a formula at the rows of a table; the intercept is not among the columns."""

    values: np.ndarray  # (rows, labels)
    offset: np.ndarray  # (rows,)
    groups: tuple[Grouping, ...]

    @property
    def num_rows(self) -> int:
        return len(self.offset)


class Formula:
    """A formula that has seen its table. `response` is `(rows,)`, or `(rows, 2)` of successes and trials."""

    def __init__(self, text: str, found: Any):
        self.text, self._found = text, found
        common = {} if found.common is None else found.common.terms
        self._common = {name: term for name, term in common.items() if term.kind != "offset"}
        self.has_intercept = "Intercept" in self._common
        rest = [term for term in self._common.values() if term.kind != "intercept"]
        self.labels = tuple(label for term in rest for label in term.labels)
        self.response_name = found.response.name
        self.columns = self._evaluated(None)

    @property
    def names(self) -> list[str]:
        """The columns of the table that the right side uses."""
        response = self._found.response.term.var_names
        terms = self._found.model.terms
        own = {name for term in terms for name in term.var_names} & set(self._found.data.columns)
        return sorted(own - response) + sorted(own & response)

    def at(self, frame: Any) -> Columns:
        """The columns at the rows of another table; groups that are new have codes of their own."""
        frame = as_frame(frame)
        _check_columns(self.names, frame, "new_frame")
        _check_filled(self.names, frame, "new_frame")
        with _explained(self.text, self._found.data, frame):
            return self._evaluated(frame)

    def _evaluated(self, frame: "pd.DataFrame | None") -> Columns:
        def data(term: Any) -> np.ndarray:
            found = term.data if frame is None else term.eval_new_data(frame)
            return np.asarray(found, float).reshape(count, -1)

        count = len(self._found.data if frame is None else frame)
        parts = [data(term) for term in self._common.values() if term.kind != "intercept"]
        values = np.concatenate([np.zeros((count, 0)), *parts], axis=1)
        common = {} if self._found.common is None else self._found.common.terms
        offsets = [data(term)[:, 0] for term in common.values() if term.kind == "offset"]
        offset = np.sum([np.zeros(count), *offsets], axis=0)
        for place, label in enumerate(self.labels):
            _check_finite(label, values[:, place])
        _check_finite("offset", offset)
        return Columns(values, offset, tuple(self._groups(data, frame)))

    def _groups(self, data: Any, frame: Any) -> Iterator[Grouping]:
        """One for each factor, with all effects that it moves."""
        terms = {} if self._found.group is None else self._found.group.terms
        factors = dict.fromkeys(term.factor.name for term in terms.values())
        for factor in factors:
            own = [term for term in terms.values() if term.factor.name == factor]
            names = [label for term in own for label in _effect_names(term)]
            values = np.concatenate([data(term.expr) for term in own], axis=1)
            for place, name in enumerate(names):
                _check_finite(name, values[:, place])
            table = self._found.data if frame is None else frame
            codes, fresh = _places(own[0].factor.components, table)
            levels = tuple(map(str, own[0].groups))
            yield Grouping(factor, tuple(names), levels, values, codes, fresh)

    @property
    def response(self) -> np.ndarray:
        found = np.asarray(self._found.response.design_matrix)
        kind, levels = self._found.response.kind, self._found.response.levels
        if kind != "categoric" or levels is None:
            return found
        fix = f"Say which value counts as one, as in `{self.response_name}['{levels[-1]}'] ~ ...`."
        must = "numbers, or words of two kinds"
        check(len(levels) == 2, self.response_name, must, f"{len(levels)} kinds", fix)
        return found[:, 1]


def read_formula(text: str, frame: Any, functions: FrameType | None) -> Formula:
    """The formula at a table; its functions are looked up in a frame of the user's code."""
    check(isinstance(text, str), "formula", "a string such as 'y ~ x'", type(text).__name__, error=TypeError)
    formulae = _library()
    from formulae.environment import Environment

    table = as_frame(frame)
    spaces = [] if functions is None else [functions.f_locals, functions.f_globals]
    around = Environment([*spaces, {"np": np, "numpy": np}])
    try:
        described = formulae.model_description(text)
    except Exception as error:  # the parser has several kinds, and none of them names the formula
        raise ValueError(
            f"`formula` must be like 'y ~ x + (1 | group)'; got {text!r}, of which the parser says: "
            f"{str(error).strip()}."
        ) from error
    fix = "Write `y ~ ...` with the name of the column."
    check(getattr(described, "response", None) is not None, "formula", "one with a response", repr(text), fix)
    names = sorted(name for name in described.var_names if name)  # numbers in calls have no name
    known = around.namespace
    _check_columns([name for name in names if name not in known], table, "frame")
    _check_filled([name for name in names if name in table.columns], table, "frame")
    check(len(table) > 0, "frame", "of at least one row", "none")
    with _explained(text, table, table):
        found = formulae.design_matrices(text, table, na_action="error", env=around)
        return Formula(text, found)


def explains_all(columns: Columns, has_intercept: bool, y: np.ndarray) -> bool:
    """Whether least squares on all columns and groups leave nothing but rounding."""
    from scipy.sparse import coo_matrix, hstack
    from scipy.sparse.linalg import lsqr

    rows = np.arange(columns.num_rows)
    parts = [np.ones((columns.num_rows, int(has_intercept))), columns.values]
    for group in columns.groups:
        shape = columns.num_rows, len(group.levels)
        parts += [coo_matrix((each, (rows, group.codes)), shape) for each in group.columns.T]
    free = y - columns.offset
    size = max(float(np.abs(free).max()), np.finfo(float).tiny)
    design = hstack([coo_matrix(part) for part in parts]).tocsr()
    return float(lsqr(design, free / size, atol=1e-14, btol=1e-14)[3]) < 1e-8


def as_frame(frame: Any) -> "pd.DataFrame":
    """A table of pandas; other tables and dicts of columns become one."""
    import pandas as pd

    if isinstance(frame, Mapping):
        frame = pd.DataFrame(dict(frame))
    elif not isinstance(frame, pd.DataFrame) and hasattr(frame, "to_pandas"):
        frame = frame.to_pandas()
    fix = "Read a file with `pandas.read_csv(...)`."
    must = "a table of pandas, or a dict of columns"
    check(isinstance(frame, pd.DataFrame), "frame", must, type(frame).__name__, fix, TypeError)
    return frame


def user_frame() -> FrameType | None:
    """The frame of the user's code that is being run."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_library(frame):
        frame = frame.f_back
    return frame


def _effect_names(term: Any) -> list[str]:
    labels = ["1"] if term.expr.kind == "intercept" else term.expr.labels
    return [f"{label}|{term.factor.name}" for label in labels]


def _places(components: Any, table: "pd.DataFrame") -> tuple[np.ndarray, tuple[str, ...]]:
    """The number of the group of each row, new groups after those that are known; and the new ones."""
    columns, sizes = [], [len(component.levels) for component in components]
    for component in components:
        named = component.name in table
        found = table[component.name] if named else component.call.eval(table, component.env)
        # a call such as `C(x)` gives a box with the column inside
        columns.append(np.asarray(found if named else getattr(found, "data", found)).tolist())
    known = [{level: i for i, level in enumerate(component.levels)} for component in components]
    fresh: dict[tuple, int] = {}
    codes = np.empty(len(table), int)
    for row, group in enumerate(zip(*columns)):
        places = [place.get(value, -1) for place, value in zip(known, group)]
        if min(places) < 0:
            codes[row] = int(np.prod(sizes)) + fresh.setdefault(group, len(fresh))
        else:
            codes[row] = np.ravel_multi_index(tuple(places), tuple(sizes))
    return codes, tuple(":".join(map(str, group)) for group in fresh)


def _check_columns(names: list[str], frame: "pd.DataFrame", argument: str) -> None:
    known = [str(name) for name in frame.columns]
    for name in names:
        must = f"a table with the column {name!r}"
        check(name in known, argument, must, ", ".join(known) or "no columns", nearest(name, known))


def _check_filled(names: list[str], frame: "pd.DataFrame", argument: str) -> None:
    for name in names:
        gaps = np.asarray(frame[name].isna())
        if gaps.any():
            row, count = int(np.argmax(gaps)), int(gaps.sum())
            fix = f"Leave such rows out: `{argument}.dropna(subset=[{name!r}])`, or fill them in."
            many = f"{count} gap{'s' if count > 1 else ''}, the first in row {row}"
            check(False, f"{argument}[{name!r}]", "without missing values", many, fix)


def _check_finite(label: str, values: np.ndarray) -> None:
    fix = "Leave such rows out, or use another transformation."
    check_entries(label, values, np.isfinite, "finite in every row", fix)


@contextlib.contextmanager
def _explained(text: str, seen: "pd.DataFrame", frame: "pd.DataFrame") -> Iterator[None]:
    """What goes wrong inside the evaluation, said of the formula."""
    try:
        yield
    except Exception as error:  # of functions that the formula calls too: any kind, said and chained
        if str(error).startswith("`"):  # said already
            raise
        if "not present in the original data set" in str(error):
            raise ValueError(_unseen(seen, frame) or str(error)) from error
        said = f"{type(error).__name__}: {str(error).strip()}"
        raise ValueError(f"`formula` must be one that the table can fill; got {text!r}: {said}.") from error


def _unseen(seen: "pd.DataFrame", frame: "pd.DataFrame") -> str:
    """The first category of a table that the first table has not."""
    for name in seen.columns:
        strange = ~np.asarray(frame[name].isin(seen[name])) if name in frame.columns else np.zeros(0, bool)
        if strange.any() and seen[name].dtype.kind not in "fiu":
            row = int(np.argmax(strange))
            known = ", ".join(sorted(map(str, seen[name].unique())))
            must = f"a category that was fitted ({known}) in `new_frame[{name!r}]`"
            fix = (
                f"Leave the row out, or let {name} be a group, `(1 | {name})`: new groups have a prediction."
            )
            return f"`row {row}` must have {must}; got {str(frame[name].iloc[row])!r}. {fix}"
    return ""


def _library() -> Any:
    try:
        import formulae
    except ModuleNotFoundError as error:
        fix = "Run `pip install formulae`."
        raise ModuleNotFoundError(f"`regression` must have the package formulae; got none. {fix}") from error
    return formulae
