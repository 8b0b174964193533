r"""The models that race: one line each.

A candidate has a name, what makes it, the tasks that it can do, the form of the columns that it takes
(`tables.TableEncoder`), and its predicted work: `start` seconds once in a process (imports and programs) and
`work(n, d, k)` seconds for a fit to $n$ rows of $d$ encoded columns and $k$ classes, on one core of a usual
machine. Budgets are counted in these numbers, so that a race is the same on a slow day; they are checked
against the clock by `benchmarks/fit.py`, and nothing but the choice of candidates depends on them.

Rows.        Above `most_rows` a candidate is left out; above `enough_rows` it learns from so many, drawn by
             the seed, and from fewer where the budget does not hold more.
Order.       Those first that say most where time is short: a line, then trees.
Columns.     Above `most_columns` it learns from those of the largest association with the target in the rows
             that it is fitted to, and from fewer where the budget does not hold more.
Logarithm.   With `log` the model is one of $\log y$; its density is that of $y$.
"""

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

__all__ = ["CANDIDATES", "Candidate", "Size", "candidates_for"]


class Size(NamedTuple):
    """Rows, encoded columns and classes of a fit."""

    rows: int
    columns: int
    classes: int = 1


class Candidate(NamedTuple):
    """A model that may race."""

    name: str
    build: Callable[[int, Size], Any]
    tasks: tuple[str, ...]
    form: str
    work: Callable[[int, int, int], float]
    start: float = 0.0
    log: bool = False
    most_rows: int = 10_000_000
    enough_rows: int = 10_000_000
    most_columns: int = 100_000
    shrinks: bool = True  # whether it may learn from fewer rows or columns

    @property
    def needs(self) -> str | None:
        """The name of its estimator."""
        return getattr(self.build, "estimator", None)

    def seconds(self, size: Size) -> float:
        """Predicted for one fit, without the start."""
        rows = min(size.rows, self.enough_rows)
        return float(self.work(rows, min(size.columns, self.most_columns), size.classes))


NUMBERS = ("number", "positive", "proportion", "count")
_REAL = ("number", "proportion", "positive", "count")
_PLAIN = ("number", "positive", "proportion")
_SKEWED = ("positive",)
_MANY_CELLS = 100_000  # above, boosting takes larger steps
_LABELS = ("binary", "classes", "ordered")


def _estimator(name: str, **fixed: Any) -> Callable[[int, Size], Any]:
    """Makes the estimator of this name, with the seed where it takes one."""

    def build(seed: int, size: Size) -> Any:
        import tractable.estimators as estimators

        cls = getattr(estimators, name)
        given = {key: value(size) if callable(value) else value for key, value in fixed.items()}
        seeded = {"random_state": seed} if "random_state" in cls._parameter_constraints else {}
        return cls(**given, **seeded)

    build.estimator = name  # pyright: ignore
    return build


def _algebra(n: int, d: int) -> float:
    """Normal equations and their solution."""
    return 2e-9 * n * d**2 + 3e-8 * n * d + 2e-8 * d**3


def _linear(n: int, d: int, k: int) -> float:
    return 0.03 + _algebra(n, d)


def _logistic(n: int, d: int, k: int) -> float:
    passes = 1 if k <= 2 else 5
    return 0.15 + (4e-9 * n * d**2 + 4e-8 * n * d * max(1, k - 1)) * passes + 5e-9 * (d * max(1, k - 1)) ** 3


def _margins(n: int, d: int, k: int) -> float:
    return (0.1 + 2e-8 * n**1.7 * d) * max(1, k - 1)


def _forest(n: int, d: int, k: int) -> float:
    tried = max(1.0, d / 3)
    return 0.2 + 100 * n * np.log2(n + 2) * tried * 4.5e-8 * (1 + 0.1 * k)


def _discriminant(n: int, d: int, k: int) -> float:
    return 0.1 + 5 * (1e-8 * n * d**2 + 3e-8 * k * d**3)


def _boosted(n: int, d: int, k: int) -> float:
    cells = n * d
    each = 0.3 + min(1.5e-4 * cells, 6 + 4e-6 * cells)
    return (each if cells <= _MANY_CELLS else 0.5 * each) * max(1, k - 1) ** 0.5


def _process(n: int, d: int, k: int) -> float:
    return 0.5 + 9e-3 * n + 3e-9 * n**3


def _generalised(n: int, d: int, k: int) -> float:
    return 0.1 + 20 * _algebra(n, d)


def _robust(n: int, d: int, k: int) -> float:
    return 0.05 + 12 * _algebra(n, d)


def _few_cells(most: int) -> Callable[[Size], str]:
    """All hyperparameters averaged where the table is small; the best where its rows determine it."""
    return lambda size: "full" if size.rows * max(size.columns, 1) <= most else "evidence"


def _linear_model(seed: int, size: Size) -> Any:
    return _estimator("BayesianLinearRegressor", method=_few_cells(2_000_000))(seed, size)


def _boosting(law: str) -> Callable[[int, Size], Any]:
    """Large steps where the table is large or the law costs more."""
    options = {name: _quicker(law, quick, slow) for name, quick, slow in _STEPS}
    return _estimator("DistributionBoostingRegressor", law=law, **options)


def _quicker(law: str, quick: Any, slow: Any) -> Callable[[Size], Any]:
    return lambda size: quick if law != "student" or size.rows * size.columns > _MANY_CELLS else slow


