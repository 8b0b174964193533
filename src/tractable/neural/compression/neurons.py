r"""Fewer neurons: a diverse subset of a layer by determinantal point processes, the rest fused into it.

Kernel.      $L_{ij} = e^{-\beta\|v_i - v_j\|^2}$ for the activations $v_i \in R^J$ of neuron $i$ on $J$
             inputs: two neurons that say the same are never both kept.
Choice.      $Y$ of $k$ neurons: a draw of the $k$-DPP, $P(Y) \propto \det L_Y$; the greedy mode ("map"); as
             baselines, at random ("random") or the largest outgoing weights ("importance").
Fusing.      The next layer's weights become $\arg\min_{\tilde W}\|V_Y\tilde W - VW\|^2$: what the dropped
             neurons said is said by the kept ones, as far as they can; with `bias` a constant helps.
Cost.        $O(n^2J + n^3)$ for $n$ neurons.
References.  Mariet and Sra (2016), "Diversity networks"; He et al. (2014) for outgoing weights.
"""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import as_float, check, check_count, check_finite, check_option, check_shape
from tractable.core.geometry import squared_distances
from tractable.core.keys import takes_key
from tractable.core.types import Array, ArrayLike, Float, Key
from tractable.distributions.kdpp import KDPP

__all__ = ["activation_kernel", "choose_neurons", "fuse_neurons", "keep_neurons", "median_bandwidth"]

_METHODS = ("kdpp", "map", "random", "importance")


def activation_kernel(
    activations: ArrayLike, *, beta: float | None = None, jitter: float = 0.0
) -> Float[Array, "n n"]:
    r"""$e^{-\beta\|v_i - v_j\|^2}$ plus `jitter` on the diagonal, for activations (inputs, neurons).

    >>> kernel = activation_kernel([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [0.0, 0.0, 0.0]], beta=1.0)
    >>> kernel[0].round(8).tolist()
    [1.0, 0.13533528, 0.36787944]
    """
    rows = _activations(activations).T
    beta = median_bandwidth(activations) if beta is None else beta
    check(beta > 0, "beta", "positive", beta)
    check(jitter >= 0, "jitter", "zero or positive", jitter)
    kernel = jnp.exp(-beta * squared_distances(rows))
    return kernel + jitter * jnp.eye(kernel.shape[0], dtype=kernel.dtype)


def median_bandwidth(activations: ArrayLike) -> float:
    r"""$\beta = 1 / \mathrm{median}_{i<j}\|v_i - v_j\|^2$: the usual distance has the similarity $e^{-1}$."""
    squared = np.asarray(squared_distances(_activations(activations).T))
    middle = float(np.median(squared[np.triu_indices(len(squared), 1)])) if len(squared) > 1 else 0.0
    fix = "Most neurons are copies of each other; give `beta`."
    check(middle > 0, "activations", "of neurons that differ", f"the median distance {middle}", fix)
    return 1 / middle


@takes_key
def choose_neurons(
    activations: ArrayLike,
    size: int,
    *,
    key: Key,
    method: str = "kdpp",
    outgoing: ArrayLike | None = None,
    beta: float | None = None,
    jitter: float = 0.0,
) -> np.ndarray:
    """The places of `size` neurons to keep, in order, by their activations (inputs, neurons).

    `method` is "kdpp", "map", "random" or "importance", which takes the largest rows of the `outgoing`
    weights (neurons, next). "map" needs as many neurons that differ as it keeps.
    """
    check_option("method", method, _METHODS)
    values = _activations(activations)
    size = check_count("size", size, 1, values.shape[1])
    if method == "random":
        return np.sort(np.asarray(jr.choice(key, values.shape[1], (size,), replace=False)))
    if method == "importance":
        fix = "Give the weights from these neurons to the next layer."
        check(outgoing is not None, "outgoing", "given for `importance`", None, fix)
        weights = as_float("outgoing", outgoing)
        check_shape("outgoing", weights, (values.shape[1], None))
        norms = np.asarray(jnp.sqrt((weights**2).sum(1)))
        return np.sort(np.argsort(-norms, kind="stable")[:size])
    process = KDPP(activation_kernel(values.astype(float), beta=beta, jitter=jitter), size)
    mask = process.sample(key) if method == "kdpp" else process.map_greedy()
    return np.flatnonzero(np.asarray(mask))


def fuse_neurons(
    activations: ArrayLike, weights: ArrayLike, kept: ArrayLike, *, bias: bool = False
) -> tuple[Float[Array, "kept next"], Float[Array, " next"]]:
    r"""$\arg\min_{\tilde W}\|V_Y\tilde W - VW\|^2$ for weights (neurons, next), and the change of the bias.

    The least solution where there are several; the change is zero without `bias`.

    >>> activations = [[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [0.0, 0.0, 0.0]]
    >>> fuse_neurons(activations, [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [0, 1])[0].round(9).tolist()
    [[6.0, 8.0], [8.0, 10.0]]
    """
    values, weights = _activations(activations), as_float("weights", weights)
    check_shape("weights", weights, (values.shape[1], None))
    kept = np.asarray(kept, int)
    own = values[:, kept]
    ones = jnp.ones((values.shape[0], 1), values.dtype)
    columns = jnp.concatenate([own, ones], 1) if bias else own
    found = jnp.linalg.lstsq(columns, values @ weights)[0]
    return found[: len(kept)], found[-1] if bias else jnp.zeros(weights.shape[1], found.dtype)


def keep_neurons(
    into: eqx.nn.Linear, out: eqx.nn.Linear, kept: ArrayLike, activations: ArrayLike | None = None
) -> tuple[eqx.nn.Linear, eqx.nn.Linear]:
    """The layer into some neurons and the one out of them, with the neurons `kept` only.

    With their `activations` (inputs, neurons) on some inputs, the others are fused into them.
    """
    kept = np.asarray(kept, int)
    check(kept.ndim == 1 and len(kept) > 0, "kept", "the places of at least one neuron", kept)
    low, high = int(kept.min()), int(kept.max())
    count = len(into.weight)
    fits = low >= 0 and high < count and len(set(kept.tolist())) == len(kept)
    check(fits, "kept", f"distinct places below {count}", kept.tolist())
    check(out.in_features == count, "out", f"a layer with {count} inputs", out.in_features)
    weight, bias = out.weight[:, kept], out.bias
    if activations is not None:
        fused, shift = fuse_neurons(activations, out.weight.T, kept, bias=bias is not None)
        weight = fused.T.astype(weight.dtype)
        bias = None if bias is None else bias + shift.astype(bias.dtype)
    first = _resized(into.weight[kept], None if into.bias is None else into.bias[kept])
    return first, _resized(weight, bias)


def _resized(weight: Array, bias: Array | None) -> eqx.nn.Linear:
    """A layer of these arrays."""
    out_features, in_features = weight.shape
    empty = eqx.filter_eval_shape(
        lambda: eqx.nn.Linear(in_features, out_features, bias is not None, key=jr.key(0))
    )
    if bias is None:
        return eqx.tree_at(lambda linear: linear.weight, empty, weight)
    return eqx.tree_at(lambda linear: (linear.weight, linear.bias), empty, (weight, bias))


def _activations(activations: ArrayLike) -> Array:
    values = as_float("activations", activations)
    check_shape("activations", values, (None, None), "One input to a row, one neuron to a column.")
    check_finite("activations", values)
    return values
