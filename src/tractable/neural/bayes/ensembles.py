r"""Deep ensembles: the same network fitted from several starts, which agree where the rows tell.

Members.     Modes of $\log p(y, w \mid X)$ from other random weights, all in one compiled program; they share
             the posterior equally.
Fit.         On all rows at once by L-BFGS, or with `epochs` by mini-batches of Adam: the sum of the members'
             losses, in which no member sees another.
Cost.        That of so many fits; one compilation.
References.  Lakshminarayanan, Pritzel and Blundell (2017); Fort, Hu and Lakshminarayanan (2019).
"""

import jax
import jax.numpy as jnp
import jax.random as jr

from tractable.core.checks import check, check_count
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.types import Array, Float, Key, Scalar
from tractable.neural.bayes.mode import find_mode
from tractable.neural.bayes.result import NetworkPosterior
from tractable.neural.bayes.statement import BayesianNetwork, redrawn, without_rows
from tractable.neural.bayes.tuning import tuned_model
from tractable.optim.gradient import Adam
from tractable.optim.stochastic import minimise_batches

__all__ = ["DeepEnsemble"]


class DeepEnsemble(Module):
    """An ensemble of `num_members` networks, its options; without `epochs` each is fitted to convergence."""

    num_members: int = field(static=True, default=10)
    epochs: int | None = field(static=True, default=None)
    batch: int = field(static=True, default=32)
    learning_rate: float = field(static=True, default=1e-2)
    max_steps: int = field(static=True, default=2000)

    def __check_init__(self) -> None:
        check_count("num_members", self.num_members, 2)

    def fit(self, stated: BayesianNetwork, weights: Float[Array, " p"], key: Key) -> NetworkPosterior:
        """The members, from starts of their own."""
        key_starts, key_fit = jr.split(key)
        starts = redrawn(stated.rebuild, weights, key_starts, self.num_members)
        stated, _ = tuned_model(stated, weights)
        if self.epochs is None:
            return NetworkPosterior(stated, _modes(stated, starts, self.max_steps))
        run = minimise_batches(
            members_loss, starts, (stated.inputs, stated.targets), Adam(self.learning_rate), key=key_fit,
            batch=self.batch, epochs=self.epochs, progress=False,
            args=(without_rows(stated), jnp.asarray(float(stated.num_rows))),
        )  # fmt: skip
        check(run.status.ok, "learning_rate", "small enough for a finite loss", self.learning_rate)
        return NetworkPosterior(stated, run.state)


@program
def _modes(stated: BayesianNetwork, starts: Float[Array, "s p"], max_steps: int) -> Float[Array, "s p"]:
    return jax.vmap(lambda start: find_mode(stated, start, max_steps=max_steps, tol=1e-5).state)(starts)


def members_loss(members: Array, row: tuple, stated: BayesianNetwork, num_rows: Array) -> Scalar:
    """The sum over members of the loss of one row, and its share of their priors."""

    def one(weights):
        return stated.row_log_prob(weights, row[0], row[1]) + stated.prior.log_prob(weights) / num_rows

    return -jax.vmap(one)(members).sum()
