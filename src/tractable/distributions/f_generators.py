r"""The convex functions behind f-divergences, with their derivatives and conjugates.

Contract.    $f$ is convex on $t > 0$ with $f(1) = 0$; $f^*(u) = \sup_{t \ge 0} ut - f(t)$; $f(0)$ and
             $f'(\infty) = \lim f(t)/t$ weigh the mass that the other distribution excludes.
Members.     KL $t\log t$; reverse KL $-\log t$; total variation $\frac12|t - 1|$; Jensen-Shannon
             $\frac12\{t\log t - (t + 1)\log\frac{t+1}{2}\}$; chi-square $(t-1)^2$; squared Hellinger
             $\frac12(\sqrt t - 1)^2$; alpha $\{t^\alpha - 1 - \alpha(t - 1)\} / \alpha(\alpha - 1)$.
Cost.        Elementwise.
References.  Liese and Vajda (2006); Nowozin, Cseke and Tomioka (2016) table 1.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check, offender
from tractable.core.iterate import bisect
from tractable.core.types import Array

__all__ = [
    "GENERATORS",
    "Generator",
    "alpha_generator",
    "check_generator",
    "generator_of",
    "log_power",
    "relative_density",
]

Function = Callable[[Array], Array]


@dataclass(frozen=True)
class Generator:
    r"""A convex $f$ with $f(1) = 0$ and what a divergence needs of it; all functions are elementwise.

    `integrand(log_p, log_q)` is $q f(p/q)$ from logarithms, exact where $p$ or $q$ underflows or vanishes.
    `smooth` says that $f$ has no kink (at $t = 1$).
    """

    name: str
    function: Function
    derivative: Function
    conjugate: Function
    integrand: Callable[[Array, Array], Array]
    at_zero: float
    at_infinity: float
    smooth: bool = True


def generator_of(f: str | Generator | Function) -> Generator:
    """The generator of that name, or a checked one made from a convex function."""
    if isinstance(f, Generator):
        return f
    if isinstance(f, str):
        check(f in GENERATORS, "f", f"one of {', '.join(GENERATORS)}, or a function", repr(f))
        return GENERATORS[f]
    check(callable(f), "f", "a name, a generator or a function", repr(f), error=TypeError)
    return _from_function(f)


def check_generator(f: Function) -> None:
    r"""Refuse a function that is not convex on $t > 0$ or has $f(1) \ne 0$, judged on 241 points from
    $10^{-6}$ to $10^6$."""
    t = np.geomspace(1e-6, 1e6, 241)
    with jax.ensure_compile_time_eval():
        values, at_one = np.asarray(f(jnp.asarray(t))), float(f(jnp.ones(())))
    check(values.shape == t.shape, "f", "an elementwise function", f"shape {values.shape} for {t.shape}")
    check(abs(at_one) <= 1e-9, "f", "zero at t = 1", at_one, "Subtract f(1).")
    left, right = (t[1:-1] - t[:-2]) / (t[2:] - t[:-2]), (t[2:] - t[1:-1]) / (t[2:] - t[:-2])
    chord = right * values[:-2] + left * values[2:]
    rounding = 1e-9 * (np.abs(values[:-2]) + np.abs(values[2:]) + np.abs(values[1:-1]))
    ok = values[1:-1] <= chord + rounding
    check(
        bool(ok.all()), "f", "convex on t > 0", "" if ok.all() else f"a dent near t = {offender(t[1:-1], ok)}"
    )


@lru_cache
def alpha_generator(alpha: float) -> Generator:
    r"""$f(t) = \{t^\alpha - 1 - \alpha(t - 1)\} / \alpha(\alpha - 1)$; $\alpha = 1$ is KL and $\alpha = 0$
    reverse KL in the limit."""
    if alpha in (0.0, 1.0):
        return GENERATORS["kl" if alpha == 1 else "reverse_kl"]
    scale = alpha * (alpha - 1)

    def conjugate(u):
        s = 1 + (alpha - 1) * u
        inside = jnp.where(s > 0, s, 1.0)
        beyond = -1 / alpha if alpha > 1 else jnp.inf
        return jnp.where(s > 0, (inside ** (alpha / (alpha - 1)) - 1) / alpha, beyond)

    def integrand(log_p, log_q):
        p, q = jnp.exp(log_p), jnp.exp(log_q)
        return (jnp.exp(log_power(log_p, log_q, alpha)) - alpha * p - (1 - alpha) * q) / scale

    return Generator(
        f"alpha={alpha:g}",
        lambda t: (t**alpha - 1 - alpha * (t - 1)) / scale,
        lambda t: (t ** (alpha - 1) - 1) / (alpha - 1),
        conjugate,
        integrand,
        1 / alpha if alpha > 0 else math.inf,
        1 / (1 - alpha) if alpha < 1 else math.inf,
    )


def relative_density(log_p: Array, log_q: Array) -> Array:
    r"""$p \log(p/q)$ from logarithms, 0 where $p$ is."""
    p = jnp.exp(log_p)
    return p * (jnp.where(p > 0, log_p, 0.0) - jnp.where(p > 0, log_q, 0.0))


def log_power(log_p: Array, log_q: Array, alpha: float) -> Array:
    r"""$\log(p^\alpha q^{1-\alpha})$; a vanishing density with a positive power makes it $-\infty$, with a
    negative one $+\infty$."""
    both = (log_p > -jnp.inf) & (log_q > -jnp.inf)
    inside = alpha * jnp.where(both, log_p, 0.0) + (1 - alpha) * jnp.where(both, log_q, 0.0)
    only_p = jnp.inf if alpha > 1 else -jnp.inf
    only_q = jnp.inf if alpha < 0 else -jnp.inf
    outside = jnp.where(log_p > -jnp.inf, only_p, jnp.where(log_q > -jnp.inf, only_q, -jnp.inf))
    return jnp.where(both, inside, outside)


@lru_cache
def _from_function(f: Function) -> Generator:
    """A checked generator for a function of one's own; its limits and its conjugate are found numerically."""
    check_generator(f)
    small, large = 10.0 ** np.array([-150.0, -300.0]), 10.0 ** np.array([150.0, 300.0])
    with jax.ensure_compile_time_eval():
        at_zero = _limit(np.asarray(f(jnp.asarray(small))))
        at_infinity = _limit(np.asarray(f(jnp.asarray(large))) / large)

    def integrand(log_p, log_q):
        p, q = jnp.exp(log_p), jnp.exp(log_q)
        both = (log_p > -jnp.inf) & (log_q > -jnp.inf)
        gap = jnp.clip(jnp.where(both, log_p, 0.0) - jnp.where(both, log_q, 0.0), -690.0, 690.0)
        t = jnp.exp(gap)
        inside = jnp.where(gap > 0, p * (f(t) / t), q * f(t))
        only_p, only_q = _times(p, at_infinity), _times(q, at_zero)
        return jnp.where(both, inside, jnp.where(log_p > -jnp.inf, only_p, only_q))

    def derivative(t):
        return jnp.vectorize(jax.grad(lambda s: f(s)))(t)

    conjugate = _numerical_conjugate(f, derivative, at_infinity)
    return Generator("custom", f, derivative, conjugate, integrand, at_zero, at_infinity, smooth=False)


