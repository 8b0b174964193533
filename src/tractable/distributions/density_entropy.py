r"""The entropy of a density, by quadrature with an estimate of its error.

Integral.    $H = -\int p(x) \log p(x)\,dx$; it may be negative and falls to $-\infty$ as $p$ narrows.
Cost.        One compiled quadrature for a distribution; some hundred calls of a compiled function otherwise.
References.  Cover and Thomas (2006) chapter 8; Piessens et al. (1983), QUADPACK.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from tractable.core.checks import check
from tractable.core.estimate import Estimate
from tractable.core.types import Array
from tractable.distributions.base import Distribution
from tractable.distributions.information import Base, in_base
from tractable.distributions.integrals import integrate

__all__ = ["differential_entropy"]


def differential_entropy(
    density: Distribution | Callable[[Array], Array],
    low: float = -math.inf,
    high: float = math.inf,
    *,
    points: Sequence[float] | None = None,
    base: Base = None,
) -> Estimate:
    r"""$-\int p(x) \log p(x)\,dx$ by quadrature, with an estimate of its error; it may be negative.

    `density` is a distribution of one number, or its log-density as a function of one number; then `low` and
    `high` are the ends of its support, and `points` (with finite ends) where it jumps or peaks. A function
    that does not integrate to 1 is refused. Closed forms, where they exist: `entropy(Normal(0.0, 2.0))`.
    """
    if isinstance(density, Distribution):
        check(not density.discrete, "density", "continuous", type(density).__name__, "Use `entropy`.")
        found = integrate(_surprise, density, density)
        return Estimate(in_base(found.value, base), in_base(found.standard_error, base), method=found.method)
    infinite = math.isinf(low) or math.isinf(high)
    finite = not (points and infinite)
    check(finite, "points", "left out when an end is infinite", points, "Give finite ends.")
    at = jax.jit(lambda x: density(x))  # a bound method need not be hashable
    mass, _ = _adaptive(lambda x: jnp.exp(at(x)), low, high, points)
    whole = f"the logarithm of a density that integrates to 1 between {low} and {high}"
    fix = "Give the ends of its support, or `points` where it peaks."
    check(abs(mass - 1) <= 1e-6, "density", whole, f"an integral of {mass:.9g}", fix)
    value, error = _adaptive(lambda x: _surprise(at(x), 0.0), low, high, points)
    return Estimate(in_base(jnp.asarray(value), base), in_base(jnp.asarray(error), base), method="quadrature")


def _surprise(log_p: Array, _: Any) -> Array:
    """`-p log p` from the logarithm of `p`."""
    return jnp.where(log_p == -jnp.inf, 0.0, -log_p * jnp.exp(log_p))


def _adaptive(
    function: Callable[[float], Any], low: float, high: float, points: Sequence[float] | None
) -> tuple[float, float]:
    """The integral and its error estimate; infinite where the routine itself gives up."""
    from scipy.integrate import quad  # half a second to import

    value, error, *doubts = quad(
        lambda x: float(function(x)), low, high, points=points, limit=200, full_output=1
    )
    return value, math.inf if len(doubts) > 1 else error
