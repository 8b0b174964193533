"""The Fourier series of a half ramp: coefficients, partial sums, Parseval, and its transform by FFT."""

import numpy as np

from tractable.core.fourier import fft, fourier_series, fourier_transform, series_error
from tractable.core.quadrature import mean_square


def ramp(x):
    """Zero on the left half of [-pi, pi], the identity on the right half."""
    return np.where(x < 0, 0.0, x)


def main() -> None:
    series = fourier_series(ramp, 64, start=-np.pi, breaks=[0.0])
    n = np.arange(1, 65)
    print("mean", float(series.cosine[0] / 2), " a1", float(series.cosine[1]), " b1", float(series.sine[1]))
    assert np.allclose(series.cosine[1:], ((-1.0) ** n - 1) / (np.pi * n**2), atol=1e-9)
    assert np.allclose(series.sine[1:], (-1.0) ** (n + 1) / n, atol=1e-9)

    total = mean_square(ramp, -np.pi, np.pi, [0.0])
    error = series_error(series, ramp, -np.pi, breaks=[0.0])
    print(f"energy {total:.6f}, in 64 orders {float(series.energy()):.6f}, error {error}")
    assert np.isclose(total, np.pi**2 / 6)
    assert np.isclose(error.root_mean_square**2, total - float(series.energy()))

    at_jump = [float(series(np.pi, order)) for order in (1, 4, 16, 64)]
    print("at the jump:", at_jump, "towards", np.pi / 2)
    assert np.all(np.diff(at_jump) > 0)
    assert abs(at_jump[-1] - np.pi / 2) < 0.01

    samples = np.random.default_rng(0).normal(size=128)
    assert np.allclose(fft(samples), np.fft.fft(samples))

    pulse = fourier_transform(np.ones_like, np.array([2.0]), -0.5, 0.5)
    print("unit pulse at angular frequency 2:", pulse[0].real)
    assert np.isclose(pulse[0], np.sin(1.0))


if __name__ == "__main__":
    main()
