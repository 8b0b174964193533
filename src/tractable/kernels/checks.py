r"""Is it a kernel? Symmetry, positive semi-definiteness and positive entries, three notions with their tests.

Matrices.    $K \succeq 0$ if and only if all eigenvalues are $\ge 0$, if and only if **all** principal minors
             are. Leading minors do not suffice: those of $\mathrm{diag}(0, -1)$ are 0 and 0. A Cholesky
             factor with jitter proves $K + \epsilon I \succ 0$. A vector $f$ with $f^\top K f < 0$ disproves,
             and is given.
Entries.     $k(x, x') \ge 0$ is another matter: $x x'$ is positive semi-definite with negative values, and
             $1 - \cos(x - x')$ is non-negative without being positive semi-definite.
Cost.        $O(n^3)$ for eigenvalues or a factor, $2^n$ determinants for all minors.
References.  Horn and Johnson (2013) theorem 7.2.5; Schölkopf and Smola (2002) section 13.1.
"""

from itertools import combinations

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import as_float, check, check_count, check_finite, check_option
from tractable.core.keys import takes_key
from tractable.core.linalg import psd_factor
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.types import Array, ArrayLike, Float, Key, Scalar
from tractable.core.verdict import Verdict
from tractable.kernels.base import Kernel

__all__ = [
    "Falsification", "PsdReport", "falsify_psd", "is_entrywise_nonnegative", "is_psd", "is_symmetric",
    "leading_minors", "noisy_gram", "principal_minors", "psd_report", "quadratic_form",
]  # fmt: skip

_MOST_MINORS = 14  # 2^14 determinants
_METHODS = ("eigenvalues", "cholesky", "minors", "random")


class PsdReport(Module):
    r"""The verdict on a matrix, and a witness $f$ with $f^\top K f = $ `value` $< 0$ where there is one.

    A verdict of True is a proof up to rounding, except by random vectors, where it says "not disproved".
    """

    witness: np.ndarray | None
    psd: bool = field(static=True)
    method: str = field(static=True)
    smallest: float = field(static=True)
    tol: float = field(static=True)
    value: float | None = field(static=True)

    def __bool__(self) -> bool:
        return self.psd

    @property
    def verdict(self) -> Verdict:
        """What was found, by which method."""
        words = "Is not" if not self.psd else "Not disproved as" if self.method == "random" else "Is"
        found = f"; f'Kf = {self.value:.3g} at the witness" if self.witness is not None else ""
        said = f"{words} positive semi-definite by {self.method} (smallest {self.smallest:.3g}{found})."
        return Verdict(self.psd, said, {"smallest": self.smallest, "tol": self.tol})


class Falsification(Module):
    """The search for points at which a kernel is not positive semi-definite.

    `found` with the `points`, the `witness` and the `value` of its quadratic form; or the smallest
    eigenvalue that was met, relative to the largest, in `num_sets` sets.
    """

    points: np.ndarray
    witness: np.ndarray
    found: bool = field(static=True)
    num_sets: int = field(static=True)
    value: float = field(static=True)

    @property
    def verdict(self) -> Verdict:
        """Whether a counter-example was found."""
        said = f"No counter-example in {self.num_sets} sets of {len(self.points)} points."
        if self.found:
            said = f"Not positive semi-definite: f'Kf = {self.value:.3g} on {len(self.points)} points."
        return Verdict(not self.found, said, {"value": self.value, "num_sets": self.num_sets})


def is_symmetric(matrix: ArrayLike, *, tol: float = 1e-10) -> bool:
    """Whether entries across the diagonal agree, within `tol` of the largest."""
    a = _square(matrix)
    return bool(np.abs(a - a.T).max() <= tol * np.abs(a).max())


def is_entrywise_nonnegative(matrix: ArrayLike, *, tol: float = 0.0) -> bool:
    """Whether no entry is below `-tol` times the largest; says nothing about the eigenvalues."""
    a = np.asarray(as_float("matrix", matrix))
    return bool(a.min() >= -tol * np.abs(a).max())


def is_psd(matrix: ArrayLike, *, tol: float | None = None) -> bool:
    """Whether a matrix is symmetric without an eigenvalue below `-tol` times the largest in size."""
    return is_symmetric(matrix) and psd_report(matrix, tol=tol).psd


@takes_key
def psd_report(
    matrix: ArrayLike, *, method: str = "eigenvalues", tol: float | None = None, jitter: float = 0.0,
    key: Key | None = None, num_draws: int = 1000,
) -> PsdReport:  # fmt: skip
    r"""Judge the symmetric part of a matrix by `eigenvalues`, `cholesky`, `minors` or `random` vectors.

    `tol` is relative to the largest eigenvalue or entry and covers rounding. `jitter` (relative to the mean
    of the diagonal) is added for the Cholesky factor alone; `random` needs a `key`, and can only disprove.

    >>> psd_report([[0.0, 2.0], [2.0, 0.0]]).verdict
    Is not positive semi-definite by eigenvalues (smallest -2; f'Kf = -2 at the witness).
    >>> psd_report([[0.0, 0.0], [0.0, -1.0]], method="minors").psd
    False
    """
    check_option("method", method, _METHODS)
    a = _square(matrix)
    a = (a + a.T) / 2
    tol = 32 * len(a) * float(np.finfo(a.dtype).eps) if tol is None else float(tol)
    if method == "minors":
        return _by_minors(a, tol)
    if method == "random":
        return _by_random_vectors(a, tol, key, num_draws)
    values, vectors = np.linalg.eigh(a)
    if method == "cholesky":
        ok = bool(np.isfinite(np.asarray(psd_factor(jnp.asarray(a), jitter=jitter).lower)).all())
    else:
        ok = bool(values[0] >= -tol * np.abs(values).max())
    witness = None if ok or values[0] >= 0 else vectors[:, 0]
    value = None if witness is None else float(values[0])
    return PsdReport(witness, ok, method, float(values[0]), tol, value)


