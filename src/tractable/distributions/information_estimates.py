r"""Mutual information estimated from rows: by counts for discrete columns, by neighbours for continuous ones.

Counts.      The information of the empirical joint, less its bias $(m_{xy} - m_x - m_y + 1) / 2n$.
Neighbours.  $\hat I = \psi(k) + \psi(n) - \overline{\psi(n_x + 1) + \psi(n_y + 1)}$.
Cost.        $O(n)$ for counts, $O(n \log n)$ for neighbours; both run in NumPy and SciPy, outside `jit`.
References.  Miller (1955); Kraskov, Stogbauer and Grassberger (2004).
"""

import jax.numpy as jnp
import numpy as np
from scipy.special import digamma

from tractable.core.checks import as_float, check, check_entries, check_length
from tractable.core.estimate import Estimate
from tractable.distributions.information import Numbers
from tractable.distributions.integrals import monte_carlo
from tractable.distributions.mutual_information import pointwise_mutual_information
from tractable.distributions.tabulation import column_codes

__all__ = ["neighbour_mutual_information", "plug_in_mutual_information"]


def plug_in_mutual_information(x: Numbers, y: Numbers, *, correct_bias: bool = False) -> Estimate:
    r"""The information between two discrete columns (numbers or text) under their empirical distribution, in
    nats.

    Counts overstate information by about $(m_{xy} - m_x - m_y + 1) / 2n$, with $m$ the number of distinct
    values seen; `correct_bias` subtracts that (Miller and Madow).
    """
    (_, x_codes), (_, y_codes) = column_codes("x", x), column_codes("y", y)
    check_length("y", y_codes, "x", x_codes)
    counts = np.zeros((x_codes.max() + 1, y_codes.max() + 1))
    np.add.at(counts, (x_codes, y_codes), 1.0)
    n = len(x_codes)
    local = np.asarray(pointwise_mutual_information(counts / n))[x_codes, y_codes]
    seen = [int((table > 0).sum()) for table in (counts, counts.sum(1), counts.sum(0))]
    bias = (seen[0] - seen[1] - seen[2] + 1) / (2 * n) if correct_bias else 0.0
    return monte_carlo(jnp.asarray(local - bias))


def neighbour_mutual_information(x: Numbers, y: Numbers, *, neighbours: int = 3) -> Estimate:
    r"""$\psi(k) + \psi(n) - \overline{\psi(n_x + 1) + \psi(n_y + 1)}$ from continuous rows, in nats.

    $n_x$ counts the rows strictly nearer in $x$ than the $k$-th neighbour is in $(x, y)$ (largest coordinate
    distance). The standard error treats rows as independent terms. Scale the columns alike: the distance
    compares them.
    """
    from scipy.spatial import KDTree

    x_rows, y_rows = _rows("x", x), _rows("y", y)
    check_length("y", y_rows, "x", x_rows)
    n = len(x_rows)
    check(1 <= neighbours < n, "neighbours", f"at least 1 and below the number of rows, {n}", neighbours)
    both = np.hstack([x_rows, y_rows])
    radius = KDTree(both).query(both, k=neighbours + 1, p=np.inf)[0][:, -1]
    fix = "Rows are repeated: the columns are not continuous; use `plug_in_mutual_information`."
    if not (radius > 0).all():
        must = "rows whose neighbours lie at positive distances"
        check(False, "x", must, f"row {int(radius.argmin())} repeated", fix)
    inside = np.nextafter(radius, 0.0)
    near = [KDTree(v).query_ball_point(v, inside, p=np.inf, return_length=True) for v in (x_rows, y_rows)]
    # `near` counts the row itself, which is the one that the formula adds.
    return monte_carlo(jnp.asarray(digamma(neighbours) + digamma(n) - digamma(near[0]) - digamma(near[1])))


def _rows(name: str, value: Numbers) -> np.ndarray:
    """Numbers as a matrix with one row per example."""
    rows = np.asarray(as_float(name, value), float)
    check(
        rows.ndim in (1, 2) and rows.size > 0, name, "one number or one vector per row", f"shape {rows.shape}"
    )
    check_entries(name, rows, np.isfinite, "finite")
    return rows.reshape(len(rows), -1)
