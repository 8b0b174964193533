"""Series, discrete and continuous transforms against closed forms and NumPy."""

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra.numpy import arrays
from scipy import special

from tractable.core import fourier as f
from tractable.core.quadrature import fourier_integrals, mean_square, panels


def ramp(x):
    """Zero on the left half of the period, the identity on the right."""
    return np.where(x < 0, 0.0, x)


@pytest.fixture(scope="module")
def half_ramp():
    return f.fourier_series(ramp, 40, start=-np.pi, breaks=[0.0])


def test_half_ramp_real_coefficients(half_ramp):
    n = np.arange(1, 41)
    np.testing.assert_allclose(half_ramp.cosine[0] / 2, np.pi / 4, atol=1e-12)
    np.testing.assert_allclose(half_ramp.cosine[1:], ((-1.0) ** n - 1) / (np.pi * n**2), atol=1e-12)
    np.testing.assert_allclose(half_ramp.sine[1:], (-1.0) ** (n + 1) / n, atol=1e-12)
    np.testing.assert_allclose(
        [half_ramp.cosine[1], half_ramp.cosine[3]], [-0.6366198, -0.0707355], atol=5e-8
    )
    assert half_ramp.sine[0] == 0.0


def test_half_ramp_complex_coefficients(half_ramp):
    c = np.asarray(half_ramp.complex_coefficients())[40:]
    np.testing.assert_allclose(c[0], np.pi / 4, atol=1e-12)
    np.testing.assert_allclose(c[1:4], [-0.3183099 - 0.5j, 0.25j, -0.0353678 - 0.1666667j], atol=5e-8)
    n = np.arange(1, 41)
    np.testing.assert_allclose(
        c[1:], 1j * (-1.0) ** n / (2 * n) - (1 - (-1.0) ** n) / (2 * np.pi * n**2), atol=1e-12
    )
    negative = np.asarray(half_ramp.complex_coefficients())[39::-1]
    np.testing.assert_allclose(negative, c[1:].conj(), atol=1e-14)


def test_half_ramp_meets_the_middle_of_its_jump(half_ramp):
    """At the jump the series goes to pi/2; after order N the tail of (2/pi) sum 1/n^2 over odd n is left."""
    n = np.arange(41, 200_001, 2)
    tail = (2 / np.pi) * ((1.0 / n**2).sum() + 1 / (2 * 200_001))
    np.testing.assert_allclose(float(half_ramp(np.pi)) + tail, np.pi / 2, atol=1e-9)
    np.testing.assert_allclose(half_ramp(-np.pi), half_ramp(np.pi), atol=1e-12)


def test_half_ramp_parseval(half_ramp):
    energy = mean_square(ramp, -np.pi, np.pi, [0.0])
    np.testing.assert_allclose(energy, np.pi**2 / 6, rtol=1e-12)
    a, b = np.asarray(half_ramp.cosine), np.asarray(half_ramp.sine)
    np.testing.assert_allclose(
        half_ramp.energy(), a[0] ** 2 / 4 + (a[1:] ** 2 + b[1:] ** 2).sum() / 2, rtol=1e-13
    )
    n = np.arange(41, 10**6, dtype=float)
    left_out = (1 / n**2).sum() / 2 + 1 / (2 * 10**6) + (2 / (np.pi**2 * n[::2] ** 4)).sum()
    np.testing.assert_allclose(float(half_ramp.energy()) + left_out, energy, atol=1e-9)


def test_error_norms_follow_from_parseval(half_ramp):
    error = f.series_error(half_ramp, ramp, -np.pi, breaks=[0.0])
    np.testing.assert_allclose(error.root_mean_square**2, np.pi**2 / 6 - float(half_ramp.energy()), rtol=1e-8)
    assert np.pi / 2 < error.largest + 0.2 < np.pi
    smooth = f.fourier_series(lambda x: np.exp(np.sin(x)), 20)
    assert f.series_error(smooth, lambda x: np.exp(np.sin(x))).largest < 1e-13


