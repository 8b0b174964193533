r"""How much dependent draws are worth: autocovariances and the integrated autocorrelation time.

Identities.  $\mathrm{Var}[\bar f] \approx \tau\,\mathrm{Var}[f]/n$ with $\tau = 1 + 2\sum_{t \ge 1}\rho_t$:
             $n$ draws are worth $n/\tau$ independent ones.
Truncation.  Geyer's initial monotone sequence: sums of pairs $\rho_{2t} + \rho_{2t+1}$ are taken while they
             are positive, each at most the one before.
Used by.     inference.bridge, inference.thermodynamic, inference.cross_validation; diagnostics of chains.
Cost.        One fast Fourier transform per series.
References.  Geyer (1992), "Practical Markov chain Monte Carlo"; Geyer (2011).
"""

import jax
import jax.numpy as jnp

from tractable.core.checks import as_float, check
from tractable.core.types import Array, ArrayLike, Float, Scalar

__all__ = ["autocorrelation_time", "autocovariance"]


def autocovariance(series: ArrayLike) -> Array:
    r"""$\frac1n\sum_i (f_i - \bar f)(f_{i+t} - \bar f)$ for $t = 0 \dots n - 1$, along the last axis."""
    values = as_float("series", series)
    check(values.ndim > 0 and values.shape[-1] > 0, "series", "at least one value", f"shape {values.shape}")
    return _autocovariance(values)


def autocorrelation_time(series: ArrayLike) -> Scalar:
    r"""$\tau$ of draws in order, shape `(n,)`, or of several chains, shape `(chains, n)`.

    1 for independent draws and for draws that never change; never below $1/\log_{10} n$. Autocovariances are
    averaged over the chains, each about its own mean: whether chains agree is another question.
    """
    values = as_float("series", series)
    check(values.ndim in (1, 2), "series", "draws (n,) or chains (chains, n)", f"shape {values.shape}")
    check(values.shape[-1] >= 4, "series", "four draws or more", f"shape {values.shape}")
    return _time(values.reshape((-1, values.shape[-1])))


@jax.jit
def _autocovariance(values: Array) -> Array:
    n = values.shape[-1]
    centred = values - values.mean(-1, keepdims=True)
    padded = 1 << (2 * n - 1).bit_length()  # no wrap-around, and a length that the transform likes
    spectrum = jnp.abs(jnp.fft.rfft(centred, padded)) ** 2
    return jnp.fft.irfft(spectrum, padded)[..., :n] / n


@jax.jit
def _time(chains: Float[Array, "chains n"]) -> Scalar:
    n = chains.shape[1]
    covariance = _autocovariance(chains).mean(0)
    still = covariance[0] <= 0
    rho = covariance / jnp.where(still, 1.0, covariance[0])
    pairs = rho[: n // 2 * 2].reshape((-1, 2)).sum(1)
    alive = jnp.cumprod(pairs > 0)
    falling = jax.lax.cummin(jnp.where(alive > 0, pairs, 0.0))
    # anticorrelated draws may be worth more than independent ones, but not without bound
    time = jnp.maximum(2 * (alive * falling).sum() - 1, 1 / jnp.log10(n))
    return jnp.where(still, 1.0, time)
