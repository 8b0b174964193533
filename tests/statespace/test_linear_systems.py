"""Linear systems: worked numbers, discretisations, responses, reach and stability."""

import numpy as np
import pytest
import scipy.signal
from scipy.integrate import quad_vec
from scipy.linalg import expm

from tractable.statespace.linear_systems.discretise import discretise, discretise_noise, sampled_system
from tractable.statespace.linear_systems.system import LinearSystem, mass_spring_damper

SPRING = mass_spring_damper(1.0, 0.5, 2.0)


def test_the_worked_mass_spring_damper():
    values = np.sort_complex(SPRING.stability().eigenvalues)
    np.testing.assert_allclose(values, [-0.25 - 1.3919411j, -0.25 + 1.3919411j], atol=5e-8)
    held = discretise(SPRING, 0.1)
    np.testing.assert_allclose(held.A, [[0.99018093, 0.09721635], [-0.1944327, 0.94157275]], atol=5e-9)


@pytest.mark.parametrize(
    ("method", "a", "b"),
    [("euler", 0.9, 0.1), ("bilinear", 0.9047619, 0.0952381), ("zoh", 0.9048374, 0.0951626)],
)
@pytest.mark.cheap
def test_the_worked_discretisations(method, a, b):
    found = discretise(LinearSystem([[-1.0]], [[1.0]]), 0.1, method)
    assert (float(found.A[0, 0]), float(found.B[0, 0])) == pytest.approx((a, b), abs=5e-8)
    matrices = (SPRING.A, SPRING.B, SPRING.C, SPRING.D)
    A, B, *_ = scipy.signal.cont2discrete(matrices, 0.3, method)
    mine = discretise(SPRING, 0.3, method)
    np.testing.assert_allclose(mine.A, A, atol=1e-12)
    np.testing.assert_allclose(mine.B, B, atol=1e-12)


def test_a_hold_is_exact_for_singular_systems():
    held = discretise(LinearSystem([[0.0, 1.0], [0.0, 0.0]], [[0.0], [1.0]]), 0.5)
    np.testing.assert_allclose(held.A, [[1, 0.5], [0, 1]])
    np.testing.assert_allclose(held.B[:, 0], [0.125, 0.5])


@pytest.mark.parametrize("gap", [0.01, 1.0, 80.0])
@pytest.mark.cheap
def test_noise_between_readings_is_the_integral(gap):
    A, L = np.array([[0.0, 1.0], [-2.0, -0.5]]), np.diag([0.0, 0.7])
    move, cov = discretise_noise(A, L, gap)
    integral, _ = quad_vec(lambda s: expm(A * s) @ L @ expm(A * s).T, 0, gap, epsrel=1e-11, epsabs=1e-15)
    np.testing.assert_allclose(move, expm(A * gap), atol=1e-12)
    np.testing.assert_allclose(cov, integral, rtol=1e-8, atol=1e-12)


def test_readings_at_any_times_are_an_ornstein_uhlenbeck_process():
    times = np.array([0.0, 0.3, 0.3, 2.0, 2.1])
    ys = np.array([0.2, -0.1, 0.4, 1.0, 0.7])
    system = sampled_system(times, [[-1.0]], [[2.0]], [[1.0]], [[0.1]], [0.0], [[1.0]])
    cov = np.exp(-np.abs(times[:, None] - times)) + 0.1 * np.eye(5)
    dense = -0.5 * (ys @ np.linalg.solve(cov, ys) + np.linalg.slogdet(2 * np.pi * cov)[1])
    assert float(system.log_likelihood(ys)) == pytest.approx(dense, rel=1e-12)


def test_simulation_converges_at_the_order_of_each_method():
    start, end = np.array([1.0, 0.0]), 2.0
    exact = expm(SPRING.A * end) @ start
    for method, order in (("euler", 1), ("rk4", 4)):
        errors = [
            np.abs(
                SPRING.simulate(start=start, times=np.linspace(0, end, n + 1), method=method).states[-1]
                - exact
            ).max()
            for n in (64, 128)
        ]
        assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.15)
    uneven = SPRING.simulate(start=start, times=[0.0, 0.1, 0.7, end])
    np.testing.assert_allclose(uneven.states[-1], exact, atol=1e-13)


