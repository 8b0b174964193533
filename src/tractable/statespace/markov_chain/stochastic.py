r"""Stochastic matrices: what kind one is, random ones, scaling to doubly stochastic, Perron and Frobenius.

Kinds.       Right stochastic: rows sum to one (the convention of this package). Left: columns do; the
             transpose turns one into the other. Doubly: both, and then the uniform distribution is
             stationary. Products of matrices of one kind are of that kind.
Perron.      If a power of $P$ has no zero (primitive: irreducible and aperiodic), the eigenvalue 1 is simple,
             all others are smaller in modulus, and its eigenvector has one sign. Entries that are merely not
             negative are not enough: the identity has 1 many times, the flip has $-1$.
Scaling.     $D_1AD_2$ with unit rows and columns exists, for a square $A \ge 0$, if and only if every
             positive entry lies on a positive diagonal; rows and columns are then divided by their sums in
             turn (Sinkhorn).
Cost.        $O(K^2)$; $O(K^3)$ for the eigenvalues.
References.  Seneta (2006); Sinkhorn and Knopp (1967).
"""

from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from tractable.core.checks import as_float, check, check_entries, check_shape, is_concrete
from tractable.core.host_random import generator
from tractable.core.keys import takes_key
from tractable.core.module import HostResult, field
from tractable.core.types import Key, Values
from tractable.core.verdict import Verdict
from tractable.inference.chains.finite_analysis import communicating_classes
from tractable.statespace.markov_chain.classes import classify

__all__ = [
    "PerronFrobenius", "doubly_stochastic", "is_column_stochastic", "is_doubly_stochastic",
    "is_row_stochastic", "perron_frobenius", "random_stochastic",
]  # fmt: skip


def is_row_stochastic(matrix: Any, tol: float = 1e-12) -> bool:
    """Whether no entry is negative and rows sum to one."""
    values: Any = matrix if issparse(matrix) else np.asarray(matrix, float)
    least = values.data.min(initial=0.0) if issparse(values) else values.min()
    return bool(least >= 0 and np.abs(np.asarray(values.sum(1)).ravel() - 1).max() <= tol)


def is_column_stochastic(matrix: Any, tol: float = 1e-12) -> bool:
    """Whether no entry is negative and columns sum to one."""
    return is_row_stochastic(matrix.T if issparse(matrix) else np.asarray(matrix, float).T, tol)


def is_doubly_stochastic(matrix: Any, tol: float = 1e-12) -> bool:
    """Whether it is both: then the uniform distribution is stationary."""
    return is_row_stochastic(matrix, tol) and is_column_stochastic(matrix, tol)


@takes_key
def random_stochastic(key: Key, num_states: int, concentration: float | int = 1.0) -> np.ndarray:
    """A matrix whose rows are Dirichlet draws; a small `concentration` makes them nearly deterministic."""
    rng = generator(key)
    return rng.dirichlet(np.full(num_states, float(concentration)), num_states)


def doubly_stochastic(matrix: Any, *, tol: float = 1e-12, max_steps: int = 100_000) -> np.ndarray:
    """`matrix` with rows and columns scaled so that all of them sum to one.

    A pattern of zeros that allows no such scaling is refused, with an entry that stands in the way.

    >>> doubly_stochastic([[1.0, 2.0], [3.0, 4.0]]).round(6).tolist()
    [[0.44949, 0.55051], [0.55051, 0.44949]]
    """
    values = np.asarray(matrix, float)
    check(
        values.ndim == 2 and values.shape[0] == values.shape[1], "matrix", "square", f"shape {values.shape}"
    )
    check_entries("matrix", values, lambda v: (v >= 0) & np.isfinite(v), "zero or positive, and finite")
    _check_total_support(values > 0)
    columns = np.ones(len(values))
    for _ in range(max_steps):
        rows = 1 / (values @ columns)
        columns = 1 / (values.T @ rows)
        scaled = rows[:, None] * values * columns
        if np.abs(scaled.sum(1) - 1).max() <= tol:
            return scaled
    fix = "Raise `max_steps` or `tol`: entries of very different sizes balance slowly."
    error = float(np.abs(scaled.sum(1) - 1).max())
    raise ValueError(f"`max_steps` must be enough to balance the rows; got an error of {error:.2g}. {fix}")


