r"""Where EM begins: clusters of the rows, with covariances that no small cluster can make singular.

Rule.        Labels by k-means (or by the nearest of k-means++ seeds, or of random rows); then $w_k =
             N_k/N$, $\mu_k$ the mean of the cluster, and $\Sigma_k = (S_k + \nu\bar S)/(N_k + \nu)$ with
             the pooled covariance $\bar S$ inside clusters and $\nu = d + 1$: a cluster of one row starts
             as wide as the others.
Cost.        That of k-means, and $O(nd^2)$.
References.  Arthur and Vassilvitskii (2007); Biernacki, Celeux and Govaert (2003) (starts of EM).
"""

from typing import Any

import equinox as eqx
import numpy as np

from tractable.core.checks import as_float, check, check_count, check_entries, check_option
from tractable.core.chunks import weighted_rows
from tractable.core.host_random import generator
from tractable.core.seeding import far_apart
from tractable.core.types import ArrayLike, Key
from tractable.distributions.spreads import raised, spread_of
from tractable.latent.kmeans.lloyd import lloyd
from tractable.latent.mixtures.gaussian import GaussianMixture

__all__ = ["checked_rows", "cluster_labels", "distinct_rows", "start_from_labels", "start_from_rows"]

_STEPS = 30  # of k-means: the rest is for EM
_MANY = 20_000  # rows


def start_from_rows(
    key: Key, rows: ArrayLike, k: int, covariance: str, weights: ArrayLike | None, floor: float, rank: int,
    seeding: str,
) -> GaussianMixture:  # fmt: skip
    """The mixture of clusters of the rows; missing entries stand at the mean of their column for this
    alone."""
    check_option("seeding", seeding, ("kmeans", "far", "random"))
    k = check_count("k", k)
    xs, shares = checked_rows(rows, weights)
    fix = "Ask for fewer components."
    check(len(xs) >= k, "rows", f"at least as many as components ({k})", len(xs), fix)
    own, amounts, which = distinct_rows(xs, shares)
    labels = cluster_labels(key, own, amounts, k, seeding)[which] if len(own) >= k else which
    return start_from_labels(xs, labels, k, covariance, weights=shares, floor=floor, rank=rank)


def start_from_labels(
    rows: Any, labels: Any, k: int, covariance: str = "full", *, weights: Any = None, floor: float = 1e-6,
    rank: int = 1,
) -> GaussianMixture:  # fmt: skip
    """The mixture whose components are the rows of each label."""
    xs, shares = checked_rows(rows, weights)
    labels = np.asarray(labels)
    centre = shares @ xs / shares.sum()
    variance = shares @ (xs - centre) ** 2 / shares.sum()
    # a constant column has no density: it stands on a floor of its own, and the verdict says so
    still = variance <= (1e-14 * np.abs(centre)) ** 2
    check(floor > 0 or not still.any(), "rows", "free of constant columns where there is no floor",
          f"constant columns {np.flatnonzero(still).tolist()}", "Drop them.")  # fmt: skip
    least = floor * np.where(still, np.maximum(centre**2, 1.0), variance)
    counts = np.bincount(labels, shares, minlength=k)
    dim = xs.shape[1]
    means, scatter = np.tile(centre, (k, 1)), np.zeros((k, dim, dim))
    for j in np.flatnonzero(counts):
        mine = labels == j
        means[j] = shares[mine] @ xs[mine] / counts[j]
        away = xs[mine] - means[j]
        scatter[j] = (shares[mine, None] * away).T @ away
    pooled = scatter.sum(0) / counts.sum() + np.diag(least + 1e-12 * variance)
    cov = (scatter + (dim + 1) * pooled) / (counts + dim + 1)[:, None, None]
    cov = raised(cov, least)  # EM climbs among covariances above the floor, and begins there
    made = GaussianMixture(
        counts / counts.sum(), means, spread_of(covariance, cov, counts, rank), floor=floor
    )
    fixed = as_float("centre", centre), as_float("least", least)
    return eqx.tree_at(lambda m: (m.centre, m.least), made, fixed)


def checked_rows(rows: Any, weights: Any) -> tuple[np.ndarray, np.ndarray]:
    """Rows of positive weight on the host, gaps filled by the mean of their column; errors by name."""
    xs, shares = weighted_rows(rows, weights)
    check(
        xs.ndim == 2,
        "rows",
        "a matrix, one row per point",
        f"shape {xs.shape}",
        "One column: `rows[:, None]`.",
    )
    xs = np.asarray(xs, float)[shares > 0]
    shares = shares[shares > 0]
    check(len(xs) > 0, "weights", "positive for at least one row", "zero for all")
    if not np.isfinite(xs).all():
        check_entries("rows", xs, lambda v: ~np.isinf(v), "finite, or NaN where missing")
        empty = np.flatnonzero(np.isnan(xs).all(0)).tolist()
        check(not empty, "rows", "observed at least once in each column", f"nothing in columns {empty}")
        seen = ~np.isnan(xs)
        mean = np.where(seen, xs, 0.0).T @ shares / (seen.T @ shares)
        xs = np.where(seen, xs, mean)
    return xs, shares


def distinct_rows(rows: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each row once, in an order of its own, with its total weight, and where each row went: what is drawn
    from these is the same for a row of weight two and for two rows. Many rows stay as they are: sorting
    costs more than it gives."""
    if len(rows) > _MANY:
        return rows, weights, np.arange(len(rows))
    own, which = np.unique(rows, axis=0, return_inverse=True)
    return own, np.bincount(which.ravel(), weights), which.ravel()


def cluster_labels(key: Key, xs: np.ndarray, shares: np.ndarray, k: int, seeding: str) -> np.ndarray:
    """A cluster for each row, of columns in units of their spread."""
    centre = shares @ xs / shares.sum()
    unit = np.sqrt(shares @ (xs - centre) ** 2 / shares.sum())
    scaled = np.ascontiguousarray((xs - centre) / np.where(unit > 0, unit, 1.0))
    if seeding == "random":
        chosen = generator(key).choice(len(xs), k, replace=False, p=shares / shares.sum())
    else:
        chosen = np.asarray(far_apart(key, scaled, k, weights=shares))
    steps = _STEPS if seeding == "kmeans" else 1
    return lloyd(scaled, shares, scaled[chosen], max_steps=steps, tol=1e-4, progress=False).labels
