r"""What pruned neurons cost: a network with fewer hidden neurons, and its score against how many are kept.

Draws.       Where the choice is random (`kdpp`, `random`) it is repeated, and the mean score comes with its
             standard error over the draws; `map` and `importance` choose once.
Cost.        A fit of the fused weights and a pass over the held-out rows per network.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import check, check_count, check_length
from tractable.core.keys import takes_key
from tractable.core.module import HostResult
from tractable.core.programs import program
from tractable.core.types import Array, ArrayLike, Float, Key
from tractable.neural.compression.neurons import choose_neurons, keep_neurons
from tractable.neural.mlp import MLP
from tractable.neural.training import predict_rows

__all__ = ["PruningCurve", "hidden_activations", "pruning_curve", "shrink_hidden"]

Perceptron = MLP | eqx.nn.MLP

_RANDOM = ("kdpp", "random")


class PruningCurve(HostResult):
    """Accuracies on held-out rows by `method`, unfused and fused, against the numbers of neurons kept."""

    methods: tuple[str, ...]
    sizes: np.ndarray
    accuracy: Float[np.ndarray, "methods 2 sizes"]
    errors: Float[np.ndarray, "methods 2 sizes"]
    whole: float


def hidden_activations(network: Perceptron, inputs: ArrayLike, layer: int = 0) -> Float[Array, "n neurons"]:
    """What the neurons of a hidden layer say to each input: the activation matrix."""
    _check_layer(network, layer)

    return _hidden(network, jnp.asarray(inputs), layer)


def shrink_hidden(
    network: Perceptron, kept: ArrayLike, layer: int = 0, activations: ArrayLike | None = None
) -> Perceptron:
    """The network with the neurons `kept` in a hidden layer; with `activations`, others fused into them."""
    _check_layer(network, layer)
    first, second = keep_neurons(network.layers[layer], network.layers[layer + 1], kept, activations)
    return eqx.tree_at(lambda n: (n.layers[layer], n.layers[layer + 1]), network, (first, second))


@takes_key
def pruning_curve(
    network: Perceptron,
    inputs: ArrayLike,
    held_out: tuple[ArrayLike, ArrayLike],
    sizes: list[int],
    *,
    key: Key,
    methods: tuple[str, ...] = ("kdpp", "map", "random", "importance"),
    layer: int = 0,
    num_draws: int = 5,
    jitter: float = 0.01,
) -> PruningCurve:
    """Accuracies of a classifier with fewer neurons in a hidden layer, chosen and fused on `inputs`."""
    check_count("num_draws", num_draws, 2)
    check_length("held_out", held_out[0], "held_out targets", held_out[1])
    activations = hidden_activations(network, inputs, layer)
    outgoing = network.layers[layer + 1].weight.T
    found = np.zeros((2, len(methods), 2, len(sizes)))
    for j, method in enumerate(methods):
        for k, size in enumerate(sizes):
            draws = num_draws if method in _RANDOM else 1
            scores = np.zeros((draws, 2))
            for draw in range(draws):
                own = jr.fold_in(key, (j * len(sizes) + k) * num_draws + draw)
                kept = choose_neurons(
                    activations, size, key=own, method=method, outgoing=outgoing, jitter=jitter
                )
                for fused in (False, True):
                    small = shrink_hidden(network, kept, layer, activations if fused else None)
                    scores[draw, int(fused)] = _accuracy(small, *held_out)
            found[0, j, :, k] = scores.mean(0)
            found[1, j, :, k] = scores.std(0, ddof=1) / np.sqrt(draws) if draws > 1 else 0.0
    return PruningCurve(tuple(methods), np.asarray(sizes), found[0], found[1], _accuracy(network, *held_out))


@program
def _hidden(network: Perceptron, inputs: Array, layer: int) -> Array:
    activation = eqx.filter_vmap(network.activation)  # it stands there once for each layer and neuron
    for linear in network.layers[: layer + 1]:
        inputs = jax.vmap(lambda x, linear=linear: activation(linear(x)))(inputs)
    return inputs


def _accuracy(network: Perceptron, inputs: ArrayLike, targets: ArrayLike) -> float:
    outputs = np.asarray(predict_rows(network, inputs))
    return float((outputs.argmax(1) == np.asarray(targets)).mean())


def _check_layer(network: Perceptron, layer: int) -> None:
    fix = "Hidden layers are counted from 0."
    plain = not any(eqx.is_array(leaf) for leaf in jax.tree.leaves(network.activation))
    check(plain, "network", "one whose activation has no parameters", type(network.activation).__name__)
    check(0 <= layer < len(network.layers) - 1, "layer", "a hidden layer of the network", layer, fix)
