r"""The one judge of all samplers: rank-normalised split bulk effective sample size, in plain NumPy.

The free numbers of every library are judged alike, by the least effective sample size of any of them.
"""

from collections.abc import Iterator

import numpy as np
from scipy.special import ndtri


def bulk_ess(draws: np.ndarray) -> float:
    r"""Bulk effective sample size of one quantity, shape `(chains, draws)`.

    Chains are split in halves and ranks made normal scores; autocovariances of all chains together, with the
    variance between chains, are summed by Geyer's initial monotone sequence.
    """
    length = draws.shape[1]
    half = length // 2
    split = np.concatenate([draws[:, :half], draws[:, length - half :]])
    if not np.isfinite(split).all() or np.ptp(split) == 0:
        return float("nan")
    scores = ndtri((_ranks(split) - 0.375) / (split.size + 0.25))
    return _ess(scores)


def _ess(chains: np.ndarray) -> float:
    m, n = chains.shape
    centred = chains - chains.mean(1, keepdims=True)
    size = 1 << (2 * n - 1).bit_length()
    spectrum = np.abs(np.fft.rfft(centred, size)) ** 2
    covariance = np.fft.irfft(spectrum, size)[:, :n].mean(0) / n
    within = covariance[0] * n / (n - 1)
    pooled = within * (n - 1) / n + chains.mean(1).var(ddof=1)
    rho = 1 - (within - covariance * n / (n - 1)) / pooled
    rho[0] = 1.0
    pairs = rho[: n // 2 * 2].reshape(-1, 2).sum(1)
    stop = np.argmax(pairs < 0) if (pairs < 0).any() else len(pairs)
    falling = np.minimum.accumulate(pairs[:stop])
    return float(m * n / max(2 * falling.sum() - 1, 1 / np.log10(m * n)))


def least_ess(draws: dict[str, np.ndarray]) -> tuple[float, str]:
    """The least bulk effective sample size of all numbers, and the name of the number that has it."""
    found = [(bulk_ess(column), label) for label, column in columns(draws)]
    missing = [pair for pair in found if np.isnan(pair[0])]
    return missing[0] if missing else min(found)


def mean_error(draws: np.ndarray) -> float:
    """The Monte Carlo standard error of the mean of one quantity, shape `(chains, draws)`."""
    half = draws.shape[1] // 2
    return float(draws.std() / np.sqrt(_ess(np.concatenate([draws[:, :half], draws[:, -half:]]))))


def split_rhat(draws: dict[str, np.ndarray]) -> float:
    """The largest split R-hat of all numbers."""
    worst = 1.0
    for _, column in columns(draws):
        half = column.shape[1] // 2
        split = np.concatenate([column[:, :half], column[:, -half:]])
        between, within = split.mean(1).var(ddof=1), split.var(1, ddof=1).mean()
        worst = max(worst, float(np.sqrt((half - 1) / half + between / within)))
    return worst


def columns(draws: dict[str, np.ndarray], first: int = 0) -> Iterator[tuple[str, np.ndarray]]:
    """Every number by its name, counted from `first`, with its draws of shape `(chains, draws)`."""
    for name, values in draws.items():
        flat = np.asarray(values, float).reshape((*values.shape[:2], -1))
        single = values.ndim == 2
        for k in range(flat.shape[2]):
            yield (name if single else f"{name}[{k + first}]"), flat[:, :, k]


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from one, ties averaged; without `scipy.stats`, whose import takes longer than some runs."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[place].reshape(values.shape)
