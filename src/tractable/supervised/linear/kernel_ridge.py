r"""Kernel ridge regression: ridge among the features of a kernel, solved with one unknown per row.

Model.       $\min_a \sum_n w_n(t_n - f(x_n))^2 + \lambda\,a^\top Ka$, $f(x) = \sum_j a_j k(x_j, x)$;
             $a = (K + \lambda W^{-1})^{-1}t$. With $k(x, z) = \phi(x)^\top\phi(z)$ the weights $\Phi^\top a$
             are those of ridge.
Leave one.   $t_i - f^{(-i)}(x_i) = a_i/[(K + \lambda W^{-1})^{-1}]_{ii}$.
Process.     The mean is that of a Gaussian process with covariance $s^2k$ and noise $s^2\lambda/w_i$,
             whatever $s$; the most likely amplitude is $\hat s^2 = t^\top(K + \lambda W^{-1})^{-1}t/\sum w$,
             and with it the variance of a new target is
             $\hat s^2(k(x, x) - k_*^\top(K + \lambda W^{-1})^{-1}k_* + \lambda)$.
Descent.     Gradient descent on $\sum_i(w^\top x_i - t_i)^2$ from $w_0 = 0$ stays in the span of the rows:
             $a_i \leftarrow a_i - 2\eta(\sum_j a_j k(x_j, x_i) - t_i)$ needs inner products only.
Cost.        $O(n^3/3 + n^2d)$, against $O(nM^2)$ with $M$ features.
References.  Saunders, Gammerman and Vovk (1998); Rasmussen and Williams (2006) section 2.2.
"""

import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import scipy.linalg as sl

from tractable.core.checks import check, namespace
from tractable.core.iterate import run
from tractable.core.module import Module
from tractable.core.programs import program
from tractable.core.rows import Rows, points
from tractable.core.types import Array, ArrayLike, Values
from tractable.kernels.base import Kernel
from tractable.kernels.stationary import RBF
from tractable.supervised.svm.gram import expand_kernel, kernel_diagonal, kernel_matrix

__all__ = ["KernelRidge", "kernel_descent"]


class KernelRidge(Module):
    """A fitted kernel ridge regression; `left_out` are the predictions of each row without itself."""

    kernel: Kernel
    rows: np.ndarray
    coefficients: np.ndarray
    lower: np.ndarray  # Cholesky factor of K + lambda / w
    penalty: float
    amplitude: float  # the most likely variance of the process
    left_out: np.ndarray

    @classmethod
    def fit(
        cls,
        X: ArrayLike | Rows,
        y: ArrayLike | None = None,
        kernel: Kernel | None = None,
        penalty: float = 1.0,
        *,
        weights: ArrayLike | None = None,
    ) -> "KernelRidge":
        """Fit with penalty $\\lambda > 0$.

        >>> from tractable.kernels.nonstationary import Linear
        >>> fitted = KernelRidge.fit([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]], [1.0, 2.0, 3.0], Linear(), 0.5)
        >>> (fitted.coefficients @ fitted.rows).round(7).tolist()
        [0.8780488, 0.9756098]
        """
        rows, targets, mass = Rows.of(X, y, weights, target="number")
        check(0 < penalty < np.inf, "penalty", "positive and finite", penalty)
        kernel = RBF() if kernel is None else kernel
        table = kernel_matrix(kernel, rows)
        table[np.diag_indices(len(rows))] += penalty / mass
        lower = np.tril(sl.cholesky(table, lower=True))
        coefficients = sl.cho_solve((lower, True), targets)
        inverse, _ = sl.get_lapack_funcs(("potri",), (lower,))[0](lower, lower=1)
        amplitude = float(targets @ coefficients / mass.sum())
        left_out = targets - coefficients / np.diagonal(inverse)
        return cls(kernel, rows, coefficients, lower, float(penalty), amplitude, left_out)

    def predict(self, X: ArrayLike | Rows) -> Values:
        """$\\sum_j a_j k(x_j, x)$."""
        rows = points(X, self.rows.shape[1])
        if namespace(self, rows) is jnp:
            return self.kernel.gram(rows, self.rows) @ self.coefficients
        return expand_kernel(self.kernel, rows, np.asarray(self.rows), self.coefficients)

    def variance(self, X: ArrayLike | Rows) -> Values:
        """The variance of a new target in the process reading, with the most likely amplitude."""
        rows = points(X, self.rows.shape[1])
        xp = namespace(self, rows)
        if xp is jnp:
            cross, own = self.kernel.gram(rows, self.rows), self.kernel.diagonal(rows)
        else:
            cross = kernel_matrix(self.kernel, rows, np.asarray(self.rows))
            own = kernel_diagonal(self.kernel, rows)
        solve = jsl.solve_triangular if xp is jnp else sl.solve_triangular
        explained = (solve(xp.asarray(self.lower), cross.T, lower=True) ** 2).sum(0)
        unknown = xp.maximum(own - explained, 0.0)  # rounding at training rows
        return self.amplitude * (unknown + self.penalty)


def kernel_descent(gram: ArrayLike, y: ArrayLike, *, learning_rate: float, num_steps: int) -> np.ndarray:
    """The coefficients after each step of gradient descent on the sum of squares, from zero.

    Stable for a rate below $1/\\lambda_{\\max}(K)$; with the linear kernel $X^\\top a$ is the
    path of the weights.
    """
    table, targets = jnp.asarray(gram, float), jnp.asarray(Rows.of(gram, y, target="number").y)
    largest = float(np.linalg.eigvalsh(np.asarray(table))[-1])
    fix = f"The largest eigenvalue of the kernel matrix is {largest:.4g}."
    check(
        0 < learning_rate < 1.0 / largest,
        "learning_rate",
        f"positive and below {1.0 / largest:.4g}",
        learning_rate,
        fix,
    )
    return np.asarray(_descent(table, targets, jnp.asarray(learning_rate), num_steps))


@program
def _descent(table: Array, targets: Array, rate: Array, num_steps: int) -> Array:
    def step(a, _):
        moved = a - 2.0 * rate * (table @ a - targets)
        return moved, moved

    return run(step, jnp.zeros_like(targets), num_steps=num_steps).trace
