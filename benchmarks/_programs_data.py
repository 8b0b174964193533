"""Data of the programs that `benchmarks.programs` compares, made alike for every library, and what is judged.

`JUDGED` are the quantities whose effective sample size counts: what a reader of the posterior looks at first.
"""

from typing import Any

import numpy as np

Data = dict[str, Any]


def schools() -> Data:
    """Eight schools (Rubin 1981)."""
    y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    return {"sigma": np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0]), "y": y}


def groups() -> Data:
    """Readings in 85 groups."""
    random = np.random.default_rng(1)
    group, floor = random.integers(0, 85, 919), random.integers(0, 2, 919).astype(float)
    effect = 1.5 + 0.3 * random.normal(size=85)
    return {"group": group, "floor": floor, "y": effect[group] - 0.7 * floor + 0.7 * random.normal(size=919)}


def crossed() -> Data:
    """Marks of 60 pupils by 20 judges."""
    random = np.random.default_rng(2)
    pupil, judge = (part.ravel() for part in np.meshgrid(np.arange(60), np.arange(20), indexing="ij"))
    some = random.random(1200) < 0.5
    mean = 5 + random.normal(size=60)[pupil] + 0.5 * random.normal(size=20)[judge]
    marks = mean + 0.8 * random.normal(size=1200)
    return {"pupil": pupil[some], "judge": judge[some], "y": marks[some]}


def mixture() -> Data:
    """A thousand rows of two components."""
    random = np.random.default_rng(3)
    second = random.random(1000) < 0.4
    return {"y": np.where(second, 2.0, -1.5) + np.where(second, 1.3, 0.8) * random.normal(size=1000)}


def chain() -> Data:
    """A hidden Markov chain of three states, 500 steps."""
    random = np.random.default_rng(4)
    steps = np.array([[0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0.05, 0.15, 0.8]])
    state = [0]
    for _ in range(499):
        state.append(int(random.choice(3, p=steps[state[-1]])))
    return {"y": np.array([-2.0, 0.5, 3.0])[state] + 0.7 * random.normal(size=500)}


def series() -> Data:
    """A level that walks, seen with noise, 1,000 steps."""
    random = np.random.default_rng(5)
    return {"y": np.cumsum(0.3 * random.normal(size=1000)) + random.normal(size=1000)}


def process() -> Data:
    """A function seen at 200 places."""
    random = np.random.default_rng(6)
    x = np.sort(random.uniform(-3, 3, 200))
    return {"x": x, "y": np.sin(2 * x) + 0.3 * random.normal(size=200)}


def counts() -> Data:
    """Counts in 60 groups, with an effect each."""
    random = np.random.default_rng(7)
    group, x = np.repeat(np.arange(60), 5), random.normal(size=300)
    rate = np.exp(0.5 + 0.4 * x + (0.6 * random.normal(size=60))[group])
    return {"group": group, "x": x, "y": random.poisson(rate)}


def logistic() -> Data:
    """Two classes by eight columns."""
    random = np.random.default_rng(8)
    X = random.normal(size=(1000, 8))
    odds = X @ np.linspace(-1, 1, 8) + 0.3
    return {"X": X, "y": (random.random(1000) < 1 / (1 + np.exp(-odds))).astype(int)}


DATA = {
    "schools": schools,
    "groups": groups,
    "crossed": crossed,
    "mixture": mixture,
    "chain": chain,
    "series": series,
    "process": process,
    "counts": counts,
    "logistic": logistic,
}
JUDGED = {
    "schools": ("mu", "tau", "theta"),
    "groups": ("mean", "slope", "between", "within", "effect"),
    "crossed": ("mean", "pupils", "judges", "noise"),
    "mixture": ("share", "mu", "sigma"),
    "chain": ("mu", "sigma"),
    "series": ("walk", "noise"),
    "process": ("length", "amplitude", "noise"),
    "counts": ("mean", "slope", "between"),
    "logistic": ("intercept", "beta"),
}
