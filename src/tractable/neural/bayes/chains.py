r"""Chains over the weights: exact ones as the judge of all other methods, and stochastic-gradient ones.

Exact.       NUTS or MAMS on $\log p(y, w \mid X)$ by `inference.mcmc`.
Stochastic.  In units $z$ of the curvature's diagonal at a mode $w_0$, with $\hat g$ from a mini-batch,
             $v \leftarrow (1 - a)v + \eta\,\hat g + \sqrt{2a\eta}\,\xi$, $z \leftarrow z + v$: friction $a =
             1$ is Langevin's (SGLD), $a < 1$ Hamilton's (SGHMC). $\hat g = g(w_0) + \frac{n}{|B|}\sum_{i \in
             B}[g_i(w) - g_i(w_0)]$ has little noise near the mode.
Verdict.     $\hat R$ of the outputs for the rows of the fit: the weights themselves may be permuted from
             chain to chain. For stochastic chains Stein's ratio besides, which the bias of steps moves off 1.
Cost.        Gradients over all rows, or over two batches, per step.
References.  Neal (1996); Izmailov et al. (2021), "What are Bayesian neural network posteriors really like?";
             Welling and Teh (2011); Chen, Fox and Guestrin (2014); Baker et al. (2019) for the anchor.
"""

from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import check, check_count
from tractable.core.iterate import run
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.types import Array, Float, Key
from tractable.core.verdict import Verdict
from tractable.inference.chains.mcmc import mcmc
from tractable.inference.samplers.langevin import stein_ratio
from tractable.inference.trust.diagnostics import rhat
from tractable.neural.bayes.curvature import unit_curvature
from tractable.neural.bayes.priors import NormalWeights
from tractable.neural.bayes.result import NetworkPosterior
from tractable.neural.bayes.statement import BayesianNetwork, flat_outputs
from tractable.neural.bayes.tuning import tuned_model
from tractable.neural.bayes.variational import log_joint

__all__ = ["ChainNetwork", "NetworkChains", "StochasticGradientChains"]

_AGREED = 1.05  # of the outputs
_BIASED = 0.1  # of Stein's ratio


class ChainNetwork(NetworkPosterior):
    """Draws of chains, one after the other, and what says whether they agree."""

    num_chains: int = field(static=True)
    worst_rhat: float = field(static=True)
    stein: Any = None  # of stochastic chains

    def _own_verdict(self) -> Verdict:
        numbers = {"rhat": self.worst_rhat, "num_draws": self.draws.shape[0]}
        said = f"R-hat of the outputs is at most {self.worst_rhat:.3f} in {self.num_chains} chains"
        if not self.worst_rhat <= _AGREED:
            return Verdict(False, f"Chains disagree: {said}. Draw more.", numbers)
        if self.stein is None:
            return Verdict(True, f"Chains agree: {said}.", numbers)
        ratio, error = float(self.stein.value), float(self.stein.standard_error)
        numbers |= {"stein": ratio, "stein_error": error}
        biased = not abs(ratio - 1) <= max(3 * error, _BIASED)
        end = "take smaller steps" if biased else "no bias is visible"
        return Verdict(not biased, f"{said}; Stein's ratio is {ratio:.3f} ± {error:.3f}: {end}.", numbers)


class NetworkChains(Module):
    """Chains of a sampler of `inference` (NUTS unless given) from a mode, its options."""

    sampler: Any = None
    num_chains: int = field(static=True, default=4)
    num_draws: int = field(static=True, default=500)

    def fit(self, stated: BayesianNetwork, weights: Float[Array, " p"], key: Key) -> ChainNetwork:
        """Draws of the weights under the tuned prior and noise."""
        stated, weights = tuned_model(stated, weights)
        found = mcmc(
            log_joint, weights, self.sampler, key=key, args=(stated,), num_chains=self.num_chains,
            num_draws=self.num_draws, progress=False,
        )  # fmt: skip
        return _as_network(stated, jnp.asarray(found.draws))


