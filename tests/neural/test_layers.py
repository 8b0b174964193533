"""Layers and activations: derivatives, worked numbers, collapse, dead gradients, spectra, convolutions."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.signal import correlate2d

from tractable.core.spectral import dominant_singular_triple
from tractable.neural import (
    MLP,
    Activation,
    CausalConvolution,
    backpropagate,
    collapse,
    dense,
    half_squared,
    normalise_spectra,
    squared,
)
from tractable.neural.activations import ACTIVATIONS
from tractable.neural.convolution import image_convolution
from tractable.neural.layers import count_parameters, dense_stack
from tractable.neural.spectral import SpectralDense, lipschitz_bound
from tractable.optim.autodiff import check_gradient
from tractable.supervised import Perceptron

DOUBLE = {"dtype": jnp.float64}
POINTS = jnp.array([-2.3, -0.4, 0.3, 1.7])


@pytest.mark.cheap
@pytest.mark.parametrize("name", [name for name in ACTIVATIONS if name not in ("straight_through",)])
def test_stated_derivatives_are_those_of_differences(name):
    gate, h = Activation(name), 1e-6
    steps = h * np.eye(4)
    differences = np.stack([(gate(POINTS + s) - gate(POINTS - s)) / (2 * h) for s in steps], axis=1)
    np.testing.assert_allclose(gate.jacobian(POINTS), differences, atol=1e-8)
    cotangent = jnp.array([1.0, -2.0, 0.5, 3.0])
    np.testing.assert_allclose(gate.pull(POINTS, cotangent), differences.T @ cotangent, atol=1e-7)


def test_values_of_activations():
    s = 1 / (1 + np.exp(-np.asarray(POINTS)))
    np.testing.assert_allclose(Activation("sigmoid")(POINTS), s, rtol=1e-14)
    np.testing.assert_allclose(Activation("sigmoid").slope(POINTS), s * (1 - s), rtol=1e-13)
    np.testing.assert_array_equal(Activation("hard_threshold")(jnp.array([-1.0, 0.0, 2.0])), [-1, 1, 1])
    with pytest.raises(ValueError, match=r"`name` must be one of 'identity'.*; got 'swish'"):
        Activation("swish")
    with pytest.raises(ValueError, match=r"elementwise activation; got .softmax.\. Its derivative is"):
        Activation("softmax").slope(POINTS)


def test_the_slope_of_a_hard_threshold_is_dead_and_its_stand_in_learns_what_the_perceptron_rule_does():
    x = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])
    y = np.array([-1.0, -1, -1, 1])  # both at once
    start = dense(2, 1, key=jr.key(3), initial="zeros", **DOUBLE)

    def loss(layer, gate):
        return jax.vmap(lambda a, t: half_squared(gate(layer(a)), t))(jnp.asarray(x), jnp.asarray(y)).sum()

    dead = jax.grad(loss)(start, Activation("hard_threshold"))
    assert not np.asarray(dead.weight).any()
    assert not np.asarray(dead.bias).any()
    layer, gate = start, Activation("straight_through")
    for _ in range(50):
        slope = jax.grad(loss)(layer, gate)
        layer = jax.tree.map(lambda p, g: p - 0.1 * g, layer, slope)
    np.testing.assert_array_equal(jax.vmap(lambda a: gate(layer(a)))(jnp.asarray(x))[:, 0], y)
    np.testing.assert_array_equal(np.sign(Perceptron.fit(x, y, bias=True).decision(x)), y)


def test_a_stack_without_activations_is_one_layer():
    stack = dense_stack((5, 7, 4, 3), key=jr.key(0), initial="lecun", **DOUBLE)
    stack = tuple(eqx.tree_at(lambda l: l.bias, layer, layer.bias + i) for i, layer in enumerate(stack, 1))
    x = jr.normal(jr.key(1), (5,))
    through = x
    for layer in stack:
        through = layer(through)
    np.testing.assert_allclose(collapse(stack)(x), through, rtol=1e-12)
    network = MLP((5, 7, 4, 3), "identity", key=jr.key(0), initial="lecun", **DOUBLE)
    np.testing.assert_allclose(collapse(network.layers)(x), network(x), rtol=1e-12)
    with pytest.raises(
        ValueError, match="each takes what the one before it gives; got 5 inputs after 3 outputs"
    ):
        collapse((stack[2], stack[0]))


def test_the_numbers_of_a_perceptron_and_its_forward_pass():
    network = MLP((784, 16, 16, 10), "sigmoid", key=jr.key(0))
    assert network.num_parameters == count_parameters(network) == 13002
    assert sum(layer.weight.size for layer in network.layers) == 12960
    assert network.sizes == (784, 16, 16, 10)
    assert network.layers[0].weight.dtype == jnp.float32
    small = MLP((3, 4, 2), "tanh", "sigmoid", key=jr.key(1), **DOUBLE)
    x, (one, two) = np.array([0.3, -1.0, 2.0]), small.layers
    hidden = np.tanh(np.asarray(one.weight) @ x + one.bias)
    np.testing.assert_allclose(small(x), 1 / (1 + np.exp(-(two.weight @ hidden + two.bias))), rtol=1e-12)
    with pytest.raises(
        ValueError, match=r"`x` must be of shape \(3,\); got shape \(5, 3\)\. A network takes one"
    ):
        small(np.zeros((5, 3)))


@pytest.mark.cheap
def test_initial_weights_have_their_variances():
    variances = {"he": 2 / 400, "lecun": 1 / 400, "glorot": 2 / 700, "uniform": 1 / 1200}
    for seed, (name, variance) in enumerate(variances.items()):
        weight = np.asarray(dense(400, 300, key=jr.key(seed), initial=name, **DOUBLE).weight)
        assert abs(weight.var() / variance - 1) < 5 * np.sqrt(2 / weight.size)  # normal: the widest of them
        assert abs(weight.mean()) < 5 * np.sqrt(variance / weight.size)
    q = np.asarray(dense(6, 4, key=jr.key(9), initial="orthogonal", **DOUBLE).weight)
    np.testing.assert_allclose(q @ q.T, np.eye(4), atol=1e-12)
    with pytest.raises(ValueError, match="`initial` must be one of 'he'"):
        dense(2, 2, key=jr.key(0), initial="xavier")
    with pytest.raises(ValueError, match="`sizes` must be a whole number of at least 1; got 0"):
        MLP((3, 0, 1), key=jr.key(0))


def test_backpropagation_through_one_neuron_per_layer():
    network = MLP((1, 1, 1), "tanh", "sigmoid", key=jr.key(0), **DOUBLE)
    w1, w2 = 0.7, -1.3
    network = eqx.tree_at(
        lambda n: [l.weight for l in n.layers], network, [jnp.full((1, 1), w1), jnp.full((1, 1), w2)]
    )
    network = eqx.tree_at(lambda n: [l.bias for l in n.layers], network, [jnp.full(1, 0.2), jnp.full(1, 0.1)])
    x, y = 0.5, 0.9
    z = np.tanh(w1 * x + 0.2)
    a = 1 / (1 + np.exp(-(w2 * z + 0.1)))
    back = backpropagate(network, jnp.array([x]), jnp.array([y]), squared)
    delta = a * (1 - a) * 2 * (a - y)  # dC/db of the last layer
    np.testing.assert_allclose(back.bias_slopes[1], [delta], rtol=1e-12)
    np.testing.assert_allclose(back.weight_slopes[1], [[z * delta]], rtol=1e-12)
    below = (1 - z**2) * w2 * delta
    np.testing.assert_allclose(back.weight_slopes[0], [[x * below]], rtol=1e-12)
    np.testing.assert_allclose(back.input_slope, [w1 * below], rtol=1e-12)


@pytest.mark.cheap
@pytest.mark.parametrize("output", ["softmax", "identity"])
def test_backpropagation_through_full_layers_is_autodiff_and_differences(output):
    network = MLP((4, 6, 5, 3), "tanh", output, key=jr.key(1), **DOUBLE)
    x, y = jr.normal(jr.key(2), (4,)), jnp.array([0.2, 0.5, 0.3])
    back = backpropagate(network, x, y, half_squared)
    slope, by_input = jax.grad(lambda n, x: half_squared(n(x), y), argnums=(0, 1))(network, x)
    for weight, bias, layer in zip(back.weight_slopes, back.bias_slopes, slope.layers):
        np.testing.assert_allclose(weight, layer.weight, rtol=1e-10, atol=1e-14)
        np.testing.assert_allclose(bias, layer.bias, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(back.input_slope, by_input, rtol=1e-10)
    first = network.layers[0].weight

    def cost(weight):
        return half_squared(eqx.tree_at(lambda n: n.layers[0].weight, network, weight)(x), y)

    assert check_gradient(cost, first, lambda _: back.weight_slopes[0]).ok
    with pytest.raises(ValueError, match="`network` must be an MLP whose activations are named"):
        backpropagate(MLP((4, 3), output=jnp.sin, key=jr.key(0)), x, y, half_squared)


def test_spectral_normalisation_and_the_lipschitz_bound():
    matrix = jr.normal(jr.key(0), (7, 5))
    layer = eqx.nn.Linear(5, 7, key=jr.key(1))
    layer = eqx.tree_at(lambda l: (l.weight, l.bias), layer, (matrix, jnp.zeros(7)))
    top = dominant_singular_triple(matrix).state
    normed = normalise_spectra(layer).weight
    np.testing.assert_allclose(normed, matrix / top.value, rtol=1e-9)
    np.testing.assert_allclose(np.linalg.svd(normed)[1][0], 1.0, rtol=1e-12)
    x = jr.normal(jr.key(2), (5,))
    np.testing.assert_allclose(SpectralDense(layer)(x), normed @ x, rtol=1e-12)
    blank = eqx.tree_at(lambda l: l.weight, layer, jnp.zeros((7, 5)))
    assert not np.asarray(normalise_spectra(blank).weight).any()
    network = MLP((5, 16, 16, 2), "gelu", key=jr.key(3), **DOUBLE)
    bound = float(lipschitz_bound(network))
    norms = [np.linalg.svd(layer.weight)[1][0] for layer in network.layers]
    slopes = Activation("gelu").slope(jnp.linspace(1.2, 1.6, 4001))
    np.testing.assert_allclose(bound, np.prod(norms) * float(slopes.max()) ** 2, rtol=1e-6)
    pairs = jr.normal(jr.key(4), (200, 2, 5))
    moved = jax.vmap(jax.vmap(network))(pairs)
    stretch = np.linalg.norm(moved[:, 0] - moved[:, 1], axis=1) / np.linalg.norm(
        pairs[:, 0] - pairs[:, 1], axis=1
    )
    assert stretch.max() <= bound
    identity = MLP(
        (5, 4, 3), "identity", key=jr.key(5), **DOUBLE
    )  # along the top direction of one layer: tight
    one = normalise_spectra(MLP((5, 3), key=jr.key(6), **DOUBLE), 2.0)
    direction = np.linalg.svd(one.layers[0].weight)[2][0]
    np.testing.assert_allclose(
        np.linalg.norm(one(direction) - one(0 * direction)), lipschitz_bound(one), rtol=1e-12
    )
    assert float(lipschitz_bound(identity)) >= np.linalg.svd(collapse(identity.layers).weight)[1][0]


@pytest.mark.cheap
@pytest.mark.parametrize("dilation", [1, 3])
def test_causal_convolution_is_its_sum_by_windows_and_by_transforms(dilation):
    layer = CausalConvolution(2, 3, 4, key=jr.key(0), dilation=dilation, **DOUBLE)
    layer = eqx.tree_at(lambda l: l.bias, layer, jnp.array([1.0, -1.0, 0.5]))
    x = np.asarray(jr.normal(jr.key(1), (13, 2)))
    kernel, expected = np.asarray(layer.kernel), np.tile(np.asarray(layer.bias), (13, 1))
    for t in range(13):
        for lag in range(4):
            if t >= lag * dilation:
                expected[t] += kernel[lag] @ x[t - lag * dilation]
    np.testing.assert_allclose(layer(x), expected, rtol=1e-11)
    other = CausalConvolution(2, 3, 4, key=jr.key(0), dilation=dilation, method="transforms", **DOUBLE)
    other = eqx.tree_at(lambda l: l.bias, other, layer.bias)
    np.testing.assert_allclose(other(x), expected, atol=1e-12)
    jacobian = np.asarray(jax.jacobian(layer)(jnp.asarray(x)))  # (time, out, time, in)
    later = np.triu_indices(13, 1)
    assert not jacobian[later[0], :, later[1]].any()
    with pytest.raises(
        ValueError, match=r"`x` must be of shape \(length, 2\), and not empty; got shape \(0, 2\)"
    ):
        layer(np.zeros((0, 2)))


def test_a_linear_state_space_model_is_a_causal_convolution():
    rng = np.random.default_rng(0)
    a, b, c = 0.4 * rng.normal(size=(3, 3)), rng.normal(size=(3, 2)), rng.normal(size=(4, 3))
    u, state, outputs = rng.normal(size=(20, 2)), np.zeros(3), []
    for row in u:
        state = a @ state + b @ row
        outputs.append(c @ state)
    kernel = np.stack([c @ np.linalg.matrix_power(a, s) @ b for s in range(20)])
    for method in ("windows", "transforms"):
        layer = CausalConvolution(2, 4, 20, key=jr.key(0), method=method, **DOUBLE)
        layer = eqx.tree_at(lambda l: l.kernel, layer, jnp.asarray(kernel))
        np.testing.assert_allclose(layer(u), outputs, atol=1e-12)


def test_image_convolution_is_that_of_scipy():
    layer = image_convolution(2, 3, 3, key=jr.key(0), padding=1, **DOUBLE)
    image = np.asarray(jr.normal(jr.key(1), (2, 6, 7)))
    expected = [
        sum(correlate2d(image[i], window[i], "same") for i in range(2)) for window in np.asarray(layer.weight)
    ]
    np.testing.assert_allclose(layer(jnp.asarray(image)), expected, rtol=1e-10, atol=1e-12)
    weight = np.asarray(image_convolution(16, 64, 5, key=jr.key(2), **DOUBLE).weight)
    assert abs(weight.var() / (2 / 400) - 1) < 5 * np.sqrt(2 / weight.size)  # what feeds an output: 16 * 25
