r"""What a hidden state emits: the protocol, symbols from a table, and any family of distributions.

Protocol.    `log_prob(sequences)` gives $\log p(x_t \mid z_t = k)$, (n, k), zero for rows that are missing;
             `stats(sequences, shares)` sums over rows of which each state owns a share, and adds;
             `from_stats(stats)` gives the emissions of highest expected log-likelihood;
             `expected_log_prob(stats)` that value; `draw(generator, states, inputs)` one row per state.
Table.       $p(x = v \mid z = k) = B_{kv}$; M-step $B_{kv} \propto \sum_t \gamma_t(k)[x_t = v]$.
Families.    Any `Conditional` from states to members of one exponential family: Poisson, gamma, beta, von
             Mises, ... and those of users. Their statistics are those of `distributions.Mixture`.
Cost.        $O(nK)$.
References.  Rabiner (1989).
"""

from abc import abstractmethod
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from scipy.sparse import csc_array

from tractable.core.checks import as_float, check, namespace
from tractable.core.chunks import bucket_size, pad_rows
from tractable.core.module import Module, field, plates
from tractable.core.programs import program
from tractable.core.support import simplex
from tractable.core.types import Values
from tractable.distributions.base import Distribution
from tractable.distributions.mixture import Mixture, stack
from tractable.statespace.hmm.sequences import Sequences

__all__ = ["Emissions", "FamilyEmissions", "Symbols", "as_emissions"]


class Emissions(Module):
    """The base of emissions; `row_ndim` is 0 where a row is a number and 1 where it is a vector."""

    row_ndim: ClassVar[int] = 0

    @property
    @abstractmethod
    def num_states(self) -> int:
        """The number of states."""

    @abstractmethod
    def log_prob(self, sequences: Sequences) -> Values:
        r"""$\log p(x_t \mid z_t = k)$, (n, k)."""

    @abstractmethod
    def stats(self, sequences: Sequences, shares: np.ndarray) -> Any:
        """Sums over rows of which each state owns the given share, (n, k)."""

    @abstractmethod
    def from_stats(self, stats: Any) -> "Emissions":
        """The emissions of highest expected log-likelihood; a state that owns nothing stays as it is."""

    @abstractmethod
    def draw(self, generator: np.random.Generator, states: np.ndarray, inputs: Any = None) -> np.ndarray:
        """One row for each state of one sequence."""

    def expected_log_prob(self, stats: Any) -> Any:
        r"""$\sum_{tk}\gamma_t(k)\log p(x_t \mid k)$ from statistics."""
        must, fix = "a kind whose expected log-density is known", "Fit without a prior, or take Gaussians."
        raise TypeError(f"`emissions` must be {must}; got {type(self).__name__}. {fix}")

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """The mean and the variance of each state's rows, (k, ...)."""
        must, fix = "a kind with moments, to forecast rows", "`predict` gives the states to come."
        raise TypeError(f"`emissions` must be {must}; got {type(self).__name__}. {fix}")


class Symbols(Emissions):
    """Symbols 0, 1, ... from a table (k, v), whose rows sum to one.

    >>> Symbols([[0.2, 0.4, 0.4], [0.5, 0.4, 0.1]]).num_states
    2
    """

    table: Any = field(support=simplex, rank=2)

    @property
    def num_states(self) -> int:
        return self.table.shape[0]

    @property
    def num_symbols(self) -> int:
        return self.table.shape[1]

    def log_prob(self, sequences):
        xp = namespace(self, sequences)
        if xp is not np:
            table = jnp.log(self.table).T
            return table[jnp.asarray(sequences.rows).astype(int)]
        codes, missing = self._codes(sequences)
        with np.errstate(divide="ignore"):
            logs = np.take(np.log(np.asarray(self.table, float)).T, codes, 0)
        if missing.any():
            logs[missing] = 0.0
        return logs

    def stats(self, sequences, shares):
        codes, missing = self._codes(sequences)
        owned = np.where(missing[:, None], 0.0, shares) if missing.any() else shares
        each = np.ones(len(codes)), codes, np.arange(len(codes) + 1)  # a one for the symbol of each row
        return (csc_array(each, shape=(self.num_symbols, len(codes))) @ owned).T

    def from_stats(self, stats):
        counts = np.asarray(stats, float)
        totals = counts.sum(1, keepdims=True)
        return Symbols(
            np.where(totals > 0, counts / np.where(totals > 0, totals, 1.0), np.asarray(self.table))
        )

    def expected_log_prob(self, stats):
        xp = namespace(self, stats)
        counts, table = xp.asarray(stats), xp.asarray(self.table)
        with np.errstate(divide="ignore"):
            return (counts * xp.where(counts > 0, xp.log(xp.where(counts > 0, table, 1.0)), 0.0)).sum()

    def draw(self, generator, states, inputs=None):
        ends = np.cumsum(np.asarray(self.table, float), 1)
        ends /= ends[:, -1:]
        return (generator.random(len(states))[:, None] >= ends[states]).sum(1)

    def moments(self):
        table, codes = np.asarray(self.table), np.arange(self.num_symbols)
        mean = table @ codes
        return mean, table @ codes**2 - mean**2

    def _codes(self, sequences: Sequences) -> tuple[np.ndarray, np.ndarray]:
        rows, missing = np.asarray(sequences.rows), sequences.missing
        given = np.where(missing, 0, rows) if missing.any() else rows
        with np.errstate(invalid="ignore"):  # numbers beyond all integers are refused below
            codes = given.astype(np.int64, copy=False)
        inside = len(codes) == 0 or (codes.min() >= 0 and codes.max() < self.num_symbols)
        if not inside or (codes is not given and (codes != given).any()):
            at = int(np.argmin((codes == given) & (codes >= 0) & (codes < self.num_symbols)))
            s = int(np.searchsorted(sequences.starts, at, side="right")) - 1
            where = f"{rows[at]} at time {at - int(sequences.starts[s])} of sequence {s}"
            check(False, "sequences", f"whole numbers from 0 to {self.num_symbols - 1}", where)
        return codes, missing


