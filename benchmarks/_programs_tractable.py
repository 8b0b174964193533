"""The programs of `benchmarks.programs` in this library: with all their latents, and nothing done by hand."""

from typing import Any

import jax.numpy as jnp
import numpy as np

import tractable as tr
from tractable.distributions import (
    Bernoulli,
    Beta,
    Categorical,
    Dirichlet,
    Gaussian,
    HalfCauchy,
    HalfNormal,
    LogNormal,
    Normal,
    Poisson,
)
from tractable.programs import Flat


@tr.model
def schools(sigma, y):
    mu, tau = tr.sample("mu", Normal(0.0, 5.0)), tr.sample("tau", HalfCauchy(5.0))
    with tr.plate("school", len(sigma)):
        theta = tr.sample("theta", Normal(mu, tau))
        tr.sample("y", Normal(theta, sigma), obs=y)


@tr.model
def groups(group, floor, y):
    mean, slope = tr.sample("mean", Normal(0.0, 10.0)), tr.sample("slope", Normal(0.0, 10.0))
    between, within = tr.sample("between", HalfNormal(1.0)), tr.sample("within", HalfNormal(2.0))
    with tr.plate("group", 85):
        effect = tr.sample("effect", Normal(mean, between))
    with tr.plate("row", len(y)):
        tr.sample("y", Normal(effect[group] + slope * floor, within), obs=y)


@tr.model
def crossed(pupil, judge, y):
    mean = tr.sample("mean", Normal(0.0, 10.0))
    pupils, judges = tr.sample("pupils", HalfNormal(2.0)), tr.sample("judges", HalfNormal(2.0))
    noise = tr.sample("noise", HalfNormal(2.0))
    with tr.plate("pupil", 60):
        talent = tr.sample("talent", Normal(0.0, pupils))
    with tr.plate("judge", 20):
        mood = tr.sample("mood", Normal(0.0, judges))
    with tr.plate("row", len(y)):
        tr.sample("y", Normal(mean + talent[pupil] + mood[judge], noise), obs=y)


@tr.model
def mixture(y):
    share = tr.sample("share", Beta(5.0, 5.0))
    mu = tr.sample("mu", Flat("ordered", (2,)))
    tr.factor("prior", Normal(jnp.zeros(2), 3.0).log_prob(mu))
    sigma = tr.sample("sigma", HalfNormal(jnp.full(2, 2.0)))
    with tr.plate("row", len(y)):
        second = tr.sample("second", Bernoulli(share))
        tr.sample("y", Normal(mu[second], sigma[second]), obs=y)


@tr.model
def chain(y):
    rows = tr.sample("rows", Dirichlet(jnp.ones((3, 3))))
    mu = tr.sample("mu", Flat("ordered", (3,)))
    tr.factor("prior", Normal(jnp.zeros(3), 3.0).log_prob(mu))
    sigma = tr.sample("sigma", HalfNormal(2.0))

    def step(state, value):
        state = tr.sample("state", Categorical(rows[state]))
        tr.sample("y", Normal(mu[state], sigma), obs=value)
        return state, None

    tr.scan("time", step, jnp.asarray(0), y)


@tr.model
def series(y):
    walk, noise = tr.sample("walk", HalfNormal(1.0)), tr.sample("noise", HalfNormal(1.0))
    level = tr.sample("start", Normal(0.0, 10.0))

    def step(level, value):
        level = tr.sample("level", Normal(level, walk))
        tr.sample("y", Normal(level, noise), obs=value)
        return level, None

    tr.scan("time", step, level, y)


@tr.model
def process(x, y):
    length, amplitude = tr.sample("length", LogNormal(0.0, 1.0)), tr.sample("amplitude", HalfNormal(2.0))
    noise = tr.sample("noise", HalfNormal(1.0))
    gaps = (x[:, None] - x[None, :]) / length
    cov = amplitude**2 * jnp.exp(-0.5 * gaps**2) + 1e-8 * jnp.eye(len(x))
    f = tr.sample("f", Gaussian(jnp.zeros(len(x)), cov))
    with tr.plate("row", len(x)):
        tr.sample("y", Normal(f, noise), obs=y)


@tr.model
def counts(group, x, y):
    mean, slope = tr.sample("mean", Normal(0.0, 2.0)), tr.sample("slope", Normal(0.0, 2.0))
    between = tr.sample("between", HalfNormal(1.0))
    with tr.plate("group", 60):
        effect = tr.sample("effect", Normal(0.0, between))
    with tr.plate("row", len(y)):
        tr.sample("y", Poisson(jnp.exp(mean + slope * x + effect[group])), obs=y)


@tr.model
def logistic(X, y):
    intercept = tr.sample("intercept", Normal(0.0, 2.0))
    beta = tr.sample("beta", Normal(jnp.zeros(X.shape[1]), 2.0))
    with tr.plate("row", len(y)):
        tr.sample("y", Bernoulli(logits=intercept + X @ beta), obs=y)


def draws(name: str, data: dict[str, Any]) -> tuple[dict[str, np.ndarray], str]:
    """Draws of all quantities by chain, and the verdict."""
    post = tr.infer(globals()[name], **data, key=0, progress=False)
    found = post.explain()
    said = f"{found.before} -> {found.after}, {'good' if post.verdict.ok else 'NOT good'}"
    return {key: np.asarray(values) for key, values in post.draws.items()}, said
