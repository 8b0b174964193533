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


def dense_chain(initial, move, look, observations):
    """Mean and covariance of all states together, given all readings, and their log-likelihood.

    `move` and `look` are (matrices, offsets, covariances), one each or one per step; NaN is missing.
    """
    mean, cov = (np.asarray(part, float) for part in initial)
    length, size = len(observations), len(mean)
    moves = [
        np.broadcast_to(part, (length - 1, *np.shape(part)[-rank:])) for part, rank in zip(move, (2, 1, 2))
    ]
    looks = [np.broadcast_to(part, (length, *np.shape(part)[-rank:])) for part, rank in zip(look, (2, 1, 2))]
    means, total = [mean], np.zeros((length * size, length * size))
    total[:size, :size] = cov
    for t, (matrix, offset, noise) in enumerate(zip(*moves)):
        means.append(matrix @ means[-1] + offset)
        old, new = slice(t * size, (t + 1) * size), slice((t + 1) * size, (t + 2) * size)
        total[new, : new.start] = matrix @ total[old, : new.start]
        total[: new.start, new] = total[new, : new.start].T
        total[new, new] = matrix @ total[old, old] @ matrix.T + noise
    mean, ys = np.concatenate(means), np.ravel(observations)
    width = looks[0].shape[1]
    design, noise, offset = np.zeros((len(ys), len(mean))), np.zeros((len(ys), len(ys))), np.ravel(looks[1])
    for t in range(length):
        rows = slice(t * width, (t + 1) * width)
        design[rows, t * size : (t + 1) * size], noise[rows, rows] = looks[0][t], looks[2][t]
    seen = ~np.isnan(ys)
    design, noise, gap = design[seen], noise[np.ix_(seen, seen)], (ys - offset)[seen] - design[seen] @ mean
    spread = design @ total @ design.T + noise
    gain = np.linalg.solve(spread, design @ total).T if seen.any() else np.zeros((len(mean), 0))
    evidence = (
        -0.5 * (gap @ np.linalg.solve(spread, gap) + np.linalg.slogdet(2 * np.pi * spread)[1])
        if seen.any()
        else 0.0
    )
    return mean + gain @ gap, total - gain @ design @ total, evidence
