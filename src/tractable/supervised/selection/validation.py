r"""Choosing models by rows that they have not seen: cross-validation, curves, grids.

Folds.       A splitter of scikit-learn (`KFold`, `StratifiedKFold`, `GroupKFold`, `ShuffleSplit`, ...), or
             pairs of indices (rows to learn from, rows held out); one pair is a development set.
Learner.     Anything given as `fit(X, y) -> predict` with `predict(X) -> predictions`; a loss takes (targets,
             predictions) and gives one number per row.
Error.       Cross-validation: the mean loss over rows left out in turn, with its standard error over rows;
             leave-one-out $\sum_i L(y_i, f_{-i}(x_i))$ is the case of one row at a time.
Rule.        Of a grid, the setting of least mean loss; `simplest` is the first in the grid whose loss is
             within one standard error of it.
Cost.        One fit for each fold and setting.
References.  Stone (1974); Hastie, Tibshirani and Friedman (2009) sections 7.10 and 7.12.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tractable.core.checks import check, check_count
from tractable.core.host_random import generator
from tractable.core.interfaces import Task, task_of
from tractable.core.keys import takes_key
from tractable.core.module import Module
from tractable.core.types import ArrayLike, Key
from tractable.supervised.selection.losses import squared_loss, zero_one_loss

__all__ = [
    "CrossValidation", "Curve", "GridSearch", "cross_validate", "grid_search", "learning_curve",
    "leave_one_out", "validation_curve",
]  # fmt: skip

Learner = Callable[[Any, Any], Callable[[Any], Any]]
Loss = Callable[[Any, Any], Any]


class CrossValidation(Module):
    """The loss of each row when it was left out; NaN for rows that no fold held out."""

    _shown = ("mean", "standard_error", "gap", "test_losses")

    losses: np.ndarray
    train_losses: np.ndarray  # (folds,) the mean loss on the rows that were fitted
    test_losses: np.ndarray  # (folds,) the mean loss on the rows left out

    @property
    def mean(self) -> float:
        """The mean loss over rows left out."""
        return float(np.nanmean(self.losses))

    @property
    def total(self) -> float:
        """The sum of losses over rows left out: for one row at a time, the leave-one-out estimator."""
        return float(np.nansum(self.losses))

    @property
    def standard_error(self) -> float:
        """Of the mean, over rows."""
        seen = self.losses[~np.isnan(self.losses)]
        return float(seen.std(ddof=1) / np.sqrt(len(seen))) if len(seen) > 1 else float("nan")

    @property
    def gap(self) -> float:
        """How much worse the learner does on rows that it has not seen."""
        return self.mean - float(self.train_losses.mean())


class Curve(Module):
    """Mean losses along a range of values: on fitted rows and on rows left out, `(values, folds)`."""

    values: np.ndarray
    train: np.ndarray
    test: np.ndarray
    name: str = "value"

    @property
    def best(self) -> Any:
        """The value of least mean loss on rows left out."""
        return self.values[self.test.mean(1).argmin()]

    def _columns(self) -> dict[str, Any]:
        return {self.name: self.values, "fitted": self.train.mean(1), "left out": self.test.mean(1)}

    def _note(self) -> str:
        return f"least loss on rows left out at {self.name} = {self.best}"


class GridSearch(Module):
    """The result of every setting of a grid, and the one of least loss."""

    _shown = ("settings", "means", "best", "simplest")

    settings: tuple[Any, ...]
    results: tuple[CrossValidation, ...]

    @property
    def means(self) -> np.ndarray:
        """The mean loss of each setting on rows left out; of 0-1 losses, one minus the accuracy curve."""
        return np.array([result.mean for result in self.results])

    @property
    def best(self) -> Any:
        """The setting of least mean loss; of equals the first."""
        return self.settings[int(self.means.argmin())]

    @property
    def simplest(self) -> Any:
        """The first setting whose loss is within one standard error of the least."""
        least = int(self.means.argmin())
        limit = self.means[least] + self.results[least].standard_error
        return self.settings[int(np.flatnonzero(self.means <= limit)[0])]


def cross_validate(
    fit: Learner, X: ArrayLike, y: ArrayLike, folds: Any, loss: Loss | None = None,
    *, tasks: Callable[[Callable, list, Any], list] | None = None,
) -> CrossValidation:  # fmt: skip
    """The loss of each row by a learner that has not seen it.

    Without `loss`: 0-1 for categories, squared for numbers, by the kind of `y`. `tasks(function, pairs,
    shared)` makes the folds elsewhere (`scale.cross_validate`).
    """
    rows, targets = _table(X, y)
    pairs = _pairs(folds, rows, targets)
    shared = (fit, rows, targets, _loss_for(targets) if loss is None else loss)
    found = [_fold(pair, shared) for pair in pairs] if tasks is None else tasks(_fold, pairs, shared)
    losses = np.full(len(rows), np.nan)
    for (_, held), (own, _) in zip(pairs, found):
        losses[held] = own
    train, test = zip(*((mean, own.mean()) for own, mean in found))
    return CrossValidation(losses, np.array(train), np.array(test))


def _fold(pair: tuple[np.ndarray, np.ndarray], shared: tuple) -> tuple[np.ndarray, float]:
    """The losses of the rows held out, and the mean loss of those learnt from."""
    (seen, held), (fit, rows, targets, loss) = pair, shared
    predict = fit(rows[seen], targets[seen])
    own = _row_losses(loss, targets[held], predict(rows[held]))
    return own, float(_row_losses(loss, targets[seen], predict(rows[seen])).mean())


def leave_one_out(fit: Learner, X: ArrayLike, y: ArrayLike, loss: Loss | None = None) -> CrossValidation:
    r"""$L(y_i, f_{-i}(x_i))$ of each row, for any learner; `total` is their sum.

    >>> mean = lambda X, y: lambda new: np.full(len(new), y.mean())
    >>> leave_one_out(mean, np.zeros((3, 1)), np.array([0.0, 3.0, 6.0])).losses.tolist()
    [20.25, 0.0, 20.25]
    """
    from sklearn.model_selection import LeaveOneOut

    check(len(np.asarray(y)) >= 2, "y", "at least two rows", len(np.asarray(y)))
    return cross_validate(fit, X, y, LeaveOneOut(), loss)


@takes_key
def learning_curve(
    fit: Learner, X: ArrayLike, y: ArrayLike, sizes: Sequence[int] | np.ndarray, folds: Any,
    *, key: Key, loss: Loss | None = None,
) -> Curve:  # fmt: skip
    """Losses as a learner sees more rows: each fold's training rows, a growing part of one shuffle."""
    rows, targets = _table(X, y)
    loss = _loss_for(targets) if loss is None else loss
    pairs = _pairs(folds, rows, targets)
    most = min(len(seen) for seen, _ in pairs)
    counts = [check_count("sizes", size, 1, most) for size in sizes]
    orders = [generator(key, j).permutation(seen) for j, (seen, _) in enumerate(pairs)]
    parts = [[(order[:count], held) for order, (_, held) in zip(orders, pairs)] for count in counts]
    results = [cross_validate(fit, rows, targets, part, loss) for part in parts]
    return _curve(counts, results, "rows")


