r"""The Markov chain on finitely many states: a model of sequences, and the door to all that is known of it.

Model.       $p(x_{0:T}) = \pi_{x_0}\prod_t P_{x_{t-1}x_t}$, with rows of $P$ = `transition` that sum to one
             and $\pi$ = `initial`. Homogeneous: $P$ does not depend on $t$. After $n$ steps $p_n = \pi P^n$
             (Chapman and Kolmogorov: $P^{m+n} = P^mP^n$).
Fit.         Counts of steps, divided by rows; with `smoothing` $\alpha$ the posterior mean under Dirichlet
             rows. Counts add over sequences: `e_step` and `m_step` say so to `EM`, chunks and Dask.
Questions.   Classes and periods (`classify`), `stationary` and `equilibria`, `reversal`, convergence
             (`mixing_time`, `spectrum`, `limit`), first passages (`hitting_times`, `absorption`).
Cost.        $O(N)$ to fit and to score $N$ symbols; $O(K)$ per step of a distribution times the steps that
             are possible (sparse matrices stay sparse); a draw costs $O(\log K)$.
References.  Norris (1997); Levin, Peres and Wilmer (2009).
"""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from scipy.sparse import issparse

from tractable.core.checks import check, check_count, check_length, is_concrete, namespace
from tractable.core.host_random import generator
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.types import Key, Values
from tractable.distributions.smoothing import additive_smoothing
from tractable.statespace.markov_chain import convergence, equilibrium, passage
from tractable.statespace.markov_chain.classes import StateClasses, classify
from tractable.statespace.markov_chain.drawing import RowSampler, draw_from
from tractable.statespace.markov_chain.sequences import coded, context_counts
from tractable.statespace.markov_chain.stochastic import checked_distribution, checked_rows

__all__ = ["MarkovChain"]