def test_smooth_functions_need_no_breaks():
    series = f.fourier_series(lambda x: np.exp(np.cos(x)), 12)
    np.testing.assert_allclose(series.cosine, 2 * special.iv(np.arange(13), 1.0), atol=1e-13)
    np.testing.assert_allclose(series.sine, 0.0, atol=1e-13)


@pytest.mark.parametrize("start", [0.0, -1.3, 5])
def test_any_period_and_start_give_the_same_series(start):
    period = 3.0

    def wave(x):
        return 2 + np.cos(2 * np.pi * x / period) - 0.5 * np.sin(2 * np.pi * 4 * x / period)

    for breaks in (None, [start + 1.0]):
        series = f.fourier_series(wave, 6, period, start, breaks=breaks)
        np.testing.assert_allclose(series.cosine, [4, 1, 0, 0, 0, 0, 0], atol=1e-12)
        np.testing.assert_allclose(series.sine, [0, 0, 0, 0, -0.5, 0, 0], atol=1e-12)
    samples = wave(start + period * np.arange(16) / 16)
    sampled = f.series_from_samples(samples, 6, period, start)
    np.testing.assert_allclose(sampled.cosine, [4, 1, 0, 0, 0, 0, 0], atol=1e-12)
    np.testing.assert_allclose(sampled(1.1), wave(1.1), rtol=1e-12)


def test_partial_sums_of_any_order(half_ramp):
    x = np.linspace(-3, 3, 7)
    a, b = np.asarray(half_ramp.cosine), np.asarray(half_ramp.sine)
    for order in (0, 3):
        expected = a[0] / 2 + sum(a[n] * np.cos(n * x) + b[n] * np.sin(n * x) for n in range(1, order + 1))
        np.testing.assert_allclose(half_ramp(x, order), expected, rtol=1e-12)
    assert half_ramp.order == 40


def test_complex_functions_and_conversion_both_ways():
    series = f.fourier_series(lambda x: np.exp(1j * x) + 3j * np.exp(-2j * x), 3)
    np.testing.assert_allclose(series.complex_coefficients(), [0, 3j, 0, 0, 1, 0, 0], atol=1e-13)
    np.testing.assert_allclose(series(0.7), np.exp(0.7j) + 3j * np.exp(-1.4j), rtol=1e-12)
    again = f.series_from_complex(series.complex_coefficients())
    np.testing.assert_allclose(again.cosine, series.cosine, atol=1e-15)
    np.testing.assert_allclose(again.sine, series.sine, atol=1e-15)


@given(arrays(float, 5, elements=st.floats(-5, 5)), arrays(float, 5, elements=st.floats(-5, 5)))
def test_real_and_complex_coefficients_convert_exactly(a, b):
    b[0] = 0.0
    series = f.FourierSeries(jnp.asarray(a), jnp.asarray(b), jnp.asarray(2.0))
    back = f.series_from_complex(series.complex_coefficients(), 2.0, real=True)
    np.testing.assert_allclose(back.cosine, a, atol=1e-14)
    np.testing.assert_allclose(back.sine, b, atol=1e-14)


def test_functions_with_hidden_jumps_are_refused():
    with pytest.raises(ValueError, match=r"`function` must be smooth as a periodic function.*`breaks`"):
        f.fourier_series(ramp, 3, start=-np.pi)
    with pytest.raises(ValueError, match="`breaks` must be given; got integrals that still change"):
        f.fourier_series(lambda x: np.where(x < 0.3, 0.0, 1.0), 3, start=-np.pi, breaks=[])


@pytest.mark.parametrize(
    ("power", "finite"), [(0.0, True), (0.25, True), (0.45, True), (0.5, False), (0.75, False), (1, False)]
)
def test_square_integrability(power, finite):
    def singular(x):
        return np.abs(x) ** -power

    assert f.is_square_integrable(singular, start=-np.pi, breaks=[0.0]) is finite
    if finite:
        expected = np.pi ** (-2 * power) / (1 - 2 * power)
        np.testing.assert_allclose(mean_square(singular, -np.pi, np.pi, [0.0]), expected, rtol=1e-9)


