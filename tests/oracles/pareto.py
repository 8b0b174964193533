"""Pareto-smoothed weights by loops in NumPy, written from the published description."""

import math

import numpy as np


def fit(excesses):
    """Zhang and Stephens' estimate of the generalised Pareto shape and scale, one candidate at a time."""
    x = np.sort(np.asarray(excesses, float))
    n = len(x)
    m = 30 + math.floor(math.sqrt(n))
    quartile = x[math.floor(n / 4 + 0.5) - 1]
    candidates, scores = [], []
    for j in range(1, m + 1):
        b = 1 / x[-1] + (1 - math.sqrt(m / (j - 0.5))) / (3 * quartile)
        k = np.mean([math.log(1 - b * value) for value in x])
        candidates.append(b)
        scores.append(n * (math.log(-b / k) - k - 1))
    heights = [math.exp(score - max(scores)) for score in scores]
    weights = [height / sum(heights) for height in heights]
    b = sum(w * c for w, c in zip(weights, candidates))
    k = float(np.mean(np.log1p(-b * x)))
    return (n * k + 10 * 0.5) / (n + 10), -k / b


def smooth(log_weights, tail):
    """The smoothed log-weights and the shape, by sorting a list."""
    order = np.argsort(log_weights)
    top = max(log_weights)
    ratios = np.exp(np.asarray(log_weights) - top)
    threshold = ratios[order[-tail - 1]]
    largest = order[-tail:]
    k, sigma = fit(ratios[largest] - threshold)
    out = np.array(log_weights, float)
    for rank, index in enumerate(largest):
        p = (rank + 0.5) / tail
        quantile = threshold + sigma * ((1 - p) ** (-k) - 1) / k
        out[index] = min(math.log(quantile), 0.0) + top
    return out, k