class PerronFrobenius(HostResult):
    """What the theorem promises of a transition matrix, and whether it holds."""

    eigenvalues: np.ndarray = field(about="the largest modulus first")
    multiplicity: int = field(static=True)  # of the eigenvalue one: the number of closed classes
    second: float = field(static=True)  # the largest modulus of the others
    primitive: bool = field(static=True)
    vector: Any = field(about="the stationary distribution, where there is one", default=None)

    @property
    def verdict(self) -> Verdict:
        """Whether one is a simple eigenvalue and alone of its modulus."""
        numbers = {"multiplicity": self.multiplicity, "second": self.second}
        if self.multiplicity > 1:
            said = f"The eigenvalue 1 has multiplicity {self.multiplicity}: equilibria are not unique."
            return Verdict(False, said, numbers)
        if self.second >= 1 - 1e-12:
            said = "Another eigenvalue lies on the unit circle: powers do not converge (a period)."
            return Verdict(False, said, numbers)
        start = "Primitive: 1" if self.primitive else "1"
        said = f"{start} is a simple eigenvalue, all others are at most {self.second:.6g}: powers converge."
        return Verdict(True, said, numbers)


def perron_frobenius(transition: Any) -> PerronFrobenius:
    """The theorem of Perron and Frobenius, checked on a matrix whose rows sum to one.

    >>> perron_frobenius([[0.0, 1.0], [1.0, 0.0]]).verdict
    Another eigenvalue lies on the unit circle: powers do not converge (a period).
    """
    matrix = checked_rows("transition", transition)
    dense = matrix.toarray() if issparse(matrix) else matrix
    values = np.linalg.eigvals(dense)
    values = values[np.argsort(-np.abs(values), kind="stable")]
    found = classify(dense)
    closed = int(found.closed.sum())
    order = np.argsort(np.abs(values - 1))
    others = np.abs(values[order[closed:]])
    second = float(others.max(initial=0.0))
    # moduli on the circle come from periods, which are known without rounding
    second = 1.0 if not found.is_aperiodic else second
    vector = None
    if closed == 1:
        from tractable.inference.chains.finite_analysis import stationary_of

        vector = stationary_of(np.asarray(dense, float), np.flatnonzero(found.recurrent))
    return PerronFrobenius(values, closed, second, found.is_ergodic, vector)


def checked_rows(name: str, value: Any) -> Any:
    """A transition matrix as floats, dense or sparse, whose rows are checked to sum to one."""
    if issparse(value):
        matrix: Any = csr_array(value).astype(float)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    else:
        matrix = (
            np.asarray(value, float) if is_concrete(value) and _is_plain(value) else as_float(name, value)
        )
    square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1] and matrix.shape[0] > 0
    check(square, name, "a square matrix", f"shape {matrix.shape}")
    if not issparse(matrix) and not is_concrete(matrix):
        return matrix
    entries = matrix.data if issparse(matrix) else matrix
    check_entries(name, entries, lambda v: (v >= 0) & np.isfinite(v), "zero or positive, and finite")
    totals = np.asarray(matrix.sum(1)).ravel()
    rounding = 1e3 * np.finfo(float).eps * matrix.shape[0]
    fix = "Entry (i, j) is the probability of j after i; transpose it if yours is the other way."
    must, got = "a matrix whose rows sum to one", "a row with sum {}"
    check_entries(name, totals, lambda v: np.abs(v - 1) <= rounding, must, fix, got)
    return matrix


def checked_distribution(name: str, value: Any, size: int) -> Values:
    """Probabilities of states, checked."""
    probs = np.asarray(value, float) if is_concrete(value) and _is_plain(value) else as_float(name, value)
    check_shape(name, probs, (size,))
    if is_concrete(probs):
        check_entries(name, probs, lambda v: (v >= 0) & np.isfinite(v), "zero or positive, and finite")
        total = float(np.asarray(probs).sum())
        check(abs(total - 1) <= 1e-9, name, "probabilities that sum to one", f"a sum of {total:.12g}")
    return probs


def _is_plain(value: Any) -> bool:
    """Whether NumPy can read it: no tracer, and no list of tracers."""
    import jax

    return all(is_concrete(leaf) for leaf in jax.tree.leaves(value))


def _check_total_support(pattern: np.ndarray) -> None:
    """Every positive entry must lie on a positive diagonal: within a class, once one diagonal is found."""
    from scipy.sparse.csgraph import maximum_bipartite_matching

    match = maximum_bipartite_matching(csr_array(pattern), perm_type="column")
    fix = "No scaling of rows and columns can make all of them sum to one."
    check(
        (match >= 0).all(), "matrix", "one with a positive diagonal after some order of columns", "none", fix
    )
    labels = communicating_classes(pattern[:, match]).labels
    inside = labels[:, None] == labels
    wrong = np.argwhere(pattern[:, match] & ~inside)
    if len(wrong):
        place = (int(wrong[0][0]), int(match[wrong[0][1]]))
        check(
            False, "matrix", "one whose positive entries all lie on positive diagonals", f"entry {place}", fix
        )
