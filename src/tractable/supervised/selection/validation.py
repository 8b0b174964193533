r"""Choosing models by rows that they have not seen: splits, cross-validation, curves, grids.

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

import jax.random as jr
import numpy as np

from tractable.core.checks import check, check_count
from tractable.core.interfaces import Task, task_of
from tractable.core.module import Module
from tractable.core.types import ArrayLike, Key
from tractable.supervised.selection.losses import squared_loss, zero_one_loss

__all__ = [
    "CrossValidation", "Curve", "GridSearch", "Split", "cross_validate", "grid_search", "k_folds",
    "learning_curve", "leave_one_out", "train_test_split", "validation_curve",
]  # fmt: skip

Learner = Callable[[Any, Any], Callable[[Any], Any]]
Loss = Callable[[Any, Any], Any]


class Split(Module):
    """Indices of rows to learn from and of rows held out."""

    train: np.ndarray
    test: np.ndarray


class CrossValidation(Module):
    """The loss of each row when it was left out; NaN for rows that no fold held out."""

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

    def __repr__(self) -> str:
        test = f"{self.mean:.4g} ± {self.standard_error:.2g}"
        train = f"{self.train_losses.mean():.4g}"
        return f"CrossValidation({len(self.test_losses)} folds: loss {test} left out, {train} fitted)"


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

    def __repr__(self) -> str:
        rows = [f"{self.name:>12}  {'fitted':>10}  {'left out':>10}"]
        for value, a, b in zip(self.values, self.train.mean(1), self.test.mean(1)):
            rows.append(f"{value!s:>12.12}  {a:10.4g}  {b:10.4g}")
        return "\n".join([*rows, f"least loss on rows left out at {self.name} = {self.best}"])


class GridSearch(Module):
    """The result of every setting of a grid, and the one of least loss."""

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

    def __repr__(self) -> str:
        rows = [
            f"{s!s:<30.30} {r.mean:10.4g} ± {r.standard_error:.2g}"
            for s, r in zip(self.settings, self.results)
        ]
        return "\n".join([*rows, f"best {self.best}; within one standard error {self.simplest}"])


def train_test_split(
    num_rows: int, *, key: Key, test_fraction: float = 0.25, labels: ArrayLike | None = None
) -> Split:
    """Rows dealt at random; with `labels` the shares of classes are kept as nearly as whole rows allow."""
    num_rows = check_count("num_rows", num_rows, 2)
    check(0 < test_fraction < 1, "test_fraction", "between 0 and 1", test_fraction)
    held = min(max(round(test_fraction * num_rows), 1), num_rows - 1)
    order = _shuffled(key, num_rows)
    if labels is not None:  # spread each class evenly over the order, so that any prefix has its share of it
        order = order[np.argsort(_places_within(_labels(labels, num_rows)[order]), kind="stable")]
    return Split(np.sort(order[held:]), np.sort(order[:held]))


def k_folds(
    num_rows: int,
    num_folds: int,
    *,
    key: Key,
    labels: ArrayLike | None = None,
    groups: ArrayLike | None = None,
) -> list[Split]:
    """Every row is held out once. With `labels` each fold has its share of each class (to one row); with
    `groups` a group is held out as a whole, the largest dealt first to the emptiest fold."""
    num_rows = check_count("num_rows", num_rows, 2)
    check(labels is None or groups is None, "labels", "left out where `groups` are given", "both")
    order = _shuffled(key, num_rows)
    if groups is not None:
        fold = _fold_of_groups(_labels(groups, num_rows, "groups"), order, num_folds)
    else:
        num_folds = check_count("num_folds", num_folds, 2, num_rows)
        if labels is not None:
            order = order[np.argsort(_labels(labels, num_rows)[order], kind="stable")]
        fold = np.empty(num_rows, int)
        fold[order] = np.arange(num_rows) % num_folds  # dealt like cards, class after class
    return [Split(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(num_folds)]


def cross_validate(
    fit: Learner, X: ArrayLike, y: ArrayLike, folds: Sequence[Split], loss: Loss | None = None
) -> CrossValidation:
    """The loss of each row by a learner that has not seen it.

    Without `loss`: 0-1 for categories, squared for numbers, by the kind of `y`.
    """
    rows, targets = _table(X, y)
    loss = _loss_for(targets) if loss is None else loss
    losses, train, test = np.full(len(rows), np.nan), [], []
    for split in folds:
        predict = fit(rows[split.train], targets[split.train])
        own = _row_losses(loss, targets[split.test], predict(rows[split.test]))
        losses[split.test] = own
        train.append(_row_losses(loss, targets[split.train], predict(rows[split.train])).mean())
        test.append(own.mean())
    return CrossValidation(losses, np.array(train), np.array(test))


def leave_one_out(fit: Learner, X: ArrayLike, y: ArrayLike, loss: Loss | None = None) -> CrossValidation:
    r"""$L(y_i, f_{-i}(x_i))$ of each row, for any learner; `total` is their sum.

    >>> mean = lambda X, y: lambda new: np.full(len(new), y.mean())
    >>> leave_one_out(mean, np.zeros((3, 1)), np.array([0.0, 3.0, 6.0])).losses.tolist()
    [20.25, 0.0, 20.25]
    """
    count = len(np.asarray(y))
    check(count >= 2, "y", "at least two rows", count)
    every = np.arange(count)
    return cross_validate(
        fit, X, y, [Split(np.delete(every, i), every[i : i + 1]) for i in range(count)], loss
    )


def learning_curve(
    fit: Learner, X: ArrayLike, y: ArrayLike, sizes: Sequence[int] | np.ndarray, folds: Sequence[Split],
    *, key: Key, loss: Loss | None = None,
) -> Curve:  # fmt: skip
    """Losses as a learner sees more rows: each fold's training rows, a growing part of one shuffle."""
    rows, targets = _table(X, y)
    loss = _loss_for(targets) if loss is None else loss
    most = min(len(split.train) for split in folds)
    train, test = np.empty((2, len(sizes), len(folds)))
    for j, (split, own) in enumerate(zip(folds, jr.split(key, len(folds)))):
        order = split.train[_shuffled(own, len(split.train))]
        for i, size in enumerate(sizes):
            part = order[: check_count("sizes", size, 1, most)]
            predict = fit(rows[part], targets[part])
            train[i, j] = _row_losses(loss, targets[part], predict(rows[part])).mean()
            test[i, j] = _row_losses(loss, targets[split.test], predict(rows[split.test])).mean()
    return Curve(np.asarray(sizes), train, test, "rows")


