r"""Prior and noise for every method: those of the highest evidence at a mode, unless they are given.

Rule.        A normal prior and an unknown noise are tuned by Laplace's evidence (`bayes.laplace`), with the
             full curvature up to a thousand weights and its diagonal beyond; the noise under another prior is
             that of a normal one. A head that says its own noise has no such evidence: factors of one.
Cost.        That of a Laplace approximation; nothing where all is given.
"""

import dataclasses

from tractable.core.types import Array, Float
from tractable.neural.bayes.laplace import NetworkLaplace
from tractable.neural.bayes.likelihoods import NormalHead
from tractable.neural.bayes.mode import find_mode
from tractable.neural.bayes.priors import NormalWeights, as_prior
from tractable.neural.bayes.statement import BayesianNetwork

__all__ = ["tuned_model"]

_DENSE = 1000


def tuned_model(
    stated: BayesianNetwork, weights: Float[Array, " p"]
) -> tuple[BayesianNetwork, Float[Array, " p"]]:
    """The model with its prior and noise decided, and a mode of its weights."""
    prior = stated.prior
    if isinstance(stated.likelihood, NormalHead):
        if isinstance(prior, NormalWeights) and prior.tuned:
            stated = dataclasses.replace(stated, prior=dataclasses.replace(prior, tuned=False))
        return stated, find_mode(stated, weights).state
    if prior.tuned or stated.likelihood.tuned:
        normal = prior if isinstance(prior, NormalWeights) else as_prior("layers", stated.rebuild)
        form = "full" if stated.num_weights <= _DENSE else "diagonal"
        found, weights = NetworkLaplace(form).tuned(dataclasses.replace(stated, prior=normal), weights)
        if isinstance(prior, NormalWeights):
            return found, weights
        stated = dataclasses.replace(found, prior=prior)
    return stated, find_mode(stated, weights).state
