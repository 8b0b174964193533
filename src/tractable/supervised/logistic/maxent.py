r"""The maximum-entropy classifier: a log-linear model over named, sparse feature functions of $(x, y)$.

Model.       $p(y \mid x) = \exp\{\sum_i\lambda_i f_i(x, y)\}/Z_x$; for two labels a sigmoid.
Objective.   $L(\lambda) = \frac1N\sum_n w_n[\sum_i\lambda_i f_i(x_n, y_n) - \log Z_{x_n}]$ is concave, with
             $\partial L/\partial\lambda_i = E_{data}[f_i] - E_{model}[f_i]$ and Hessian minus the mean
             covariance of the features. A penalty $\tfrac c2\|\lambda\|^2$ (against the sum, not the mean)
             is a Gaussian prior of precision $c$.
Separation.  A feature that only ever speaks for the truth has no finite weight: such features are named.
Cost.        $O(\mathrm{nonzeros})$ per gradient; Newton $O(m^2NK + m^3)$ for $m$ features.
References.  Berger, Della Pietra and Della Pietra (1996); Malouf (2002) for the comparison of methods.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import log_softmax

from tractable.core.checks import check, check_count, check_nonnegative, check_option
from tractable.core.chunks import bucket_size
from tractable.core.iterate import Ended, Status
from tractable.core.module import HostResult, Module, field
from tractable.core.rows import row_weights
from tractable.core.types import Array, ArrayLike, Float, Int, Scalar
from tractable.optim.gradient import LineSearchDescent
from tractable.optim.minimise import minimise
from tractable.optim.newton import Newton
from tractable.optim.quasi_newton import LBFGS
from tractable.supervised.logistic.separation import SeparatedDataError, separator

__all__ = ["FeatureTable", "MaxEntModel", "compare_solvers", "feature_gap", "feature_table", "fit_maxent"]

_METHODS = {"gradient": LineSearchDescent(), "newton": Newton(), "lbfgs": LBFGS()}
_SOLVERS = (*_METHODS, "scipy")


class FeatureTable(Module):
    """The values $f_i(x_n, y)$ that are not zero: which row, label and feature, and how much."""

    rows: Int[Array, " e"]
    columns: Int[Array, " e"]
    features: Int[Array, " e"]
    values: Float[Array, " e"]
    num_rows: int = field(static=True)
    labels: tuple = field(static=True)
    names: tuple[str, ...] = field(static=True)

    def matrix(self) -> Any:
        """One row per pair of row and label, one column per feature."""
        import scipy.sparse as sp

        k = len(self.labels)
        place = np.asarray(self.rows) * k + np.asarray(self.columns)
        shape = (self.num_rows * k, len(self.names))
        return sp.csr_matrix((np.asarray(self.values), (place, np.asarray(self.features))), shape=shape)


def feature_table(
    functions: Mapping[str, Callable[[Any, Any], Any]], xs: Sequence | np.ndarray, labels: Sequence
) -> FeatureTable:
    """Evaluate named feature functions `f(x, y)` (truth values or numbers) on all rows and labels.

    >>> suffix = {"tion and Noun": lambda x, y: x.endswith("tion") and y == "Noun"}
    >>> feature_table(suffix, ["nation", "run"], ["Noun", "Verb"]).values.tolist()
    [1.0]
    """
    check(len(functions) > 0, "functions", "at least one feature function", "none")
    check(len(xs) > 0, "xs", "at least one row", "none")
    check(
        len(labels) > 1 and len(set(labels)) == len(labels), "labels", "at least two, distinct", list(labels)
    )
    found = [
        (n, k, i, float(value))
        for n, x in enumerate(xs)
        for k, label in enumerate(labels)
        for i, function in enumerate(functions.values())
        if (value := function(x, label))
    ]
    n, k, i, values = zip(*found) if found else ((), (), (), ())
    for place, value in zip(i, values):
        check(bool(np.isfinite(value)), "functions", "finite", f"{value} of {list(functions)[place]!r}")
    places = (jnp.asarray(n, int), jnp.asarray(k, int), jnp.asarray(i, int))
    return FeatureTable(*places, jnp.asarray(values, float), len(xs), tuple(labels), tuple(functions))


class MaxEntModel(Ended, HostResult):
    """The weights of the features, the mean log-likelihood, and how the search ended; it answers for tables
    of named features, on the host."""

    weights: Float[Array, " m"]
    log_likelihood: Scalar
    gap: Scalar
    num_steps: Int[Array, ""]
    code: Int[Array, ""]
    penalty: float = field(static=True)
    names: tuple[str, ...] = field(static=True)
    labels: tuple = field(static=True)
    solver: str = field(static=True)

    def predict_proba(self, table: FeatureTable) -> np.ndarray:
        """The probability of each label for each row of a table of the same features."""
        check(
            table.names == self.names and table.labels == self.labels, "table", "of the same features", table
        )
        return np.exp(_log_probs(table.matrix(), np.asarray(self.weights), len(self.labels)))

    def predict(self, table: FeatureTable) -> list:
        """The most probable label of each row."""
        return [self.labels[k] for k in self.predict_proba(table).argmax(1)]


def fit_maxent(
    table: FeatureTable,
    targets: Sequence | np.ndarray,
    weights: ArrayLike | None = None,
    *,
    penalty: float | int = 0.0,
    solver: str = "lbfgs",
    max_steps: int = 2000,
    tol: float | int = 1e-9,
) -> MaxEntModel:
    r"""Maximise the (penalised) likelihood of the labels `targets`.

    `solver` is "gradient", "newton", "lbfgs" or "scipy" (SciPy's L-BFGS-B).

    Without a penalty, features that separate the labels have no finite weights: they are named in the error.
    """
    check_option("solver", solver, _SOLVERS)
    check_nonnegative("penalty", penalty)
    codes, w = checked_targets(table, targets, weights)
    if not penalty:
        _refuse_separation(table, codes)
    total = float(w.sum())
    if solver == "scipy":
        state, count, ok = _by_scipy(table.matrix(), codes, w / total, penalty / total, max_steps, tol)
        status = Status.converged if ok else Status.exhausted
    else:
        args = _padded(table, codes, w / total)
        start = np.zeros(len(table.names))
        size = (bucket_size(table.num_rows), len(table.labels))
        extra = (jnp.asarray(penalty / total), jnp.zeros(size))
        run = minimise(
            _negative,
            start,
            _METHODS[solver],
            args=(*args, *extra),
            max_steps=max_steps,
            tol=tol,
            curvature=False,
        )
        state, count, status = np.asarray(run.state), int(run.num_steps), run.status
    logs = _log_probs(table.matrix(), state, len(table.labels))
    fit = float(w @ logs[np.arange(len(codes)), codes]) / total
    slope = feature_gap(state, table, targets, w) - penalty / total * state
    numbers = jnp.asarray(state), jnp.asarray(fit), jnp.asarray(np.abs(slope).max())
    named = (float(penalty), table.names, table.labels, solver)
    return MaxEntModel(*numbers, jnp.asarray(count), jnp.asarray(int(status)), *named)


def feature_gap(
    multipliers: ArrayLike,
    table: FeatureTable,
    targets: Sequence | np.ndarray,
    weights: ArrayLike | None = None,
) -> np.ndarray:
    r"""$E_{data}[f_i] - E_{model}[f_i]$ for each feature: the gradient of the mean log-likelihood."""
    codes, w = checked_targets(table, targets, weights)
    matrix = table.matrix()
    probs = np.exp(_log_probs(matrix, np.asarray(multipliers, float), len(table.labels)))
    return matrix.T @ ((np.eye(len(table.labels))[codes] - probs) * w[:, None]).ravel() / w.sum()


def compare_solvers(
    table: FeatureTable, targets: Sequence | np.ndarray, *, penalty: float | int = 1.0, max_steps: int = 5000
) -> dict[str, MaxEntModel]:
    """The same fit by each solver: compare `num_steps`, `log_likelihood` and `gap`."""
    steps = check_count("max_steps", max_steps)
    return {
        name: fit_maxent(table, targets, penalty=penalty, solver=name, max_steps=steps) for name in _SOLVERS
    }


def checked_targets(
    table: FeatureTable, targets: Sequence | np.ndarray, weights: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray]:
    """Codes of the labels, and weights, one per row of the table."""
    place = {label: k for k, label in enumerate(table.labels)}
    listed = targets.tolist() if isinstance(targets, np.ndarray) else list(targets)
    check(len(listed) == table.num_rows, "targets", f"one per row ({table.num_rows})", len(listed))
    strange = [label for label in listed if label not in place]
    check(not strange, "targets", f"among the labels {list(table.labels)}", repr(strange[:1]))
    return np.array([place[label] for label in listed]), row_weights(weights, len(listed))


def _negative(lam: Array, flat: Array, features: Array, values: Array, codes: Array, w: Array, penalty: Array,
              blank: Array) -> Scalar:  # fmt: skip
    scores = blank.ravel().at[flat].add(values * lam[features]).reshape(blank.shape)
    logs = jax.nn.log_softmax(scores, axis=1)
    own = jnp.take_along_axis(logs, codes[:, None], axis=1)[:, 0]
    return -(w @ own) + 0.5 * penalty * lam @ lam


def _padded(table: FeatureTable, codes: np.ndarray, w: np.ndarray) -> tuple[Array, ...]:
    """Entries and rows filled up to bucket sizes with zeros: another number of rows is the same program."""
    k = len(table.labels)
    flat = np.asarray(table.rows) * k + np.asarray(table.columns)
    entries = bucket_size(max(flat.size, 1)) - flat.size
    rows = bucket_size(table.num_rows) - table.num_rows
    parts = [(flat, entries), (table.features, entries), (table.values, entries), (codes, rows), (w, rows)]
    return tuple(jnp.asarray(np.pad(np.asarray(part), (0, extra))) for part, extra in parts)


def _log_probs(matrix: Any, lam: np.ndarray, num_labels: int) -> np.ndarray:
    return log_softmax((matrix @ lam).reshape(-1, num_labels), axis=1)


def _by_scipy(matrix: Any, codes: np.ndarray, w: np.ndarray, penalty: float, max_steps: int, tol: float):
    """SciPy's L-BFGS-B on the same objective."""
    from scipy.optimize import minimize

    k = matrix.shape[0] // len(codes)
    truth, rows = np.eye(k)[codes], np.arange(len(codes))

    def fun(lam: np.ndarray) -> tuple[float, np.ndarray]:
        logs = _log_probs(matrix, lam, k)
        slope = matrix.T @ ((np.exp(logs) - truth) * w[:, None]).ravel()
        return -float(w @ logs[rows, codes]) + 0.5 * penalty * float(lam @ lam), slope + penalty * lam

    options = {"maxiter": max_steps, "gtol": tol, "ftol": 0.0, "maxfun": 10 * max_steps}
    found = minimize(fun, np.zeros(matrix.shape[1]), jac=True, method="L-BFGS-B", options=options)
    return found.x, int(found.nit), bool(np.abs(fun(found.x)[1]).max() <= max(tol, 1e-7))


def separated_pairs(table: FeatureTable, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which pairs of row and label no distribution with the expectations of the data can give probability,
    and weights of features that prove it: they never speak for another label than the true one."""
    matrix, k = table.matrix(), len(table.labels)
    own = np.repeat(np.arange(len(codes)) * k + codes, k)
    others = own != np.arange(matrix.shape[0])
    reached, direction = separator((matrix[own] - matrix)[others])
    impossible = np.zeros(matrix.shape[0], bool)
    impossible[others] = reached
    return impossible.reshape(-1, k), direction


def _refuse_separation(table: FeatureTable, codes: np.ndarray) -> None:
    """An error that names features whose weights would run away."""
    impossible, direction = separated_pairs(table, codes)
    if impossible.any():
        guilty = [name for name, size in zip(table.names, np.abs(direction)) if size > 1e-9]
        raise SeparatedDataError(
            f"`table` must not separate the labels; got features without finite weights: "
            f"{', '.join(guilty)}. "
            "Penalise the weights (`penalty` above zero), or drop those features."
        )
