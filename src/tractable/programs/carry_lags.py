r"""How long what enters the carry of a loop stays there: the powers of the links of one step.

Identity.    With $c_t = C c_{t-1} \cup u_t$, $c_t = \bigcup_{j \ge 0} C^j u_{t-j}$. An element that feeds
             itself, through others or not, is on a loop of $C$; ways that avoid all loops are at most as
             long as there are elements, ways through one can be as long as one likes.
Cost.        A product of sparse boolean matrices for each lag.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_array, eye_array
from scipy.sparse.csgraph import connected_components

__all__ = ["lags"]

MAX_LAGS = 64


def lags(links: csr_array) -> Iterator[tuple[int, csr_array, bool]]:
    """The pairs of carried elements by lag: those linked at that lag alone, and those linked from it on.

    A way through an element that feeds itself can be as long as one likes; all other ways end.
    """
    size = len(links.indptr) - 1
    _, component = connected_components(links, connection="strong")
    looped = (np.bincount(component, minlength=1)[component] > 1) if size else np.zeros(0, bool)
    looped |= links.diagonal().astype(bool)
    finite = _restricted(links, ~looped)
    power, lag = finite, 1
    while power.nnz and lag <= MAX_LAGS:
        yield lag, power, False
        power, lag = _boolean(power @ finite), lag + 1
    if power.nnz:
        looped = np.ones(size, bool)  # so long a memory counts as one without end
    yield from _endless(links, looped)


def _endless(links: csr_array, looped: np.ndarray) -> Iterator[tuple[int, csr_array, bool]]:
    """Pairs with a way through a looped element, by the length of the shortest one."""
    size = len(links.indptr) - 1
    whole = csr_array(eye_array(size, format="csr"))
    marked = _boolean(_restricted(whole, looped))
    plain = _boolean(_restricted(whole, ~looped))
    seen_marked, seen_plain, lag = marked, plain, 0
    while marked.nnz or plain.nnz:
        if marked.nnz:
            yield lag, marked, True
        ahead = _boolean(links @ plain)
        through = _boolean(links @ marked + _rows(ahead, looped))
        marked = _without(through, seen_marked)
        plain = _without(_rows(ahead, ~looped), seen_plain)
        seen_marked, seen_plain = _boolean(seen_marked + marked), _boolean(seen_plain + plain)
        lag += 1


def _boolean(matrix: Any) -> csr_array:
    found = csr_array(matrix)
    found.eliminate_zeros()
    found.sort_indices()
    return csr_array((np.ones(found.nnz, bool), found.indices, found.indptr), shape=found.shape)


def _rows(matrix: csr_array, keep: np.ndarray) -> csr_array:
    entries = matrix.tocoo()
    good = keep[entries.row]
    ones = np.ones(int(good.sum()), bool)
    return csr_array((ones, (entries.row[good], entries.col[good])), shape=matrix.shape)


def _restricted(matrix: csr_array, keep: np.ndarray) -> csr_array:
    """The matrix with the rows and columns in `keep` alone."""
    entries = _rows(csr_array(matrix), keep).tocoo()
    good = keep[entries.col]
    ones = np.ones(int(good.sum()), bool)
    return csr_array((ones, (entries.row[good], entries.col[good])), shape=matrix.shape)


def _without(matrix: csr_array, seen: csr_array) -> csr_array:
    """The entries of a boolean matrix that are not in `seen`."""
    return _boolean(matrix.astype(np.int8) - matrix.astype(np.int8).multiply(seen.astype(np.int8)))
