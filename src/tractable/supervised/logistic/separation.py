r"""Separated classes: when the likelihood of a log-linear model has no maximum, and which columns do it.

Condition.   With $a_{ik} = x_i \otimes (e_{y_i} - e_k)$ for $k \ne y_i$ (for two classes
             $a_i = \pm x_i$), the likelihood has no maximum iff some $\beta$ has $a_{ik}^\top\beta \ge 0$ for
             all rows and $> 0$ for some: *complete* if $> 0$ for all rows, else *quasi-complete*.
Program.     $\max \sum t_{ik}$ with $a_{ik}^\top\beta \ge t_{ik}$, $0 \le t \le 1$: every row that can be
             separated reaches $t = 1$, so one linear program decides. Among the directions that do, one of
             least $\sum_j|\beta_j|$ names the columns.
Cost.        Two linear programs (HiGHS); a direction that is known to separate costs one pass.
References.  Albert and Anderson (1984); Konis (2007).
"""

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tractable.core.checks import check, check_nonnegative
from tractable.core.iterate import Ended
from tractable.core.module import Module, field
from tractable.core.rows import Rows
from tractable.core.types import ArrayLike
from tractable.core.verdict import Verdict
from tractable.optim.linear_program import linear_program
from tractable.supervised.logistic.newton import StandardRows

__all__ = [
    "LikelihoodFit", "Margins", "Overlap", "SeparatedDataError", "Separation", "check_options",
    "find_separation", "judge_separation", "margins_along", "separation", "separator",
]  # fmt: skip

_ROUNDING = 1e-9  # of a margin, for rows of unit scale and a direction whose largest entry is one
_FIX = "Penalise the coefficients (`penalty` above zero), drop those columns, or give a prior."


class Overlap(enum.IntEnum):
    """How the classes lie; each member knows the sentence that a person should read."""

    overlapping = 0
    quasi_complete = 1
    complete = 2

    @property
    def sentence(self) -> str:
        return _SENTENCES[self]


_SENTENCES = {
    Overlap.overlapping: "The classes overlap: the likelihood has a maximum.",
    Overlap.quasi_complete: "The classes are separated but for ties (quasi-complete separation): "
    "the likelihood has no maximum.",
    Overlap.complete: "The classes are separated completely: the likelihood has no maximum.",
}


class SeparatedDataError(ValueError):
    """A maximum of the likelihood was asked for where there is none."""


class Separation(Module):
    """Whether the classes overlap, and else the columns of a direction along which they are separated.

    `columns` is empty where the intercept alone separates (one class). `rows` counts rows off the boundary.
    """

    overlap: Overlap = field(static=True)
    columns: tuple[int, ...] = field(static=True, default=())
    names: tuple[str, ...] = field(static=True, default=())
    rows: int = field(static=True, default=0)

    @property
    def exists(self) -> bool:
        """Whether the likelihood has a maximum."""
        return self.overlap is Overlap.overlapping

    @property
    def verdict(self) -> Verdict:
        """Whether the likelihood has a maximum, with the separating columns where it has none."""
        sentence, where = self.overlap.sentence, ", ".join(self.names) or "the intercept alone"
        if not self.exists:
            sentence += f" Separating columns: {where} ({self.rows} rows off the boundary)."
        return Verdict(self.exists, sentence, {"rows": self.rows})

    def raise_if_separated(self) -> None:
        """An error with the columns, unless the classes overlap."""
        if not self.exists:
            raise SeparatedDataError(f"`X` must not separate the classes; got this: {self.verdict} {_FIX}")


class LikelihoodFit(Ended, Module):
    """What the fitted log-linear models share: how the fit ended, and whether to trust it.

    They have `coefficients`, `loss`, `num_steps`, `code`, `penalty` and `separation`.
    """

    @property
    def verdict(self: Any) -> Verdict:
        """How far to trust the fit."""
        numbers = {"loss": self.loss, "num_steps": self.num_steps}
        if self.separation is not None and not self.separation.exists:
            return Verdict(False, f"Do not use the coefficients. {self.separation.verdict}", numbers)
        return Verdict(self.status.ok, self.ending, numbers)


