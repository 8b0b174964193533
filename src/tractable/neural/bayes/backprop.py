r"""Bayes by Backprop: a mean-field normal over the weights, fitted by mini-batches.

Family.      $w = \mu + \sigma \odot \epsilon$, $\sigma = \log(1 + e^\rho)$, $\epsilon \sim N(0, I)$.
Loss.        $f(w, \theta) = \log q(w \mid \theta) - \log p(w) - \log p(D \mid w)$, whose mean is minus the
             bound: $\mathrm{KL}(q \,\|\, p) + E_q[-\log p(D \mid w)]$. Its derivatives at fixed $\epsilon$:
             $\Delta_\mu = \nabla_w f + \nabla_\mu f$, $\Delta_\rho = \nabla_w f\,\epsilon/(1 + e^{-\rho}) +
             \nabla_\rho f$.
Batches.     Batch $i$ of $B$ has the loss $\pi_i[\log q - \log p] - \sum_{n \in i}\log p(y_n \mid w)$ with
             $\sum_i\pi_i = 1$: the batches of an epoch add to the whole bound, neither divided by layers nor
             averaged over weights. $\pi_i = |B_i|/n$ ("uniform") or $2^{B - i}/(2^B - 1)$ ("geometric").
Draws.       Each row has a draw of the weights of its own, and its mirror image: what is linear in the noise
             cancels. Under a normal prior the divergence is in closed form.
Pruning.     Weights of low $|\mu|/\sigma$ are set to zero.
Cost.        Two gradients per row and epoch, of twice as many numbers.
References.  Blundell et al. (2015), "Weight uncertainty in neural networks"; Graves (2011).
"""

import dataclasses

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import check, check_count, check_option
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.types import Array, ArrayLike, Float, Int, Key, Scalar
from tractable.inference.variational.families import MeanField
from tractable.neural.bayes.priors import NormalWeights
from tractable.neural.bayes.statement import BayesianNetwork, without_rows
from tractable.neural.bayes.tuning import tuned_model
from tractable.neural.bayes.variational import VariationalNetwork, judged_family
from tractable.optim.averaging import UniformWeights
from tractable.optim.gradient import Adam
from tractable.optim.schedules import inverse_time
from tractable.optim.stochastic import minimise_batches

__all__ = ["BayesByBackprop", "MeanWeights", "batch_shares", "negative_bound", "pruned"]


class MeanWeights(Module):
    r"""$\mu$ = `mean` and $\rho$ = `rho` of every weight."""

    mean: Float[Array, " p"]
    rho: Float[Array, " p"]

    @property
    def family(self) -> MeanField:
        """The normal distribution of the weights."""
        return MeanField(self.mean, jax.nn.softplus(self.rho))

    @staticmethod
    def around(weights: Float[Array, " p"], scale: float | Array) -> "MeanWeights":
        """A narrow start about `weights`."""
        return MeanWeights(weights, jnp.broadcast_to(jnp.log(jnp.expm1(jnp.asarray(scale))), weights.shape))


