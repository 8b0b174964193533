"""The best split of one node by trying every column, every cut and both sides for missing entries."""

import numpy as np


def impurity(y, w, criterion):
    """Gini, entropy (nats) or variance of weighted rows."""
    if criterion == "variance":
        return float(np.average((y - np.average(y, weights=w)) ** 2, weights=w))
    shares = np.array([w[y == k].sum() for k in np.unique(y)]) / w.sum()
    return float(1 - (shares**2).sum()) if criterion == "gini" else float(-(shares * np.log(shares)).sum())


def splits(X, y, w, criterion, least=0.0):
    """All splits as (decrease of weight times impurity, column, threshold, mask of the left rows)."""
    whole, found = w.sum() * impurity(y, w, criterion), []
    for j in range(X.shape[1]):
        column, missing = X[:, j], np.isnan(X[:, j])
        values = np.unique(column[~missing])
        cuts = [*((values[1:] + values[:-1]) / 2), *([np.inf] if missing.any() else [])]
        for cut in cuts:
            for side in (False, True) if missing.any() else (False,):
                left = np.where(missing, side, np.nan_to_num(column) <= cut)
                if w[left].sum() <= least or w[~left].sum() <= least or left.all() or not left.any():
                    continue
                parts = (w[m].sum() * impurity(y[m], w[m], criterion) for m in (left, ~left))
                found.append((whole - sum(parts), j, cut, left))
    return found