_STEPS = (("learning_rate", 0.1, 0.05), ("n_estimators", 300, 500), ("patience", 15, 30))
_forest_of_numbers = _estimator("ForestRegressor", min_samples_leaf=3)
_forest_of_classes = _estimator("ForestClassifier", min_samples_leaf=2)
_process_model = _estimator("GaussianProcessRegressor", method="evidence")

CANDIDATES: tuple[Candidate, ...] = (
    # numbers
    Candidate("Bayesian linear of the logarithm", _linear_model, _SKEWED, "linear", _linear, 1.0, log=True,
              most_columns=3000),
    Candidate("Bayesian linear", _linear_model, _REAL, "linear", _linear, 1.0, most_columns=3000),
    Candidate("boosted trees", _boosting("student"), _PLAIN, "trees", _boosted, 1.0, enough_rows=50_000),
    Candidate("robust linear", _estimator("RobustRegressor"), _PLAIN, "linear", _robust, 1.5,
              most_columns=1000, enough_rows=20_000),
    Candidate("heteroscedastic linear", _estimator("HeteroscedasticRegressor"), _PLAIN, "linear",
              lambda n, d, k: 0.5 + 100 * _algebra(n, d), 0.5, most_columns=300, enough_rows=5_000),
    Candidate("quantile regression", _estimator("QuantileRegressor"), ("number", "positive"), "linear",
              lambda n, d, k: 0.4 + 15 * _algebra(n, d) + 6e-5 * n, 0.3, most_columns=300,
              enough_rows=50_000),
    Candidate("gamma regression", _estimator("GammaRegressor"), _SKEWED, "linear", _generalised, 0.2,
              most_columns=1000, enough_rows=50_000),
    Candidate("beta regression", _estimator("BetaRegressor"), ("proportion",), "linear", _generalised, 0.2,
              most_columns=1000, enough_rows=50_000),
    Candidate("Poisson regression", _estimator("PoissonRegressor"), ("count",), "linear", _generalised, 0.2,
              most_columns=1000, enough_rows=50_000),
    Candidate("negative binomial regression", _estimator("NegativeBinomialRegressor"), ("count",), "linear",
              _generalised, 0.2, most_columns=1000, enough_rows=50_000),
    Candidate("forest", _forest_of_numbers, _REAL, "trees", _forest, 1.5, enough_rows=20_000),
    Candidate("boosted trees, log-normal", _boosting("lognormal"), _SKEWED, "trees", _boosted, 0.2,
              enough_rows=20_000),
    Candidate("boosted counts", _boosting("negative_binomial"), ("count",), "trees", _boosted, 1.0,
              enough_rows=20_000),
    Candidate("Gaussian process", _process_model, _REAL, "linear", _process, 9.0, most_rows=2500,
              most_columns=60, shrinks=False),
    Candidate("forest of the logarithm", _forest_of_numbers, _SKEWED, "trees", _forest, 0.2, log=True,
              enough_rows=20_000),
    # classes
    Candidate("logistic", _estimator("LogisticClassifier"), _LABELS, "linear", _logistic, 1.0,
              most_columns=3000, enough_rows=100_000),
    Candidate("boosted trees", _estimator("BoostingClassifier"), _LABELS, "trees", _boosted, 1.0,
              enough_rows=50_000),
    Candidate("support vectors", _estimator("SupportVectorClassifier"), _LABELS, "linear", _margins, 1.0,
              most_columns=1000, enough_rows=10_000),
    Candidate("ordered logistic", _estimator("OrdinalClassifier"), ("ordered",), "linear", _generalised, 0.2,
              most_columns=1000, enough_rows=50_000),
    Candidate("Bayesian logistic", _estimator("BayesianLogisticClassifier"), ("binary",), "linear",
              lambda n, d, k: 3 * _logistic(n, d, k), 1.0, most_columns=3000, enough_rows=20_000),
    Candidate("linear discriminant", _estimator("LinearDiscriminantClassifier"), _LABELS, "linear",
              _discriminant, 1.0, most_columns=1000, enough_rows=100_000),
    Candidate("quadratic discriminant", _estimator("QuadraticDiscriminantClassifier"), _LABELS, "linear",
              _discriminant, 0.5, most_columns=200, enough_rows=100_000),
    Candidate("naive Bayes", _estimator("GaussianNaiveBayesClassifier"), _LABELS, "linear",
              lambda n, d, k: 0.1 + 2e-7 * n * d, 1.0, enough_rows=100_000),
    Candidate("forest", _forest_of_classes, _LABELS, "trees", _forest, 1.5, enough_rows=20_000),
    # times of which some are censored
    Candidate("Weibull survival", _estimator("SurvivalRegressor", distribution="weibull"), ("censored",),
              "linear", _generalised, 0.3, most_columns=1000, enough_rows=50_000),
    Candidate("log-normal survival", _estimator("SurvivalRegressor", distribution="log_normal"),
              ("censored",), "linear", _generalised, 0.1, most_columns=1000, enough_rows=50_000),
)  # fmt: skip


def candidates_for(task: str, names: tuple[str, ...] | None = None) -> tuple[Candidate, ...]:
    """Those that can do a task, in their order; with `names` only these."""
    estimators: Any = importlib.import_module("tractable.estimators")  # it lists what it exports
    there = set(estimators.__all__) | {None}
    found = tuple(each for each in CANDIDATES if task in each.tasks and each.needs in there)
    return found if names is None else tuple(each for each in found if each.name in names)
