"""`fit`: one verb for every model and every way to fit it.

Rules.       An algorithm fits (`EM()`, `EvidenceAscent()`, ...). Without one the model decides: additive
             statistics (`e_step`, `m_step`) are fitted by EM; what has a method `fit` fits itself
             (`SupportVectorMachine`, `BayesNet`, `GaussianProcess`, estimators); a member of an exponential
             family goes to its maximum likelihood; a function such as `bayesian_linear` is called.
Data.        One object, or a tuple that is handed on as separate arguments: `(X, y)`.
Cost.        None of its own.
"""

from typing import Any

from tractable.core.checks import check
from tractable.core.interfaces import HasEM

__all__ = ["fit"]


def fit(model: Any, data: Any, algorithm: Any = None, **options: Any) -> Any:
    """Fit `model` to `data`; the result says how it ended.

    Options go to the algorithm, or to the model's own `fit`: `weights`, `chunk`, `checkpoint`, `progress`,
    ... A weight of two is the row twice.

    >>> import jax.numpy as jnp
    >>> from tractable.distributions import Poisson
    >>> fit(Poisson(1.0), jnp.array([2, 4, 6]))
    Poisson(rate=4.0)
    """
    if algorithm is not None:
        must = "an option object such as `EM()`"
        check(hasattr(algorithm, "fit"), "algorithm", must, _name(algorithm), error=TypeError)
        return algorithm.fit(model, data, **options)
    made = not isinstance(model, type)
    if made and isinstance(model, HasEM):
        from tractable.inference.expectation_maximisation.em import EM

        return EM().fit(model, data, **options)
    rows = data if isinstance(data, tuple) else (data,)
    if hasattr(model, "fit"):
        return model.fit(*rows, **options)
    if made and hasattr(model, "from_stats"):
        from tractable.distributions.expfam import maximum_likelihood

        return maximum_likelihood(model, *rows, **options)
    must = "one with `fit`, with `e_step` and `m_step`, of an exponential family, or a function that fits"
    check(made and callable(model), "model", must, _name(model), error=TypeError)
    return model(*rows, **options)


def _name(model: Any) -> str:
    return model.__name__ if isinstance(model, type) else type(model).__name__
