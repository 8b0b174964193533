r"""Chains of higher order: the next symbol given the last $k$; and how many of them matter.

Model.       $p(x_t \mid x_{<t}) = \theta_{u_t x_t}$ with the context $u_t = (x_{t-k}, \dots, x_{t-1})$:
             $K^k(K - 1)$ free numbers. Order 0 is independence. The past only: given the future too,
             $P(x_t \mid x_{t-1}, x_{t+1})$ is another number (`given_neighbours`).
Choice.      All orders are fitted to the same symbols, those after the first `max_order` of a sequence.
             AIC and BIC penalise $2$ and $\log N$ per number; the evidence integrates the Dirichlet rows
             out; the test of $k$ against $k + 1$ refers twice the difference of log-likelihoods to a
             chi-square with the difference of the numbers that contexts which were seen have.
Homogeneity. One matrix for all times against one for each stretch of time, by the same likelihood ratio.
Cost.        $O(N)$ per order and $O(K^{k+1})$ memory.
References.  Anderson and Goodman (1957); Katz (1981) (BIC for the order).
"""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from tractable.core.checks import check, check_count
from tractable.core.host_random import generator
from tractable.core.keys import takes_key
from tractable.core.module import HostResult, Module, field
from tractable.core.types import Key
from tractable.core.verdict import Verdict
from tractable.distributions.smoothing import additive_smoothing, sequence_log_evidence
from tractable.statespace.markov_chain.chain import MarkovChain
from tractable.statespace.markov_chain.drawing import RowSampler
from tractable.statespace.markov_chain.sequences import coded, context_counts, contexts

__all__ = [
    "HigherOrderChain",
    "Homogeneity",
    "OrderChoice",
    "choose_order",
    "given_neighbours",
    "homogeneity",
]


class HigherOrderChain(Module):
    r"""A chain of order $k$: `table` has one row of probabilities for each context of $k$ symbols.

    Contexts are numbers in base $K$, the latest symbol last. Contexts that were never seen have NaN rows
    unless the fit was smoothed.
    """

    table: np.ndarray
    order: int = field(static=True)
    names: tuple[Hashable, ...] = field(static=True)

    @classmethod
    def fit(
        cls, sequences: Any, order: int, *, smoothing: float | int = 0.0, weights: Any = None,
        names: Sequence[Hashable] | None = None, num_states: int | None = None,
    ) -> "HigherOrderChain":  # fmt: skip
        """Counts of symbols after contexts, smoothed by a pseudo-count."""
        data = coded(sequences, names, weights, num_states)
        order = check_count("order", order, 0)
        return cls(additive_smoothing(context_counts(data, order), smoothing), order, data.names)

    @property
    def num_states(self) -> int:
        return self.table.shape[1]

    @property
    def num_parameters(self) -> int:
        """$K^k(K - 1)$."""
        return self.num_states**self.order * (self.num_states - 1)

    def log_likelihood(self, sequences: Any, weights: Any = None) -> float:
        """Log-probability of all symbols that have a whole context, given those before them.

        $-\\infty$ where a symbol cannot follow; a context without counts is an error that names it.
        """
        data = coded(sequences, self.names, weights, self.num_states)
        code, places = contexts(data, self.order)
        probs, used = self.table[code, data.codes[places]], data.row_weights[places]
        unknown = np.isnan(probs) & (used > 0)
        if unknown.any():
            at = int(places[unknown][0])
            context = [self.names[i] for i in data.codes[at - self.order : at]]
            check(False, "sequences", "of contexts that the fit has seen", context, "Fit with `smoothing`.")
        with np.errstate(divide="ignore"):
            return float(used[used > 0] @ np.log(probs[used > 0]))

    @takes_key
    def sample(self, key: Key, num_steps: int, start: Sequence[Any]) -> np.ndarray:
        """`num_steps` numbers of symbols after the context `start`."""
        check(len(start) >= self.order, "start", f"a context of {self.order} symbols", list(start))
        check(
            not np.isnan(self.table).any(), "table", "known for all contexts", "NaN", "Fit with `smoothing`."
        )
        first = coded([list(start)], self.names).codes[len(start) - self.order :] if self.order else []
        rows, uniforms = RowSampler.of(self.table), generator(key).random(num_steps)
        size, context, found = self.num_states**self.order, 0, np.empty(num_steps, np.int64)
        for symbol in first:
            context = context * self.num_states + int(symbol)
        for t in range(num_steps):
            found[t] = rows.follow(np.array([context]), uniforms[t : t + 1])[0]
            context = (context * self.num_states + int(found[t])) % size
        return found

    def as_first_order(self) -> MarkovChain:
        """The same process as a chain of order one, whose states are the contexts."""
        check(self.order > 0, "order", "at least one", self.order)
        size, k = self.num_states**self.order, self.num_states
        matrix = np.zeros((size, size))
        sources = np.repeat(np.arange(size), k)
        matrix[sources, (sources * k + np.tile(np.arange(k), size)) % size] = self.table.ravel()
        digits = np.stack(np.unravel_index(np.arange(size), (k,) * self.order), 1)
        return MarkovChain(matrix, names=[tuple(self.names[d] for d in row) for row in digits.tolist()])


