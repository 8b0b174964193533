"""Line searches: what they accept meets the conditions, on functions of very different scales."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tractable.optim.linesearch import Trial, backtracking, wolfe

FUNCTIONS = {
    "quartic": lambda x: jnp.sum(x**4) + 0.5 * jnp.sum(x**2),
    "rosenbrock": lambda x: 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2,
    "flat": lambda x: jnp.sum(jnp.sqrt(1 + x**2)),
    "barrier": lambda x: jnp.sum(x - jnp.log(x + 2.0)),
    "waves": lambda x: jnp.sum(x**2 + 0.9 * jnp.sin(3 * x)),
}
START = np.array([1.3, -0.7])


def searched(name, search, first):
    fun = jax.value_and_grad(FUNCTIONS[name])

    @jax.jit
    def work(first):
        value, gradient = fun(jnp.asarray(START))
        return gradient, value, search(fun, Trial.at(jnp.asarray(START), value, gradient), -gradient, first)

    return work(jnp.asarray(first))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_wolfe_search_meets_both_conditions(name):
    work = {}
    for first in (1e-6, 1.0, 1e3):
        gradient, value, trial = searched(name, wolfe, first)
        slope = -float(gradient @ gradient)
        assert bool(trial.accepted), (name, first)
        assert trial.value <= value + 1e-4 * trial.length * slope
        assert trial.gradient @ -gradient >= 0.9 * slope
        np.testing.assert_allclose(trial.point, START - trial.length * np.asarray(gradient), rtol=1e-14)
        np.testing.assert_allclose(trial.value, FUNCTIONS[name](trial.point), rtol=1e-14)
        work[first] = int(trial.evaluations)
    assert max(work.values()) <= 30


@pytest.mark.parametrize("name", FUNCTIONS)
def test_backtracking_takes_the_first_length_that_decreases_enough(name):
    gradient, value, trial = searched(name, backtracking, 1e3)
    gradient, value = np.asarray(gradient), float(value)
    slope = -gradient @ gradient
    fun = FUNCTIONS[name]
    lengths = 1e3 * 0.5 ** np.arange(50)
    with np.errstate(all="ignore"):
        fine = [bool(fun(START - t * gradient) <= value + 1e-4 * t * slope) for t in lengths]
    assert float(trial.length) == lengths[fine.index(True)]
    assert int(trial.evaluations) == fine.index(True) + 1


def test_direction_that_goes_up_is_not_accepted():
    fun = jax.value_and_grad(lambda x: jnp.sum(x**2))
    value, gradient = fun(jnp.asarray(START))
    start, one = Trial.at(jnp.asarray(START), value, gradient), jnp.asarray(1.0)
    assert not bool(backtracking(fun, start, gradient, one).accepted)
    assert not bool(wolfe(fun, start, gradient, one).accepted)
