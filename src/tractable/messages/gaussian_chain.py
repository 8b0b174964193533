r"""Messages on a Gaussian chain: filter, smoother, exact draws and evidence, step by step or in parallel.

Model.       $x_1 \sim N(m, P)$, $x_{t+1} \mid x_t \sim N(A_t x_t + b_t, Q_t)$, $y_t \mid x_t \sim N(C_t x_t +
             d_t, R_t)$; one matrix for all times, or one each. An entry of $y$ that is NaN is missing.
Filter.      $p(x_t \mid y_{1:t})$ by conditioning the prediction on $y_t$; the evidence is the sum of all
             $\log p(y_t \mid y_{1:t-1})$.
Backward.    $p(x_t \mid x_{t+1}, y_{1:t}) = N(E_t x_{t+1} + g_t, L_t)$, the transition turned round: passes
             back from $x_T$ give the smoother, two times together $\mathrm{Cov}[x_t, x_{t+1}] = E_t P_{t+1}$,
             and draws of whole paths.
Forms.       "covariance", "joseph", "square-root" (QR of roots: no digits lost to differences) or
             "information" (precisions add at readings; $P$, $R$ regular). In the others any of $P$, $Q$, $R$
             may be singular; where the readings then have no density, the evidence is NaN.
Parallel.    Steps compose, so prefix products in $O(\log T)$ rounds do the same (`prefixes`). It needs $C Q
             C^\top + R$ regular.
Cost.        $O(T d^3)$ work in every case.
References.  Rauch, Tung and Striebel (1965); Sarkka (2013) chapters 4 and 8; Sarkka and Garcia-Fernandez
             (2021); Fruhwirth-Schnatter (1994), backward draws.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr

from tractable.core.checks import as_float, check, check_count, check_option
from tractable.core.iterate import run
from tractable.core.keys import takes_key
from tractable.core.module import Module, plates
from tractable.core.programs import program
from tractable.core.types import Array, ArrayLike, Float, Key, Scalar
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.gaussian_parts import one_unit
from tractable.distributions.linear_gaussian import LinearGaussian
from tractable.messages.chain import METHODS
from tractable.messages.gaussian_steps import FORMS, Belief, Element, Form, Step, compose, push
from tractable.messages.prefixes import each, prefixes

__all__ = ["GaussianChain", "GaussianFilter", "GaussianSmoothed"]


class GaussianFilter(Module):
    """Beliefs of each time from the readings before it, and with its own; `backward` turns transitions
    round."""

    predicted: Gaussian
    filtered: Gaussian
    backward: LinearGaussian  # x_t given x_{t+1} and the readings up to t
    log_densities: Float[Array, " t"]  # of each reading given those before

    @property
    def log_evidence(self) -> Scalar:
        r"""$\log p(y)$."""
        return self.log_densities.sum()


class GaussianSmoothed(Module):
    """The belief of each time from all readings, and $\\mathrm{Cov}[x_t, x_{t+1}]$ = `cross[t]`."""

    marginals: Gaussian
    cross: Float[Array, "s d d"]
    filter: GaussianFilter

    @property
    def log_evidence(self) -> Scalar:
        r"""$\log p(y)$."""
        return self.filter.log_evidence

    def pair(self, t: int) -> Gaussian:
        """The states at `t` and `t + 1` together."""
        both, cross = jax.tree.map(lambda leaf: leaf[t : t + 2], self.marginals), self.cross[t]
        (first, second), mean = both.cov, both.mean.reshape(-1)
        return Gaussian(mean, jnp.block([[first, cross], [cross.T, second]]))


class GaussianChain(Module):
    r"""A linear-Gaussian state-space model: `transition` from each time to the next, `observation` at each.

    Both are a `LinearGaussian`, the same for all times or with a leading axis of $T - 1$ and of $T$.

    >>> walk = LinearGaussian(jnp.eye(1), jnp.zeros(1), jnp.eye(1))
    >>> chain = GaussianChain(Gaussian(jnp.zeros(1), jnp.eye(1)), walk, walk)
    >>> found = chain.smooth([[1.0], [jnp.nan], [2.0]])
    >>> found.marginals.mean[:, 0].round(6).tolist(), round(float(found.log_evidence), 6)
    ([0.714286, 1.142857, 1.571429], -3.382261)
    """

    initial: Gaussian
    transition: LinearGaussian
    observation: LinearGaussian

    def __check_init__(self) -> None:
        one_unit(self.initial)
        d = self.initial.mean.shape[-1]
        moves, looks = self.transition.weights.shape[-2:], self.observation.weights.shape[-2:]
        check(moves == (d, d), "transition", f"have weights of shape ({d}, {d})", f"shape {moves}")
        check(looks[1] == d, "observation", f"have weights of {d} columns", f"shape {looks}")

    def filter(self, ys: ArrayLike, *, method: str = "scan", form: str = "covariance") -> GaussianFilter:
        """The beliefs of a pass forward."""
        return _filtered(self, self._readings(ys, method, form), method, form)

    def smooth(self, ys: ArrayLike, *, method: str = "scan", form: str = "covariance") -> GaussianSmoothed:
        """The beliefs given all readings, with the two-time covariances."""
        return _smoothed(self, self._readings(ys, method, form), method, form)

    def log_evidence(self, ys: ArrayLike, *, method: str = "scan", form: str = "covariance") -> Scalar:
        r"""$\log p(y)$; NaN where the readings have no density. Differentiated by covariances in every
        form."""
        return _log_evidence(self, self._readings(ys, method, form), method, form)

    @takes_key
    def sample_paths(
        self, key: Key, ys: ArrayLike, num_paths: int = 1, *, method: str = "scan", form: str = "covariance"
    ) -> Float[Array, "paths t d"]:
        """Independent paths of the states given the readings: forward beliefs, draws backward."""
        readings = self._readings(ys, method, form)
        return _paths(self, key, readings, check_count("num_paths", num_paths), method, form)

    @takes_key
    def simulate(self, key: Key, length: int, num_paths: int = 1) -> tuple[Array, Array]:
        """Paths of the states, `(paths, length, d)`, and of their readings, `(paths, length, m)`."""
        length = check_count("length", length)
        self._check_length(length)
        return _simulated(self, key, length, check_count("num_paths", num_paths))

    def _readings(self, ys: ArrayLike, method: str, form: str) -> Array:
        check_option("method", method, METHODS)
        check_option("form", form, tuple(FORMS))
        readings, size = as_float("ys", ys), self.observation.weights.shape[-2]
        fits = readings.ndim == 2 and readings.shape[1] == size and len(readings) > 0
        check(fits, "ys", f"of shape (times, {size}), at least one time", f"shape {readings.shape}")
        self._check_length(len(readings))
        return readings

    def _check_length(self, length: int) -> None:
        for name, part, count in (
            ("transition", self.transition, length - 1),
            ("observation", self.observation, length),
        ):
            units = plates(part)
            must = f"as many times as `{name}` has ({units[0] + length - count if units else 0})"
            check(units in ((), (count,)), "ys", must, length)


class _Passed(Module):
    """A pass forward in the spreads of one form."""

    predicted: Belief
    filtered: Belief
    backward: Any  # a `Step`, or None
    log_densities: Array


def _start(chain: GaussianChain, form: Form) -> Belief:
    return Belief(chain.initial.mean, form.spread_of(chain.initial.cov))


def _steps(part: LinearGaussian, count: int, form: Form) -> Step:
    """The steps of all times, with roots taken once where there is one matrix."""
    spread = form.spread_of(part.cov) if part.cov.ndim == 2 else form.spreads_of(part.cov)
    leaves = (part.weights, 2), (part.bias, 1), (spread, 2)
    return Step(*(jnp.broadcast_to(leaf, (count, *leaf.shape[leaf.ndim - rank :])) for leaf, rank in leaves))


def _forward(chain: GaussianChain, ys: Array, method: str, form: Form, *, turned: bool = True) -> _Passed:
    """The pass forward; transitions are `turned` round where a pass backward follows."""
    moves, looks = _steps(chain.transition, len(ys) - 1, form), _steps(chain.observation, len(ys), form)
    start, first = _start(chain, form), jax.tree.map(lambda leaf: leaf[0], looks)
    begun, density = form.observe(first, start, ys[0])
    later, rest = jax.tree.map(lambda leaf: leaf[1:], looks), ys[1:]
    passes = _forward_by_scan if method == "scan" else _forward_in_parallel
    turn = form.turn if turned else partial(_only_pushed, form)
    predicted, filtered, backward, densities = passes(form, turn, begun, moves, later, rest)

    def put(one: Any, more: Any) -> Any:
        return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), one, more)

    return _Passed(put(start, predicted), put(begun, filtered), backward, put(density, densities))


def _only_pushed(form: Form, step: Step, belief: Belief) -> tuple[Belief, None]:
    return push(form, step, belief), None


def _forward_by_scan(form: Form, turn: Any, begun: Belief, moves: Step, looks: Step, ys: Array) -> tuple:
    def step(belief: Belief, inputs: tuple[Step, Step, Array]) -> Any:
        move, look, y = inputs
        predicted, backward = turn(move, belief)
        after, density = form.observe(look, predicted, y)
        return after, (predicted, after, backward, density)

    return run(step, begun, (moves, looks, ys)).trace


def _forward_in_parallel(form: Form, turn: Any, begun: Belief, moves: Step, looks: Step, ys: Array) -> tuple:
    zero = jnp.zeros_like(begun.spread)
    first = Element(zero, begun.mean, begun.spread, jnp.zeros_like(begun.mean), zero)
    elements = each(form.element, moves, looks, ys)
    elements = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, elements)
    joined = prefixes(form.join, elements)
    filtered = Belief(joined.b, joined.C)
    before = jax.tree.map(lambda leaf: leaf[:-1], filtered)
    predicted, backward = each(turn, moves, before)
    densities = each(form.observe, looks, predicted, ys)[1]
    return predicted, jax.tree.map(lambda leaf: leaf[1:], filtered), backward, densities


def _backward(form: Form, passed: _Passed, method: str) -> Belief:
    """The smoothed beliefs."""
    last = jax.tree.map(lambda leaf: leaf[-1], passed.filtered)
    if method == "scan":

        def back(belief: Belief, step: Step) -> tuple[Belief, Belief]:
            before = push(form, step, belief)
            return before, before

        _, beliefs = jax.lax.scan(back, last, passed.backward, reverse=True)
        return jax.tree.map(lambda a, b: jnp.concatenate([a, b[None]]), beliefs, last)
    end = Step(jnp.zeros_like(last.spread), last.mean, last.spread)
    steps = jax.tree.map(lambda a, b: jnp.concatenate([a, b[None]]), passed.backward, end)
    joined = prefixes(partial(compose, form), steps, reverse=True)
    return Belief(joined.bias, joined.spread)


def _gaussian(form: Form, belief: Belief) -> Gaussian:
    return Gaussian(belief.mean, jax.vmap(form.cov_of)(belief.spread))


def _shown(form: Form, passed: _Passed) -> GaussianFilter:
    back = passed.backward
    turned = LinearGaussian(back.weights, back.bias, jax.vmap(form.cov_of)(back.spread))
    predicted, filtered = _gaussian(form, passed.predicted), _gaussian(form, passed.filtered)
    return GaussianFilter(predicted, filtered, turned, passed.log_densities)


@program
def _filtered(chain: GaussianChain, ys: Array, method: str, form: str) -> GaussianFilter:
    return _shown(FORMS[form], _forward(chain, ys, method, FORMS[form]))


@program
def _log_evidence(chain: GaussianChain, ys: Array, method: str, form: str) -> Scalar:
    return _evidence(chain, ys, method, form)


@partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def _evidence(chain: GaussianChain, ys: Array, method: str, form: str) -> Scalar:
    return _forward(chain, ys, method, FORMS[form], turned=False).log_densities.sum()


@_evidence.defjvp
def _evidence_jvp(method: str, form: str, primals: tuple, tangents: tuple) -> tuple[Scalar, Scalar]:
    """By covariances in every form: a root of a singular matrix has no derivative, the evidence has."""

    def by_covariances(chain: GaussianChain, ys: Array) -> Scalar:
        return _forward(chain, ys, method, FORMS["covariance"], turned=False).log_densities.sum()

    value, slope = jax.jvp(by_covariances, primals, tangents)
    return value if form == "covariance" else _evidence(*primals, method, form), slope


@program
def _smoothed(chain: GaussianChain, ys: Array, method: str, form: str) -> GaussianSmoothed:
    passed = _forward(chain, ys, method, FORMS[form])
    marginals = _gaussian(FORMS[form], _backward(FORMS[form], passed, method))
    return GaussianSmoothed(
        marginals, passed.backward.weights @ marginals.cov[1:], _shown(FORMS[form], passed)
    )


@program
def _paths(chain: GaussianChain, key: Key, ys: Array, num: int, method: str, form: str) -> Array:
    passed = _forward(chain, ys, method, FORMS[form])
    last = jax.tree.map(lambda leaf: leaf[-1], passed.filtered)
    noise = jr.normal(key, (len(ys), num, last.mean.size), ys.dtype)
    end = last.mean[None] + noise[-1] @ FORMS[form].root_of(last.spread).T
    shifts = passed.backward.bias[:, None] + noise[:-1] @ jnp.swapaxes(
        FORMS[form].roots_of(passed.backward.spread), 1, 2
    )
    maps = passed.backward.weights
    if method == "scan":
        _, paths = jax.lax.scan(lambda x, m: (x @ m[0].T + m[1],) * 2, end, (maps, shifts), reverse=True)
        paths = jnp.concatenate([paths, end[None]])
    else:
        maps, shifts = jnp.concatenate([maps, 0 * last.spread[None]]), jnp.concatenate([shifts, end[None]])
        _, paths = prefixes(_after, (maps, shifts), reverse=True)
    return jnp.swapaxes(paths, 0, 1)


def _after(later: tuple[Array, Array], earlier: tuple[Array, Array]) -> tuple[Array, Array]:
    """The affine maps of many draws, one after the other."""
    return earlier[0] @ later[0], later[1] @ earlier[0].T + earlier[1]


@program
def _simulated(chain: GaussianChain, key: Key, length: int, num: int) -> tuple[Array, Array]:
    form = FORMS["square-root"]
    start, moves, looks = (
        _start(chain, form),
        _steps(chain.transition, length - 1, form),
        _steps(chain.observation, length, form),
    )
    key_states, key_readings = jr.split(key)
    noise = jr.normal(key_states, (length, num, start.mean.size), start.mean.dtype)
    first = start.mean[None] + noise[0] @ start.spread.T

    def step(x: Array, inputs: tuple[Step, Array]) -> tuple[Array, Array]:
        move, z = inputs
        x = x @ move.weights.T + move.bias[None] + z @ move.spread.T
        return x, x

    later = run(step, first, (moves, noise[1:])).trace
    states = jnp.concatenate([first[None], later])
    error = jr.normal(key_readings, (length, num, looks.bias.shape[1]), states.dtype)
    readings = jnp.einsum("tnd,tmd->tnm", states, looks.weights) + looks.bias[:, None]
    readings = readings + error @ jnp.swapaxes(looks.spread, 1, 2)
    return jnp.swapaxes(states, 0, 1), jnp.swapaxes(readings, 0, 1)
