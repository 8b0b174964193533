r"""Probabilities from chains of discrete states, with errors that know that draws depend on each other.

Estimate.    The share of draws in an event; no normalising constant is needed.
Error.       $\sqrt{\tau v/n}$ with the autocorrelation time $\tau$ of all $n$ draws, of variance $v$; or, if
             that is larger, the scatter of the chains' means: chains that are stuck apart do not look sure.
Cost.        One fast Fourier transform per state of each variable.
References.  Geyer (1992), "Practical Markov chain Monte Carlo".
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check, has_values
from tractable.core.estimate import Estimate
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.types import Array, Float, Int
from tractable.core.verdict import Verdict
from tractable.distributions.table_axes import Event, TableAxes
from tractable.inference.trust.autocorrelation import autocorrelation_time

__all__ = ["FactorDraws", "chain_shares"]

_LEAST_ESS = 100
_MOST_ROWS = 16


class FactorDraws(Module):
    """Draws of the free variables of factors from several chains, and the probabilities they estimate."""

    places: Int[Array, "chains sweeps free"]
    axes: TableAxes = field(static=True)
    free: tuple[str, ...] = field(static=True)
    evidence: tuple[str, ...] = field(static=True)

    def prob(self, event: Event | None = None, /, **more: Any) -> Estimate:
        """The probability of an event such as `prob(rain=1)` or `prob(rain=1, cloudy={0, 1})`."""
        wanted = {**(event or {}), **more}
        unknown = [name for name in wanted if name not in self.free]
        check(not unknown, "event", f"about the free variables {self.free}", unknown)
        hits = [jnp.asarray(self.axes.mask(name, value))[self._of(name)] for name, value in wanted.items()]
        held = jnp.stack(hits).all(0) if hits else jnp.ones(self.places.shape[:2], bool)
        value, error, _ = _chain_mean(held.astype(float))
        return Estimate(value, error)

    def marginal(self, name: str) -> Estimate:
        """The probability of each state of one variable."""
        check(name in self.free, "name", f"among the free variables {self.free}", repr(name))
        value, error, _ = self._shares(name)
        return Estimate(value, error)

    def marginals(self) -> dict[str, Estimate]:
        """The marginal of every free variable; no normalising constant is needed."""
        return {name: self.marginal(name) for name in self.free}

    def states(self, name: str) -> np.ndarray:
        """The drawn states of one variable by their own names, shape `(chains, sweeps)`."""
        return self.axes.state_array(name).take(np.asarray(self._of(name)))

    @property
    def least_ess(self) -> float:
        """The smallest effective sample size over all marginals."""
        return min(float(self._shares(name)[2].min()) for name in self.free)

    @property
    def verdict(self) -> Verdict:
        """How far to trust the estimates."""
        worth = self.least_ess
        if worth < _LEAST_ESS:
            sentence = (
                f"Do not trust these numbers: some draws are worth {worth:.3g} independent ones, or chains "
                "disagree. Take more sweeps, or look for states that no single change connects."
            )
        else:
            sentence = f"Each marginal rests on at least {worth:.0f} effective draws; the chains agree."
        return Verdict(worth >= _LEAST_ESS, sentence, {"least_ess": worth})

    def __repr__(self) -> str:
        if not has_values(self.places):
            return "FactorDraws"
        lines = [f"P({name} | {', '.join(self.evidence) or 'nothing'})" for name in self.free[:_MOST_ROWS]]
        width = max(map(len, lines)) + 2
        rows = [f"{line:<{width}}{self.marginal(name)}" for line, name in zip(lines, self.free)]
        left = [f"... and {len(self.free) - _MOST_ROWS} more"] if len(self.free) > _MOST_ROWS else []
        return "\n".join([*rows, *left, self.verdict.sentence])

    def _of(self, name: str) -> Int[Array, "chains sweeps"]:
        return self.places[:, :, self.free.index(name)]

    def _shares(self, name: str) -> tuple[Array, Array, Array]:
        return chain_shares(self._of(name), len(self.axes.states_of(name)))


@program
def chain_shares(places: Int[Array, "chains n"], states: int) -> tuple[Array, Array, Array]:
    """The share of each state, its standard error, and the number of independent draws of the same worth."""
    hits = places[None] == jnp.arange(states)[:, None, None]
    return jax.vmap(_chain_mean)(hits.astype(float))


@jax.jit
def _chain_mean(values: Float[Array, "chains n"]) -> tuple[Array, Array, Array]:
    """Mean, standard error, and the number of independent draws of the same worth."""
    chains, n = values.shape
    within = values.var() * autocorrelation_time(values) / (chains * n)
    between = values.mean(1).var(ddof=1) / chains if chains > 1 else jnp.zeros(())
    squared = jnp.maximum(within, between)
    worth = jnp.where(squared > 0, values.var() / jnp.where(squared > 0, squared, 1.0), chains * n)
    return values.mean(), jnp.sqrt(squared), worth
