r"""Gaussian filters of nonlinear systems: each function becomes an affine map, and the chain is then exact.

Filter.      At each time a rule replaces $h$ by an affine map about the prediction, the reading is learnt,
             and the rule replaces $f$ about what is then believed: steps of a Gaussian chain, which are those
             of the linear case.
Iterated.    The affine map of $h$ is made again about what the reading has taught: Gauss-Newton for the
             tangent (the iterated extended filter), posterior linearisation for points.
Smoother.    The steps turned round. Further passes make all maps again about the smoothed beliefs; with
             tangents they end at the most probable path.
Cost.        A rule's values of $f$ and $h$ per time and iteration, and $O(T d^3)$.
References.  Sarkka (2013) chapters 5 to 9; Bell (1994); Garcia-Fernandez, Svensson and Sarkka (2017).
"""

from typing import Any

import jax
import jax.numpy as jnp

from tractable.core.module import Module, field
from tractable.core.programs import light, program
from tractable.core.types import Array, Float, Scalar
from tractable.core.verdict import Verdict
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.linear_gaussian import LinearGaussian
from tractable.messages.gaussian_chain import GaussianChain
from tractable.messages.gaussian_steps import FORMS, Belief, Form, Step, push
from tractable.statespace.nonlinear.model import Dynamics
from tractable.statespace.nonlinear.nonlinearity import judged, nonlinearity
from tractable.statespace.nonlinear.rules import Affine

__all__ = ["NonlinearFiltered", "NonlinearSmoothed"]


class NonlinearFiltered(Module):
    """Beliefs of a filter by moments, the affine chain behind them, and how far from linear the system is."""

    predicted: Gaussian  # of each time from the readings before it
    filtered: Gaussian  # with its own reading
    log_densities: Float[Array, " t"]  # of each reading given those before, under the affine chain
    chain: GaussianChain = field(show=False)
    asked: tuple = field(show=False)  # the system, its readings and inputs
    _shown = ("log_likelihood",)

    @property
    def log_likelihood(self) -> Scalar:
        r"""$\log p(y)$ under the affine chain: an approximation unless the system is linear."""
        return self.log_densities.sum()

    @property
    def nonlinearity(self) -> Float[Array, " t"]:
        """Of each time: how far the system is from its affine maps where the beliefs are."""
        model, ys, inputs = self.asked
        return nonlinearity(model, ys, inputs, self.chain, self.predicted, self.filtered)

    @property
    def verdict(self) -> Verdict:
        """Whether the system is so close to linear that the answers are those of the model."""
        return judged(self.log_densities, self.nonlinearity)


class NonlinearSmoothed(Module):
    """Beliefs of a smoother by moments: the belief of each time from all readings."""

    marginals: Gaussian
    cross: Float[Array, "s d d"]  # Cov[x_t, x_{t+1}]
    filter: NonlinearFiltered = field(show=False)
    change: Scalar  # of the means in the last pass, at most, in standard deviations

    @property
    def verdict(self) -> Verdict:
        """That of the filter, by the maps of the last pass."""
        return self.filter.verdict


def filter_by_moments(
    model: Dynamics, ys: Array, inputs: Any, rule: Any, iterations: int, form: str
) -> NonlinearFiltered:
    """The affine chain that a rule makes on its way through the readings, and its filter."""
    predicted, filtered, densities, chain = _filtered(model, ys, inputs, rule, iterations, form)
    return NonlinearFiltered(predicted, filtered, densities, chain, (model, ys, inputs))


def smooth_by_moments(
    model: Dynamics, ys: Array, inputs: Any, rule: Any, iterations: int, form: str, passes: int
) -> NonlinearSmoothed:
    """The smoother of the affine chain; each further pass makes its maps about the smoothed beliefs."""
    found, marginals, cross = _smoothed(model, ys, inputs, rule, iterations, form)
    change = jnp.zeros((), ys.dtype)
    for _ in range(passes - 1):
        found, marginals, cross, change = _again(model, ys, inputs, rule, form, marginals)
    predicted, filtered, densities, chain = found
    passed = NonlinearFiltered(predicted, filtered, densities, chain, (model, ys, inputs))
    return NonlinearSmoothed(marginals, cross, passed, change)


class _Passed(Module):
    """What one time leaves behind, in the spreads of a form."""

    predicted: Belief
    filtered: Belief
    log_density: Scalar
    look: Step
    move: Step
    backward: Any  # a `Step` where transitions were turned round


@program
@light
def _filtered(model: Dynamics, ys: Array, inputs: Any, rule: Any, iterations: int, form: str) -> tuple:
    return _shown(model, FORMS[form], _forward(model, ys, inputs, rule, iterations, FORMS[form], False))


