r"""The Kullback-Leibler divergence: closed forms, sums, quadrature, draws.

Identity.    $\mathrm{KL}(p \| q) = E_p[\log p - \log q] \ge 0$, zero only for $p = q$, infinite where $q$
             excludes what $p$ allows; not symmetric; convex in the pair; it adds over independent
             coordinates.
Methods.     A closed form where the registry knows one; else a sum for discrete numbers, quadrature for
             densities of one number, and draws for the rest. `kl` returns what is exact or certified;
             `kl_estimate` also says how it was computed, and how well.
Cost.        One compiled program per pair of classes and shapes; about 6000 densities for quadrature.
References.  Kullback and Leibler (1951); Cover and Thomas (2006) chapters 2 and 8.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import rel_entr

from tractable.core.checks import check, check_count, check_option
from tractable.core.estimate import Estimate
from tractable.core.keys import takes_key
from tractable.core.module import plates
from tractable.core.types import Array, ArrayLike, Key
from tractable.distributions import (  # noqa: F401  (they fill the registry)
    kl_conjugate,
    kl_pairs,
    kl_pairs_multivariate,
)
from tractable.distributions.base import Distribution
from tractable.distributions.f_generators import relative_density
from tractable.distributions.integrals import certified, integrate, monte_carlo
from tractable.distributions.kl_registry import find_kl, register_kl
from tractable.distributions.pairs import Comparable, check_pair, over_units, pair_of_probabilities
from tractable.distributions.panels import support_ends

__all__ = ["Estimate", "kl", "kl_estimate", "kl_probs", "register_kl", "reverse_kl", "symmetrised_kl"]

METHODS = ("auto", "closed_form", "sum", "quadrature", "monte_carlo")


@takes_key
def kl(
    p: Comparable, q: Comparable, method: str = "auto", *, key: Key | None = None, num_samples: int = 10_000
) -> Array:
    r"""$\mathrm{KL}(p \| q) = E_p[\log p(x) - \log q(x)]$ in nats, between distributions or arrays of
    probabilities.

    Exact from the registry of closed forms, else by a sum or by quadrature; NaN if that does not reach eight
    digits (`kl_estimate` then tells what it did reach). Leading axes are independent units, over which it
    adds; the smaller distribution is repeated to the shape of the larger. Arrays give one divergence per row,
    as `kl_probs`. Where only draws help, the value is random and a `key` is asked for.

    >>> from tractable.distributions.continuous import Normal
    >>> round(float(kl(Normal(0.0, 1.0), Normal(1.0, 2.0))), 7)
    0.4431472
    """
    if not isinstance(p, Distribution) and not isinstance(q, Distribution):
        return kl_probs(p, q)
    estimate = kl_estimate(p, q, method, key=key, num_samples=num_samples)
    return estimate.value if estimate.method in ("closed_form", "monte_carlo") else certified(estimate)


def kl_estimate(
    p: Comparable, q: Comparable, method: str = "auto", *, key: Key | None = None, num_samples: int = 10_000
) -> Estimate:
    """`kl` of two distributions with its error and the method that gave it.

    `method` is "closed_form", "sum" (discrete numbers), "quadrature" (densities of one number), "monte_carlo"
    (draws of `p`, with `key`), or "auto" for the first of them that applies.
    """
    check_pair(p, q)
    check_option("method", method, METHODS)
    chosen = _first_method(p, q) if method == "auto" else method
    if chosen == "closed_form":
        value = _closed_form(p, q)
        return Estimate(value, jnp.zeros_like(value), method=chosen)
    if chosen == "monte_carlo":
        fix = f"{type(p).__name__} and {type(q).__name__} have no closed form; draws are needed."
        check(key is not None, "key", "given", key, fix)
        return monte_carlo(_log_ratios(p, q, key, check_count("num_samples", num_samples, 2)))
    fits = "sum" if p.discrete else "quadrature"
    check(chosen == fits, "method", f"{fits} for {type(p).__name__}", method)
    estimate = integrate(relative_density, p, q)
    return estimate if p.discrete else _infinite_where_outside(p, q, estimate)


def kl_probs(p: ArrayLike, q: ArrayLike) -> Array:
    r"""$\sum_i p_i \log(p_i / q_i)$ along the last axis of two arrays of probabilities; other axes are
    separate pairs.

    >>> p, q = jnp.array([0.5, 0.5]), jnp.array([2 / 3, 1 / 3])
    >>> round(float(kl_probs(p, q)), 7), round(float(kl_probs(q, p)), 7)
    (0.0588915, 0.056633)
    """
    p, q = pair_of_probabilities(p, q)
    return rel_entr(p, q).sum(-1)


def reverse_kl(p: Comparable, q: Comparable, method: str = "auto", **options: Any) -> Array:
    r"""$\mathrm{KL}(q \| p)$, with the options of `kl`."""
    return kl(q, p, method, **options)


def symmetrised_kl(p: Comparable, q: Comparable, method: str = "auto") -> Array:
    r"""$\frac12 \mathrm{KL}(p \| q) + \frac12 \mathrm{KL}(q \| p)$ (Jeffreys' divergence is twice this)."""
    return (kl(p, q, method) + kl(q, p, method)) / 2


def _first_method(p: Distribution, q: Distribution) -> str:
    if find_kl(p, q) is not None or p.discrete != q.discrete:
        return "closed_form"
    if p.unit_shape == ():
        return "sum" if p.discrete else "quadrature"
    return "monte_carlo"


def _closed_form(p: Distribution, q: Distribution) -> Array:
    rule = find_kl(p, q)
    if rule is not None:
        return rule(p, q)
    known = p.discrete != q.discrete  # masses and densities exclude each other
    check(known, "method", f"another for {type(p).__name__} and {type(q).__name__}", "closed_form")
    return jnp.asarray(jnp.inf)


@partial(jax.jit, static_argnums=3)
def _log_ratios(p: Distribution, q: Distribution, key: Key, num_samples: int) -> Array:
    units = jnp.broadcast_shapes(plates(p), plates(q))
    p, q = p.expand(units), q.expand(units)
    x = p.sample(key, (num_samples,))
    return p.log_prob(x) - q.log_prob(x)


def _infinite_where_outside(p: Distribution, q: Distribution, estimate: Estimate) -> Estimate:
    """Infinity where the interval of `p` is not inside that of `q`, even if the mass outside underflows."""

    def outside(a, b):
        (low, high), (least, most) = support_ends(a.support), support_ends(b.support)
        return jnp.asarray(low < least) | jnp.asarray(high > most)

    escapes = over_units(outside, p, q).any()
    value = jnp.where(escapes, jnp.inf, estimate.value)
    return Estimate(value, jnp.where(escapes, 0.0, estimate.standard_error), method=estimate.method)
