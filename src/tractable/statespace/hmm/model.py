r"""Hidden Markov models: likelihoods that are never floored, beliefs, best paths, draws, and the steps of EM.

Model.       $p(x, z) = \pi(z_1)\prod_{t \ge 2} A(z_{t-1}, z_t)\prod_t p(x_t \mid z_t)$; with `controls`, $A$
             is one of several matrices, chosen for each row.
Engine.      All recursions are those of `messages.chain_rows` (under a trace, of `messages.chain`): exact in
             log space, whatever underflows. A sequence that cannot be has log-likelihood $-\infty$;
             what conditions on it raises, and names the sequence and the time.
E-step.      $\gamma_t(k) = p(z_t = k \mid x)$, $\sum_t \xi_t(i, j)$; sums over sequences, which add.
M-step.      $\pi \propto \sum \gamma_1$, $A_{ij} \propto \sum_t \xi_t(i, j)$, emissions by their statistics.
             What is impossible stays impossible; a state that is never left keeps its row. With `ties` the
             counts of cells that are one probability are added (`hmm.ties`).
Cost.        $O(nK^2)$ and the cost of the emissions.
References.  Baum et al. (1970); Rabiner (1989); Bishop (2006) section 13.2.
"""

from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from tractable.core.checks import ImpossibleEvidence, as_float, check, check_count, has_values
from tractable.core.host_random import generator
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.support import simplex
from tractable.core.types import Key
from tractable.messages.chain import Chain, forward_backward
from tractable.messages.chain_paths import best_paths
from tractable.messages.chain_rows import (
    ChainRows,
    Room,
    best_rows,
    chain_of,
    filter_rows,
    sample_rows,
    smooth_rows,
    total_rows,
)
from tractable.statespace.hmm.emissions import Emissions, as_emissions
from tractable.statespace.hmm.results import Filtered, Forecast, Smoothed
from tractable.statespace.hmm.sequences import Sequences, as_sequences
from tractable.statespace.hmm.ties import Ties, as_ties, maximise_laws, obeys

__all__ = ["HiddenMarkov", "MarkovSums"]


class MarkovSums(Module):
    """Sums over sequences: where they begin, expected moves between states, statistics of the emissions."""

    initial: Any
    transition: Any
    emissions: Any


