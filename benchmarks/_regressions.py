"""Regression tables for `benchmarks.intervals`: columns of scikit-learn's tables predicted from the others,
its generators, the package's, and targets whose noise is uneven, skewed, heavy, counted or bounded."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from benchmarks import _fit_tables as generated

__all__ = ["Regression", "regressions"]

_ROWS, _NEW = 500, 2000


class Regression(NamedTuple):
    """Rows and targets; of generated tables also rows that are new: the others are cut into folds."""

    name: str
    kind: str
    X: np.ndarray
    y: np.ndarray
    new: tuple[np.ndarray, np.ndarray] | None = None


_COLUMNS = {
    "diabetes": ("bmi", "bp", "s4", "s5"), "iris": (1, 2), "wine": (0, 4, 9, 12),
    "breast_cancer": (1, 4, 9), "linnerud": (0,),
}  # fmt: skip


def _real() -> Iterator[Regression]:
    """Tables that come with scikit-learn, and some of their columns as targets."""
    import sklearn.datasets as data

    whole: Any = data.load_diabetes(scaled=False)
    yield Regression("diabetes", "real", whole.data, whole.target)
    for name, columns in _COLUMNS.items():
        given = {"scaled": False} if name == "diabetes" else {}
        bunch: Any = getattr(data, f"load_{name}")(**given)
        names = list(bunch.feature_names)
        for column in columns:
            place = names.index(column) if isinstance(column, str) else column
            rest = np.delete(bunch.data, place, 1)
            yield Regression(f"{name}: {names[place]}", "real", rest, bunch.data[:, place])


def _made() -> Iterator[tuple[str, str, Callable[[int, int], tuple[np.ndarray, np.ndarray]]]]:
    """Name, kind and generator of (rows, seed)."""
    import sklearn.datasets as data

    import tractable as tr

    def friedman(number: int, noise: float) -> Any:
        made = getattr(data, f"make_friedman{number}")
        return lambda n, seed: made(n_samples=n, noise=noise, random_state=seed)

    def package(name: str, noise: float) -> Any:
        def rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
            table = getattr(tr.datasets, name)(n, noise, seed)
            return table.features, table.target

        return rows

    for number, noise in ((1, 1.0), (2, 100.0), (3, 0.1)):
        yield f"friedman {number}", "plain", friedman(number, noise)
    yield "plane", "plain", lambda n, s: _plane(n, s, "normal")
    yield "sparse", "plain", lambda n, s: data.make_sparse_uncorrelated(n, n_features=10, random_state=s)
    yield "line", "plain", package("noisy_line", 0.3)
    yield "sinusoid", "plain", package("noisy_sinusoid", 0.3)
    yield "noise alone", "plain", lambda n, s: _plane(n, s, "alone")
    yield "housing", "uneven", lambda n, s: generated.housing(n, s)
    for name, kind in _KINDS.items():
        yield name, kind, lambda n, s, name=name: _plane(n, s, name)


_KINDS = {
    "noise grows": "uneven", "noise by a column": "uneven", "gamma": "skewed", "log-normal": "skewed",
    "shifted exponential": "skewed", "Student 2.5": "heavy", "Student 1.5": "heavy", "outliers": "heavy",
    "Poisson": "count", "negative binomial": "count", "many zeros": "count", "beta": "bounded",
    "clipped": "bounded", "percent": "bounded",
}  # fmt: skip


def _plane(n: int, seed: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Six normal columns; a smooth mean of the first three, and the noise of this name."""
    rng = np.random.default_rng([seed, len(name)])
    X = rng.normal(size=(n, 6))
    mean, noise = X[:, 0] + np.sin(1.5 * X[:, 1]) - 0.5 * X[:, 2], rng.normal(size=n)
    rate = np.exp(0.8 + 0.4 * mean)
    share = 1 / (1 + np.exp(-0.8 * mean))
    made: dict[str, Callable[[], np.ndarray]] = {
        "normal": lambda: mean + 0.5 * noise,
        "alone": lambda: noise,
        "noise grows": lambda: 5 + mean + 0.15 * np.exp(0.5 * mean) * noise,
        "noise by a column": lambda: mean + np.exp(0.7 * X[:, 3]) * noise,
        "gamma": lambda: rng.gamma(2.0, rate / 2),
        "log-normal": lambda: np.exp(0.5 * mean + 0.6 * noise),
        "shifted exponential": lambda: mean + rng.exponential(size=n),
        "Student 2.5": lambda: mean + rng.standard_t(2.5, size=n),
        "Student 1.5": lambda: mean + 0.5 * rng.standard_t(1.5, size=n),
        "outliers": lambda: mean + np.where(rng.random(n) < 0.05, 10.0, 0.5) * noise,
        "Poisson": lambda: rng.poisson(rate).astype(float),
        "negative binomial": lambda: rng.poisson(rng.gamma(1.5, rate / 1.5)).astype(float),
        "many zeros": lambda: np.where(rng.random(n) < 0.4, 0, rng.poisson(3 * rate)).astype(float),
        "beta": lambda: rng.beta(6 * share, 6 * (1 - share)).clip(1e-6, 1 - 1e-6),
        "clipped": lambda: (mean + noise).clip(-1.5, 1.5),
        "percent": lambda: np.round(100 * rng.beta(6 * share, 6 * (1 - share))),
    }
    return X, made[name]()


def regressions(seed: int = 0) -> list[Regression]:
    """All of them."""
    found = list(_real())
    for name, kind, make in _made():
        X, y = make(_ROWS + _NEW, seed)
        found.append(Regression(name, kind, X[:_ROWS], y[:_ROWS], (X[_ROWS:], y[_ROWS:])))
    return found