def separation(
    X: ArrayLike | Rows,
    y: ArrayLike | None = None,
    *,
    weights: ArrayLike | None = None,
    intercept: bool = True,
    names: Sequence[str] | None = None,
) -> Separation:
    """Whether the classes `y` (any labels) are separated by the columns of `X`.

    >>> separation([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], names=["age"]).verdict
    The classes are separated completely: the likelihood has no maximum. Separating columns: age (4 rows off \
the boundary).
    """
    rows = StandardRows.of(Rows.of(X, y, weights, target="label"), intercept)
    return find_separation(rows, rows.y.astype(int), names=names)


def check_options(penalty: float | int, separated: str) -> None:
    """The options that the fits of log-linear models share."""
    check(separated in ("raise", "report"), "separated", "'raise' or 'report'", repr(separated))
    check_nonnegative("penalty", penalty)


def judge_separation(
    rows: StandardRows,
    codes: np.ndarray,
    direction: np.ndarray,
    settled: bool,
    separated: str,
    names: Sequence[str] | None,
) -> Separation | None:
    """Whether a fit that did not settle fails because the classes are apart; None for one that did.

    With `separated="raise"` classes that are apart are an error that names the columns.
    """
    if settled:
        return None
    apart = find_separation(rows, codes, direction, names)
    if separated == "raise":
        apart.raise_if_separated()
    return apart


def find_separation(
    rows: StandardRows,
    codes: np.ndarray,
    direction: np.ndarray | None = None,
    names: Sequence[str] | None = None,
) -> Separation:
    """The same of standardised rows; a `direction` that may separate (a column per class) is tried first."""
    present, codes = np.unique(codes, return_inverse=True)
    classes = len(present)
    check(classes > 1 or rows.intercept, "y", "of at least two classes", "one")
    if classes == 1:
        return Separation(Overlap.complete, rows=len(codes))
    design = rows.design()
    single = _single_columns(rows, codes) if classes == 2 else {}
    if single:
        return _named(rows, names, *_best(single))
    if direction is not None:
        found = _along(design, codes, direction if direction.ndim == 1 else direction[:, present], rows)
        if found is not None and len(codes) > 20_000:
            return _named(rows, names, *found)
    return _named(rows, names, *_program(_differences(design, codes, classes), rows, classes, len(codes)))


class _Found(NamedTuple):
    """A kind of separation with the columns and the number of rows off the boundary."""

    overlap: Overlap
    columns: tuple[int, ...]
    rows: int


def _named(rows: StandardRows, names: Sequence[str] | None, *found) -> Separation:
    overlap, columns, count = found
    words = tuple(f"column {j}" if names is None else str(names[j]) for j in columns)
    return Separation(overlap, columns, words, count)


def _single_columns(rows: StandardRows, codes: np.ndarray) -> dict[int, _Found]:
    """Columns that separate two classes by themselves, given an intercept."""
    found: dict[int, _Found] = {}
    if not rows.intercept:
        return found
    low, high = (rows.x[codes == k] for k in (0, 1))
    upward, downward = high.min(0) - low.max(0), low.min(0) - high.max(0)
    for j in np.flatnonzero((np.maximum(upward, downward) >= 0) & ~rows.constant):
        complete = max(upward[j], downward[j]) > 0
        tie = low[:, j].max() if upward[j] >= 0 else low[:, j].min()
        count = len(codes) if complete else int((rows.x[:, j] != tie).sum())
        kind = Overlap.complete if complete else Overlap.quasi_complete
        found[int(j)] = _Found(kind, (int(j),), count)
    return found


def _best(single: dict[int, _Found]) -> _Found:
    """All columns that separate completely, or else all that do so but for ties."""
    worst = max(found.overlap for found in single.values())
    members = [found for found in single.values() if found.overlap is worst]
    return _Found(worst, tuple(found.columns[0] for found in members), max(f.rows for f in members))


def _along(design: np.ndarray, codes: np.ndarray, direction: np.ndarray, rows: StandardRows) -> _Found | None:
    """The separation that a direction proves, if it proves one."""
    columns, margins = margins_along(design, codes, direction)
    return _proved(columns, Margins.of(margins), rows)


