"""HiPPO-LegS against its printed matrix and against projections by quadrature."""

import numpy as np
import pytest
from scipy.special import eval_legendre

from tractable.neural.hippo import hippo_legs, legendre_memory, legendre_reconstruction, legs_frequencies


def projected(samples, order):
    """The coefficients of a function that is constant on equal pieces, by Gauss-Legendre in each."""
    nodes, weights = np.polynomial.legendre.leggauss(order + 1)
    found = np.zeros(order)
    for k, value in enumerate(samples):
        points = (k + 0.5 + nodes / 2) / len(samples)
        for n in range(order):
            shape = np.sqrt(2 * n + 1) * eval_legendre(n, 2 * points - 1)
            found[n] += value * (weights * shape).sum() / 2 / len(samples)
    return found


def test_the_matrix_is_the_printed_one_and_stable():
    system = hippo_legs(4)
    np.testing.assert_allclose(np.diag(system.A), [-1, -2, -3, -4])
    wanted = [
        [1, 0, 0, 0],
        [1.7320508, 2, 0, 0],
        [2.2360680, 3.8729833, 3, 0],
        [2.6457513, 4.5825757, 5.9160798, 4],
    ]
    np.testing.assert_allclose(system.A, -np.array(wanted), atol=5e-8)
    np.testing.assert_allclose(system.B[:, 0], np.sqrt([1, 3, 5, 7]))
    np.testing.assert_allclose(
        np.sort(hippo_legs(12).stability().eigenvalues.real), -np.arange(12, 0, -1), atol=1e-6
    )
    assert system.stability().kind == "asymptotic"


def test_the_memory_is_the_projection_at_every_time():
    samples = np.random.default_rng(0).normal(size=23)
    memory = legendre_memory(samples, 8)
    for k in (0, 1, 9, 22):
        np.testing.assert_allclose(memory[k], projected(samples[: k + 1], 8), atol=1e-11)
    # the bilinear rule tends to the same with the number of readings
    smooth = [np.sin(4 * (np.arange(n) + 0.5) / n) for n in (50, 200)]
    gaps = [np.abs(legendre_memory(s, 6, method="bilinear")[-1] - projected(s, 6)).max() for s in smooth]
    assert gaps[1] < gaps[0] / 3 < 0.02


def test_a_smooth_function_is_remembered_from_a_few_numbers():
    places = (np.arange(200) + 0.5) / 200
    path = np.sin(6 * places) + places**2
    found = legendre_reconstruction(legendre_memory(path, 12)[-1], places)
    assert np.abs(found - path).max() < 0.01  # half a step of the pieces, whose slope is up to eight
    fewer = legendre_reconstruction(legendre_memory(path, 3)[-1], places)
    assert np.abs(fewer - path).max() > 0.2


def test_frequencies_are_eigenvalues_of_the_normal_part():
    system = hippo_legs(10)
    values = np.linalg.eigvals(system.A + 0.5 * system.B @ system.B.T)
    np.testing.assert_allclose(values.real, -0.5, atol=1e-9)
    np.testing.assert_allclose(np.sort(values.imag)[5:], legs_frequencies(5), rtol=1e-10)


def test_slips_are_named():
    with pytest.raises(ValueError, match="`samples` must be finite; got nan at index 1"):
        legendre_memory([1.0, np.nan], 3)
    with pytest.raises(ValueError, match="`samples` must be a list of numbers"):
        legendre_memory([], 3)
    with pytest.raises(ValueError, match="`order` must be a whole number of at least 1"):
        hippo_legs(0)
    with pytest.raises(ValueError, match="`points` must be from 0 to 1"):
        legendre_reconstruction([1.0], [0.5, 1.5])
