r"""Fourier analysis: series of periodic functions, the discrete transform, and the continuous transform.

Series.      $f(x) = \frac{a_0}{2} + \sum_{n \ge 1} a_n \cos(n w x) + b_n \sin(n w x)$ with $w = 2\pi/T$,
             $a_n = \frac{2}{T}\int f(x) \cos(n w x)\,dx$, $b_n = \frac{2}{T}\int f(x) \sin(n w x)\,dx$;
             $f(x) = \sum_n c_n e^{i n w x}$ with $c_n = (a_n - i b_n)/2$ and $c_{-n} = (a_n + i b_n)/2$.
Parseval.    $\frac{1}{T}\int |f|^2 = \sum_n |c_n|^2 = a_0^2/4 + \frac12\sum_n (a_n^2 + b_n^2)$ (the last for
             real $f$).
Discrete.    $X_k = \sum_n x_n e^{-2\pi i k n/N}$: a change of basis, $X = F x$ with $F^H F = N I$.
Continuous.  $\hat f(\omega) = \int f(t)\,e^{-i\omega t}\,dt$ (angular frequency), whose inverse has a factor
             $1/2\pi$; or $\hat f(\nu) = \int f(t)\,e^{-2\pi i\nu t}\,dt$ (ordinary frequency), without one.
Cost.        $O(N \log N)$ for `fft`; the quadrature for a series.
References.  Cooley and Tukey (1965); Trefethen and Weideman (2014) for the trapezoidal rule.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check, check_count, check_option, is_concrete
from tractable.core.module import Module
from tractable.core.quadrature import evaluate, fourier_integrals, mean_square, periodic_coefficients
from tractable.core.types import Array, ArrayLike, Scalar

__all__ = [
    "FourierSeries", "SeriesError", "Spectrum", "causal_convolution", "dft", "dft_matrix", "fft",
    "fourier_series", "fourier_transform", "inverse_dft", "inverse_fft", "inverse_fourier_transform",
    "inverse_sampled_fourier_transform", "is_square_integrable", "sampled_fourier_transform", "series_error",
    "series_from_complex", "series_from_samples", "spectrum",
]  # fmt: skip

Function = Callable[[Any], Any]
Number = float | int


class FourierSeries(Module):
    r"""A partial sum; `cosine` holds $a_0, \dots, a_N$ and `sine` holds $b_0 = 0, b_1, \dots, b_N$."""

    cosine: Array
    sine: Array
    period: Scalar

    @property
    def order(self) -> int:
        return self.cosine.shape[0] - 1

    def __call__(self, x: ArrayLike, order: int | None = None) -> Array:
        """The partial sum at `x`, of the whole order or a smaller one."""
        order = self.order if order is None else check_count("order", order, least=0, most=self.order)
        return _partial_sum(self, jnp.asarray(x), order)

    @jax.jit
    def complex_coefficients(self) -> Array:
        r"""$c_{-N}, \dots, c_N$; the entry of $c_n$ is $N + n$."""
        positive = (self.cosine - 1j * self.sine) / 2
        negative = (self.cosine + 1j * self.sine) / 2
        return jnp.concatenate([negative[:0:-1], positive])

    @jax.jit
    def energy(self) -> Scalar:
        r"""$\sum_n |c_n|^2$: by Parseval, the mean square of the function but for the orders left out."""
        return (jnp.abs(self.complex_coefficients()) ** 2).sum()


class SeriesError(NamedTuple):
    """How far a partial sum is from its function, over one period."""

    root_mean_square: float
    largest: float


class Spectrum(NamedTuple):
    r"""Waves $A \cos(2\pi\nu t + \phi)$ that add up to a signal, with $t = 0$ at its first sample."""

    frequency: Array
    amplitude: Array
    phase: Array


def fourier_series(
    function: Function,
    order: int,
    period: Number = 2 * math.pi,
    start: Number = 0.0,
    *,
    breaks: Sequence[Number] | None = None,
    tol: Number = 1e-12,
) -> FourierSeries:
    """The series of a function of one period, given on `[start, start + period]`.

    Without `breaks` the periodic continuation must be smooth: the trapezoidal rule then converges faster than
    any power, and a function for which it does not is refused. With `breaks` (an empty list if the only jump
    is at the ends), it needs to be smooth in between only. `function` takes an array of points.
    """
    order = check_count("order", order, least=0)
    check(period > 0, "period", "positive", period)
    numbers = np.arange(-order, order + 1)
    if breaks is None:
        coefficients = periodic_coefficients(function, numbers, period, start, tol)
    else:
        rates = 2 * np.pi * numbers / period
        coefficients = fourier_integrals(function, rates, start, start + period, breaks, tol) / period
    is_real = not np.iscomplexobj(np.asarray(function(np.array([start + period / 3]))))
    return series_from_complex(coefficients, period, real=is_real)


def series_from_complex(
    coefficients: ArrayLike, period: Number = 2 * math.pi, *, real: bool = False
) -> FourierSeries:
    r"""The series with $c_{-N}, \dots, c_N$: $a_n = c_n + c_{-n}$ and $b_n = i(c_n - c_{-n})$.

    With `real`, what rounding leaves in the imaginary parts of $a_n$ and $b_n$ is dropped.
    """
    c: Any = (np if is_concrete(coefficients) else jnp).asarray(coefficients)
    check(c.ndim == 1 and len(c) % 2 == 1, "coefficients", "2N + 1 numbers c_-N to c_N", f"shape {c.shape}")
    order = len(c) // 2
    positive, negative = c[order:], c[order::-1]
    cosine, sine = positive + negative, 1j * (positive - negative)
    a, b = (cosine.real, sine.real) if real else (cosine, sine)
    return FourierSeries(jnp.asarray(a), jnp.asarray(b), jnp.asarray(float(period)))


def series_from_samples(
    samples: ArrayLike, order: int, period: Number = 2 * math.pi, start: Number = 0.0
) -> FourierSeries:
    """The series of samples at equal steps over one period, its end left out; `order` is below half."""
    samples = jnp.asarray(samples)
    check(samples.ndim == 1 and samples.shape[0] > 0, "samples", "a vector", f"shape {samples.shape}")
    order = check_count("order", order, least=0, most=(samples.shape[0] - 1) // 2)
    numbers = np.arange(-order, order + 1)
    shift = jnp.exp(-2j * jnp.pi * jnp.asarray(numbers) * start / period)
    coefficients = jnp.fft.fft(samples)[numbers] / samples.shape[0] * shift
    return series_from_complex(coefficients, period, real=not jnp.iscomplexobj(samples))


def series_error(
    series: FourierSeries, function: Function, start: Number = 0.0, *, breaks: Sequence[Number] = ()
) -> SeriesError:
    """The root mean square of the error over one period, and its largest value on a grid of 4096 points."""
    period = float(series.period)

    def error(points):
        return np.asarray(function(points)) - np.asarray(series(points))

    squared = mean_square(error, start, start + period, breaks, floor=1e-26 * float(series.energy()))
    grid = start + period * (np.arange(4096) + 0.5) / 4096
    return SeriesError(math.sqrt(squared), float(np.abs(evaluate(error, grid)).max()))


def is_square_integrable(
    function: Function, period: Number = 2 * math.pi, start: Number = 0.0, *, breaks: Sequence[Number] = ()
) -> bool:
    r"""Whether $\int |f|^2$ over one period is finite (`mean_square`); list singular points in `breaks`."""
    return math.isfinite(mean_square(function, start, start + period, breaks))


def dft_matrix(size: int) -> Array:
    r"""$F_{kn} = e^{-2\pi i k n/N}$, with $F^H F = N I$: the change from samples to frequencies."""
    numbers = np.arange(check_count("size", size))
    return jnp.exp(-2j * jnp.pi * jnp.asarray(np.outer(numbers, numbers) % size) / size)


def dft(x: ArrayLike) -> Array:
    r"""$X = F x$, for any length, in $O(N^2)$."""
    x = jnp.asarray(x)
    return dft_matrix(x.shape[0]) @ x


def inverse_dft(transform: ArrayLike) -> Array:
    r"""$x = F^H X / N$."""
    transform = jnp.asarray(transform)
    return dft_matrix(transform.shape[0]).conj() @ transform / transform.shape[0]


def fft(x: ArrayLike) -> Array:
    r"""The discrete transform by radix 2, $O(N \log N)$, for lengths that are powers of two.

    Each stage joins transforms of even and odd entries: $X_k = E_k + e^{-2\pi i k/N} O_k$ and
    $X_{k+N/2} = E_k - e^{-2\pi i k/N} O_k$. `jax.numpy.fft.fft` is faster and takes any length.
    """
    x = jnp.asarray(x)
    check(x.ndim == 1, "x", "a vector", f"shape {x.shape}")
    size = x.shape[0]
    fix = "Pad it with zeros."
    check(size > 0 and size & (size - 1) == 0, "x", "of a length that is a power of two", size, fix)
    return _radix_two(x)


def inverse_fft(transform: ArrayLike) -> Array:
    r"""The inverse of `fft`: the transform of the conjugate, conjugated, over $N$."""
    transform = jnp.asarray(transform)
    return fft(transform.conj()).conj() / transform.shape[0]


def causal_convolution(kernel: Array, x: Array) -> Array:
    r"""$y_t = \sum_{s \le t} k_{t-s} x_s$ along the last axis, in $O(n \log n)$: a product of transforms.

    Both are as long as the sum is asked for. Zeros behind them keep the end from coming round to the
    beginning; rounding is relative to the largest output, not to each one.

    >>> causal_convolution(jnp.array([1.0, 0.5, 0.25]), jnp.array([1.0, 0.0, 2.0])).round(12).tolist()
    [1.0, 0.5, 2.25]
    """
    length = x.shape[-1]
    fits = kernel.shape[-1] == length and length > 0
    check(fits, "kernel", f"as long as `x` ({length}), and not empty", kernel.shape[-1])
    # a power of two, beyond which rotations of both would overlap
    size = 1 << (2 * length - 1).bit_length()
    product = jnp.fft.rfft(kernel, size) * jnp.fft.rfft(x, size)
    return jnp.fft.irfft(product, size)[..., :length]


def spectrum(x: ArrayLike, spacing: Number = 1.0) -> Spectrum:
    """The waves in a real signal with samples `spacing` apart; frequencies in cycles per unit, from zero."""
    x = jnp.asarray(x)
    check(x.ndim == 1 and not jnp.iscomplexobj(x), "x", "a real vector", f"{x.dtype} of shape {x.shape}")
    size = x.shape[0]
    transform = jnp.fft.rfft(x)
    numbers = np.arange(transform.shape[0])
    single = (numbers == 0) | (2 * numbers == size)  # the mean and the highest frequency have no mirror image
    amplitude = jnp.abs(transform) * jnp.asarray(np.where(single, 1.0, 2.0)) / size
    return Spectrum(jnp.asarray(numbers / (size * spacing)), amplitude, jnp.angle(transform))


def fourier_transform(
    function: Function,
    frequency: ArrayLike,
    low: Number,
    high: Number,
    *,
    breaks: Sequence[Number] = (),
    convention: str = "angular",
    tol: Number = 1e-12,
) -> np.ndarray:
    r"""$\int f(t)\,e^{-i\omega t}\,dt$ by quadrature over `[low, high]`, outside which $f$ is taken as zero.

    `convention` is "angular" ($\omega$) or "ordinary" ($\nu = \omega/2\pi$).
    """
    rates = np.asarray(frequency, float) * _angular(convention)
    return fourier_integrals(function, rates.ravel(), low, high, breaks, tol).reshape(rates.shape)


def inverse_fourier_transform(
    transform: Function,
    time: ArrayLike,
    low: Number,
    high: Number,
    *,
    breaks: Sequence[Number] = (),
    convention: str = "angular",
    tol: Number = 1e-12,
) -> np.ndarray:
    r"""$\frac{1}{2\pi}\int \hat f(\omega) e^{i\omega t} d\omega$, or $\int \hat f(\nu) e^{2\pi i\nu t} d\nu$.

    The integral runs over `[low, high]`; beyond, the transform is taken as zero.
    """
    scale = _angular(convention)
    rates = -np.asarray(time, float) * scale
    integrals = fourier_integrals(transform, rates.ravel(), low, high, breaks, tol).reshape(rates.shape)
    return integrals * scale / (2 * np.pi)


def sampled_fourier_transform(
    samples: ArrayLike, spacing: Number, start: Number = 0.0, convention: str = "angular"
) -> tuple[Array, Array]:
    """Increasing frequencies and the transform there, from samples at `start`, `start + spacing`, ..."""
    samples = jnp.asarray(samples)
    ordinary = jnp.asarray(np.fft.fftshift(np.fft.fftfreq(samples.shape[0], spacing)))
    phase = jnp.exp(-2j * jnp.pi * ordinary * start)
    return ordinary * (2 * np.pi / _angular(convention)), spacing * phase * jnp.fft.fftshift(
        jnp.fft.fft(samples)
    )


def inverse_sampled_fourier_transform(transform: ArrayLike, spacing: Number, start: Number = 0.0) -> Array:
    """The samples from which `sampled_fourier_transform` made `transform` (the same in both conventions)."""
    transform = jnp.asarray(transform)
    ordinary = jnp.asarray(np.fft.fftshift(np.fft.fftfreq(transform.shape[0], spacing)))
    return jnp.fft.ifft(jnp.fft.ifftshift(transform * jnp.exp(2j * jnp.pi * ordinary * start))) / spacing


def _angular(convention: str) -> float:
    """Radians per unit of frequency."""
    check_option("convention", convention, ("angular", "ordinary"))
    return 1.0 if convention == "angular" else 2 * np.pi


@jax.jit
def _radix_two(x: Array) -> Array:
    table = x.reshape(1, -1).astype(jnp.result_type(x.dtype, jnp.complex64))
    while (rows := table.shape[0]) < x.shape[0]:
        even, odd = jnp.split(table, 2, axis=1)
        turned = odd * np.exp(-1j * np.pi * np.arange(rows) / rows)[:, None].astype(table.dtype)
        table = jnp.concatenate([even + turned, even - turned])
    return table[:, 0]


@partial(jax.jit, static_argnames="order")
def _partial_sum(series: FourierSeries, x: Array, order: int) -> Array:
    multiples = np.arange(1, order + 1).reshape((1,) * x.ndim + (-1,))
    phase = 2 * jnp.pi / series.period * x[..., None] * multiples
    waves = jnp.cos(phase) @ series.cosine[1 : order + 1] + jnp.sin(phase) @ series.sine[1 : order + 1]
    return series.cosine[0] / 2 + waves
