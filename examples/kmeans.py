"""Clusters around centres: seeds, restarts, the number of clusters, and the same fit from a stream.

Run: python examples/kmeans.py
"""

import numpy as np

import tractable as tr
from tractable.inference import EM
from tractable.latent import KMeans, choose_num_clusters, cluster_costs, k_medoids


def main() -> None:
    """Fit, judge and compare."""
    numbers = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [6.0, 1.0], [2.0, 7.0], [8.0, 8.0]])
    truth = numbers.integers(4, size=2000)
    rows = centres[truth] + numbers.normal(size=(2000, 2))

    # the best of ten starts, with the verdict
    fitted = KMeans.fit(rows, 4, key=0, num_starts=10)
    print(fitted)

    # how many clusters: four judges on one table
    judged = choose_num_clusters(rows[:400], range(1, 8), key=0, num_references=5, num_starts=3)
    print(judged)

    # the same model from chunks, by additive statistics: what EM climbs is minus the cost
    start = KMeans.start(rows, 4, key=0)
    streamed = tr.fit(start, rows, EM(), chunk=256)
    print(f"cost in memory {fitted.cost:.3f}, from chunks {-float(streamed.values[-1]):.3f}")

    # twice the mean squared distance to the centre is the mean squared distance within a cluster
    costs = cluster_costs(rows, fitted.labels)
    print(costs)

    # centres that are rows, for any distance
    medoids = k_medoids(rows[:300], 4, metric="manhattan")
    print(f"medoids {rows[medoids.indices].round(1).tolist()}. {medoids.verdict}")

    nearest = np.abs(np.asarray(fitted.model.centres)[:, None] - centres[None]).max(-1)
    assert (nearest.min(0) < 0.2).all()
    assert judged.best == 4
    assert abs(-float(streamed.values[-1]) - fitted.cost) < 1e-3 * fitted.cost
    assert costs.within == 2 * costs.average_squared
    assert (np.abs(rows[medoids.indices][:, None] - centres[None]).max(-1).min(0) < 1).all()


if __name__ == "__main__":
    main()
