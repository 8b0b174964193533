r"""Gaussian latents of a program below any likelihood: Laplace's value of their integral, and its gradient.

Model.       $x \sim$ normal given the rest $\theta$, with locations affine in $x$; all other sites depend on
             $x$ as they like, $\phi(x; \theta) = -\log p(x, y \mid \theta)$ over the sites that $x$ touches.
Mode.        Newton's method with a shift of the diagonal where a step does not descend or the curvature is
             not positive definite; the precision is sparse (`laplace_curvature`).
Value.       $V(\theta) = -\phi(\hat x) + \frac D2 \log 2\pi - \frac12 \log|H|$ with $H = \nabla^2
             \phi(\hat x)$: exact where $\phi$ is quadratic, corrected by weights elsewhere (`laplace_draws`).
Gradient.    With $\Sigma = H^{-1}$ and $a = \Sigma\, \nabla_x \frac12\mathrm{tr}\{\Sigma H(x)\}$ held fixed,
             that of $-\phi(\hat x; \theta) - \frac12\mathrm{tr}\{\Sigma H(\hat x; \theta)\} + a^\top \nabla_x
             \phi(\hat x; \theta)$: the last term is the motion of the mode, by the implicit function theorem.
Coordinates. The noise of the latents where that costs about the same (no spread is too small there), or the
             latents themselves (chains).
Cost.        Some six Newton steps, each one product per colour and one elimination.
References.  Rue, Martino and Chopin (2009); Margossian et al. (2020), adjoint of the embedded Laplace value.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.module import Module, field
from tractable.core.types import Array, Float, Key, Scalar, Shape
from tractable.messages.gaussian_precision import PrecisionField
from tractable.programs.dependence import dependence
from tractable.programs.flat import Flat
from tractable.programs.laplace_curvature import Curvature, plan_curvature
from tractable.programs.structure import follows_itself, touched
from tractable.programs.survey import Facts
from tractable.programs.trace import Program

__all__ = ["AtMode", "LaplacePart", "laplace_part"]

_LOG_2PI = float(np.log(2 * np.pi))
_MAX_STEPS = 100
_CLOSE = 1e-7  # the length of a step in deviations at which the point before it is the mode
_FIRST_SHIFT, _LEAST_SHIFT = 1e-2, 1e-4
_LONG = 300  # numbers from which on the noise of a chain, each a sum of all before, is not tried
_WORTH = 2.0  # times the cost of the latents themselves that their noise may have
_PUSHED = 4e-9  # seconds for a number pushed through the gradient of a density


class AtMode(NamedTuple):
    """The Gaussian at the mode of the latents."""

    x: Array
    phi: Scalar
    entries: Array  # of the precision
    field: PrecisionField
    settled: Array | bool = True  # whether the search came to an end


class LaplacePart(Module):
    """Latents `names` of these `shapes`; `sites` are all that depend on them, their own too."""

    others: dict[str, Array]  # values of other eliminated latents, which no site here depends on
    curvature: Any  # a `Curvature`, once it is planned
    groups: Any  # `Groups`
    centre: Float[Array, " d"]  # where the search begins
    names: tuple[str, ...] = field(static=True)
    shapes: tuple[Shape, ...] = field(static=True)
    sites: tuple[str, ...] = field(static=True)
    centred: bool = field(static=True)

    @property
    def placeholders(self) -> dict[str, Array]:
        return {name: jnp.zeros(shape) for name, shape in zip(self.names, self.shapes)}

    @property
    def size(self) -> int:
        return int(sum(np.prod(shape) for shape in self.shapes))

    @property
    def seconds(self) -> float:
        """Predicted for one step of the search."""
        units = len(self.groups.of_unit) + self.size
        return self.curvature.num_colours * units * _PUSHED + self.curvature.precision.plan.seconds

    def log_evidence(self, bound: Program, remaining: Mapping[str, Array]) -> Scalar:
        r"""Laplace's value of $\log \int \prod_s p(v_s \mid x)\,dx$ over the touched sites."""
        if not remaining:
            return self._value(self.at_mode(bound, remaining))

        @jax.custom_jvp
        def value(rest: dict[str, Array]) -> Scalar:
            return self._value(self.at_mode(bound, rest))

        @value.defjvp
        def _(at: tuple, moved: tuple) -> tuple[Scalar, Scalar]:
            found = self.at_mode(bound, at[0])
            slopes = self._slopes(bound, at[0], found)
            turned = jax.tree.map(jnp.vdot, slopes, moved[0])
            return self._value(found), sum(jax.tree.leaves(turned), start=jnp.zeros(()))

        return value(dict(remaining))

    def _slopes(self, bound: Program, rest: dict[str, Array], found: AtMode) -> dict[str, Array]:
        """The gradient of Laplace's value."""
        curvature = self.curvature
        weights = 0.5 * found.field.covariances() * jnp.asarray(curvature.precision.times)
        along = curvature.seeds(found.x.dtype)
        across = jnp.zeros_like(along).at[curvature.product, curvature.row].add(weights)

        def phi(x: Array, rest: dict[str, Array]) -> Scalar:
            return self.negative(bound, rest)(x)

        def half_trace(x: Array, rest: dict[str, Array]) -> Scalar:
            def twice(a: Array, b: Array) -> Scalar:
                return _directional(lambda x: _directional(lambda x: phi(x, rest), x, a), x, b)

            return jax.vmap(twice)(along, across).sum()

        pull, own = jax.grad(half_trace, (0, 1))(found.x, rest)
        turn = PrecisionField.of(curvature.precision, found.entries, pull).mean

        def moving(rest: dict[str, Array]) -> Scalar:
            here, along = jax.jvp(lambda x: phi(x, rest), (found.x,), (turn,))
            return along - here

        return jax.tree.map(lambda a, b: a - b, jax.grad(moving)(rest), own)

    def at_mode(self, bound: Program, remaining: Mapping[str, Array]) -> AtMode:
        """The mode of the latents given the rest, and the Gaussian there."""
        return _mode(self.negative(bound, remaining), self.curvature, self.centre)

    def _value(self, found: AtMode) -> Scalar:
        return 0.5 * (self.size * _LOG_2PI - found.field.log_det) - found.phi

    def negative(self, bound: Program, remaining: Mapping[str, Array]) -> Callable[[Array], Scalar]:
        r"""$\phi$."""
        return lambda x: -self.units(bound, remaining, x).sum()

    def units(self, bound: Program, remaining: Mapping[str, Array], x: Array) -> Array:
        """The log-densities of all units of the touched sites, flat."""
        sites = self._traced(bound, remaining, x)
        return jnp.concatenate([sites[name].log_probs.reshape(-1) for name in self.sites])

    def valued(self, bound: Program, remaining: Mapping[str, Array], x: Array) -> dict[str, Array]:
        """The latents by name."""
        sites = self._traced(bound, remaining, x)
        return {name: sites[name].value for name in self.names}

    def draw(self, key: Key, bound: Program, remaining: Mapping[str, Array]) -> dict[str, Array]:
        """The latents by the Gaussian at their mode alone; `laplace_draws` weighs them."""
        found = self.at_mode(bound, remaining)
        noise = jax.random.normal(key, (self.curvature.precision.plan.num_places,), found.x.dtype)
        return self.valued(bound, remaining, found.x + found.field.spread(noise))

    def _traced(self, bound: Program, remaining: Mapping[str, Array], x: Array) -> dict[str, Any]:
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])
        parts = jnp.split(x, ends[:-1])
        own = {name: part.reshape(shape) for name, part, shape in zip(self.names, parts, self.shapes)}
        if self.centred:
            return bound.trace({**remaining, **self.others, **own}).sites
        return bound.trace({**remaining, **self.others}, noises=own).sites


