r"""The sigmoid of a Gaussian log-odds: predictive probabilities that know about uncertain coefficients.

Integral.    $p = \int\sigma(a)\,N(a \mid \mu, s^2)\,da$, between $\sigma(\mu)$ at $s = 0$ and $1/2$ at
             $s = \infty$.
Exact.       The trapezoidal rule converges geometrically on the line: for $s \le 2$ on the integral as it
             stands, for $s > 2$ on $\int\Phi((\mu - t)/s)\,\sigma'(t)\,dt$, which is the same by exchanging
             the logistic and the normal noise. Both are right to rounding with at most 161 points.
Probit.      $\sigma(a) \approx \Phi(\lambda a)$ with $\lambda^2 = \pi/8$ gives
             $p \approx \Phi(\mu/\sqrt{\lambda^{-2} + s^2}) \approx \sigma(\kappa\mu)$,
             $\kappa = (1 + \pi s^2/8)^{-1/2}$.
Cost.        A few hundred operations per row for "exact"; a few for "kappa" and "probit".
References.  MacKay (1992), "The evidence framework applied to classification networks"; Bishop (2006)
             section 4.5.2; Trefethen and Weideman (2014) for the rule.
"""

from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from scipy.special import expit, ndtr

from tractable.core.checks import as_float, check, check_count, check_entries, check_option, has_values
from tractable.core.types import ArrayLike, Key

__all__ = ["moderated_probability"]

_METHODS = ("exact", "hermite", "monte_carlo", "kappa", "probit")
_NOISE = np.arange(-36, 37) * 0.25
_NORMAL = 0.25 * np.exp(-0.5 * _NOISE**2) / np.sqrt(2 * np.pi)
_LOGISTIC_AT = np.arange(-80, 81) * 0.5
_LOGISTIC = 0.5 * expit(_LOGISTIC_AT) * expit(-_LOGISTIC_AT)
_BLOCK = 2**14


def moderated_probability(
    mean: ArrayLike,
    variance: ArrayLike,
    method: str = "exact",
    *,
    num_points: int = 32,
    key: Key | None = None,
) -> Any:
    r"""$\int\sigma(a)\,N(a \mid \mu, s^2)\,da$ for each pair of `mean` and `variance`.

    `method` is "exact" (to rounding), "hermite" (Gauss-Hermite with `num_points`; good for small $s$),
    "monte_carlo" (`num_points` draws from `key`), "kappa" for $\sigma(\kappa\mu)$, or "probit".

    >>> [float(moderated_probability(1.0, 1.0, m).round(7)) for m in ("exact", "kappa", "probit")]
    [0.6967347, 0.7000144, 0.7022935]
    """
    check_option("method", method, _METHODS)
    if not has_values((mean, variance)):
        check(method == "exact", "method", "'exact' under `jit`, `vmap` and `grad`", repr(method))
        return _exact_traced(jnp.asarray(mean), jnp.asarray(variance))
    mu, square = np.asarray(as_float("mean", mean), float), np.asarray(as_float("variance", variance), float)
    check_entries("variance", square, lambda v: v >= 0, "zero or positive")
    mu, square = np.broadcast_arrays(mu, square)
    if method == "kappa":
        return np.asarray(expit(mu / np.sqrt(1 + np.pi * square / 8)))
    if method == "probit":
        return np.asarray(ndtr(mu / np.sqrt(8 / np.pi + square)))
    deviation = np.asarray(np.sqrt(square))
    if method == "exact":
        return _in_blocks(_exact, mu, deviation)
    if method == "hermite":
        nodes, shares = np.polynomial.hermite_e.hermegauss(check_count("num_points", num_points, 1, 150))
        shares = shares / np.sqrt(2 * np.pi)
    else:
        check(key is not None, "key", "given for the method 'monte_carlo'", None)
        assert key is not None
        count = check_count("num_points", num_points)
        nodes, shares = np.asarray(jr.normal(key, (count,))), np.full(count, 1 / count)
    return _in_blocks(lambda m, s: expit(m[:, None] + s[:, None] * nodes) @ shares, mu, deviation)


def _exact(mu: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    narrow = deviation <= 2
    answer = np.full(mu.shape, 0.5)
    m, s = mu[narrow], deviation[narrow]
    answer[narrow] = expit(m[:, None] + s[:, None] * _NOISE) @ _NORMAL
    wide = ~narrow & np.isfinite(deviation)
    m, s = mu[wide], deviation[wide]
    answer[wide] = ndtr((m[:, None] - _LOGISTIC_AT) / s[:, None]) @ _LOGISTIC
    return answer


def _exact_traced(mu: Any, square: Any) -> Any:
    """The same under `jit`, `vmap` and `grad`: both integrals, each where it holds."""
    narrow = square <= 4
    m, none = mu[..., None], square == 0
    s = jnp.where(none, 0.0, jnp.sqrt(jnp.where(narrow & ~none, square, 1.0)))[..., None]
    wide = jnp.sqrt(jnp.where(narrow, 9.0, square))[..., None]
    shape = (1,) * mu.ndim + (-1,)
    first = jax.nn.sigmoid(m + s * _NOISE.reshape(shape)) @ _NORMAL
    second = jax.scipy.stats.norm.cdf((m - _LOGISTIC_AT.reshape(shape)) / wide) @ _LOGISTIC
    return jnp.where(narrow, first, second)


def _in_blocks(rule, mu: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """The rule on stretches of rows: the table of points is never larger than the cache."""
    flat, spread = mu.ravel(), deviation.ravel()
    parts = [rule(flat[i : i + _BLOCK], spread[i : i + _BLOCK]) for i in range(0, max(flat.size, 1), _BLOCK)]
    return np.concatenate(parts).reshape(mu.shape)
