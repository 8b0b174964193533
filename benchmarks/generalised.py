"""`python -m benchmarks generalised [--rows N ...] [--seeds N] [--only KIND ...]`: counts, positive numbers
and quantiles beside peers.

Poisson, negative binomial and gamma regressions of generated tables with known coefficients: CPU and wall
seconds of a fit, the root mean square error of the coefficients over their true size, and the log-score of
new rows, which for scikit-learn's regressors is that of the law at the fitted mean (the gamma with the
dispersion of Pearson's residuals). Quantile regressions (five levels, noise that is skewed and grows with a
column) have the error of the slopes over all levels. Peers: scikit-learn's `PoissonRegressor` and
`GammaRegressor` (alpha 0 and 1), statsmodels' generalised linear models and negative binomial; scikit-learn's
`QuantileRegressor` (linear programs, up to 10,000 rows) and statsmodels' quantile regression (up to 1,000).
"""

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from tractable.estimators import (
    GammaRegressor,
    NegativeBinomialRegressor,
    PoissonRegressor,
    QuantileRegressor,
)

NEW = 2_000
LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)


class Table(NamedTuple):
    """Rows with a target of a known law, and new ones."""

    X: np.ndarray
    y: np.ndarray
    new: np.ndarray
    target: np.ndarray
    slopes: np.ndarray


def table(kind: str, rows: int, columns: int, seed: int) -> Table:
    """A table of the kind "poisson", "negative_binomial", "gamma" or "quantile"."""
    random = np.random.default_rng([seed, rows, columns])
    X = random.normal(size=(rows + NEW, columns))
    slopes = random.normal(size=columns) * 0.5 / np.sqrt(columns)
    if kind == "quantile":  # the first column stretches the noise: its slope depends on the level
        X[:, 0] = random.uniform(0, 2, len(X))
        y = X @ slopes + (1 + 0.5 * X[:, 0]) * random.gamma(2.0, size=len(X))
        lines = np.tile(slopes, (len(LEVELS), 1))
        lines[:, 0] += 0.5 * stats.gamma(2.0).ppf(LEVELS)
        return Table(X[:rows], y[:rows], X[rows:], y[rows:], lines)
    mean = np.exp(0.5 + X @ slopes)
    if kind == "gamma":
        y = random.gamma(3.0, mean / 3.0)
    else:
        y = random.poisson(mean * (random.gamma(2.0, 0.5, len(X)) if kind == "negative_binomial" else 1.0))
    return Table(X[:rows], y[:rows], X[rows:], y[rows:], slopes)


def _ours(kind: Any) -> Callable:
    def fit(data: Table) -> tuple[np.ndarray, float]:
        model = kind().fit(data.X, data.y)
        return model.coef_, model.log_score(data.new, data.target)

    return fit


def _scikit_learn(name: str, alpha: float) -> Callable:
    def fit(data: Table) -> tuple[np.ndarray, float]:
        from sklearn import linear_model

        model = getattr(linear_model, name)(alpha=alpha, solver="newton-cholesky").fit(data.X, data.y)
        mean = model.predict(data.new)
        if name == "PoissonRegressor":
            return model.coef_, float(stats.poisson(mean).logpmf(data.target).mean())
        spread = np.mean((data.y / model.predict(data.X) - 1) ** 2)
        return model.coef_, float(stats.gamma(1 / spread, scale=mean * spread).logpdf(data.target).mean())

    return fit


def _statsmodels(kind: str) -> Callable:
    def fit(data: Table) -> tuple[np.ndarray, float]:
        import statsmodels.api as sm

        X, new = sm.add_constant(data.X), sm.add_constant(data.new)
        if kind == "negative_binomial":
            found = sm.NegativeBinomial(data.y, X).fit(disp=0)
            mean, kappa = found.predict(new), found.params[-1]
            law = stats.nbinom(1 / kappa, 1 / (1 + kappa * mean))
            return found.params[1:-1], float(law.logpmf(data.target).mean())
        families: Any = {
            "poisson": sm.families.Poisson(),
            "gamma": sm.families.Gamma(sm.families.links.Log()),
        }
        found = sm.GLM(data.y, X, family=families[kind]).fit()
        mean = found.predict(new)
        if kind == "poisson":
            return found.params[1:], float(stats.poisson(mean).logpmf(data.target).mean())
        law = stats.gamma(1 / found.scale, scale=mean * found.scale)
        return found.params[1:], float(law.logpdf(data.target).mean())

    return fit


