"""The six posteriors of `python -m benchmarks mcmc`: their data, in NumPy alone, and their parameters.

Every library states the same densities, each in its own words; this file holds what they share, so that a
process that measures one library loads no other.
"""

from typing import Any, NamedTuple

import numpy as np

SCHOOL_EFFECTS = (28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0)
SCHOOL_ERRORS = (15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0)


class Problem(NamedTuple):
    """The data, the shape of each parameter, and which parameters are positive."""

    name: str
    data: dict[str, Any]
    shapes: dict[str, tuple[int, ...]]
    positive: tuple[str, ...] = ()


def eight_schools() -> Problem:
    """Eight effects around a common mean, non-centred: 10 parameters."""
    data = {"effect": np.array(SCHOOL_EFFECTS), "error": np.array(SCHOOL_ERRORS)}
    return Problem("eight_schools", data, {"mu": (), "tau": (), "z": (8,)}, ("tau",))


def logistic() -> Problem:
    """Logistic regression, 1000 rows and 25 correlated columns."""
    generator = np.random.default_rng(1)
    mixing = np.eye(25) + 0.5 * generator.normal(size=(25, 25)) / 5
    features = generator.normal(size=(1000, 25)) @ mixing
    signal = features @ generator.normal(size=25) / 5
    labels = (signal + generator.logistic(size=1000) > 0).astype(float)
    return Problem("logistic", {"features": features, "labels": labels}, {"w": (25,)})


def radon() -> Problem:
    """919 rows in 85 groups of unequal size: non-centred intercepts and a slope; 89 parameters."""
    generator = np.random.default_rng(2)
    shares = generator.dirichlet(np.full(85, 0.7))
    group = np.concatenate([np.arange(85), generator.choice(85, 919 - 85, p=shares)])
    floor = (generator.uniform(size=919) < 0.17).astype(float)
    intercepts = 1.5 + 0.3 * generator.normal(size=85)
    level = intercepts[group] - 0.7 * floor + 0.75 * generator.normal(size=919)
    data = {"group": group, "floor": floor, "level": level}
    shapes = {"mu": (), "tau": (), "slope": (), "sigma": (), "z": (85,)}
    return Problem("radon", data, shapes, ("tau", "sigma"))


def gaussian() -> Problem:
    """A Gaussian in 50 dimensions with condition number 1000, rotated."""
    rotation = np.linalg.qr(np.random.default_rng(3).normal(size=(50, 50)))[0]
    variances = np.logspace(-1.5, 1.5, 50)
    return Problem("gaussian", {"precision": (rotation / variances) @ rotation.T}, {"x": (50,)})


def funnel() -> Problem:
    """Neal's funnel: a log-variance and nine coordinates with that variance."""
    return Problem("funnel", {}, {"v": (), "x": (9,)})


def horseshoe() -> Problem:
    """Sparse regression, 100 rows and 200 columns, with a regularised horseshoe: 404 parameters."""
    generator = np.random.default_rng(4)
    features = generator.normal(size=(100, 200))
    weights = np.zeros(200)
    weights[:5] = [3.0, -2.5, 2.0, -2.0, 1.5]
    response = 1.0 + features @ weights + generator.normal(size=100)
    names = ("shrinkage", "sigma", "intercept", "slab")
    shapes = {"z": (200,), "local": (200,), **dict.fromkeys(names, ())}
    positive = ("local", "shrinkage", "sigma", "slab")
    return Problem("horseshoe", {"features": features, "response": response}, shapes, positive)


PROBLEMS = {make.__name__: make for make in (eight_schools, logistic, radon, gaussian, funnel, horseshoe)}


def free_start(problem: Problem, chains: int, seed: int) -> dict[str, np.ndarray]:
    """Free numbers uniform on (-2, 2), one start per chain: what Stan and NumPyro begin with."""
    generator = np.random.default_rng(seed)
    return {name: generator.uniform(-2, 2, (chains, *shape)) for name, shape in problem.shapes.items()}
