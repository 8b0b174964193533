r"""Gaussian processes of a program integrated in the covariance of what was observed: one Cholesky factor.

Model.       Vectors $f_s = \mu_s + u_s$, $u_s \sim N(0, K_s)$, and numbers $x = \mu + \sigma z$; each
             standardised residual of an observed number is affine in them and sees at most one entry of each
             vector, $e = e_0 + J_z z + \sum_s v_s \odot u_s[c_s]$.
Integral.    $e_0 \sim N(0, C)$ with $C = I + J_z J_z^\top + \sum_s v_s v_s^\top \odot K_s[c_s, c_s]$: no
             $K_s$ is factorised, so that nearly singular ones do no harm.
Gradient.    $d\log Z = -\alpha^\top de_0 + \frac12 \mathrm{tr}\{(\alpha\alpha^\top - C^{-1})\, dC\}$,
             $\alpha = C^{-1} e_0$.
Draws.       By conditioning: $u - K J^\top C^{-1}(e_0 + J u + \epsilon)$ for a draw $u$ of the prior.
Cost.        $O(n^3)$ for $n$ observed numbers: a factor and, for the gradient, an inverse.
References.  Rasmussen and Williams (2006) section 2.2; Doucet (2010).
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.factors import normal_log_density
from tractable.core.linalg import psd_factor
from tractable.core.module import Module, field
from tractable.core.types import Array, Int, Key, Scalar, Shape
from tractable.distributions.gaussian import Gaussian
from tractable.programs.dependence import dependence
from tractable.programs.gaussian_part import standardised
from tractable.programs.run import Innovation
from tractable.programs.structure import Structure
from tractable.programs.survey import Facts
from tractable.programs.trace import Program

__all__ = ["MarginalPart", "is_dear", "marginal_part"]

_LOG_2PI = float(np.log(2 * np.pi))
_LEAST = 40  # entries of a vector for which it is worth it
_ROUNDING = 1e-10  # of the mean variance, added to a prior covariance that has no factor, for draws alone


class MarginalPart(Module):
    """Vectors `vectors` and numbers `plain`, whose noise is standard; `places` says for each vector which
    entry each residual sees."""

    others: dict[str, Array]
    places: tuple[Int[Array, " n"] | Int[np.ndarray, " n"], ...]
    vectors: tuple[str, ...] = field(static=True)
    plain: tuple[str, ...] = field(static=True)
    shapes: tuple[Shape, ...] = field(static=True)  # of the vectors, then of the others
    counted: tuple[str, ...] = field(static=True)

    @property
    def names(self) -> tuple[str, ...]:
        return self.vectors + self.plain

    @property
    def placeholders(self) -> dict[str, Array]:
        return {name: jnp.zeros(shape) for name, shape in zip(self.names, self.shapes)}

    def log_evidence(self, bound: Program, remaining: Mapping[str, Array]) -> Scalar:
        r"""$\log \int \prod_s p(v_s \mid x)\,dx$ over the touched sites."""
        offset, loadings, columns, covs, constant = self._affine(bound, remaining)
        return _log_density(offset, self._covariance(loadings, columns, covs)) + constant

    def draw(self, key: Key, bound: Program, remaining: Mapping[str, Array]) -> dict[str, Array]:
        """All latents of the part, given the rest; many draws are made one after the other."""
        one = jax.custom_batching.sequential_vmap(lambda key, rest: self._draw(key, bound, rest))
        return one(key, dict(remaining))

    def _draw(self, key: Key, bound: Program, remaining: Mapping[str, Array]) -> dict[str, Array]:
        offset, loadings, columns, covs, _ = self._affine(bound, remaining)
        keys = jr.split(key, len(covs) + 2)
        before = [
            psd_factor(cov, largest_jitter=_ROUNDING).lower @ jr.normal(own, cov.shape[:1])
            for own, cov in zip(keys, covs)
        ]
        z = jr.normal(keys[-2], (columns.shape[1],))
        seen = offset + columns @ z + jr.normal(keys[-1], offset.shape)
        for loading, place, u in zip(loadings, self.places, before):
            seen = seen + loading * u[place]
        back = psd_factor(self._covariance(loadings, columns, covs)).solve(seen)
        parts = {
            name: Innovation(u - cov[:, place] @ (loading * back))
            for name, u, cov, place, loading in zip(self.vectors, before, covs, self.places, loadings)
        }
        parts |= self._divided(z - columns.T @ back)
        sites = bound.trace({**remaining, **self.others}, noises=parts).sites
        return {name: sites[name].value for name in self.names}

    def _covariance(self, loadings: list[Array], columns: Array, covs: list[Array]) -> Array:
        total = jnp.eye(len(columns)) + columns @ columns.T
        for loading, place, cov in zip(loadings, self.places, covs):
            total = total + jnp.outer(loading, loading) * cov[place][:, place]
        return total

    def _affine(self, bound: Program, remaining: Mapping[str, Array]) -> tuple:
        """$e_0$, the loading of each vector, $J_z$, the prior covariances, and what densities leave out."""
        numbers = int(sum(np.prod(shape) for shape in self.shapes[len(self.vectors) :]))

        def e(levels: Array, z: Array) -> tuple[Array, tuple]:
            ones = [level * jnp.ones(shape) for level, shape in zip(levels, self.shapes)]
            noises = {name: Innovation(each) for name, each in zip(self.vectors, ones)}
            sites = bound.trace({**remaining, **self.others}, noises={**noises, **self._divided(z)}).sites
            found = [standardised(sites[name]) for name in self.counted]
            flat = jnp.concatenate([each[0] for each in found])
            spreads = sum((each[1] for each in found), start=jnp.zeros(()))
            return flat, ([sites[name].distribution.cov for name in self.vectors], spreads)

        at = jnp.zeros(len(self.vectors)), jnp.zeros(numbers)
        offset, push, (covs, spreads) = jax.linearize(e, *at, has_aux=True)
        loadings = [push(unit, at[1]) for unit in jnp.eye(len(self.vectors))]
        columns = jax.vmap(lambda unit: push(at[0], unit), out_axes=1)(jnp.eye(numbers))
        columns = columns if numbers else jnp.zeros((offset.size, 0))
        return offset, loadings, columns, covs, -spreads - 0.5 * offset.size * _LOG_2PI

    def _divided(self, z: Array) -> dict[str, Array]:
        shapes = self.shapes[len(self.vectors) :]
        parts = jnp.split(z, np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]) if shapes else []
        return {name: part.reshape(shape) for name, part, shape in zip(self.plain, parts, shapes)}


@jax.custom_jvp
def _log_density(offset: Array, cov: Array) -> Scalar:
    factor = psd_factor(cov)
    return normal_log_density(offset @ factor.solve(offset), factor.log_det(), 0)


@_log_density.defjvp
def _log_density_jvp(at: tuple, moved: tuple) -> tuple[Scalar, Scalar]:
    offset, cov = at
    factor = psd_factor(cov)
    rest = factor.solve(offset)
    value = normal_log_density(offset @ rest, factor.log_det(), 0)
    turned = 0.5 * (jnp.outer(rest, rest) - factor.solve(jnp.eye(len(offset), dtype=cov.dtype)))
    return value, jnp.vdot(turned, moved[1]) - rest @ moved[0]


def marginal_part(
    bound: Program, facts: Facts, dense: Any, start: Mapping[str, Array]
) -> MarginalPart | None:
    """The plan in this form for the latents of a `GaussianPart`, where it is the cheaper one."""
    sites = [facts.sites[name] for name in dense.names]
    vectors = tuple(s.name for s in sites if s.family is Gaussian and len(s.shape) == 1 and s.size > _LEAST)
    plain = tuple(name for name in dense.names if name not in vectors)
    shapes = tuple(facts.sites[name].shape for name in vectors + plain)
    count = sum(facts.sites[name].size for name in dense.counted)
    others = sum(facts.sites[name].size for name in plain)
    longest = sum(facts.sites[name].size for name in vectors)
    if not vectors or count > 2 * longest or 4 * others > count:
        return None
    part = MarginalPart(dense.others, (), vectors, plain, shapes, dense.counted)
    places = tuple(_seen(part, bound, start, place) for place in range(len(vectors)))
    known = tuple(place for place in places if place is not None)
    if len(known) < len(places):
        return None
    return MarginalPart(dense.others, known, vectors, plain, shapes, dense.counted)


def is_dear(facts: Facts, structure: Structure) -> bool:
    """Whether each density has the factor of a large dense matrix in it."""
    sites = [facts.sites[name] for name in structure.gaussian]
    return any(site.family is Gaussian and site.shape[-1] > _LEAST for site in sites)


def _seen(part: MarginalPart, bound: Program, start: Mapping[str, Array], which: int) -> np.ndarray | None:
    """The entry of a vector that each residual sees; None where one sees several."""
    arrays, rebuilt = bound.divided()
    noises = {
        name: Innovation(jnp.zeros(shape)) if name in part.vectors else jnp.zeros(shape)
        for name, shape in zip(part.names, part.shapes)
    }

    def e(u: Array, arrays: list, start: Mapping[str, Array]) -> Array:
        moved = {**noises, part.vectors[which]: Innovation(u)}
        sites = rebuilt(arrays).trace({**start, **part.others}, noises=moved).sites
        return jnp.concatenate([standardised(sites[name])[0] for name in part.counted])

    given = (jnp.zeros(part.shapes[which]), arrays, dict(start))
    closed = jax.make_jaxpr(e)(*given)
    values = [given[0], *jax.tree.leaves(arrays), *(None for _ in start)]
    pattern = dependence(closed, [i == 0 for i in range(len(values))], values)[0]
    count = closed.out_avals[0].shape[0]
    if pattern is None or np.diff(pattern.indptr).max(initial=0) > 1:
        return None
    place = np.zeros(count, np.int32)  # one that sees none has a loading of zero
    rows, cols = pattern.nonzero()
    place[rows] = cols
    return place
