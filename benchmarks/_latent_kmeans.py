"""Clusters around centres beside scikit-learn; `benchmarks.latent` finds these workloads by the name."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._children import Workload

SIZE = 1_000_000


def blobs(num_rows: int = SIZE, num_columns: int = 20, num_clusters: int = 50) -> np.ndarray:
    """Overlapping groups of unequal sizes."""
    numbers = np.random.default_rng(0)
    centres = numbers.normal(size=(num_clusters, num_columns)) * 2
    shares = numbers.dirichlet(np.full(num_clusters, 3.0))
    return centres[numbers.choice(num_clusters, num_rows, p=shares)] + numbers.normal(
        size=(num_rows, num_columns)
    )


def fits(name: str, **options: Any) -> dict[str, Callable[[], Callable[[Any], float]]]:
    """An estimator of either library with the same options; the cost at the end is the objective."""

    def load(module: str) -> Callable[[Any], float]:
        kind = getattr(importlib.import_module(module), name)
        return lambda X: kind(50, random_state=0, **options).fit(X).inertia_

    peer = options.pop("peer", {})
    theirs = {"n_init": 1} | options | peer

    def load_peer() -> Callable[[Any], float]:
        from sklearn import cluster

        return lambda X: getattr(cluster, name)(50, random_state=0, **theirs).fit(X).inertia_

    return {"tractable": lambda: load("tractable.estimators"), "scikit-learn": load_peer}


def our_seeds() -> Callable[[Any], float]:
    """k-means++ with the usual number of trials; the objective is the cost of the seeds."""
    from tractable.core.assignment import nearest_centres
    from tractable.core.seeding import far_apart, usual_trials

    def fit(X: Any) -> float:
        chosen = far_apart(np.array([0, 0], np.uint32), X, 50, trials=usual_trials(50))  # pyright: ignore
        return cost_of(nearest_centres, X, X[chosen])

    return fit


def their_seeds() -> Callable[[Any], float]:
    """k-means++ of scikit-learn, with as many trials."""
    from sklearn.cluster import kmeans_plusplus

    from tractable.core.assignment import nearest_centres

    return lambda X: cost_of(nearest_centres, X, kmeans_plusplus(X, 50, random_state=0)[0])


def cost_of(nearest: Callable, X: Any, centres: np.ndarray) -> float:
    """The cost on a tenth of the rows, so that it takes no time to speak of."""
    return float(nearest(X[::10], centres).squared.sum())


def few_seconds() -> dict[str, Callable[[], Callable[[Any], float]]]:
    """A small problem: the first time is what a person waits for."""
    return fits("KMeans", n_init=10)


SEEDS = {"tractable": our_seeds, "scikit-learn": their_seeds}
WORKLOADS: dict[str, Workload] = {
    "kmeans": Workload(blobs, fits("KMeans"), "cost"),
    "kmeans-seeding": Workload(blobs, SEEDS, "cost of the seeds"),
    "kmeans-mini-batch": Workload(blobs, fits("MiniBatchKMeans", batch_size=4096), "cost"),
    "kmeans-small": Workload(lambda: blobs(5000, 10, 8), few_seconds(), "cost"),
}
