"""The programs of `benchmarks.programs` in PyMC, sampled by nutpie: non-centred, mixtures by densities."""

from typing import Any

import numpy as np
import nutpie
import pymc as pm
import pytensor.tensor as pt


def schools(sigma, y):
    mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
    theta = pm.Deterministic("theta", mu + tau * pm.Normal("noise", 0, 1, shape=len(y)))
    pm.Normal("y", theta, sigma, observed=y)


def groups(group, floor, y):
    mean, slope = pm.Normal("mean", 0, 10), pm.Normal("slope", 0, 10)
    between, within = pm.HalfNormal("between", 1), pm.HalfNormal("within", 2)
    effect = pm.Deterministic("effect", mean + between * pm.Normal("noise", 0, 1, shape=85))
    pm.Normal("y", effect[group] + slope * floor, within, observed=y)


def crossed(pupil, judge, y):
    mean, noise = pm.Normal("mean", 0, 10), pm.HalfNormal("noise", 2)
    pupils, judges = pm.HalfNormal("pupils", 2), pm.HalfNormal("judges", 2)
    talent = pupils * pm.Normal("talent", 0, 1, shape=60)
    mood = judges * pm.Normal("mood", 0, 1, shape=20)
    pm.Normal("y", mean + talent[pupil] + mood[judge], noise, observed=y)


def mixture(y):
    share = pm.Beta("share", 5, 5)
    ordered = pm.distributions.transforms.ordered
    mu = pm.Normal("mu", 0, 3, shape=2, transform=ordered, initval=np.array([-1.0, 1.0]))
    sigma = pm.HalfNormal("sigma", 2, shape=2)
    pm.NormalMixture("y", pt.stack([1 - share, share]), mu, sigma, observed=y)


def series(y):
    walk, noise = pm.HalfNormal("walk", 1), pm.HalfNormal("noise", 1)
    start, steps = pm.Normal("start", 0, 10), pm.Normal("steps", 0, 1, shape=len(y))
    pm.Normal("y", start + walk * pt.cumsum(steps), noise, observed=y)


def process(x, y):
    length, amplitude = pm.LogNormal("length", 0, 1), pm.HalfNormal("amplitude", 2)
    noise = pm.HalfNormal("noise", 1)
    gaps = (x[:, None] - x[None, :]) / length
    cov = amplitude**2 * pt.exp(-0.5 * gaps**2) + 1e-8 * np.eye(len(x))
    free = pm.Normal("free", 0, 1, shape=len(x))
    pm.Normal("y", pt.linalg.cholesky(cov) @ free, noise, observed=y)


def counts(group, x, y):
    mean, slope, between = pm.Normal("mean", 0, 2), pm.Normal("slope", 0, 2), pm.HalfNormal("between", 1)
    effect = between * pm.Normal("effect", 0, 1, shape=60)
    pm.Poisson("y", pt.exp(mean + slope * x + effect[group]), observed=y)


def logistic(X, y):
    intercept, beta = pm.Normal("intercept", 0, 2), pm.Normal("beta", 0, 2, shape=X.shape[1])
    pm.Bernoulli("y", logit_p=intercept + X @ beta, observed=y)


def draws(name: str, data: dict[str, Any]) -> tuple[dict[str, np.ndarray], str]:
    """Four chains of a thousand draws."""
    with pm.Model() as model:
        globals()[name](**data)
    compiled = nutpie.compile_pymc_model(model)
    found = nutpie.sample(compiled, draws=1000, chains=4, seed=0, progress_bar=False)
    return {str(key): np.asarray(value) for key, value in found.posterior.data_vars.items()}, ""