class StochasticGradientChains(Module):
    """Langevin (`friction=1`) or Hamiltonian chains from mini-batches, their options; a fifth is dropped."""

    step_size: float = field(static=True, default=0.05)
    friction: float = field(static=True, default=1.0)
    num_steps: int = field(static=True, default=20_000)
    num_chains: int = field(static=True, default=4)
    batch: int = field(static=True, default=32)
    num_draws: int = field(static=True, default=250)  # of each chain that are kept

    def __check_init__(self) -> None:
        check(0 < self.friction <= 1, "friction", "above 0, at most 1", self.friction)
        check(self.step_size > 0, "step_size", "positive", self.step_size)
        check_count("num_steps", self.num_steps, 2 * self.num_draws)

    def fit(self, stated: BayesianNetwork, weights: Float[Array, " p"], key: Key) -> ChainNetwork:
        """Draws of the weights under the tuned prior and noise."""
        stated, weights = tuned_model(stated, weights)
        spread = _spread(stated, weights)
        thin = max(int(0.8 * self.num_steps) // self.num_draws, 1)
        keys = jr.split(key, self.num_chains)
        numbers = jnp.asarray([self.step_size, self.friction])
        batch = min(self.batch, stated.num_rows)
        draws = _wander(stated, weights, spread, keys, numbers, batch, (self.num_draws, thin, self.num_steps))
        check(bool(jnp.isfinite(draws).all()), "step_size", "small enough for finite draws", self.step_size)
        flat = draws.reshape((-1, draws.shape[-1]))
        return _as_network(stated, draws, stein_ratio(flat, _scores(stated, flat), True))


def _as_network(stated: BayesianNetwork, draws: Float[Array, "c s p"], stein: Any = None) -> ChainNetwork:
    flat = draws.reshape((-1, draws.shape[-1]))
    outputs = np.asarray(flat_outputs(stated, flat, stated.inputs))
    per_chain = outputs.reshape((*draws.shape[:2], -1))
    worst = float(np.max(np.asarray(rhat(per_chain))))
    return ChainNetwork(stated, flat, draws.shape[0], worst, stein)


def _spread(stated: BayesianNetwork, weights: Array) -> Float[Array, " p"]:
    """The standard deviation of each weight given the others, at the mode."""
    if not isinstance(stated.prior, NormalWeights):
        return jnp.full(weights.shape, 1 / np.sqrt(stated.num_rows))
    form = unit_curvature(stated, weights, "diagonal", 0)
    precision = form.precision(stated.likelihood.precision, stated.prior)
    return jnp.sqrt(precision.variances() / stated.prior.base)


@program
def _wander(
    stated: BayesianNetwork,
    anchor: Array,
    spread: Array,
    keys: Array,
    numbers: Float[Array, "2"],
    batch: int,
    options: tuple[int, int, int],
) -> Float[Array, "c s p"]:
    kept, thin, total = options
    rate, friction = numbers
    of_row = jax.grad(stated.row_log_prob)

    def rows_slope(w, rows):
        each = jax.vmap(lambda i: of_row(w, stated.inputs[i], stated.targets[i]))(rows)
        return each.sum(0)

    whole = jax.grad(stated.log_likelihood)(anchor)

    def step(state, key):
        w, v, made = state
        key_rows, key_noise = jr.split(jr.fold_in(key, made))
        rows = jr.randint(key_rows, (batch,), 0, stated.num_rows)
        gap = rows_slope(w, rows) - rows_slope(anchor, rows)
        slope = whole + stated.num_rows / batch * gap + jax.grad(stated.prior.log_prob)(w)
        noise = jnp.sqrt(2 * friction * rate) * jr.normal(key_noise, v.shape)
        v = (1 - friction) * v + rate * spread * slope + noise
        return (w + spread * v, v, made + 1), None

    def chain(key):
        def stretch(state, _):
            state = run(lambda at, _: step(at, key), state, num_steps=thin).state
            return state, state[0]

        start = anchor, jnp.zeros_like(anchor), jnp.asarray(0)
        return run(stretch, start, num_steps=total // thin).trace[-kept:]

    return jax.vmap(chain)(keys)


@program
def _scores(stated: BayesianNetwork, draws: Float[Array, "s p"]) -> Float[Array, "s p"]:
    return jax.lax.map(jax.grad(stated.log_joint), draws, batch_size=50)
