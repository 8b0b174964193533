r"""The ensemble Kalman filter: a cloud of states in place of a mean and a covariance.

Forecast.    Each member moves by the model with noise of its own.
Learning.    With the ensemble's $C = \mathrm{Cov}[x, h(x)]$ and $S = \mathrm{Cov}[h(x)] + R$: "stochastic"
             moves each member by $C S^{-1}(y + \epsilon_i - h(x_i))$; "square-root" moves the mean by
             $C S^{-1}(y - \bar h)$ and deviations by $-\tilde K h'_i$, $\tilde K = C S^{-\top/2}(S^{1/2} +
             R^{1/2})^{-1}$, so that their covariance is $P - C S^{-1} C^\top$ without noise.
Small.       `inflation` stretches deviations before each reading; `localisation` multiplies $C$ entry by
             entry, against correlations that few members show by chance.
Limit.       For a linear system the Kalman filter, with errors of order $N^{-1/2}$; else an approximation.
Cost.        $O(TN)$ values of $f$ and $h$, and $O(T(N m d + m^3))$.
References.  Evensen (2003); Whitaker and Hamill (2002); Andrews (1968).
"""

from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import jax.scipy.linalg as jsl
import numpy as np

from tractable.core.checks import as_float, check, check_count, check_option, to_device
from tractable.core.factors import normal_log_density
from tractable.core.module import Module, field
from tractable.core.programs import light, program
from tractable.core.types import Array, ArrayLike, Float, Key, Scalar
from tractable.core.verdict import Verdict
from tractable.distributions.gaussian import Factored, Gaussian, learn, observed_part
from tractable.statespace.nonlinear.model import Dynamics
from tractable.statespace.nonlinear.particles import roots_of

__all__ = ["EnsembleFiltered", "ensemble_filter"]

METHODS = ("stochastic", "square-root")


class EnsembleFiltered(Module):
    """The members of all times, and the density of each reading under the ensemble's Gaussian."""

    members: Float[Array, "t n d"] = field(show=False)
    log_densities: Float[Array, " t"]
    method: str = field(static=True)

    @property
    def mean(self) -> Float[Array, "t d"]:
        """The ensemble's mean at each time, with its reading."""
        return self.members.mean(1)

    @property
    def cov(self) -> Float[Array, "t d d"]:
        """The ensemble's covariance at each time."""
        apart = self.members - self.mean[:, None]
        return jnp.einsum("tna,tnb->tab", apart, apart) / (self.members.shape[1] - 1)

    @property
    def log_likelihood(self) -> Scalar:
        r"""$\log p(y)$ as the ensemble's Gaussians have it."""
        return self.log_densities.sum()

    @property
    def verdict(self) -> Verdict:
        """What an ensemble can claim: nothing without a second one."""
        count = self.members.shape[1]
        said = f"Not certified: {count} members have errors of order 1/sqrt({count}), and Gaussians stand for"
        fix = "what the system makes of them. Compare with another key, and with `particle_filter`."
        return Verdict(False, f"{said} {fix}", {"num_members": count})


def ensemble_filter(
    model: Dynamics,
    y: ArrayLike,
    key: Key,
    inputs: ArrayLike | None,
    num_members: int,
    method: str,
    inflation: float | int,
    localisation: ArrayLike | None,
) -> EnsembleFiltered:
    """The filter with checked options; `NonlinearSystem.ensemble_filter` calls it."""
    check_option("method", method, METHODS)
    check(inflation >= 1, "inflation", "1 or more", inflation)
    rows = model.readings(y)
    shape = model.dim, model.num_readings
    taper = as_float("localisation", np.ones(shape) if localisation is None else localisation)
    must = f"of shape {shape}: one weight for each entry of the state and of a reading"
    check(taper.shape == shape, "localisation", must, f"shape {taper.shape}")
    count = check_count("num_members", num_members, 2)
    known = model.inputs_of(inputs, len(rows))
    scale = to_device(np.asarray(inflation, rows.dtype))
    roots = tuple(roots_of(cov) for cov in (model.initial_cov, model.transition_cov, model.observation_cov))
    members, densities = _passed(model, roots, rows, known, key, count, method, scale, taper)
    return EnsembleFiltered(members, densities, method)


@program
@light
def _passed(
    model: Dynamics, roots: tuple, ys: Array, inputs: Any, key: Key, n: int, method: str, scale: Array,
    taper: Array,
) -> tuple[Array, Array]:  # fmt: skip
    length, dtype, (d, m) = len(ys), ys.dtype, (model.dim, model.num_readings)
    start, moves, looks = roots
    z = jr.normal(key, (length + 1, n, d + m), dtype)  # all noise at once: one program less of three
    first = model.initial_mean[None] + z[length, :, :d] @ start.T

    def at(matrices: Array, t: Array) -> Array:
        return matrices if matrices.ndim == 2 else matrices[jnp.minimum(t, len(matrices) - 1)]

    def step(members: Array, each: tuple) -> tuple[Array, tuple[Array, Array]]:
        t, u, y, z = each
        seen = jax.vmap(lambda x: model.look(x, t, u))(members)
        errors = z[:, d:] @ at(looks, t).T
        how = method, scale, taper
        after, density = _learnt(members, seen, y, at(model.observation_cov, t), errors, how)
        drift = z[:, :d] @ at(moves, t).T  # that of the last time is not used
        return jax.vmap(lambda x: model.move(x, t, u))(after) + drift, (after, density)

    return jax.lax.scan(step, first, (jnp.arange(length), inputs, ys, z[:length]))[1]


def _learnt(
    members: Array, seen: Array, y: Array, noise: Array, errors: Array, how: tuple
) -> tuple[Array, Scalar]:
    """The members after a reading, of which entries may be NaN, and its log-density."""
    method, scale, taper = how
    count, centre = len(members), seen.mean(0)
    apart, spread = (scale * (part - part.mean(0)[None]) for part in (members, seen))
    members, seen = members.mean(0)[None] + apart, centre[None] + spread
    cov = spread.T @ spread / (count - 1)
    cross = taper.astype(cov.dtype) * (apart.T @ spread) / (count - 1)
    cross, part, value = observed_part(cross, Gaussian(centre, cov + noise), y)
    known = learn(part, value)
    density = Factored(part.mean, known.factor).log_prob(value)
    here = ~jnp.isnan(y)
    density = density - normal_log_density(0.0, 0.0, (~here).sum())  # what is missing stands as unit noise
    if method == "stochastic":
        gaps = jnp.where(here[None], value[None] + errors - seen, 0.0)
        return members + known.factor.solve(gaps.T).T @ cross.T, density
    both = here[:, None] & here[None]
    lower = known.factor.lower
    root = jnp.linalg.cholesky(jnp.where(both, noise, jnp.eye(y.size, dtype=y.dtype)))
    scaled = jnp.linalg.solve(lower + root, jnp.where(here[None], spread, 0.0).T)
    half = jsl.solve_triangular(lower.T, scaled, lower=False)
    mean = members.mean(0) + cross @ known.weights
    return mean[None] + apart - (cross @ half).T, density