def _limit(values: np.ndarray) -> float:
    """Where a monotone sequence is going: its last value if it has settled, else infinity."""
    settled = abs(values[1] - values[0]) <= 1e-6 * (1 + abs(values[1]))
    return float(values[1]) if settled else math.inf


def _times(mass: Array, weight: float) -> Array:
    return jnp.where(mass > 0, mass, 1.0) * jnp.where(mass > 0, weight, 0.0)


def _numerical_conjugate(f: Function, derivative: Function, at_infinity: float) -> Function:
    def conjugate(u):
        u = jnp.asarray(u)
        fixed, far = jax.lax.stop_gradient(u), jnp.full(u.shape, 300.0, u.dtype)
        low, high = bisect(lambda log_t: derivative(jnp.exp(log_t)) >= fixed, -far, far, num_steps=70)
        # optimal, so that its own derivative does not matter
        t = jax.lax.stop_gradient(jnp.exp((low + high) / 2))
        return jnp.where(u > at_infinity, jnp.inf, u * t - f(t))

    return conjugate


def _jensen_shannon(log_p: Array, log_q: Array) -> Array:
    middle = jnp.logaddexp(log_p, log_q) - math.log(2)
    return 0.5 * (relative_density(log_p, middle) + relative_density(log_q, middle))


