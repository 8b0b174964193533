r"""The families of a regression: the law of the response given the linear predictor, and its own unknowns.

Laws.        With $\eta$ the linear predictor: gaussian $N(\eta, \sigma^2)$; student
             $t_\nu(\eta, \sigma)$; poisson of mean $e^\eta$; negative_binomial of mean $\mu = e^\eta$ and
             variance $\mu + d^2\mu^2$; bernoulli and binomial with log-odds $\eta$; gamma of mean $e^\eta$
             and coefficient of variation $c$.
Unknowns.    $\sigma \sim \mathrm{HalfNormal}(2.5\, s_y)$, $\nu \sim \mathrm{Gamma}(2, 0.1)$,
             $d, c \sim \mathrm{HalfNormal}(1)$: zero is the Poisson law, and no noise.
Cost.        None of their own.
References.  Juarez and Steel (2010) for the prior of the degrees of freedom.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check, check_entries, check_option
from tractable.distributions.base import Distribution
from tractable.distributions.continuous import Normal
from tractable.distributions.counts import Binomial, Poisson
from tractable.distributions.discrete import Bernoulli
from tractable.distributions.gamma import Gamma
from tractable.distributions.overdispersed import NegativeBinomial
from tractable.distributions.positive import HalfNormal
from tractable.distributions.student import StudentT

__all__ = ["FAMILIES", "Family", "checked_response", "family_of"]


_ONE: Any = 1.0


class Family(NamedTuple):
    """`own` are the unknowns of the law by name; `law(eta, own, trials)` is the distribution of the rows."""

    link: str
    own: Callable[[Any], dict[str, Distribution]]  # given the scale of the priors
    law: Callable[[Any, dict[str, Any], Any], Distribution]
    must: str  # what the response is
    holds: Callable[[np.ndarray], Any]


def _negative_binomial(eta: Any, own: dict[str, Any], trials: Any) -> Distribution:
    # below 1e-4 the law is that of Poisson to eight digits, and the probabilities would have none left
    total = 1.0 / (own["overdispersion"] ** 2 + 1e-8)
    # mean e^eta: the probability of a success is total / (total + mean)
    return NegativeBinomial(total, 1.0 / (1.0 + jnp.exp(eta) / total))


def _gamma(eta: Any, own: dict[str, Any], trials: Any) -> Distribution:
    shape = own["variation"] ** -2.0
    return Gamma(shape, shape * jnp.exp(-eta))


def _whole(y: np.ndarray) -> Any:
    return np.isfinite(y) & (y >= 0) & (y == np.floor(y))


def _noise(scale: Any) -> dict[str, Distribution]:
    return {"sigma": HalfNormal(scale)}


FAMILIES: dict[str, Family] = {
    "gaussian": Family(
        "identity", _noise, lambda eta, own, _: Normal(eta, own["sigma"]), "finite numbers", np.isfinite
    ),
    "student": Family(
        "identity",
        lambda scale: _noise(scale) | {"degrees": Gamma(2 * _ONE, _ONE / 10)},
        lambda eta, own, _: StudentT(own["degrees"], eta, own["sigma"]),
        "finite numbers",
        np.isfinite,
    ),
    "poisson": Family(
        "log", lambda _: {}, lambda eta, own, _: Poisson(jnp.exp(eta)), "counts: 0, 1, 2, ...", _whole
    ),
    "negative_binomial": Family(
        "log",
        lambda _: {"overdispersion": HalfNormal(_ONE)},
        _negative_binomial,
        "counts: 0, 1, 2, ...",
        _whole,
    ),
    "bernoulli": Family(
        "logit",
        lambda _: {},
        lambda eta, own, _: Bernoulli(logits=eta),
        "0 or 1 (or truth values, or words of two kinds)",
        lambda y: (y == 0) | (y == 1),
    ),
    "binomial": Family(
        "logit",
        lambda _: {},
        lambda eta, own, trials: Binomial(trials, logits=eta),
        "counts of successes",
        _whole,
    ),
    "gamma": Family(
        "log",
        lambda _: {"variation": HalfNormal(_ONE)},
        _gamma,
        "positive numbers",
        lambda y: np.isfinite(y) & (y > 0),
    ),
}


def family_of(name: str) -> Family:
    """The family by its name."""
    check_option("family", name, tuple(FAMILIES))
    return FAMILIES[name]


def checked_response(name: str, family: str, response: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """The response in the numbers of its family, and the trials of a binomial one."""
    law, trials = family_of(family), None
    if family == "binomial":
        fix = "Write `prop(successes, trials) ~ ...` with the names of the two columns."
        check(response.ndim == 2, name, "successes and trials", "one column", fix)
        response, trials = response[:, 0], response[:, 1].astype(float)
        check_entries(f"trials of {name}", trials, _whole, "counts: 0, 1, 2, ...")
        fits = np.asarray(response, float) <= trials
        check_entries(name, response, lambda _: fits, "at most the trials")
    numeric = response.dtype.kind in "biuf"
    check(
        response.ndim == 1 and numeric,
        name,
        f"one column of {law.must}",
        f"{response.dtype} of shape {response.shape}",
    )
    values = response.astype(float)
    fix = f"The family is {family!r}: choose another with `family=`, or leave such rows out."
    check_entries(name, values, law.holds, law.must, fix)
    if law.link == "identity" or family == "gamma":
        return values, trials
    return values.astype(int), trials
