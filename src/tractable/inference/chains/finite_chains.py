r"""What can be proved of a Markov chain on a finite space, computed: is it a valid sampler, and how fast?

Matrix.      $T_{x'x}$ is the probability of $x'$ after $x$: columns sum to one, and $p_{t+1} = T p_t$.
Validity.    $p$ is stationary if $T p = p$, for which detailed balance $T_{x'x}p_x = T_{xx'}p_{x'}$ is enough
             but not necessary. From every start $T^t p_0 \to p$ if moreover one set of states is reached from
             everywhere and never left, and no period divides the returns. One stationary distribution alone
             is not enough: a chain that alternates between two states has one, and never settles.
Home.        The algebra is that of `finite_analysis`, for rows in place of columns, on the host.
Cost.        $O(n^3)$ for $n$ states.
References.  Levin, Peres and Wilmer (2009), chapters 1 and 4.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check, check_count, check_shape, is_concrete, to_device
from tractable.core.module import Module, field
from tractable.core.types import Array, ArrayLike, Float, Scalar
from tractable.core.verdict import Verdict
from tractable.inference.chains.finite_analysis import (
    chain_period,
    communicating_classes,
    distance_path,
    eliminate,
    stationary_of,
    steps_until_near,
)
from tractable.inference.chains.finite_kernels import (
    as_transitions,
    as_weights,
    gibbs_kernel,
    gibbs_matrix,
    metropolis_matrix,
)

__all__ = [
    "KernelReport", "check_kernel", "detailed_balance_error", "gibbs_kernel", "gibbs_matrix", "is_aperiodic",
    "is_irreducible", "metropolis_matrix", "mixing_time", "period", "return_times", "stationary",
    "stationary_error", "total_variation_path",
]  # fmt: skip


class KernelReport(Module):
    """Whether a transition matrix is a valid sampler of a distribution, rule by rule."""

    stationary_error: Scalar
    detailed_balance_error: Scalar
    longest_return: Scalar  # expected steps between visits of the rarest state
    mixing_time: Scalar  # steps until every start is within a quarter of total variation
    irreducible: bool = field(static=True, kw_only=True)
    num_closed: int = field(static=True, kw_only=True)  # sets of states that are never left
    period: int = field(static=True, kw_only=True)
    tol: float = field(static=True, kw_only=True)

    @property
    def verdict(self) -> Verdict:
        """Whether the chain converges to the distribution from every start."""
        ok = False
        if not bool(self.stationary_error <= self.tol):
            sentence = "Not valid: the distribution is not stationary, and the chain samples from another."
        elif self.num_closed > 1:
            where = "which of them is sampled depends on the start"
            sentence = f"Not valid: {self.num_closed} sets of states are never left; {where}."
        elif self.period > 1:
            sentence = (
                f"Stationary but periodic ({self.period}): averages over time are right, "
                "the distribution at a given step never settles."
            )
        else:
            ok, sentence = True, "Valid: the chain converges to the distribution from every start."
        return Verdict(ok, sentence, {"stationary_error": self.stationary_error, "period": self.period})


def detailed_balance_error(matrix: ArrayLike, target: ArrayLike) -> Scalar:
    r"""$\max_{x,x'} |T_{x'x}\,p_x - T_{xx'}\,p_{x'}|$: zero for a reversible chain."""
    t, p = _pair(matrix, target)
    flow = t * p[None, :]
    return jnp.abs(flow - flow.T).max()


def stationary_error(matrix: ArrayLike, target: ArrayLike) -> Scalar:
    r"""$\max_x |(T p)_x - p_x|$: zero where $p$ is stationary."""
    t, p = _pair(matrix, target)
    return jnp.abs(t @ p - p).max()


def is_irreducible(matrix: ArrayLike) -> bool:
    """Whether every state can reach every other."""
    return len(communicating_classes(_steps(matrix)).closed) == 1


def period(matrix: ArrayLike) -> int:
    """The greatest common divisor of the lengths of all ways back to a state.

    Of several closed classes (sets that are never left), the least common multiple of their periods; states
    that are left for good do not count.
    """
    return chain_period(_steps(matrix))


def is_aperiodic(matrix: ArrayLike) -> bool:
    """Whether the period is one: the distribution settles."""
    return period(matrix) == 1


def stationary(matrix: ArrayLike) -> Float[Array, " n"]:
    r"""The one $p$ with $T p = p$, by elimination without subtractions: small probabilities keep all digits.

    A chain with several closed classes has many, and is refused. Inside a compiled program, where this cannot
    be seen, the chain is taken to be irreducible.

    >>> stationary([[0.9, 0.3], [0.1, 0.7]]).round(6).tolist()
    [0.75, 0.25]
    """
    t = as_transitions("matrix", matrix)
    if not is_concrete(t):
        return _stationary(t)
    classes = communicating_classes(_steps(t)).closed_members
    got = f"{len(classes)}, of sizes {[len(states) for states in classes]}"
    fix = "Each closed class has its own stationary distribution: ask for one of them."
    check(len(classes) == 1, "matrix", "a chain with one closed class", got, fix)
    return to_device(stationary_of(np.asarray(t, float).T, classes[0]).astype(t.dtype))


def return_times(matrix: ArrayLike) -> Float[Array, " n"]:
    r"""The expected number of steps from each state back to itself, $1/p_x$; infinite where $p_x = 0$."""
    return 1 / stationary(matrix)


def total_variation_path(
    matrix: ArrayLike, num_steps: int, start: ArrayLike | None = None, target: ArrayLike | None = None
) -> Float[Array, " t"]:
    r"""$\frac12\|T^t p_0 - p\|_1$ for $t = 0 \dots$ `num_steps`; without a `start`, that of the worst state.

    `target` defaults to the stationary distribution.
    """
    t = as_transitions("matrix", matrix)
    p = stationary(t) if target is None else _as_distribution("target", target, t)
    starts = np.eye(len(t)) if start is None else np.asarray(_as_distribution("start", start, t))[None, :]
    num_steps = check_count("num_steps", num_steps, 0)
    return to_device(distance_path(np.asarray(t).T, starts, np.asarray(p), num_steps))


def mixing_time(matrix: ArrayLike, tol: float = 0.25) -> Scalar:
    r"""The first $t$ with $\max_x \frac12\|T^t e_x - p\|_1 \le$ `tol`: every start has come that near.

    Infinite for a chain that does not settle, or not within $10^{12}$ steps. The distance never grows, so
    that $t$ is found by its binary digits from $T, T^2, T^4 \dots$
    """
    check(0 < tol < 1, "tol", "between 0 and 1", tol)
    t = as_transitions("matrix", matrix)
    p = stationary(t)
    found = (
        steps_until_near(np.asarray(t).T, np.asarray(p), tol)
        if is_concrete(t)
        else steps_until_near(t.T, p, tol)
    )
    return jnp.asarray(found)


def check_kernel(matrix: ArrayLike, target: ArrayLike, *, tol: float = 1e-10) -> KernelReport:
    """Every rule of a valid sampler, checked: stationarity, detailed balance, irreducibility, period."""
    t, p = _pair(matrix, target)
    num_closed = int(communicating_classes(_steps(t)).closed.sum())
    infinite = jnp.asarray(jnp.inf)
    longest = return_times(t).max() if num_closed == 1 else infinite
    mixing = mixing_time(t) if num_closed == 1 else infinite
    return KernelReport(
        stationary_error(t, p),
        detailed_balance_error(t, p),
        longest,
        mixing,
        irreducible=is_irreducible(t),
        num_closed=num_closed,
        period=period(t),
        tol=tol,
    )


@jax.custom_jvp
def _stationary(t: Array) -> Array:
    """By elimination on the host; a program that is compiled around it calls back."""
    shape = jax.ShapeDtypeStruct(t.shape[:1], t.dtype)
    return jax.pure_callback(_eliminated, shape, t, vmap_method="sequential")


@_stationary.defjvp
def _stationary_change(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    r"""$dp = (I - T + p1^\top)^{-1}\,dT\,p$."""
    (t,), (change,) = primals, tangents
    p = _stationary(t)
    return p, jnp.linalg.solve(jnp.eye(len(t), dtype=t.dtype) - t + p[:, None], change @ p)


def _eliminated(t: Any) -> np.ndarray:
    matrix = np.asarray(t)
    return eliminate(matrix.T.astype(float)).stationary().astype(matrix.dtype)


def _steps(matrix: ArrayLike) -> np.ndarray:
    """Which states follow which: entry (i, j) says that j may follow i."""
    return np.asarray(as_transitions("matrix", matrix)).T > 0


def _as_distribution(name: str, value: ArrayLike, matrix: Array) -> Array:
    weights = as_weights(name, value)
    check_shape(name, weights, (len(matrix),))
    return weights


def _pair(matrix: ArrayLike, target: ArrayLike) -> tuple[Array, Array]:
    t = as_transitions("matrix", matrix)
    return t, _as_distribution("target", target, t)
