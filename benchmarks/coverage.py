"""`python -m benchmarks coverage [--seeds N] [--rows N ...] [--only NAME ...]`: do promises hold?

Every regressor is fitted to tables of each truth (noise alone, a line, a smooth curve) and size (10 rows, 60,
400, and fewer rows than columns), over seeds, and the share of new targets inside its 90 % intervals is
counted. Of every classifier (uneven noise and classes that can be separated besides) the mean of the largest
probability is held against the share of right answers, and its log-score against that of the base rate (by
Laplace's rule of succession), which promises too much as well where rows are few. An exclamation mark is a
promise that is broken by more than 3 % and three standard errors, beyond what the base rate breaks; a
question mark one that is as much too small.
"""

import argparse
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier, is_regressor

from tractable.estimators import all_estimators

LEVEL, NEW, SLACK, WIDTH = 0.9, 200, 0.03, 18
SIZES = ((10, 3), (60, 3), (400, 3), (8, 12))
TRUTHS = ("noise", "linear", "smooth")
CLASSES = ("noise", "uneven", "linear", "smooth", "separable")
COUNTS = "BernoulliNaiveBayes", "CategoricalNaiveBayes", "MultinomialNaiveBayes"


COUNTED = ("NegativeBinomialRegressor", "PoissonRegressor")
POSITIVE = ("GammaRegressor", "SurvivalRegressor")


def of_kind(name: str, signal: np.ndarray) -> np.ndarray:
    """A target as the estimator asks for it: any number, a positive one, a share, or a count."""
    if name in COUNTED:  # quantiles of a Poisson law with mean exp(signal) are too coarse: a larger mean
        return np.floor(np.exp(1.5 + 0.5 * signal))
    if name in POSITIVE:
        return np.exp(signal)
    return 1 / (1 + np.exp(-signal)) if name == "BetaRegressor" else signal


class Measured(NamedTuple):
    """The mean over seeds of what happened and of what was promised, and the standard error of the gap."""

    happened: float
    promised: float
    error: float
    refused: int  # seeds for which the estimator said that it cannot know
    base: float = 0.0  # the gap of the base rate, for classes
    score: float = 0.0  # the log-score beyond that of the base rate, and its standard error
    score_error: float = 0.0

    @property
    def gap(self) -> float:
        """What was promised and did not happen."""
        return self.promised - self.happened


def signal(X: np.ndarray, truth: str) -> np.ndarray:
    """The mean of the target; it has standard deviation near one, but for noise alone."""
    if truth in ("noise", "uneven"):
        return np.zeros(len(X))
    if truth in ("linear", "separable"):
        return (X[:, 0] - X[:, 1]) / np.sqrt(2)
    return np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2


def table(name: str, truth: str, size: tuple[int, int], seed: int, labels: bool) -> tuple[Any, ...]:
    """Rows to learn from and new rows: `X, y, new, target`."""
    generator = np.random.default_rng([seed, *size])
    count, columns = size
    X = generator.normal(size=(count + NEW, columns))
    if name.startswith(COUNTS):
        X = (X > 0).astype(float)
    mean = signal(X, truth)
    if not labels:
        y = of_kind(name, mean + 0.5 * generator.normal(size=len(X)))
        return X[:count], y[:count], X[count:], y[count:]
    chance = 1 / (1 + np.exp(-2 * mean + (truth == "smooth") + np.log(3) * (truth == "uneven")))
    chance = (mean > 0).astype(float) if truth == "separable" else chance
    y = (generator.uniform(size=len(X)) < chance).astype(int)
    if truth == "separable" and not name.startswith(COUNTS):
        X[:, :2] += np.outer(np.where(y == 1, 0.5, -0.5), [1, -1])  # a street between the classes
    for code in {0, 1} - set(y[:count].tolist()):  # both classes are there
        own = count + int(np.argmax(y[count:] == code))
        X[[0, own]], y[[0, own]] = X[[own, 0]], y[[own, 0]]
    return X[:count], y[:count], X[count:], y[count:]


