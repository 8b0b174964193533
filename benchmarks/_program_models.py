"""The models behind the reference posteriors, as programs with all their latents, naturally written.

Nothing is integrated by hand: group effects, states of chains, classes of mixtures and values of functions
are sites of the program, and `infer` finds what it can integrate. Data come from `_posterior_models`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import tractable as tr
from benchmarks._posterior_models import MODELS, Draws
from tractable.distributions import (
    Bernoulli,
    Beta,
    Categorical,
    Dirichlet,
    Gamma,
    Gaussian,
    HalfCauchy,
    HalfNormal,
    Normal,
    StudentT,
)
from tractable.programs import Flat


class ReferenceProgram(NamedTuple):
    """A program, and how its draws give the quantities of the reference."""

    program: Any
    quantities: Callable[[Draws], Draws] = lambda draws: draws


@tr.model
def autoregression(lags, response):
    """An autoregression of the order of its lags."""
    alpha = tr.sample("alpha", Normal(0.0, 10.0))
    beta = tr.sample("beta", Normal(jnp.zeros(lags.shape[1]), 10.0))
    sigma = tr.sample("sigma", HalfCauchy(2.5))
    with tr.plate("time", len(response)):
        tr.sample("y", Normal(alpha + lags @ beta, sigma), obs=response)


@tr.model
def diamonds(columns, response):
    """A regression whose intercept has a Student prior."""
    b = tr.sample("b", Normal(jnp.zeros(columns.shape[1]), 1.0))
    intercept = tr.sample("Intercept", StudentT(3.0, 8.0, 10.0))
    sigma = tr.sample("sigma", Flat("positive"))
    tr.factor("prior of sigma", StudentT(3.0, 0.0, 10.0).log_prob(sigma))
    with tr.plate("stone", len(response)):
        tr.sample("y", Normal(intercept + columns @ b, sigma), obs=response)


@tr.model
def schools(sigma, y):
    """Effects of eight schools around their mean."""
    mu, tau = tr.sample("mu", Normal(0.0, 5.0)), tr.sample("tau", HalfCauchy(5.0))
    with tr.plate("school", len(sigma)):
        theta = tr.sample("theta", Normal(mu, tau))
        tr.sample("y", Normal(theta, sigma), obs=y)


@tr.model
def garch(y, sigma1):
    """A series whose variance follows its shocks."""
    mu, alpha0 = tr.sample("mu", Flat()), tr.sample("alpha0", Flat("positive"))
    shock, memory, _ = tr.sample("shares", Dirichlet(jnp.ones(3)))

    def then(variance, last):
        variance = alpha0 + shock * (last - mu) ** 2 + memory * variance
        return variance, variance

    first = jnp.asarray(sigma1) ** 2
    _, variances = jax.lax.scan(then, first, y[:-1])
    with tr.plate("time", len(y)):
        tr.sample("y", Normal(mu, jnp.sqrt(jnp.concatenate([first[None], variances]))), obs=y)


@tr.model
def process(x, y):
    """A Gaussian process with the values of its function as latents; sigma is the variance of the noise."""
    rho, alpha = tr.sample("rho", Gamma(25.0, 4.0)), tr.sample("alpha", HalfNormal(2.0))
    sigma = tr.sample("sigma", HalfNormal(1.0))
    gaps = (x[:, None] - x[None, :]) / rho
    cov = alpha**2 * jnp.exp(-0.5 * gaps**2) + 1e-10 * jnp.eye(len(x))
    values = tr.sample("f", Gaussian(jnp.zeros(len(x)), cov))
    with tr.plate("row", len(x)):
        tr.sample("y", Normal(values, jnp.sqrt(sigma)), obs=y)


@tr.model
def hidden_markov(y):
    """Two hidden states with ordered positive means; the first state counts one each, so twice a half."""
    rows = jnp.stack([tr.sample(f"theta{k}", Dirichlet(jnp.ones(2))) for k in (1, 2)])
    mu = tr.sample("mu", Flat("positive_ordered", (2,)))
    tr.factor("prior of mu", Normal(jnp.array([3.0, 10.0]), 1.0).log_prob(mu))
    state = tr.sample("z0", Categorical(jnp.ones(2) / 2))
    tr.sample("y0", Normal(mu[state], 1.0), obs=y[0])

    def step(state, value):
        state = tr.sample("z", Categorical(rows[state]))
        tr.sample("y", Normal(mu[state], 1.0), obs=value)
        return state, None

    tr.scan("time", step, state, y[1:])


@tr.model
def kidiq(features, response):
    """A regression with flat coefficients."""
    beta, sigma = tr.sample("beta", Flat(shape=(2,))), tr.sample("sigma", HalfCauchy(2.5))
    with tr.plate("child", len(response)):
        tr.sample("y", Normal(features @ beta, sigma), obs=response)


@tr.model
def mixture(y):
    """Two normal components, the class of each row a latent."""
    theta = tr.sample("theta", Beta(5.0, 5.0))
    mu = tr.sample("mu", Flat("ordered", (2,)))
    tr.factor("prior of mu", Normal(jnp.zeros(2), 2.0).log_prob(mu))
    sigma = tr.sample("sigma", HalfNormal(jnp.full(2, 2.0)))
    with tr.plate("row", len(y)):
        second = tr.sample("z", Bernoulli(1 - theta))
        tr.sample("y", Normal(mu[second], sigma[second]), obs=y)


@tr.model
def flat_regression(features, response):
    """A regression without priors."""
    beta = tr.sample("beta", Flat(shape=(features.shape[1],)))
    sigma = tr.sample("sigma", Flat("positive"))
    with tr.plate("row", len(response)):
        tr.sample("y", Normal(features @ beta, sigma), obs=response)


@tr.model
def regression(features, response):
    """A regression with normal coefficients."""
    beta = tr.sample("beta", Normal(jnp.zeros(features.shape[1]), 10.0))
    sigma = tr.sample("sigma", HalfNormal(10.0))
    with tr.plate("row", len(response)):
        tr.sample("y", Normal(features @ beta, sigma), obs=response)


def _shares(draws: Draws) -> Draws:
    return draws | {"alpha1": draws["shares"][..., 0], "beta1": draws["shares"][..., 1]}


PROGRAMS: dict[str, ReferenceProgram] = {
    "arK": ReferenceProgram(autoregression),
    "blr": ReferenceProgram(regression),
    "diamonds": ReferenceProgram(diamonds),
    "eight_schools_noncentered": ReferenceProgram(schools),
    "garch11": ReferenceProgram(garch, _shares),
    "gp_regr": ReferenceProgram(process),
    "hmm_example": ReferenceProgram(hidden_markov),
    "kidscore_momiq": ReferenceProgram(kidiq),
    "low_dim_gauss_mix": ReferenceProgram(mixture),
    "nes": ReferenceProgram(flat_regression),
}


def infer_reference(entry: dict[str, Any], **options: Any) -> tuple[Draws, Any]:
    """The draws of all quantities of a reference, and the posterior that they come from."""
    name = entry["posterior"].split("-", 1)[-1]
    program, quantities = PROGRAMS[name]
    data = MODELS[name].prepare(entry["data"])
    post = tr.infer(program, **data, progress=False, **options)
    return quantities({key: np.asarray(values) for key, values in post.draws.items()}), post