def margins_along(
    design: np.ndarray, codes: np.ndarray, direction: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A direction with a column for each class, and by how much each row is on the side of its own class."""
    columns = direction if direction.ndim == 2 else np.column_stack([-direction, direction]) / 2
    scores = design @ (columns / np.abs(columns).max())
    own = np.take_along_axis(scores, codes[:, None], 1)
    others = np.arange(scores.shape[1])[None] != codes[:, None]
    margins = np.where(others, own - scores, np.inf).min(1)
    return columns, margins


class Margins(NamedTuple):
    """The least and the largest margin of rows along a direction, and how many are off the boundary."""

    least: float
    most: float
    count: int

    @staticmethod
    def of(margins: np.ndarray) -> "Margins":
        return Margins(float(margins.min()), float(margins.max()), int((margins > _ROUNDING).sum()))

    def joined(self, other: "Margins") -> "Margins":
        """Those of the rows of both."""
        ends = min(self.least, other.least), max(self.most, other.most)
        return Margins(*ends, self.count + other.count)

    def separation(self, columns: np.ndarray, rows: StandardRows, names: Any = None) -> Separation | None:
        """What they prove, if anything."""
        found = _proved(columns, self, rows)
        return None if found is None else _named(rows, names, *found)


def _proved(columns: np.ndarray, margins: Margins, rows: StandardRows) -> _Found | None:
    if margins.least < -_ROUNDING or margins.most <= _ROUNDING:
        return None
    kind = Overlap.complete if margins.least > _ROUNDING else Overlap.quasi_complete
    return _Found(kind, _columns_of(columns, rows), margins.count)


def _columns_of(columns: np.ndarray, rows: StandardRows) -> tuple[int, ...]:
    moved = np.abs(
        columns[int(rows.intercept) :] - columns[int(rows.intercept) :].mean(1, keepdims=True)
    ).max(1)
    return tuple(np.flatnonzero(moved > 1e-6 * moved.max(initial=0.0)).tolist())


def _differences(design: np.ndarray, codes: np.ndarray, classes: int) -> Any:
    r"""$x_i \otimes (e_{y_i} - e_k)$ for every row and every other class; for two classes $\pm x_i$."""
    import scipy.sparse as sp

    if classes == 2:
        return sp.csr_matrix(design * (2 * codes - 1)[:, None])
    steps = np.eye(classes)[codes][:, None, :] - np.eye(classes)[None]
    others = (np.arange(classes)[None] != codes[:, None]).nonzero()
    blocks = design[others[0]][:, :, None] * steps[others][:, None, :]
    return sp.csr_matrix(blocks.reshape(len(others[0]), -1))


def separator(a: Any) -> tuple[np.ndarray, np.ndarray]:
    r"""Which rows of $A$ can have $a_r^\top\beta > 0$ while none is negative, and a sparse such $\beta$."""
    import scipy.sparse as sp

    n, p = a.shape
    gain = np.concatenate([np.zeros(p), np.ones(n)])
    low, high = np.concatenate([np.full(p, -np.inf), np.zeros(n)]), np.where(gain > 0, 1.0, np.inf)
    upper = (sp.hstack([-a, sp.eye(n)]), np.zeros(n))
    first = np.asarray(linear_program(gain, upper=upper, low=low, high=high, maximise=True).x)
    reached = first[p:] > 0.5
    if not reached.any():
        return reached, np.zeros(p)
    second = linear_program(np.ones(2 * p), lower=(sp.hstack([a, -a]), reached.astype(float)))
    parts = np.asarray(second.x)
    return reached, parts[:p] - parts[p:] if second.status.ok else first[:p]


def _program(a: Any, rows: StandardRows, classes: int, num_rows: int) -> _Found:
    reached, direction = separator(a)
    if not reached.any():
        return _Found(Overlap.overlapping, (), 0)
    columns = direction.reshape(rows.size, -1) if classes > 2 else np.column_stack([-direction, direction])
    kind = Overlap.complete if reached.all() else Overlap.quasi_complete
    return _Found(kind, _columns_of(columns, rows), int(reached.reshape(num_rows, -1).any(1).sum()))
