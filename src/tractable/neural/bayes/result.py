"""What every approximation answers: draws of the weights, predictions, an evidence where there is one.

Draws        are made once, with the key of the fit, and kept: a prediction of the same rows is the same.
Cost         of a prediction: one pass of the network per draw and row.
"""

from typing import Any

import numpy as np

from tractable.core.checks import as_float, check_finite, check_length
from tractable.core.estimate import Estimate
from tractable.core.module import Module, field
from tractable.core.types import Array, Float
from tractable.core.verdict import Verdict
from tractable.neural.bayes.predictive import NetworkPrediction, mixture_prediction
from tractable.neural.bayes.statement import BayesianNetwork, flat_outputs
from tractable.neural.bayes.verdicts import judge_predictions

__all__ = ["NetworkPosterior"]


class NetworkPosterior(Module):
    """Draws of the weights of a network given its rows, however they were made.

    `stated` holds the prior and the noise that were used; `draws` are flat weights.
    """

    stated: BayesianNetwork
    draws: Float[Array, "s p"] = field(show=False)
    held_out: Verdict | None = field(default=None, kw_only=True, show=False)  # of rows not in the fit

    @property
    def verdict(self) -> Verdict:
        """How far to trust it: by what the method knows of itself and by rows that were held out."""
        own, held = self._own_verdict(), self.held_out
        if own is None or held is None:
            said = "Not certified: judge it by rows that were held out, `judge(x, y)`."
            return next((found for found in (own, held) if found is not None), Verdict(False, said))
        numbers = {**own.numbers, **{f"held_out_{name}": value for name, value in held.numbers.items()}}
        return Verdict(own.ok and held.ok, f"{own.sentence} Held out: {held.sentence}", numbers)

    def _own_verdict(self) -> Verdict | None:
        """What the method knows of itself."""
        return None

    @property
    def log_evidence(self) -> Estimate:
        """The log-probability of the rows, which not every method knows."""
        known = "The Laplace approximations know it; variational ones estimate it."
        raise AttributeError(
            f"`log_evidence` must be asked of a method that has one; got {type(self).__name__}. {known}"
        )

    @property
    def noise(self) -> float:
        """The standard deviation of the noise of targets."""
        return float(self.stated.likelihood.precision) ** -0.5

    def network(self, index: int = 0) -> Any:
        """The network of one draw."""
        return self.stated.network(self.draws[index])

    def outputs(self, x: Any) -> Float[Array, "s n m"]:
        """What the network of each draw says of each row of `x`."""
        return flat_outputs(self.stated, self.draws, self.stated.new_inputs(x))

    def predict(self, x: Any) -> NetworkPrediction:
        """The distribution of the target of each row of `x`, with the shares of its uncertainty."""
        return mixture_prediction(self.stated.likelihood, self.outputs(x))

    def judge(self, x: Any, y: Any, *, beside: "NetworkPosterior | None" = None) -> Verdict:
        """The verdict of rows that were held out, and of another posterior's predictions of them."""
        targets = as_float("y", y)
        check_length("y", targets, "x", x)
        check_finite("y", targets)
        self.stated.likelihood.check_targets(targets)
        other = None if beside is None else beside.predict(x)
        seen = np.asarray(self.stated.targets)[self.stated.present]
        return judge_predictions(self.predict(x), targets, seen=seen, beside=other)
