r"""Linear-Gaussian and conditional Gaussian nodes from complete rows: a regression per node and case.

Model.       $x_i \mid x_P, s \sim N(w_s^\top x_P + b_s, v_s)$ for continuous parents $P$ and discrete ones in
             joint state $s$.
Estimate.    The likelihood is a product over nodes and cases: weighted least squares on the rows of a case,
             and $\hat v_s$ the mean squared residual.
Cost.        One least-squares problem per node and case.
References.  Koller and Friedman (2009) section 17.2; Lauritzen (1996) chapter 6.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from tractable.core.checks import as_float, check, check_finite, check_length
from tractable.core.types import Float
from tractable.distributions.linear_gaussian import LinearGaussian
from tractable.distributions.tabulation import as_weights
from tractable.graphs.coded_rows import coded_rows
from tractable.graphs.gaussian_network import GaussianNetwork
from tractable.graphs.nodes import GaussianNode
from tractable.graphs.scores import as_dag

__all__ = ["fit_gaussian_network", "fit_gaussian_node", "fit_linear_gaussian"]


def fit_linear_gaussian(
    frame: Any, target: str, parents: Sequence[str] = (), weights: Any = None
) -> LinearGaussian:
    r"""$p(x_i \mid x_P) = N(w^\top x_P + b, \sigma^2)$ by maximum likelihood: weighted least squares.

    >>> fit = fit_linear_gaussian({"x": [0.0, 1.0, 2.0], "y": [1.0, 3.0, 5.0]}, "y", ["x"])
    >>> [round(float(v), 6) for v in (fit.weights[0, 0], fit.bias[0], fit.cov[0, 0])]
    [2.0, 1.0, 0.0]
    """
    columns = {name: _numbers(frame, name) for name in (target, *parents)}
    y = columns[target]
    for name, column in columns.items():
        check_length(name, column, target, y)
    counted = as_weights(weights, y)
    share = np.full(len(y), 1 / len(y)) if counted is None else counted / counted.sum()
    root = np.sqrt(share)
    design = np.stack([np.ones(len(y)), *(columns[name] for name in parents)], axis=1)
    centre, scale = _centred(design, share)
    coefficients, _, rank, _ = np.linalg.lstsq(root[:, None] * centre, root * y, rcond=1e-10)
    fix = "Drop a parent that others or a constant determine, or give more rows."
    check(
        rank == design.shape[1],
        f"parents of {target!r}",
        "linearly independent over the rows",
        tuple(parents),
        fix,
    )
    slopes = coefficients[1:] / scale
    bias = coefficients[0] - slopes @ (share @ design[:, 1:])
    residual = y - bias - design[:, 1:] @ slopes
    noise = np.reshape(share @ residual**2, (1, 1))
    return LinearGaussian(jnp.asarray(slopes[None, :]), jnp.asarray(bias[None]), jnp.asarray(noise))


def fit_gaussian_node(
    frame: Any,
    name: str,
    parents: Sequence[str] = (),
    given: Sequence[str] = (),
    *,
    states: Mapping[str, Sequence[Any]] | None = None,
    weights: Any = None,
) -> GaussianNode:
    """A node with continuous `parents` and a regression for each joint state of the discrete `given`."""
    y = _numbers(frame, name)
    counted = as_weights(weights, y)
    counted = np.ones(len(y)) if counted is None else counted
    columns = {each: _numbers(frame, each) for each in (name, *parents)}
    if not given:
        return _node(name, parents, [fit_linear_gaussian(columns, name, parents, counted)], (), ())
    known = {each: kept for each, kept in (states or {}).items() if each in given}
    rows = coded_rows({each: frame[each] for each in given}, known).complete()
    check_length(given[0], rows.columns[0], name, y)
    fits = []
    for cell in np.ndindex(*rows.sizes):
        chosen = (rows.columns == np.array(cell)[:, None]).all(0) & (counted > 0)
        where = rows.axes.describe(cell)
        enough = int(chosen.sum()) > len(parents) + 1
        check(
            enough,
            f"rows for {name!r}",
            f"at least {len(parents) + 2} for each case",
            f"{chosen.sum()} with {where}",
        )
        part = {each: column[chosen] for each, column in columns.items()}
        fits.append(fit_linear_gaussian(part, name, parents, counted[chosen]))
    return _node(name, parents, fits, given, rows.sizes)


def fit_gaussian_network(frame: Any, structure: Any, weights: Any = None) -> GaussianNetwork:
    """The linear-Gaussian network with the given structure, by maximum likelihood."""
    dag = as_dag(structure)
    return GaussianNetwork(
        [fit_gaussian_node(frame, name, dag.parents(name), weights=weights) for name in dag.names]
    )


def _node(
    name: str,
    parents: Sequence[str],
    fits: Sequence[LinearGaussian],
    given: Sequence[str],
    cases: tuple[int, ...],
) -> GaussianNode:
    slopes = np.stack([np.asarray(fit.weights[0]) for fit in fits]).reshape((*cases, len(parents)))
    bias = np.array([float(fit.bias[0]) for fit in fits]).reshape(cases)
    variance = np.array([float(fit.cov[0, 0]) for fit in fits]).reshape(cases)
    return GaussianNode(name, parents, slopes, bias=bias, variance=variance, given=given)


def _numbers(frame: Any, name: str) -> Float[np.ndarray, " rows"]:
    check(name in frame, "frame", f"a table with the column {name!r}", "none")
    values = np.asarray(as_float(name, np.asarray(frame[name])), float)
    check(
        values.ndim == 1 and values.size > 0, name, "a column with at least one row", f"shape {values.shape}"
    )
    check_finite(name, values)
    return values


def _centred(design: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Columns with mean zero and spread one (but the first), so that the rank does not depend on units."""
    inner = design[:, 1:] - share @ design[:, 1:]
    spread = np.sqrt(share @ inner**2)
    constant = spread <= 1e-12 * np.abs(design[:, 1:]).max(0)  # what rounding of the mean leaves
    scale = np.where(constant, 1.0, spread)
    return np.concatenate([design[:, :1], np.where(constant, 0.0, inner / scale)], axis=1), scale
