r"""SWAG: a normal through the iterates of stochastic gradient descent around a mode.

Iterates.    From a mode, $K$ epochs of constant steps; $\bar w$ and $\overline{w^2}$ over the ends of epochs.
Gaussian.    $N(\bar w, \frac12\mathrm{diag}(\overline{w^2} - \bar w^2) + \frac{1}{2(r - 1)}DD^\top)$ with $D$
             the deviations of the last $r$ = `rank` iterates from the mean.
Width.       It is set by the step size, not by the posterior: only rows that are held out can judge it.
Cost.        $K$ epochs; `rank` copies of the weights.
References.  Maddox et al. (2019), "A simple baseline for Bayesian uncertainty in deep learning"; Mandt,
             Hoffman and Blei (2017).
"""

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import check, check_count
from tractable.core.module import Module, field
from tractable.core.types import Array, Float, Key
from tractable.neural.bayes.ensembles import members_loss
from tractable.neural.bayes.result import NetworkPosterior
from tractable.neural.bayes.statement import BayesianNetwork, without_rows
from tractable.neural.bayes.tuning import tuned_model
from tractable.optim.gradient import GradientDescent
from tractable.optim.stochastic import minimise_batches

__all__ = ["SWAG", "swag_draws"]


class SWAG(Module):
    """Stochastic weight averaging with a Gaussian, its options."""

    num_iterates: int = field(static=True, default=40)
    learning_rate: float = field(static=True, default=0.01)
    batch: int = field(static=True, default=32)
    rank: int = field(static=True, default=20)
    num_draws: int = field(static=True, default=200)

    def __check_init__(self) -> None:
        check_count("num_iterates", self.num_iterates, 3)
        check_count("rank", self.rank, 2, self.num_iterates)

    def fit(self, stated: BayesianNetwork, weights: Float[Array, " p"], key: Key) -> NetworkPosterior:
        """Iterates about a mode, and draws of the normal through them."""
        stated, weights = tuned_model(stated, weights)
        keys = jr.split(key, self.num_iterates + 1)
        now, iterates = weights[None], []
        for own in keys[1:]:
            run = minimise_batches(
                members_loss, now, (stated.inputs, stated.targets), GradientDescent(self.learning_rate),
                key=own, batch=self.batch, epochs=1, progress=False,
                args=(without_rows(stated), jnp.asarray(float(stated.num_rows))),
            )  # fmt: skip
            check(run.status.ok, "learning_rate", "small enough to stay near the mode", self.learning_rate)
            now = run.state
            iterates.append(np.asarray(now[0]))
        return NetworkPosterior(stated, swag_draws(np.stack(iterates), self.rank, keys[0], self.num_draws))


def swag_draws(iterates: Array | np.ndarray, rank: int, key: Key, count: int) -> Float[Array, "s p"]:
    """Draws of the Gaussian through `iterates` `(steps, weights)`."""
    points = jnp.asarray(iterates)
    mean = points.mean(0)
    deviations = points[-rank:] - mean[None]
    key_own, key_shared = jr.split(key)
    own = jnp.sqrt(points.var(0) / 2)[None] * jr.normal(key_own, (count, mean.size))
    shared = jr.normal(key_shared, (count, rank)) @ deviations / jnp.sqrt(2.0 * (rank - 1))
    return mean[None] + own + shared
