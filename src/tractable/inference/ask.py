"""`posterior` and `predict`: two verbs that ask any model of any package.

Posterior.   The unknowns given data: by the model's own `posterior` (Gaussian processes, conjugate
             regression), by adding statistics (a prior with a likelihood that it is conjugate to), by
             the marginals of a network or the conditional of a table given evidence, or by Markov chains
             (a log-density with a `start` and a `key`; a prior with a likelihood that is a function).
Predict.     The distribution of what is seen next at `x`: `predict_dist`, class probabilities, a conditional
             distribution that is called, or the predictive distribution of a conjugate prior.
Cost.        None of their own.
"""

from types import FunctionType
from typing import Any

from tractable.core.checks import check
from tractable.core.interfaces import HasMarginals, HasPosterior, HasPredictions, HasQueries
from tractable.core.iterate import Run
from tractable.distributions.base import Distribution
from tractable.inference.posterior import Posterior

__all__ = ["posterior", "predict"]


def posterior(model: Any, *data: Any, **options: Any) -> Any:
    """The distribution of the unknowns of `model` given `data`.

    `data` are arguments, or one tuple of them: `posterior(process, X, y)` or `posterior(process, (X, y))`.
    After a prior the first is the likelihood: one that it is conjugate to, or a function as in `mcmc`.

    >>> import jax.numpy as jnp
    >>> from tractable.distributions import Bernoulli, Beta
    >>> posterior(Beta(2.0, 2.0), Bernoulli, jnp.array([1, 1, 1, 0])).distribution
    Beta(a=5.0, b=3.0)
    """
    parts = data[0] if len(data) == 1 and isinstance(data[0], tuple) else data
    if isinstance(model, HasPosterior):
        return model.posterior(*parts, **options)
    if len(parts) > 0 and isinstance(parts[0], FunctionType):
        from tractable.inference.chains.mcmc import mcmc

        return mcmc(prior=model, likelihood=parts[0], args=tuple(parts[1:]), **options)
    if isinstance(model, Distribution) and len(parts) == 2:
        from tractable.inference.exact import exact_posterior

        return exact_posterior(model, *parts, **options)
    if isinstance(model, HasMarginals):
        return model.marginals(*parts, **options)
    if isinstance(model, HasQueries):
        return model.condition(*parts, **options)
    must = "one with `posterior`, a conjugate prior with a likelihood, a network, a table or a log-density"
    check(callable(model), "model", must, type(model).__name__, error=TypeError)
    fix = "A log-density needs `posterior(log_density, data, start=..., key=...)`."
    check("start" in options and "key" in options, "start, key", "given with a log-density", [*options], fix)
    from tractable.inference.chains.mcmc import mcmc

    density: Any = model
    return mcmc(density, options.pop("start"), args=tuple(parts), **options)


def predict(model: Any, x: Any, **options: Any) -> Any:
    """The distribution of what will be seen at `x`; a fitted run stands for its model.

    For a conjugate prior or posterior `x` is the likelihood: `predict(Beta(5.0, 3.0), Bernoulli)`.
    """
    model = model.state if isinstance(model, Run) else model
    if isinstance(model, HasPredictions):
        return model.predict_dist(x, **options)
    if isinstance(model, Posterior):
        return model.predict(x, **options)
    if isinstance(model, Distribution):
        from tractable.distributions.conjugate import predictive

        return predictive(model, x)
    if hasattr(model, "predictive"):
        return model.predictive(x, **options)
    if hasattr(model, "predict_proba"):
        from tractable.distributions.categorical import Categorical

        return Categorical(model.predict_proba(x, **options))
    must = "one with `predict_dist` or class probabilities, a conjugate prior, or a conditional distribution"
    check(callable(model), "model", must, type(model).__name__, error=TypeError)
    found = model(x, **options)
    check(isinstance(found, Distribution), "model", must, f"a function to {type(found).__name__}")
    return found