def measure(name: str, made: Any, truth: str, size: tuple[int, int], seeds: Sequence[int]) -> Measured:
    """Coverage of intervals, or accuracy against confidence; NaN where every seed is refused."""
    labels = not is_regressor(made)
    made = made.set_params(random_state=0) if "random_state" in made.get_params() else made
    found = [_once(made, *table(name, truth, size, seed, labels)) for seed in seeds]
    pairs = np.array([pair for pair in found if pair is not None]).reshape(-1, 4)
    if not len(pairs):
        return Measured(np.nan, np.nan, np.nan, len(found))
    happened, promised, base, score = pairs.T
    errors = [float(np.std(a) / np.sqrt(max(len(pairs) - 1, 1))) for a in (promised - happened, score)]
    means = [float(a.mean()) for a in (happened, promised, base, score)]
    return Measured(*means[:2], errors[0], len(found) - len(pairs), *means[2:], errors[1])


def _once(made: Any, X: Any, y: Any, new: Any, target: Any) -> tuple[float, ...] | None:
    try:
        made.fit(X, y)
        if not is_regressor(made):
            return _judged(made.predict_proba(new), y, target)
        low, high = made.predict_interval(new, LEVEL)
        return float(np.mean((low <= target) & (target <= high))), LEVEL, 0.0, 0.0
    except ValueError as error:
        if " must be " not in str(error):  # the library's own words; anything else is a fault
            raise
        return None


def _judged(probs: np.ndarray, y: np.ndarray, target: np.ndarray) -> tuple[float, ...]:
    """The share of right answers, the mean of the largest probability, what the base rate promises too much,
    and the log-score beyond that of the base rate."""
    base = (np.bincount(y, minlength=2) + 1) / (len(y) + 2)
    with np.errstate(divide="ignore"):
        score = np.mean(np.log(probs[np.arange(len(target)), target]) - np.log(base[target]))
    right, promised = np.mean(probs.argmax(1) == target), probs.max(1).mean()
    return float(right), float(promised), float(base.max() - np.mean(target == base.argmax())), float(score)


def main(options: Sequence[str]) -> None:
    """Print a line for each estimator: first regressors, then classifiers."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks coverage", description="Intervals that hold.")
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--only", nargs="+", default=[], help="parts of the names of estimators")
    parser.add_argument("--rows", nargs="+", type=int, default=[], help="numbers of rows; all by default")
    chosen = parser.parse_args(options)
    sizes = [size for size in SIZES if not chosen.rows or size[0] in chosen.rows]
    kinds = (is_regressor, "inside 90 % intervals", TRUTHS), (is_classifier, "right/promised, score", CLASSES)
    for belongs, title, truths in kinds:
        columns = [(truth, size) for truth in truths for size in sizes]
        titles = "".join(f"{truth} {size[0]}x{size[1]}".rjust(WIDTH) for truth, size in columns)
        print(title.ljust(36) + titles)
        for name, kind in all_estimators():
            wanted = not chosen.only or any(part in name for part in chosen.only)
            wanted = wanted and belongs(kind())
            if wanted:
                cells = (_cell(name, kind, *column, chosen.seeds) for column in columns)
                print(name.ljust(36) + "".join(cell.rjust(WIDTH) for cell in cells), flush=True)


def _cell(name: str, kind: Any, truth: str, size: tuple[int, int], seeds: int) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = measure(name, kind(), truth, size, range(seeds))
    if 2 * found.refused >= seeds:
        return "refused"
    text, bound = f"{found.happened:.2f}", SLACK + 3 * found.error
    if is_regressor(kind()):
        return text + ("!" if found.gap > bound else " ")
    mark = "!" if found.gap > max(found.base, 0.0) + bound else "?" if -found.gap > bound else " "
    return f"{text}/{found.promised:.2f}{mark}{found.score:+.2f}"
