r"""Stochastic variational Gaussian processes: mini-batches, natural gradients, any number of rows.

Bound.       $\sum_n w_n E_q[\log p(y_n \mid f_n)] - KL(q(v) \| N(0, I))$ over the whitened inducing values
             $v = L^{-1} f(Z)$; a batch of the rows, scaled up, estimates the sum.
Natural.     With $g = \partial_\mu E$ and $c = -2\,\partial_v E$ per row, the step of length $\rho$ is
             $\Lambda \leftarrow (1 - \rho)\Lambda + \rho(I + \sum w c\,a a^\top)$ for the precision and
             $(1 - \rho)\lambda + \rho\sum w(g + c\,a^\top m)\,a$ for precision times mean: with Gaussian
             noise, all rows and $\rho = 1$ it is the optimum at once (`gp.sparse`).
Rest.        Kernel, noise and inducing points follow by Adam on the same batch.
End.         For Gaussian noise the optimum, by one pass over all rows, with its exact bound.
Cost.        $O(b M^2 + M^3)$ per step for batches of $b$ rows and $M$ inducing points.
References.  Hensman, Fusi and Lawrence (2013); Salimbeni, Eleftheriadis and Hensman (2018).
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from tractable.bijections.support import Rebuild, unconstrain
from tractable.core.checks import check, check_count
from tractable.core.factors import normal_log_density
from tractable.core.host_random import generator
from tractable.core.iterate import run
from tractable.core.keys import takes_key
from tractable.core.linalg import psd_factor
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.types import Array, Float, Key, Scalar
from tractable.core.verdict import Verdict
from tractable.gp.ascent import rebuilt
from tractable.gp.links import average
from tractable.gp.points import Observed, Table, observe
from tractable.gp.prior import means, prior_variances
from tractable.gp.sparse import InducingPosterior, SparseProcess, whitened_belief

__all__ = ["StochasticFit", "fit_svgp"]


class StochasticFit(Module):
    """The posterior found, and the estimate of the bound at each step."""

    posterior: InducingPosterior
    trace: Float[Array, " steps"] = field(show=False)

    @property
    def verdict(self) -> Verdict:
        """Whether the bound still rises over the last quarter of the steps."""
        quarter = np.asarray(self.trace)[-max(1, self.trace.size // 4) :]
        half = len(quarter) // 2
        rise = quarter[half:].mean() - quarter[:half].mean() if half else np.nan
        error = quarter.std() * 2 / max(len(quarter), 1) ** 0.5
        rising = bool(rise > 3 * error)
        words = "still rising: take more steps" if rising else "level: settled up to batch noise"
        return Verdict(not rising, f"After {self.trace.size} steps the bound is {words}.", {"rise": rise})


class _State(Module):
    free: Float[Array, " p"]
    shift: Float[Array, " m"]
    precision: Float[Array, "m m"]
    moments: Any


@takes_key
def fit_svgp(
    process: SparseProcess,
    X: Table,
    y: Any = None,
    weights: Any = None,
    *,
    key: Key,
    num_steps: int = 300,
    batch: int = 1024,
    learning_rate: float = 0.02,
    natural_rate: float = 0.1,
) -> StochasticFit:
    """Kernel, noise, inducing points and their Gaussian, by batches; with a link, labels are 0 and 1.

    Both rates fall to a tenth by the end, along a cosine.
    """
    target = "number" if process.link is None else "binary"
    observed = observe(X, y, weights, target=target, num_columns=process.inducing.shape[1])
    free, rebuild = unconstrain(process)
    size = min(check_count("batch", batch), observed.num_rows)
    order = _batches(key, observed.num_rows, size, check_count("num_steps", num_steps))
    count = process.inducing.shape[0]
    start = _State(free, jnp.zeros(count), jnp.eye(count), optax.scale_by_adam().init(free))
    progress = 0.55 + 0.45 * np.cos(np.pi * np.arange(num_steps) / num_steps)
    rates = jnp.asarray(np.stack([learning_rate * progress, natural_rate * progress], 1))
    state, trace = _trained(start, observed, rebuild, jnp.asarray(order), rates)
    check(bool(np.isfinite(trace[-1])), "learning_rate", "small enough for a finite bound", learning_rate)
    found = rebuilt(rebuild, state.free)
    if process.link is None:
        return StochasticFit(found.posterior(observed), trace)
    bound = trace[-max(1, num_steps // 10) :].mean()
    return StochasticFit(_posterior(found, state, bound, observed.weights.sum()), trace)


def _batches(key: Key, num_rows: int, size: int, num_steps: int) -> np.ndarray:
    """Rows of each step: passes over all rows, each in a new order."""
    numbers = generator(key)
    passes = -(-num_steps * size // num_rows)
    order = np.concatenate([numbers.permutation(num_rows) for _ in range(passes)])
    return order[: num_steps * size].reshape(num_steps, size)


def _expected(process: SparseProcess, y: Scalar, mean: Scalar, variance: Scalar) -> Scalar:
    r"""$E[\log p(y \mid f)]$ for $f \sim N(\mu, v)$."""
    if process.link is not None:
        link = process.link
        return average(lambda f: link.log_prob(2 * y - 1, f), mean, variance)
    spread = (y - mean) ** 2 + variance
    return normal_log_density(spread / process.noise, jnp.log(process.noise), 1)


def _marginals(process: SparseProcess, state: _State, X: Array) -> tuple[Array, Array, Array, Array]:
    """The columns $a$, the whitened mean, and mean and variance of the function at rows."""
    belief = whitened_belief(state.shift, psd_factor(state.precision))
    a = process.rows(process.factor(), X)
    before = prior_variances(process, X)
    return a, belief.weights, *belief.marginals(means(process, X), before, a.T)


def _divergence(state: _State) -> Scalar:
    r"""$KL(N(\Lambda^{-1}\lambda, \Lambda^{-1}) \| N(0, I))$."""
    precision = psd_factor(state.precision)
    mean = precision.solve(state.shift)
    size = state.precision.shape[0]
    root = precision.half_solve(jnp.eye(size, dtype=mean.dtype))
    return 0.5 * ((root**2).sum() + mean @ mean - size + precision.log_det())


def _step(state: _State, inputs: Any, observed: Observed, rebuild: Rebuild) -> tuple[_State, Scalar]:
    index, (rate, natural) = inputs
    X, y, weights = observed.X[index], observed.y[index], observed.weights[index]
    weights = weights * observed.weights.sum() / weights.sum()

    def bound(free):
        process = rebuild(free)[0]
        a, whitened, mean, variance = _marginals(process, state, X)
        expected = jax.vmap(lambda t, m, v: _expected(process, t, m, v))
        slopes = jax.vmap(jax.grad(lambda t, m, v: _expected(process, t, m, v), (1, 2)))(y, mean, variance)
        return weights @ expected(y, mean, variance), jax.lax.stop_gradient((a, whitened, slopes))

    (fit, (a, whitened, (g, half))), slope = jax.value_and_grad(bound, has_aux=True)(state.free)
    curvature = -2 * half
    eye = jnp.eye(a.shape[0], dtype=a.dtype)
    precision = eye + (a * (weights * curvature)[None]) @ a.T
    shift = a @ (weights * (g + curvature * (a.T @ whitened)))
    update, moments = optax.scale_by_adam().update(-slope, state.moments)
    moved = _State(
        state.free - rate * update,
        state.shift + natural * (shift - state.shift),
        state.precision + natural * (precision - state.precision),
        moments,
    )
    return moved, fit - _divergence(state)


@program
def _trained(
    start: _State, observed: Observed, rebuild: Rebuild, order: Array, rates: Array
) -> tuple[_State, Array]:
    found = run(
        lambda state, inputs: _step(state, inputs, observed, rebuild),
        start,
        (order, (rates[:, 0], rates[:, 1])),
    )
    return found.state, found.trace


@program
def _posterior(process: SparseProcess, state: _State, bound: Scalar, total: Scalar) -> InducingPosterior:
    belief = whitened_belief(state.shift, psd_factor(state.precision))
    return InducingPosterior(process, process.factor(), belief, bound, total)