class OrderChoice(HostResult):
    """Orders 0, 1, ... fitted to the same symbols, with what speaks for each."""

    log_likelihood: np.ndarray
    num_parameters: np.ndarray = field(about="K^k (K - 1)")
    aic: np.ndarray
    bic: np.ndarray
    log_evidence: np.ndarray
    p_value: np.ndarray = field(about="of this order against the next; NaN for the last")

    @property
    def best(self) -> int:
        """The order of the greatest evidence."""
        return int(np.argmax(self.log_evidence))

    @property
    def by_test(self) -> int:
        """The first order that the next does not beat at the level of one in a hundred."""
        kept = np.flatnonzero(~(self.p_value < 0.01))
        return int(kept[0])

    @property
    def verdict(self) -> Verdict:
        """Whether evidence, BIC and tests agree."""
        votes = {"evidence": self.best, "bic": int(np.argmin(self.bic)), "test": self.by_test}
        if len(set(votes.values())) == 1:
            return Verdict(True, f"Order {self.best}, by evidence, BIC and tests alike.", votes)
        said = ", ".join(f"{name} says {order}" for name, order in votes.items())
        return Verdict(False, f"No agreement on the order: {said}.", votes)

    def _columns(self) -> dict[str, list]:
        names = ("log_likelihood", "num_parameters", "aic", "bic", "log_evidence", "p_value")
        return {"order": list(range(len(self.bic)))} | {name: getattr(self, name).tolist() for name in names}


class Homogeneity(HostResult):
    """A likelihood-ratio test of one transition matrix for all times against one for each stretch."""

    statistic: float
    degrees: int = field(static=True)
    p_value: float
    matrices: np.ndarray = field(show=False)

    @property
    def verdict(self) -> Verdict:
        """Whether one matrix is enough at the level of one in a hundred."""
        numbers = {"statistic": self.statistic, "degrees": self.degrees, "p_value": self.p_value}
        if self.p_value < 0.01:
            said = f"Not homogeneous: steps have other probabilities at other times (p = {self.p_value:.2g})."
            return Verdict(False, said, numbers)
        return Verdict(True, f"One matrix for all times is enough (p = {self.p_value:.2g}).", numbers)


def choose_order(
    sequences: Any, max_order: int = 3, *, smoothing: float | int = 1.0, weights: Any = None,
    names: Sequence[Hashable] | None = None,
) -> OrderChoice:  # fmt: skip
    """Orders 0 to `max_order` compared; `smoothing` is the Dirichlet prior of the evidence."""
    data, top = coded(sequences, names, weights), check_count("max_order", max_order, 0)
    keep = data.positions >= top
    check(bool(keep.any()), "max_order", "below the length of the longest sequence", top)
    tables = [context_counts(data, order, keep) for order in range(top + 1)]
    k, total = data.num_states, float(data.row_weights[keep].sum())
    fits = np.array([_maximum(table) for table in tables])
    sizes = np.array([k**order * (k - 1) for order in range(top + 1)])
    seen = [int(((table > 0).sum(1) - 1).clip(0).sum()) for table in tables]
    tests = [_tail(2 * (fits[i + 1] - fits[i]), seen[i + 1] - seen[i]) for i in range(top)]
    evidence = np.array([sequence_log_evidence(table, smoothing).sum() for table in tables])
    return OrderChoice(
        fits,
        sizes,
        2 * (sizes - fits),
        np.log(total) * sizes - 2 * fits,
        evidence,
        np.array([*tests, np.nan]),
    )


def homogeneity(
    sequences: Any, num_stretches: int = 2, *, weights: Any = None, names: Sequence[Hashable] | None = None
) -> Homogeneity:
    """Whether steps have the same probabilities in `num_stretches` equal stretches of each sequence."""
    data, count = coded(sequences, names, weights), check_count("num_stretches", num_stretches, 2)
    lengths = np.repeat(data.lengths, data.lengths)
    stretch = np.minimum((data.positions - 1) * count // np.maximum(lengths - 1, 1), count - 1)
    tables = np.stack([context_counts(data, 1, stretch == s) for s in range(count)])
    together = tables.sum(0)
    statistic = 2 * (sum(_maximum(table) for table in tables) - _maximum(together))
    parts = (tables.sum(2) > 0).sum(0)  # stretches in which a state was left
    degrees = int(((parts - 1) * ((together > 0).sum(1) - 1)).clip(0).sum())
    return Homogeneity(float(statistic), degrees, _tail(statistic, degrees), additive_smoothing(tables, 0.0))


def given_neighbours(chain: MarkovChain, before: Any, after: Any) -> np.ndarray:
    r"""$P(x_t = j \mid x_{t-1}, x_{t+1}) \propto P_{ij}P_{jk}$: the future matters too, where it is known.

    >>> chain = MarkovChain([[0.9, 0.1], [0.2, 0.8]])
    >>> chain.probability(1, 1), given_neighbours(chain, 1, 0)[1].round(6).item()
    (0.8, 0.470588)
    """
    dense = np.asarray(chain.dense)
    joint = dense[chain.index(before)] * dense[:, chain.index(after)]
    check(bool(joint.sum() > 0), "after", "a state that two steps can reach", repr(after))
    return joint / joint.sum()


def _maximum(counts: np.ndarray) -> float:
    """The log-likelihood of counts at its maximum."""
    from scipy.special import xlogy

    return float((xlogy(counts, counts).sum(1) - xlogy(counts.sum(1), counts.sum(1))).sum())


def _tail(statistic: float, degrees: int) -> float:
    from scipy.special import chdtrc

    return float(chdtrc(degrees, max(statistic, 0.0))) if degrees > 0 else float("nan")
