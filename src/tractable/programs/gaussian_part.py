r"""The Gaussian latents of a program: its standardised residuals, and the block that integrates them.

Residuals.   Each normal site that a Gaussian latent touches gives $e = L^{-1}(v - \mu)$, affine in the
             latents. As functions of the noise $z$ ($x = \mu + L z$, run forward), only those of given
             values count; as functions of $x$ itself, those of the latents' own priors count too.
Constants.   $-\sum \log |L| - \frac{n}{2}\log 2\pi$ over the residuals that count.
Cost.        That of the block: see `gaussian_block`.
"""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np

from tractable.core.linalg import psd_factor
from tractable.core.module import Module, field
from tractable.core.types import Array, Key, Scalar, Shape
from tractable.distributions.continuous import Normal
from tractable.programs.run import Site
from tractable.programs.structure import Structure, touched
from tractable.programs.survey import Facts
from tractable.programs.trace import Program

__all__ = ["GaussianPart", "gaussian_part"]

_LOG_2PI = float(np.log(2 * np.pi))


class GaussianPart(Module):
    """Latents `names` of these `shapes`, integrated by a block; `sites` are those that they touch."""

    others: dict[str, Array]  # values of discrete latents, which no site here depends on
    names: tuple[str, ...] = field(static=True)
    shapes: tuple[Shape, ...] = field(static=True)
    sites: tuple[str, ...] = field(static=True)  # that count: of given values

    @property
    def placeholders(self) -> dict[str, Array]:
        return {name: jnp.zeros(shape) for name, shape in zip(self.names, self.shapes)}

    @property
    def size(self) -> int:
        return int(sum(np.prod(shape) for shape in self.shapes))

    def log_evidence(self, bound: Program, remaining: Mapping[str, Array]) -> Scalar:
        from tractable.programs.gaussian_block import whitened

        found = whitened(lambda z: self._residuals(bound, remaining, z)[0], self.size)
        constant = self._residuals(bound, remaining, jnp.zeros(self.size))[1]
        return found.log_integral + constant

    def draw(self, key: Key, bound: Program, remaining: Mapping[str, Array]) -> dict[str, Array]:
        from tractable.programs.gaussian_block import whitened

        found = whitened(lambda z: self._residuals(bound, remaining, z)[0], self.size)
        noises = self._divided(found.draw(key))
        sites = bound.trace({**remaining, **self.others}, noises=noises).sites
        return {name: sites[name].value for name in self.names}

    def _residuals(self, bound: Program, remaining: Mapping[str, Array], z: Array) -> tuple[Array, Scalar]:
        sites = bound.trace({**remaining, **self.others}, noises=self._divided(z)).sites
        found = [standardised(sites[name]) for name in self.sites]
        if not found:
            return jnp.zeros(0), jnp.zeros(())
        residuals = jnp.concatenate([each[0] for each in found])
        spreads = sum((each[1] for each in found), start=jnp.zeros(()))
        return residuals, -spreads - 0.5 * residuals.size * _LOG_2PI

    def _divided(self, flat: Array) -> dict[str, Array]:
        """The noise of each latent, in its natural shape."""
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])
        parts = jnp.split(flat, ends[:-1])
        return {name: part.reshape(shape) for name, part, shape in zip(self.names, parts, self.shapes)}


def gaussian_part(
    bound: Program,
    facts: Facts,
    structure: Structure,
    shapes: Mapping[str, Shape],
    start: Mapping[str, Array],
) -> GaussianPart:
    """The plan for the Gaussian latents of a program; `start` has some value of each remaining latent."""
    names = structure.gaussian
    others = {name: jnp.full(shapes[name], facts.sites[name].ends[0]) for name in structure.discrete}
    counted = tuple(name for name in touched(facts, names) if name not in names)
    return GaussianPart(others, names, tuple(shapes[name] for name in names), counted)


def standardised(site: Site) -> tuple[Array, Scalar]:
    r"""$L^{-1}(v - \mu)$ of all units of a normal site, flat, and $\sum \log|L|$."""
    law: Any = site.distribution
    if isinstance(law, Normal):
        scale = jnp.broadcast_to(law.scale, law.shape)
        return ((site.value - law.loc) / scale).reshape(-1), jnp.log(scale).sum()
    gaps = (site.value - law.mean).reshape((-1, law.mean.shape[-1]))
    if law.cov.ndim == 2:
        factor = psd_factor(law.cov)
        return factor.half_solve(gaps.T).T.reshape(-1), 0.5 * len(gaps) * factor.log_det()
    roots = jnp.linalg.cholesky(law.cov.reshape((-1, *law.cov.shape[-2:])))
    found = jsl.solve_triangular(roots, gaps[..., None], lower=True)[..., 0]
    return found.reshape(-1), jnp.log(jnp.diagonal(roots, axis1=-2, axis2=-1)).sum()
