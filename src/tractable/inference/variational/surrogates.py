r"""Functions whose gradients are the gradient estimators of variational bounds.

Bounds.      With $w_k = p(z_k)/q_\lambda(z_k)$, $z_k = g_\lambda(\epsilon_k)$, $k = 1, \dots, K$: $\mathcal
             L_\alpha = \frac{1}{1-\alpha}\log\frac1K\sum_k w_k^{1-\alpha}$. The limit $\alpha = 1$ is the
             ELBO, $\frac1K\sum_k\log w_k$; $\alpha = 0$ is the importance-weighted bound.
Gradients.   `pathwise`: through draw and density. `sticking`: through the draw alone, the density's
             parameters held, so that the estimate has no variance once $q$ is the posterior; with $v_k
             \propto w_k^{1-\alpha}$ normalised it is $\sum_k(\alpha v_k + (1-\alpha)v_k^2)\,\partial\log
             w_k/\partial z_k\,\partial z_k/\partial\lambda$, unbiased for every $\alpha$ (doubly
             reparameterised). `entropy`: the ELBO with the entropy in closed form. `score`:
             $\frac1K\sum_k(f_k - \bar f_{-k})\nabla\log q_\lambda(z_k)$ with $f = \log w$, for densities
             without a derivative. `score_control`: the same with the score as a control variate, $f_k - a$
             with $a = E[f s^2]/E[s^2]$ for each parameter from the other draws. `rao_blackwell`: for mean
             field, each $z_i$ with its own $f_i = \log p_i - \log q(z_i)$, where $\log p_i$ holds the factors
             that contain $z_i$ (all, unless the density is made of `Factors`). `score_plain`: the score with
             nothing against its variance.
Cost.        $K$ log-densities and their gradients; none of the target's for `score`.
References.  Roeder, Wu and Duvenaud (2017), "Sticking the landing"; Tucker et al. (2019), "Doubly
             reparameterized gradient estimators"; Burda, Grosse and Salakhutdinov (2016); Li and Turner
             (2016), "Renyi divergence variational inference".
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from tractable.core.checks import check, check_option
from tractable.core.numerics import softmax
from tractable.core.types import Array, Float, Scalar
from tractable.inference.variational.elbo import renyi_bound
from tractable.inference.variational.families import VariationalFamily
from tractable.inference.variational.gaussian_families import MeanField
from tractable.inference.variational.gradients import leave_one_out
from tractable.inference.variational.variance_reduction import Factors

__all__ = ["GRADIENTS", "check_gradient", "surrogate"]

GRADIENTS = (
    "sticking", "pathwise", "entropy", "score", "score_control", "rao_blackwell", "score_plain",
)  # fmt: skip

Target = Callable[[Array], Scalar]


def surrogate(
    target: Target,
    family: VariationalFamily,
    noise: Float[Array, "k n"],
    *,
    gradient: str = "sticking",
    alpha: float = 1.0,
) -> tuple[Scalar, Scalar]:
    """A number whose gradient in the family's parameters estimates the bound's gradient, and the bound."""
    return _RULES[gradient](target, family, noise, alpha)


def check_gradient(gradient: str, family: Any, num_draws: int, alpha: float) -> None:
    """Refuse a gradient that the family, the number of draws or the bound does not allow."""
    check_option("gradient", gradient, GRADIENTS)
    only_elbo = gradient in ("sticking", "pathwise") or alpha == 1
    check(only_elbo, "alpha", f'1 (the ELBO) with gradient="{gradient}"', alpha)
    closed = gradient != "entropy" or hasattr(family, "entropy")
    check(closed, "gradient", "one without a closed-form entropy for a flow", repr(gradient))
    factorised = gradient != "rao_blackwell" or isinstance(family, MeanField)
    check(factorised, "family", 'mean field with gradient="rao_blackwell"', type(family).__name__)
    enough = gradient not in ("score", "score_control", "rao_blackwell") or num_draws > 1
    check(enough, "num_draws", "at least 2 for the leave-one-out baseline of the score gradient", num_draws)


def _each(function: Callable[[Array], Any], draws: Array) -> Any:
    """The function of each row; a single row is not batched, since a product with a vector is faster so."""
    if draws.shape[0] == 1:
        return jax.tree.map(lambda leaf: leaf[None], function(draws[0]))
    return jax.vmap(function)(draws)


def _hold(family: VariationalFamily) -> VariationalFamily:
    return jax.tree.map(jax.lax.stop_gradient, family)


def _sticking(target: Target, family: VariationalFamily, noise: Array, alpha: float):
    held = _hold(family)

    def log_weight(z):
        x = family.forward(z)
        return target(x) - held.log_prob(x)

    log_weights = _each(log_weight, noise)
    bound = renyi_bound(log_weights, alpha)
    if alpha == 1:
        return bound, bound
    share = jax.lax.stop_gradient(softmax((1 - alpha) * log_weights))
    return (alpha * share + (1 - alpha) * share**2) @ log_weights, bound


def _pathwise(target: Target, family: VariationalFamily, noise: Array, alpha: float):
    def log_weight(z):
        x, log_prob = family.forward_and_log_prob(z)
        return target(x) - log_prob

    bound = renyi_bound(_each(log_weight, noise), alpha)
    return bound, bound


def _entropy(target: Target, family: Any, noise: Array, alpha: float):
    value = _each(lambda z: target(family.forward(z)), noise).mean() + family.entropy()
    return value, value


def _score(target: Target, family: VariationalFamily, noise: Array, alpha: float):
    gains, log_probs, _ = _scored(target, family, noise)
    return ((gains - leave_one_out(gains)) * log_probs).mean(), gains.mean()


def _score_plain(target: Target, family: VariationalFamily, noise: Array, alpha: float):
    gains, log_probs, _ = _scored(target, family, noise)
    return (gains * log_probs).mean(), gains.mean()


def _score_control(target: Target, family: VariationalFamily, noise: Array, alpha: float):
    gains, _, draws = _scored(target, family, noise)
    scores = jax.vmap(jax.grad(lambda member, x: member.log_prob(x)), (None, 0))(_hold(family), draws)

    def estimate(s: Array) -> Array:
        f, square = gains.reshape((-1,) + (1,) * (s.ndim - 1)), s**2
        others = square.sum(0, keepdims=True) - square  # without the draw itself: the estimate is unbiased
        a = ((f * square).sum(0, keepdims=True) - f * square) / jnp.where(others > 0, others, 1.0)
        return ((f - a) * s).mean(0)

    slopes = jax.tree.map(lambda s: jax.lax.stop_gradient(estimate(s)), scores)
    handle = jax.tree.map(lambda slope, leaf: (slope * leaf).sum(), slopes, family)
    return sum(jax.tree.leaves(handle)), gains.mean()


def _rao_blackwell(target: Any, family: Any, noise: Array, alpha: float):
    draws = jax.vmap(_hold(family).forward)(noise)
    own = jax.vmap(family.log_probs)(draws)
    factors = getattr(target, "log_density", None)
    if isinstance(factors, Factors):
        logs = jax.vmap(factors.logs)(draws)
        member = factors.member(family.dim) > 0
        seen, total = jnp.where(member[None], logs[:, None], 0.0).sum(2), logs.sum(1)
    else:
        total = jax.vmap(target)(draws)
        seen = jnp.broadcast_to(total[:, None], own.shape)
    gains = jax.lax.stop_gradient(seen - own)
    baseline = jax.vmap(leave_one_out, 1, 1)(gains)
    return ((gains - baseline) * own).sum(1).mean(), jax.lax.stop_gradient(total - own.sum(1)).mean()


def _scored(target: Target, family: VariationalFamily, noise: Array) -> tuple[Array, Array, Array]:
    """The log-weights and the log-densities of draws that are held."""
    draws = jax.vmap(_hold(family).forward)(noise)
    log_probs = jax.vmap(family.log_prob)(draws)
    return jax.lax.stop_gradient(jax.vmap(target)(draws) - log_probs), log_probs, draws


_RULES = {
    "sticking": _sticking, "pathwise": _pathwise, "entropy": _entropy, "score": _score,
    "score_control": _score_control, "rao_blackwell": _rao_blackwell, "score_plain": _score_plain,
}  # fmt: skip