class BayesByBackprop(Module):
    """Bayes by Backprop, its options; steps are those of Adam and fall after a fifth of the epochs.

    `kl_weights` is "uniform" or "geometric".
    """

    epochs: int = field(static=True, default=300)
    batch: int = field(static=True, default=32)
    learning_rate: float = field(static=True, default=0.01)
    kl_weights: str = field(static=True, default="uniform")
    num_draws: int = field(static=True, default=200)

    def __check_init__(self) -> None:
        check_option("kl_weights", self.kl_weights, ("uniform", "geometric"))
        check_count("num_draws", self.num_draws)

    def fit(self, stated: BayesianNetwork, weights: Float[Array, " p"], key: Key) -> VariationalNetwork:
        """The mean-field normal with the highest bound, from a mode of the weights."""
        stated, weights = tuned_model(stated, weights)
        key_fit, key_draws = jr.split(key)
        num_batches = -(-stated.num_rows // self.batch)
        batch = min(self.batch, stated.num_rows)
        sizes = np.full(num_batches, float(batch))
        sizes[-1] = stated.num_rows - batch * (num_batches - 1)  # the last batch may be smaller
        shares = jnp.stack([jnp.asarray(batch_shares(sizes, self.kl_weights)), jnp.asarray(sizes)])
        steps = self.epochs * num_batches
        delay = max(steps / 5, 1.0)
        rate = inverse_time(self.learning_rate * delay, delay)
        run = minimise_batches(
            row_loss, MeanWeights.around(weights, 0.05), (stated.inputs, stated.targets), Adam(rate),
            key=key_fit, batch=self.batch, epochs=self.epochs, args=(without_rows(stated), shares),
            average=UniformWeights(after=steps // 2), progress=False,
        )  # fmt: skip
        fix = "Take smaller steps."
        check(run.status.ok, "learning_rate", "small enough for a finite loss", self.learning_rate, fix)
        return judged_family(stated, run.state.family, key_draws, self.num_draws)


def batch_shares(sizes: ArrayLike, kind: str = "uniform") -> np.ndarray:
    r"""$\pi_i$ of each batch of an epoch, from their numbers of rows; they add to one.

    >>> batch_shares([32, 32, 32], "geometric").round(6).tolist(), batch_shares([3, 3, 2]).tolist()
    ([0.571429, 0.285714, 0.142857], [0.375, 0.375, 0.25])
    """
    check_option("kind", kind, ("uniform", "geometric"))
    rows = np.asarray(sizes, float)
    check(rows.ndim == 1 and rows.size > 0 and (rows > 0).all(), "sizes", "a vector of counts", sizes)
    if kind == "uniform":
        return rows / rows.sum()
    return 0.5 ** np.arange(1, rows.size + 1) / (1 - 0.5**rows.size)


def negative_bound(
    theta: MeanWeights,
    stated: BayesianNetwork,
    noise: Float[Array, " p"],
    inputs: Array,
    targets: Array,
    share: float | Array = 1.0,
) -> Scalar:
    r"""$\pi[\log q(w) - \log p(w)] - \sum_n \log p(y_n \mid w)$ at one draw, over the rows of a batch."""
    family = theta.family
    w = family.forward(noise)
    fit = jax.vmap(lambda x, y: stated.row_log_prob(w, x, y))(inputs, targets).sum()
    return share * (family.log_prob(w) - stated.prior.log_prob(w)) - fit


def divergence(theta: MeanWeights, stated: BayesianNetwork) -> Scalar:
    r"""$\mathrm{KL}(q \,\|\, p)$ under a normal prior."""
    assert isinstance(stated.prior, NormalWeights)
    precision, family = stated.prior.precision, theta.family
    ratio = precision * family.scale**2
    return 0.5 * (ratio + precision * family.loc**2 - 1 - jnp.log(ratio)).sum()


def row_loss(
    theta: MeanWeights, row: tuple, stated: BayesianNetwork, shares: Array, *, key: Key, step: Int[Array, ""]
) -> Scalar:
    """The loss of one row, whose mean over a batch is the batch's loss over its number of rows."""
    family = theta.family
    noise = jr.normal(key, theta.mean.shape)
    draws = [family.forward(z) for z in (noise, -noise)]
    fit = sum(stated.row_log_prob(w, row[0], row[1]) for w in draws) / 2
    if isinstance(stated.prior, NormalWeights):
        apart = divergence(theta, stated)
    else:
        apart = sum(family.log_prob(w) - stated.prior.log_prob(w) for w in draws) / 2
    share, rows = shares[0][step % shares.shape[1]], shares[1][step % shares.shape[1]]
    return share / rows * apart - fit


def pruned(found: VariationalNetwork, share: float) -> VariationalNetwork:
    r"""The same with the `share` of the weights of lowest $|\mu|/\sigma$ set to zero."""
    check(0 <= share < 1, "share", "from 0 to below 1", share)
    family = found.family
    check(isinstance(family, MeanField), "found", "of independent weights", type(family).__name__)
    assert isinstance(family, MeanField)
    order = jnp.argsort(jnp.abs(family.loc) / family.scale)
    kept = jnp.ones(order.size).at[order[: round(share * order.size)]].set(0.0)
    return dataclasses.replace(found, draws=_masked(found.draws, kept))


@program
def _masked(draws: Float[Array, "s p"], kept: Float[Array, " p"]) -> Float[Array, "s p"]:
    return draws * kept[None]