def test_responses_are_those_of_scipy_and_of_convolution():
    times = np.linspace(0, 5, 51)
    matrices = (SPRING.A, SPRING.B, SPRING.C, SPRING.D)
    np.testing.assert_allclose(
        SPRING.impulse_response(times)[:, 0, 0], scipy.signal.impulse(matrices, T=times)[1], atol=1e-9
    )
    np.testing.assert_allclose(
        SPRING.step_response(times)[:, 0, 0], scipy.signal.step(matrices, T=times)[1], atol=1e-9
    )
    rng = np.random.default_rng(0)
    discrete = LinearSystem(
        discretise(SPRING, 0.2).A,
        rng.normal(size=(2, 3)),
        rng.normal(size=(2, 2)),
        rng.normal(size=(2, 3)),
        0.2,
    )
    u = rng.normal(size=(40, 3))
    np.testing.assert_allclose(discrete.convolve(u), discrete.simulate(u).outputs, atol=1e-12)
    np.testing.assert_allclose(discrete.step_response(4)[3], discrete.impulse_response(4).sum(0))


@pytest.mark.parametrize(
    ("A", "step", "kind"),
    [
        ([[-1.0]], None, "asymptotic"),
        ([[0.0, 1.0], [-1.0, 0.0]], None, "marginal"),
        ([[0.0, 1.0], [0.0, 0.0]], None, "unstable"),
        ([[0.0, 0.0], [0.0, 0.0]], None, "marginal"),
        ([[0.1]], None, "unstable"),
        ([[0.9]], 1.0, "asymptotic"),
        ([[1.0, 0.0], [0.0, -1.0]], 1.0, "marginal"),
        ([[1.0, 1.0], [0.0, 1.0]], 1.0, "unstable"),
        ([[-1.1]], 1.0, "unstable"),
    ],
)
@pytest.mark.cheap
def test_stability(A, step, kind):
    assert LinearSystem(A, step=step).stability().kind == kind


def test_reach_and_gramians():
    assert np.linalg.matrix_rank(SPRING.controllability()) == 2
    assert np.linalg.matrix_rank(SPRING.observability()) == 2
    assert SPRING.is_controllable()
    assert SPRING.is_observable()
    apart = LinearSystem(np.diag([-1.0, -2.0]), [[1.0], [0.0]], [[0.0, 1.0]])
    assert not apart.is_controllable()
    assert not apart.is_observable()
    W = SPRING.gramian()
    integral, _ = quad_vec(lambda s: (v := expm(SPRING.A * s) @ SPRING.B) @ v.T, 0, 120, epsrel=1e-10)
    np.testing.assert_allclose(W, integral, atol=1e-9)
    discrete = discretise(SPRING, 0.5)
    kernel = discrete.impulse_response(400)[1:, 0, 0]
    assert discrete.C @ discrete.gramian() @ discrete.C.T == pytest.approx((kernel**2).sum())
    np.testing.assert_allclose(
        (discrete.B.T @ discrete.gramian("observability") @ discrete.B)[0, 0], (kernel**2).sum()
    )


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="`A` must be a square matrix"):
        LinearSystem(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="`B` must be of 2 rows"):
        LinearSystem(np.eye(2), np.zeros((3, 1)))
    with pytest.raises(ValueError, match="`times` must be given"):
        SPRING.simulate(start=[1.0, 0.0])
    with pytest.raises(ValueError, match="`A` must be asymptotically stable"):
        LinearSystem([[0.0]], [[1.0]]).gramian()
    with pytest.raises(ValueError, match="`system` must be continuous"):
        discretise(discretise(SPRING, 0.1), 0.1)
    with pytest.raises(ValueError, match="`times` must be sorted"):
        sampled_system([1.0, 0.0], [[-1.0]], [[2.0]], [[1.0]], [[0.1]], [0.0], [[1.0]])
