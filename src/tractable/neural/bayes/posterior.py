r"""The door: one question, `weight_posterior(network, data, method)`, and many ways to answer it.

Model.       $y_n \sim p(y \mid f_w(x_n))$, $w \sim p(w)$. Where prior and noise are not given they are those
             of highest evidence at a mode (`bayes.laplace`), for all methods alike: what they approximate is
             one and the same posterior, so that they may be compared.
Methods.     Laplace; chains (NUTS, MAMS) as the judge of all others; Bayes by Backprop; variational families;
             ensembles; SWAG; dropout; stochastic-gradient chains.
Verdict.     Each answer says how far to trust it, by what its method allows.
Cost.        That of the method, and for tuned models that of a Laplace approximation.
References.  MacKay (1992); Neal (1996); Wilson and Izmailov (2020).
"""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax.random as jr

from tractable.core.checks import check, check_option
from tractable.core.keys import takes_key
from tractable.core.types import Key
from tractable.neural.bayes.backprop import BayesByBackprop
from tractable.neural.bayes.chains import NetworkChains, StochasticGradientChains
from tractable.neural.bayes.dropout import MonteCarloDropout
from tractable.neural.bayes.ensembles import DeepEnsemble
from tractable.neural.bayes.laplace import NetworkLaplace
from tractable.neural.bayes.result import NetworkPosterior
from tractable.neural.bayes.statement import state_network
from tractable.neural.bayes.swag import SWAG
from tractable.neural.bayes.variational import NetworkVariational

__all__ = ["METHODS", "weight_posterior"]


METHODS = {
    "laplace": NetworkLaplace,
    "kronecker_laplace": lambda: NetworkLaplace("kronecker"),
    "diagonal_laplace": lambda: NetworkLaplace("diagonal"),
    "last_layer_laplace": lambda: NetworkLaplace("last_layer"),
    "chains": NetworkChains,
    "backprop": BayesByBackprop,
    "mean_field": NetworkVariational,
    "low_rank": lambda: NetworkVariational("low_rank"),
    "ensemble": DeepEnsemble,
    "swag": SWAG,
    "dropout": MonteCarloDropout,
    "sgld": StochasticGradientChains,
    "sghmc": lambda: StochasticGradientChains(0.01, 0.1),
}


@takes_key
def weight_posterior(
    network: Any,
    data: Any,
    method: Any = "laplace",
    *,
    key: Key,
    likelihood: Any = "normal",
    prior: Any = "layers",
    row_weights: Any = None,
    held_out: Any = None,
) -> NetworkPosterior:
    """What is known of the weights of `network` after `data` = (inputs, targets), by `method`.

    - `network`: an `equinox.Module` of one row, or a function of a key that makes one.
    - `method`: a name of `METHODS`, or one of their objects, such as `NetworkLaplace("kronecker")`.
    - `likelihood`: "normal" (of unknown noise), "normal_head" (mean and log-variance), "classes" (logits), or
      a density of outputs.
    - `prior`: "layers" (fan-in scaled, a factor for each layer by its evidence), "fan_in" (one factor for
      all), "equal" (one precision for all, by its evidence), a precision, or a prior of weights.
    - `row_weights`: how often each row counts, for Laplace's approximations.
    - `held_out`: further rows (inputs, targets), by which the predictions are judged.

    >>> import numpy as np
    >>> x = np.linspace(-1.0, 1.0, 20)[:, None]
    >>> line = eqx.nn.Linear(1, 1, key=jr.key(0))
    >>> post = weight_posterior(line, (x, 2 * x[:, 0] + 0.1 * np.sin(9 * x[:, 0])), key=0)
    >>> bool(abs(post.predict([[0.5]]).value[0] - 1) < 0.1), post.verdict.ok
    (True, True)
    """
    if isinstance(method, str):
        check_option("method", method, tuple(METHODS))
        method = METHODS[method]()
    able = hasattr(method, "fit")
    check(able, "method", "a name, or an object such as `NetworkLaplace()`", repr(method), error=TypeError)
    key_network, key_fit = jr.split(key)
    if not isinstance(network, eqx.Module):
        fix = "Pass an `equinox.Module`, or a function of a key that makes one."
        check(callable(network), "network", "a network", type(network).__name__, fix, TypeError)
        network = network(key_network)
    fix = "Repeat the rows, or take Laplace's approximation."
    able = row_weights is None or isinstance(method, NetworkLaplace)
    check(able, "row_weights", "left out for this method", type(method).__name__, fix)
    weights, stated = state_network(network, data, likelihood, prior, row_weights=row_weights)
    if isinstance(method, MonteCarloDropout):
        noisy = state_network(network, data, likelihood, prior, random=True)[1]
        found = method.fit(stated, weights, key_fit, noisy)
    else:
        found = method.fit(stated, weights, key_fit)
    return found if held_out is None else replace(found, held_out=found.judge(*held_out))
