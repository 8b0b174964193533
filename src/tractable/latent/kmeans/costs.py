r"""What a partition costs, in four ways, and whether it is one.

Centres.     $m_j = \frac{1}{|C_j|}\sum_{x \in C_j} x$, with $n$ rows in all.
Costs.       $J_{avg} = \frac1n\sum_j\sum_{x \in C_j}\|x - m_j\|$,
             $J_{avg^2} = \frac1n\sum_j\sum_{x \in C_j}\|x - m_j\|^2$ (that of k-means),
             $J_{IC} = \frac1n\sum_j\frac{1}{|C_j|}\sum_{x, x' \in C_j}\|x - x'\|^2$,
             $J_{max} = \max_j\max_{x \in C_j}\|x - m_j\|$.
Identity.    $2 J_{avg^2} = J_{IC}$ for all rows and labels, since
             $\sum_{x, x' \in C}\|x - x'\|^2 = 2|C|\sum_{x \in C}\|x - m\|^2$.
Minimisers.  Given the labels, $J_{avg^2}$ and $J_{IC}$ are least at means, the mean distance at geometric
             medians (`k_medians`), the largest at centres of smallest balls (`k_centre` bounds it).
Cost.        $O(nd)$; $J_{IC}$ by pairs, its definition, is $O(d\sum_j|C_j|^2)$.
"""

from typing import Any

import numpy as np

from tractable.core.assignment import group_sums
from tractable.core.checks import check, check_count
from tractable.core.module import HostResult, field
from tractable.core.rows import Rows
from tractable.core.verdict import Verdict

__all__ = ["ClusterCosts", "check_partition", "cluster_costs", "pair_cost", "partition", "validate"]


class ClusterCosts(HostResult):
    """The four costs of a partition, and the centres (means; NaN where a cluster is empty)."""

    average: float = field(about="mean distance to the centre")
    average_squared: float = field(about="mean squared distance to the centre: k-means")
    within: float = field(about="mean squared distance between rows of a cluster: twice the former")
    largest: float = field(about="largest distance to the centre")
    centres: np.ndarray = field(show=False)
    sizes: np.ndarray


def cluster_costs(X: Any, labels: Any, num_clusters: int | None = None, *, weights: Any = None):
    """The costs of `labels` for the rows of `X`; a weight of two is the row twice.

    >>> found = cluster_costs([[0.0], [2.0], [5.0]], [0, 0, 1])
    >>> round(found.average_squared, 3), round(found.within, 3), found.largest
    (0.667, 1.333, 1.0)
    """
    rows = Rows.of(X, None, weights, absent="keep")
    codes = check_partition(labels, num_clusters, num_rows=rows.num_rows)
    k = int(codes.max()) + 1 if num_clusters is None else num_clusters
    origin = np.average(rows.X, axis=0, weights=rows.weights)
    away = rows.X - origin
    sums = group_sums(away, codes, rows.weights, k)
    with np.errstate(invalid="ignore"):
        means = sums[:, :-1] / sums[:, -1:]
    held = rows.weights > 0
    codes, away, weights = codes[held], away[held], rows.weights[held]
    squared = ((away - means[codes]) ** 2).sum(1)
    total, distances = weights.sum(), np.sqrt(squared)
    average_squared = float(weights @ squared / total)
    return ClusterCosts(
        float(weights @ distances / total), average_squared, 2 * average_squared,
        float(distances.max()), means + origin, sums[:, -1],
    )  # fmt: skip


def pair_cost(X: Any, labels: Any, *, normalise: str = "cluster") -> float:
    r"""$J_{IC}$ from its definition, all pairs: with `normalise="cluster"` the one of the identity, with "k"
    $\frac1k\sum_j\sum_{x, x' \in C_j}\|x - x'\|^2$, for which it does not hold.

    >>> pair_cost([[0.0], [2.0], [5.0]], [0, 0, 1], normalise="k")
    4.0
    """
    rows = Rows.of(X)
    groups = partition(labels, num_rows=rows.num_rows)
    held = [rows.X[group] for group in groups if len(group)]
    sums = [float(((part[:, None] - part[None]) ** 2).sum()) for part in held]
    if normalise == "k":
        return sum(sums) / len(groups)
    return sum(total / len(part) for total, part in zip(sums, held)) / rows.num_rows


def partition(labels: Any, num_clusters: int | None = None, *, num_rows: int | None = None) -> list:
    """The sets of row indices, one for each label: disjoint, and all rows together.

    >>> [group.tolist() for group in partition([1, 0, 1], 3)]
    [[1], [0, 2], []]
    """
    codes = check_partition(labels, num_clusters, num_rows=num_rows)
    k = int(codes.max()) + 1 if num_clusters is None else num_clusters
    return [np.flatnonzero(codes == j) for j in range(k)]


def check_partition(labels: Any, num_clusters: int | None = None, *, num_rows: int | None = None):
    """Labels as codes from 0 to `num_clusters - 1`, one for each row; or an error that says which is not."""
    codes = np.asarray(labels)
    whole = codes.dtype.kind in "iub" or (codes.dtype.kind == "f" and bool((codes == np.floor(codes)).all()))
    check(codes.ndim == 1 and len(codes) > 0, "labels", "one for each row", f"shape {codes.shape}")
    check(whole, "labels", "whole numbers", f"dtype {codes.dtype}")
    check(num_rows in (None, len(codes)), "labels", f"one for each of {num_rows} rows", len(codes))
    most = np.inf if num_clusters is None else check_count("num_clusters", num_clusters) - 1
    bad = (codes < 0) | (codes > most)
    if bad.any():
        row = int(np.argmax(bad))
        last = "..." if np.isinf(most) else most
        check(False, "labels", f"from 0 to {last}", f"{codes[row]} in row {row}")
    return codes.astype(np.int64)


def validate(groups: Any, num_rows: int) -> Verdict:
    """Whether sets of row indices are a partition: disjoint and covering; empty sets are named.

    >>> validate([[0, 1], [1, 2]], 4)
    No partition: row 1 is in two clusters; row 3 is in none.
    """
    counts = np.zeros(num_rows, int)
    for group in groups:
        inside = np.asarray(group, int).reshape(-1)
        ok = (inside >= 0) & (inside < num_rows)
        check(bool(ok.all()), "groups", f"indices from 0 to {num_rows - 1}", inside[~ok][:1])
        np.add.at(counts, inside, 1)
    empty = [j for j, group in enumerate(groups) if len(group) == 0]
    said = [f"row {np.argmax(counts > 1)} is in two clusters"] if (counts > 1).any() else []
    said += [f"row {np.argmax(counts == 0)} is in none"] if (counts == 0).any() else []
    numbers = {"empty": empty}
    if said:
        return Verdict(False, f"No partition: {'; '.join(said)}.", numbers)
    return Verdict(True, f"A partition of {num_rows} rows; empty clusters: {empty or 'none'}.", numbers)
