"""Compression: worked numbers, least squares, enumeration, files that load back bit for bit, digits."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable import datasets
from tractable.core.storage import StorageError, save
from tractable.distributions.huffman import HuffmanCode
from tractable.distributions.kdpp import KDPP
from tractable.neural import (
    MLP,
    choose_neurons,
    load_compressed,
    prune_weights,
    pruning_curve,
    save_compressed,
    share_weights,
    train,
)
from tractable.neural.compression.curve import hidden_activations, shrink_hidden
from tractable.neural.compression.neurons import (
    activation_kernel,
    fuse_neurons,
    keep_neurons,
    median_bandwidth,
)
from tractable.neural.losses import cross_entropy
from tractable.neural.training import predict_rows
from tractable.optim import Adam

ACTIVATIONS = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [0.0, 0.0, 0.0]])  # v3 = v1 + v2
WEIGHTS = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


def test_kernel_selection_and_fusing_give_the_worked_numbers():
    kernel = activation_kernel(ACTIVATIONS, beta=1.0)
    np.testing.assert_allclose([kernel[0, 1], kernel[0, 2]], [0.13533528, 0.36787944], rtol=0, atol=5e-9)
    assert float(np.linalg.det(kernel)) == pytest.approx(0.74764507, abs=5e-9)
    pairs = KDPP(kernel, 2).prob(jnp.array([[1, 1, 0], [1, 0, 1], [0, 1, 1]]))
    np.testing.assert_allclose(pairs, [0.36210969, 0.31894516, 0.31894516], rtol=0, atol=5e-9)
    assert choose_neurons(ACTIVATIONS, 2, key=jr.key(0), method="map", beta=1.0).tolist() == [0, 1]
    fused, shift = fuse_neurons(ACTIVATIONS, WEIGHTS, [0, 1])
    np.testing.assert_allclose(fused, [[6, 8], [8, 10]], atol=1e-12)
    assert shift.tolist() == [0, 0]


@pytest.mark.thorough
def test_draws_have_the_probabilities_of_the_process_and_copies_are_never_both_kept():
    kernel = activation_kernel(ACTIVATIONS, beta=1.0)
    truth = float(KDPP(kernel, 2).prob(jnp.array([1, 1, 0])))
    keys = jr.split(jr.key(0), 300)
    drawn = [choose_neurons(ACTIVATIONS, 2, key=k, beta=1.0).tolist() == [0, 1] for k in keys]
    assert abs(np.mean(drawn) - truth) < 4 * np.sqrt(truth * (1 - truth) / 300)
    copies = np.random.default_rng(0).normal(size=(20, 3))[:, [0, 0, 1, 2, 2]]
    for method in ("kdpp", "map"):
        kept = choose_neurons(copies, 3, key=jr.key(1), method=method)
        assert len({(0, 0, 1, 2, 2)[i] for i in kept}) == 3
    with pytest.raises(ValueError, match="`size` must be at most the rank"):
        choose_neurons(copies, 4, key=jr.key(0))


def test_importance_takes_the_largest_outgoing_weights_and_random_takes_any():
    large = choose_neurons(ACTIVATIONS, 2, key=jr.key(0), method="importance", outgoing=WEIGHTS)
    assert large.tolist() == [1, 2]
    taken = [tuple(choose_neurons(ACTIVATIONS, 2, key=jr.key(i), method="random")) for i in range(40)]
    assert set(taken) == {(0, 1), (0, 2), (1, 2)}


def test_fused_layers_keep_what_can_be_said_and_the_bias_takes_the_constant():
    first, second = eqx.nn.Linear(3, 6, key=jr.key(0)), eqx.nn.Linear(6, 2, key=jr.key(1))
    inputs = jr.normal(jr.key(2), (40, 3))
    hidden = jax.vmap(first)(inputs)  # rank three and a constant: four neurons say it all
    small = keep_neurons(first, second, [0, 2, 3], hidden)
    np.testing.assert_allclose(
        jax.vmap(lambda x: small[1](small[0](x)))(inputs), jax.vmap(second)(hidden), atol=1e-10
    )
    cut = keep_neurons(first, second, [0, 2, 3])
    np.testing.assert_array_equal(cut[1].weight, second.weight[:, [0, 2, 3]])
    np.testing.assert_array_equal(cut[0].bias, first.bias[np.array([0, 2, 3])])
    # weights as by the normal equations
    noisy = np.random.default_rng(0).normal(size=(30, 6))
    fused, _ = fuse_neurons(noisy, second.weight.T, [1, 4])
    own = noisy[:, [1, 4]]
    normal = np.linalg.solve(own.T @ own, own.T @ noisy @ np.asarray(second.weight).T)
    np.testing.assert_allclose(fused, normal, rtol=1e-9)


@pytest.mark.thorough
def test_pruned_weights_stay_zero_and_shared_weights_stay_equal_in_training():
    network = eqx.nn.MLP(3, 2, 8, 1, key=jr.key(0), dtype=jnp.float64)
    inputs = jr.normal(jr.key(1), (64, 3))
    data = (inputs, (inputs.sum(1) > 0).astype(int))
    pruned = prune_weights(network, 0.25)
    before, mask = network.layers[0].weight, np.asarray(pruned.network.layers[0].weight.mask)
    assert mask.sum() == 6
    assert np.abs(before)[mask].min() >= np.abs(before)[~mask].max()
    options = {"key": 2, "method": Adam(1e-2), "epochs": 3, "progress": False}
    trained = train(pruned, data, cross_entropy, **options).state
    after = np.asarray(trained.dense.layers[0].weight)
    assert (after[~mask] == 0).all()
    assert (after[mask] != np.asarray(before)[mask]).any()
    shared = share_weights(trained, 3, key=jr.key(3))
    moved = train(shared, data, cross_entropy, **options).state
    book, codes = moved.network.layers[0].weight.codebook, moved.network.layers[0].weight.codes
    np.testing.assert_array_equal(codes, shared.network.layers[0].weight.codes)
    assert ((np.asarray(codes) == 0) == ~mask).all()
    assert (book != shared.network.layers[0].weight.codebook).any()

    def loss(network):
        return jax.vmap(network)(inputs).sum()

    # the gradient of a shared value is the sum over its places
    slope = np.asarray(eqx.filter_grad(loss)(shared.dense).layers[0].weight)
    each = eqx.filter_grad(loss)(shared).network.layers[0].weight.codebook
    np.testing.assert_allclose(each, [slope[np.asarray(codes) == c].sum() for c in (1, 2, 3)], rtol=1e-10)


def test_compressed_digits_are_ten_times_smaller_load_back_and_are_as_good(tmp_path):
    seen, held = datasets.digits().split(0.25, seed=0)
    inputs, labels = jnp.asarray(seen.features / 16 - 0.5, jnp.float32), jnp.asarray(seen.target)
    options = {"key": 1, "progress": False}

    def score(network):
        rows = predict_rows(network, (held.features / 16 - 0.5).astype(np.float32))
        return float((np.asarray(rows).argmax(1) == held.target).mean())

    network = eqx.nn.MLP(64, 10, 128, 2, key=jr.key(0), dtype=jnp.float32)
    network = train(network, (inputs, labels), cross_entropy, epochs=25, **options).state
    pruned = train(prune_weights(network, 0.15), (inputs, labels), cross_entropy, epochs=20, **options).state
    shared = share_weights(pruned, 16, key=jr.key(2))
    shared = train(shared, (inputs, labels), cross_entropy, epochs=8, method=Adam(3e-4), **options).state
    size = save_compressed(tmp_path / "small", shared)
    save(tmp_path / "large", jax.tree.leaves(eqx.filter(network, eqx.is_array)))
    assert size.file_bytes == (tmp_path / "small").stat().st_size
    assert size.dense_bytes < (tmp_path / "large").stat().st_size
    assert size.ratio >= 10
    assert size.num_kept <= 0.15 * size.num_weights + 3
    assert score(network) > 0.95
    assert score(shared) >= score(network) - 0.01
    loaded = load_compressed(tmp_path / "small", network)
    for one, other in zip(jax.tree.leaves(loaded), jax.tree.leaves(shared)):
        if eqx.is_array(one):
            np.testing.assert_array_equal(np.asarray(one).view(np.uint32), np.asarray(other).view(np.uint32))
    # the bits are those of the code for the frequencies of the values
    codes = [np.asarray(layer.weight.codes).ravel() for layer in shared.network.layers]
    values = np.concatenate([c[c > 0] for c in codes]).tolist()
    assert size.value_bits == round(HuffmanCode.from_message(values).expected_length * len(values))
    other = eqx.nn.MLP(64, 10, 64, 2, key=jr.key(0), dtype=jnp.float32)
    with pytest.raises(ValueError, match="`like` must be a network with the arrays"):
        load_compressed(tmp_path / "small", other)
    with pytest.raises(StorageError, match="holds no compressed network"):
        load_compressed(tmp_path / "large", network)
    with pytest.raises(ValueError, match="`network` must be one with shared weights"):
        save_compressed(tmp_path / "no", pruned)


@pytest.mark.parametrize("weights", [[[0.0, 2.0]], [[3.0, 3.0]], [[0.5, -0.5, 0.0, 0.25]]])
@pytest.mark.cheap
def test_files_hold_matrices_with_few_values(tmp_path, weights):
    values = jnp.asarray(weights, jnp.float32)
    network = eqx.tree_at(lambda n: n.weight, eqx.nn.Linear(values.shape[1], 1, key=jr.key(0)), values)
    shared = share_weights(network, 4, key=jr.key(0))
    save_compressed(tmp_path / "file", shared)
    loaded = load_compressed(tmp_path / "file", network)
    np.testing.assert_array_equal(loaded.dense.weight, values)
    np.testing.assert_array_equal(loaded.dense.bias, network.bias)


@pytest.mark.thorough
def test_curve_of_accuracy_against_kept_neurons_has_errors_and_fusing_pays():
    scenes = datasets.blobs(400, num_groups=4, dim=3, spread=2.0)
    inputs, labels = jnp.asarray(scenes.features, jnp.float32), jnp.asarray(scenes.target)
    network = MLP((3, 24, 4), key=jr.key(0))
    network = train(network, (inputs, labels), cross_entropy, epochs=20, key=jr.key(1), method=Adam(1e-2),
                    progress=False).state  # fmt: skip
    curve = pruning_curve(network, inputs, (inputs, labels), [4, 24], key=jr.key(2), num_draws=3)
    assert curve.accuracy.shape == (4, 2, 2)
    np.testing.assert_allclose(curve.accuracy[:, 0, 1], curve.whole)  # all are kept
    assert (curve.accuracy[:, 1, 0] >= curve.accuracy[:, 0, 0]).all()  # fused is better, whatever the choice
    assert (curve.errors[[0, 2], 0, 0] > 0).all()
    assert (curve.errors[[1, 3]] == 0).all()
    hidden, layer = hidden_activations(network, inputs), network.layers[0]
    np.testing.assert_allclose(hidden, np.maximum(inputs @ layer.weight.T + layer.bias[None], 0),
                               atol=1e-5)  # fmt: skip
    again = shrink_hidden(network, np.arange(24)[::-1])
    np.testing.assert_allclose(jax.vmap(again)(inputs), jax.vmap(network)(inputs), atol=1e-4)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: activation_kernel(ACTIVATIONS, beta=0.0), "`beta` must be positive"),
        (lambda: activation_kernel([[np.inf]], beta=1.0), "`activations` must be finite"),
        (lambda: median_bandwidth(np.ones((3, 4))), "`activations` must be of neurons that differ"),
        (lambda: choose_neurons(ACTIVATIONS, 4, key=jr.key(0)), "`size` must be a whole number from 1 to 3"),
        (
            lambda: choose_neurons(ACTIVATIONS, 2, key=jr.key(0), method="importance"),
            "`outgoing` must be given",
        ),
        (lambda: prune_weights(eqx.nn.Linear(2, 2, key=jr.key(0)), 0.0), "`kept` must be a share"),
        (lambda: keep_neurons(*[eqx.nn.Linear(2, 2, key=jr.key(0))] * 2, [0, 2]), "`kept` must be distinct"),
    ],
)
@pytest.mark.cheap
def test_errors_name_the_argument(call, said):
    with pytest.raises(ValueError, match=said):
        call()
