r"""Dominant directions by power iteration: the largest eigenvalue or singular value, from products alone.

Iteration.   $v \leftarrow A v / \|A v\|$, $\lambda = v^\top A v$. With $v_0 = \sum_i c_i u_i$, $c_1 \ne 0$,
             $A^t v_0 = c_1 \lambda_1^t u_1 + \sum_{i>1} c_i \lambda_i^t u_i$: the error falls by
             $|\lambda_2/\lambda_1|$ each step.
Singular.    $u \leftarrow A v / \|A v\|$, $v \leftarrow A^\top u / \|A^\top u\|$, $\sigma = u^\top A v$; the
             error falls by $(\sigma_2/\sigma_1)^2$.
Cost.        One product with $A$ (two for singular vectors) per step; sparse matrices stay sparse.
References.  Golub and Van Loan (2013) section 7.3.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import as_float, check, check_finite
from tractable.core.iterate import Run, run_until
from tractable.core.module import Module
from tractable.core.programs import program
from tractable.core.types import Array, ArrayLike, Float, Int, Scalar

__all__ = ["EigenPair", "SingularTriple", "dominant_eigenpair", "dominant_singular_triple"]


class EigenPair(Module):
    r"""$A v \approx \lambda v$ with $\|v\| = 1$; `residual` is $\|Av - \lambda v\|/\|Av\|$.

    `rate` estimates $|\lambda_2/\lambda_1|$, the factor by which each step shrinks the error.
    """

    value: Scalar
    vector: Float[Array, " d"]
    residual: Scalar
    rate: Scalar


class SingularTriple(Module):
    r"""$A v \approx \sigma u$ and $A^\top u \approx \sigma v$; `rate` estimates $(\sigma_2/\sigma_1)^2$."""

    left: Float[Array, " n"]
    value: Scalar
    right: Float[Array, " d"]
    residual: Scalar
    rate: Scalar


def dominant_eigenpair(
    matrix: Any, start: ArrayLike | None = None, *, max_steps: int = 1000, tol: float = 1e-12
) -> Run[EigenPair]:
    r"""The eigenvalue of largest modulus and its vector, until $\|Av - \lambda v\| \le$ `tol` $\|Av\|$.

    `matrix` is a dense array, a SciPy sparse matrix, or a function $x \mapsto A x$ (then give a `start`). The
    start must not be orthogonal to the answer; without one, a fixed vector with no symmetry is used. Two
    eigenvalues of one modulus ($\pm\lambda$, or a complex pair) do not settle, and the status says so.

    >>> dominant_eigenpair(jnp.array([[2.0, -1.0], [-1.0, 2.0]])).state.value.round(12).item()
    3.0
    """
    forward, _, size = _operators(matrix, start)
    square = jax.eval_shape(forward, jnp.zeros(size)).shape == (size,)
    check(square, "matrix", "square", f"a map from {size} entries to another number")
    pair = EigenPair(jnp.asarray(0.0), _first(start, size), jnp.asarray(jnp.inf), jnp.asarray(0.0))
    return _iterate(_eigen_step, (forward,), pair, max_steps, jnp.asarray(tol))


def dominant_singular_triple(
    matrix: Any, start: ArrayLike | None = None, *, max_steps: int = 1000, tol: float = 1e-12
) -> Run[SingularTriple]:
    r"""The largest singular value with its two vectors, until $\|A^\top u - \sigma v\| \le$ `tol` $\sigma$.

    `matrix` as in `dominant_eigenpair`; functions come as a pair $(x \mapsto A x,\; y \mapsto A^\top y)$.
    """
    forward, backward, size = _operators(matrix, start)
    functions = "a matrix, or a pair of functions (x to A x, y to A^T y)"
    check(
        backward is not None, "matrix", functions, "one function", "Singular vectors need the transpose too."
    )
    left = jnp.zeros(jax.eval_shape(forward, jnp.zeros(size)).shape)
    triple = SingularTriple(
        left, jnp.asarray(0.0), _first(start, size), jnp.asarray(jnp.inf), jnp.asarray(0.0)
    )
    return _iterate(_singular_step, (forward, backward), triple, max_steps, jnp.asarray(tol))


class _Dense(Module):
    matrix: Float[Array, "n d"]

    def __call__(self, x: Array) -> Array:
        return self.matrix @ x


class _Sparse(Module):
    rows: Int[Array, " nonzero"]
    columns: Int[Array, " nonzero"]
    entries: Float[Array, " nonzero"]
    num_rows: int = eqx.field(static=True)

    def __call__(self, x: Array) -> Array:
        return jnp.zeros(self.num_rows, x.dtype).at[self.rows].add(self.entries * x[self.columns])


def _eigen_step(operators: tuple, pair: EigenPair) -> EigenPair:
    image = operators[0](pair.vector)
    value, length = pair.vector @ image, jnp.linalg.norm(image)
    residual = jnp.linalg.norm(image - value * pair.vector) / length
    return EigenPair(value, image / length, residual, _rate(residual, pair))


def _singular_step(operators: tuple, triple: SingularTriple) -> SingularTriple:
    forward, backward = operators
    image = forward(triple.right)
    value = jnp.linalg.norm(image)
    left = image / value
    back = backward(left)
    residual = jnp.linalg.norm(back - value * triple.right) / value
    return SingularTriple(left, value, back / jnp.linalg.norm(back), residual, _rate(residual, triple))


def _rate(residual: Scalar, before: EigenPair | SingularTriple) -> Scalar:
    """The last ratio of residuals above rounding, where it still speaks of the matrix."""
    clear = jnp.isfinite(before.residual) & (residual > jnp.sqrt(jnp.finfo(residual.dtype).eps))
    return jnp.where(clear, residual / jnp.where(clear, before.residual, 1.0), before.rate)


@program
def _iterate(step: Callable, operators: tuple, start: Any, max_steps: int, tol: Scalar) -> Run:
    def advance(state):
        state = step(operators, state)
        return state, state.residual

    def settled(state, value, before):
        return state.residual <= tol

    return run_until(advance, start, max_steps=max_steps, tol=tol, settled=settled)


def _operators(matrix: Any, start: ArrayLike | None) -> tuple[Callable, Callable | None, int]:
    """The maps $x \\mapsto A x$ and $y \\mapsto A^\\top y$, and the length of $x$."""
    import scipy.sparse

    if callable(matrix) or isinstance(matrix, tuple):
        check(start is not None, "start", "given where `matrix` is a function", "None")
        size = np.size(start) if start is not None else 0
        return (*matrix, size) if isinstance(matrix, tuple) else (matrix, None, size)
    if scipy.sparse.issparse(matrix):
        entries = matrix.tocoo()
        rows, columns = jnp.asarray(entries.row), jnp.asarray(entries.col)
        values = as_float("matrix", entries.data)
        check_finite("matrix", values)
        forward = _Sparse(rows, columns, values, matrix.shape[0])
        return forward, _Sparse(columns, rows, values, matrix.shape[1]), matrix.shape[1]
    dense = as_float("matrix", matrix)
    check(dense.ndim == 2 and dense.size > 0, "matrix", "a matrix with entries", f"shape {dense.shape}")
    check_finite("matrix", dense)
    return _Dense(dense), _Dense(dense.T), dense.shape[1]


def _first(start: ArrayLike | None, size: int) -> Float[Array, " d"]:
    if start is None:
        golden = 0.6180339887498949  # fractional parts of its multiples fill (0, 1) evenly and repeat nowhere
        vector = jnp.asarray(0.5 + np.arange(1, size + 1) * golden % 1.0)
    else:
        vector = as_float("start", start)
        check(vector.shape == (size,), "start", f"of shape ({size},)", f"shape {vector.shape}")
        check_finite("start", vector)
        check(bool(jnp.any(vector != 0)), "start", "a vector other than zero", "zeros")
    return vector / jnp.linalg.norm(vector)
