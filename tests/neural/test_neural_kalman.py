"""The neural Kalman filter: the Kalman filter where maps are linear, limits of its noise, and training."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.neural import NeuralKalman
from tractable.neural.carried import Constant, Memoryless, Recurrent
from tractable.neural.neural_kalman import reading_loss, tracking_loss
from tractable.optim import Adam, minimise_batches
from tractable.statespace import LinearGaussianSystem

TURN = 0.98 * np.array([[np.cos(0.3), -np.sin(0.3)], [np.sin(0.3), np.cos(0.3)]])
NOISE, ERROR = np.array([0.02, 0.05]), np.array([0.3])
SEEN = np.array([[1.0, 0.2]])
FIRST = np.array([1.0, -0.5]), np.array([[0.5, 0.1], [0.1, 0.4]])
SYSTEM = LinearGaussianSystem(TURN, np.diag(NOISE), SEEN, np.diag(ERROR), *FIRST)


class Map(eqx.Module):
    weights: jax.Array

    def __call__(self, x):
        return self.weights @ x


def linear(transition=TURN, noise=NOISE, error=ERROR, seen=SEEN):
    motion = Memoryless(Map(jnp.asarray(transition)))
    return NeuralKalman(motion, Constant(np.log(noise)), Constant(np.log(error)), seen, *FIRST)


def learned(key, **options):
    keys = jr.split(key, 3)
    motion = Recurrent(2, 2, 4, residual=True, dtype=jnp.float64, key=keys[0])
    noises = [
        Recurrent(size, size, 3, bias=-2.0, dtype=jnp.float64, key=k)
        for size, k in ((2, keys[1]), (1, keys[2]))
    ]
    return NeuralKalman(motion, *noises, SEEN, *FIRST, **options)


def readings(length, key=0):
    y = np.random.default_rng(key).normal(size=(length, 1))
    y[[3, 4]] = np.nan
    return jnp.asarray(y)


def test_linear_maps_give_the_kalman_filter():
    y = readings(20)
    found, known = linear().filter(y), SYSTEM.filter(np.asarray(y))
    np.testing.assert_allclose(found.filtered.mean, known.mean, atol=1e-10)
    np.testing.assert_allclose(found.filtered.cov, known.cov, atol=1e-10)
    np.testing.assert_allclose(found.log_likelihood, known.log_likelihood, atol=1e-10)
    smooth = SYSTEM.smooth(np.asarray(y))
    np.testing.assert_allclose(found.smooth().marginals.mean, smooth.mean, atol=1e-10)


def test_no_trust_ignores_readings_and_full_trust_follows_them():
    y = jnp.asarray(np.random.default_rng(1).normal(size=(12, 2)))
    ignoring = linear(error=np.full(2, 1e30), seen=np.eye(2)).filter(y)
    np.testing.assert_allclose(ignoring.filtered.mean, ignoring.predicted.mean, atol=1e-12)
    np.testing.assert_allclose(
        ignoring.filtered.mean[-1], np.linalg.matrix_power(TURN, 11) @ FIRST[0], atol=1e-12
    )
    following = linear(error=np.full(2, 1e-14), seen=np.eye(2)).filter(y)
    np.testing.assert_allclose(following.filtered.mean, y, atol=1e-11)


def test_a_recurrent_step_is_the_extended_one_with_its_memory():
    """One time after the other in NumPy, with the Jacobian by differences and the textbook's gain."""
    model, y = learned(jr.key(0), noise_sees="reading"), readings(7)
    found = model.filter(y)
    mean, cov = FIRST
    carries = [each.start() for each in (model.transition, model.transition_noise, model.observation_noise)]
    for t, value in enumerate(np.asarray(y)):
        np.testing.assert_allclose(found.predicted.mean[t], mean, atol=1e-7)
        np.testing.assert_allclose(found.predicted.cov[t], cov, atol=1e-7)
        seen = SEEN @ mean if np.isnan(value[0]) else value
        carries[2], log_error = model.observation_noise(carries[2], jnp.asarray(seen))
        if not np.isnan(value[0]):
            gain = cov @ SEEN.T / (SEEN @ cov @ SEEN.T + np.exp(log_error))
            mean, cov = mean + gain @ (value - SEEN @ mean), cov - gain @ SEEN @ cov
        before = carries[0]

        def moved(x, before=before):
            return np.asarray(model.transition(before, jnp.asarray(x))[1])

        slope = np.stack([(moved(mean + bump) - moved(mean - bump)) / 2e-6 for bump in 1e-6 * np.eye(2)], 1)
        carries[0], mean = model.transition(before, jnp.asarray(mean))
        carries[1], log_noise = model.transition_noise(carries[1], mean)
        mean, cov = np.asarray(mean), slope @ cov @ slope.T + np.diag(np.exp(log_noise))