def validation_curve(
    learner: Callable[[Any], Learner], values: Sequence[Any] | np.ndarray, X: ArrayLike, y: ArrayLike,
    folds: Sequence[Split], *, loss: Loss | None = None, name: str = "value",
) -> Curve:  # fmt: skip
    """Losses along a hyper-parameter; `learner(value)` is the learner with it. One `Split` in `folds` is a
    development set."""
    results = [cross_validate(learner(value), X, y, folds, loss) for value in values]
    train, test = (np.stack([getattr(r, part) for r in results]) for part in ("train_losses", "test_losses"))
    return Curve(np.asarray(values), train, test, name)


def grid_search(
    learner: Callable[..., Learner], grid: dict[str, Any], X: ArrayLike, y: ArrayLike,
    folds: Sequence[Split], *, loss: Loss | None = None,
) -> GridSearch:  # fmt: skip
    """Every combination of the values in `grid`, as `learner(**setting)`, on the same folds."""
    check(len(grid) > 0 and all(len(v) > 0 for v in grid.values()), "grid", "values for each name", grid)
    axes = np.meshgrid(*[np.arange(len(v)) for v in grid.values()], indexing="ij")
    places = np.stack([axis.ravel() for axis in axes], 1)
    settings = tuple(
        {name: values[i] for (name, values), i in zip(grid.items(), place)} for place in places.tolist()
    )
    return GridSearch(settings, tuple(cross_validate(learner(**s), X, y, folds, loss) for s in settings))


def _shuffled(key: Key, count: int) -> np.ndarray:
    return np.asarray(jr.permutation(key, count))


def _labels(labels: ArrayLike, num_rows: int, name: str = "labels") -> np.ndarray:
    values = np.asarray(labels)
    check(values.shape == (num_rows,), name, f"one per row ({num_rows},)", f"shape {values.shape}")
    return np.unique(values, return_inverse=True)[1].reshape(-1)


def _places_within(codes: np.ndarray) -> np.ndarray:
    """Of each row, how far along its own class it is, from 0 to 1."""
    place = np.empty(len(codes))
    for code in range(int(codes.max()) + 1):
        own = np.flatnonzero(codes == code)
        place[own] = (np.arange(len(own)) + 0.5) / len(own)
    return place


def _fold_of_groups(groups: np.ndarray, order: np.ndarray, num_folds: int) -> np.ndarray:
    sizes = np.bincount(groups)
    num_folds = check_count("num_folds", num_folds, 2, len(sizes))
    mixed = groups[order][np.sort(np.unique(groups[order], return_index=True)[1])]  # groups at random
    load, fold_of = np.zeros(num_folds), np.empty(len(sizes), int)
    for group in mixed[np.argsort(-sizes[mixed], kind="stable")]:
        fold_of[group] = load.argmin()
        load[fold_of[group]] += sizes[group]
    return fold_of[groups]


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