@program
@light
def _smoothed(model: Dynamics, ys: Array, inputs: Any, rule: Any, iterations: int, form: str) -> tuple:
    passed = _forward(model, ys, inputs, rule, iterations, FORMS[form], True)
    last = jax.tree.map(lambda leaf: leaf[-1], passed.filtered)
    steps = jax.tree.map(lambda leaf: leaf[:-1], passed.backward)

    def back(belief: Belief, step: Step) -> tuple[Belief, Belief]:
        before = push(FORMS[form], step, belief)
        return before, before

    _, beliefs = jax.lax.scan(back, last, steps, reverse=True)
    beliefs = jax.tree.map(lambda a, b: jnp.concatenate([a, b[None]]), beliefs, last)
    marginals = _gaussian(FORMS[form], beliefs)
    return _shown(model, FORMS[form], passed), marginals, steps.weights @ marginals.cov[1:]


@program
@light
def _again(model: Dynamics, ys: Array, inputs: Any, rule: Any, form: str, before: Gaussian) -> tuple:
    """One more pass, and how far it moved the means."""
    chain = _about(model, before, inputs, rule)
    found = chain.smooth(ys, form=form)
    scale = jnp.sqrt(jnp.diagonal(before.cov, axis1=1, axis2=2))
    moved = (found.marginals.mean - before.mean) / jnp.where(scale > 0, scale, jnp.inf)
    parts = found.filter.predicted, found.filter.filtered, found.filter.log_densities, chain
    return parts, found.marginals, found.cross, jnp.abs(moved).max()


def _forward(
    model: Dynamics, ys: Array, inputs: Any, rule: Any, iterations: int, form: Form, turned: bool
) -> _Passed:
    """One pass forward, in which each map is made where the filter is."""
    move_covs, look_covs = model.covs(len(ys))
    move_covs = jnp.concatenate([move_covs, jnp.zeros_like(model.initial_cov)[None]])  # none after the last

    def step(belief: Belief, each: tuple) -> tuple[Belief, _Passed]:
        t, u, y, move_cov, look_cov = each

        def seen_from(belief: Belief) -> Step:
            found = rule(lambda x: model.look(x, t, u), belief.mean, form.cov_of(belief.spread))
            return Step(found.weights, found.bias, form.spread_of(look_cov + found.residual))

        def closer(_: Any, look: Step) -> Step:
            return seen_from(form.observe(look, belief, y)[0])

        look = seen_from(belief)
        look = jax.lax.fori_loop(1, iterations, closer, look) if iterations > 1 else look
        after, density = form.observe(look, belief, y)
        found = rule(lambda x: model.move(x, t, u), after.mean, form.cov_of(after.spread))
        move = Step(found.weights, found.bias, form.spread_of(move_cov + found.residual))
        ahead, back = form.turn(move, after) if turned else (push(form, move, after), None)
        return ahead, _Passed(belief, after, density, look, move, back)

    start = Belief(model.initial_mean, form.spread_of(model.initial_cov))
    each = (jnp.arange(len(ys)), inputs, ys, move_covs, look_covs)
    return jax.lax.scan(step, start, each)[1]


def _shown(model: Dynamics, form: Form, passed: _Passed) -> tuple:
    """What `NonlinearFiltered` begins with."""
    moves = jax.tree.map(lambda leaf: leaf[:-1], passed.move)
    steps = (LinearGaussian(s.weights, s.bias, jax.vmap(form.cov_of)(s.spread)) for s in (moves, passed.look))
    chain = GaussianChain(model.initial(), *steps)
    beliefs = _gaussian(form, passed.predicted), _gaussian(form, passed.filtered)
    return *beliefs, passed.log_density, chain


def _gaussian(form: Form, belief: Belief) -> Gaussian:
    return Gaussian(belief.mean, jax.vmap(form.cov_of)(belief.spread))


def _about(model: Dynamics, beliefs: Gaussian, inputs: Any, rule: Any) -> GaussianChain:
    """All maps at once, each about a belief that is there already."""
    length = beliefs.mean.shape[0]
    move_covs, look_covs = model.covs(length)

    def look(each: tuple) -> LinearGaussian:
        belief, noise, t, u = each
        return _noisy(rule(lambda x: model.look(x, t, u), belief.mean, belief.cov), noise)

    def move(each: tuple) -> LinearGaussian:
        belief, noise, t, u = each
        return _noisy(rule(lambda x: model.move(x, t, u), belief.mean, belief.cov), noise)

    looks = jax.lax.map(look, (beliefs, look_covs, jnp.arange(length), inputs))
    before = jax.tree.map(lambda leaf: leaf[:-1], (beliefs, inputs))
    moves = jax.lax.map(move, (before[0], move_covs, jnp.arange(length - 1), before[1]))
    return GaussianChain(model.initial(), moves, looks)


def _noisy(found: Affine, noise: Array) -> LinearGaussian:
    return LinearGaussian(found.weights, found.bias, noise + found.residual)
