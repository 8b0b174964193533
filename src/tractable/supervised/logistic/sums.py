r"""Sums over rows that Newton steps on log-linear models need, in one pass over the rows each.

Sums.        For rows $z_i = (x_i - c)/s$, with a leading one where there is an intercept, and log-odds
             $\eta_i = z_i^\top\beta$: $\sum_i w_i[\log(1 + e^{\eta_i}) - y_i\eta_i]$,
             $\sum_i w_i(\sigma_i - y_i)z_i$ and $\sum_i w_i\sigma_i(1 - \sigma_i)z_iz_i^\top$.
Cost.        $O(n p^2)$; blocks of rows stay in a cache, and nothing of the size of the table is written.
"""

from collections.abc import Iterator

import numpy as np

__all__ = ["gram_pass", "logistic_pass"]

_BLOCK = 2048  # rows that stay in a cache from one sum to the next
_NEAR = 3.0  # standard deviations from zero up to which sums over plain rows lose less than a digit
_LEAST = 1e-60  # squares of smaller numbers, times the number of rows, might leave the range


def logistic_pass(
    rows: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    centre: np.ndarray,
    inverse: np.ndarray,
    beta: np.ndarray,
    low: int,
    high: int,
) -> tuple[float, np.ndarray, np.ndarray]:
    """The loss, its gradient and its Hessian over rows `low` to `high`."""
    p = beta.shape[0]
    if _is_plain(centre, inverse, p > rows.shape[1]):
        return _plain_pass(rows, targets, weights, centre, inverse, beta, low, high)
    loss, gradient, hessian = 0.0, np.zeros(p), np.zeros((p, p))
    for cut, z in _standard(rows, centre, inverse, p, low, high):
        part, residual, root = _logistic(z @ beta, targets[cut], weights[cut])
        loss, gradient = loss + part, gradient + residual @ z
        z *= root[:, None]
        hessian += z.T @ z
    return loss, gradient, hessian


def _plain_pass(
    rows: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    centre: np.ndarray,
    inverse: np.ndarray,
    beta: np.ndarray,
    low: int,
    high: int,
) -> tuple[float, np.ndarray, np.ndarray]:
    """The same from sums over the rows as they are, standardised afterwards: half of the work."""
    d = rows.shape[1]
    shift, slopes = beta.shape[0] - d, beta[beta.shape[0] - d :] * inverse
    base = (beta[0] if shift else 0.0) - centre @ slopes
    loss, gradient, total = 0.0, np.zeros(d), 0.0
    products, sums, curvature = np.zeros((d, d)), np.zeros(d), 0.0
    room = np.empty((min(_BLOCK, max(high - low, 1)), d))
    for start in range(low, high, _BLOCK):
        cut = slice(start, min(start + _BLOCK, high))
        x = rows[cut]
        part, residual, root = _logistic(x @ slopes + base, targets[cut], weights[cut])
        loss, gradient, total = loss + part, gradient + residual @ x, total + residual.sum()
        scaled = np.multiply(x, root[:, None], out=room[: len(x)])
        products += scaled.T @ scaled
        sums += root @ scaled
        curvature += root @ root
    back = np.diag(inverse)
    if shift:
        back = np.vstack([np.zeros(d), back])
        middle = np.concatenate([[1.0], -centre * inverse])
        crossed = back @ sums
        hessian = back @ products @ back.T + curvature * np.outer(middle, middle)
        hessian += np.outer(middle, crossed) + np.outer(crossed, middle)
        return loss, back @ gradient + total * middle, hessian
    return loss, back @ gradient, back @ products @ back


def _is_plain(centre: np.ndarray, inverse: np.ndarray, intercept: bool) -> bool:
    """Whether sums over the rows as they are keep their digits, and their squares stay in range."""
    near = np.abs(centre * inverse).max(initial=0.0) <= _NEAR if intercept else not centre.any()
    return bool(near and inverse.min(initial=1.0) > _LEAST and inverse.max(initial=1.0) < 1 / _LEAST)


def _logistic(eta: np.ndarray, y: np.ndarray, w: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """The loss of log-odds, its slopes, and the roots of its curvatures."""
    small = np.exp(-np.abs(eta))
    share = 1.0 / (1.0 + small)
    loss = float(w @ (np.maximum(eta, 0.0) + np.log1p(small) - y * eta))
    return loss, w * (np.where(eta >= 0, share, small * share) - y), np.sqrt(w * small) * share


def gram_pass(
    rows: np.ndarray,
    residuals: np.ndarray,
    curvatures: np.ndarray,
    centre: np.ndarray,
    inverse: np.ndarray,
    p: int,
    low: int,
    high: int,
) -> tuple[np.ndarray, np.ndarray]:
    r"""$\sum_i r_i z_i$ and $\sum_i h_i z_i z_i^\top$ over rows `low` to `high`, for $h_i \ge 0$."""
    gradient, hessian = np.zeros(p), np.zeros((p, p))
    for cut, z in _standard(rows, centre, inverse, p, low, high):
        gradient += residuals[cut] @ z
        z *= np.sqrt(curvatures[cut])[:, None]
        hessian += z.T @ z
    return gradient, hessian


def _standard(
    rows: np.ndarray, centre: np.ndarray, inverse: np.ndarray, p: int, low: int, high: int
) -> Iterator[tuple[slice, np.ndarray]]:
    """Blocks of standardised rows, after a one for the intercept where there is one; the memory is reused."""
    shift, room = p - rows.shape[1], np.empty((min(_BLOCK, max(high - low, 1)), p))
    for start in range(low, high, _BLOCK):
        cut = slice(start, min(start + _BLOCK, high))
        z = room[: cut.stop - cut.start]
        z[:, :shift] = 1.0
        np.subtract(rows[cut], centre, out=z[:, shift:])
        z[:, shift:] *= inverse
        yield cut, z