class MarkovChain(Module):
    r"""A homogeneous chain with $P_{ij}$ = `transition` the probability of $j$ after $i$ (rows sum to one).

    `transition` is an array or a SciPy sparse matrix; `initial` the distribution of the first state, without
    which probabilities of paths are those given their first state; `names` are those of the states.

    >>> weather = MarkovChain([[0.7, 0.3], [0.6, 0.4]], names=["rain", "sun"])
    >>> weather.stationary().round(6).tolist(), round(weather.probability("rain", "sun", 2), 6)
    ([0.666667, 0.333333], 0.33)
    """

    transition: Any = field(about="P[i, j]: the probability of j after i")
    initial: Any = None
    names: tuple[Hashable, ...] | None = field(static=True, default=None)

    on_host = True

    def __init__(self, transition: Any, initial: Any = None, names: Sequence[Hashable] | None = None):
        self.transition = checked_rows("transition", transition)
        size = self.transition.shape[0]
        self.initial = None if initial is None else checked_distribution("initial", initial, size)
        self.names = None if names is None else tuple(names)
        if self.names is not None:
            check_length("names", np.empty(len(self.names)), "transition", np.empty(size))
            check(len(set(self.names)) == size, "names", "different from each other", self.names)

    @classmethod
    def fit(
        cls, sequences: Any, order: int = 1, *, smoothing: float | int = 0.0, weights: Any = None,
        names: Sequence[Hashable] | None = None, num_states: int | None = None,
    ) -> Any:  # fmt: skip
        """The chain that counts say: of `order` one a `MarkovChain`, of others a `HigherOrderChain`.

        `sequences` are one sequence, a list of them, or a matrix with one in each row; `weights` one number
        each; `smoothing` the pseudo-count of every step (and first state).

        >>> MarkovChain.fit("aabab", names="ab").transition.round(6).tolist()
        [[0.333333, 0.666667], [1.0, 0.0]]
        """
        if check_count("order", order, 0) != 1:
            from tractable.statespace.markov_chain.orders import HigherOrderChain

            return HigherOrderChain.fit(
                sequences, order, smoothing=smoothing, weights=weights, names=names, num_states=num_states
            )
        data = coded(sequences, names, weights, num_states)
        rows = smoothed_rows(context_counts(data), smoothing, data.names)
        first = np.bincount(data.codes[data.positions == 0], data.weights[data.lengths > 0], data.num_states)
        plain = names is None and data.names == tuple(range(data.num_states))
        return cls(rows, additive_smoothing(first, smoothing), None if plain else data.names)

    @property
    def num_states(self) -> int:
        return self.transition.shape[0]

    @property
    def num_parameters(self) -> int:
        """Free numbers of the transition matrix, $K(K - 1)$."""
        return self.num_states * (self.num_states - 1)

    @property
    def dense(self) -> Values:
        """The transition matrix as an array."""
        return self.transition.toarray() if issparse(self.transition) else self.transition

    def index(self, state: Any) -> int:
        """The number of a state, given by its name (where states have names) or by its number."""
        if self.names is not None and state in self.names:
            return self.names.index(state)
        known = "a state by name or number" if self.names else "the number of a state"
        number = isinstance(state, int | np.integer) and 0 <= state < self.num_states
        check(number, "state", f"{known}, of {self.num_states}", repr(state))
        return int(state)

    def codes(self, path: Any) -> Any:
        """The numbers of the states of a path; traced numbers pass unchanged."""
        if not is_concrete(path):
            return path
        return coded([path], self.names, num_states=self.num_states).codes

    def n_step(self, num_steps: int) -> Values:
        """$P^n$, whose entries are the probabilities of $n$ steps."""
        num_steps = check_count("num_steps", num_steps, 0)
        dense = self.dense
        return namespace(dense).linalg.matrix_power(dense, num_steps)

    def probability(self, start: Any, end: Any, num_steps: int = 1) -> float:
        """The probability of `end` after `num_steps` from `start`."""
        return float(self.after(num_steps, start)[self.index(end)])

    def after(self, num_steps: int, start: Any = None) -> Values:
        r"""$p_n = p_0P^n$ from `start`: a state, a distribution, or (left out) the chain's `initial`."""
        p = self._start(start)
        for _ in range(check_count("num_steps", num_steps, 0)):
            p = p @ self.transition
        return p

    def log_prob(self, path: Any) -> Any:
        """Log-probability of one path, given its first state where the chain has no `initial`; $-\\infty$
        where it holds a step that cannot be (`impossible_step` says which)."""
        codes = self.codes(path)
        xp = namespace(self.transition if not issparse(self.transition) else 0, codes)
        steps = self.transition[codes[:-1], codes[1:]] if len(codes) > 1 else xp.ones(0)
        with np.errstate(divide="ignore"):
            total = xp.log(xp.asarray(steps)).sum()
            return total if self.initial is None else total + xp.log(self.initial[codes[0]])

    def log_likelihood(self, sequences: Any, weights: Any = None) -> float:
        """The sum of the log-probabilities of sequences, each times its weight."""
        data = coded(sequences, self.names, weights, self.num_states)
        inner = np.flatnonzero(data.positions > 0)
        first = data.codes[data.positions == 0]
        steps = np.asarray(self.transition[data.codes[inner - 1], data.codes[inner]])
        total = _weighted_logs(steps, data.row_weights[inner])
        if self.initial is not None:
            total += _weighted_logs(np.asarray(self.initial)[first], data.weights[data.lengths > 0])
        return total

    def impossible_step(self, path: Any) -> int | None:
        """The first time $t$ at which a path does what has probability zero; None where it never does."""
        codes = self.codes(path)
        steps = np.asarray(self.transition[codes[:-1], codes[1:]]) if len(codes) > 1 else np.ones(0)
        begins = self.initial is None or self.initial[codes[0]] > 0
        times = np.flatnonzero(np.concatenate([[float(begins)], steps]) == 0)
        return int(times[0]) if len(times) else None

    @takes_key
    def sample(self, key: Key, num_steps: int, num_paths: int | None = None, start: Any = None) -> np.ndarray:
        """Paths of `num_steps` steps after the first state, as numbers of states: a vector, or one per row.

        They begin at `start` (a state or a distribution), or as the chain's `initial` says.
        """
        rng, rows = generator(key), RowSampler.of(self.transition)
        many = 1 if num_paths is None else check_count("num_paths", num_paths)
        found = np.empty((check_count("num_steps", num_steps, 0) + 1, many), np.int64)
        found[0] = draw_from(np.asarray(self._start(start)), rng.random(many))
        for t in range(num_steps):
            found[t + 1] = rows.follow(found[t], rng.random(many))
        return found[:, 0] if num_paths is None else np.ascontiguousarray(found.T)

    def classify(self) -> StateClasses:
        """Communicating classes, which of them are never left, their periods; irreducible, ergodic."""
        return classify(self.transition, self.names)

    def stationary(self, method: str = "elimination", **options: Any) -> np.ndarray:
        """The one $\\pi$ with $\\pi P = \\pi$; a chain with several is refused (`equilibria` gives them all).

        `method` is "elimination" (every entry to all digits), "eigenvector", "power" (sparse matrices of any
        size) or "simulation" (with `key`, `num_steps`): see `equilibrium.stationary`.
        """
        return equilibrium.stationary(self, method, **options)

    def equilibria(self) -> equilibrium.Equilibria:
        """The stationary distribution of each closed class, with residuals and return times."""
        return equilibrium.equilibria(self)

    def reversal(self) -> "MarkovChain":
        r"""The chain seen backwards in equilibrium, $Q_{ji} = \pi_iP_{ij}/\pi_j$."""
        return MarkovChain(*equilibrium.reversed_parts(self), self.names)

    def is_reversible(self, tol: float = 1e-12) -> bool:
        r"""Whether $\pi_iP_{ij} = \pi_jP_{ji}$ for all pairs: detailed balance with its own equilibrium."""
        return equilibrium.balance_error(self, self.stationary()) <= tol

    def is_stationary(self, tol: float = 1e-12) -> bool:
        r"""Whether the chain begins in equilibrium, $\pi_0P = \pi_0$, so that no marginal depends on time."""
        check(self.initial is not None, "initial", "given, to be judged", None)
        return bool(np.abs(self.initial @ self.transition - self.initial).max() <= tol)

    def lazy(self, stay: float | int = 0.5) -> "MarkovChain":
        r"""$(1 - \varepsilon)P + \varepsilon I$: the same equilibria, and no period."""
        check(0 <= stay < 1, "stay", "a probability below one", stay)
        mixed = (1 - stay) * self.transition + stay * _identity(self.transition)
        return MarkovChain(mixed, self.initial, self.names)

    def spectrum(self) -> convergence.Spectrum:
        """Eigenvalues, the spectral gap and the times that they promise."""
        return convergence.spectrum(self)

    def limit(self) -> convergence.Limit:
        r"""$\lim P^n$, or that of its averages where a period prevents it."""
        return convergence.limit(self)

    def total_variation(self, num_steps: int, start: Any = None) -> np.ndarray:
        r"""$\frac12\|p_0P^t - \pi\|_1$ for $t = 0, \dots$; without a `start` that of the worst state."""
        return convergence.total_variation(self, num_steps, None if start is None else self._start(start))

    def mixing_time(self, tol: float = 0.25) -> float:
        """Steps until every start is within `tol` of equilibrium; infinite where a period prevents it."""
        return convergence.mixing_time(self, tol)

    def hitting_times(self, target: Any) -> np.ndarray:
        """Expected steps from each state to `target` (one or several); infinite where it can be missed."""
        return passage.hitting_times(self, target)

    def hitting_probabilities(self, target: Any) -> np.ndarray:
        """The probability from each state that `target` (a state, or several) is ever reached."""
        return passage.hitting_probabilities(self, target)

    def absorption(self) -> passage.Absorption:
        """Into which closed class transient states fall, and after how many steps."""
        return passage.absorption(self)

    def e_step(self, rows: Any, weights: Any) -> tuple[tuple[np.ndarray, np.ndarray], float]:
        """Counts of first states and of steps, which add over sequences, and the log-likelihood."""
        data = coded(np.asarray(rows), self.names, np.asarray(weights, float), self.num_states)
        first = np.bincount(data.codes[data.positions == 0], data.weights, self.num_states)
        return (first, context_counts(data)), self.log_likelihood(np.asarray(rows), np.asarray(weights))

    def m_step(self, stats: Any) -> "MarkovChain":
        """Maximum likelihood from counts; a state that was never left keeps its row."""
        first, counts = (np.asarray(each, float) for each in stats)
        left = counts.sum(1, keepdims=True)
        rows = np.where(left > 0, counts / np.where(left > 0, left, 1.0), self.dense)
        initial = first / first.sum() if self.initial is not None and first.sum() > 0 else self.initial
        return MarkovChain(rows, initial, self.names)

    def _start(self, start: Any) -> Values:
        if start is None:
            fix = "Give `start`, a state or a distribution, or make the chain with `initial`."
            check(self.initial is not None, "start", "given where the chain has no `initial`", None, fix)
            return self.initial
        if np.ndim(start) == 1 and not isinstance(start, str | tuple):
            return checked_distribution("start", start, self.num_states)
        return np.eye(1, self.num_states, self.index(start))[0]


def smoothed_rows(counts: np.ndarray, smoothing: float | int, names: Sequence[Hashable]) -> np.ndarray:
    """Rows of probabilities from counts; a state that was never left is named."""
    rows = additive_smoothing(counts, smoothing)
    empty = np.flatnonzero(np.isnan(rows).any(1))
    if len(empty):
        got = f"{names[empty[0]]!r} at the end of a sequence only, or nowhere"
        fix = "Give `smoothing` above zero, or leave the state out."
        check(False, "sequences", "such that every state is left at least once", got, fix)
    return rows


def _identity(transition: Any) -> Any:
    from scipy.sparse import eye_array

    size = transition.shape[0]
    return eye_array(size, format="csr") if issparse(transition) else np.eye(size)


def _weighted_logs(probs: np.ndarray, weights: np.ndarray) -> float:
    r"""$\sum w\log p$, where a weight of zero is absence."""
    used = weights > 0
    with np.errstate(divide="ignore"):
        return float(weights[used] @ np.log(probs[used]))
