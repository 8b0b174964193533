r"""What a Gaussian at a mode says: linearised predictions, rows left out one at a time, draws, a verdict.

Linear.      $f(x) \sim N(f_{w_0}(x), S(x))$, $S = J A^{-1} J^\top$ with $J = \partial f/\partial u$.
Left out.    Without row $i$ the Gaussian of its own outputs is $N(f_i + S_{-i} g_i, S_{-i})$ with $S_{-i} =
             (I - S_i H_i)^{-1} S_i$, $g_i$ and $H_i$ the gradient and the Hessian of its loss (times its
             weight, with which it is left out): exact for linear networks with normal noise.
Verdict.     Against a mode that was not reached, a matrix that is not positive definite, and predictions of
             left-out rows that are worse than none or badly calibrated: an overfitted mode is refused.
Cost.        $m$ gradients and solves with $A$ per row.
References.  Immer, Korzepa and Bauer (2021); Bishop (2006) section 5.7.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import to_device
from tractable.core.chunks import pad_rows
from tractable.core.estimate import Estimate
from tractable.core.module import field
from tractable.core.programs import program
from tractable.core.types import Array, Float, Key, Scalar
from tractable.core.verdict import Verdict
from tractable.inference.curvature.precision import DensePrecision, Precision
from tractable.neural.bayes.linearisation import linearised_rows, output_terms
from tractable.neural.bayes.predictive import NetworkPrediction, normal_prediction
from tractable.neural.bayes.priors import NormalWeights
from tractable.neural.bayes.result import NetworkPosterior
from tractable.neural.bayes.statement import BayesianNetwork
from tractable.neural.bayes.verdicts import judge_predictions

__all__ = ["LaplaceNetwork", "examined", "predicted_outputs"]

_AT_MODE = 0.1  # posterior deviations: the evidence is off by half the square
_BLOCK = 4096  # rows whose slopes are in memory at once


class LaplaceNetwork(NetworkPosterior):
    """The Gaussian at a mode of the weights from `first` on, in units of the prior, and its evidence.

    `effective` counts the weights of each layer that the rows determine.
    """

    mode: Float[Array, " p"] = field(show=False)
    precision: Precision = field(show=False)
    offset: Scalar
    evidence: Scalar
    effective: Float[Array, " g"]
    left_out: NetworkPrediction | None = field(show=False)  # rows that count, each without it; None where one
    # has no prediction without it
    first: int = field(static=True)
    linearised: bool = field(static=True)

    @property
    def log_evidence(self) -> Estimate:
        return Estimate(self.evidence, 0.5 * self.offset**2, method="laplace")

    def predict(self, x: Any) -> NetworkPrediction:
        if not self.linearised:
            return super().predict(x)
        inputs = self.stated.new_inputs(x)
        mean, cov = predicted_outputs(self.stated, self.mode, self.precision, self.first, inputs)
        return normal_prediction(self.stated.likelihood, mean, cov)

    def _own_verdict(self) -> Verdict:
        """Whether there is a mode, and what it says of rows that are left out."""
        offset, count = float(self.offset), float(self.effective.sum())
        numbers = {"offset": offset, "effective": count, "log_evidence": float(self.evidence)}
        if not np.isfinite(offset) or not np.isfinite(float(self.evidence)):
            return Verdict(False, "No Gaussian: the curvature is not positive definite.", numbers)
        if offset > _AT_MODE:
            said = f"Not at a mode: {offset:.3g} posterior deviations away. Train longer, or let it search."
            return Verdict(False, said, numbers)
        if self.left_out is None:
            said = "Overfitted: there is a row that the network would not predict at all without it."
            return Verdict(False, said, numbers)
        found = judge_predictions(self.left_out, np.asarray(self.stated.targets)[self.stated.present])
        numbers |= found.numbers
        told = f"the rows determine {count:.3g} of {self.mode.size - self.first} weights."
        if found.ok:
            return Verdict(True, f"At a mode; {told} Left out one at a time: {found.sentence}", numbers)
        kind = (
            "Overfitted" if numbers.get("log_score", -np.inf) < numbers["marginal_log_score"] else "Refused"
        )
        return Verdict(False, f"{kind}: {told} Left out one at a time: {found.sentence}", numbers)

    def drawn(self, key: Key, count: int) -> "LaplaceNetwork":
        """The same with draws of the weights."""
        return dataclasses.replace(self, draws=_draws(self, jr.normal(key, (count, self.precision.size))))


def examined(
    stated: BayesianNetwork,
    mode: Float[Array, " p"],
    precision: Precision,
    first: int,
    offset: Scalar,
    evidence: Scalar,
    linearised: bool,
) -> LaplaceNetwork:
    """The approximation with its rows left out; draws are added by `drawn`."""
    mean, cov = _without_each(stated, mode, precision, first)
    spread = np.diagonal(cov, axis1=1, axis2=2)
    known = np.isfinite(mean).all() and (spread >= 0).all()  # else the row has all the leverage
    left_out = normal_prediction(stated.likelihood, mean, cov) if known else None
    effective = _effective(stated.prior, precision, first)
    return LaplaceNetwork(
        stated, mode[None], mode, precision, offset, evidence, effective, left_out, first, linearised
    )


def predicted_outputs(
    stated: BayesianNetwork, mode: Float[Array, " p"], precision: Precision, first: int, x: Any
) -> tuple[np.ndarray, np.ndarray]:
    """The means and the covariances of the outputs of the linear network for rows `x`, on the host."""
    rows, means, covs = np.asarray(x), [], []
    for start in range(0, len(rows), _BLOCK):
        mean, slopes = linearised_rows(stated, mode, first, rows[start : start + _BLOCK])
        if isinstance(precision, DensePrecision):
            with np.errstate(invalid="ignore", divide="ignore"):  # not positive definite: NaN
                host = precision.on_host()
                root = slopes / host.scale @ host.vectors / np.sqrt(host.values)
            cov = root @ np.swapaxes(root, 1, 2)
        else:
            cov = np.asarray(_covariances(precision, pad_rows(slopes)[0]))[: len(mean)]
        means.append(mean)
        covs.append(0.5 * (cov + np.swapaxes(cov, 1, 2)))
    return np.concatenate(means), np.concatenate(covs)


@program
def _covariances(precision: Precision, slopes: Float[Array, "n m k"]) -> Float[Array, "n m m"]:
    def row(own):
        return own @ jax.vmap(precision.solve)(own).T

    return jax.lax.map(row, slopes, batch_size=min(256, slopes.shape[0]))


def _without_each(
    stated: BayesianNetwork, mode: Array, precision: Precision, first: int
) -> tuple[np.ndarray, np.ndarray]:
    """The outputs of each row that counts without it."""
    density, kept = stated.likelihood, stated.present
    mean, cov = (a[kept] for a in predicted_outputs(stated, mode, precision, first, stated.inputs))
    terms = output_terms(density, mean, np.asarray(stated.targets)[kept])
    size = float(density.precision) * np.asarray(stated.counts)[kept]
    seen = np.eye(mean.shape[1]) - cov @ (size[:, None, None] * terms.bend)
    whole = np.linalg.det(seen) != 0
    wider = np.full(cov.shape, np.nan)
    wider[whole] = np.linalg.solve(seen[whole], cov[whole])
    moved = mean + np.einsum("nij,nj->ni", wider, size[:, None] * terms.slope)
    return moved, 0.5 * (wider + np.swapaxes(wider, 1, 2))


def _effective(prior: Any, precision: Precision, first: int) -> Float[Array, " g"]:
    """How many weights of each layer the rows determine."""
    dense = isinstance(precision, DensePrecision)
    spread = np.asarray(precision.on_host().variances() if dense else _variances(precision))
    layer, count = np.asarray(prior.layer)[first:], prior.factor.size
    held = np.bincount(layer, minlength=count)
    return to_device(held - np.asarray(prior.factor) * np.bincount(layer, spread, count))


@program
def _variances(precision: Precision) -> Float[Array, " p"]:
    return precision.variances()


@program
def _draws(found: LaplaceNetwork, noise: Float[Array, "s k"]) -> Float[Array, "s p"]:
    prior = found.stated.prior
    assert isinstance(prior, NormalWeights)
    moved = jax.vmap(found.precision.root)(noise) * (prior.base[found.first :] ** -0.5)[None]
    start = jnp.broadcast_to(found.mode, (noise.shape[0], found.mode.size))
    return start.at[:, found.first :].add(moved)