class HiddenMarkov(Module):
    r"""$\pi$ = `initial` (k,), $A$ = `transition` (k, k) with the earlier state along its rows, or (m, k, k)
    chosen by `controls`, and `emissions`: a table (k, v) for symbols, stacked distributions, a `Conditional`
    from states to distributions, or an `Emissions`. `ties` makes moves share their probabilities: one number
    per state (states of equal number have one row), or one per cell (`hmm.ties`); fits keep them.

    >>> hmm = HiddenMarkov([0.8, 0.2], [[0.6, 0.4], [0.5, 0.5]], [[0.2, 0.4, 0.4], [0.5, 0.4, 0.1]])
    >>> round(float(np.exp(hmm.log_likelihood([2, 0, 2]))), 6)
    0.028562
    """

    on_host: ClassVar[bool] = True

    initial: Any = field(support=simplex)
    transition: Any = field(support=simplex, rank=2)
    emissions: Emissions
    ties: Ties | None = field(static=True, default=None, show=False)

    def __init__(self, initial: Any, transition: Any, emissions: Any, ties: Any = None):
        self.initial = as_float("initial", initial)
        self.transition = as_float("transition", transition)
        check(
            self.initial.ndim == 1, "initial", "a vector, one number per state", f"shape {self.initial.shape}"
        )
        k = self.initial.shape[0]
        fine = self.transition.ndim in (2, 3) and self.transition.shape[-2:] == (k, k)
        must = f"of shape ({k}, {k}), or a stack of such"
        check(fine, "transition", must, f"shape {self.transition.shape}")
        self.emissions = as_emissions(emissions, k)
        got = self.emissions.num_states
        check(got == k, "emissions", f"for the {k} states of `initial`", f"{got} states")
        self.ties = as_ties(ties, self.transition.shape)
        if self.ties is not None and has_values((self.initial, self.transition)):
            obeys(self.ties, self.initial, self.transition)

    @property
    def num_states(self) -> int:
        return self.initial.shape[0]

    def log_likelihood(self, x: Any, **beside: Any) -> Any:
        r"""$\log p(x)$: a number for one sequence, an array for several; $-\infty$ where it cannot be."""
        if not has_values((self, x)):
            return forward_backward(self._traced(x, **beside), method="scan").log_total
        sequences, one = self._sequences(x, **beside)
        totals = total_rows(self._rows(sequences))
        return totals[0] if one else totals

    def filter(self, x: Any, **beside: Any) -> Filtered:
        r"""$p(z_t \mid x_{1:t})$ for each time."""
        sequences, one = self._sequences(x, **beside)
        found = filter_rows(self._rows(sequences))
        _refuse_impossible(found.impossible)
        parts = sequences.split(found.beliefs)
        return Filtered(parts[0] if one else parts, found.log_totals[0] if one else found.log_totals)

    def smooth(self, x: Any, **beside: Any) -> Smoothed:
        r"""$p(z_t \mid x)$ for each time, pair marginals and expected counts."""
        sequences, one = self._sequences(x, **beside)
        rows = self._rows(sequences)
        found = smooth_rows(rows, sequences.weights)
        _refuse_impossible(found.impossible)
        parts = sequences.split(found.beliefs)
        totals = found.log_totals
        assert found.counts is not None
        moves = found.counts if self.transition.ndim == 3 else found.counts[0]
        visits = sequences.row_weights @ found.beliefs
        return Smoothed(parts[0] if one else parts, totals[0] if one else totals, moves, visits, rows)

    def viterbi(self, x: Any, **beside: Any) -> tuple[Any, Any]:
        r"""The most probable path and $\log p(x, z)$ of it; of equal ones, that with the smaller states."""
        sequences, one = self._sequences(x, **beside)
        path, values, impossible = best_rows(self._rows(sequences))
        _refuse_impossible(impossible)
        parts = sequences.split(path)
        return (parts[0], values[0]) if one else (parts, values)

    def best_paths(self, x: Any, num_paths: int, **beside: Any) -> tuple[np.ndarray, np.ndarray]:
        r"""The `num_paths` most probable paths of one sequence in falling order, and their $\log p(x, z)$."""
        sequences, _ = self._sequences(x, **beside)
        check(sequences.num_sequences == 1, "x", "one sequence", sequences.num_sequences)
        rows = self._rows(sequences)
        _refuse_impossible(filter_rows(rows).impossible)
        found = best_paths(chain_of(rows, 0, pad=True), check_count("num_paths", num_paths))
        return np.asarray(found.paths)[:, : len(sequences.rows)], np.asarray(found.log_values)

    def decode(self, x: Any, **beside: Any) -> Any:
        """The most probable state of each time by itself (posterior decoding): fewest wrong states."""
        return self.smooth(x, **beside).path

    def log_joint(self, states: Any, x: Any, **beside: Any) -> float:
        r"""$\log p(x, z)$ of one sequence and its states."""
        sequences, _ = self._sequences(x, **beside)
        path = np.asarray(states)
        fine = path.shape == (len(sequences.rows),) and path.dtype.kind in "iu"
        check(fine, "states", f"whole numbers, one per row ({len(sequences.rows)})", f"shape {path.shape}")
        rows = self._rows(sequences)
        which = rows.which[1:] if rows.which.size else np.zeros(len(path) - 1, int)
        with np.errstate(divide="ignore"):
            steps = np.log(rows.steps[which, path[:-1], path[1:]])
            start = np.log(rows.initial[path[0]])
        return float(start + steps.sum() + rows.logs[np.arange(len(path)), path].sum())

    def predict(self, x: Any, steps: int = 1, **beside: Any) -> np.ndarray:
        r"""$p(z_{T+h} \mid x_{1:T})$ for $h = 1, \dots$, (steps, k), of one sequence."""
        check(self.transition.ndim == 2, "transition", "one matrix, to look ahead", self.transition.shape)
        belief = self.filter(x, **beside).probabilities
        check(not isinstance(belief, list), "x", "one sequence", "several")
        ahead, now = [], belief[-1]
        for _ in range(check_count("steps", steps)):
            now = now @ np.asarray(self.transition)
            ahead.append(now)
        return np.array(ahead)

    def forecast(self, x: Any, steps: int = 1, **beside: Any) -> Forecast:
        """States and rows that follow one sequence: probabilities, means and variances."""
        states = self.predict(x, steps, **beside)
        means, variances = self.emissions.moments()
        mean = np.tensordot(states, means, 1)
        second = np.tensordot(states, variances + means**2, 1)
        table = getattr(self.emissions, "table", None)
        symbols = None if table is None else states @ np.asarray(table)
        return Forecast(states, mean, second - mean**2, symbols)

    @takes_key
    def sample(
        self, key: Key, n: int, *, inputs: Any = None, controls: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """States and rows of one drawn sequence of length `n`."""
        random, size = generator(key), check_count("n", n)
        transition = np.asarray(self.transition, float)
        stack = transition if transition.ndim == 3 else transition[None]
        which = np.zeros(size, int) if controls is None else np.asarray(controls)
        ends, first = np.cumsum(stack, 2), np.cumsum(np.asarray(self.initial, float))
        shares, states = random.random(size), np.zeros(size, np.int64)
        states[0] = np.searchsorted(first / first[-1], shares[0], side="right")
        for t in range(1, size):
            row = ends[which[t], states[t - 1]]
            states[t] = np.searchsorted(row, shares[t] * row[-1], side="right")
        return states, self.emissions.draw(random, states, inputs)

    @takes_key
    def sample_paths(self, key: Key, x: Any, num_paths: int = 1, **beside: Any) -> Any:
        """Paths drawn from their posterior (num_paths, n); a list of such for several sequences."""
        sequences, one = self._sequences(x, **beside)
        rows = self._rows(sequences)
        paths = sample_rows(rows, generator(key), check_count("num_paths", num_paths))
        _refuse_impossible(np.where((paths[0] < 0)[sequences.starts[:-1]], 0, -1))
        return paths if one else np.split(paths, sequences.starts[1:-1], axis=1)

    def gathered(self, data: Any, weights: Any = None) -> Sequences:
        """Data in any form as sequences that add up by themselves: what `EM` asks for."""
        return as_sequences(data, self.emissions.row_ndim, weights=weights)

    def e_step(self, data: Any, weights: Any) -> tuple[MarkovSums, Any]:
        """Expected statistics and log-likelihood, which add over sequences."""
        sequences = as_sequences(data, self.emissions.row_ndim, weights=weights).counted()
        rows = self._rows(sequences)
        with (sequences.room or Room()).lent(rows) as block:
            found = smooth_rows(rows, sequences.weights, block)
            _refuse_impossible(np.where(sequences.weights > 0, found.impossible, -1))
            shares = found.beliefs
            if (sequences.weights != 1).any():  # an absent sequence may be impossible: it counts nothing
                often = sequences.row_weights[:, None]
                shares = np.where(often > 0, often * shares, 0.0)
            sums = self._sums(sequences, shares, found.counts)
        return sums, _weigh(sequences.weights, found.log_totals)

    def hard_e_step(self, data: Any, weights: Any) -> tuple[MarkovSums, Any]:
        r"""Statistics of the best path of each sequence, and $\sum\log p(x, z)$: Viterbi training."""
        sequences = as_sequences(data, self.emissions.row_ndim, weights=weights).counted()
        path, values, impossible = best_rows(self._rows(sequences))
        _refuse_impossible(np.where(sequences.weights > 0, impossible, -1))
        return self.labelled_sums(sequences, path), _weigh(sequences.weights, values)

    def labelled_sums(self, data: Any, states: Any, weights: Any = None) -> MarkovSums:
        """Statistics of sequences whose states are known, one per row."""
        sequences = as_sequences(data, self.emissions.row_ndim, weights=weights)
        path = (
            np.concatenate([np.atleast_1d(s) for s in states])
            if isinstance(states, list)
            else np.asarray(states)
        )
        path = path.reshape(-1)
        fine = path.shape == (len(sequences.rows),) and path.dtype.kind in "iu"
        check(fine, "states", f"whole numbers, one per row ({len(sequences.rows)})", f"shape {path.shape}")
        inside = bool(((path >= 0) & (path < self.num_states)).all())
        check(inside, "states", f"from 0 to {self.num_states - 1}", f"{path.min()} to {path.max()}")
        share = sequences.row_weights
        counts = np.zeros((len(self._steps()), self.num_states, self.num_states))
        later = np.setdiff1d(np.arange(len(path)), sequences.starts[:-1])
        which = np.zeros(len(later), int) if sequences.controls is None else sequences.controls[later]
        np.add.at(counts, (np.asarray(which), path[later - 1], path[later]), share[later])
        return self._sums(sequences, share[:, None] * np.eye(self.num_states)[path], counts)

    def m_step(self, stats: MarkovSums) -> "HiddenMarkov":
        """The model of highest expected log-likelihood."""
        initial, moves = np.asarray(stats.initial, float), np.asarray(stats.transition, float)
        emitted = self.emissions.from_stats(stats.emissions)
        if self.ties is not None:
            first, rows = maximise_laws(self.ties, initial, moves, (self.initial, self.transition))
            return HiddenMarkov(first, rows, emitted, self.ties)
        totals = moves.sum(-1, keepdims=True)
        rows = np.where(totals > 0, moves / np.where(totals > 0, totals, 1.0), np.asarray(self.transition))
        first = initial / initial.sum() if initial.sum() > 0 else np.asarray(self.initial)
        return HiddenMarkov(first, rows, emitted)

    def expected_log_joint(self, stats: MarkovSums) -> Any:
        r"""$E[\log p(x, z)]$ from statistics."""
        total = self.emissions.expected_log_prob(stats.emissions)
        for counts, probs in ((stats.initial, self.initial), (stats.transition, self.transition)):
            counts = jnp.asarray(counts)
            total = total + (counts * jnp.log(jnp.where(counts > 0, probs, 1.0))).sum()
        return jnp.asarray(total)

    def _sums(self, sequences: Sequences, shares: np.ndarray, counts: Any) -> MarkovSums:
        moves = counts if self.transition.ndim == 3 else counts[0]
        emitted = self.emissions.stats(sequences, shares)
        return MarkovSums(shares[sequences.starts[:-1]].sum(0), moves, emitted)

    def _sequences(self, x: Any, **beside: Any) -> tuple[Sequences, bool]:
        sequences = as_sequences(x, self.emissions.row_ndim, **beside)
        several = (
            isinstance(x, tuple)
            or np.ndim(sequences.rows) != _depth(x)
            or (isinstance(x, Sequences) and sequences.num_sequences > 1)
        )
        return sequences, not several

    def _steps(self) -> np.ndarray:
        steps = np.asarray(self.transition, float)
        return steps if steps.ndim == 3 else steps[None]

    def _rows(self, sequences: Sequences) -> ChainRows:
        steps, which = self._steps(), np.zeros(0, np.int64)
        if len(steps) > 1:
            got = "none" if sequences.controls is None else sequences.controls.dtype
            fix = "Give `controls`, one per row: that of a row chooses the transition into it."
            fine = sequences.controls is not None and sequences.controls.dtype.kind in "iu"
            check(fine, "controls", f"whole numbers from 0 to {len(steps) - 1}", got, fix)
            which = np.asarray(sequences.controls, np.int64)
            inside = bool(((which >= 0) & (which < len(steps))).all())
            check(inside, "controls", f"from 0 to {len(steps) - 1}", f"{which.min()} to {which.max()}")
        logs = np.ascontiguousarray(self.emissions.log_prob(sequences), float)
        return ChainRows(logs, steps, np.asarray(self.initial, float), np.asarray(sequences.starts), which)

    def _traced(self, x: Any, controls: Any = None, inputs: Any = None) -> Chain:
        rows = jnp.asarray(x)
        one = Sequences(rows, np.array([0, rows.shape[0]]), np.ones(1), inputs, controls)
        nodes = jnp.asarray(self.emissions.log_prob(one))
        nodes = nodes.at[0].add(jnp.log(self.initial))
        steps = jnp.log(self.transition)
        return Chain(nodes, steps if steps.ndim == 2 else steps[jnp.asarray(controls)[1:]])


def _depth(x: Any) -> int:
    """The number of axes of one sequence, or one more where there are several."""
    if isinstance(x, Sequences):
        return np.ndim(x.rows)
    return 1 + _depth(x[0]) if isinstance(x, list) and len(x) else np.ndim(x)


def _weigh(weights: np.ndarray, totals: np.ndarray) -> Any:
    return np.float64(weights @ np.where(weights > 0, totals, 0.0))


def _refuse_impossible(impossible: np.ndarray) -> None:
    """Raise where a sequence cannot be, with its number and the time at which its rows exclude every path."""
    wrong = np.flatnonzero(impossible >= 0)
    if len(wrong):
        raise ImpossibleEvidence(
            f"`x` must be possible under the model; got a sequence ({wrong[0]}) whose rows up to time "
            f"{int(impossible[wrong[0]])} no path of states explains. Its log-likelihood is -inf: look at "
            "zeros of `initial`, `transition` and the emissions."
        )