# --- the search ----------------------------------------------------------------------------------------


class _Search(NamedTuple):
    """Where the search is: the best point so far, what is known there, and the step that led on from the
    point before."""

    count: Array
    x: Array
    value: Scalar
    slope: Array
    entries: Array
    shift: Scalar
    length: Scalar
    before: AtMode | None = None


def _mode(phi: Callable[[Array], Scalar], curvature: Curvature, start: Array) -> AtMode:
    """The Gaussian at the least point of `phi`. Its precision is the Hessian, with a shift of the diagonal
    where it needs one."""
    diagonal = jnp.asarray(curvature.precision.times) == 1

    def led_on(state: _Search) -> AtMode:
        entries = state.entries + jnp.where(diagonal, state.shift * (1 + jnp.abs(state.entries)), 0.0)
        found = PrecisionField.of(curvature.precision, entries, -state.slope)
        return AtMode(state.x, state.value, entries, dataclasses.replace(found, plan=None), found.regular)

    def step(state: _Search) -> _Search:
        before = led_on(state)
        move, regular = before.field.mean, before.field.regular
        x = state.x + move
        value, slope, entries = curvature.of(phi, x)
        # at the mode the difference of two values is rounding
        good = regular & (value <= state.value + 1e-11 * (1 + jnp.abs(value)))
        length = jnp.sqrt(jnp.abs(state.slope @ move)) * (1 + state.shift)
        length = jnp.where(good & (state.count > 0), length, jnp.inf)
        less = jnp.where(state.shift > _LEAST_SHIFT, 0.1 * state.shift, 0.0)
        more = jnp.maximum(10 * state.shift, _FIRST_SHIFT)
        new = _Search(state.count + 1, x, value, slope, entries, less, length)
        old = state._replace(count=new.count, shift=more, length=length, before=None)
        return jax.tree.map(lambda a, b: jnp.where(good, a, b), new, old)._replace(before=before)

    # nowhere yet: the first step is none, and brings the values at the start
    infinite, zero = jnp.full((), jnp.inf, start.dtype), jnp.zeros((), start.dtype)
    unit = diagonal.astype(start.dtype)
    first = _Search(jnp.asarray(0), start, infinite, jnp.zeros_like(start), unit, zero, infinite)
    empty = jax.tree.map(lambda each: jnp.zeros(each.shape, each.dtype), jax.eval_shape(led_on, first))
    last = jax.lax.while_loop(
        lambda state: (state.count < _MAX_STEPS) & (state.length > _CLOSE), step, first._replace(before=empty)
    )
    assert last.before is not None
    whole = dataclasses.replace(last.before.field, plan=curvature.precision)
    return last.before._replace(field=whole, settled=last.length <= _CLOSE)


