"""The compiled walk of many rows down many trees; the twin of the walks in `supervised.trees.tree`."""

from typing import no_type_check

import numba

__all__ = ["leaves_of"]


@numba.njit(
    "void(float64[:, ::1], int32[::1], float64[::1], int32[::1], boolean[::1], int32[::1], int32[:, ::1])",
    nogil=True, cache=True, error_model="numpy",
)  # fmt: skip
@no_type_check
def leaves_of(X, feature, threshold, left, missing_left, roots, found):
    """The leaf that each row reaches from each root."""
    for t in range(roots.size):
        for i in range(X.shape[0]):
            node = roots[t]
            while feature[node] >= 0:
                x = X[i, feature[node]]
                node = left[node] + (0 if x <= threshold[node] or (x != x and missing_left[node]) else 1)
            found[t, i] = node
