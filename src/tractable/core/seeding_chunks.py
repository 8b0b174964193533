r"""Rows that are far apart, from rows that do not fit in memory: k-means||.

Rounds.      Each pass over the chunks keeps $\ell = 2k$ rows at once, without replacement in proportion to
             $w_i D_i^2$: those of least $E_i/(w_i D_i^2)$ with $E_i$ exponential, so that no pass is needed
             for the sum. After five passes every row counts for its nearest candidate, and k-means++ chooses
             among the candidates by those weights.
Promise.     As k-means++, a constant times $\log k$ above the least cost in expectation, in six passes over
             the rows instead of $k$.
Cost.        $O(nd\ell)$ per pass; memory for one chunk, the candidates, and one number per row.
References.  Bahmani, Moseley, Vattani, Kumar and Vassilvitskii (2012); Efraimidis and Spirakis (2006) (keys).
"""

from typing import Any

import numpy as np

from tractable.core.assignment import nearest_centres
from tractable.core.checks import check, check_count
from tractable.core.chunks import Chunks
from tractable.core.host_random import generator, key_words
from tractable.core.seeding import far_apart, usual_trials
from tractable.core.types import Float, Key

__all__ = ["far_apart_in_chunks"]


def far_apart_in_chunks(
    key: Key | np.ndarray, parts: Chunks, count: int, *, rounds: int = 5, oversampling: float = 2.0
) -> Float[np.ndarray, "count d"]:
    """`count` rows far apart from chunks that can be read again; see `core.chunks.chunks`.

    >>> import jax.random as jr
    >>> from tractable.core.chunks import chunks
    >>> rows = np.repeat(np.arange(3.0), 40)[:, None]
    >>> sorted(far_apart_in_chunks(jr.key(0), chunks(rows, 16), 3).ravel().tolist())
    [0.0, 1.0, 2.0]
    """
    fix = "Pass a function that makes the generator."
    check(parts.reiterable, "parts", "readable more than once", "a one-shot iterator", fix)
    count, rounds = check_count("count", count), check_count("rounds", rounds)
    most = max(1, int(np.ceil(oversampling * count)))
    state = _Candidates(parts)
    state.add(generator(key, 0), 1)
    for index in range(rounds):
        state.add(generator(key, 1 + index), most)
    rows, weights = state.weighted()
    check(len(rows) >= count, "count", f"at most the {len(rows)} distinct rows that were found", count)
    words = np.concatenate([key_words(key), [rounds + 1]]).astype(np.uint32)
    return rows[far_apart(words, rows, count, weights=weights, trials=usual_trials(count))]


class _Candidates:
    """Candidates so far, and of each row the squared distance to them."""

    def __init__(self, parts: Chunks):
        self.parts = parts
        self.rows: np.ndarray | None = None
        self.new: np.ndarray | None = None
        self.squared: list[np.ndarray] = []

    def add(self, numbers: Any, most: int) -> None:
        """One pass: distances to the newest candidates, then `most` rows by mass."""
        keys, found = np.empty(0), np.empty((0, 0))
        for index, (rows, weights) in enumerate(self.parts):
            X, w = np.asarray(rows, float), np.asarray(weights, float)
            mass = w * self._distance(index, X)
            with np.errstate(divide="ignore"):
                own = numbers.exponential(size=len(X)) / mass  # infinite where there is no mass
            near = np.argsort(own, kind="stable")[:most]
            near = near[np.isfinite(own[near])]
            joined = np.concatenate([found.reshape(-1, X.shape[1]), X[near]])
            keys = np.concatenate([keys, own[near]])
            order = np.argsort(keys, kind="stable")[:most]
            keys, found = keys[order], joined[order]
        self.new = found
        self.rows = found if self.rows is None else np.concatenate([self.rows, found])

    def weighted(self) -> tuple[np.ndarray, np.ndarray]:
        """Distinct candidates, and the weight of the rows that are nearest to each."""
        rows = np.unique(np.asarray(self.rows), axis=0)
        counts = np.zeros(len(rows))
        for chunk, weights in self.parts:
            labels = nearest_centres(np.asarray(chunk, float), rows).labels
            counts += np.bincount(labels, weights=np.asarray(weights, float), minlength=len(rows))
        held = counts > 0
        return rows[held], counts[held]

    def _distance(self, index: int, X: np.ndarray) -> np.ndarray:
        if self.new is None:
            return np.ones(len(X))
        if index == len(self.squared):
            self.squared.append(np.full(len(X), np.inf))
        if len(self.new):
            self.squared[index] = np.minimum(self.squared[index], nearest_centres(X, self.new).squared)
        return self.squared[index]
