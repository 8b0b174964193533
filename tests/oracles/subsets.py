"""Probabilities of subsets by listing them all: slow, obvious, NumPy only."""

import itertools
import math

import numpy as np

__all__ = [
    "bernoulli_sum",
    "chi_square",
    "elementary_symmetric",
    "gram_schmidt",
    "inclusion",
    "masks",
    "ordered_draws",
    "random_kernel",
    "set_index",
    "set_probs",
]


def random_kernel(seed: int, count: int, rank: int | None = None, scale: float = 1.0) -> np.ndarray:
    """A random positive semi-definite matrix of the given rank."""
    factor = np.random.default_rng(seed).normal(size=(count, rank or count)) * scale
    return factor @ factor.T


def masks(count: int) -> np.ndarray:
    """All 0/1 vectors of one length, counting upwards with the first entry as the highest digit."""
    return np.array(list(itertools.product((0, 1), repeat=count)))


def set_index(draws: np.ndarray) -> np.ndarray:
    """The row of `masks` that each draw is."""
    draws = np.asarray(draws)
    return draws @ (2 ** np.arange(draws.shape[-1])[::-1])


def set_probs(L: np.ndarray, size: int | None = None) -> np.ndarray:
    """det(L_Y) of every subset (of `size` items), divided by their sum."""
    rows = masks(len(L))
    weights = np.array([np.linalg.det(L[np.ix_(r == 1, r == 1)]) if r.any() else 1.0 for r in rows])
    if size is not None:
        weights = np.where(rows.sum(1) == size, weights, 0.0)
    return weights / weights.sum()


def inclusion(probs: np.ndarray, items) -> float:
    """The sum of the probabilities of the subsets that have all of `items`."""
    rows = masks(int(np.log2(len(probs))))
    return probs[(rows[:, list(items)] == 1).all(1)].sum()


def elementary_symmetric(values, order: int) -> float:
    """The sum over all choices of `order` values of their product."""
    return math.fsum(math.prod(chosen) for chosen in itertools.combinations(values, order))


def bernoulli_sum(probs) -> np.ndarray:
    """The probabilities of the number of successes in independent trials, by convolution."""
    total = np.ones(1)
    for p in probs:
        total = np.convolve(total, [1 - p, p])
    return total


def gram_schmidt(vectors: np.ndarray) -> np.ndarray:
    """The squared length of each row after taking away its projections onto the rows before it."""
    basis, lengths = [], []
    for v in np.asarray(vectors, float):
        for _ in range(2):
            for b in basis:
                v = v - (v @ b) * b
        lengths.append(v @ v)
        basis.append(v / np.linalg.norm(v))
    return np.array(lengths)


def ordered_draws(weights, count: int) -> dict[tuple[int, ...], float]:
    """The probability of each ordered draw of `count` indices without replacement."""
    probs = {}
    for items in itertools.permutations(range(len(weights)), count):
        left, prob = float(sum(weights)), 1.0
        for i in items:
            prob, left = prob * weights[i] / left, left - weights[i]
        probs[items] = prob
    return probs


def chi_square(counts, probs) -> float:
    """Pearson's statistic over the possible cells; a count in any other cell is infinite evidence."""
    counts, probs = np.asarray(counts, float), np.asarray(probs, float)
    if counts[probs <= 0].any():
        return np.inf
    expected = counts.sum() * probs[probs > 0]
    return float(((counts[probs > 0] - expected) ** 2 / expected).sum())
