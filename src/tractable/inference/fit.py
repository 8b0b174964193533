"""`fit`: one verb for every model and every algorithm."""

from typing import Any

from tractable.core.checks import check
from tractable.inference.expectation_maximisation.em import EM

__all__ = ["fit"]


def fit(model: Any, data: Any, algorithm: Any = None, **options: Any) -> Any:
    """Fit `model` to `data`; the algorithm (by default `EM()`) decides how, and its result says how it ended.

    Options go to the algorithm: `weights`, `chunk`, `checkpoint`, `progress`, ... A weight of two is the row
    twice.
    """
    algorithm = EM() if algorithm is None else algorithm
    known = hasattr(algorithm, "fit")
    check(known, "algorithm", "an option object such as `EM()`", type(algorithm).__name__, error=TypeError)
    return algorithm.fit(model, data, **options)