def test_a_singular_point_that_is_not_named_is_found_or_refused():
    assert not f.is_square_integrable(lambda x: 1 / x, start=-np.pi)
    with pytest.raises(ValueError, match="`breaks` must be given; got a mean square that does not settle"):
        mean_square(lambda x: 1 / (x - 0.3), -np.pi, np.pi)


def test_dft_is_a_change_of_basis():
    matrix = np.asarray(f.dft_matrix(12))
    np.testing.assert_allclose(matrix.conj().T @ matrix, 12 * np.eye(12), atol=1e-12)
    np.testing.assert_allclose(matrix, np.fft.fft(np.eye(12)), atol=1e-13)
    x = np.random.default_rng(0).normal(size=12)
    np.testing.assert_allclose(f.dft(x), np.fft.fft(x), atol=1e-12)
    np.testing.assert_allclose(f.inverse_dft(f.dft(x)), x, atol=1e-13)


@pytest.mark.parametrize("size", [1, 2, 8, 1024])
def test_fft_matches_numpy_and_inverts(size):
    rng = np.random.default_rng(size)
    x = rng.normal(size=size) + 1j * rng.normal(size=size)
    transform = jax.jit(f.fft)(x)
    np.testing.assert_allclose(transform, np.fft.fft(x), atol=1e-14 * size)
    np.testing.assert_allclose(jax.jit(f.inverse_fft)(transform), x, atol=1e-14 * np.log2(size + 1) + 1e-15)
    if size == 8:
        np.testing.assert_allclose(transform, f.dft(x), atol=1e-13)


def test_fft_keeps_single_precision_and_differentiates():
    assert f.fft(np.ones(8, np.float32)).dtype == np.complex64
    slope = jax.grad(lambda x: jnp.abs(f.fft(x)[1]) ** 2)(jnp.arange(8.0))
    expected = jax.grad(lambda x: jnp.abs(jnp.fft.fft(x)[1]) ** 2)(jnp.arange(8.0))
    np.testing.assert_allclose(slope, expected, atol=1e-12)


@pytest.mark.parametrize("size", [64, 65])
def test_spectrum_finds_amplitudes_and_phases(size):
    spacing = 0.25
    t = spacing * np.arange(size)
    nu = np.array([3, 10]) / (size * spacing)
    x = 1.5 + 2.0 * np.cos(2 * np.pi * nu[0] * t + 0.7) + 0.3 * np.cos(2 * np.pi * nu[1] * t - 1.1)
    found = f.spectrum(x, spacing)
    np.testing.assert_allclose(np.asarray(found.frequency)[[3, 10]], nu, rtol=1e-14)
    np.testing.assert_allclose(np.asarray(found.amplitude)[[0, 3, 10]], [1.5, 2.0, 0.3], rtol=1e-12)
    np.testing.assert_allclose(np.asarray(found.phase)[[3, 10]], [0.7, -1.1], rtol=1e-11)
    others = np.delete(np.asarray(found.amplitude), [0, 3, 10])
    assert others.max() < 1e-13
    if size == 64:
        highest = f.spectrum((-1.0) ** np.arange(64), spacing)
        np.testing.assert_allclose(highest.amplitude[-1], 1.0, rtol=1e-14)


def test_transform_of_the_unit_pulse():
    omega = np.array([2.0, 0.0, -7.5, 40.0])
    pulse = f.fourier_transform(np.ones_like, omega, -0.5, 0.5)
    np.testing.assert_allclose(pulse, np.sinc(omega / (2 * np.pi)), atol=1e-13)
    np.testing.assert_allclose(pulse[0], 0.8414709848, atol=5e-11)
    ordinary = f.fourier_transform(np.ones_like, omega / (2 * np.pi), -0.5, 0.5, convention="ordinary")
    np.testing.assert_allclose(ordinary, pulse, atol=1e-13)


def bell(t):
    return np.exp(-(t**2) / 2)


