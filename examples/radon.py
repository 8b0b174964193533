"""Radon in houses: a hierarchical regression, stated once, from prior to evidence, LOO, check and export."""

from importlib.util import find_spec

import jax.numpy as jnp
import numpy as np

import tractable as tr
from tractable.distributions import HalfNormal, Normal

RNG = np.random.default_rng(0)
COUNTY = np.repeat(np.arange(12), RNG.integers(2, 16, 12))  # few or many houses in each
FLOOR = RNG.integers(0, 2, COUNTY.size)  # measured in the basement, or above it
RADON = (1.3 + 0.5 * RNG.normal(size=12))[COUNTY] - 0.7 * FLOOR + 0.6 * RNG.normal(size=COUNTY.size)
PRIOR = {name: Normal(0.0, 3.0) for name in ("level", "slope")} | {"county": Normal(jnp.zeros(12), 1.0)}
PRIOR |= {name: HalfNormal(2.0) for name in ("noise", "spread")}


def likelihood(x, floor, county):
    return Normal(x["level"] + x["spread"] * x["county"][county] + x["slope"] * floor, x["noise"])


def main():
    post = tr.mcmc(prior=PRIOR, likelihood=likelihood, args=(FLOOR, COUNTY), observed=RADON, key=1)
    print(post.summary(["level", "slope", "spread", "noise"]), post.log_evidence, post.loo(), sep="\n")
    check = post.predict(key=2).check(jnp.std)  # the share of new data that spread more than these
    if find_spec("arviz"):
        print(post.to_arviz(dims={"county": ["place"]}, coords={"place": np.arange(12)}, key=3))
    assert post.verdict.ok
    assert abs(post["slope"].mean() + 0.7) < 0.3
    assert 0.05 < float(check.value) < 0.95


if __name__ == "__main__":
    main()
