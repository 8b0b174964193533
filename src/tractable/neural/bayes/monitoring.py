r"""Predictions at work: act on what the network is sure of, hand the rest over to a person, notice a drift.

Hand over.   A row is acted on where its uncertainty is at most $t$: the largest $t$ at which the risk of the
             rows below it stays within what is allowed, on rows that were held out; with `failure`, a bound
             that fails with this probability at most (`supervised.selection.uncertainty`).
Drift.       The linearised network is jointly normal over rows, $N(f, J A^{-1} J^\top + \sigma^2 I)$: each
             target beside what those before it predict, by the same alarm as that of a Gaussian process
             (`inference.trust.monitoring`).
Cost.        A prediction per row; for the drift a Cholesky factor of the rows watched.
References.  Bortolussi, Cairoli et al. (2019), "Neural predictive monitoring".
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import as_float, check, check_count, check_length
from tractable.core.factors import positive_definite_factor
from tractable.core.module import Module
from tractable.core.programs import program
from tractable.core.types import Array, Bool, Float, Values
from tractable.distributions.continuous import Normal
from tractable.inference.trust.monitoring import PredictiveMonitor, one_step_ahead
from tractable.neural.bayes.curvature import outputs_in_units
from tractable.neural.bayes.likelihoods import NormalNoise
from tractable.neural.bayes.linearised import LaplaceNetwork
from tractable.neural.bayes.predictive import NetworkPrediction
from tractable.neural.bayes.result import NetworkPosterior
from tractable.supervised.selection.uncertainty import (
    SelectivePrediction,
    class_uncertainty,
    threshold_for_risk,
)

__all__ = ["HandOver", "hand_over", "monitor_network"]


class HandOver(Module):
    """A rule that acts or hands over, and what it did on the rows that it was chosen by."""

    posterior: NetworkPosterior
    chosen: SelectivePrediction

    def acts(self, x: Any) -> Bool[Values, " n"]:
        """Whether to act on each row; the others are for a person."""
        return _uncertainty(self.posterior.predict(x)) <= self.chosen.threshold


def hand_over(
    posterior: NetworkPosterior, x: Any, y: Any, risk: float, *, failure: float | None = None
) -> HandOver:
    """The rule that acts on as many rows as it may, for a `risk` of held-out rows (x, y).

    The loss of a class is 0 or 1, that of a number its squared error. `failure` (for classes) is the
    probability with which the bound on the risk of new rows may fail.
    """
    prediction, targets = posterior.predict(x), np.asarray(as_float("y", y))
    check_length("y", targets, "x", x)
    numeric = posterior.stated.likelihood.is_numeric
    losses = (prediction.value - targets) ** 2 if numeric else 1.0 * (prediction.probs.argmax(1) != targets)
    return HandOver(posterior, threshold_for_risk(_uncertainty(prediction), losses, risk, failure=failure))


def monitor_network(
    posterior: NetworkPosterior, x: Any, y: Any, *, num_trusted: int = 0, level: float = 0.01
) -> PredictiveMonitor:
    """Each target of new rows, in their order, beside what the fit and the rows before it predict."""
    fix = "Take a posterior of `NetworkLaplace` with normal noise."
    able = isinstance(posterior, LaplaceNetwork) and isinstance(posterior.stated.likelihood, NormalNoise)
    check(able, "posterior", "jointly normal over rows", type(posterior).__name__, fix, TypeError)
    assert isinstance(posterior, LaplaceNetwork)
    check(0 < level < 1, "level", "between 0 and 1", level)
    rows, targets = posterior.stated.new_inputs(x), as_float("y", y)
    check_length("y", targets, "x", rows)
    trusted = check_count("num_trusted", num_trusted, 0, targets.shape[0])
    loc, scale, error, density, odds = _watched(posterior, rows, targets, jnp.asarray(trusted))
    return PredictiveMonitor(Normal(loc, scale), error, density, odds, float(level))


def _uncertainty(prediction: NetworkPrediction) -> Float[Values, " n"]:
    if hasattr(prediction.distribution, "probs"):
        return class_uncertainty(prediction.probs, "error")
    return prediction.std


@program
def _watched(posterior: LaplaceNetwork, x: Array, y: Array, trusted: Array) -> tuple[Array, ...]:
    model, u = outputs_in_units(posterior.stated, posterior.mode, posterior.first)
    mean = jax.vmap(lambda row: model(u, row)[0])(x)
    slopes = jax.vmap(lambda row: jax.grad(lambda v: model(v, row)[0])(u))(x)
    cov = slopes @ jax.vmap(posterior.precision.solve)(slopes).T
    noise = 1 / posterior.stated.likelihood.precision
    factor = positive_definite_factor(0.5 * (cov + cov.T) + noise * jnp.eye(y.shape[0]))
    return one_step_ahead(y, y - mean, factor, trusted)
