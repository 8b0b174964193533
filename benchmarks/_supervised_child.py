"""One workload of `benchmarks.supervised` with one library: prints seconds and score as JSON."""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Rows = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
SLOW = {("gp", "scikit-learn"), ("svc", "scikit-learn")}


@dataclass(frozen=True)
class Workload:
    """Rows to fit and to hold out, and what each library does with them."""

    rows: Callable[[], Rows]
    fits: dict[str, Callable[[], Any]]  # library -> a new estimator


def smooth(num_rows: int, num_columns: int) -> Rows:
    """A smooth function of some columns, with noise."""
    generator = np.random.default_rng(0)
    X = generator.uniform(-2, 2, size=(num_rows + 1000, num_columns))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2 % num_columns] + 0.1 * generator.normal(size=len(X))
    return X[:-1000], y[:-1000], X[-1000:], y[-1000:]


def classes(num_rows: int, num_columns: int, curved: bool) -> Rows:
    """Two overlapping classes; `curved` needs a kernel or a tree."""
    generator = np.random.default_rng(1)
    held = min(num_rows, 20_000)
    X = generator.normal(size=(num_rows + held, num_columns))
    w = generator.normal(size=num_columns) / num_columns**0.5
    signal = 2 * X @ w + (2.0 * X[:, 0] * X[:, 1] + X[:, 2] ** 2 - 1 if curved else 0.0)
    y = (signal + generator.logistic(size=len(X)) > 0).astype(int)
    return X[:num_rows], y[:num_rows], X[num_rows:], y[num_rows:]


def linear(num_rows: int, num_columns: int) -> Rows:
    """A linear target with noise."""
    generator = np.random.default_rng(2)
    X = generator.normal(size=(num_rows + 10_000, num_columns))
    y = X @ generator.normal(size=num_columns) + generator.normal(size=len(X))
    return X[:num_rows], y[:num_rows], X[num_rows:], y[num_rows:]


def digits() -> Rows:
    """The digits that scikit-learn bundles, every third held out."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    held = np.arange(len(X)) % 3 == 0
    return X[~held] / 16, y[~held], X[held] / 16, y[held]


def ours(name: str, **options: Any) -> Callable[[], Any]:
    """An estimator of tractable."""

    def make() -> Any:
        from tractable import estimators

        return getattr(estimators, name)(**options)

    return make


def theirs(module: str, name: str, **options: Any) -> Callable[[], Any]:
    """An estimator of scikit-learn."""

    def make() -> Any:
        import importlib

        return getattr(importlib.import_module(f"sklearn.{module}"), name)(**options)

    return make


def sklearn_process() -> Any:
    """Exact regression with one length scale per column, as scikit-learn optimises it."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    kernel = ConstantKernel() * RBF(np.ones(5)) + WhiteKernel()
    return GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)


def torch_process(kind: str) -> Callable[[], Any]:
    """Exact or stochastic variational regression by GPyTorch."""

    def make() -> Any:
        from benchmarks._supervised_gpytorch import ExactProcess, SparseProcess

        return {"exact": ExactProcess, "sparse": SparseProcess}[kind]()

    return make


WORKLOADS = {
    "gp": Workload(
        lambda: smooth(2000, 5),
        {
            "tractable": ours("GaussianProcessRegressor", random_state=0),
            "GPyTorch": torch_process("exact"),
            "scikit-learn": sklearn_process,
        },
    ),
    "svgp": Workload(
        lambda: smooth(100_000, 5),
        {
            "tractable": ours("SparseGaussianProcessRegressor", n_inducing=256, random_state=0),
            "GPyTorch": torch_process("sparse"),
        },
    ),
    "svc": Workload(
        lambda: classes(20_000, 20, True),
        {
            "tractable": ours("SupportVectorClassifier", probability=False, standardise=False),
            "scikit-learn": theirs("svm", "SVC"),
        },
    ),
    "svc-digits": Workload(
        digits,
        {
            "tractable": ours("SupportVectorClassifier", probability=False, standardise=False),
            "scikit-learn": theirs("svm", "SVC"),
        },
    ),
    "logistic": Workload(
        lambda: classes(1_000_000, 20, False),
        {
            "tractable": ours("LogisticClassifier", standardise=False),
            "scikit-learn": theirs("linear_model", "LogisticRegression"),
        },
    ),
    "bayesian-ridge": Workload(
        lambda: linear(1_000_000, 50),
        {
            "tractable": ours("BayesianLinearRegressor"),
            "scikit-learn": theirs("linear_model", "BayesianRidge"),
        },
    ),
    "forest": Workload(
        lambda: classes(50_000, 20, True),
        {
            "tractable": ours("ForestClassifier", random_state=0),
            "scikit-learn": theirs("ensemble", "RandomForestClassifier", n_jobs=2, random_state=0),
        },
    ),
}


def score(estimator: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Accuracy; for regressions the mean log density of held-out targets."""
    if hasattr(estimator, "classes_"):
        return float(np.mean(estimator.predict(X) == y))
    if hasattr(estimator, "log_score"):
        return estimator.log_score(X, y)
    mean, sd = estimator.predict(X, return_std=True)
    return float(np.mean(-0.5 * ((y - mean) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi)))


def main(workload: str, library: str) -> None:
    """Fit twice, predict, score."""
    chosen = WORKLOADS[workload]
    X, y, new, truth = chosen.rows()
    seconds = {}
    for key in ("first", "again"):
        estimator = chosen.fits[library]()
        start = time.perf_counter()
        estimator.fit(X, y)
        seconds[key] = time.perf_counter() - start
    estimator.predict(new)
    start = time.perf_counter()
    estimator.predict(new)
    seconds["predict"] = time.perf_counter() - start
    print(json.dumps(seconds | {"score": score(estimator, new, truth)}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
