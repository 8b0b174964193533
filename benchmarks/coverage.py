"""`python -m benchmarks coverage [--seeds N] [--rows N ...] [--only NAME ...]`: do 90 % intervals hold 90 %?

Every regressor is fitted to tables of each truth (noise alone, a line, a smooth curve) and size (10 rows, 60,
400, and fewer rows than columns), over seeds, and the share of new targets inside its intervals is counted.
Of every classifier the mean of the largest probability is held against the share of right answers. An
exclamation mark is a promise that is broken by more than 3 % and three standard errors.
"""

import argparse
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier, is_regressor

from tractable.estimators import all_estimators

LEVEL, NEW, SLACK, WIDTH = 0.9, 50, 0.03, 14
SIZES = ((10, 3), (60, 3), (400, 3), (8, 12))
TRUTHS = ("noise", "linear", "smooth")
COUNTS = "BernoulliNaiveBayes", "CategoricalNaiveBayes", "MultinomialNaiveBayes"


class Measured(NamedTuple):
    """The mean over seeds of what happened and of what was promised, and the standard error of the gap."""

    happened: float
    promised: float
    error: float
    refused: int  # seeds for which the estimator said that it cannot know

    @property
    def gap(self) -> float:
        """What was promised and did not happen."""
        return self.promised - self.happened


def signal(X: np.ndarray, truth: str) -> np.ndarray:
    """The mean of the target; it has standard deviation near one, but for noise alone."""
    if truth == "noise":
        return np.zeros(len(X))
    if truth == "linear":
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
    if labels:
        y = (generator.uniform(size=len(X)) < 1 / (1 + np.exp(-2 * mean + (truth == "smooth")))).astype(int)
        y[:2] = 0, 1  # both classes are there
    else:
        y = mean + 0.5 * generator.normal(size=len(X))
    return X[:count], y[:count], X[count:], y[count:]


def measure(name: str, made: Any, truth: str, size: tuple[int, int], seeds: Sequence[int]) -> Measured:
    """Coverage of intervals, or accuracy against confidence; NaN where every seed is refused."""
    labels = not is_regressor(made)
    made = made.set_params(random_state=0) if "random_state" in made.get_params() else made
    found = [_once(made, *table(name, truth, size, seed, labels)) for seed in seeds]
    pairs = np.array([pair for pair in found if pair is not None]).reshape(-1, 2)
    if not len(pairs):
        return Measured(np.nan, np.nan, np.nan, len(found))
    happened, promised = pairs.T
    error = np.std(promised - happened) / np.sqrt(max(len(pairs) - 1, 1))
    return Measured(float(happened.mean()), float(promised.mean()), float(error), len(found) - len(pairs))


def _once(made: Any, X: Any, y: Any, new: Any, target: Any) -> tuple[float, float] | None:
    try:
        made.fit(X, y)
        if not is_regressor(made):
            probs = made.predict_proba(new)
            right = made.classes_[probs.argmax(1)] == target
            return float(right.mean()), float(probs.max(1).mean())
        low, high = made.predict_interval(new, LEVEL)
        return float(np.mean((low <= target) & (target <= high))), LEVEL
    except ValueError as error:
        if " must be " not in str(error):  # the library's own words; anything else is a fault
            raise
        return None


def main(options: Sequence[str]) -> None:
    """Print a line for each estimator: first regressors, then classifiers."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks coverage", description="Intervals that hold.")
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--only", nargs="+", default=[], help="parts of the names of estimators")
    parser.add_argument("--rows", nargs="+", type=int, default=[], help="numbers of rows; all by default")
    chosen = parser.parse_args(options)
    sizes = [size for size in SIZES if not chosen.rows or size[0] in chosen.rows]
    columns = [(truth, size) for truth in TRUTHS for size in sizes]
    titles = "".join(f"{truth} {size[0]}x{size[1]}".rjust(WIDTH) for truth, size in columns)
    for regressors, title in ((True, "inside 90 % intervals"), (False, "right / largest probability")):
        print(title.ljust(36) + titles)
        for name, kind in all_estimators():
            wanted = not chosen.only or any(part in name for part in chosen.only)
            wanted = wanted and (is_regressor(kind()) if regressors else is_classifier(kind()))
            if wanted:
                cells = (_cell(name, kind, *column, chosen.seeds) for column in columns)
                print(name.ljust(36) + "".join(cell.rjust(WIDTH) for cell in cells), flush=True)


def _cell(name: str, kind: Any, truth: str, size: tuple[int, int], seeds: int) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = measure(name, kind(), truth, size, range(seeds))
    if 2 * found.refused >= seeds:
        return "refused"
    text = f"{found.happened:.2f}" + ("" if is_regressor(kind()) else f"/{found.promised:.2f}")
    return text + ("!" if found.gap > SLACK + 3 * found.error else " ")
