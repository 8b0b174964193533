r"""Latents whose children add to their natural parameters: which they are, and what each child adds.

Rule.        A child's parameter is the latent itself (a probability), or $c\,\theta^p$ with a known power:
             then $k\theta$ with $k = c^{1/p}$ is what its conjugate pair speaks of. Every other parameter
             is free of it.
Scale.       With $t(\theta) = (\log\theta, \theta)$ a pair that adds $(s_0, s_1)$ and $b$ for $k\theta$
             adds $(s_0, k s_1)$ and $b + s_0 \log k$ for $\theta$; with $(\log\theta, 1/\theta)$, $(s_0,
             s_1/k)$.
Pattern.     Each unit of a child depends on one unit of the latent; which one, the jaxpr shows.
Cost.        One look at the pattern per child.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from tractable.core.types import Array
from tractable.distributions.bounded import Beta
from tractable.distributions.categorical import Categorical
from tractable.distributions.conjugate import find_pair
from tractable.distributions.continuous import Normal
from tractable.distributions.counts import Binomial, Geometric, Poisson
from tractable.distributions.discrete import Bernoulli
from tractable.distributions.gamma import Gamma, InverseGamma
from tractable.distributions.multivariate import Dirichlet
from tractable.distributions.waiting import Exponential
from tractable.programs.forms import Form
from tractable.programs.run import Site

__all__ = ["RULES", "Rule", "added", "reference"]


class Rule(NamedTuple):
    """The parameter of the child that holds the latent, and in which form; `power` of its scale gives $k$."""

    field: str
    form: Form
    power: float | None = None

    def holds(self, form: Form) -> bool:
        if self.form.is_power:
            return form.is_power and form.exponent == self.form.exponent
        return form == self.form


_RATE = Rule("rate", Form.power(1), 1.0)
RULES: dict[tuple[type, type], Rule] = {
    (Gamma, Poisson): _RATE,
    (Gamma, Exponential): _RATE,
    (Gamma, Gamma): _RATE,
    (Gamma, Normal): Rule("scale", Form.power(-0.5), -2.0),
    (InverseGamma, Normal): Rule("scale", Form.power(0.5), 2.0),
    (Beta, Bernoulli): Rule("logits", Form("logit")),
    (Beta, Binomial): Rule("logits", Form("logit")),
    (Beta, Geometric): Rule("probs", Form.same),
    (Dirichlet, Categorical): Rule("logits", Form("safe_log")),
}
_REFERENCE = {Gamma: 1.0, InverseGamma: 1.0, Beta: 0.5, Dirichlet: None}


def reference(family: type, shape: tuple[int, ...]) -> Array:
    r"""Values of a latent at which a program is run: $\theta = 1$, or the middle of its range."""
    value = _REFERENCE[family]
    return jnp.full(shape, 1 / shape[-1] if value is None else value)


def added(prior: Site, child: Site, places: Array, num_units: int) -> tuple[tuple[Array, ...], Array]:
    """The statistics that the units of a child add to each unit of the latent, and the sum of what is left.

    Both sites are of a run at the `reference`; `places` are units of the latent, one for each of the child.
    """
    law: Any = child.distribution
    rule, pair = RULES[type(prior.distribution), type(law)], find_pair(prior.distribution, law)
    x = jnp.broadcast_to(jnp.asarray(child.value, float), law.shape)
    sums, base = pair.contribution(law, x)
    if rule.power is not None:
        k = jnp.broadcast_to(getattr(law, rule.field), law.shape) ** rule.power
        inverse = isinstance(prior.distribution, InverseGamma)
        sums, base = (sums[0], sums[1] / k if inverse else sums[1] * k), base + sums[0] * jnp.log(k)

    def by_unit(each: Array) -> Array:
        rows = each.reshape((places.size, -1))
        return jnp.zeros((num_units, rows.shape[1])).at[places].add(rows)

    return tuple(by_unit(jnp.asarray(each)) for each in sums), jnp.sum(base)


def unit_places(pattern: Any, num_entries: int, num_units: int, size: int) -> np.ndarray | None:
    """For each unit of a child the unit of the latent on which its parameter rests; None where it is not one.

    A unit of the latent has `size` numbers, and so has a parameter of the child, in the same order.
    """
    if pattern is None or (np.diff(pattern.indptr) != 1).any():
        return None
    elements = pattern.indices.reshape((num_entries // size, size))
    first = elements[:, 0] // size
    in_order = (elements == first[:, None] * size + np.arange(size)).all()
    return first if in_order and first.max(initial=0) < num_units else None
