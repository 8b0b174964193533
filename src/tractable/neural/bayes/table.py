r"""A perceptron with uncertain weights fitted to a table: Laplace's approximation as numbers in a file.

Model.       One perceptron of standardised columns and a standardised target, or one logit (two classes), or
             a logit per class; fan-in scaled normal weights, a factor per layer and the noise by the evidence
             (`bayes.evidence`), with one row of small noise so that targets met exactly leave some.
Columns.     Zeros fill them up to a power of two: weights of theirs are at zero, where density and curvature
             are those of the prior, and the evidence is what it was. Another table uses the same programs.
Form.        The full curvature up to `DENSE` weights, Kronecker factors beyond.
Cost.        That of a few tens of Gauss-Newton steps for each of two priors.
References.  MacKay (1992); Immer, Korzepa and Bauer (2021).
"""

import dataclasses
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax.random as jr
import numpy as np

from tractable.bijections.support import unconstrain
from tractable.core.checks import to_device
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.types import Array, Float, Key
from tractable.core.verdict import Verdict
from tractable.inference.curvature.precision import Precision
from tractable.neural.bayes.laplace import NetworkLaplace
from tractable.neural.bayes.likelihoods import OutputDensity
from tractable.neural.bayes.linearised import predicted_outputs
from tractable.neural.bayes.predictive import NetworkPrediction, normal_prediction
from tractable.neural.bayes.priors import NormalWeights
from tractable.neural.bayes.statement import BayesianNetwork, state_network
from tractable.neural.mlp import MLP
from tractable.neural.tabular import widened, with_arrays

__all__ = ["DENSE", "UncertainTable", "fit_uncertain_table"]

DENSE = 700  # weights


class UncertainTable(Module):
    """The Gaussian at a mode of the weights of a perceptron, its evidence and its verdict, as numbers."""

    mode: Float[Array, " p"] = field(show=False)
    precision: Precision = field(show=False)
    prior: NormalWeights = field(show=False)
    density: OutputDensity
    sizes: tuple[int, ...] = field(static=True)
    activation: str = field(static=True)
    log_evidence: float
    effective: Float[Array, " g"]
    verdict: Verdict

    def predict(self, X: np.ndarray) -> NetworkPrediction:
        """The distribution of the target of each row, with the shares of its uncertainty."""
        return normal_prediction(self.density, *self.outputs(X))

    def outputs(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The mean and the covariance of the outputs for each row of standardised columns."""
        stated = _stated(self.sizes, self.activation, self.density, self.prior)
        return predicted_outputs(stated, self.mode, self.precision, 0, widened(X))


@takes_key
def fit_uncertain_table(
    X: np.ndarray,
    y: np.ndarray,
    weights: np.ndarray,
    *,
    key: Key,
    num_classes: int = 0,
    hidden: tuple[int, ...] = (16,),
    activation: str = "tanh",
    max_rounds: int = 20,
    num_starts: int = 1,
) -> UncertainTable:
    """The approximation for numbers, or for `num_classes` classes; `weights` say how often a row counts."""
    key_network, key_fit = jr.split(key)
    num_outputs = num_classes if num_classes > 2 else 1
    sizes = (widened(X).shape[1], *hidden, num_outputs)
    network = _first(sizes, activation, key_network, X.shape[1])
    likelihood = "classes" if num_classes else "normal"
    start, stated = state_network(network, (widened(X), y), likelihood, "layers", row_weights=weights)
    stated = dataclasses.replace(stated, prior=_prior(stated, X.shape[1]))
    form = "full" if stated.num_weights <= DENSE else "kronecker"
    method = NetworkLaplace(
        form, max_rounds=max_rounds, num_starts=num_starts, pseudo_rows=1.0, pseudo_noise=0.1
    )
    found = method.approximation(stated, start, key_fit)
    prior: Any = found.stated.prior
    return UncertainTable(
        found.mode, found.precision, prior, found.stated.likelihood, sizes, activation,
        float(found.evidence), found.effective, found.verdict,
    )  # fmt: skip


def _first(sizes: tuple[int, ...], activation: str, key: Key, num_columns: int) -> MLP:
    """A perceptron as it is drawn, without weights of the columns that only fill up."""
    network = MLP(sizes, activation, key=key, dtype=float)
    weight = np.array(network.layers[0].weight)
    weight[:, num_columns:] = 0.0
    return eqx.tree_at(lambda n: n.layers[0].weight, network, to_device(weight))


def _prior(stated: BayesianNetwork, num_columns: int) -> NormalWeights:
    """The fan-in prior of the columns that there are."""
    prior: Any = stated.prior
    base = np.array(prior.base)
    base[: stated.rebuild.slots[0].size] = num_columns
    return dataclasses.replace(prior, base=to_device(base))


def _stated(
    sizes: tuple[int, ...], activation: str, density: OutputDensity, prior: NormalWeights
) -> BayesianNetwork:
    """The model without rows."""
    arrays = tuple(to_device(np.zeros(shape)) for m, n in pairwise(sizes) for shape in ((n, m), (n,)))
    network = with_arrays(lambda: MLP(sizes, activation, key=jr.key(0), dtype=float), arrays)
    rebuild = unconstrain(network, name="network")[1]
    row = np.zeros((1, sizes[0])), np.zeros(1)
    return BayesianNetwork(rebuild, density, prior, *map(to_device, row))
