r"""Dropout at prediction time: networks with units left out at random stand for draws of the weights.

Draws.       One mask per draw, the same for all rows: a draw is a function.
Fit.         Mini-batches with a mask for each row, and the prior's penalty.
Reading.     The family of masks is fixed and does not grow narrow with more rows: a share of the epistemic
             uncertainty stays however many there are, which only rows that are held out can judge.
Cost.        That of training; one pass per draw and row.
References.  Gal and Ghahramani (2016); Osband (2016), "Risk versus uncertainty in deep learning".
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from tractable.core.checks import check, check_count
from tractable.core.module import Module, field
from tractable.core.types import Array, Float, Key, Scalar
from tractable.neural.bayes.result import NetworkPosterior
from tractable.neural.bayes.statement import BayesianNetwork, flat_outputs, without_rows
from tractable.neural.bayes.tuning import tuned_model
from tractable.optim.gradient import Adam
from tractable.optim.stochastic import minimise_batches

__all__ = ["DropoutNetwork", "MonteCarloDropout"]


class DropoutNetwork(NetworkPosterior):
    """One set of weights, and the words of the keys of the masks that stand for draws."""

    noisy: BayesianNetwork = field(show=False)
    keys: Array = field(show=False)

    def outputs(self, x: Any) -> Float[Array, "s n m"]:
        return flat_outputs(self.noisy, self.draws, self.stated.new_inputs(x), self.keys)


class MonteCarloDropout(Module):
    """Dropout that stays on, its options; the network must have `equinox.nn.Dropout` layers."""

    epochs: int = field(static=True, default=300)
    batch: int = field(static=True, default=32)
    learning_rate: float = field(static=True, default=1e-2)
    num_draws: int = field(static=True, default=100)

    def __check_init__(self) -> None:
        check_count("num_draws", self.num_draws)

    def fit(
        self, stated: BayesianNetwork, weights: Float[Array, " p"], key: Key, noisy: BayesianNetwork
    ) -> DropoutNetwork:
        """The trained weights with masks; `noisy` is the model with its dropout on."""
        network = noisy.network(weights)
        layers = jax.tree.leaves(network, is_leaf=lambda node: isinstance(node, eqx.nn.Dropout))
        has = any(isinstance(node, eqx.nn.Dropout) for node in layers)
        check(has, "network", "one with `equinox.nn.Dropout` layers", "none", "Add one, or take an ensemble.")
        tuned, _ = tuned_model(stated, weights)
        noisy = BayesianNetwork(noisy.rebuild, tuned.likelihood, tuned.prior, tuned.inputs, tuned.targets)
        key_fit, key_masks = jr.split(key)
        run = minimise_batches(
            masked_loss, weights, (tuned.inputs, tuned.targets), Adam(self.learning_rate), key=key_fit,
            batch=self.batch, epochs=self.epochs, progress=False,
            args=(without_rows(noisy), jnp.asarray(float(tuned.num_rows))),
        )  # fmt: skip
        check(run.status.ok, "learning_rate", "small enough for a finite loss", self.learning_rate)
        draws = jnp.broadcast_to(run.state, (self.num_draws, weights.size))
        return DropoutNetwork(tuned, draws, noisy, jr.key_data(jr.split(key_masks, self.num_draws)))


def masked_loss(weights: Array, row: tuple, stated: BayesianNetwork, num_rows: Array, *, key: Key) -> Scalar:
    """The loss of one row under a mask of its own, and its share of the prior."""
    fit = stated.likelihood.log_prob(stated.output(weights, row[0], key), row[1])
    return -fit - stated.prior.log_prob(weights) / num_rows
