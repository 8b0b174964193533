r"""A network as a model of rows: outputs, likelihood and prior as functions of one flat vector of weights.

Joint.       $\log p(y, w \mid X) = \sum_n \log p(y_n \mid f_w(x_n)) + \log p(w)$.
Digits.      All of it is computed in float64, whatever the network was made in: modes are found to rounding
             and evidences are differences of large numbers.
Weights.     $\sum_n c_n \log p(y_n \mid f_w(x_n))$: a row of weight two is the row twice, one of weight zero
             is absent, and rows that only fill a shape have weight zero.
Cost.        One pass of the network per row.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tractable.bijections.support import Rebuild, unconstrain
from tractable.core.checks import as_float, check, check_finite, check_length, to_device
from tractable.core.chunks import pad_rows
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.rows import row_weights as checked_counts
from tractable.core.types import Array, Float, Key, Scalar
from tractable.neural.bayes.likelihoods import NormalNoise, OutputDensity, as_density
from tractable.neural.bayes.priors import WeightPrior, as_prior

__all__ = ["BayesianNetwork", "flat_outputs", "redrawn", "state_network", "without_rows"]

_FIRST_NOISE = 0.3  # of the targets' deviation, where the noise is to be found
_LARGEST_BLOCK = 256  # rows whose outputs are computed at once


class BayesianNetwork(Module):
    """A network, the density of its targets, the prior of its weights, and the rows.

    `row_weights` say how often each row counts; None is once each.
    """

    rebuild: Rebuild = field(show=False)
    likelihood: OutputDensity
    prior: WeightPrior
    inputs: Float[Array, "n ..."] = field(show=False)
    targets: Float[Array, " n"] = field(show=False)
    row_weights: Float[Array, " n"] | None = field(show=False, default=None)

    @property
    def num_rows(self) -> int:
        return self.targets.shape[0]

    @property
    def counts(self) -> Float[Array, " n"]:
        """How often each row counts."""
        return jnp.ones_like(self.targets) if self.row_weights is None else self.row_weights

    @property
    def present(self) -> np.ndarray:
        """Which rows count at all."""
        weights = self.row_weights
        return np.ones(self.num_rows, bool) if weights is None else np.asarray(weights) > 0

    def padded(self) -> "BayesianNetwork":
        """The same with rows of weight zero up to a bucket: other numbers of rows use the same programs."""
        (inputs, targets), weights = pad_rows((self.inputs, self.targets), self.row_weights)
        return replace(self, inputs=inputs, targets=targets, row_weights=weights)

    @property
    def num_weights(self) -> int:
        return self.rebuild.size

    def network(self, weights: Float[Array, " p"]) -> Any:
        """The network with these weights."""
        return self.rebuild(weights)[0]

    def output(self, weights: Float[Array, " p"], x: Array, key: Key | None = None) -> Float[Array, " m"]:
        """The outputs for one row; a `key` is for networks that are random."""
        network = self.network(weights)
        return jnp.ravel(network(x) if key is None else network(x, key=key))

    def row_log_prob(self, weights: Float[Array, " p"], x: Array, y: Scalar) -> Scalar:
        """The log-likelihood of one row."""
        return self.likelihood.log_prob(self.output(weights, x), y)

    def log_likelihood(self, weights: Float[Array, " p"]) -> Scalar:
        """The log-likelihood of all rows."""
        each = jax.vmap(lambda x, y: self.row_log_prob(weights, x, y))(self.inputs, self.targets)
        return each.sum() if self.row_weights is None else self.row_weights @ each

    def log_joint(self, weights: Float[Array, " p"]) -> Scalar:
        r"""$\log p(y, w \mid X)$."""
        return self.log_likelihood(weights) + self.prior.log_prob(weights)

    def new_inputs(self, x: Any) -> Array:
        """New rows, refused where they are not like those of the fit; one row alone is one."""
        rows, like = as_float("x", x), self.inputs.shape[1:]
        fix = f"Each row of the fit has the shape {like}."
        check(rows.shape[1:] == like, "x", f"of shape (rows, {', '.join(map(str, like))})", rows.shape, fix)
        check(rows.shape[0] > 0, "x", "at least one row", "none")
        check_finite("x", rows)
        return rows.astype(self.inputs.dtype)


def state_network(
    network: Any,
    data: Any,
    likelihood: Any,
    prior: Any,
    *,
    random: bool = False,
    row_weights: Any = None,
) -> tuple[Float[Array, " p"], BayesianNetwork]:
    """The weights of `network`, and the model that it makes of `data` = (inputs, targets).

    `random` leaves layers such as dropout as they are; otherwise they are switched off.
    """
    inputs, targets = _checked_rows(data)
    network = in_double(network if random else eqx.nn.inference_mode(network))
    weights, rebuild = unconstrain(network, name="network")
    check(weights.size > 0, "network", "one with weights", "one without a single float array")
    check_finite("network", weights)
    density = as_density(likelihood, _num_outputs(network, inputs, random))
    check(
        targets.ndim == 1, "targets", "one number per row", f"shape {targets.shape}", "Fit one network each."
    )
    density.check_targets(targets)
    density.check_fitted(targets)
    if row_weights is not None:
        row_weights = to_device(checked_counts(row_weights, targets.shape[0]))
    spread = _deviation(targets, row_weights)
    if isinstance(density, NormalNoise) and density.tuned and spread > 0:
        density = replace(density, log_scale=to_device(np.asarray(np.log(_FIRST_NOISE * spread))))
    return weights, BayesianNetwork(rebuild, density, as_prior(prior, rebuild), inputs, targets, row_weights)


def _deviation(targets: Array, row_weights: Any) -> float:
    """Of the targets, on the host; rows count as often as they do."""
    y = np.asarray(targets)
    centre = np.average(y, weights=row_weights)
    return float(np.sqrt(np.average((y - centre) ** 2, weights=row_weights)))


def in_double(network: Any) -> Any:
    """The network with its floats in float64."""
    return jax.tree.map(lambda leaf: leaf.astype(float) if eqx.is_inexact_array(leaf) else leaf, network)


def without_rows(stated: BayesianNetwork) -> Any:
    """The model without the rows of the fit, whose programs serve any of them; one row stands for all."""
    inputs, targets = (to_device(np.asarray(rows)[:1]) for rows in (stated.inputs, stated.targets))
    return replace(stated, inputs=inputs, targets=targets, row_weights=None)


def redrawn(rebuild: Rebuild, weights: Float[Array, " p"], key: Key, count: int) -> Float[Array, "count p"]:
    r"""`count` other starts: arrays of two or more axes uniform within $\pm 1/\sqrt{\text{fan-in}}$, all
    others (biases, scales) as they are."""
    parts, start = [], 0
    for slot, own in zip(rebuild.slots, jax.random.split(key, len(rebuild.slots))):
        piece = jnp.broadcast_to(weights[start : start + slot.size], (count, slot.size))
        if len(slot.shape) > 1:
            reach = float(np.prod(slot.shape[1:])) ** -0.5
            piece = jax.random.uniform(own, (count, slot.size), weights.dtype, -reach, reach)
        parts.append(piece)
        start += slot.size
    return jnp.concatenate(parts, axis=1)


@program
def flat_outputs(
    stated: BayesianNetwork, draws: Float[Array, "s p"], x: Array, keys: Any = None
) -> Float[Array, "s n m"]:
    """The outputs of each draw of the weights for each row; random networks have key words each."""

    def of_row(row):
        if keys is None:
            return jax.vmap(lambda weights: stated.output(weights, row))(draws)

        def masked(weights, words):
            return stated.output(weights, row, jax.random.wrap_key_data(words))  # the same in every row

        return jax.vmap(masked)(draws, keys)

    return jnp.swapaxes(jax.lax.map(of_row, x, batch_size=min(_LARGEST_BLOCK, x.shape[0])), 0, 1)


def _checked_rows(data: Any) -> tuple[Array, Array]:
    pair = isinstance(data, tuple | list) and len(data) == 2
    check(pair, "data", "a pair (inputs, targets)", type(data).__name__)
    inputs, targets = as_float("inputs", data[0]), as_float("targets", data[1])
    fix = "A table of one column has the shape (rows, 1)."
    check(inputs.ndim >= 2, "inputs", "an array with one row per example", f"shape {inputs.shape}", fix)
    check(inputs.shape[0] > 0, "inputs", "at least one row", "none")
    check_length("targets", targets, "inputs", inputs)
    check_finite("inputs", inputs)
    check_finite("targets", targets)
    targets = targets[:, 0] if targets.ndim == 2 and targets.shape[1] == 1 else targets
    return inputs.astype(float), targets.astype(float)


def _num_outputs(network: Callable, inputs: Array, random: bool) -> int:
    """How many numbers the network returns for one row; it is traced, not run."""
    arrays, rest = eqx.partition(network, eqx.is_array)

    def first(arrays: Any, x: Array) -> Any:
        whole = eqx.combine(arrays, rest)
        return whole(x, key=jax.random.key(0)) if random else whole(x)

    try:
        output = jax.eval_shape(first, arrays, np.asarray(inputs)[0])
    except (TypeError, ValueError) as error:
        fix = f"For a row of shape {inputs.shape[1:]} it says: {error}"
        check(False, "network", "a function of one row of `inputs`", type(network).__name__, fix)
        raise
    single = hasattr(output, "shape") and len(output.shape) <= 1
    check(single, "network", "one number or a vector for a row", f"{output}")
    return int(np.prod(output.shape))
