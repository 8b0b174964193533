"""The list of all estimators, for checks and for tools that choose among them."""

import importlib
import inspect

from sklearn.base import BaseEstimator

__all__ = ["all_estimators"]


def all_estimators() -> list[tuple[str, type[BaseEstimator]]]:
    """Every estimator of tables of numbers as (name, class), by name; each class can be made without
    arguments.

    >>> "RidgeRegressor" in dict(all_estimators())
    True
    """
    package = importlib.import_module("tractable.estimators")  # it lists what it exports
    found = [(name, getattr(package, name)) for name in package.__all__]
    classes = [(name, c) for name, c in found if inspect.isclass(c) and issubclass(c, BaseEstimator)]
    tabular = [(name, c) for name, c in classes if getattr(c, "_tabular", True)]
    return [(name, c) for name, c in tabular if not c.__module__.endswith(".base")]
