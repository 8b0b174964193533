"""Agglomerative clustering by its definition: the distance of every two sets of rows, from scratch."""

import numpy as np


def set_distance(rows, one, other, linkage, distance):
    """The distance of two sets of rows."""
    table = np.array([[distance(rows[i], rows[j]) for j in other] for i in one])
    if linkage == "single":
        return table.min()
    if linkage == "complete":
        return table.max()
    if linkage == "average":
        return table.mean()
    if linkage == "hausdorff":
        return max(table.min(1).max(), table.min(0).max())
    apart = np.linalg.norm(rows[one].mean(0) - rows[other].mean(0))
    return apart if linkage == "centroid" else apart * np.sqrt(2 * len(one) * len(other) / len(one + other))


def join(rows, linkage, distance=lambda x, y: np.linalg.norm(x - y)):
    """The heights of the merges, and after each the partition as a set of frozen sets."""
    clusters = [[i] for i in range(len(rows))]
    heights, partitions = [], []
    while len(clusters) > 1:
        pairs = [(i, j) for i in range(len(clusters)) for j in range(i + 1, len(clusters))]
        costs = [set_distance(rows, clusters[i], clusters[j], linkage, distance) for i, j in pairs]
        i, j = pairs[int(np.argmin(costs))]
        heights.append(min(costs))
        clusters = [c for k, c in enumerate(clusters) if k not in (i, j)] + [clusters[i] + clusters[j]]
        partitions.append({frozenset(c) for c in clusters})
    return np.array(heights), partitions
