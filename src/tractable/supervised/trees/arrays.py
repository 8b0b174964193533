r"""Growing a tree and walking it by NumPy: for few rows, where compiling the loops would take longer.

Twin.        The functions of supervised.trees.loops with the same arguments and answers: splits, ties,
             draws of columns and the order of nodes.
Split.       All columns of a node at once: codes sorted, class weights (or weighted deviations) summed along
             them, every boundary scored. Missing entries come last, then first.
Ties.        Only a strict record can be better by $10^{-12}$ than the best before it: those few are compared
             one by one.
Cost.        About 200 microseconds for each node.
References.  Breiman, Friedman, Olshen and Stone (1984).
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import xlogy

__all__ = ["ENTROPY", "GINI", "TIE", "VARIANCE", "Drawer", "add_leaf_values", "grow", "leaves_of"]

GINI, ENTROPY, VARIANCE = 0, 1, 2
TIE = 1e-12
_WORD = (1 << 64) - 1


class Split(NamedTuple):
    """The best split of a node: score, column, last code on the left, first on the right, side of missing."""

    score: float
    feature: int
    low: int
    high: int
    missing_left: bool


class Drawer:
    """Columns for each node, drawn without replacement by a 64-bit xorshift; in order if all are asked."""

    def __init__(self, num_columns: int, max_features: int, seed: Any):
        self.features, self.max_features = list(range(num_columns)), max_features
        self.state = int(seed) | 1

    def columns(self, varies: list[bool]) -> list[int]:
        """The next columns that vary; constant ones take a place, but at least one that varies is found."""
        found, num_columns = [], len(self.features)
        for visited in range(num_columns):
            if visited >= self.max_features and found:
                break
            if self.max_features < num_columns:
                other = visited + self.below(num_columns - visited)
                self.features[visited], self.features[other] = self.features[other], self.features[visited]
            if varies[self.features[visited]]:
                found.append(self.features[visited])
        return found

    def below(self, bound: int) -> int:
        """A random whole number below `bound`."""
        x = self.state
        x ^= x >> 12
        x ^= (x << 25) & _WORD
        x ^= x >> 27
        self.state = x
        return (((x * 2685821657736338717) & _WORD) >> 32) * bound >> 32


class _Grown:
    """The nodes so far, and what the next ones are grown from."""

    def __init__(self, codes, labels, targets, weights, num_classes, criterion, limits, drawer):
        self.codes, self.labels, self.targets, self.weights = codes, labels, targets, weights
        self.num_classes, self.criterion, self.limits, self.drawer = num_classes, criterion, limits, drawer
        self.rows: list[np.ndarray] = []
        self.depths: list[int] = []
        self.places: list[list[int]] = []  # feature, low, high, left, missing left, missing seen
        self.values: list[np.ndarray] = []
        self.moments: list[list[float]] = []  # weight, impurity, gain

    def add(self, rows: np.ndarray, depth: int) -> None:
        """A node that has not been looked at."""
        self.rows.append(rows)
        self.depths.append(depth)
        self.places.append([-1, 0, 0, -1, 0, 0])
        self.values.append(np.empty(0))
        self.moments.append([0.0, 0.0, 0.0])

    def open(self, node: int, least_gain: float) -> bool:
        """The value and spread of a node, and its best split; whether there is one."""
        mine, depth_limit, least = self.rows[node], self.limits[0], self.limits[1]
        w, moments = self.weights[mine], self.moments[node]
        weight = moments[0] = _sum(w)
        if self.criterion == VARIANCE:
            y = self.targets[mine]
            centre = y[0] + _sum(w * (y - y[0])) / weight
            away = y - centre
            items, total = (w * away)[:, None], np.zeros(1)
            moments[1] = _sum(w * away * away) / weight
            self.values[node], pure = np.array([centre]), bool((y == y[0]).all())
            scale, before = moments[1] * weight, 0.0
        else:
            y = self.labels[mine]
            total = np.bincount(y, w, self.num_classes)
            items = np.zeros((y.size, self.num_classes))
            items[np.arange(y.size), y] = w
            moments[1] = _impurity(total / weight, self.criterion)
            self.values[node], pure = total / weight, bool((y == y[0]).all())
            gini = self.criterion == GINI
            scale, before = weight, weight * (1.0 - moments[1]) if gini else -weight * moments[1]
        if pure or self.depths[node] == depth_limit or weight < 2 * least:
            return False
        found = self._best_split(mine, w, items, total, least, TIE * scale)
        moments[2] = found.score - before
        if found.feature < 0 or (least_gain > 0 and moments[2] < least_gain):
            return False
        self.places[node][:5] = found.feature, found.low, found.high, -1, int(found.missing_left)
        return True

    def divide(self, node: int) -> None:
        """Two children, with the rows of the node in their order."""
        feature, low, _, _, missing_left, _ = self.places[node]
        rows = self.rows[node]
        code = self.codes[feature, rows]
        goes_left = np.where(code >= 0, code <= low, missing_left == 1)
        self.places[node][3], self.places[node][5] = len(self.rows), int((code < 0).any())
        self.add(rows[goes_left], self.depths[node] + 1)
        self.add(rows[~goes_left], self.depths[node] + 1)

    def _best_split(self, mine, w, items, total, least, tie) -> Split:
        """The best boundary of the columns that are drawn; feature -1 if none is allowed."""
        nothing = Split(-np.inf, -1, -1, -1, False)
        part = self.codes[:, mine]
        highest, lowest = part.max(1), part.min(1)
        columns = self.drawer.columns(((highest >= 0) & (highest > lowest)).tolist())
        if not columns:
            return nothing
        part = part[columns]
        known = (part >= 0).sum(1)[:, None]
        keys = np.where(part >= 0, part, np.int32(2**31 - 1))
        order = np.argsort(keys, axis=1, kind="stable")
        keys = np.take_along_axis(keys, order, 1)
        left, weight = items[order].cumsum(1), w[order].cumsum(1)
        cut = keys[:, 1:] > keys[:, :-1]
        scores = [self._scores(left[:, :-1], weight[:, :-1], total, weight[:, -1:], cut, least)]
        if (known < mine.size).any():
            last = known[:, :, None] - 1
            extra = left[:, -1:] - np.take_along_axis(left, last, 1)
            more = weight[:, -1:] - np.take_along_axis(weight, known - 1, 1)
            cut = cut & (np.arange(mine.size - 1) < known - 1) & (known < mine.size)
            lefts, weights = left[:, :-1] + extra, weight[:, :-1] + more
            scores.append(self._scores(lefts, weights, total, weight[:, -1:], cut, least))
        stacked = np.stack(scores, 1)
        best, at = _first_record(stacked.reshape(-1), tie)
        if at < 0:
            return nothing
        column, side, i = np.unravel_index(at, stacked.shape)
        high = int(keys[column, i + 1]) if i + 1 < known[column, 0] else -1
        return Split(best, columns[column], int(keys[column, i]), high, bool(side))

    def _scores(self, left, weight, total, whole, cut, least) -> np.ndarray:
        """The score of each boundary, minus infinity where there is none or a side is too light."""
        rest, right = whole - weight, total - left
        # beside huge weights, tiny ones round to nothing
        allowed = cut & (weight >= least) & (rest >= least) & (rest > 0) & (weight > 0)
        w, r = np.where(allowed, weight, 1.0), np.where(allowed, rest, 1.0)
        if self.criterion == ENTROPY:
            left, right = np.maximum(left, 0.0), np.maximum(right, 0.0)  # below zero by rounding alone
            found = (xlogy(left, left / w[..., None]) + xlogy(right, right / r[..., None])).sum(-1)
        else:
            found = ((left * left).sum(-1) * r + (right * right).sum(-1) * w) / (w * r)
        return np.where(allowed, found, -np.inf)


def grow(
    codes, labels, targets, weights, rows, num_classes, criterion, limits, max_features, seed
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Node arrays of the tree grown on `rows`, as by `supervised.trees.loops.grow`."""
    drawer = Drawer(len(codes), max_features, seed)
    grown = _Grown(codes, labels, targets, weights, num_classes, criterion, limits, drawer)
    leaf_limit, least_gain = limits[2], limits[3] * _sum(weights[rows])
    grown.add(rows, 0)
    opened, waiting = 0, []
    while True:
        fresh = range(len(grown.rows) - 1, opened - 1, -1)  # the left child last, so that it is taken first
        waiting += [node for node in fresh if grown.open(node, least_gain)]
        opened = len(grown.rows)
        if not waiting or (0 < leaf_limit <= (opened + 1) // 2):
            break
        place = len(waiting) - 1
        if leaf_limit > 0:  # the largest gain, of equals the oldest
            place = max(range(len(waiting)), key=lambda i: grown.moments[waiting[i]][2])
        grown.divide(waiting.pop(place))
    for node in waiting:  # leaves that a limit left undivided
        grown.places[node][0] = -1
    return np.array(grown.places), np.stack(grown.values), np.array(grown.moments)


def leaves_of(X, feature, threshold, left, missing_left, root) -> np.ndarray:
    """The leaf that each row reaches."""
    node = np.full(len(X), root, np.int32)
    walking = np.arange(len(X)) if feature[root] >= 0 else np.arange(0)
    while walking.size:
        at = node[walking]
        x = X[walking, feature[at]]
        goes_left = (x <= threshold[at]) | (np.isnan(x) & missing_left[at])
        at = np.where(goes_left, left[at], left[at] + 1)
        node[walking] = at
        walking = walking[feature[at] >= 0]
    return node


def add_leaf_values(X, feature, threshold, left, missing_left, roots, values, shares, out) -> None:
    """Add `shares[t]` times the value of the leaf in each tree `t` to `out`, tree by tree."""
    for root, share in zip(roots.tolist(), shares.tolist()):
        out += share * values[leaves_of(X, feature, threshold, left, missing_left, root)]


def _sum(numbers: np.ndarray) -> float:
    """Summed from the first to the last, as the loops do."""
    return float(numbers.cumsum()[-1])


def _impurity(shares: np.ndarray, criterion: int) -> float:
    found = 1.0 if criterion == GINI else 0.0
    for share in shares.tolist():
        if criterion == GINI:
            found -= share * share
        elif share > 0:
            found -= share * float(np.log(share))
    return max(found, 0.0)


def _first_record(scores: np.ndarray, tie: float) -> tuple[float, int]:
    """The last of the scores, in their order, that was above the best before it by more than `tie`; or -1."""
    before = np.append(-np.inf, np.maximum.accumulate(scores)[:-1])
    best, at = -np.inf, -1
    for i in np.flatnonzero(scores > before).tolist():
        if scores[i] > best + tie:
            best, at = float(scores[i]), i
    return best, at
