r"""Variational families that bend: normal noise through a chain of bijections.

Model.       $z \sim N(0, I)$, $x = m + s \odot f(z)$, $\log q(x) = \log N(z; 0, I) - \log|\det f'(z)| -
             \sum_i\log s_i$, with $f$ a chain of couplings (affine maps or splines) or of masked
             autoregressive maps.
Cost.        One pass of the chain per draw; per density one pass, or $d$ for the autoregressive maps.
References.  Rezende and Mohamed (2015), "Variational inference with normalizing flows"; Kingma et al. (2016),
             "Improved variational inference with inverse autoregressive flow".
"""

import math

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr

from tractable.bijections.autoregressive import Autoregressive
from tractable.bijections.base import Bijection, Chain
from tractable.bijections.coupling import AffineFamily, Coupling, Family
from tractable.bijections.elementwise import Affine
from tractable.bijections.spline import SplineFamily
from tractable.core.checks import check, check_count
from tractable.core.module import field
from tractable.core.support import positive, real
from tractable.core.types import Array, Float, Key
from tractable.distributions.continuous import Normal
from tractable.distributions.transformed import Transformed
from tractable.inference.variational.gaussian_families import VariationalFamily

__all__ = ["Flow", "flow_map"]

_LOG_2PI = math.log(2 * math.pi)


class Flow(VariationalFamily):
    r"""$x = m + s \odot f(z)$ with $f$ = `bijection`: as far from Gaussian as the bijection can bend it."""

    loc: Float[Array, " d"] = field(support=real, rank=1)
    scale: Float[Array, " d"] = field(support=positive, rank=1)
    bijection: Bijection = field()
    has_cheap_inverse: bool = field(static=True, default=True)

    @property
    def dim(self) -> int:
        return self.loc.shape[0]

    @property
    def has_cheap_density(self) -> bool:
        return self.has_cheap_inverse

    @property
    def distribution(self) -> Transformed:
        """The member as a `Transformed` normal."""
        base = Normal(jnp.zeros_like(self.loc), jnp.ones_like(self.scale))
        return Transformed(base, self.bijection >> Affine(self.loc, self.scale))

    def forward(self, noise):
        return self.loc + self.scale * self.bijection.forward(noise)

    def forward_and_log_prob(self, noise):
        y, log_det = self.bijection.forward_and_log_det(noise)
        base = -0.5 * (noise @ noise + self.dim * _LOG_2PI)
        return self.loc + self.scale * y, base - log_det - jnp.log(self.scale).sum()

    def log_prob(self, x):
        z, log_det = self.bijection.inverse_and_log_det((x - self.loc) / self.scale)
        return -0.5 * (z @ z + self.dim * _LOG_2PI) + log_det - jnp.log(self.scale).sum()


def flow_map(name: str, key: Key, dim: int, layers: int = 4) -> Bijection:
    """A chain of `layers` maps that starts close to the identity: couplings that keep the even and the odd
    entries by turns, or masked autoregressive maps (read backwards: drawing takes one pass, an arbitrary
    density `dim`)."""
    check(dim > 1, "dim", f'at least 2 for the family "{name}"', dim, 'Use "full_rank" for one number.')
    keys = jr.split(key, check_count("layers", layers))
    bends: Family = SplineFamily() if name == "spline" else AffineFamily()

    def layer(i: int) -> Bijection:
        if name == "autoregressive":
            masked = Autoregressive.random(keys[i], dim, family=bends)
            return eqx.tree_at(lambda m: m.conditioner.weights[-1], masked, replace_fn=_gentle).inverted
        keep = [(j + i) % 2 == 0 for j in range(dim)]
        coupling = Coupling.random(keys[i], keep, family=bends)
        last = lambda m: (m.conditioner.arrays.layers[-1].weight, m.conditioner.arrays.layers[-1].bias)  # noqa: E731
        return eqx.tree_at(last, coupling, replace_fn=_gentle)

    return Chain(*[layer(i) for i in range(layers)])


def _gentle(weights: Array) -> Array:
    """Last weights a hundredth as large: the map starts near the identity, yet away from the saddle there."""
    return 0.01 * weights
