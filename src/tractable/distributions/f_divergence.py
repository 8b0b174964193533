r"""f-divergences: total variation, Jensen-Shannon, chi-square, Hellinger and those of any convex function.

Identity.    $D_f(p \| q) = \int q\,f(p/q)$, for convex $f$ with $f(1) = 0$; at least 0 by Jensen's
             inequality; mass of $p$ outside $q$ counts $f'(\infty) = \lim f(t)/t$ times, mass of $q$ outside
             $p$ counts $f(0)$ times.
Bound.       $D_f(p \| q) \ge E_p[T] - E_q[f^*(T)]$ for every critic $T$ with values in the domain of the
             conjugate $f^*(u) = \sup_t ut - f(t)$, with equality for $T = f'(p/q)$: what an f-GAN maximises.
Pinsker.     $\mathrm{KL}(p \| q) \ge \frac12 \|p - q\|_1^2 = 2\,\mathrm{TV}^2$.
Cost.        As `kl`: a sum, quadrature, or draws from both distributions.
References.  Csiszar (1967); Nguyen, Wainwright and Jordan (2010); Nowozin, Cseke and Tomioka (2016).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from tractable.core.checks import as_float, check, check_count
from tractable.core.estimate import Estimate
from tractable.core.keys import takes_key
from tractable.core.numerics import safe_log
from tractable.core.types import Array, ArrayLike, Key, Scalar
from tractable.distributions.base import Distribution
from tractable.distributions.divergence import kl
from tractable.distributions.f_generators import Generator, generator_of
from tractable.distributions.integrals import certified, integrate, monte_carlo
from tractable.distributions.pairs import Comparable, check_pair, pair_of_probabilities

__all__ = [
    "f_divergence", "f_divergence_estimate", "jensen_shannon", "l1_distance", "optimal_critic", "pinsker_gap",
    "total_variation", "variational_bound",
]  # fmt: skip

Divergence = str | Generator | Callable[[Array], Array]


@takes_key
def f_divergence(
    p: Comparable, q: Comparable, f: Divergence, *, key: Key | None = None, num_samples: int = 10_000
) -> Array:
    r"""$D_f(p \| q) = \int q\,f(p/q)$ between distributions, or along the last axis of arrays of
    probabilities.

    `f` is the name of a generator ("kl", "reverse_kl", "total_variation", "jensen_shannon", "chi_square",
    "squared_hellinger"), one made by `alpha_generator`, or a convex function of your own, which is checked.
    Distributions of numbers are summed or integrated (NaN if that does not reach eight digits); for others,
    draws are needed: give a `key`.

    >>> p, q = jnp.array([0.5, 0.3, 0.2]), jnp.array([0.2, 0.3, 0.5])
    >>> round(float(f_divergence(p, q, "total_variation")), 6)
    0.3
    """
    if not isinstance(p, Distribution) and not isinstance(q, Distribution):
        p, q = pair_of_probabilities(p, q)
        return generator_of(f).integrand(safe_log(p), safe_log(q)).sum(-1)
    estimate = f_divergence_estimate(p, q, f, key=key, num_samples=num_samples)
    return estimate.value if estimate.method in ("closed_form", "monte_carlo") else certified(estimate)


def f_divergence_estimate(
    p: Comparable, q: Comparable, f: Divergence, *, key: Key | None = None, num_samples: int = 10_000
) -> Estimate:
    """`f_divergence` of two distributions with its error and the method that gave it.

    Draws come half from `p` and half from `q`, each weighed by the average of the two densities: for total
    variation, Jensen-Shannon and Hellinger every term is then bounded, wherever the distributions lie.
    """
    check_pair(p, q)
    generator = generator_of(f)
    if p.discrete != q.discrete:  # masses and densities exclude each other
        value = jnp.asarray(generator.at_zero + generator.at_infinity, float)
        return Estimate(value, jnp.zeros_like(value), method="closed_form")
    if p.shape == () and q.shape == () and key is None:
        return integrate(generator.integrand, p, q, crossings=not generator.smooth)
    check(p.shape == q.shape, "q", f"of the shape of `p`, {p.shape}", q.shape)
    fix = "It does not add over coordinates, so that more than one number takes draws."
    check(key is not None, "key", f"given for distributions of shape {p.shape}", key, fix)
    return _by_draws(generator, p, q, key, check_count("num_samples", num_samples, 4))


def total_variation(p: Comparable, q: Comparable, **options: Any) -> Array:
    r"""$\frac12 \int |p - q|$, the largest difference in the probability of an event, between 0 and 1."""
    return f_divergence(p, q, "total_variation", **options)


def l1_distance(p: Comparable, q: Comparable, **options: Any) -> Array:
    r"""$\|p - q\|_1 = \int |p - q|$, twice the total variation, between 0 and 2."""
    return 2 * total_variation(p, q, **options)


def jensen_shannon(p: Comparable, q: Comparable, **options: Any) -> Array:
    r"""$\frac12 \mathrm{KL}(p \| m) + \frac12 \mathrm{KL}(q \| m)$ with $m = (p + q)/2$: symmetric, between 0
    and $\log 2$.

    It saturates at $\log 2$ for disjoint supports, however far apart, with zero gradient; `wasserstein` does
    not.
    """
    return f_divergence(p, q, "jensen_shannon", **options)


def pinsker_gap(p: Comparable, q: Comparable) -> Array:
    r"""$\mathrm{KL}(p \| q) - \frac12 \|p - q\|_1^2$, which Pinsker's inequality says is never negative."""
    return kl(p, q) - l1_distance(p, q) ** 2 / 2