def validation_curve(
    learner: Callable[[Any], Learner], values: Sequence[Any] | np.ndarray, X: ArrayLike, y: ArrayLike,
    folds: Any, *, loss: Loss | None = None, name: str = "value",
) -> Curve:  # fmt: skip
    """Losses along a hyper-parameter; `learner(value)` is the learner with it."""
    rows, targets = _table(X, y)
    pairs = _pairs(folds, rows, targets)
    return _curve(values, [cross_validate(learner(v), rows, targets, pairs, loss) for v in values], name)


def grid_search(
    learner: Callable[..., Learner], grid: dict[str, Any], X: ArrayLike, y: ArrayLike,
    folds: Any, *, loss: Loss | None = None,
) -> GridSearch:  # fmt: skip
    """Every combination of the values in `grid`, as `learner(**setting)`, on the same folds."""
    check(len(grid) > 0 and all(len(v) > 0 for v in grid.values()), "grid", "values for each name", grid)
    from sklearn.model_selection import ParameterGrid

    rows, targets = _table(X, y)
    settings, pairs = tuple(ParameterGrid(grid)), _pairs(folds, rows, targets)
    results = [cross_validate(learner(**setting), rows, targets, pairs, loss) for setting in settings]
    return GridSearch(settings, tuple(results))


def _pairs(folds: Any, rows: np.ndarray, targets: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """The indices of each fold: a splitter is asked once, so that all settings see the same folds."""
    pairs = list(folds.split(rows, targets)) if hasattr(folds, "split") else list(folds)
    fine = len(pairs) > 0 and all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs)
    must = "a splitter of scikit-learn, or pairs of indices (learn from, hold out)"
    check(fine, "folds", must, repr(folds) if len(pairs) else "no folds")
    return pairs


def _curve(values: Any, results: list[CrossValidation], name: str) -> Curve:
    train, test = (np.stack([getattr(r, part) for r in results]) for part in ("train_losses", "test_losses"))
    return Curve(np.asarray(values), train, test, name)


def _table(X: ArrayLike, y: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    rows, targets = np.asarray(X), np.asarray(y)
    check(len(rows) == len(targets) > 0, "y", f"one target per row ({len(rows)})", len(targets))
    return rows, targets


def _loss_for(targets: np.ndarray) -> Loss:
    return zero_one_loss if task_of(targets) is Task.classification else squared_loss


def _row_losses(loss: Loss, targets: np.ndarray, predictions: Any) -> np.ndarray:
    values = np.asarray(loss(targets, predictions), float)
    check(values.shape == targets.shape[:1], "loss", f"one number per row {targets.shape[:1]}", values.shape)
    return values
