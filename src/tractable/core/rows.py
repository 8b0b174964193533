r"""One table of rows: features, targets, weights and names, checked once where they enter the library.

Contract.    `Rows.of` accepts arrays, lists, data frames, or `Rows`, which pass through unread: nothing is
             checked twice. A fault names the table, the column (by its name where it has one) and the row.
Features.    $X$ of shape $(n, d)$ in double precision and row order; a vector is $n$ points in one dimension.
             NaN is a gap, which a model marginalises (`gaps=True`) or refuses; infinity is always refused.
Targets.     Numbers, one or several for each row, or codes $0, \dots, K - 1$ of classes with their labels.
Weights.     How often a row counts: finite, zero or positive, one of them positive. A row of weight zero is
             absent: it is left out, unless `absent="keep"`.
Tracing.     Arrays without values (under `jit`, `vmap`, `grad`) have their shapes checked alone.
Cost.        One pass over $X$ without a copy; one copy where it is not in double precision and row order, or
             where rows are left out.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check, check_nonnegative, check_option, has_values, offender
from tractable.core.chunks import pad_rows
from tractable.core.entries import as_numbers, check_table, place_of, refuse_text
from tractable.core.module import Module, field

__all__ = ["Rows", "level_and_size", "points", "refuse_text", "row_weights"]

_TARGETS = ("number", "numbers", "class", "label", "binary", "sign")
_CONSTANT = 1e-13  # of the size of a column: below it a spread is rounding
_DIGITS = 1e-4  # of a mean square: a smaller variance has lost more than four digits
_TINY = 1e-280  # a mean square near the smallest number
_BLOCK = 1 << 11  # rows whose intermediate values stay in the cache


class Rows(Module):
    """Checked rows; `Rows.of` makes them.

    `y` is None without targets; codes of classes are whole numbers, and `classes` are their labels. `names`
    are those of the columns, where they have any. `has_gaps` says whether `X` has a NaN, and `is_weighted`
    whether weights were given (else they are ones). They unpack: `X, y, weights = rows`.

    >>> rows = Rows.of([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], ["a", "b", "a"], [1, 2, 0], target="label")
    >>> rows.num_rows, rows.y.tolist(), rows.classes, rows.weights.tolist()
    (2, [0, 1], ('a', 'b'), [1.0, 2.0])
    """

    X: Any
    y: Any
    weights: Any
    names: tuple[str, ...] | None = field(static=True, default=None)
    classes: tuple[Any, ...] | None = field(static=True, default=None)
    has_gaps: bool = field(static=True, default=False)
    is_weighted: bool = field(static=True, default=True)

    @classmethod
    def of(
        cls,
        X: Any,
        y: Any = None,
        weights: Any = None,
        *,
        target: str | None = None,
        gaps: bool = False,
        num_columns: int | None = None,
        num_classes: int | None = None,
        names: Sequence[str] | None = None,
        absent: str = "drop",
        least: int = 1,
    ) -> "Rows":
        """The rows of `X`, `y` and `weights`, at least `least` of them; `Rows` come back as they are.

        `target` says what `y` is: "number" (one for each row), "numbers" (or a row of them), "class" (codes
        from 0 to `num_classes - 1`, or to the largest), "label" (anything that can be sorted: codes are
        made), "binary" (0 and 1) or "sign" (-1 and +1; `signs` gives them back). Without `target` there is
        no `y`. A table must have `num_columns` columns, and a data frame the columns `names`.
        """
        if target is not None:
            check_option("target", target, _TARGETS)
        check_option("absent", absent, ("drop", "keep"))
        if isinstance(X, Rows):
            check(y is None and weights is None, "y", "left out where `X` holds prepared rows", "targets")
            rows = X._as_asked(target, gaps, num_classes)
            _check_columns("X", rows.num_columns, num_columns, rows.names, names)
        else:
            rows = cls._checked(X, y, weights, target, gaps, num_columns, num_classes, names)
            rows = rows._present(target == "label") if absent == "drop" and weights is not None else rows
        wanted = "at least one row" if least == 1 else f"at least {least} rows"
        check(rows.num_rows >= least, "X", wanted, rows.num_rows or "none")
        return rows

    @classmethod
    def _checked(cls, X, y, weights, target, gaps, num_columns, num_classes, names) -> "Rows":
        found = _names_of(X)
        table = _as_table("X", X)
        _check_columns("X", table.shape[1], num_columns, found, names)
        found = found if names is None else tuple(names)
        has_gaps = check_table("X", table, found, gaps)
        targets, classes = (None, None) if target is None else _targets(y, target, len(table), num_classes)
        check(target is not None or y is None, "y", "left out where there are no targets", "targets")
        counts = row_weights(weights, len(table))
        return cls(table, targets, counts, found, classes, has_gaps, weights is not None)

    def __iter__(self) -> Iterator[Any]:
        return iter((self.X, self.y, self.weights))

    @property
    def num_rows(self) -> int:
        return self.X.shape[0]

    @property
    def num_columns(self) -> int:
        return self.X.shape[1]

    @property
    def num_classes(self) -> int:
        check(self.classes is not None, "y", "classes", "numbers")
        return len(self.classes or ())

    @property
    def total(self) -> Any:
        r"""$\sum_i w_i$: how many rows there are."""
        return self.weights.sum()

    @property
    def signs(self) -> Any:
        r"""Two classes as $-1$ and $+1$."""
        check(self.num_classes == 2, "y", "of two classes", f"{self.num_classes} classes")
        return 2.0 * self.y - 1.0

    def take(self, places: Any) -> "Rows":
        """The rows at these places (or where a mask is true), unchecked."""
        y = None if self.y is None else self.y[places]
        return self._with(self.X[places], y, self.weights[places])

    def padded(self, size: int | None = None) -> "Rows":
        """The rows on the device, with copies of the last one of weight zero up to `size` (by default the
        next of `core.chunks.bucket_size`): other numbers of rows run the same program."""
        arrays = (self.X,) if self.y is None else (self.X, self.y)
        (X, *y), weights = pad_rows(arrays, self.weights, size=size)
        return self._with(X, y[0] if y else None, weights)

    def where(self, column: int) -> str:
        """How an error names a column.

        >>> Rows.of([[1.0]], names=["age"]).where(0)
        "column 'age'"
        """
        return place_of(column, self.names)

    def _with(self, X: Any, y: Any, weights: Any) -> "Rows":
        return Rows(X, y, weights, self.names, self.classes, self.has_gaps, self.is_weighted)

    def _present(self, own_labels: bool) -> "Rows":
        """Without rows of weight zero, and without labels that no other row has."""
        keep = np.asarray(self.weights) > 0 if has_values(self.weights) else np.ones(1, bool)
        if keep.all():
            return self
        rows = self.take(keep)
        if not own_labels:
            return rows
        found, codes = np.unique(rows.y, return_inverse=True)
        classes = tuple(self.classes[c] for c in found) if self.classes else None
        return Rows(rows.X, codes.reshape(-1), rows.weights, self.names, classes, self.has_gaps, True)

    def _as_asked(self, target: str | None, gaps: bool, num_classes: int | None) -> "Rows":
        """The same rows for a model that asks for these targets; only what was recorded is compared."""
        if self.has_gaps and not gaps:
            check_table("X", np.asarray(self.X), self.names, False)
        if target is None:
            return self
        check(self.y is not None, "y", "given", "rows without targets")
        is_class, wants = self.classes is not None, target not in ("number", "numbers")
        check(is_class == wants, "y", "classes" if wants else "numbers", "classes" if is_class else "numbers")
        if target == "number":
            check(self.y.ndim == 1, "y", "one number per row", f"shape {self.y.shape}")
        if target in ("binary", "sign"):
            check(self.num_classes == 2, "y", "of two classes", f"{self.num_classes} classes")
        if num_classes in (None, self.num_classes if is_class else None):
            return self
        labels = self.classes or ()
        check(len(labels) < num_classes, "y", f"of {num_classes} classes", f"{len(labels)} classes")
        labels += tuple(range(len(labels), num_classes))
        return Rows(self.X, self.y, self.weights, self.names, labels, self.has_gaps, self.is_weighted)


def points(
    X: Any, num_columns: int | None = None, *, gaps: bool = False, name: str = "X",
    names: Sequence[str] | None = None,
) -> Any:  # fmt: skip
    """New rows for a prediction, checked as those of a fit: an array of shape (n, `num_columns`).

    >>> points([1.0, 2.0]).shape
    (2, 1)
    """
    if isinstance(X, Rows):
        X._as_asked(None, gaps, None)
        _check_columns(name, X.num_columns, num_columns, X.names, names)
        return X.X
    found, table = _names_of(X), _as_table(name, X)
    _check_columns(name, table.shape[1], num_columns, found, names)
    check_table(name, table, found if names is None else tuple(names), gaps)
    return table


def level_and_size(values: np.ndarray, weights: np.ndarray, centre: bool = True) -> tuple[Any, Any]:
    """The mean of each column and its standard deviation, or zero and the root mean square.

    One pass over sums about a mean of some rows; columns of which it keeps too few digits (far from that
    mean, constant, or of sizes whose squares leave the range) are looked at with care.
    """
    total, origin = weights.sum(), values[:_BLOCK].mean(0) if centre else np.zeros(values.shape[1])
    first, second = np.zeros((2, values.shape[1]))
    with np.errstate(over="ignore", invalid="ignore"):
        for low in range(0, len(values), _BLOCK):
            rest = values[low : low + _BLOCK] - origin
            first += weights[low : low + _BLOCK] @ rest
            rest *= rest
            second += weights[low : low + _BLOCK] @ rest
        shift, square = (first / total if centre else np.zeros_like(first)), second / total
        spread = square - shift**2
        clear = np.isfinite(square) & (spread > _DIGITS * square) & (square > _TINY)
    level, size = origin + shift, np.sqrt(np.where(clear, spread, 1.0))
    if not clear.all():
        level[~clear], size[~clear] = _careful_size(values[:, ~clear], weights, centre)
    return level, size


def _careful_size(values: np.ndarray, weights: np.ndarray, centre: bool) -> tuple[Any, Any]:
    blocks = [slice(low, low + _BLOCK) for low in range(0, len(values), _BLOCK)]
    peak = np.max([np.abs(values[rows]).max(0) for rows in blocks], 0)
    unit = np.where(peak > 0, peak, 1.0)  # squares of sizes near one neither overflow nor vanish
    shares, level = weights / weights.sum(), np.zeros(values.shape[1])
    if centre:
        level = level + sum(shares[rows] @ (values[rows] / unit) for rows in blocks)
    spread = np.sqrt(sum(shares[rows] @ (values[rows] / unit - level) ** 2 for rows in blocks))
    return level * unit, np.where(spread > _CONSTANT, spread, 1.0) * unit


def _as_table(name: str, X: Any) -> Any:
    """`X` as (n, d) floats: in NumPy, or traced as it is."""
    if not has_values(X):
        table = X if hasattr(X, "dtype") else jnp.asarray(X)
        table = table if jnp.issubdtype(table.dtype, jnp.floating) else table.astype(float)
    else:
        table = as_numbers(name, X)
    table = table[:, None] if table.ndim == 1 else table
    check(table.ndim == 2, name, "rows of shape (n, d), or a vector", f"shape {table.shape}")
    check(table.shape[1] > 0, name, "rows of at least one column", f"shape {table.shape}")
    return table if not isinstance(table, np.ndarray) else np.ascontiguousarray(table)


def _names_of(X: Any) -> tuple[str, ...] | None:
    columns = getattr(X, "columns", None)
    names = None if columns is None else tuple(columns)
    return names if names and all(isinstance(name, str) for name in names) else None


def _check_columns(name: str, width: int, wanted: int | None, found: Any, names: Any) -> None:
    wanted = len(names) if names is not None and wanted is None else wanted
    check(wanted in (None, width), name, f"rows of {wanted} columns", f"{width} columns")
    if names is not None and found is not None and tuple(names) != tuple(found):
        first = next(j for j, (have, want) in enumerate(zip(found, names)) if have != want)
        must = f"a table with column {names[first]!r} at place {first}"
        check(False, name, must, repr(found[first]), "Give the columns of the fit, in their order.")


def _targets(y: Any, target: str, num_rows: int, num_classes: int | None) -> tuple[Any, Any]:
    """Checked targets, and the labels of classes."""
    check(y is not None, "y", "given", None, "This model needs targets.")
    if target == "label":
        return _labels(y, num_rows)
    if not has_values(y):
        values = jnp.asarray(y)
    elif target in ("number", "numbers"):
        values = as_numbers("y", y)
    else:
        values = np.asarray(y)
    several = target == "numbers" and values.ndim == 2
    shape = f"one per row ({num_rows},)" + (", or a row of them" if target == "numbers" else "")
    check(values.ndim == 1 or several, "y", shape, f"shape {values.shape}")
    check(len(values) == num_rows, "y", f"as long as `X` ({num_rows})", len(values))
    if target in ("number", "numbers"):
        check_table("y", values, None, False)
        return values, None
    return _codes(values, target, num_classes)


def _codes(values: Any, target: str, num_classes: int | None) -> tuple[Any, tuple]:
    low, high = {"binary": (0, 1), "sign": (-1, 1)}.get(target, (0, np.inf))
    high = high if num_classes is None or target != "class" else num_classes - 1
    if has_values(values):
        fix = "Turn names into codes with `label_codes`."
        check(values.dtype.kind in "iubf", "y", "codes of classes", f"dtype {values.dtype}", fix)
        ok = np.isin(values, (low, high)) if target != "class" else (values >= 0) & (values <= high)
        ok = ok & (values == np.floor(values)) if values.dtype.kind == "f" else ok
        last = "..." if high == np.inf else high
        words = {"binary": "0 or 1", "sign": "-1 or +1"}.get(
            target, f"codes 0, 1, ... of classes, from 0 to {last}"
        )
        if not ok.all():
            check(False, "y", words, offender(values, ok), fix)
    if target != "class":
        return (values > 0).astype(np.int64), (low, high)
    check(num_classes is not None or has_values(values), "num_classes", "given under `jit`", None)
    count = num_classes if num_classes is not None else int(values.max()) + 1
    return values.astype(np.int64), tuple(range(count))


def _labels(y: Any, num_rows: int) -> tuple[np.ndarray, tuple]:
    values = np.asarray(y)
    check(values.shape == (num_rows,), "y", f"one label per row ({num_rows},)", f"shape {values.shape}")
    missing = np.array([v is None for v in values.tolist()]) if values.dtype.kind == "O" else values != values
    if np.any(missing):
        check(False, "y", "without gaps", offender(np.asarray(missing), ~missing), "Drop or name them.")
    classes, codes = np.unique(values, return_inverse=True)
    return codes.reshape(-1).astype(np.int64), tuple(classes.tolist())


def row_weights(weights: Any, num_rows: int) -> Any:
    """How often each row counts, one number each: once where `weights` is None."""
    if weights is None:
        return np.ones(num_rows)
    if not has_values(weights):
        check(weights.shape == (num_rows,), "weights", f"of shape ({num_rows},), one per row", weights.shape)
        return weights
    counts = as_numbers("weights", weights)
    wanted = f"of shape ({num_rows},), one per row"
    check(counts.shape == (num_rows,), "weights", wanted, f"shape {counts.shape}")
    check_nonnegative("weights", counts)
    check(bool(counts.any()), "weights", "positive for at least one row", "zeros", "Weigh some rows.")
    return counts
