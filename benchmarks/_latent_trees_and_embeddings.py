"""Clustering trees and embeddings beside SciPy and scikit-learn; `benchmarks.latent` finds these workloads by
the name.

Objectives mean the same for both: the sum of heights of a tree, the raw stress or strain of an embedding, the
cost $\\mathrm{tr}(Y^\\top M Y)$ of a locally linear one, the correlation of an Isomap with its paths.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._children import Workload

Fit = Callable[[Any], float]


def rows(num_rows: int, num_columns: int) -> np.ndarray:
    """Overlapping groups."""
    numbers = np.random.default_rng(0)
    centres = 2 * numbers.normal(size=(10, num_columns))
    return centres[numbers.integers(10, size=num_rows)] + numbers.normal(size=(num_rows, num_columns))


def roll(num_rows: int) -> np.ndarray:
    """A rolled strip."""
    numbers = np.random.default_rng(0)
    angle = 1.5 * np.pi * (1 + 2 * numbers.uniform(size=num_rows))
    return np.stack(
        [angle * np.cos(angle), 21 * numbers.uniform(size=num_rows), angle * np.sin(angle)], axis=1
    )


def tree(linkage: str) -> Callable[[], Fit]:
    def load() -> Fit:
        from tractable.latent.hierarchical.agglomerative import agglomerate

        return lambda X: agglomerate(X, linkage).heights.sum()

    return load


def scipy_tree(linkage: str) -> Callable[[], Fit]:
    def load() -> Fit:
        from scipy.cluster.hierarchy import linkage as join

        return lambda X: join(X, linkage)[:, 2].sum()

    return load


def ordered_tree() -> Fit:
    from tractable.latent.hierarchical.agglomerative import agglomerate

    return lambda X: _length(X, agglomerate(X, "average", optimal_order=True).leaf_order)


def scipy_ordered_tree() -> Fit:
    from scipy.cluster.hierarchy import leaves_list, linkage

    return lambda X: _length(X, leaves_list(linkage(X, "average", optimal_ordering=True)))


def _length(X: np.ndarray, order: np.ndarray) -> float:
    return float(np.linalg.norm(np.diff(X[order], axis=0), axis=1).sum())


def stress(**options: Any) -> Callable[[], Fit]:
    def load() -> Fit:
        from tractable.latent.manifold.smacof import metric_mds

        return lambda X: metric_mds(X, 2, **options).stress

    return load


def sklearn_stress(**options: Any) -> Callable[[], Fit]:
    """From the classical start too, in releases that have it."""

    def load() -> Fit:
        from sklearn.manifold import MDS

        def fit(X: np.ndarray) -> float:
            made = MDS(2, n_init=1, init="classical_mds", random_state=0, normalized_stress=False, **options)
            return float(made.fit(X).stress_)

        return fit

    return load


def classical() -> Fit:
    from tractable.latent.manifold.classical import classical_mds

    return lambda table: classical_mds(table, 2, metric="precomputed").eigenvalues.sum()


def sklearn_classical() -> Fit:
    from sklearn.manifold import ClassicalMDS

    return lambda table: ClassicalMDS(2, metric="precomputed").fit(table).eigenvalues_.sum()


def lle() -> Fit:
    from tractable.latent.manifold.lle import locally_linear_embedding

    return lambda X: 1e8 * locally_linear_embedding(X, 2, 12).eigenvalues.sum()


def sklearn_lle() -> Fit:
    from sklearn.manifold import LocallyLinearEmbedding

    return lambda X: 1e8 * LocallyLinearEmbedding(n_neighbors=12, n_components=2).fit(X).reconstruction_error_


def paths() -> Fit:
    from tractable.latent.manifold.graph import isomap

    return lambda X: np.abs(isomap(X, 2, 12).points).sum()


def sklearn_paths() -> Fit:
    from sklearn.manifold import Isomap

    return lambda X: np.abs(Isomap(n_neighbors=12, n_components=2).fit(X).embedding_).sum()


def _distances() -> np.ndarray:
    from scipy.spatial.distance import pdist, squareform

    return squareform(pdist(rows(2000, 10)))


WORKLOADS: dict[str, Workload] = {
    **{
        f"{linkage} tree 5,000 x 10": Workload(
            lambda: rows(5000, 10),
            {"tractable": tree(linkage), "scipy": scipy_tree(linkage)},
            "sum of heights",
        )
        for linkage in ("single", "average", "ward")
    },
    "ordered tree 400 x 5": Workload(
        lambda: rows(400, 5), {"tractable": ordered_tree, "scipy": scipy_ordered_tree}, "length along leaves"
    ),
    "classical scaling of 2,000": Workload(
        _distances, {"tractable": classical, "scikit-learn": sklearn_classical}, "kept eigenvalues"
    ),
    "least stress 1,000 x 10": Workload(
        lambda: rows(1000, 10),
        {"tractable": stress(tol=1e-5), "scikit-learn": sklearn_stress(eps=1e-8, max_iter=1000)},
        "raw stress",
        ("scikit-learn",),
    ),
    "locally linear 5,000": Workload(
        lambda: roll(5000), {"tractable": lle, "scikit-learn": sklearn_lle}, "1e8 times the cost"
    ),
    "isomap 1,500": Workload(
        lambda: roll(1500), {"tractable": paths, "scikit-learn": sklearn_paths}, "sum of coordinates"
    ),
}
