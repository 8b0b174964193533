"""What others do with a table: scikit-learn's histogram booster and LightGBM with split conformal intervals
(by hand, and by MAPIE), NGBoost, Bayesian ridge and logistic regression. Each takes (X, y, new X) and gives a
normal-like density, quantiles, or class probabilities."""

import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

GRID = tuple(round(0.025 + 0.05 * i, 3) for i in range(20))


class Said(NamedTuple):
    """Of numbers: centre and scale of a normal law, the ends of a 90 % interval, quantiles at `GRID`; of
    classes: probabilities."""

    centre: Any = None
    scale: Any = None
    ends: Any = None
    quantiles: Any = None
    probabilities: Any = None


def _conformal(mean: Any, quantile: Callable[[float], Any], rows: tuple, new: np.ndarray, seed: int) -> Said:
    """A fifth of the rows calibrates: residuals for the density, conformalised quantiles for the interval."""
    from sklearn.model_selection import train_test_split

    first, second, y1, y2 = train_test_split(*rows, test_size=0.2, random_state=seed)
    mean.fit(first, y1)
    errors = y2 - mean.predict(second)
    low, high = (quantile(q).fit(first, y1) for q in (0.05, 0.95))
    scores = np.sort(np.maximum(low.predict(second) - y2, y2 - high.predict(second)))
    k = min(int(np.ceil(0.9 * (len(scores) + 1))), len(scores)) - 1
    centre = mean.predict(new)
    ends = low.predict(new) - scores[k], high.predict(new) + scores[k]
    return Said(
        centre, np.full(len(new), errors.std()), ends, [centre + np.quantile(errors, q) for q in GRID]
    )


def histogram_numbers(X: np.ndarray, y: np.ndarray, new: np.ndarray, seed: int) -> Said:
    """scikit-learn's booster, split conformal."""
    from sklearn.ensemble import HistGradientBoostingRegressor as Booster

    def quantile(q: float) -> Any:
        return Booster(loss="quantile", quantile=q, random_state=seed)

    return _conformal(Booster(random_state=seed), quantile, (X, y), new, seed)


def light_numbers(X: np.ndarray, y: np.ndarray, new: np.ndarray, seed: int) -> Said:
    """LightGBM, split conformal."""
    from lightgbm import LGBMRegressor as Booster  # pyright: ignore

    def quantile(q: float) -> Any:
        return Booster(objective="quantile", alpha=q, random_state=seed, verbose=-1, n_jobs=1)

    return _conformal(Booster(random_state=seed, verbose=-1, n_jobs=1), quantile, (X, y), new, seed)


def mapie_numbers(X: np.ndarray, y: np.ndarray, new: np.ndarray, seed: int) -> Said:
    """LightGBM, with the intervals of MAPIE's conformalised quantiles."""
    from lightgbm import LGBMRegressor as Booster  # pyright: ignore
    from mapie.regression import ConformalizedQuantileRegressor  # pyright: ignore
    from sklearn.model_selection import train_test_split

    first, second, y1, y2 = train_test_split(X, y, test_size=0.2, random_state=seed)
    booster = Booster(objective="quantile", alpha=0.5, random_state=seed, verbose=-1, n_jobs=1)
    found = ConformalizedQuantileRegressor(booster, confidence_level=0.9).fit(first, y1)
    ends = found.conformalize(second, y2).predict_interval(new)[1][:, :, 0].T
    return light_numbers(X, y, new, seed)._replace(ends=tuple(ends))


def ridge_numbers(X: np.ndarray, y: np.ndarray, new: np.ndarray, seed: int) -> Said:
    """Bayesian ridge regression on standardised columns."""
    from sklearn.linear_model import BayesianRidge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    found = make_pipeline(StandardScaler(), BayesianRidge()).fit(X, y)
    return _normal(*found.predict(new, return_std=True))


def _normal(m: np.ndarray, s: np.ndarray) -> Said:
    return Said(m, s, (m + s * ndtri(0.05), m + s * ndtri(0.95)), [m + s * ndtri(q) for q in GRID])


def logistic_classes(X: np.ndarray, y: np.ndarray, new: np.ndarray, seed: int) -> Said:
    """Logistic regression on standardised columns."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    made = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    return Said(probabilities=made.fit(X, y).predict_proba(new))


def histogram_classes(X: np.ndarray, y: np.ndarray, new: np.ndarray, seed: int) -> Said:
    """Its own probabilities."""
    from sklearn.ensemble import HistGradientBoostingClassifier as Booster

    return Said(probabilities=Booster(random_state=seed).fit(X, y).predict_proba(new))


def natural_numbers(X: np.ndarray, y: np.ndarray, new: np.ndarray, seed: int) -> Said:
    """NGBoost, as it comes."""
    from ngboost import NGBRegressor  # pyright: ignore

    found = NGBRegressor(verbose=False, random_state=seed).fit(X, y).pred_dist(new)
    return _normal(found.params["loc"], found.params["scale"])


def light_classes(X: np.ndarray, y: np.ndarray, new: np.ndarray, seed: int) -> Said:
    """LightGBM, as it comes."""
    from lightgbm import LGBMClassifier  # pyright: ignore

    found = LGBMClassifier(random_state=seed, verbose=-1, n_jobs=1).fit(X, y)
    return Said(probabilities=found.predict_proba(new))


PEERS: tuple[tuple[str, str, bool, Callable[..., Said]], ...] = (
    ("HistGradientBoosting", "sklearn", False, histogram_numbers),
    ("HistGradientBoosting", "sklearn", True, histogram_classes),
    ("Bayesian ridge", "sklearn", False, ridge_numbers),
    ("logistic regression", "sklearn", True, logistic_classes),
    ("LightGBM", "lightgbm", False, light_numbers),
    ("LightGBM with MAPIE", "mapie", False, mapie_numbers),
    ("NGBoost", "ngboost", False, natural_numbers),
    ("LightGBM", "lightgbm", True, light_classes),
)


def peers(classes: bool) -> list[tuple[str, Callable[..., Said]]]:
    """Those that are installed."""
    return [
        (name, function)
        for name, package, of_classes, function in PEERS
        if of_classes == classes and importlib.util.find_spec(package) is not None
    ]
