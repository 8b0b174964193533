"""Tables for `benchmarks.fit`: those that come with scikit-learn, and generated ones with a known truth."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Task(NamedTuple):
    """Rows, targets, and whether the targets are classes."""

    name: str
    X: np.ndarray
    y: np.ndarray
    classes: bool = False


def housing(n: int = 2000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Prices by district, with noise that grows with the price and near the coast, cut at both ends."""
    rng = np.random.default_rng(seed)
    income, age = np.exp(rng.normal(1.25, 0.45, n)), rng.integers(1, 53, n).astype(float)
    rooms = np.exp(rng.normal(1.65, 0.25, n))
    bedrooms, people = rooms * rng.uniform(0.17, 0.24, n), np.exp(rng.normal(7, 0.7, n))
    per_house, town = np.exp(rng.normal(1.03, 0.2, n)), rng.integers(0, 3, n)
    centres = np.array([[34, -118.2], [37.7, -122.3], [36, -119.5]])
    north, east = (centres[town] + rng.normal(0, 0.6, (n, 2))).T
    away = np.minimum(np.hypot(north - 34, east + 118.4), np.hypot(north - 37.7, east + 122.4))
    coast = np.exp(-away)
    mean = (
        0.38 * income + 0.9 * coast + 0.35 * np.tanh((income - 4) / 2) + 0.006 * age
        - 0.25 * (per_house - 2.8) + 0.05 * rooms
    )  # fmt: skip
    noise = rng.normal(0, 0.12 + 0.10 * coast + 0.05 * (age < 10), n)
    columns = [income, age, rooms, bedrooms, people, per_house, north, east]
    return np.column_stack(columns), np.clip(mean * np.exp(noise), 0.15, 5.0)


def _smooth(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    X = rng.uniform(size=(n, 8))
    wave = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    return X, wave + 10 * X[:, 3] + 5 * X[:, 4]


def friedman(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Friedman's first function with normal noise."""
    X, mean = _smooth(rng, 1000)
    return X, mean + rng.normal(size=1000)


def heavy(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The same with noise of heavy tails."""
    X, mean = _smooth(rng, 1000)
    return X, mean + rng.standard_t(2.5, size=1000)


def skewed(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Positive numbers of a gamma law with a logarithmic link."""
    X = rng.normal(size=(800, 6))
    mean = np.exp(1 + 0.5 * X[:, 0] - 0.3 * X[:, 1])
    return X, rng.gamma(2.0, mean / 2.0)


def counts(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Overdispersed counts."""
    X = rng.normal(size=(1000, 6))
    mean = np.exp(0.5 + 0.6 * X[:, 0] + 0.4 * np.sin(2 * X[:, 1]))
    return X, rng.poisson(rng.gamma(2.0, mean / 2.0)).astype(float)


def shares(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Proportions of a beta law."""
    X = rng.normal(size=(800, 5))
    mean = 1 / (1 + np.exp(-(0.3 + 0.8 * X[:, 0] - 0.5 * X[:, 1])))
    return X, rng.beta(8 * mean, 8 * (1 - mean)).clip(1e-6, 1 - 1e-6)


def checkers(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two classes that no line parts, one label in ten wrong."""
    X = rng.uniform(-1, 1, size=(1200, 6))
    y = (X[:, 0] * X[:, 1] > 0) ^ (rng.random(1200) < 0.1)
    return X, y.astype(int)


GENERATED: dict[str, tuple[Callable, bool]] = {
    "friedman": (friedman, False), "heavy tails": (heavy, False), "skewed": (skewed, False),
    "counts": (counts, False), "shares": (shares, False), "checkers": (checkers, True),
}  # fmt: skip


def tasks(seed: int = 0) -> list[Task]:
    """All of them."""
    import sklearn.datasets as data

    found: list[Task] = []
    for place, (name, (function, classes)) in enumerate(GENERATED.items()):
        X, y = function(np.random.default_rng([seed, place]))
        found.append(Task(name, X, y, classes))
    for name in ("breast_cancer", "wine", "digits"):
        X, y = getattr(data, f"load_{name}")(return_X_y=True)
        found.append(Task(name.replace("_", " "), X, y, True))
    diabetes: Any = data.load_diabetes(return_X_y=True, scaled=False)
    X, y = housing(seed=seed)
    return [Task("diabetes", diabetes[0], diabetes[1]), Task("housing", X, y), *found]
