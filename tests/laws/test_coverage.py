"""The laws of predictions: intervals hold with few rows, classes are as frequent as promised, and units do
not matter. `python -m benchmarks coverage` measures the same at all sizes, over more seeds.
"""

import numpy as np
import pytest
from sklearn.base import is_classifier, is_regressor

from benchmarks.coverage import COUNTED, COUNTS, LEVEL, NEW, POSITIVE, TRUTHS, measure, table
from tractable.estimators import all_estimators

FIRST = "TreeClassifier", "LinearRegressor"  # what runs by default
KINDS = sorted(all_estimators(), key=lambda pair: pair[0] not in FIRST)
REGRESSORS = [name for name, kind in KINDS if is_regressor(kind())]
CLASSIFIERS = [name for name, kind in KINDS if is_classifier(kind())]
ESTIMATORS = {name: kind for name, kind in KINDS if name in REGRESSORS + CLASSIFIERS}
# fewer rows than columns: these say so instead of guessing
REFUSING = {
    "LinearRegressor",
    "RecursiveRegressor",
    "RelevanceRegressor",
    "RobustRegressor",
}
OF_COUNTS = {f"{name}Classifier" for name in COUNTS}
SLACK = 0.04  # what approximations may cost
SIZES = {(10, 3): 3, (60, 3): 3, (400, 3): 2}  # with the number of seeds
GENERALISED = {"BetaRegressor", "GammaRegressor", "HeteroscedasticRegressor", "NegativeBinomialRegressor",
               "QuantileRegressor", "SurvivalRegressor"}  # fmt: skip
FED = {"NeuralClassifier", "NeuralRegressor"}  # what held-out rows stop promises nothing from a few
SMALLER = {
    "AdaBoostClassifier": {"n_estimators": 10}, "BaggingRegressor": {"n_estimators": 5},
    "ForestRegressor": {"n_estimators": 20}, "RotationForestClassifier": {"n_estimators": 5},
}  # fmt: skip
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def seeded(name: str):
    made = ESTIMATORS[name](**SMALLER.get(name, {}))
    return made.set_params(random_state=0) if "random_state" in made.get_params() else made


def sizes(name: str) -> dict:
    """Sizes of tables with their numbers of seeds; fewer where a fit takes seconds, or is one of many."""
    if name in FED:
        return {(60, 3): 3, (400, 3): 2}
    if name in GENERALISED:
        return {(10, 3): 2, (60, 3): 1, (400, 3): 1}
    return {(10, 3): 2, (60, 3): 2, (400, 3): 1} if "ProcessRegressor" in name else SIZES


def allowance(found, share: float, seeds: int) -> float:
    """Three standard errors: the share differs from fit to fit, and no less than binomially."""
    return SLACK + 3 * max(found.error, np.sqrt(share * (1 - share) / (seeds * NEW)))


@pytest.mark.plain
@pytest.mark.parametrize("name", REGRESSORS)
def test_intervals_hold(name):
    cells = [(truth, size, seeds) for size, seeds in sizes(name).items() for truth in TRUTHS]
    wide = [] if name in FED else [("noise", (8, 12), 5)]
    for truth, size, seeds in (*cells, *wide):
        found = measure(name, seeded(name), truth, size, range(seeds))
        if size == (8, 12) and name in REFUSING:
            assert found.refused >= 3  # of five
            continue
        assert found.refused == 0 or size == (8, 12)
        assert found.gap <= allowance(found, LEVEL, seeds), (truth, size, found)


@pytest.mark.plain
@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.thorough
def test_classes_are_as_frequent_as_promised(name):
    """Nothing promises more than the base rate does beyond what it holds, or loses against it; with 400 rows
    nothing promises less than it holds either."""
    for size, seeds in sizes(name).items():
        for truth in ("noise", "linear", "separable", *(["uneven"] if size == (60, 3) else [])):
            found = measure(name, seeded(name), truth, size, range(seeds))
            assert found.refused == 0
            extra = allowance(found, 0.5, seeds)
            assert found.gap <= max(found.base, 0.0) + extra, (truth, size, found)
            assert found.score >= -SLACK - 3 * found.score_error, (truth, size, found)
            assert size != (400, 3) or found.gap >= -extra, (truth, size, found)


@pytest.mark.plain
@pytest.mark.parametrize("name", ESTIMATORS)
def test_units_do_not_matter(name):
    if name in OF_COUNTS:
        return  # counts have no units
    X, y, new, _ = table(name, "linear", (60, 3), 0, name in CLASSIFIERS)
    size, shift, height, level = np.array([1e-3, 1.0, 30.0]), np.array([0.1, 2000.0, -50.0]), 200.0, 50.0
    if name in (*POSITIVE, *COUNTED, "BetaRegressor"):  # shares and counts have no units, lengths no zero
        height, level = (height if name in POSITIVE else 1.0), 0.0
    first, second = seeded(name).fit(X, y), seeded(name)
    if name in CLASSIFIERS:
        second.fit(X * size + shift, y)
        found, wanted = second.predict_proba(new * size + shift), first.predict_proba(new)
    else:
        second.fit(X * size + shift, height * y + level)
        found = (np.stack(second.predict_interval(new * size + shift)) - level) / height
        wanted = np.stack(first.predict_interval(new))
    np.testing.assert_allclose(found, wanted, atol=1e-4)
