r"""Whole fits as tasks: restarts and folds that know nothing of each other, one on each worker at a time.

Rule.        A task is a function of its item (a start, a fold) and of what all share (the rows), which is
             sent once to each worker. Answers come back in the order of the items, so that the choice among
             them is that of the sequential call, bit for bit. A task whose worker is lost is made again.
Cost.        The slowest worker's share of the tasks; each worker holds the rows once.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tractable.core.checks import check
from tractable.core.types import ArrayLike
from tractable.inference.expectation_maximisation.em import EM, best_run
from tractable.scale.fit import DistributedRun, fit, labelled
from tractable.scale.partitions import is_collection
from tractable.scale.places import Place, place_of
from tractable.supervised.selection.validation import CrossValidation
from tractable.supervised.selection.validation import cross_validate as validate

__all__ = ["best_of", "cross_validate", "map_tasks"]


def map_tasks(
    function: Callable[[Any, Any], Any], items: Sequence[Any], shared: Any = None, *, client: Any = None
) -> list:
    """`function(item, shared)` of each item, in order, on the workers or in the threads of this process.

    >>> map_tasks(lambda power, base: base**power, [1, 2, 3], 2)
    [2, 4, 8]
    """
    place = client if isinstance(client, Place) else place_of(client)
    try:
        return place.map(function, items, shared)
    finally:
        if place is not client:
            place.close()


def best_of(
    starts: Sequence[Any], data: Any, algorithm: Any = None, *, client: Any = None, **options: Any
) -> DistributedRun:
    """`inference.best_of` with a start on each worker: the run whose last objective is highest.

    Rows in memory go through the scheduler to every worker, once. Rows in a Dask collection stay where they
    are, and the starts are fitted one after another, each by all workers.
    """
    check(len(starts) > 0, "starts", "at least one model", "none")
    if is_collection(data):
        return best_run([fit(start, data, algorithm, client=client, **options) for start in starts])
    place = place_of(client)
    try:
        runs = place.map(_fit, list(starts), _Problem(algorithm or EM(), data, options))
        return labelled(best_run(runs), place.words, 1, place.lost)
    finally:
        place.close()


def cross_validate(
    fit: Callable, X: ArrayLike, y: ArrayLike, folds: Any, loss: Callable | None = None, *, client: Any = None
) -> CrossValidation:
    """`supervised.cross_validate` with a fold on each worker; `fit(X, y)` gives a function that predicts."""
    return validate(fit, X, y, folds, loss, tasks=functools.partial(map_tasks, client=client))


class _Problem(NamedTuple):
    algorithm: Any
    data: Any
    options: dict[str, Any]


def _fit(start: Any, shared: _Problem) -> Any:
    return shared.algorithm.fit(start, shared.data, **shared.options)
