"""Clusters around centres beside scikit-learn; `benchmarks.latent` finds these workloads by the name."""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._latent_child import Workload

SIZE = 1_000_000


def blobs(num_rows: int = SIZE, num_columns: int = 20, num_clusters: int = 50) -> np.ndarray:
    """Overlapping groups of unequal sizes."""
    numbers = np.random.default_rng(0)
    centres = numbers.normal(size=(num_clusters, num_columns)) * 2
    shares = numbers.dirichlet(np.full(num_clusters, 3.0))
    return centres[numbers.choice(num_clusters, num_rows, p=shares)] + numbers.normal(
        size=(num_rows, num_columns)
    )


def sklearn_fit(name: str, **options: Any) -> Callable[[], Callable[[Any], float]]:
    """An estimator of scikit-learn, of which the cost at the end is reported."""

    def load() -> Callable[[Any], float]:
        from sklearn import cluster

        return lambda X: getattr(cluster, name)(50, random_state=0, **options).fit(X).inertia_

    return load


WORKLOADS: dict[str, Workload] = {}
