"""Principal components and factor analysis beside scikit-learn."""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._children import Workload


def table(num_rows: int, dim: int, rank: int, noise: float = 0.5) -> Callable[[], np.ndarray]:
    """Rows of a few factors and noise of its own in every column."""

    def make() -> np.ndarray:
        rng = np.random.default_rng(0)
        loadings = rng.normal(size=(rank, dim)) * np.linspace(2, 1, rank)[:, None]
        rows = rng.normal(size=(num_rows, rank)) @ loadings
        rows += noise * rng.uniform(0.5, 1.5, dim) * rng.normal(size=(num_rows, dim)) + 3.0
        return rows

    return make


def ours(name: str, *parts: Any, score: Callable, **options: Any) -> Callable:
    def load() -> Callable[[Any], float]:
        import tractable.estimators as estimators

        return lambda rows: score(getattr(estimators, name)(*parts, **options).fit(rows), rows)

    return load


def peer(name: str, *parts: Any, score: Callable, **options: Any) -> Callable:
    def load() -> Callable[[Any], float]:
        import sklearn.decomposition

        return lambda rows: score(getattr(sklearn.decomposition, name)(*parts, **options).fit(rows), rows)

    return load


def explained(fitted: Any, rows: np.ndarray) -> float:
    return float(fitted.explained_variance_ratio_.sum())


def likelihood(fitted: Any, rows: np.ndarray) -> float:
    """The mean log-density by the covariance of the model: the same code for every library."""
    cov = fitted.components_.T @ fitted.components_ + np.diag(fitted.noise_variance_)
    half = np.linalg.solve(np.linalg.cholesky(cov), (rows[:20000] - fitted.mean_).T)
    d = len(cov)
    logs = np.linalg.slogdet(cov)[1] + d * np.log(2 * np.pi)
    return float(-0.5 * ((half**2).sum(0).mean() + logs))


WORKLOADS = {
    "pca 1e6 x 100, 10": Workload(
        table(1_000_000, 100, 10),
        {"tractable": ours("PCA", 10, score=explained), "scikit-learn": peer("PCA", 10, score=explained)},
        "explained",
    ),
    "pca 2000 x 5000, 10, randomised": Workload(
        table(2000, 5000, 20),
        {
            "tractable": ours("PCA", 10, score=explained, solver="randomised", random_state=0),
            "scikit-learn": peer("PCA", 10, score=explained, svd_solver="randomized", random_state=0),
        },
        "explained",
    ),
    "factor analysis 1e5 x 50, 10": Workload(
        table(100_000, 50, 10),
        {
            "tractable": ours("FactorAnalysis", 10, score=likelihood),
            "scikit-learn": peer("FactorAnalysis", 10, score=likelihood),
            "scikit-learn, exact": peer(
                "FactorAnalysis", 10, score=likelihood, tol=1e-6, max_iter=5000, svd_method="lapack"
            ),
        },
        "mean log-likelihood",
        ("scikit-learn, exact",),
    ),
}
