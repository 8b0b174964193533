"""The Kalman filter and the Rauch-Tung-Striebel smoother in NumPy: one time at a time, with inverses."""

import numpy as np


def kalman_filter(mean, cov, move, move_cov, look, look_cov, observations):
    """Filtering means and covariances, and the log-likelihood; x_0 ~ N(mean, cov) is observed at once.

    A row of NaN is missing.
    """
    mean, cov = np.asarray(mean, float), np.asarray(cov, float)
    means, covs, log_likelihood = [], [], 0.0
    for t, y in enumerate(observations):
        if t > 0:
            mean, cov = move @ mean, move @ cov @ move.T + move_cov
        if not np.isnan(y).all():
            spread = look @ cov @ look.T + look_cov
            gap = y - look @ mean
            log_likelihood -= 0.5 * (
                gap @ np.linalg.inv(spread) @ gap + np.log(np.linalg.det(2 * np.pi * spread))
            )
            gain = cov @ look.T @ np.linalg.inv(spread)
            mean, cov = mean + gain @ gap, cov - gain @ look @ cov
        means.append(mean)
        covs.append(cov)
    return np.array(means), np.array(covs), log_likelihood


def kalman_smoother(means, covs, move, move_cov):
    """Smoothing means and covariances from those of the filter."""
    means, covs = means.copy(), covs.copy()
    for t in range(len(means) - 2, -1, -1):
        ahead = move @ covs[t] @ move.T + move_cov
        gain = covs[t] @ move.T @ np.linalg.inv(ahead)
        means[t] = means[t] + gain @ (means[t + 1] - move @ means[t])
        covs[t] = covs[t] + gain @ (covs[t + 1] - ahead) @ gain.T
    return means, covs