class FamilyEmissions(Emissions):
    """Members of one family stacked in `components`, whose first axis counts the states.

    >>> from tractable.distributions import Poisson
    >>> FamilyEmissions(Poisson(jnp.array([1.0, 5.0]))).num_states
    2
    """

    components: Any

    @property
    def num_states(self) -> int:
        return jnp.shape(jax.tree.leaves(self.components)[0])[0]

    @property
    def row_ndim(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return len(self._mixture.unit_shape)

    @property
    def _mixture(self) -> Mixture:
        return Mixture(np.full(self.num_states, 1 / self.num_states), self.components)

    def log_prob(self, sequences):
        if namespace(self, sequences) is not np:
            return _densities(self.components, jnp.asarray(sequences.rows))
        missing, n = sequences.missing, len(sequences.rows)
        rows, _ = pad_rows(self._present(sequences.rows, missing))
        logs = np.array(_densities(self.components, rows))[:n]
        logs[missing] = 0.0
        return logs

    def stats(self, sequences, shares):
        missing, n = sequences.missing, len(sequences.rows)
        rows, _ = pad_rows(self._present(sequences.rows, missing))
        owned = np.zeros((bucket_size(n), self.num_states))
        owned[:n] = np.where(missing[:, None], 0.0, shares)
        return _labelled(self._mixture, rows, jnp.asarray(owned))

    def from_stats(self, stats):
        return FamilyEmissions(_fitted(self._mixture, stats))

    def expected_log_prob(self, stats):
        counts = jnp.asarray(stats.components.weight)
        return self._mixture.expected_log_joint(stats) + counts.sum() * jnp.log(self.num_states)

    def draw(self, generator, states, inputs=None):
        key = jr.key(int(generator.integers(2**63)))
        drawn = jax.vmap(lambda c, k: c.sample(k, (bucket_size(len(states)),)))
        each = np.asarray(drawn(self.components, jr.split(key, self.num_states)))
        return each[states, np.arange(len(states))]

    def moments(self):
        return (np.asarray(jax.vmap(lambda c: c.mean)(self.components)),
                np.asarray(jax.vmap(lambda c: c.variance)(self.components)))  # fmt: skip

    def _present(self, rows: Any, missing: np.ndarray) -> np.ndarray:
        rows = np.asarray(rows, float)
        partly = np.isnan(rows).reshape(len(rows), -1).any(1) & ~missing
        fix = "Only Gaussian emissions marginalise some entries of a row."
        check(not partly.any(), "sequences", "rows that are whole or missing", f"row {partly.argmax()}", fix)
        support = self._mixture.support
        inside = np.broadcast_to(np.asarray(support.interior(jnp.asarray(rows[:1] * 0.0))), rows[:1].shape)
        return np.where(missing.reshape((-1,) + (1,) * (rows.ndim - 1)), inside, rows)


@program
def _densities(components: Any, rows: Any) -> Any:
    return jax.vmap(lambda c: c.log_prob(rows), out_axes=-1)(components)


@program
def _labelled(mixture: Mixture, rows: Any, shares: Any) -> Any:
    return mixture.labelled_stats(rows, shares)


@program
def _fitted(mixture: Mixture, stats: Any) -> Any:
    return mixture.m_step(stats).components


def as_emissions(emissions: Any, num_states: int) -> Emissions:
    """Emissions as they are; a table of symbols; stacked distributions; or a `Conditional` from states."""
    if isinstance(emissions, Emissions):
        return emissions
    if isinstance(emissions, Distribution):
        units = plates(emissions)
        must = f"{num_states} stacked distributions, one per state"
        check(units[:1] == (num_states,), "emissions", must, f"leading axes {units}")
        return FamilyEmissions(Mixture(np.full(num_states, 1 / num_states), emissions).components)
    if callable(emissions):
        return FamilyEmissions(as_components([emissions(k) for k in range(num_states)]))
    return Symbols(as_float("emissions", emissions))


def as_components(distributions: list) -> Any:
    """A list of distributions of one class, stacked along a new first axis."""
    return Mixture(np.full(len(distributions), 1 / len(distributions)), stack(distributions)).components