def _chi_square(log_p: Array, log_q: Array) -> Array:
    p, q = jnp.exp(log_p), jnp.exp(log_q)
    both = (log_p > -jnp.inf) & (log_q > -jnp.inf)
    gap = jnp.where(both, log_p, 0.0) - jnp.where(both, log_q, 0.0)
    near = jnp.abs(gap) < 1
    close = (p - q) * jnp.expm1(jnp.where(near, gap, 0.0))
    return jnp.where(both & near, close, jnp.exp(log_power(log_p, log_q, 2.0)) - 2 * p + q)


def _below(u: Array, end: float, function: Function) -> Array:
    """`function(u)` below `end`, infinity from there on."""
    inside = u < end
    return jnp.where(inside, function(jnp.where(inside, u, end - 1.0)), jnp.inf)


GENERATORS: dict[str, Generator] = {
    g.name: g
    for g in (
        Generator(
            "kl",
            lambda t: t * jnp.log(t),
            lambda t: 1 + jnp.log(t),
            lambda u: jnp.exp(u - 1),
            relative_density,
            0.0,
            math.inf,
        ),
        Generator(
            "reverse_kl",
            lambda t: -jnp.log(t),
            lambda t: -1 / t,
            lambda u: _below(u, 0.0, lambda v: -1 - jnp.log(-v)),
            lambda log_p, log_q: relative_density(log_q, log_p),
            math.inf,
            0.0,
        ),
        Generator(
            "total_variation",
            lambda t: 0.5 * jnp.abs(t - 1),
            lambda t: 0.5 * jnp.sign(t - 1),
            lambda u: jnp.where(u > 0.5, jnp.inf, jnp.maximum(u, -0.5)),
            lambda log_p, log_q: 0.5 * jnp.abs(jnp.exp(log_p) - jnp.exp(log_q)),
            0.5,
            0.5,
            smooth=False,
        ),
        Generator(
            "jensen_shannon",
            lambda t: 0.5 * (t * jnp.log(t) - (t + 1) * jnp.log((t + 1) / 2)),
            lambda t: 0.5 * (math.log(2) - jnp.log1p(1 / t)),
            lambda u: _below(u, math.log(2) / 2, lambda v: -0.5 * jnp.log(2 - jnp.exp(2 * v))),
            _jensen_shannon,
            math.log(2) / 2,
            math.log(2) / 2,
        ),
        Generator(
            "chi_square",
            lambda t: (t - 1) ** 2,
            lambda t: 2 * (t - 1),
            lambda u: jnp.where(u < -2, -1.0, u + u**2 / 4),
            _chi_square,
            1.0,
            math.inf,
        ),
        Generator(
            "squared_hellinger",
            lambda t: 0.5 * (jnp.sqrt(t) - 1) ** 2,
            lambda t: 0.5 * (1 - t**-0.5),
            lambda u: _below(u, 0.5, lambda v: v / (1 - 2 * v)),
            lambda log_p, log_q: 0.5 * (jnp.exp(log_p / 2) - jnp.exp(log_q / 2)) ** 2,
            0.5,
            0.5,
        ),
    )
}
