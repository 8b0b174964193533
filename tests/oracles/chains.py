"""Diagnostics of chains by loops in NumPy, written from the published formulas."""

import math

import numpy as np
from scipy import stats


def split(chains):
    """Halves of each chain, without the middle draw of an odd number."""
    rows = []
    for chain in chains:
        half = len(chain) // 2
        rows += [list(chain[:half]), list(chain[len(chain) - half :])]
    return np.array(rows, float)


def variances(chains):
    """Within, between and pooled."""
    m, n = len(chains), len(chains[0])
    means = [sum(chain) / n for chain in chains]
    centre = sum(means) / m
    within = sum(sum((x - mean) ** 2 for x in chain) / (n - 1) for chain, mean in zip(chains, means)) / m
    between = n / (m - 1) * sum((mean - centre) ** 2 for mean in means)
    return within, between, (n - 1) / n * within + between / n


def rhat(chains):
    within, _, pooled = variances(chains)
    return math.sqrt(pooled / within)


def scores(chains):
    """Normal scores of average ranks."""
    ranks = stats.rankdata(chains, method="average").reshape(np.shape(chains))
    return stats.norm.ppf((ranks - 3 / 8) / (np.size(chains) + 1 / 4))


def rank_rhat(chains):
    halves = split(chains)
    # the two draws in the middle are as far from the median as each other, but for rounding
    distance = np.round(abs(halves - np.median(halves)), 12)
    return max(rhat(scores(halves)), rhat(scores(distance)))


def nested_rhat(chains, count):
    groups = np.reshape(chains, (count, len(chains) // count, -1))
    between = np.var([group.mean() for group in groups], ddof=1)
    within = 0.0
    for group in groups:
        inside = np.mean([np.var(chain, ddof=1) for chain in group])
        within += (np.var([chain.mean() for chain in group], ddof=1) + inside) / count
    return math.sqrt(1 + between / within)


def autocovariance(chain, lag):
    mean, n = np.mean(chain), len(chain)
    return sum((chain[i] - mean) * (chain[i + lag] - mean) for i in range(n - lag)) / n


def size(chains):
    """Geyer's initial monotone sequence, one pair at a time."""
    m, n = np.shape(chains)
    within, _, pooled = variances(chains)

    def rho(lag):
        if lag == 0:
            return 1.0
        return 1 - (within - np.mean([autocovariance(chain, lag) for chain in chains])) / pooled

    total, before, lag = -1.0, math.inf, 0
    while True:
        even, odd = rho(lag), rho(lag + 1)
        if even + odd <= 0 or lag + 4 >= n:  # the last lags have too few products
            total += max(even, 0.0)
            break
        before = min(before, even + odd)
        total += 2 * before
        lag += 2
    return m * n / max(total, 1 / math.log10(m * n))


def quantile_size(chains, prob):
    below = (np.asarray(chains) <= np.quantile(chains, prob)).astype(float)
    return size(split(below))


def tail_size(chains):
    return min(quantile_size(chains, 0.05), quantile_size(chains, 0.95))


def mcse_quantile(chains, prob):
    worth = quantile_size(chains, prob)
    ends = stats.beta.ppf(stats.norm.cdf([-1, 1]), worth * prob + 1, worth * (1 - prob) + 1)
    ranked = sorted(np.ravel(chains))
    low = ranked[math.floor(max(ends[0] * len(ranked) - 1, 0))]
    high = ranked[math.ceil(min(ends[1] * len(ranked) - 1, len(ranked) - 1))]
    return (high - low) / 2


def mcse_sd(chains):
    squares = (np.asarray(chains) - np.mean(chains)) ** 2
    error_of_variance = math.sqrt((np.mean(squares**2) - np.mean(squares) ** 2) / size(split(squares)))
    return error_of_variance / (2 * math.sqrt(np.mean(squares)))


def variogram(chains):
    m, n = np.shape(chains)
    return [
        sum((chain[i] - chain[i - k]) ** 2 for chain in chains for i in range(k, n)) / (m * (n - k))
        for k in range(n)
    ]


def variogram_size(chains):
    m, n = np.shape(chains)
    pooled = variances(chains)[2]
    rho = [1 - v / (2 * pooled) for v in variogram(chains)]
    for k in range(1, n, 2):
        if k + 2 >= n or rho[k + 1] + rho[k + 2] < 0:
            break
    return m * n / (1 + 2 * sum(rho[1 : k + 1]))
