"""Classification tables for `benchmarks.classes`: those of scikit-learn, its generators, tables without any
signal, rare classes, many classes, wrong labels."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from benchmarks._fit_tables import checkers

__all__ = ["Classification", "classifications"]

_ROWS, _NEW = 500, 5000


class Classification(NamedTuple):
    """Rows and labels; of generated tables also rows that are new: the others are cut into folds."""

    name: str
    kind: str
    X: np.ndarray
    y: np.ndarray
    new: tuple[np.ndarray, np.ndarray] | None = None


def _real() -> Iterator[Classification]:
    import sklearn.datasets as data

    for name in ("iris", "wine", "breast_cancer", "digits"):
        X, y = getattr(data, f"load_{name}")(return_X_y=True)
        yield Classification(name.replace("_", " "), "real", X, y)
    X, y = data.load_breast_cancer(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))
    yield Classification("breast cancer, 100 rows", "real", *_cut(X, y, rows, 100))
    X, y = data.load_digits(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))
    yield Classification("digits, 300 rows", "real", *_cut(X, y, rows, 300))
    for column, places in (("bmi", (1 / 3, 2 / 3)), ("bp", (0.5,))):
        bunch: Any = data.load_diabetes(scaled=False)
        place = bunch.feature_names.index(column)
        values, rest = bunch.data[:, place], np.delete(bunch.data, place, 1)
        codes = np.digitize(values, np.quantile(values, places))
        yield Classification(f"diabetes: {column}", "real", rest, codes)


def _cut(X: np.ndarray, y: np.ndarray, rows: np.ndarray, count: int) -> tuple:
    return X[rows[:count]], y[rows[:count]], (X[rows[count:]], y[rows[count:]])


def _noise(n: int, seed: int, columns: int, shares: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Labels that no column says anything of."""
    rng = np.random.default_rng([seed, columns])
    return rng.normal(size=(n, columns)), rng.choice(len(shares), n, p=shares)


def _blobs(n: int, seed: int, classes: int, spread: float) -> tuple[np.ndarray, np.ndarray]:
    """Normal classes round centres that every seed has in common."""
    centres = np.random.default_rng(classes).normal(size=(classes, 5))
    rng = np.random.default_rng([seed, classes])
    y = rng.integers(classes, size=n)
    return centres[y] + spread * rng.normal(size=(n, 5)), y


def _logit(n: int, seed: int, level: float, slope: float, wrong: float) -> tuple[np.ndarray, np.ndarray]:
    """Two classes by a logistic law of three of eight columns; a share of the labels is wrong."""
    rng = np.random.default_rng([seed, 8])
    X = rng.normal(size=(n, 8))
    z = level + slope * (X[:, 0] + X[:, 1] ** 2 - 1 - 0.5 * X[:, 2])
    y = rng.random(n) < 1 / (1 + np.exp(-z))
    return X, (y ^ (rng.random(n) < wrong)).astype(int)


def _heavy(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns of heavy tails: a line through them is far too sure."""
    rng = np.random.default_rng([seed, 3])
    X = rng.standard_t(1.5, size=(n, 6))
    return X, (np.tanh(X[:, 0]) + 0.7 * rng.normal(size=n) > 0).astype(int)


def _made() -> Iterator[tuple[str, str, Callable[[int, int], tuple[np.ndarray, np.ndarray]], int]]:
    """Name, kind, generator of (rows, seed) and rows to learn from."""
    import sklearn.datasets as data

    for columns, shares, rows in (
        (5, (0.5, 0.5), 200), (30, (0.5, 0.5), 100), (10, (0.5, 0.5), 500), (10, (0.95, 0.05), 500),
        (10, (0.99, 0.01), 1000), (8, (0.4, 0.3, 0.2, 0.1), 400), (10, (0.1,) * 10, 500),
        (100, (0.7, 0.3), 300),
    ):  # fmt: skip
        name = f"noise, {rows} x {columns}, shares {', '.join(f'{s:g}' for s in sorted(set(shares)))}"
        yield name, "no signal", lambda n, s, c=columns, p=shares: _noise(n, s, c, p), rows
    yield "moons", "shapes", lambda n, s: data.make_moons(n, noise=0.3, random_state=s), _ROWS
    yield (
        "circles", "shapes",
        lambda n, s: data.make_circles(n, noise=0.2, factor=0.6, random_state=s), _ROWS,
    )  # fmt: skip
    yield "quantiles", "shapes", lambda n, s: _quantiles(data, n, s), _ROWS
    yield "checkers", "shapes", lambda n, s: _checkers(n, s), _ROWS
    yield "Hastie", "shapes", lambda n, s: _hastie(data, n, s), _ROWS
    yield "heavy columns", "shapes", _heavy, _ROWS
    for classes, spread in ((3, 0.5), (3, 1.5), (10, 0.8), (30, 0.8)):
        rows = max(_ROWS, 40 * classes)
        yield (
            f"{classes} blobs {spread:g} wide",
            "many",
            lambda n, s, k=classes, w=spread: _blobs(n, s, k, w),
            rows,
        )
    for name, level, slope, wrong in (
        ("faint", 0.0, 0.2, 0.0), ("plain", 0.0, 1.0, 0.0), ("sure", 0.0, 6.0, 0.0),
        ("a third wrong", 0.0, 3.0, 0.33), ("one in fifty", -5.0, 1.0, 0.0), ("one in ten", -3.0, 1.0, 0.0),
    ):  # fmt: skip
        yield (
            f"logistic, {name}",
            "logistic",
            lambda n, s, a=level, b=slope, w=wrong: _logit(n, s, a, b, w),
            _ROWS,
        )


def _quantiles(data: Any, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    return data.make_gaussian_quantiles(n_samples=n, n_features=4, n_classes=3, random_state=seed)


def _hastie(data: Any, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    X, y = data.make_hastie_10_2(n, random_state=seed)
    return X, (y > 0).astype(int)


def _checkers(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    parts = [checkers(np.random.default_rng([seed, k])) for k in range(-(-n // 1200))]
    return np.concatenate([X for X, _ in parts])[:n], np.concatenate([y for _, y in parts])[:n]


def classifications(seed: int = 0) -> list[Classification]:
    """All of them."""
    found = list(_real())
    for name, kind, make, rows in _made():
        X, y = make(rows + _NEW, seed)
        found.append(Classification(name, kind, X[:rows], y[:rows], (X[rows:], y[rows:])))
    return found
