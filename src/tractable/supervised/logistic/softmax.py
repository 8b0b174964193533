r"""Softmax (multinomial logistic) regression: cross-entropy, gradient, fits by Newton or any optimiser.

Model.       $p(y = k \mid x) = e^{a_k}/\sum_j e^{a_j}$ with $a_k = b_k + w_k^\top x$.
Loss.        $E = -\sum_i w_i \log p(y_i \mid x_i)$, $\nabla_{w_k}E = \sum_i w_i(p_{ik} - y_{ik})x_i$, and
             $\nabla_{w_k}\nabla_{w_l}E = \sum_i w_i p_{ik}(\delta_{kl} - p_{il})x_ix_i^\top$.
Freedom.     Adding one vector to all $w_k$ changes nothing: coefficients and intercepts sum to zero over the
             classes. With an orthonormal basis $Q$ of such vectors, $W = VQ^\top$ and $\|W\| = \|V\|$:
             $V$ is free and the penalty $\tfrac\lambda2\|W\|^2$ is $\tfrac\lambda2\|V\|^2$.
Cost.        Newton $O(nd^2K^2 + d^3K^3)$ per step; L-BFGS $O(ndK)$.
References.  Bishop (2006) section 4.3.4; Bohning (1992).
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.linalg import helmert
from scipy.special import log_softmax as log_softmax_of
from scipy.special import softmax as softmax_of

from tractable.core.checks import check, check_count, namespace
from tractable.core.chunks import pad_rows
from tractable.core.iterate import Status
from tractable.core.module import field
from tractable.core.numerics import log_softmax, one_hot, softmax
from tractable.core.rows import Rows, points
from tractable.core.types import Array, ArrayLike, Float, Int, Scalar
from tractable.optim.gradient import LineSearchDescent
from tractable.optim.minimise import minimise
from tractable.optim.objective import Method
from tractable.optim.quasi_newton import LBFGS
from tractable.supervised.logistic.newton import NewtonFit, StandardRows, newton
from tractable.supervised.logistic.separation import (
    LikelihoodFit,
    Separation,
    check_options,
    judge_separation,
)

__all__ = [
    "SoftmaxModel",
    "fit_softmax",
    "softmax_gradient",
    "softmax_loss",
    "softmax_model",
    "softmax_sweep",
    "zero_sum_basis",
]

_METHODS = {"lbfgs": LBFGS(), "gradient": LineSearchDescent()}
_FLOPS = 5e9  # of one Newton step, above which L-BFGS takes over
_UNKNOWNS = 1500


def softmax_loss(
    coefficients: ArrayLike, X: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None
) -> Scalar:
    r"""$-\sum_i w_i\log\mathrm{softmax}_{y_i}(\Theta x_i)$ for $\Theta$ with a row per class."""
    theta, x, codes = jnp.asarray(coefficients, float), jnp.asarray(X, float), jnp.asarray(y)
    logs = log_softmax(x @ theta.T, axis=1)
    own = jnp.take_along_axis(logs, codes[:, None], axis=1)[:, 0]
    return -(own.sum() if weights is None else jnp.asarray(weights, float) @ own)


def softmax_gradient(
    coefficients: ArrayLike, X: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None
) -> Float[Array, "k d"]:
    r"""$(P - Y)^\top W X$: a row per class."""
    theta, x = jnp.asarray(coefficients, float), jnp.asarray(X, float)
    residual = softmax(x @ theta.T, axis=1) - one_hot(jnp.asarray(y), theta.shape[0])
    return (residual if weights is None else residual * jnp.asarray(weights, float)[:, None]).T @ x


class SoftmaxModel(LikelihoodFit):
    """Coefficients with a row per class and intercepts, both of sum zero over classes, and the verdict."""

    coefficients: Float[Array, "k d"]
    intercepts: Float[Array, " k"]
    loss: Scalar
    num_steps: Int[Array, ""]
    code: Int[Array, ""]
    penalty: float = field(static=True)
    separation: Separation | None = None

    def logits(self, X: ArrayLike | Rows) -> Any:
        r"""$b_k + w_k^\top x$, a column per class."""
        x = points(X, self.coefficients.shape[1])
        xp = namespace(self, x)
        return x @ xp.asarray(self.coefficients).T + xp.asarray(self.intercepts)[None]

    def predict_proba(self, X: ArrayLike | Rows) -> Any:
        """The probability of each class, a column per class."""
        logits = self.logits(X)
        return softmax_of(logits, axis=1) if namespace(logits) is np else softmax(logits, axis=1)


def fit_softmax(
    X: ArrayLike | Rows,
    y: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    *,
    num_classes: int | None = None,
    penalty: float | int = 0.0,
    sizes: ArrayLike | None = None,
    intercept: bool = True,
    solver: str | Method = "auto",
    separated: str = "raise",
    names: Sequence[str] | None = None,
    max_steps: int = 1000,
    tol: float | int = 1e-9,
) -> SoftmaxModel:
    r"""Minimise $E + \tfrac\lambda2\|W\|^2$ for codes `y` of 0 to $K - 1$; intercepts are not penalised.

    `solver` is "newton", "lbfgs", "gradient" or a method of `optim`; "auto" takes Newton where its Hessian is
    cheap. Without a penalty, classes that can be separated raise an error that names the columns (or, with
    `separated="report"`, the model does).
    """
    check_options(penalty, separated)
    rows, codes, k = class_rows(X, y, weights, num_classes, intercept)
    absent = sorted(set(range(k)) - set(codes.tolist()))
    fix = "Its intercept would be minus infinity: leave the class out, or give a prior (`fit_bayes_softmax`)."
    check(not absent or not intercept, "y", "with rows of every class", f"none of class {absent[:1]}", fix)
    basis, prior = zero_sum_basis(k), np.repeat(rows.penalty(float(penalty), sizes), k - 1)
    if isinstance(solver, str) and solver == "auto":
        cheap = len(codes) * (rows.size * k) ** 2 / 2 <= _FLOPS and prior.size <= _UNKNOWNS
        solver = "newton" if cheap else "lbfgs"
    if isinstance(solver, str) and solver == "newton":
        sweep = softmax_sweep(rows, codes, basis)
        found = newton(sweep, np.zeros(prior.size), prior, rows.total, max_steps=max_steps)
    else:
        found = _by_method(rows, codes, basis, prior, solver, max_steps, tol)
    settled = bool(penalty) or found.status is Status.converged
    direction = found.direction.reshape(rows.size, -1) @ basis.T
    apart = judge_separation(rows, codes, direction, settled, separated, names)
    return softmax_model(rows, found, basis, penalty, apart)


def softmax_model(
    rows: StandardRows, found: NewtonFit, basis: np.ndarray, penalty: float | int, apart: Separation | None
) -> SoftmaxModel:
    """The model at the point that a search found; of `rows` only the units matter."""
    coefficients, base = rows.split(found.beta.reshape(rows.size, -1) @ basis.T)
    ends = jnp.asarray(found.num_steps), jnp.asarray(int(found.status))
    arrays = jnp.asarray(coefficients), jnp.asarray(base), jnp.asarray(found.loss)
    return SoftmaxModel(*arrays, *ends, float(penalty), apart)


def zero_sum_basis(num_classes: int) -> np.ndarray:
    """Orthonormal columns that span the vectors over classes of sum zero."""
    return helmert(num_classes).T


def class_rows(
    X: ArrayLike | Rows,
    y: ArrayLike | None,
    weights: ArrayLike | None,
    num_classes: int | None,
    intercept: bool,
) -> tuple[StandardRows, np.ndarray, int]:
    """Checked and standardised rows, the codes of their classes and the number of classes."""
    rows = Rows.of(X, y, weights, target="class", num_classes=num_classes)
    codes = np.asarray(rows.y, np.int64)
    k = int(codes.max()) + 1 if num_classes is None else check_count("num_classes", num_classes, 2)
    check(k >= 2, "y", "of at least two classes", "one")
    return StandardRows.of(rows, intercept), codes, k


def softmax_sweep(rows: StandardRows, codes: np.ndarray, basis: np.ndarray) -> Callable:
    r"""Loss, gradient and Hessian in the free coordinates $V$ (flattened), one pass over the rows."""
    k, p = basis.shape[0], rows.size
    size = max(1, 2**18 // (p + k))

    def sweep(flat: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        weight = flat.reshape(p, k - 1) @ basis.T
        loss, slope, curve = 0.0, np.zeros((p, k)), np.zeros((k, k, p, p))
        for low in range(0, len(codes), size):
            part = slice(low, low + size)
            z = rows._replace(x=rows.x[part]).design()
            loss += _add_part(z, codes[part], rows.weights[part], weight, slope, curve)
        curve[np.arange(k), np.arange(k)] = -curve.sum(1)  # the rows of diag(p) - pp^T sum to zero
        reduced = np.tensordot(np.tensordot(basis.T, curve, 1), basis, axes=(1, 0)).transpose(1, 0, 2, 3)
        return loss, (slope @ basis).ravel(), reduced.reshape(p * (k - 1), p * (k - 1))

    return sweep


def _add_part(z: np.ndarray, codes: np.ndarray, w: np.ndarray, weight: np.ndarray, slope: np.ndarray,
              curve: np.ndarray) -> float:  # fmt: skip
    """Add the part of some rows to gradient and off-diagonal blocks of the Hessian; their loss."""
    logs = log_softmax_of(z @ weight, axis=1)
    probs = np.exp(logs)
    residual = probs * w[:, None]
    k = probs.shape[1]
    for a in range(k):
        for b in range(a + 1, k):
            block = z.T @ (z * (residual[:, a] * probs[:, b])[:, None])
            curve[a, b] -= block
            curve[b, a] -= block
    residual[np.arange(len(codes)), codes] -= w
    slope += z.T @ residual
    return -float(w @ logs[np.arange(len(codes)), codes])


def _by_method(rows: StandardRows, codes: np.ndarray, basis: np.ndarray, prior: np.ndarray,
               solver: str | Method, max_steps: int, tol: float) -> NewtonFit:  # fmt: skip
    """The fit by a method of `optim`, in coordinates in which every curvature is about one."""
    known = solver in _METHODS if isinstance(solver, str) else isinstance(solver, Method)
    check(known, "solver", "'auto', 'newton', 'lbfgs', 'gradient' or a method of `optim`", repr(solver))
    method = _METHODS[solver] if isinstance(solver, str) else solver
    total, k = rows.total, basis.shape[0]
    steps = 1 / np.sqrt(1 / k + prior / total)
    (z, y), w = pad_rows((rows.design(), codes), rows.weights)
    args = (z, y, w / total, *map(jnp.asarray, (prior / total, steps, basis)))
    run = minimise(
        _mean_loss, np.zeros(prior.size), method, args=args, max_steps=max_steps, tol=tol, curvature=False
    )
    flat, status = np.asarray(run.state) * steps, run.status
    logs = log_softmax_of(rows.predictor(flat.reshape(rows.size, -1) @ basis.T), axis=1)
    own = logs[np.arange(len(codes)), codes]
    # without a penalty, rows fitted with certainty are how a missing maximum looks to a first-order method
    runaway = not prior.any() and (status is not Status.converged or float(own.max()) > -1e-4)
    status = Status.stalled if runaway and status is Status.converged else status
    loss = -float(rows.weights @ own)
    return NewtonFit(flat, loss, np.zeros((0, 0)), status, int(run.num_steps), flat)


def _mean_loss(v: Array, z: Array, y: Array, w: Array, prior: Array, steps: Array, basis: Array) -> Scalar:
    flat = v * steps
    theta = basis @ flat.reshape((z.shape[1], -1)).T
    return softmax_loss(theta, z, y, w) + 0.5 * flat @ (prior * flat)
