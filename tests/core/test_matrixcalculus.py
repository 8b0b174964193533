"""Every identity against central differences and automatic differentiation."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tractable.core import matrixcalculus as mc

IDS = [identity.name for identity in mc.IDENTITIES]


def arguments(identity):
    rng = np.random.default_rng(len(identity.name))
    drawn = [jnp.asarray(rng.normal(size=shape)) for shape in identity.shapes]
    if drawn[0].shape == (3, 3):
        drawn[0] = drawn[0] + 3 * jnp.eye(3)  # well away from a singular matrix
    return drawn


@cache
def answers(identity):
    """The function, and its gradient and Jacobian at one point: one program for all three."""

    @jax.jit
    def compiled(x, *others):
        value = identity.function(x, *others)
        return value, identity.gradient(x, *others), jax.jacobian(identity.function)(x, *others)

    _, gradient, jacobian = compiled(*arguments(identity))
    return lambda *inputs: compiled(*inputs)[0], gradient, jacobian


@pytest.mark.parametrize("identity", mc.IDENTITIES, ids=IDS)
def test_identity_agrees_with_central_differences(identity):
    x, *others = arguments(identity)
    value, gradient, _ = answers(identity)
    numeric = mc.central_difference(lambda x: value(x, *others), x)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("identity", mc.IDENTITIES, ids=IDS)
def test_identity_agrees_with_automatic_differentiation(identity):
    _, gradient, jacobian = answers(identity)
    assert gradient.shape == jacobian.shape
    np.testing.assert_allclose(gradient, jacobian, rtol=1e-10, atol=1e-12)


def test_layouts():
    a = jnp.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(mc.jacobian_inner_product(jnp.zeros(3), a), [[1.0, 2.0, 3.0]])
    b = jnp.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(mc.jacobian_matrix_vector(jnp.zeros(3), b), b)


def test_gradient_of_the_sandwich_is_the_transpose_of_its_numerator_layout():
    rng = np.random.default_rng(0)
    x, a, b, c = (
        rng.normal(size=(3, 2)),
        rng.normal(size=(4, 3)),
        rng.normal(size=(2, 2)),
        rng.normal(size=(3, 4)),
    )
    numerator = b @ x.T @ c @ a + b.T @ x.T @ a.T @ c.T
    gradient = mc.gradient_sandwich_trace(*map(jnp.asarray, (x, a, b, c)))
    np.testing.assert_allclose(gradient, numerator.T, rtol=1e-12)


def test_central_difference_of_a_vector_function_is_its_jacobian():
    jacobian = mc.central_difference(lambda x: jnp.stack([x[0] ** 2, x[0] * x[1]]), jnp.array([3.0, 2.0]))
    np.testing.assert_allclose(jacobian, [[6.0, 0.0], [2.0, 3.0]], atol=1e-9)


def test_the_error_of_central_differences_is_quadratic_in_the_step():
    errors = [abs(float(mc.central_difference(jnp.sin, 1.0, step=h)) - np.cos(1.0)) for h in (1e-2, 1e-3)]
    np.testing.assert_allclose(errors[0] / errors[1], 100, rtol=1e-2)
