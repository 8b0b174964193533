r"""Thermodynamic integration and stepping stones: evidence from draws between prior and posterior.

Path.        $p_\beta(\theta) \propto p(D \mid \theta)^\beta\,p(\theta)$, $\ell = \log p(D \mid \theta)$.
Integral.    $\log p(D) = \int_0^1 E_\beta[\ell]\,d\beta$, by the trapezoidal rule in $u = \beta^{1/p}$,
             corrected by derivatives, $\frac{d}{d\beta}E_\beta[\ell] = \mathrm{Var}_\beta[\ell]$, which the
             same draws give: an error of fourth order in the spacing.
Stones.      $\log p(D) = \sum_k \log E_{\beta_k}[e^{(\beta_{k+1} - \beta_k)\ell}]$: no discretisation, but an
             importance estimate for each factor.
Error.       That of the draws (with their autocorrelation), and for the integral also that of the rule,
             measured against every other temperature.
Cost.        Draws at every temperature.
References.  Friel and Pettitt (2008); Friel, Hurn and Wyse (2014); Xie, Lewis, Fan, Kuo and Chen (2011).
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import as_float, check, is_concrete
from tractable.core.iterate import Status
from tractable.core.module import field
from tractable.core.programs import program
from tractable.core.types import Array, ArrayLike, Float, Key, Scalar
from tractable.inference.trust.autocorrelation import autocorrelation_time
from tractable.inference.trust.evidence import Evidence, Grounds
from tractable.inference.weighted.weights import log_mean_weight

__all__ = ["Thermodynamic", "power_log_likelihoods", "stepping_stone_evidence", "thermodynamic_evidence"]

_GROUNDS = Grounds("proper")  # draws at temperature 0 are draws of the prior


class Thermodynamic(Evidence):
    """The integral with its two errors: of the draws, and of the rule; `standard_error` is both together."""

    monte_carlo: Scalar = field()
    discretisation: Scalar = field()
    means: Float[Array, " k"] = field()  # of the log-likelihood at each temperature: the integrand


def thermodynamic_evidence(
    log_likelihoods: ArrayLike, temperatures: ArrayLike, *, power: float | int = 4.0
) -> Thermodynamic:
    r"""$\log p(D) = \int_0^1 E_\beta[\ell]\,d\beta$ from $\ell$ at draws of each temperature.

    `log_likelihoods` has shape `(temperatures, n)`, or `(temperatures, chains, n)`, draws in order;
    `power_log_likelihoods` makes them with a sampler. `temperatures` rise from 0 to 1. `power` is the $p$ of
    the coordinate $u = \beta^{1/p}$ of the rule: that of the ladder $(k/K)^p$, in which the integrand is
    smooth even where $E_0[\ell]$ is infinite; 1 for the plain rule in $\beta$.
    """
    logs, ladder = _as_draws(log_likelihoods, temperatures)
    check(power == 1 or power >= 2, "power", "1, or at least 2", power)
    check(ladder.size >= 3, "temperatures", "three or more", ladder.size)
    return _integrate(logs, ladder, float(power))


def stepping_stone_evidence(log_likelihoods: ArrayLike, temperatures: ArrayLike) -> Evidence:
    r"""$\log p(D) = \sum_k\log E_{\beta_k}[e^{(\beta_{k+1} - \beta_k)\ell}]$; draws at 1 are not needed."""
    logs, ladder = _as_draws(log_likelihoods, temperatures)
    return _stones(logs, ladder)


def power_log_likelihoods(
    sampler: Callable[[Key, Array], Array], temperatures: ArrayLike, *, key: Key
) -> Array:
    r"""$\ell$ at draws of each temperature, from `sampler(key, beta)`, which returns them for one.

    The sampler is compiled once, and run for one temperature after the other.
    """
    ladder = as_float("temperatures", temperatures)
    return _draw(sampler, jr.split(key, ladder.size), ladder)


def _as_draws(log_likelihoods: ArrayLike, temperatures: ArrayLike) -> tuple[Array, Array]:
    logs, ladder = as_float("log_likelihoods", log_likelihoods), as_float("temperatures", temperatures)
    check(logs.ndim in (2, 3), "log_likelihoods", "(temperatures, n), chains between", f"shape {logs.shape}")
    check(
        ladder.shape == logs.shape[:1], "temperatures", f"one per row ({logs.shape[0]},)", f"{ladder.shape}"
    )
    if is_concrete(ladder) and is_concrete(logs):
        steps = np.asarray(ladder)
        rising = len(steps) > 1 and steps[0] == 0 and steps[-1] == 1 and bool((np.diff(steps) > 0).all())
        check(rising, "temperatures", "rising from 0 to 1", f"{steps}")
        values = np.asarray(logs)
        must = "numbers, or minus infinity at temperature 0"
        got = "NaN or inf"
        check(not np.isnan(values).any() and bool((values < np.inf).all()), "log_likelihoods", must, got)
        check(
            np.isfinite(values[1:]).all(), "log_likelihoods", must, "minus infinity at a higher temperature"
        )
    return logs if logs.ndim == 3 else logs[:, None], ladder


@program
def _draw(sampler: Callable, keys: Array, ladder: Array) -> Array:
    return jax.lax.map(lambda each: sampler(each[0], each[1]), (keys, ladder))


def _coefficients(ladder: Array, power: float) -> tuple[Array, Array]:
    """What multiplies the mean and the variance at each temperature in the corrected rule."""
    u = ladder ** (1 / power)
    jacobian = power * u ** (power - 1)
    bend = power * (power - 1) * u ** (power - 2) if power >= 2 else jnp.zeros_like(u)
    gaps = jnp.diff(u)
    nothing = jnp.zeros(1, u.dtype)
    left, right = jnp.concatenate([nothing, gaps]), jnp.concatenate([gaps, nothing])
    ends = (right**2 - left**2) / 12  # of the derivative of the integrand at each end of each gap
    return (left + right) / 2 * jacobian + ends * bend, ends * jacobian**2


def _rule(means: Array, variances: Array, ladder: Array, power: float) -> Scalar:
    a, b = _coefficients(ladder, power)
    return (jnp.where(a == 0, 0.0, a * means) + jnp.where(b == 0, 0.0, b * variances)).sum()


@program
def _integrate(logs: Array, ladder: Array, power: float) -> Thermodynamic:
    count = logs.shape[1] * logs.shape[2]
    means, variances = logs.mean((1, 2)), logs.var((1, 2), ddof=1)
    value = _rule(means, variances, ladder, power)
    a, b = (c[:, None, None] for c in _coefficients(ladder, power))
    # what each draw adds to the estimate; a temperature of weight zero adds nothing, whatever its draws
    unused = (a == 0) & (b == 0)
    centred = jnp.where(unused, 0.0, logs - means[:, None, None])
    influence = a * centred + b * centred**2
    times = jax.vmap(autocorrelation_time)(influence)
    monte_carlo = jnp.sqrt((times * influence.var((1, 2), ddof=1) / count).sum())
    if ladder.size % 2 == 1 and ladder.size >= 5:
        coarse = _rule(means[::2], variances[::2], ladder[::2], power)
        discretisation = jnp.abs(value - coarse) / 15  # fourth order: halving the spacing leaves 1/16
    else:
        discretisation = jnp.abs(_rule(jnp.zeros_like(means), variances, ladder, power))
    code = jnp.where(jnp.isfinite(value), int(Status.completed), int(Status.not_finite))
    error = jnp.hypot(monte_carlo, discretisation)
    method = "thermodynamic integration"
    return Thermodynamic(
        value, error, code, monte_carlo, discretisation, means, method=method, grounds=_GROUNDS
    )


@program
def _stones(logs: Array, ladder: Array) -> Evidence:
    steps = jnp.diff(ladder)[:, None, None] * logs[:-1]
    factors = log_mean_weight(steps.reshape((steps.shape[0], -1)))
    weights = jnp.exp(steps - factors.value[:, None, None])
    times = jax.vmap(autocorrelation_time)(weights)
    value = factors.value.sum()
    code = jnp.where(jnp.isfinite(value), int(Status.completed), int(Status.not_finite))
    error = jnp.sqrt((times * factors.standard_error**2).sum())
    return Evidence(value, error, code, method="stepping stones", grounds=_GROUNDS)
