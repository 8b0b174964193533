"""The programs of `benchmarks.programs` in NumPyro: non-centred effects, discrete latents enumerated."""

from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.contrib.control_flow import scan
from numpyro.infer import MCMC, NUTS

numpyro.enable_x64()
sample, plate, given = numpyro.sample, numpyro.plate, numpyro.deterministic


def ordered(name: str, size: int, scale: float) -> Any:
    """A normal vector in rising order."""
    base = dist.Normal(0.0, scale).expand([size]).to_event(1)
    free = sample(name, dist.ImproperUniform(dist.constraints.ordered_vector, (), (size,)))
    numpyro.factor(f"{name} prior", base.log_prob(free))
    return free


def schools(sigma, y):
    mu, tau = sample("mu", dist.Normal(0, 5)), sample("tau", dist.HalfCauchy(5))
    with plate("school", len(sigma)):
        theta = given("theta", mu + tau * sample("noise", dist.Normal(0, 1)))
        sample("y", dist.Normal(theta, sigma), obs=y)


def groups(group, floor, y):
    mean, slope = sample("mean", dist.Normal(0, 10)), sample("slope", dist.Normal(0, 10))
    between, within = sample("between", dist.HalfNormal(1)), sample("within", dist.HalfNormal(2))
    with plate("group", 85):
        effect = given("effect", mean + between * sample("noise", dist.Normal(0, 1)))
    sample("y", dist.Normal(effect[group] + slope * floor, within), obs=y)


def crossed(pupil, judge, y):
    mean = sample("mean", dist.Normal(0, 10))
    pupils, judges = sample("pupils", dist.HalfNormal(2)), sample("judges", dist.HalfNormal(2))
    noise = sample("noise", dist.HalfNormal(2))
    with plate("pupil", 60):
        talent = pupils * sample("talent", dist.Normal(0, 1))
    with plate("judge", 20):
        mood = judges * sample("mood", dist.Normal(0, 1))
    sample("y", dist.Normal(mean + talent[pupil] + mood[judge], noise), obs=y)


def mixture(y):
    share = sample("share", dist.Beta(5, 5))
    mu = ordered("mu", 2, 3.0)
    sigma = sample("sigma", dist.HalfNormal(2).expand([2]).to_event(1))
    with plate("row", len(y)):
        second = sample("second", dist.Bernoulli(share), infer={"enumerate": "parallel"})
        sample("y", dist.Normal(mu[second], sigma[second]), obs=y)


def chain(y):
    rows = sample("rows", dist.Dirichlet(jnp.ones(3)).expand([3]).to_event(1))
    mu, sigma = ordered("mu", 3, 3.0), sample("sigma", dist.HalfNormal(2))

    def step(state, value):
        state = sample("state", dist.Categorical(rows[state]), infer={"enumerate": "parallel"})
        sample("y", dist.Normal(mu[state], sigma), obs=value)
        return state, None

    scan(step, jnp.asarray(0), y)


def series(y):
    walk, noise = sample("walk", dist.HalfNormal(1)), sample("noise", dist.HalfNormal(1))
    start = sample("start", dist.Normal(0, 10))
    with plate("time", len(y)):
        steps = sample("steps", dist.Normal(0, 1))
        sample("y", dist.Normal(start + walk * jnp.cumsum(steps), noise), obs=y)


def process(x, y):
    length, amplitude = sample("length", dist.LogNormal(0, 1)), sample("amplitude", dist.HalfNormal(2))
    noise = sample("noise", dist.HalfNormal(1))
    gaps = (x[:, None] - x[None, :]) / length
    cov = amplitude**2 * jnp.exp(-0.5 * gaps**2) + 1e-8 * jnp.eye(len(x))
    with plate("row", len(x)):
        free = sample("free", dist.Normal(0, 1))
    sample("y", dist.Normal(jnp.linalg.cholesky(cov) @ free, noise), obs=y)


def counts(group, x, y):
    mean, slope = sample("mean", dist.Normal(0, 2)), sample("slope", dist.Normal(0, 2))
    between = sample("between", dist.HalfNormal(1))
    with plate("group", 60):
        effect = between * sample("effect", dist.Normal(0, 1))
    sample("y", dist.Poisson(jnp.exp(mean + slope * x + effect[group])), obs=y)


def logistic(X, y):
    intercept = sample("intercept", dist.Normal(0, 2))
    beta = sample("beta", dist.Normal(0, 2).expand([X.shape[1]]).to_event(1))
    sample("y", dist.Bernoulli(logits=intercept + X @ beta), obs=y)


def draws(name: str, data: dict[str, Any]) -> tuple[dict[str, np.ndarray], str]:
    """Four chains of a thousand draws."""
    chains = {"num_warmup": 1000, "num_samples": 1000, "num_chains": 4, "chain_method": "vectorized"}
    run = MCMC(NUTS(globals()[name]), progress_bar=False, **chains)
    run.run(jr.PRNGKey(0), **data)
    return {key: np.asarray(value) for key, value in run.get_samples(group_by_chain=True).items()}, ""