def variational_bound(
    critic_p: ArrayLike,
    critic_q: ArrayLike,
    f: Divergence,
    *,
    p_weights: ArrayLike | None = None,
    q_weights: ArrayLike | None = None,
) -> Scalar:
    r"""$E_p[T] - E_q[f^*(T)] \le D_f(p \| q)$ from the values of a critic $T$ on points of `p` and of `q`.

    Plain means over samples; with `p_weights` and `q_weights` (such as the probabilities of states) weighted
    sums. It is $-\infty$ for a critic that leaves the domain of $f^*$, and tight for `optimal_critic`.
    """
    at_p, at_q = as_float("critic_p", critic_p), as_float("critic_q", critic_q)
    return _mean("p_weights", at_p, p_weights) - _mean(
        "q_weights", generator_of(f).conjugate(at_q), q_weights
    )


def optimal_critic(p: Distribution, q: Distribution, f: Divergence) -> Callable[[ArrayLike], Array]:
    r"""$T(x) = f'(p(x)/q(x))$, the critic for which `variational_bound` is the divergence itself."""
    check_pair(p, q)
    derivative = generator_of(f).derivative
    return lambda x: derivative(jnp.exp(p.log_prob(x) - q.log_prob(x)))


def _mean(name: str, values: Array, weights: ArrayLike | None) -> Scalar:
    if weights is None:
        return values.mean()
    w = as_float(name, weights)
    check(w.shape == values.shape, name, f"one number per value, shape {values.shape}", f"shape {w.shape}")
    return (jnp.where(w > 0, values, 0.0) * w).sum()


@partial(jax.jit, static_argnums=(0, 4))
def _by_draws(generator: Generator, p: Distribution, q: Distribution, key: Key, num_samples: int) -> Estimate:
    key_p, key_q = jax.random.split(key)
    half = num_samples // 2

    def terms(x):
        log_p, log_q = p.log_prob(x), q.log_prob(x)
        middle = jnp.logaddexp(log_p, log_q) - jnp.log(2.0)
        return generator.integrand(log_p - middle, log_q - middle)

    first = monte_carlo(terms(p.sample(key_p, (half,))))
    second = monte_carlo(terms(q.sample(key_q, (half,))))
    error = jnp.hypot(first.standard_error, second.standard_error) / 2
    return Estimate((first.value + second.value) / 2, error, method="monte_carlo")