def test_the_tracking_loss_is_its_formula_and_has_the_slope_of_differences():
    model, y = learned(jr.key(1)), readings(6)
    states = jr.normal(jr.key(2), (6, 2))
    found = model.filter(y)
    after, before = (np.asarray(each.mean) for each in (found.filtered, found.predicted))
    wanted = ((states - after) ** 2).sum(1).mean() + 0.5 * ((states - before) ** 2).sum(1).mean()
    value, slope = eqx.filter_jit(
        eqx.filter_value_and_grad(lambda one: tracking_loss(one, (y, states), 0.5))
    )(model)
    np.testing.assert_allclose(value, wanted, rtol=1e-12)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slope))  # also beside what is missing
    assert float(jnp.abs(slope.observation).max()) == 0  # given, not learnt

    def where(one):
        return one.transition.cell.weight

    ends = [eqx.tree_at(where, model, where(model).at[1, 2].add(step)) for step in (1e-5, -1e-5)]
    up, down = (tracking_loss(one, (y, states), 0.5) for one in ends)
    np.testing.assert_allclose(where(slope)[1, 2], (up - down) / 2e-5, rtol=1e-5, atol=1e-9)


def test_training_by_likelihood_finds_the_system_that_made_the_readings():
    y = np.stack([np.asarray(SYSTEM.sample(jr.key(i), 25)[1]).reshape(25, 1) for i in range(60)])
    begun = linear(transition=np.array([[0.9, -0.1], [0.1, 0.9]]), noise=np.ones(2), error=np.ones(1))
    trained = minimise_batches(
        reading_loss, begun, y[:40], Adam(0.03), key=jr.key(0), batch=20, epochs=150, progress=False
    ).state
    begun, found, truth = (
        [float(jnp.mean(jax.vmap(model.log_likelihood)(part))) for part in (y[:40], y[40:])]
        for model in (begun, trained, linear())
    )
    assert begun[1] < truth[1] - 10
    assert found[0] > truth[0]  # seven numbers were fitted to these forty series
    assert found[1] > truth[1] - 0.3  # which costs about seven halves in forty on others
    np.testing.assert_array_equal(trained.observation, SEEN)


def test_slips_are_named():
    model = linear()
    for y, said in (
        (jnp.ones((0, 1)), r"`readings` must be of shape .times, 1., at least one time; got shape .0, 1."),
        (jnp.ones((3, 2)), r"`readings` must be of shape .times, 1."),
        (
            jnp.ones((3, 1)).at[1].set(jnp.inf),
            "`readings` must be finite, or NaN for what is missing; got inf",
        ),
    ):
        with pytest.raises(ValueError, match=said):
            model.filter(y)
    with pytest.raises(TypeError, match=r"`transition` must be a map .*Wrap a function in `Memoryless`"):
        NeuralKalman(lambda x: x, Constant([0.0]), Constant([0.0]), [[1.0]], [0.0], [[1.0]])
    with pytest.raises(ValueError, match=r"`transition_noise` must be a map to vectors of 2; got shape .3,."):
        NeuralKalman(Memoryless(lambda x: x), Constant(np.zeros(3)), Constant([0.0]), SEEN, *FIRST)
    with pytest.raises(ValueError, match="`noise_sees` must be 'prediction' for a likelihood"):
        learned(jr.key(3), noise_sees="reading").log_likelihood(readings(5))
    with pytest.raises(ValueError, match=r"`states` must be of shape .5, 2."):
        tracking_loss(model, (readings(5), jnp.ones((4, 2))))