def _directional(function: Callable[[Array], Scalar], x: Array, along: Array) -> Scalar:
    return jax.jvp(function, (x,), (along,))[1]


# --- the plan ------------------------------------------------------------------------------------------


def laplace_part(
    bound: Program,
    facts: Facts,
    names: tuple[str, ...],
    placeholders: Mapping[str, Array],
    start: Mapping[str, Array],
) -> LaplacePart:
    """The plan for these latents; `start` has some value of each remaining latent."""
    others = {name: value for name, value in placeholders.items() if name not in names}
    flat = any(facts.sites[name].family is Flat for name in names)
    shapes = tuple(facts.sites[name].shape for name in names)
    sites = tuple(touched(facts, names))
    empty: Any = None
    parts = []
    size = int(sum(np.prod(shape) for shape in shapes))
    for centred in (True,) if flat or (size > _LONG and follows_itself(facts, names)) else (False, True):
        part = LaplacePart(others, empty, empty, jnp.zeros(size), names, shapes, sites, centred)
        parts.append(_planned(part, bound, start))
    return min(parts, key=lambda part: part.seconds * (_WORTH if part.centred else 1.0))


def _planned(part: LaplacePart, bound: Program, start: Mapping[str, Array]) -> LaplacePart:
    """The part with its curvature, from the pattern of its units."""
    arrays, rebuilt = bound.divided()

    def units(x: Array, arrays: list, start: Mapping[str, Array]) -> Array:
        return part.units(rebuilt(arrays), start, x)

    given = (part.centre, arrays, dict(start))
    closed = jax.make_jaxpr(units)(*given)
    # of the remaining latents nothing is known: they may decide on choices
    values = [given[0], *jax.tree.leaves(arrays), *(None for _ in start)]
    pattern = dependence(closed, [i == 0 for i in range(len(values))], values)[0]
    assert pattern is not None
    rows, cols = pattern.nonzero()
    curvature, groups = plan_curvature(rows, cols, (closed.out_avals[0].shape[0], part.size))
    return dataclasses.replace(part, curvature=curvature, groups=groups)
