r"""Gradients of expectations, $\nabla_\theta E_{q_\theta}[f(z)]$, by draws: each estimator with its variance.

Naive.       $\nabla\int q_\theta f = \int f\,\nabla q_\theta$ is not an expectation: $\nabla q$ is no density
             (for a normal, $\partial q/\partial\mu = q\,(z - \mu)/\sigma^2$).
Score.       $E[(f(z) - b)\,\nabla\log q_\theta(z)] + E[\nabla_\theta f]$, for any $f$ and any baseline $b$
             that does not depend on its own draw, since $E[\nabla\log q] = 0$. The best constant for one
             parameter is $b^* = E[f\,s^2]/E[s^2]$ with $s = \partial\log q$; leave-one-out means need no
             constant.
Pathwise.    $E[\nabla_\theta f(g_\theta(\epsilon))]$ for $z = g_\theta(\epsilon)$ with fixed noise: needs a
             derivative of $f$, and usually varies far less.
Draws.       May carry weights that sum to one: quadrature nodes then give exact means and variances.
Cost.        One gradient per draw.
References.  Williams (1992); Kingma and Welling (2014); Mohamed et al. (2020), "Monte Carlo gradient
             estimation in machine learning".
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import as_float, check, check_count, check_option
from tractable.core.iterate import Run, run
from tractable.core.module import Module, field
from tractable.core.numerics import safe_where
from tractable.core.programs import program
from tractable.core.types import Array, ArrayLike, Float, Key, Scalar

__all__ = [
    "GradientEstimate", "Race", "descents", "leave_one_out", "pathwise_gradient", "race", "score_gradient",
    "scores",
]  # fmt: skip

BASELINES = ("none", "optimal", "leave_one_out")

Integrand = Callable[[Any, Any], Any]  # f(parameters, z) or log q(parameters, z)


class GradientEstimate(Module):
    """One gradient per draw, with what they say together: their mean, and how much a single one varies."""

    samples: Float[Array, "n ..."]
    weights: Float[Array, " n"] | None = None  # of quadrature nodes; None for plain draws
    _shown = ("mean", "variance", "samples")

    @property
    def mean(self) -> Float[Array, "..."]:
        """The estimate of the gradient."""
        return self._average(self.samples)

    @property
    def variance(self) -> Float[Array, "..."]:
        """The variance of the gradient from one draw, entry by entry."""
        spread = self._average((self.samples - self.mean[None]) ** 2)
        n = self.samples.shape[0]
        return spread if self.weights is not None else spread * n / (n - 1)

    @property
    def standard_error(self) -> Float[Array, "..."]:
        """The standard error of `mean`; zero for quadrature."""
        if self.weights is not None:
            return jnp.zeros_like(self.mean)
        return jnp.sqrt(self.variance / self.samples.shape[0])

    def _average(self, values: Array) -> Array:
        if self.weights is None:
            return values.mean(0)
        return jnp.tensordot(self.weights, values, axes=1)


def scores(log_prob: Integrand, parameters: ArrayLike, draws: ArrayLike) -> Float[Array, "n ..."]:
    r"""$\nabla_\theta\log q_\theta(z)$ at each draw; their expectation is zero."""
    return _scores(log_prob, as_float("parameters", parameters), as_float("draws", draws))


def score_gradient(
    function: Integrand,
    log_prob: Integrand,
    parameters: ArrayLike,
    draws: ArrayLike,
    *,
    baseline: str | float | int = "none",
    weights: ArrayLike | None = None,
) -> GradientEstimate:
    r"""$(f(z_s) - b)\,\nabla\log q(z_s) + \nabla_\theta f$ at draws $z_s$ from $q_\theta$ (REINFORCE).

    `function(parameters, z)` may be discontinuous in `z`. The baseline is "none", a number, "optimal" (the
    best constant for each parameter, estimated from these draws) or "leave_one_out" (the mean of the others).
    """
    theta, z, w = _points(parameters, draws, weights)
    if isinstance(baseline, str):
        check_option("baseline", baseline, BASELINES)
        check(baseline != "leave_one_out" or w is None, "baseline", "another for weighted draws", baseline)
        few = baseline != "leave_one_out" or z.shape[0] > 1
        check(few, "draws", "at least two for the leave-one-out baseline", z.shape[0])
    return _score_gradient(function, log_prob, theta, z, w, baseline)


def pathwise_gradient(
    function: Integrand,
    transform: Callable[[Any, Any], Any],
    parameters: ArrayLike,
    noise: ArrayLike,
    *,
    weights: ArrayLike | None = None,
) -> GradientEstimate:
    r"""$\nabla_\theta f(\theta, g_\theta(\epsilon_s))$ at noise $\epsilon_s$, with $g$ = `transform`.

    `transform(parameters, noise)` is $\mu + \sigma\epsilon$, $\mu + L\epsilon$ or any other map that is
    smooth in the parameters.
    """
    theta, e, w = _points(parameters, noise, weights)
    return _pathwise_gradient(function, transform, theta, e, w)


def leave_one_out(values: Float[Array, " n"]) -> Float[Array, " n"]:
    r"""$\frac{1}{n-1}\sum_{j \ne i} f_j$: for each draw the mean of the others, independent of it.

    >>> leave_one_out(jnp.array([1.0, 2.0, 6.0])).tolist()
    [4.0, 3.5, 1.5]
    """
    return (values.sum() - values) / (values.shape[0] - 1)


class Race(Module):
    """Estimators of one gradient side by side: they must agree in the mean; the variance decides."""

    names: tuple[str, ...] = field(static=True)
    estimates: tuple[GradientEstimate, ...] = field()

    @property
    def means(self) -> dict[str, Array]:
        """The mean of each."""
        return {name: e.mean for name, e in zip(self.names, self.estimates)}

    @property
    def variances(self) -> dict[str, Array]:
        """The variance per draw of each."""
        return {name: e.variance for name, e in zip(self.names, self.estimates)}

    @property
    def largest_z(self) -> float:
        """The largest disagreement between two estimators, in standard errors of their difference."""
        worst = 0.0
        for i, a in enumerate(self.estimates):
            for b in self.estimates[:i]:
                error = np.hypot(np.asarray(a.standard_error), np.asarray(b.standard_error))
                rounding = 1e-9 * (1 + np.abs(np.asarray(a.mean)))  # all there is between exact means
                gap = np.abs(np.asarray(a.mean - b.mean))
                worst = max(worst, float((gap / np.maximum(error, rounding)).max()))
        return worst

    def _note(self) -> str:
        return f"largest disagreement {self.largest_z:.1f} standard errors"

    def _columns(self) -> dict[str, Any]:
        return {
            "estimator": self.names,
            "mean of the first entry": [float(jnp.ravel(e.mean)[0]) for e in self.estimates],
            "standard error": [float(jnp.ravel(e.standard_error)[0]) for e in self.estimates],
            "variance per draw, summed": [float(jnp.sum(e.variance)) for e in self.estimates],
        }


def race(estimates: Mapping[str, GradientEstimate]) -> Race:
    """The table of several estimates of one gradient."""
    check(len(estimates) > 0, "estimates", "at least one", "none")
    shapes = {name: tuple(e.samples.shape[1:]) for name, e in estimates.items()}
    check(len(set(shapes.values())) == 1, "estimates", "gradients of one shape", shapes)
    return Race(tuple(estimates), tuple(estimates.values()))


def descents(
    estimators: Mapping[str, Callable[[Array, Key], Array]],
    start: ArrayLike,
    key: Key,
    *,
    rate: float,
    num_steps: int,
) -> dict[str, Float[Array, "steps ..."]]:
    """The path of stochastic gradient descent with each estimator of the gradient, `estimator(parameters,
    key)`, from one start and with one stream of keys: lower variance is a straighter path."""
    first, steps = as_float("start", start), check_count("num_steps", num_steps)
    keys = jax.random.key_data(jax.random.split(key, steps))
    return {
        name: _descent(estimator, first, keys, jnp.asarray(rate, first.dtype)).trace
        for name, estimator in estimators.items()
    }


@program
def _descent(estimator: Callable, start: Array, keys: Array, rate: Array) -> Run:
    def step(theta, data):
        moved = theta - rate * estimator(theta, jax.random.wrap_key_data(data))
        return moved, moved

    return run(step, start, keys)


def _points(parameters: Any, draws: Any, weights: Any) -> tuple[Array, Array, Array | None]:
    theta, z = as_float("parameters", parameters), as_float("draws", draws)
    check(z.ndim > 0 and z.shape[0] > 0, "draws", "one or more along the first axis", f"shape {z.shape}")
    if weights is None:
        return theta, z, None
    w = as_float("weights", weights)
    check(w.shape == z.shape[:1], "weights", f"one per draw ({z.shape[0]})", f"shape {w.shape}")
    total = float(w.sum())
    check(abs(total - 1) < 1e-6, "weights", "numbers that sum to 1", f"a sum of {total:.6g}")
    return theta, z, w


@program
def _scores(log_prob: Integrand, theta: Array, z: Array) -> Array:
    return jax.vmap(lambda draw: jax.grad(log_prob)(theta, draw))(z)


@program
def _score_gradient(
    function: Integrand, log_prob: Integrand, theta: Array, z: Array, w: Array | None, baseline: Any
) -> GradientEstimate:
    values, direct = jax.vmap(lambda draw: jax.value_and_grad(function)(theta, draw))(z)
    s = _scores(log_prob, theta, z)
    lift = (-1,) + (1,) * theta.ndim
    plain = GradientEstimate(values.reshape(lift) * s + direct, w)
    if baseline == "none":
        return plain
    if baseline == "leave_one_out":
        return GradientEstimate((values - leave_one_out(values)).reshape(lift) * s + direct, w)
    best = _best_baseline(values.reshape(lift), s, w) if baseline == "optimal" else jnp.asarray(baseline)
    return GradientEstimate(plain.samples - jnp.broadcast_to(best, theta.shape)[None] * s, w)


def _best_baseline(values: Array, s: Array, w: Array | None) -> Array:
    r"""$E[f s^2]/E[s^2]$ entry by entry; zero where the score is zero."""
    top, bottom = GradientEstimate(values * s**2, w).mean, GradientEstimate(s**2, w).mean
    return safe_where(bottom > 0, lambda b: top / b, bottom, 0.0)


@program
def _pathwise_gradient(
    function: Integrand, transform: Callable, theta: Array, noise: Array, w: Array | None
) -> GradientEstimate:
    def path(theta: Array, e: Array) -> Scalar:
        return function(theta, transform(theta, e))

    return GradientEstimate(jax.vmap(lambda e: jax.grad(path)(theta, e))(noise), w)
