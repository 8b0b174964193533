r"""How many clusters: four judges of k-means on one table, and what they agree on.

Elbow.       Where $\log W_k$ (with $W_k$ the cost of $k$ clusters) lies farthest below the chord from the
             first to the last $k$: a picture more than a test; it never says one.
Silhouette.  The mean of $(b_i - a_i)/\max(a_i, b_i)$, with $a_i$ the mean distance to the other rows of the
             own cluster and $b_i$ the least mean distance to those of another; zero in a cluster of one.
             Needs two clusters: it never says one either.
Gap.         $G(k) = \frac1B\sum_b\log W_{kb}^* - \log W_k$, with $W^*$ of rows drawn uniformly in the box of
             the principal axes. The least $k$ with $G(k) \ge G(k^*) - s_{k^*}$ for the largest, $k^*$, and
             $s = \mathrm{sd}\sqrt{1 + 1/B}$ (the rule that asks $k + 1$ alone stops too early where two
             clusters merge before three do). Says one where nothing clusters.
BIC.         $-2\log L + p\log n$ of a hard mixture of spherical Gaussians with one variance
             $W_k/(d(n - k))$ and $p = kd + k$ numbers (X-means). It takes clusters to be round and of one
             size.
Cost.        $B + 1$ clusterings per $k$; silhouettes of at most `sample` rows, $O(m^2 d)$.
References.  Rousseeuw (1987); Tibshirani, Walther and Hastie (2001); Dudoit and Fridlyand (2002); Pelleg and
             Moore (2000); Satopaa and others (2011) for the chord.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tractable.core.checks import check, check_count
from tractable.core.host_random import generator
from tractable.core.keys import takes_key
from tractable.core.module import HostResult, field
from tractable.core.progress import progress_bar
from tractable.core.rows import Rows
from tractable.core.types import Key
from tractable.core.verdict import Verdict
from tractable.latent.kmeans.costs import check_partition
from tractable.latent.kmeans.model import KMeans

__all__ = ["ClusterNumbers", "choose_num_clusters", "silhouette"]


class ClusterNumbers(HostResult):
    """What each number of clusters is worth by each judge; smaller BIC, larger silhouette and gap are
    better."""

    num_clusters: np.ndarray
    cost: np.ndarray
    silhouette: np.ndarray  # NaN for one cluster
    gap: np.ndarray
    gap_error: np.ndarray
    bic: np.ndarray
    choices: dict[str, int] = field(static=True)

    def _columns(self) -> dict[str, list]:
        names = ("num_clusters", "cost", "silhouette", "gap", "gap_error", "bic")
        return {name: np.asarray(getattr(self, name)).tolist() for name in names}

    @property
    def best(self) -> int:
        """What most judges say; where they differ, what the gap says: it alone can say one on evidence."""
        said = list(self.choices.values())
        most = max(said.count(k) for k in said)
        agreed = {k for k in said if said.count(k) == most}
        return self.choices["gap"] if self.choices["gap"] in agreed or most == 1 else min(agreed)

    @property
    def verdict(self) -> Verdict:
        """How many judges agree, and whether the range was long enough to tell."""
        votes = list(self.choices.values()).count(self.best)
        words = ", ".join(f"{name} {k}" for name, k in self.choices.items())
        last = int(self.num_clusters[-1])
        at_end = self.best == last and last > 1
        said = f"{votes} of 4 say {self.best} clusters ({words})."
        said += f" {last} is the largest that was tried: try more." if at_end else ""
        unsure = "" if votes >= 3 else " They do not agree: look at the clusters, or at a mixture's evidence."
        return Verdict(votes >= 3 and not at_end, said + unsure, dict(self.choices))


@takes_key
def choose_num_clusters(
    X: Any, numbers: Sequence[int] = tuple(range(1, 11)), *, key: Key, weights: Any = None,
    num_starts: int = 5, num_references: int = 10, sample: int = 2000, progress: bool = True,
) -> ClusterNumbers:  # fmt: skip
    """Cluster into each of `numbers`, and compare.

    >>> rows = np.concatenate([np.random.default_rng(j).normal(9.0 * j, 1, size=(40, 2)) for j in range(3)])
    >>> choose_num_clusters(rows, range(1, 6), key=0).best
    3
    """
    rows = Rows.of(X, None, weights)
    counts = np.array(sorted({check_count("numbers", k, most=rows.num_rows) for k in numbers}))
    check(len(counts) >= 2, "numbers", "at least two numbers of clusters", counts.tolist())
    references = [
        _uniform(generator(key, 1, b), rows) for b in range(check_count("num_references", num_references, 2))
    ]
    found = {name: np.full(len(counts), np.nan) for name in ("cost", "silhouette", "gap", "gap_error", "bic")}
    chosen = generator(key, 2).permutation(rows.num_rows)[:sample]
    with progress_bar(len(counts), "numbers of clusters", progress=progress) as bar:
        for place, k in enumerate(counts):
            own = _words(key, 3, k)
            fitted = KMeans.fit(rows, int(k), key=own, num_starts=num_starts, tol=0.0, progress=False)
            found["cost"][place] = fitted.cost
            found["bic"][place] = _bic(fitted, rows)
            if k > 1:
                found["silhouette"][place] = silhouette(
                    rows.X[chosen], fitted.labels[chosen], weights=rows.weights[chosen]
                )
            gaps = [_log_cost(each, int(k), _words(key, 4, k, b)) for b, each in enumerate(references)]
            found["gap"][place] = np.mean(gaps) - _log(fitted.cost)
            found["gap_error"][place] = np.std(gaps) * np.sqrt(1 + 1 / len(gaps))
            bar.advance()
    return ClusterNumbers(counts, **found, choices=_choices(counts, found))


def silhouette(X: Any, labels: Any, *, weights: Any = None) -> float:
    """The mean silhouette of a partition with the Euclidean distance, from -1 to 1.

    >>> round(silhouette([[0.0], [1.0], [9.0], [10.0]], [0, 0, 1, 1]), 3)
    0.889
    """
    from scipy.spatial.distance import cdist

    rows = Rows.of(X, None, weights, absent="keep")
    codes = np.unique(check_partition(labels, num_rows=rows.num_rows), return_inverse=True)[1]
    k, w = int(codes.max()) + 1, rows.weights
    check(k > 1, "labels", "of at least two clusters", "one")
    shares = np.zeros((rows.num_rows, k))
    shares[np.arange(rows.num_rows), codes] = w
    mass, score = shares.sum(0), np.zeros(rows.num_rows)
    for low in range(0, rows.num_rows, 512):
        part = slice(low, low + 512)
        sums, own = cdist(rows.X[part], rows.X) @ shares, codes[part]
        places = np.arange(len(own))
        others = mass[own] - 1.0  # the row itself is at distance zero
        with np.errstate(invalid="ignore", divide="ignore"):
            inside = sums[places, own] / others
            means = sums / mass
        means[:, mass == 0] = np.inf
        means[places, own] = np.inf
        outside = means.min(1)
        widest = np.maximum(inside, outside)
        with np.errstate(invalid="ignore"):
            value = np.where(widest > 0, (outside - inside) / widest, 0.0)
        score[part] = np.where(others > 0, value, 0.0)
    return float(w @ score / w.sum())


def _choices(counts: np.ndarray, found: dict[str, np.ndarray]) -> dict[str, int]:
    gap, error = found["gap"], found["gap_error"]
    top = int(gap.argmax())
    with np.errstate(divide="ignore"):
        logs = np.log(np.maximum(found["cost"], np.finfo(float).tiny))
    chord = logs[0] + (counts - counts[0]) / (counts[-1] - counts[0]) * (logs[-1] - logs[0])
    silhouettes = np.where(np.isnan(found["silhouette"]), -np.inf, found["silhouette"])
    return {
        "gap": int(counts[(gap >= gap[top] - error[top]).argmax()]),
        "silhouette": int(counts[silhouettes.argmax()]),
        "elbow": int(counts[(chord - logs).argmax()]),
        "bic": int(counts[found["bic"].argmin()]),
    }


def _bic(fitted: Any, rows: Rows) -> float:
    r"""$-2\log L + p\log n$ with
    $\log L = \sum_j N_j\log(N_j/n) - \frac{nd}{2}\log(2\pi v) - \frac{W}{2v}$."""
    n, d, k = float(rows.total), rows.num_columns, fitted.model.num_clusters
    variance = fitted.cost / (d * (n - k)) if n > k else 0.0
    if variance <= 0:
        return np.inf  # the likelihood of points on their centres has no bound: no evidence for so many
    sizes = np.asarray(fitted.sizes)
    sizes = sizes[sizes > 0]
    likelihood = (
        sizes @ np.log(sizes / n) - n * d / 2 * np.log(2 * np.pi * variance) - fitted.cost / variance / 2
    )
    return float(-2 * likelihood + (k * d + k) * np.log(n))


def _uniform(numbers: np.random.Generator, rows: Rows) -> Rows:
    """As many rows, uniform in the box of the principal axes."""
    centre = np.average(rows.X, axis=0, weights=rows.weights)
    axes = np.linalg.svd(rows.X - centre, full_matrices=False)[2]
    turned = (rows.X - centre) @ axes.T
    drawn = numbers.uniform(turned.min(0), turned.max(0), size=turned.shape)
    return Rows.of(drawn @ axes, None, rows.weights)


def _log_cost(rows: Rows, k: int, key: Any) -> float:
    return _log(KMeans.fit(rows, k, key=key, progress=False).cost)


def _log(cost: float) -> float:
    return float(np.log(max(cost, np.finfo(float).tiny)))


def _words(key: Any, *stream: Any) -> Any:
    return np.asarray(generator(key, *(int(s) for s in stream)).integers(2**32, size=2), np.uint32)
