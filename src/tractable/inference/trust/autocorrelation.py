r"""How much dependent draws are worth: autocovariances and the integrated autocorrelation time.

Identities.  $\mathrm{Var}[\bar f] \approx \tau\,\mathrm{Var}[f]/n$ with $\tau = 1 + 2\sum_{t \ge 1}\rho_t$:
             $n$ draws are worth $n/\tau$ independent ones.
Truncation.  Geyer's initial monotone sequence: sums of pairs $\rho_{2t} + \rho_{2t+1}$ are taken while they
             are positive, each at most the one before. Of the pair that ends the sequence the even member
             counts once where it is positive: without it, anticorrelated chains look better than they are.
Two hosts.   The two rules are written once, for an array module that the caller names: `jax.numpy` inside
             compiled programs, NumPy where a table of many chains must not wait for a compiler.
Cost.        One fast Fourier transform per series, and one back per average over chains.
References.  Geyer (1992), "Practical Markov chain Monte Carlo"; Geyer (2011); Vehtari, Gelman, Simpson,
             Carpenter and Buerkner (2021), section 3.2.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import as_float, check
from tractable.core.types import Array, ArrayLike, Float, Scalar

__all__ = ["autocorrelation_time", "autocovariance", "initial_monotone_time", "mean_autocovariance"]


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


def mean_autocovariance(chains: Any, numpy: Any = np) -> Any:
    """The autocovariances of `(..., chains, n)`, each chain about its own mean, averaged over the chains.

    The spectra are averaged before the one way back. `numpy` is the module that computes.
    """
    n = chains.shape[-1]
    length = _transform_length(n)
    spectrum = numpy.fft.rfft(chains - chains.mean(-1, keepdims=True), length)
    power = (spectrum.real**2 + spectrum.imag**2).mean(-2)
    return numpy.fft.irfft(power, length)[..., :n] / n


def initial_monotone_time(rho: Any, numpy: Any = np) -> Any:
    r"""$\tau$ from autocorrelations $\rho_0 = 1, \rho_1, \dots$ along the last axis; NaN where they are.

    The value may be zero or negative for anticorrelated draws: the caller sets the bound.
    """
    pairs_used = 2 * max((rho.shape[-1] - 1) // 2, 1)  # the last pair only ends the sum
    even, odd = rho[..., 0:pairs_used:2], rho[..., 1:pairs_used:2]
    pairs = even + odd
    alive = numpy.cumprod(pairs[..., :-1] > 0, -1)
    falling = (
        jax.lax.cummin(pairs, axis=pairs.ndim - 1) if numpy is jnp else np.minimum.accumulate(pairs, axis=-1)
    )
    end = numpy.take_along_axis(even, alive.sum(-1)[..., None], -1)[..., 0]
    return 2 * (alive * falling[..., :-1]).sum(-1) - 1 + numpy.maximum(end, 0.0)


@jax.jit
def _autocovariance(values: Array) -> Array:
    return mean_autocovariance(values[..., None, :], jnp)


@jax.jit
def _time(chains: Float[Array, "chains n"]) -> Scalar:
    covariance = mean_autocovariance(chains, jnp)
    still = covariance[0] <= 0
    rho = covariance / jnp.where(still, 1.0, covariance[0])
    # anticorrelated draws may be worth more than independent ones, but not without bound
    time = jnp.maximum(initial_monotone_time(rho, jnp), 1 / jnp.log10(chains.shape[1]))
    return jnp.where(still, 1.0, time)


def _transform_length(n: int) -> int:
    """No wrap-around, and a length that transforms like: 4, 5 or 6 times a power of two."""
    least = 2 * n - 1
    power = max(least.bit_length() - 3, 0)
    return min(c << p for p in (power, power + 1) for c in (4, 5, 6) if c << p >= least)
