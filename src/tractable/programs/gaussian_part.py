r"""The Gaussian latents of a program: its standardised residuals, and the block that integrates them.

Residuals.   Each normal site that a Gaussian latent touches gives $e = L^{-1}(v - \mu)$, affine in the
             latents. As functions of the noise $z$ ($x = \mu + L z$, run forward), only those of given values
             count; as functions of $x$ itself, those of the latents' own priors count too.
Routes.      Dense in $z$; sparse in $z$, where the noise reaches few residuals (effects of groups: no spread
             of theirs is too small); or sparse in $x$ (chains). Latents without a prior have no noise and go
             the last way. The cheapest by prediction is taken, $z$ before $x$ where they cost about the same.
Constants.   $-\sum \log |L| - \frac{n}{2}\log 2\pi$ over the residuals that count.
Cost.        That of the block: see `gaussian_block`.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np

from tractable.core.linalg import psd_factor
from tractable.core.module import Module, field
from tractable.core.types import Array, Key, Scalar, Shape
from tractable.distributions.continuous import Normal
from tractable.programs.dependence import dependence
from tractable.programs.flat import Flat
from tractable.programs.gaussian_block import choose_route, plan_sparse, whitened
from tractable.programs.run import Site
from tractable.programs.structure import Structure, follows_itself, touched
from tractable.programs.survey import Facts
from tractable.programs.trace import Program

__all__ = ["GaussianPart", "gaussian_part", "standardised"]

_LOG_2PI = float(np.log(2 * np.pi))
_WORTH = 2.0  # times the cost of latents themselves that their noise may have: it loses no digits
_UNPLANNED: Any = False  # a sparse plan to be made
_LONG = 300  # numbers from which on the noise of a chain, each a sum of all before, is not tried
_SMALL = 40  # latents that the dense route takes without a look at their pattern


class GaussianPart(Module):
    """Latents `names` of these `shapes`, integrated by a block; `counted` are the sites of given values that
    they touch. With `centred`, the latents themselves are the variables, otherwise their noise."""

    others: dict[str, Array]  # values of discrete latents, which no site here depends on
    sparse: Any  # a `Sparse` plan, or None
    names: tuple[str, ...] = field(static=True)
    shapes: tuple[Shape, ...] = field(static=True)
    counted: tuple[str, ...] = field(static=True)
    with_prior: tuple[str, ...] = field(static=True)
    centred: bool = field(static=True, default=False)

    @property
    def placeholders(self) -> dict[str, Array]:
        return {name: jnp.zeros(shape) for name, shape in zip(self.names, self.shapes)}

    @property
    def size(self) -> int:
        return int(sum(np.prod(shape) for shape in self.shapes))

    def log_evidence(self, bound: Program, remaining: Mapping[str, Array]) -> Scalar:
        r"""$\log \int \prod_s p(v_s \mid x)\,dx$ over the touched sites, at these values of the rest."""
        constant = self.residuals(bound, remaining, jnp.zeros(self.size))[1]
        return self._belief(bound, remaining).log_integral + constant

    def draw(self, key: Key, bound: Program, remaining: Mapping[str, Array]) -> dict[str, Array]:
        """All Gaussian latents, by their joint distribution given the rest."""
        found = self._divided(self._belief(bound, remaining).draw(key))
        if self.centred:
            return found
        sites = bound.trace({**remaining, **self.others}, noises=found).sites
        return {name: sites[name].value for name in self.names}

    def residuals(self, bound: Program, remaining: Mapping[str, Array], x: Array) -> tuple[Array, Scalar]:
        r"""$e(x)$, flat, and what the logarithm of its density leaves out."""
        own = self._divided(x)
        if self.centred:
            sites = bound.trace({**remaining, **self.others, **own}).sites
        else:
            sites = bound.trace({**remaining, **self.others}, noises=own).sites
        counted = self.counted + (self.with_prior if self.centred else ())
        found = [standardised(sites[name]) for name in counted]
        # noise is its own residual; the dense route knows that by itself
        more = [x] if self.sparse is not None and not self.centred else []
        flat = jnp.concatenate([*(each[0] for each in found), *more, jnp.zeros(0)])
        spreads = sum((each[1] for each in found), start=jnp.zeros(()))
        return flat, -spreads - 0.5 * flat.size * _LOG_2PI

    def _belief(self, bound: Program, remaining: Mapping[str, Array]) -> Any:
        def e(x: Array) -> Array:
            return self.residuals(bound, remaining, x)[0]

        return whitened(e, self.size) if self.sparse is None else self.sparse.of(e)

    def _divided(self, flat: Array) -> dict[str, Array]:
        """The part of each latent, in its natural shape."""
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])
        parts = jnp.split(flat, ends[:-1])
        return {name: part.reshape(shape) for name, part, shape in zip(self.names, parts, self.shapes)}


def gaussian_part(
    bound: Program,
    facts: Facts,
    structure: Structure,
    placeholders: Mapping[str, Array],
    start: Mapping[str, Array],
) -> Any:
    """The plan for the Gaussian latents of a program, a `GaussianPart` or a `MarginalPart`; `start` has some
    value of each remaining latent."""
    names = structure.gaussian
    if structure.scale is not None:
        start = {**start, structure.scale: placeholders[structure.scale]}
    apart = (*names, structure.scale)
    others = {name: value for name, value in placeholders.items() if name not in apart}
    counted = tuple(name for name in touched(facts, names) if name not in names)
    flat = [name for name in names if facts.sites[name].family is Flat]
    with_prior = tuple(name for name in names if name not in flat)
    own = tuple(facts.sites[name].shape for name in names)
    dense = GaussianPart(others, None, names, own, counted, with_prior)
    if dense.size <= _SMALL and not flat:
        return dense
    values_only = flat or (dense.size > _LONG and follows_itself(facts, names))
    parts = [
        _planned(dense, bound, start, centred) for centred in ((True,) if values_only else (False, True))
    ]
    best = min(parts, key=lambda part: part.sparse.plan.seconds * (_WORTH if part.centred else 1.0))
    num_observed = sum(facts.sites[name].size for name in counted)
    if flat or choose_route(num_observed, best.sparse) == "sparse":
        return best
    from tractable.programs.marginal_part import marginal_part

    return marginal_part(bound, facts, dense, start) or dense


def _planned(dense: GaussianPart, bound: Program, start: Mapping[str, Array], centred: bool) -> Any:
    """The part with a sparse plan, from the pattern of its residuals."""
    part = dataclasses.replace(dense, sparse=_UNPLANNED, centred=centred)

    def e(x: Array, arrays: list, start: Mapping[str, Array]) -> Array:
        return part.residuals(rebuilt(arrays), start, x)[0]

    arrays, rebuilt = bound.divided()
    given = (jnp.zeros(part.size), arrays, dict(start))
    closed = jax.make_jaxpr(e)(*given)
    # of the remaining latents nothing is known: they may decide on choices
    values = [given[0], *jax.tree.leaves(arrays), *(None for _ in start)]
    pattern = dependence(closed, [i == 0 for i in range(len(values))], values)[0]
    rows, cols = pattern.nonzero() if pattern is not None else (np.zeros(0, int), np.zeros(0, int))
    plan = plan_sparse(rows, cols, (closed.out_avals[0].shape[0], part.size))
    return dataclasses.replace(part, sparse=plan)


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