def test_transform_and_inverse_in_both_conventions():
    omega = np.array([0.0, 1.3, -2.0])
    transform = f.fourier_transform(bell, omega, -12, 12)
    np.testing.assert_allclose(transform, np.sqrt(2 * np.pi) * bell(omega), atol=1e-12)
    t = np.array([[0.0, 0.5], [1.0, -2.0]])
    back = f.inverse_fourier_transform(lambda w: np.sqrt(2 * np.pi) * bell(w), t, -12, 12)
    np.testing.assert_allclose(back, bell(t), atol=1e-12)
    ordinary = f.inverse_fourier_transform(
        lambda v: np.sqrt(2 * np.pi) * bell(2 * np.pi * v), t, -2, 2, convention="ordinary"
    )
    np.testing.assert_allclose(ordinary, bell(t), atol=1e-12)


def test_a_shift_in_time_turns_the_phase():
    omega = np.array([0.5, 2.0])
    shifted = f.fourier_transform(lambda t: bell(t - 1.5), omega, -11, 14)
    np.testing.assert_allclose(shifted, np.exp(-1.5j * omega) * np.sqrt(2 * np.pi) * bell(omega), atol=1e-12)


@pytest.mark.parametrize("convention", ["angular", "ordinary"])
def test_sampled_transform_of_a_bell(convention):
    spacing, start, size = 0.1, -12.8, 256
    t = start + spacing * np.arange(size)
    frequency, values = f.sampled_fourier_transform(bell(t), spacing, start, convention)
    omega = np.asarray(frequency) * (1.0 if convention == "angular" else 2 * np.pi)
    np.testing.assert_allclose(values, np.sqrt(2 * np.pi) * bell(omega), atol=1e-12)
    assert (np.diff(frequency) > 0).all()
    np.testing.assert_allclose(
        f.inverse_sampled_fourier_transform(values, spacing, start), bell(t), atol=1e-13
    )


def test_rapid_oscillation_is_resolved():
    rates = np.array([1e4])
    value = fourier_integrals(np.ones_like, rates, 0.0, 1.0)
    np.testing.assert_allclose(value, (1 - np.exp(-1e4j)) / 1e4j, atol=1e-12)


def test_panels_are_cut_at_the_breaks():
    np.testing.assert_allclose(panels(0.0, 4.0, [1.0, 9.0, 1.0], 2), [0, 0.5, 1, 2.5, 4])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: f.fft(np.ones(6)),
            "`x` must be of a length that is a power of two; got 6. Pad it with zeros",
        ),
        (lambda: f.fft(np.ones((2, 2))), r"`x` must be a vector; got shape \(2, 2\)"),
        (lambda: f.fourier_series(np.cos, -1), "`order` must be a whole number of at least 0; got -1"),
        (lambda: f.fourier_series(np.cos, 3, period=-1.0), "`period` must be positive"),
        (lambda: f.fourier_series(lambda x: x[:2], 3), "`function` must be of one value per point"),
        (
            lambda: f.fourier_series(lambda x: 0 * x + np.inf, 3),
            "`function` must be finite between its break points; got inf",
        ),
        (lambda: f.series_from_samples(np.ones(6), 3), "`order` must be a whole number from 0 to 2; got 3"),
        (lambda: f.series_from_complex(np.ones(4)), r"`coefficients` must be 2N \+ 1 numbers"),
        (lambda: f.fourier_transform(bell, 1.0, 1, -1), "`high` must be larger than `low` = 1; got -1"),
        (
            lambda: f.fourier_transform(bell, 1.0, -1, 1, convention="hertz"),
            "`convention` must be one of 'angular', 'ordinary'",
        ),
        (lambda: f.spectrum(np.ones(4) * 1j), "`x` must be a real vector"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_causal_convolution_is_the_double_sum():
    rng = np.random.default_rng(3)
    for length in (1, 2, 7, 64):
        kernel, x = rng.normal(size=(2, 3, length))
        wanted = np.stack([np.convolve(k, row)[:length] for k, row in zip(kernel, x)])
        np.testing.assert_allclose(
            f.causal_convolution(jnp.asarray(kernel), jnp.asarray(x)), wanted, atol=1e-13
        )
    with pytest.raises(ValueError, match="`kernel` must be as long as `x` \\(4\\), and not empty; got 3"):
        f.causal_convolution(jnp.ones(3), jnp.ones(4))
