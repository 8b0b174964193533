"""First-order rules against the update written out in NumPy, and against what they must do on quadratics."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tractable.core import Status
from tractable.optim import (
    Adagrad,
    Adam,
    ExponentialAverage,
    GradientDescent,
    LineSearchDescent,
    Momentum,
    Nesterov,
    NormalisedGradient,
    RMSProp,
    minimise,
)

GRADIENTS = [np.array([4.0, -1.0]), np.array([0.5, 2.0]), np.array([-3.0, 0.0])]


def applied(method, gradients):
    """The sum of updates that a rule makes of a sequence of gradients, from zero."""
    rule = method.transformation()
    point = jnp.zeros(2)
    state = rule.init(point)
    for gradient in gradients:
        update, state = rule.update(jnp.asarray(gradient), state, point)
        point = optax.apply_updates(point, update)
    return np.asarray(point)


def written_out(name, gradients, rate, beta=0.9, second=0.999, eps=1e-8):
    """Each rule in plain NumPy."""
    w, v, r = np.zeros(2), np.zeros(2), np.zeros(2)
    for t, g in enumerate(gradients, 1):
        if name == "descent":
            w = w - rate * g
        elif name == "normalised":
            w = w - rate * g / np.linalg.norm(g)
        elif name == "momentum":
            v = beta * v + (1 - beta) * g
            w = w - rate * v
        elif name == "nesterov":
            v = beta * v + g
            w = w - rate * (g + beta * v)
        elif name == "adagrad":
            r = r + g**2
            w = w - rate * g / (np.sqrt(r) + eps)
        elif name == "rmsprop":
            r = beta * r + (1 - beta) * g**2
            w = w - rate * g / (np.sqrt(r) + eps)
        elif name == "adam":
            v = beta * v + (1 - beta) * g
            r = second * r + (1 - second) * g**2
            w = w - rate * (v / (1 - beta**t)) / (np.sqrt(r / (1 - second**t)) + eps)
    return w


RULES = {
    "descent": GradientDescent(0.1),
    "normalised": NormalisedGradient(0.1),
    "momentum": Momentum(0.1),
    "nesterov": Nesterov(0.1),
    "adagrad": Adagrad(0.1),
    "rmsprop": RMSProp(0.1),
    "adam": Adam(0.1),
}


@pytest.mark.parametrize("name", RULES)
def test_rule_is_the_written_update(name):
    gradients = (
        GRADIENTS[:2] if name == "adagrad" else GRADIENTS
    )  # the third has a zero entry, harmless elsewhere
    np.testing.assert_allclose(applied(RULES[name], gradients), written_out(name, gradients, 0.1), rtol=1e-12)


def test_first_adam_step_is_the_learning_rate_whatever_the_gradient():
    step = applied(Adam(1.0), [np.array([4.0, -400.0])])
    np.testing.assert_allclose(step, [-0.9999999975, 0.999999999975], rtol=1e-13)


def test_adam_works_on_trees_of_parameters():
    tree = {"weights": jnp.ones((2, 3)), "bias": jnp.zeros(3)}
    rule = Adam(0.5).transformation()
    update, _ = rule.update(jax.tree.map(lambda p: 4.0 * jnp.ones_like(p), tree), rule.init(tree), tree)
    assert jax.tree.all(jax.tree.map(lambda u: bool(jnp.allclose(u, -0.5, rtol=1e-8)), update))


@pytest.mark.parametrize(("rate", "factor"), [(0.25, 0.25), (1.0, 1.0), (0.5, 0.0)])
def test_one_step_on_an_isotropic_quadratic(rate, factor):
    # f = L |x|^2 / 2 with L = 2: f shrinks by (1 - rate L)^2, a quarter at 1/(2L), none at 2/L, all at 1/L.
    run = minimise(lambda x: x @ x, jnp.array([3.0, -4.0]), GradientDescent(rate), max_steps=1)
    np.testing.assert_allclose(run.value, 25.0 * factor, atol=1e-14)


def test_too_large_a_step_diverges_and_says_so():
    run = minimise(lambda x: x @ x, jnp.array([3.0, -4.0]), GradientDescent(1.1), max_steps=200)
    assert run.status is Status.exhausted
    assert run.value > 1e10


def test_normalised_gradient_leaves_a_saddle_faster_than_descent():
    def saddle(x):
        return x[0] ** 2 - x[1] ** 2 + x[1] ** 4

    start = jnp.array([0.0, 1e-6])
    plain = minimise(saddle, start, GradientDescent(0.05), max_steps=60)
    normalised = minimise(saddle, start, NormalisedGradient(0.05), max_steps=60)
    assert normalised.value < -0.2 < plain.value


def test_zero_gradient_moves_nothing():
    run = minimise(lambda x: x @ x, jnp.zeros(2), NormalisedGradient(0.1), max_steps=3)
    np.testing.assert_array_equal(run.state, 0.0)


def test_schedule_is_a_function_of_the_step():
    step = applied(GradientDescent(lambda t: 1.0 / (1 + t)), [np.array([1.0, 1.0])] * 3)
    np.testing.assert_allclose(step, -(1 + 1 / 2 + 1 / 3), rtol=1e-14)


@pytest.mark.parametrize("search", ["backtracking", "wolfe"])
def test_line_search_needs_no_step_size(search):
    scales = jnp.array([1.0, 50.0])
    run = minimise(
        lambda x: 0.5 * (scales * x**2).sum(),
        jnp.array([1.0, 1.0]),
        LineSearchDescent(search=search),
        max_steps=5000,
    )
    assert run.status is Status.converged
    assert (np.diff(run.values) <= 0).all()


def test_bias_corrected_average_reproduces_a_constant():
    average = ExponentialAverage.start(0.98, 0.0)
    for _ in range(5):
        average = average.push(7.0)
        np.testing.assert_allclose(average.corrected, 7.0, rtol=1e-12)
    np.testing.assert_allclose(average.average, 7.0 * (1 - 0.98**5), rtol=1e-12)


def test_average_of_nothing_is_not_a_number():
    assert np.isnan(ExponentialAverage.start(0.9, 0.0).corrected)


def test_steepest_direction_is_the_negative_gradient():
    # Among unit directions, the directional derivative of a x^2 + b y^2 is lowest along -grad.
    a, b, point = 2.0, 0.5, np.array([1.0, 3.0])
    gradient = np.asarray(jax.grad(lambda x: a * x[0] ** 2 + b * x[1] ** 2)(jnp.asarray(point)))
    angle = np.linspace(0, 2 * np.pi, 100_001)
    slopes = np.cos(angle) * gradient[0] + np.sin(angle) * gradient[1]
    best = angle[slopes.argmin()]
    np.testing.assert_allclose([np.cos(best), np.sin(best)], -gradient / np.linalg.norm(gradient), atol=1e-4)
    # The line along it misses the minimum unless a = b: 2 a x0 (y - y0) = 2 b y0 (x - x0) at the origin.
    assert 2 * a * point[0] * -point[1] != 2 * b * point[1] * -point[0]
