r"""Linear support vector machines in their primal form: quadratic programs, stochastic descent, dual ascent.

Hard margin. $\min\tfrac12\|w\|^2$ with $y_i(w^\top x_i + b) \ge 1$: the street is $2/\|w\|$ wide; infeasible
             exactly where no plane separates the classes.
Soft margin. $\min\tfrac12\|w\|^2 + C\sum_i\xi_i$ with $y_i(w^\top x_i + b) \ge 1 - \xi_i$, $\xi_i \ge 0$.
Descent.     With $\lambda = 1/(CN)$ the same minimum as
             $\frac\lambda2\|w\|^2 + \frac1N\sum_i[1 - y_i(w^\top x_i + b)]_+$, followed along subgradients of
             one batch with steps $1/(\lambda(t + t_0))$ (Pegasos).
Ascent.      Without a bias (or with one that is penalised, a column of ones) the dual has a box alone:
             $\alpha_i \leftarrow \mathrm{clip}(\alpha_i + (1 - y_i f(x_i))/k(x_i, x_i), 0, C)$, keeping $w$
             up to date.
Cost.        QP: $O((d + n)^3)$; descent and ascent: $O(nd)$ per epoch.
References.  Shalev-Shwartz et al. (2011); Hsieh et al. (2008).
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check, check_count, check_length, namespace
from tractable.core.host_random import generator
from tractable.core.iterate import Status
from tractable.core.module import Module
from tractable.core.rows import Rows, points
from tractable.core.types import ArrayLike, Key, Values
from tractable.core.verdict import Verdict
from tractable.optim.gradient import GradientDescent
from tractable.optim.quadratic_program import quadratic_program
from tractable.optim.schedules import inverse_time
from tractable.optim.stochastic import minimise_batches
from tractable.supervised.perceptrons.separability import augmented

__all__ = [
    "LinearMachine", "ascend_dual", "descend_hinge", "descend_tube", "hard_margin", "hinge_objective",
    "soft_margin",
]  # fmt: skip


class LinearMachine(Module):
    """A plane with its value; multipliers and dual value where the method gives them (else NaN)."""

    weights: np.ndarray
    bias: float
    multipliers: np.ndarray
    value: float
    dual_value: float
    num_steps: int  # of the method; epochs where it goes over the rows
    verdict: Verdict

    @property
    def gap(self) -> float:
        """Primal minus dual value."""
        return self.value - self.dual_value

    @property
    def width(self) -> float:
        """$2/\\|w\\|$, between the planes $w^\\top x + b = \\pm1$."""
        return float(2.0 / np.linalg.norm(np.asarray(self.weights)))

    @property
    def support(self) -> Values:
        """Rows with a positive multiplier (beyond rounding)."""
        alpha = np.asarray(self.multipliers)
        return np.flatnonzero(alpha > 1e-6 * max(float(alpha.max(initial=0.0)), 1e-300))

    def decision(self, X: ArrayLike | Rows) -> Values:
        """$w^\\top x + b$."""
        xp = namespace(self, X)
        return points(X, self.weights.shape[0]) @ xp.asarray(self.weights) + self.bias

    def predict(self, X: ArrayLike | Rows) -> Values:
        """$+1$ where the decision is at least zero, and $-1$."""
        return namespace(self, X).where(self.decision(X) >= 0, 1, -1)


def hinge_objective(
    weights: ArrayLike,
    bias: float,
    X: ArrayLike | Rows,
    y: ArrayLike | None = None,
    C: float = 1.0,
    row_weights: ArrayLike | None = None,
) -> float:
    """$\\tfrac12\\|w\\|^2 + C\\sum_i w_i[1 - y_i(w^\\top x_i + b)]_+$."""
    w, rows = np.asarray(weights, float), Rows.of(X, y, row_weights, target="sign")
    slack = np.maximum(1.0 - rows.signs * (rows.X @ w + bias), 0.0)
    return float(0.5 * w @ w + C * (rows.weights @ slack))


def hard_margin(X: ArrayLike | Rows, y: ArrayLike | None = None, *, bias: bool = True) -> LinearMachine:
    """The widest street between separable classes; the `verdict` says why where there is none.

    >>> machine = hard_margin([[1.0, 1.0], [-1.0, -1.0]], [1, -1])
    >>> machine.weights.round(6).tolist(), round(machine.width, 6)
    ([0.5, 0.5], 2.828427)
    """
    rows = Rows.of(X, y, target="sign")
    table, d = augmented(rows) if bias else rows.X, rows.num_columns
    P = np.diag(np.r_[np.ones(d), np.zeros(table.shape[1] - d)])
    G, h = -rows.signs[:, None] * table, -np.ones(len(table))
    found = quadratic_program(P, np.zeros(table.shape[1]), G, h, tol=1e-10)
    return _machine(found, d, len(table))


def soft_margin(
    X: ArrayLike | Rows,
    y: ArrayLike | None = None,
    C: float = 1.0,
    *,
    bias: bool = True,
    weights: ArrayLike | None = None,
) -> LinearMachine:
    """The soft margin as one quadratic program in $(w, b, \\xi)$; for a few hundred rows."""
    check(0 < C < np.inf, "C", "positive and finite", C)
    rows = Rows.of(X, y, weights, target="sign", absent="keep")
    table = augmented(rows) if bias else rows.X
    n, d, width = rows.num_rows, rows.num_columns, table.shape[1]
    P = np.diag(np.r_[np.ones(d), np.zeros(width - d + n)])
    q = np.r_[np.zeros(width), C * rows.weights]
    G = np.block([[-rows.signs[:, None] * table, -np.eye(n)], [np.zeros((n, width)), -np.eye(n)]])
    found = quadratic_program(P, q, G, np.r_[-np.ones(n), np.zeros(n)], tol=1e-9)
    return _machine(found, d, n)


def descend_hinge(
    X: ArrayLike | Rows,
    y: ArrayLike | None = None,
    C: float = 1.0,
    *,
    key: Key,
    epochs: int = 100,
    batch: int = 16,
    bias: bool = True,
    weights: ArrayLike | None = None,
) -> LinearMachine:
    """The soft margin by stochastic subgradients with steps $1/(\\lambda(t + t_0))$.

    $t_0$ makes the first step at most one over the mean squared length of a row: the first steps of plain
    Pegasos, $1/\\lambda$ long, throw an unpenalised bias far away.
    """
    rows = Rows.of(X, y, weights, target="sign", absent="keep")
    found = _descend(_Hinge(), rows, rows.signs, C, bias, (), key, epochs, batch)
    value = hinge_objective(found.weights, found.bias, rows, C=C)
    return eqx.tree_at(lambda machine: machine.value, found, value)


def descend_tube(
    X: ArrayLike | Rows,
    y: ArrayLike | None = None,
    C: float = 1.0,
    epsilon: float = 0.1,
    *,
    key: Key,
    epochs: int = 100,
    batch: int = 16,
    bias: bool = True,
    weights: ArrayLike | None = None,
) -> LinearMachine:
    r"""Linear regression with the loss $(|y - w^\top x - b| - \varepsilon)_+$, by stochastic subgradients."""
    check(epsilon >= 0, "epsilon", "zero or positive", epsilon)
    rows = Rows.of(X, y, weights, target="number", absent="keep")
    found = _descend(_Tube(), rows, rows.y, C, bias, (jnp.asarray(epsilon),), key, epochs, batch)
    outside = np.maximum(np.abs(rows.y - found.decision(rows)) - epsilon, 0.0)
    value = 0.5 * float(found.weights @ found.weights) + C * float(rows.weights @ outside)
    return eqx.tree_at(lambda machine: machine.value, found, value)


def ascend_dual(
    X: ArrayLike | Rows,
    y: ArrayLike | None = None,
    C: float = 1.0,
    *,
    weights: ArrayLike | None = None,
    bias: bool = True,
    tol: float = 1e-3,
    max_epochs: int = 1000,
    seed: int = 0,
    start: ArrayLike | None = None,
) -> LinearMachine:
    """The soft margin by dual coordinate ascent, for many rows; a bias is a column of ones and penalised.

    `start` are multipliers to begin with, within their bounds.
    """
    rows = Rows.of(X, y, weights, target="sign", absent="keep")
    signs, bounds, table = rows.signs, C * rows.weights, augmented(rows) if bias else rows.X
    order = generator(seed).permutation(len(signs))
    alpha = np.zeros(len(signs)) if start is None else np.array(start, float)
    check_length("start", alpha, "X", signs)
    inside = (alpha >= 0) & (alpha <= bounds)
    check(bool(inside.all()), "start", "inside the bounds", f"{(~inside).sum()} multipliers outside")
    w, curvatures = (alpha * signs) @ table, (table * table).sum(1)
    from tractable.supervised.svm.loops import descend_linear  # numba: half a second, then what it compiles

    epochs, worst = descend_linear(table, signs, bounds, curvatures, order, alpha, w, tol, max_epochs)
    slack = np.maximum(1.0 - signs * (table @ w), 0.0)
    value, dual = 0.5 * w @ w + bounds @ slack, alpha.sum() - 0.5 * w @ w
    status = Status.converged if worst <= tol else Status.exhausted
    plane, offset = (w[:-1], float(w[-1])) if bias else (w, 0.0)
    verdict = Verdict(status.ok, status.sentence, {"gap": float(value - dual)})
    return LinearMachine(plane, offset, alpha, float(value), float(dual), int(epochs), verdict)


def _descend(
    loss: Any, rows: Rows, targets: np.ndarray, C: float, bias: bool, more: tuple, key: Key, epochs: int,
    batch: int,
) -> LinearMachine:  # fmt: skip
    r"""Stochastic subgradients of $\frac12\|w\|^2 + C\sum_i w_i\,\mathrm{loss}_i$, without the value."""
    check(0 < C < np.inf, "C", "positive and finite", C)
    mass = rows.weights
    penalty = 1.0 / (C * mass.sum())
    size = float((mass @ ((rows.X**2).sum(1) + bias)) / mass.sum())
    method = GradientDescent(inverse_time(1.0 / penalty, max(1.0, size / penalty)))
    start = (jnp.zeros(rows.num_columns), jnp.zeros(()))
    found = minimise_batches(
        loss, start, (rows.X, targets), method, key=key, epochs=check_count("epochs", epochs), batch=batch,
        weights=mass, args=(jnp.asarray(penalty), jnp.asarray(float(bias)), *more),
    )  # fmt: skip
    w, b = np.asarray(found.state[0]), float(found.state[1]) * float(bias)
    none = np.full(len(targets), np.nan)
    verdict = Verdict(found.status.ok, found.status.sentence)
    return LinearMachine(w, b, none, np.nan, np.nan, epochs, verdict)


class _Tube(Module):
    """The loss of one row of a regression, with its share of the penalty."""

    def __call__(self, params: Any, row: Any, penalty: Any, has_bias: Any, epsilon: Any) -> Any:
        (weights, bias), (x, target) = params, row
        outside = jnp.maximum(jnp.abs(target - x @ weights - has_bias * bias) - epsilon, 0.0)
        return outside + 0.5 * penalty * weights @ weights


class _Hinge(Module):
    """The loss of one row, with its share of the penalty."""

    def __call__(self, params: Any, row: Any, penalty: Any, has_bias: Any) -> Any:
        (weights, bias), (x, sign) = params, row
        hinge = jnp.maximum(1.0 - sign * (x @ weights + has_bias * bias), 0.0)
        return hinge + 0.5 * penalty * weights @ weights


def _machine(found: Any, dim: int, num_rows: int) -> LinearMachine:
    x, alpha = np.asarray(found.x), np.asarray(found.inequality_multipliers)[:num_rows]
    sentence = found.verdict.sentence
    if found.status is Status.infeasible:
        sentence = "Infeasible: no plane separates the classes; allow slack with `soft_margin`."
    bias = float(x[dim]) if len(x) - dim in (1, num_rows + 1) else 0.0
    value, dual = float(found.value), float(found.dual_value)
    verdict = Verdict(found.verdict.ok, sentence, {"gap": value - dual})
    return LinearMachine(x[:dim], bias, alpha, value, dual, int(found.num_steps), verdict)
