"""Finite differences, the gradient checker, Jacobians and Hessians, against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import rosen, rosen_der, rosen_hess, rosen_hess_prod

from tractable.core.matrixcalculus import IDENTITIES
from tractable.optim import autodiff as ad


def test_worked_errors_of_forward_differences_of_the_sine():
    study = ad.step_study(np.sin, np.cos, 1.0, steps=(0.1, 1e-4, 1e-8, 1e-12))
    worked = np.array([4.3e-2, 4.2e-5, 3.0e-9, 4.3e-5])
    np.testing.assert_allclose(study.errors["forward"], worked, rtol=0.02)
    # a U: both ends are worse than the middle; the complex step has only one end
    assert study.errors["forward"].argmin() == 2
    assert study.errors["complex"][-1] <= 2e-16
    assert study.errors["central"][1] < 1e-3 * study.errors["forward"][1]
    assert "3.0e-09*" in repr(study)


def test_complex_step_is_exact_to_rounding():
    def fun(x):
        return np.exp(x[0]) / np.sqrt(np.sin(x[0]) ** 3 + np.cos(x[1]) ** 3)

    point = np.array([1.5, 0.4])
    expected = [ad.reverse_gradient(_in_operands, point)[i] for i in range(2)]
    np.testing.assert_allclose(ad.complex_step(fun, point), expected, rtol=1e-14)
    np.testing.assert_allclose(ad.forward_difference(fun, point), expected, rtol=1e-6)
    np.testing.assert_allclose(ad.finite_difference(fun, point), expected, rtol=1e-9)


def _in_operands(x, y):
    return ad.exp(x) / ad.sqrt(ad.sin(x) ** 3 + ad.cos(y) ** 3)


def test_differences_of_a_vector_are_its_jacobian():
    matrix = np.arange(6.0).reshape(3, 2)
    for scheme in ("forward", "central", "complex"):
        found = ad.finite_difference(lambda x: matrix @ x, np.ones(2), scheme=scheme)
        np.testing.assert_allclose(found, matrix, atol=1e-6)


def test_complex_step_refuses_a_function_that_drops_the_imaginary_part():
    with pytest.raises(ValueError, match="`function` must be complex where its input is; got dtype float64"):
        ad.complex_step(lambda x: np.abs(x), 1.0)
    with pytest.raises(ValueError, match="`scheme` must be one of 'forward', 'central', 'complex'"):
        ad.finite_difference(np.sin, 1.0, scheme="backward")
    with pytest.raises(ValueError, match=r"`step` must be positive; got 0\.0"):
        ad.finite_difference(np.sin, 1.0, step=0.0)


def test_numeric_gradient_in_a_compiled_program():
    point = jnp.array([-1.2, 1.0, 3e4])

    def fun(x):
        return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2 + 1e-4 * x[2] ** 2

    expected = [*rosen_der(np.array([-1.2, 1.0])), 2e-4 * 3e4]
    found = jax.jit(lambda x: ad.numeric_gradient(fun, x))(point)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_checker_accepts_the_worked_gradient_and_refuses_a_wrong_one():
    def fun(v):
        return (v[0] + 2 * v[1] ** 3) ** 2

    def slope(v):
        inner = v[0] + 2 * v[1] ** 3
        return np.array([2 * inner, 12 * inner * v[1] ** 2])

    right = ad.check_gradient(fun, np.ones(2), slope)
    assert right.ok
    assert right.relative_error < 1e-9
    np.testing.assert_array_equal(right.analytic, [6.0, 36.0])
    wrong = ad.check_gradient(fun, np.ones(2), lambda v: slope(v) * np.array([1.0, 1.001]))
    assert not wrong.ok
    assert "WRONG" in repr(wrong)
    assert wrong.errors.argmax() == 1


@pytest.mark.parametrize("identity", IDENTITIES[:9], ids=lambda identity: identity.name)
def test_checker_passes_every_matrix_identity(identity):
    generator = np.random.default_rng(1)
    x, *others = (generator.normal(size=shape) for shape in identity.shapes)
    x = x + 3 * np.eye(*x.shape)
    others = tuple(jnp.asarray(other) for other in others)
    report = ad.check_gradient(identity.function, x, identity.gradient, args=others)
    assert report.relative_error < 1e-6


def test_checker_names_entries_of_trees_and_ranks_sensitivities():
    def cost(p, x):
        return jnp.sum(jnp.tanh(p["weights"] @ x) + p["bias"] ** 2)

    params = {"bias": np.array([0.1, -2.0]), "weights": np.full((2, 2), 0.1)}
    report = ad.check_gradient(cost, params, args=(jnp.array([1.0, 0.0]),))
    assert report.ok
    assert report.names[:2] == ("['bias'][0]", "['bias'][1]")
    # |df/db| (1 + |b|) = 4 * 3 is the largest; the weights of the input that is zero do nothing
    np.testing.assert_allclose(report.sensitivity[1], 12.0, rtol=1e-12)
    np.testing.assert_array_equal(report.sensitivity[[3, 5]], 0.0)
    assert repr(report).splitlines()[-5].split()[0] == "['bias'][1]"


def test_checker_says_no_to_not_a_number_and_to_a_wrong_shape():
    assert not ad.check_gradient(lambda x: x**2, 1.0, lambda x: jnp.nan).ok
    with pytest.raises(ValueError, match="`gradient` must be of 2 entries; got 3"):
        ad.check_gradient(lambda x: jnp.sum(x), np.ones(2), lambda x: np.ones(3))


def curved(x):
    return jnp.array([x[0] * x[1], jnp.sin(x[2]), x[0] ** 2 + x[2], x[1] * x[2] ** 2])


def test_jacobian_by_forward_and_reverse_sweeps_in_numerator_layout():
    x = np.array([1.0, 2.0, 0.5])
    expected = [[2.0, 1.0, 0.0], [0.0, 0.0, np.cos(0.5)], [2.0, 0.0, 1.0], [0.0, 0.25, 2.0]]
    found = jax.jit(lambda x: [ad.jacobian(curved, x, mode=m) for m in ("forward", "reverse", "auto")])
    for matrix in found(x):
        np.testing.assert_allclose(matrix, expected, rtol=1e-14)
    np.testing.assert_allclose(ad.central_difference(jax.jit(curved), x), expected, atol=1e-9)


@pytest.mark.parametrize("identity", IDENTITIES[9:], ids=lambda identity: identity.name)
def test_jacobian_of_linear_maps_has_one_row_per_output(identity):
    generator = np.random.default_rng(2)
    x, other = (jnp.asarray(generator.normal(size=shape)) for shape in identity.shapes)
    found = ad.jacobian(lambda x: identity.function(x, other), x)
    np.testing.assert_allclose(found, identity.gradient(x, other), rtol=1e-14)


def test_jacobian_sweeps_as_few_times_as_it_can():
    forward = str(_jaxpr(lambda x: ad.jacobian(lambda v: jnp.stack([v.sum()] * 5), x), np.ones(2)))
    reverse = str(_jaxpr(lambda x: ad.jacobian(lambda v: v.sum() * jnp.ones(1), x), np.ones(7)))
    assert "f64[7,7]" not in reverse
    assert "f64[5,5]" not in forward


def _jaxpr(function, x):
    return jax.make_jaxpr(function)(jnp.asarray(x))


def test_chain_rule_is_the_product_of_jacobians():
    def inner(s):
        return jnp.array([s[0] * s[1], s[0] - s[1], s[1] ** 2])

    s = np.array([0.3, -0.7])

    @jax.jit
    def both(s):
        return ad.chain_jacobian(curved, inner, s), ad.jacobian(lambda s: curved(inner(s)), s)

    np.testing.assert_allclose(*both(s), rtol=1e-13)


def rosenbrock(x):
    return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def test_hessian_and_its_products_meet_scipy():
    x, v = np.array([-1.2, 1.0, 0.7]), np.array([0.5, -1.0, 2.0])
    np.testing.assert_allclose(rosenbrock(x), rosen(x), rtol=1e-14)
    matrix, product = jax.jit(
        lambda x, v: (ad.hessian(rosenbrock, x), ad.hessian_vector_product(rosenbrock, x, v))
    )(x, v)
    np.testing.assert_allclose(matrix, rosen_hess(x), rtol=1e-12)
    np.testing.assert_allclose(product, rosen_hess_prod(x, v), rtol=1e-12)


def test_second_derivatives_of_a_vector_function_are_refused():
    with pytest.raises(ValueError, match="`function` must be one that returns a single number"):
        ad.hessian_vector_product(lambda x: x, np.ones(2), np.ones(2))
    with pytest.raises(ValueError, match=r"`direction` must be of shape \(2,\); got shape \(3,\)"):
        ad.hessian_vector_product(jnp.sum, np.ones(2), np.ones(3))
    with pytest.raises(ValueError, match="`mode` must be one of 'auto', 'forward', 'reverse'"):
        ad.jacobian(jnp.sin, 1.0, mode="backward")