def principal_minors(matrix: ArrayLike) -> dict[tuple[int, ...], float]:
    """The determinant of every square block of the same rows and columns: all are non-negative if and only
    if the matrix is positive semi-definite."""
    a = _square(matrix)
    check(len(a) <= _MOST_MINORS, "matrix", f"at most {_MOST_MINORS} rows wide", len(a), "Use eigenvalues.")
    sets = [rows for size in range(1, len(a) + 1) for rows in combinations(range(len(a)), size)]
    return {rows: float(np.linalg.det(a[np.ix_(rows, rows)])) for rows in sets}


def leading_minors(matrix: ArrayLike) -> Float[np.ndarray, " n"]:
    """The determinants of the upper left blocks: all are **positive** if and only if the matrix is positive
    definite; that none is negative proves nothing."""
    a = _square(matrix)
    return np.array([np.linalg.det(a[:i, :i]) for i in range(1, len(a) + 1)])


@takes_key
def falsify_psd(
    kernel: Kernel, key: Key, *, dim: int = 1, num_points: int = 6, num_sets: int = 50, low: float = -3.0,
    high: float = 3.0,
) -> Falsification:  # fmt: skip
    """Look for a counter-example among random sets of points between `low` and `high`."""
    count, size = check_count("num_sets", num_sets), check_count("num_points", num_points)
    shape = (count, size, check_count("dim", dim))
    sets = np.asarray(jr.uniform(key, shape, minval=low, maxval=high))
    kernel._rows("points", sets.reshape(-1, dim))  # refused by name where the kernel is not defined
    tables = np.asarray(_tables(kernel, jnp.asarray(sets)))
    values, vectors = np.linalg.eigh((tables + np.swapaxes(tables, 1, 2)) / 2)
    relative = values[:, 0] / np.abs(values).max(1)
    worst = int(np.argmin(relative))
    found = bool(relative[worst] < -1e-10)
    return Falsification(sets[worst], vectors[worst, :, 0], found, count, float(values[worst, 0]))


def quadratic_form(kernel: Kernel, X: ArrayLike, f: ArrayLike) -> Scalar:
    r"""$f^\top K f = \sum_{ij} f_i\,k(x_i, x_j)\,f_j$: the variance of $\sum_i f_i\,g(x_i)$."""
    gram, f = kernel.gram(X), as_float("f", f)
    check(f.shape == gram.shape[:1], "f", f"a vector of {len(gram)} weights, one per row", f"shape {f.shape}")
    return f @ gram @ f


def noisy_gram(kernel: Kernel, X: ArrayLike, noise_variance: ArrayLike) -> Float[Array, "n n"]:
    r"""$k(x_i, x_j) + \sigma_i^2\delta_{ij}$: the covariance of noisy observations, one per row.

    Two rows at the same point are two observations: each has noise of its own, and they share none.
    """
    gram, noise = kernel.gram(X), as_float("noise_variance", noise_variance)
    fits = noise.ndim == 0 or noise.shape == gram.shape[:1]
    check(fits, "noise_variance", f"a number or a vector of {len(gram)}", f"shape {noise.shape}")
    return gram + jnp.diag(jnp.broadcast_to(noise, gram.shape[:1]))


@program
def _tables(kernel: Kernel, sets: Array) -> Array:
    return jax.vmap(kernel.gram)(sets)


def _by_minors(a: np.ndarray, tol: float) -> PsdReport:
    minors = principal_minors(a)
    scale = max(float(np.abs(a).max()), np.finfo(a.dtype).tiny)
    relative = {rows: minor / scale ** len(rows) for rows, minor in minors.items()}
    worst = min(relative, key=relative.__getitem__)
    ok = relative[worst] >= -tol
    witness = None
    if not ok:  # the block with a negative determinant has a negative eigenvalue
        witness = np.zeros(len(a))
        witness[list(worst)] = np.linalg.eigh(a[np.ix_(worst, worst)])[1][:, 0]
    value = None if witness is None else float(witness @ a @ witness)
    return PsdReport(witness, ok, "minors", minors[worst], tol, value)


def _by_random_vectors(a: np.ndarray, tol: float, key: Key | None, num_draws: int) -> PsdReport:
    check(key is not None, "key", "given for random vectors", None)
    draws = np.asarray(jr.normal(key, (check_count("num_draws", num_draws), len(a))))  # pyright: ignore
    forms = ((draws @ a) * draws).sum(1) / (draws**2).sum(1)
    worst = int(np.argmin(forms))
    ok = bool(forms[worst] >= -tol * np.abs(a).max())
    witness = None if ok else draws[worst]
    value = None if witness is None else float(witness @ a @ witness)
    return PsdReport(witness, ok, "random", float(forms[worst]), tol, value)


def _square(matrix: ArrayLike) -> np.ndarray:
    a = np.asarray(as_float("matrix", matrix))
    check(a.ndim == 2 and a.shape[0] == a.shape[1] > 0, "matrix", "a square matrix", f"shape {a.shape}")
    check_finite("matrix", a)
    return a
