r"""Metropolis-Hastings: proposals that the accept-reject rule makes leave a density invariant.

Identity.    $x' \sim q(\cdot \mid x)$ is accepted with probability
             $\min\{1, \tilde p(x')\,q(x \mid x') / (\tilde p(x)\,q(x' \mid x))\}$, else $x$ is kept. The flow
             $p(x)\,q(x' \mid x)\,\alpha = \min\{p(x)\,q(x' \mid x),\; p(x')\,q(x \mid x')\}$ is symmetric.
Scale.       Steps of a Gaussian random walk are $\epsilon\,(2.38/\sqrt d)\,S z$, $z \sim N(0, I)$: with
             $\epsilon = 1$ the best ones for a Gaussian of covariance $S S^\top$ in many dimensions.
Cost.        One density per step, and $O(d^2)$ for a full scale.
References.  Metropolis et al. (1953); Hastings (1970); Roberts, Gelman and Gilks (1997).
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.accept import accept
from tractable.core.checks import as_float, check, check_finite, is_concrete
from tractable.core.module import Module, field
from tractable.core.support import positive
from tractable.core.types import Array, ArrayLike, Float, Key, PyTree, Scalar
from tractable.inference.samplers.sampler import ChainState, Info, LogDensity, Sampler

__all__ = [
    "IndependenceMetropolis", "Metropolis", "MultiplicativeWalk", "RandomWalkMetropolis", "valued_state",
    "vector_state",
]  # fmt: skip


class Metropolis(Sampler):
    r"""Metropolis-Hastings with any `proposal`, in the coordinates of the start.

    `proposal.sample(key, x)` draws $x' \sim q(\cdot \mid x)$ and `proposal.log_prob(new, given)` is $\log q(
    \mathrm{new} \mid \mathrm{given})$, up to a constant that depends on neither. A proposal whose attribute
    `symmetric` is true, $q(x' \mid x) = q(x \mid x')$, needs no `log_prob`. Positions may be any pytree.
    """

    space: ClassVar[str] = "native"
    proposal: Any

    def __check_init__(self) -> None:
        whole = hasattr(self.proposal, "sample") and (_symmetric(self) or hasattr(self.proposal, "log_prob"))
        fix = "Set its attribute `symmetric` to true if it needs no correction."
        must = "an object with `sample(key, x)` and `log_prob(new, given)`"
        check(whole, "proposal", must, type(self.proposal).__name__, fix, TypeError)

    def init(self, log_density: LogDensity, position: PyTree, key: Key) -> ChainState:
        """The state at `position`; the key is not used."""
        return valued_state(log_density, position)

    def step(self, log_density: LogDensity, state: Any, key: Key) -> tuple[Any, Info]:
        """Propose, and accept or stay."""
        key_propose, key_accept = jr.split(key)
        x, proposed = state.position, self.proposal.sample(key_propose, state.position)
        if _symmetric(self):
            return decide(log_density, state, proposed, jnp.zeros(()), key_accept)
        correction = self.proposal.log_prob(x, proposed) - self.proposal.log_prob(proposed, x)
        return decide(log_density, state, proposed, correction, key_accept)


class IndependenceMetropolis(Metropolis):
    r"""Metropolis-Hastings with proposals $x' \sim q$ that forget $x$, from a `distribution`.

    The ratio is $w(x')/w(x)$ with $w = \tilde p/q$. Where $q = p$ it is 1 and the draws are independent;
    where the tails of $q$ are lighter than those of $p$, the chain stays very long at points of large $w$.
    """

    def __init__(self, distribution: Any):
        whole = hasattr(distribution, "sample") and hasattr(distribution, "log_prob")
        must = "an object with `sample(key)` and `log_prob(x)`"
        check(whole, "distribution", must, type(distribution).__name__, error=TypeError)
        self.proposal = _Independent(distribution)


class MultiplicativeWalk(Module):
    r"""The proposal $x' = x\,e^{s z}$, $z \sim N(0, I)$, for positive numbers: a walk of the logarithms.

    It is not symmetric: $q(x' \mid x)/q(x \mid x') = \prod_j x_j / x'_j$.
    """

    scale: Float[Array, "..."] = field(support=positive)

    def sample(self, key: Key, x: Array) -> Array:
        """The proposal from `x`."""
        return x * jnp.exp(self.scale.astype(x.dtype) * jr.normal(key, x.shape, x.dtype))

    def log_prob(self, new: Array, given: Array) -> Scalar:
        r"""$\log q(\mathrm{new} \mid \mathrm{given})$, up to a constant."""
        z = (jnp.log(new) - jnp.log(given)) / self.scale.astype(new.dtype)
        return jnp.sum(-0.5 * z**2 - jnp.log(new))


class RandomWalkMetropolis(Sampler):
    r"""Metropolis with steps $\epsilon\,(2.38/\sqrt d)\,S z$, $z \sim N(0, I)$.

    `scale` is $S$: nothing (the identity), one number, one per coordinate, or a matrix (a factor of the
    target's covariance, not the covariance). The warm-up tunes `step_size` = $\epsilon$ to
    `target_acceptance`.
    """

    step_size: Float[Array, ""] = field(support=positive, default=1.0)
    scale: Any = field(converter=lambda value: as_scale(value), default=None)
    target_acceptance: float = field(static=True, default=0.234)

    def __check_init__(self) -> None:
        check_acceptance(self.target_acceptance)

    def init(self, log_density: LogDensity, position: PyTree, key: Key) -> ChainState:
        """The state at `position`; the key is not used."""
        state = vector_state(log_density, position)
        if self.scale is not None and self.scale.ndim > 0:
            wanted = state.position.shape * self.scale.ndim
            check(self.scale.shape == wanted, "scale", f"of shape {wanted}", f"shape {self.scale.shape}")
        return state

    def step(self, log_density: LogDensity, state: Any, key: Key) -> tuple[Any, Info]:
        """Propose, and accept or stay."""
        key_propose, key_accept = jr.split(key)
        z = jr.normal(key_propose, state.position.shape, state.position.dtype)
        length = self.step_size.astype(z.dtype) * _best_length(z.size)
        proposed = state.position + length * _scaled(self.scale, z)
        return decide(log_density, state, proposed, jnp.zeros(()), key_accept)


def valued_state(log_density: LogDensity, position: PyTree) -> ChainState:
    """The state at `position` with the value of the log-density, without its gradient."""
    position = jax.tree.map(jnp.asarray, position)
    return ChainState(position, _value(log_density, position))


def vector_state(log_density: LogDensity, position: ArrayLike) -> ChainState:
    """`valued_state` for samplers of one real vector, which is checked."""
    x = as_float("position", position)
    fix = "Flatten it, or let `mcmc` do so."
    check(x.ndim == 1 and x.size > 0, "position", "a vector of numbers", f"shape {x.shape}", fix)
    check_finite("position", x)
    return valued_state(log_density, x)


def decide(
    log_density: LogDensity, state: ChainState, proposed: PyTree, correction: Array, key: Key
) -> tuple[ChainState, Info]:
    """Accept `proposed`, or stay, by the ratio of densities times the exponential of `correction`."""
    value = _value(log_density, proposed)
    correction = correction.astype(value.dtype)
    accepted, probability = accept(key, (value - state.log_density) + correction)
    before = ChainState(state.position, state.log_density)
    chosen = jax.tree.map(lambda a, b: jnp.where(accepted, a, b), ChainState(proposed, value), before)
    undefined = jnp.isnan(value) | jnp.isnan(correction)
    return chosen, Info(probability, jnp.asarray(1), undefined=undefined)


class _Independent(Module):
    distribution: Any

    def sample(self, key: Key, x: Any) -> Any:
        return self.distribution.sample(key)

    def log_prob(self, new: Any, given: Any) -> Array:
        return self.distribution.log_prob(new)


def _symmetric(sampler: Metropolis) -> bool:
    return bool(getattr(sampler.proposal, "symmetric", False))


def _value(log_density: LogDensity, position: PyTree) -> Array:
    value = as_float("log_density", log_density(position))
    fix = "Sum over the rows inside it."
    check(value.shape == (), "log_density", "a function that returns one number", f"shape {value.shape}", fix)
    return value


def _best_length(dim: int) -> float:
    return 2.38 / float(np.sqrt(dim))


def check_acceptance(target: float) -> None:
    """The share of steps to accept is a number between 0 and 1."""
    check(0 < target < 1, "target_acceptance", "between 0 and 1", target)


def as_scale(value: Any) -> Array | None:
    """The scale of a random walk: nothing, or a number, vector or square matrix that reaches all points."""
    if value is None:
        return None
    scale = as_float("scale", value)
    square = scale.ndim < 2 or (scale.ndim == 2 and scale.shape[0] == scale.shape[1])
    check(square, "scale", "a number, a vector or a square matrix", f"shape {scale.shape}")
    check_finite("scale", scale)
    if is_concrete(scale):
        values = np.asarray(scale)
        full = np.linalg.matrix_rank(values) == len(values) if scale.ndim == 2 else bool((values > 0).all())
        must = "a matrix of full rank" if scale.ndim == 2 else "positive"
        fix = "Otherwise some points are never reached."
        check(bool(full), "scale", must, np.array2string(values, threshold=9), fix)
    return scale


def _scaled(scale: Array | None, z: Array) -> Array:
    if scale is None:
        return z
    scale = scale.astype(z.dtype)
    return scale @ z if scale.ndim == 2 else scale * z
