r"""Sums over rows that Newton steps on log-linear models need, in one pass over the rows each.

Sums.        For rows $z_i = (x_i - c)/s$, with a leading one where there is an intercept, and log-odds
             $\eta_i = z_i^\top\beta$: $\sum_i w_i[\log(1 + e^{\eta_i}) - y_i\eta_i]$,
             $\sum_i w_i(\sigma_i - y_i)z_i$ and $\sum_i w_i\sigma_i(1 - \sigma_i)z_iz_i^\top$.
Used by.     supervised.logistic.newton.
Cost.        $O(n p^2)$; the rows are standardised in passing, and nothing of their size is written. The
             loops release Python's lock: large tables are cut into one stretch per core.
"""

from typing import no_type_check

import numba
import numpy as np

__all__ = ["gram_pass", "logistic_pass"]

# sums may be taken in any order: four to eight terms at once
_compiled = numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})
_BLOCK = 32  # rows that stay in the first cache while their outer products are added, four at a time


@_compiled
@no_type_check
def _fill(z, row, centre, inverse):
    """One standardised row, after the one for the intercept where there is one."""
    shift = z.shape[0] - row.shape[0]
    for j in range(row.shape[0]):
        z[j + shift] = (row[j] - centre[j]) * inverse[j]


@_compiled
@no_type_check
def _add_outer(total, z, curvature):
    """Add the upper triangle of the weighted outer products of a block of rows."""
    p = z.shape[1]
    for r in range(0, z.shape[0], 4):
        for j in range(p):
            a, b = curvature[r] * z[r, j], curvature[r + 1] * z[r + 1, j]
            c, d = curvature[r + 2] * z[r + 2, j], curvature[r + 3] * z[r + 3, j]
            for k in range(j, p):
                total[j, k] += a * z[r, k] + b * z[r + 1, k] + c * z[r + 2, k] + d * z[r + 3, k]


@_compiled
@no_type_check
def logistic_pass(rows, targets, weights, centre, inverse, beta, low, high):
    """The loss, its gradient and the upper triangle of its Hessian over rows `low` to `high`."""
    p = beta.shape[0]
    loss, gradient, hessian = 0.0, np.zeros(p), np.zeros((p, p))
    z, curvature = np.ones((_BLOCK, p)), np.zeros(_BLOCK)
    for start in range(low, high, _BLOCK):
        curvature[:] = 0.0
        for i in range(start, min(start + _BLOCK, high)):
            r = i - start
            _fill(z[r], rows[i], centre, inverse)
            eta = 0.0
            for j in range(p):
                eta += z[r, j] * beta[j]
            small = np.exp(-abs(eta))
            share = 1.0 / (1.0 + small)
            loss += weights[i] * (max(eta, 0.0) + np.log1p(small) - targets[i] * eta)
            residual = weights[i] * ((share if eta >= 0 else small * share) - targets[i])
            curvature[r] = weights[i] * small * share * share
            for j in range(p):
                gradient[j] += residual * z[r, j]
        _add_outer(hessian, z, curvature)
    return loss, gradient, hessian


@_compiled
@no_type_check
def gram_pass(rows, residuals, curvatures, centre, inverse, p, low, high):
    r"""$\sum_i r_i z_i$ and the upper triangle of $\sum_i h_i z_i z_i^\top$ over rows `low` to `high`."""
    gradient, hessian = np.zeros(p), np.zeros((p, p))
    z, curvature = np.ones((_BLOCK, p)), np.zeros(_BLOCK)
    for start in range(low, high, _BLOCK):
        curvature[:] = 0.0
        for i in range(start, min(start + _BLOCK, high)):
            r = i - start
            _fill(z[r], rows[i], centre, inverse)
            curvature[r] = curvatures[i]
            for j in range(p):
                gradient[j] += residuals[i] * z[r, j]
        _add_outer(hessian, z, curvature)
    return gradient, hessian
