r"""The registry of closed forms of the Kullback-Leibler divergence, keyed by pairs of classes.

Contract.    A rule states the divergence of one unit: scalars for a `Univariate`, vectors and matrices of one
             unit otherwise. The leading axes of both distributions are independent units, over which
             `closed_kl` sums.
Lookup.      The pair itself; else, for two members of one exponential family, the Bregman divergence of its
             log-normaliser.
Cost.        One compiled program per pair of classes and shapes.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from tractable.core.checks import check, is_concrete
from tractable.core.types import Array, Scalar
from tractable.distributions.base import Distribution
from tractable.distributions.expfam import ExponentialFamily, expfam_kl
from tractable.distributions.pairs import over_units

__all__ = ["closed_kl", "find_kl", "register_kl", "registered_pairs", "same_family"]

Rule = Callable[[Any, Any], Array]
Condition = Callable[[Any, Any], bool]

_RULES: dict[tuple[type, type], tuple[Rule, Condition]] = {}


def register_kl(first: type, second: type, applies: Condition | None = None) -> Callable:
    """State `KL(first || second)` of one unit; `applies(p, q)` may restrict it, such as to binomials of one
    total.

    A distribution of your own joins with `@register_kl(Mine, Mine)` above a function of `p` and `q`.
    """
    for name, cls in (("first", first), ("second", second)):
        ok = isinstance(cls, type) and issubclass(cls, Distribution)
        check(ok, name, "a class of distributions", repr(cls), error=TypeError)

    def enter(rule: Any) -> Any:
        _RULES[first, second] = (rule, applies or _always)
        return rule

    return enter


def registered_pairs() -> tuple[tuple[type, type], ...]:
    """The pairs of classes with a closed form of their own."""
    return tuple(_RULES)


def find_kl(p: Distribution, q: Distribution) -> Rule | None:
    """The closed form for this pair as a function of whole distributions, or None."""
    rule, applies = _RULES.get((type(p), type(q)), (None, _always))
    if rule is not None:
        return partial(closed_kl, rule) if applies(p, q) else None
    if type(p) is type(q) and isinstance(p, ExponentialFamily):
        same = same_family(p, q)
        return _family_kl if not is_concrete(same) or bool(same) else None
    return None


@jax.jit
def same_family(p: Any, q: Any) -> Array:
    """Whether two members of an exponential family differ in natural parameters alone.

    A Weibull density is a family only for a given concentration: then `p.from_natural(q.natural)` is not `q`.
    """

    def unit(a, b):
        pairs = zip(jax.tree.leaves(a.from_natural(b.natural)), jax.tree.leaves(b))
        return jnp.stack([jnp.allclose(made, meant, rtol=1e-6) for made, meant in pairs]).all()

    return over_units(unit, p, q).all()


@partial(jax.jit, static_argnums=0)
def closed_kl(rule: Rule, p: Distribution, q: Distribution) -> Scalar:
    """The sum of `rule` over independent units."""
    return over_units(rule, p, q).sum()


@jax.jit
def _family_kl(p: Any, q: Any) -> Scalar:
    return jnp.where(same_family(p, q), expfam_kl(p, q), jnp.nan)


def _always(p: Distribution, q: Distribution) -> bool:
    return True
