r"""Many levels in few numbers: the mean target of a level, shrunken, and never from the row itself.

Model.       $t_{ki} = \mu + u_k + e_{ki}$, $u_k \sim N(0, \tau^2)$, $e_{ki} \sim N(0, \sigma^2)$ for row
             $i$ of level $k$. With the variances by moments (analysis of variance), $E[u_k \mid t] =
             \frac{\sum_i (t_{ki} - \mu)}{n_k + \sigma^2 / \tau^2}$.
Folds.       A row's fold is a hash of its own cells, and its code is taken from the rows of other folds. So
             the target of a row never enters its own code, training rows and new rows are coded by one
             rule, and `fit(rows).transform(rows)` is no leak. A level loses one row in `FOLDS`.
Targets.     Numbers as they are, positive skewed ones by their logarithm, classes by a column of zeros and
             ones for each (two classes: one).
None.        Where $\tau^2 \le 0$: levels do not tell more than chance. Where rows are seldom different in
             other columns, folds would be cut along these, and there is no code.
Cost.        Linear in the rows.
References.  Micci-Barreca (2001), A preprocessing scheme for high-cardinality categorical attributes.
"""

from typing import Any

import numpy as np

__all__ = ["FOLDS", "Impact", "are_different", "folds_of", "hashed_rows", "impact_targets"]

FOLDS = 8
_MOST_CLASSES = 10
_LEAST_DIFFERENT = 0.5  # of the rows
_BLOCK = 1 << 14


class Impact:
    """The codes of the levels of one column."""

    def __init__(self, name: str):
        self.name = name

    def fit(self, codes: np.ndarray, folds: np.ndarray, targets: np.ndarray, num_levels: int) -> "Impact":
        """From the level (negative: none), the fold and the targets `(rows, k)` of each row."""
        known = (codes >= 0) & ~np.isnan(targets).any(1)
        codes, folds, targets = codes[known], folds[known], targets[known]
        centred = targets - targets.mean(0) if len(targets) else targets
        place = codes * FOLDS + folds
        size = num_levels * FOLDS
        self.counts = np.bincount(place, minlength=size).reshape(num_levels, FOLDS).astype(float)
        sums = [np.bincount(place, column, size).reshape(num_levels, FOLDS) for column in centred.T]
        ratios = [variance_ratio(self.counts.sum(1), s.sum(1), float(t @ t)) for s, t in zip(sums, centred.T)]
        self.kept = [j for j, ratio in enumerate(ratios) if np.isfinite(ratio)]
        self.ratios = np.array([ratios[j] for j in self.kept])
        self.sums = np.array([sums[j] for j in self.kept]).reshape(len(self.kept), num_levels, FOLDS)
        self.scales = np.array([centred[:, j].std() or 1.0 for j in self.kept])
        return self

    def transform(self, codes: np.ndarray, folds: np.ndarray) -> np.ndarray:
        """The code of each row from the rows of other folds; zero for levels never seen and gaps."""
        place = np.maximum(codes, 0)
        counts = self.counts.sum(1)[place] - self.counts[place, folds]
        found = [
            (sums.sum(1)[place] - sums[place, folds]) / (counts + ratio) / scale
            for sums, ratio, scale in zip(self.sums, self.ratios, self.scales)
        ]
        table = np.column_stack(found) if found else np.zeros((len(codes), 0))
        return np.where((codes >= 0)[:, None], table, 0.0)

    @property
    def outputs(self) -> list[tuple[str, str]]:
        """Name and source of each encoded column."""
        single = len(self.kept) == 1 and self.kept == [0]
        return [(f"{self.name} impact" + ("" if single else f"{j + 1}"), self.name) for j in self.kept]

    def state(self) -> dict[str, Any]:
        return {
            "name": self.name, "counts": self.counts, "sums": self.sums,
            "ratios": self.ratios, "scales": self.scales, "kept": list(self.kept),
        }  # fmt: skip

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Impact":
        part = cls(state["name"])
        part.kept = list(state["kept"])
        for name in ("counts", "sums", "ratios", "scales"):
            setattr(part, name, np.asarray(state[name]))
        return part


def variance_ratio(counts: np.ndarray, sums: np.ndarray, total: float) -> float:
    r"""$\sigma^2 / \tau^2$ by moments from the sizes and sums of levels and $\sum t^2$ of centred targets;
    infinite where the levels differ no more than chance lets them.

    >>> variance_ratio(np.array([2.0, 2.0]), np.array([2.0, -2.0]), 4.0)
    0.0
    """
    present = counts > 0
    counts, sums = counts[present], sums[present]
    rows, levels = float(counts.sum()), len(counts)
    if levels < 2 or rows <= levels:
        return np.inf
    between = float((sums**2 / counts).sum())
    within = max(total - between, 0.0) / (rows - levels)
    size = (rows - float((counts**2).sum()) / rows) / (levels - 1)
    spread = (between / (levels - 1) - within) / size
    return within / spread if spread > 0 else np.inf


def impact_targets(y: Any, are_classes: bool = False) -> np.ndarray | None:
    """The targets `(rows, k)` whose means are codes, numbers only as `are_classes` says; None where `y` is
    not one column."""
    from tractable.tables.cells import factorised
    from tractable.tables.target import order_of, series_of, target_task

    values = np.asarray(y, dtype=object) if not hasattr(y, "dtype") else y
    if np.ndim(values) != 1 or getattr(values.dtype, "names", None):
        return None
    column = series_of(y)
    task = "classes" if are_classes else target_task(column)
    if task in ("binary", "classes"):
        codes, words = factorised(column)
        common = np.argsort(-np.bincount(codes[codes >= 0], minlength=len(words)), kind="stable")
        chosen = common[:1] if len(words) == 2 else common[:_MOST_CLASSES]
        found = (codes[:, None] == chosen).astype(float)
        return np.where((codes < 0)[:, None], np.nan, found)
    if task == "ordered":
        codes, words = factorised(column)
        places = {word: float(place) for place, word in enumerate(order_of(column) or ())}
        return np.array([*(places.get(word, np.nan) for word in words), np.nan])[codes][:, None]
    from tractable.tables.cells import numbers_of

    numbers = numbers_of(column)
    return (np.log(numbers) if task == "positive" else numbers)[:, None]


def hashed_rows(matrix: np.ndarray) -> np.ndarray:
    """A number for each row that depends on all its bits, and on nothing else."""
    weights = _mixed(np.arange(1, matrix.shape[1] + 1, dtype=np.uint64)) | np.uint64(1)
    found = np.zeros(len(matrix), np.uint64)
    for start in range(0, len(matrix), _BLOCK):
        part = np.ascontiguousarray(matrix[start : start + _BLOCK] + 0.0)  # minus zero is zero
        part[np.isnan(part)] = 0.123456789  # as good as any
        bits = _mixed(part.view(np.uint64) * weights)
        found[start : start + _BLOCK] = _mixed(bits.sum(1, dtype=np.uint64))
    return found


def folds_of(hashes: np.ndarray) -> np.ndarray:
    """The fold of each row, by its hash."""
    return (hashes % np.uint64(FOLDS)).astype(int)


def are_different(hashes: np.ndarray) -> bool:
    """Whether at least half of the rows are different."""
    return len(np.unique(hashes)) >= _LEAST_DIFFERENT * len(hashes)


def _mixed(bits: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
