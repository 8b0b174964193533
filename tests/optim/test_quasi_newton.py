"""Newton, BFGS and L-BFGS: secant equations, dense oracles, SciPy, and the verdicts of `minimise`."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize, rosen, rosen_der

from tractable.core import Status
from tractable.core.iterate import count_traces
from tractable.optim import BFGS, LBFGS, GaussNewton, Newton, minimise
from tractable.optim.quasi_newton import History, inverse_update, two_loop


def rosenbrock(x):
    return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def pairs(m, n, seed=0):
    generator = np.random.default_rng(seed)
    curvature = generator.normal(size=(n, n))
    curvature = curvature @ curvature.T + np.eye(n)
    steps = generator.normal(size=(m, n))
    return steps, steps @ curvature


def dense_inverse(steps, changes, scale):
    """The unrolled recursion with full matrices, oldest pair first."""
    n = steps.shape[1]
    inverse = scale * np.eye(n)
    for s, y in zip(steps, changes, strict=True):
        rho = 1 / (y @ s)
        left = np.eye(n) - rho * np.outer(s, y)
        inverse = left @ inverse @ left.T + rho * np.outer(s, s)
    return inverse


def test_two_loop_equals_the_dense_product():
    steps, changes = pairs(5, 8)
    rho = 1 / np.einsum("mn,mn->m", steps, changes)
    gradient = np.random.default_rng(1).normal(size=8)
    history = History(jnp.asarray(steps), jnp.asarray(changes), jnp.asarray(rho), jnp.asarray(0.7))
    expected = dense_inverse(steps, changes, 0.7) @ gradient
    np.testing.assert_allclose(two_loop(history, jnp.asarray(gradient)), expected, rtol=1e-10)


def test_empty_slots_change_nothing():
    steps, changes = pairs(2, 6)
    rho = np.r_[np.zeros(3), 1 / np.einsum("mn,mn->m", steps, changes)]
    padded = [jnp.asarray(np.r_[np.zeros((3, 6)), a]) for a in (steps, changes)]
    gradient = jnp.arange(6.0)
    expected = dense_inverse(steps, changes, 1.0) @ np.arange(6.0)
    np.testing.assert_allclose(
        two_loop(History(*padded, jnp.asarray(rho), jnp.asarray(1.0)), gradient), expected, rtol=1e-10
    )


def test_update_satisfies_the_secant_equation_and_stays_positive_definite():
    steps, changes = pairs(1, 5)
    s, y = jnp.asarray(steps[0]), jnp.asarray(changes[0])
    updated = inverse_update(jnp.eye(5), s, y)
    np.testing.assert_allclose(updated @ y, s, rtol=1e-10)
    np.testing.assert_allclose(updated, updated.T, atol=1e-14)
    assert np.linalg.eigvalsh(updated).min() > 0


def test_update_is_the_least_change_in_the_weighted_norm():
    # minimise |W^(1/2) (H - H0) W^(1/2)|_F over symmetric H with H y = s, for a W with W s = y.
    generator = np.random.default_rng(3)
    n = 3
    weight = generator.normal(size=(n, n))
    weight = weight @ weight.T + np.eye(n)
    s = generator.normal(size=n)
    y = weight @ s
    start = np.eye(n)
    basis = [np.eye(n)[[i]].T @ np.eye(n)[[j]] for i in range(n) for j in range(i, n)]
    basis = [(b + b.T) / 2 for b in basis]
    values, vectors = np.linalg.eigh(weight)
    root = vectors * np.sqrt(values) @ vectors.T
    design = np.stack([(root @ b @ root).ravel() for b in basis], axis=1)
    target = (root @ start @ root).ravel()
    constraint = np.stack([b @ y for b in basis], axis=1)
    kkt = np.block([[design.T @ design, constraint.T], [constraint, np.zeros((n, n))]])
    solution = np.linalg.solve(kkt, np.r_[design.T @ target, s])[: len(basis)]
    expected = sum(c * b for c, b in zip(solution, basis, strict=True))
    np.testing.assert_allclose(
        inverse_update(jnp.asarray(start), jnp.asarray(s), jnp.asarray(y)), expected, atol=1e-9
    )


@pytest.mark.parametrize("method", [LBFGS(), BFGS(), Newton()], ids=lambda m: type(m).__name__)
def test_rosenbrock_meets_scipy(method):
    start = np.array([-1.2, 1.0, 1.0, 1.0])
    run = minimise(rosenbrock, start, method, max_steps=300)
    oracle = minimize(rosen, start, jac=rosen_der, method="BFGS", options={"gtol": 1e-10})
    assert run.status is Status.converged
    np.testing.assert_allclose(run.state, oracle.x, atol=1e-6)


def test_newton_takes_one_step_on_a_quadratic():
    generator = np.random.default_rng(0)
    matrix = generator.normal(size=(4, 4))
    matrix, shift = matrix @ matrix.T + np.eye(4), generator.normal(size=4)
    run = minimise(lambda x: 0.5 * x @ matrix @ x + shift @ x, jnp.ones(4), Newton(search=False))
    assert int(run.num_steps) == 1
    np.testing.assert_allclose(run.state, -np.linalg.solve(matrix, shift), rtol=1e-9)


def test_raw_newton_overshoots_where_the_damped_one_descends():
    def steep(x):  # the Newton step from 2 overshoots ever further on log cosh
        return jnp.logaddexp(x, -x)

    raw = minimise(steep, 2.0, Newton(search=False), max_steps=5)
    damped = minimise(steep, 2.0, Newton(), max_steps=50)
    assert not raw.status.ok
    assert damped.status is Status.converged
    np.testing.assert_allclose(damped.state, 0.0, atol=1e-8)


def test_newton_goes_down_from_a_point_of_negative_curvature():
    run = minimise(lambda x: x**4 - x**2, 0.1, Newton(), max_steps=100)
    np.testing.assert_allclose(run.state, 1 / np.sqrt(2), rtol=1e-7)


def test_gauss_newton_fits_an_exponential_curve():
    times = jnp.linspace(0.0, 2.0, 20)
    data = 3.0 * jnp.exp(-1.3 * times)

    def residuals(p):
        return p["height"] * jnp.exp(-p["rate"] * times) - data

    run = minimise(
        lambda p: 0.5 * jnp.sum(residuals(p) ** 2),
        {"height": 1.0, "rate": 0.1},
        GaussNewton(residuals=residuals),
    )
    np.testing.assert_allclose([run.state["height"], run.state["rate"]], [3.0, 1.3], rtol=1e-8)
    assert int(run.num_steps) < 15


def test_new_data_of_one_shape_do_not_compile_again():
    counted = count_traces(lambda x, target: jnp.sum((x - target) ** 2))
    first = minimise(counted, jnp.zeros(3), args=(jnp.ones(3),))
    traced = counted.count
    second = minimise(counted, jnp.zeros(3), args=(jnp.arange(3.0),))
    assert counted.count == traced
    np.testing.assert_allclose(first.state, 1.0, rtol=1e-9)
    np.testing.assert_allclose(second.state, np.arange(3.0), atol=1e-9)


def test_logistic_loss_meets_scipy():
    generator = np.random.default_rng(0)
    features = generator.normal(size=(200, 5))
    labels = (features @ np.arange(-2.0, 3.0) + generator.logistic(size=200) > 0).astype(float)

    def loss(w, x, y):
        z = x @ w
        return jnp.sum(jnp.logaddexp(0.0, z) - y * z) + 0.5 * w @ w

    def oracle(w):
        z = features @ w
        probability = 1 / (1 + np.exp(-z))
        return np.sum(np.logaddexp(0, z) - labels * z) + 0.5 * w @ w, features.T @ (probability - labels) + w

    run = minimise(loss, np.zeros(5), LBFGS(), args=(features, labels), tol=1e-10)
    expected = minimize(
        oracle, np.zeros(5), jac=True, method="L-BFGS-B", options={"ftol": 1e-16, "gtol": 1e-10}
    )
    assert run.status is Status.converged
    np.testing.assert_allclose(run.state, expected.x, atol=1e-7)


def test_start_without_a_value_is_refused():
    with pytest.raises(ValueError, match="`fun` must be finite at `start`; got nan"):
        minimise(lambda x: jnp.log(x), -1.0)


def test_verdict_is_printed():
    run = minimise(lambda x: (x - 3.0) ** 2, 0.0)
    assert "Converged" in repr(run)
    stopped = minimise(rosenbrock, np.array([-1.2, 1.0]), LBFGS(), max_steps=2)
    assert "max_steps" in repr(stopped)