def _our_quantiles(prior: Any) -> Callable:
    def fit(data: Table) -> tuple[np.ndarray, float]:
        model = QuantileRegressor(LEVELS, prior_precision=prior).fit(data.X, data.y)
        return model.coef_, model.log_score(data.new, data.target)

    return fit


def _linear_programs(data: Table) -> tuple[np.ndarray, float]:
    from sklearn.linear_model import QuantileRegressor as Peer

    if len(data.X) > 10_000:
        raise MemoryError("a linear program of so many rows takes hours")
    found = [Peer(quantile=level, alpha=0.0).fit(data.X, data.y).coef_ for level in LEVELS]
    return np.stack(found), np.nan


def _reweighted(data: Table) -> tuple[np.ndarray, float]:
    import statsmodels.api as sm

    if len(data.X) > 1_000:
        raise MemoryError("minutes for each thousand rows")
    X = sm.add_constant(data.X)
    return np.stack([sm.QuantReg(data.y, X).fit(q=level).params[1:] for level in LEVELS]), np.nan


MODELS: dict[str, dict[str, Callable]] = {
    "poisson": {
        "tractable": _ours(PoissonRegressor),
        "scikit-learn, alpha 0": _scikit_learn("PoissonRegressor", 0.0),
        "scikit-learn, alpha 1": _scikit_learn("PoissonRegressor", 1.0),
        "statsmodels": _statsmodels("poisson"),
    },
    "negative_binomial": {
        "tractable": _ours(NegativeBinomialRegressor),
        "statsmodels": _statsmodels("negative_binomial"),
    },
    "gamma": {
        "tractable": _ours(GammaRegressor),
        "scikit-learn, alpha 0": _scikit_learn("GammaRegressor", 0.0),
        "scikit-learn, alpha 1": _scikit_learn("GammaRegressor", 1.0),
        "statsmodels": _statsmodels("gamma"),
    },
    "quantile": {
        "tractable": _our_quantiles("evidence"),
        "tractable, no prior": _our_quantiles(0.0),
        "scikit-learn, alpha 0": _linear_programs,
        "statsmodels": _reweighted,
    },
}


def measure(kind: str, rows: int, columns: int, seeds: int) -> dict[str, tuple[float, float, float, float]]:
    """CPU and wall seconds, error and log-score of each model, means over seeds."""
    found: dict[str, list] = {name: [] for name in MODELS[kind]}
    for seed in range(seeds):
        data = table(kind, rows, columns, seed)
        for name, fit in MODELS[kind].items():
            began = time.process_time(), time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    coefficients, score = fit(data)
                except MemoryError:
                    coefficients, score = np.full_like(data.slopes, np.nan), np.nan
            took = time.process_time() - began[0], time.perf_counter() - began[1]
            error = np.sqrt(np.mean((coefficients - data.slopes) ** 2) / np.mean(data.slopes**2))
            found[name].append((*took, error, score))
    return {name: tuple(np.mean(numbers, 0).tolist()) for name, numbers in found.items()}


def main(options: Sequence[str]) -> None:
    """Print a table for each kind and size."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks generalised", description="Counts and times.")
    parser.add_argument("--rows", nargs="+", type=int, default=[40, 1000, 100_000])
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=tuple(MODELS), default=tuple(MODELS))
    chosen = parser.parse_args(options)
    for kind in chosen.only:
        for rows in chosen.rows:
            print(f"\n{kind}, {rows} x {chosen.columns}".ljust(44) + "CPU s   wall s    error  log-score")
            for name, numbers in measure(kind, rows, chosen.columns, chosen.seeds).items():
                cpu, wall, error, score = numbers
                print(f"  {name:36}{cpu:9.3f}{wall:9.3f}{error:9.3f}{score:11.4f}", flush=True)
