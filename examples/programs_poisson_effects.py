"""Counts in 40 groups with normal effects on the log scale: nested Laplace, corrected by weights.

Given the mean and the spread the groups are independent, so that one-dimensional quadrature in each group
gives the exact posterior.
"""

import jax.numpy as jnp
import numpy as np
from scipy.special import gammaln, logsumexp
from scipy.stats import norm

import tractable as tr
from tractable.distributions import HalfNormal, Normal, Poisson

GROUPS = 40


@tr.model
def counts(group, y=None):
    mean = tr.sample("mean", Normal(0.0, 2.0))
    spread = tr.sample("spread", HalfNormal(1.0))
    with tr.plate("group", GROUPS):
        effect = tr.sample("effect", Normal(mean, spread))
    with tr.plate("row", len(group)):
        tr.sample("y", Poisson(jnp.exp(effect[group])), obs=y)


def by_quadrature(group: np.ndarray, y: np.ndarray) -> tuple[float, float, float]:
    """Log-evidence and the posterior means of the mean and the spread."""
    means, spreads, z = np.linspace(-1.5, 2.5, 61), np.exp(np.linspace(-4, 1.2, 53)), np.linspace(-8, 8, 81)
    eta = means[:, None, None] + spreads[None, :, None] * z
    rates, total = np.exp(eta), np.zeros(eta.shape[:2])
    for g in range(GROUPS):
        own = y[group == g]
        terms = own.sum() * eta - len(own) * rates + norm.logpdf(z)
        total += logsumexp(terms, axis=2) + np.log(z[1] - z[0]) - gammaln(own + 1).sum()
    total += norm(0, 2).logpdf(means)[:, None] + (np.log(2) + norm.logpdf(spreads) + np.log(spreads))[None]
    masses = np.exp(total - logsumexp(total))
    cell = np.log((means[1] - means[0]) * np.log(spreads[1] / spreads[0]))
    return logsumexp(total) + cell, masses.sum(1) @ means, masses.sum(0) @ spreads


def main() -> None:
    rng = np.random.default_rng(2)
    group = np.repeat(np.arange(GROUPS), 3)
    y = rng.poisson(np.exp(0.5 + 0.8 * rng.normal(size=GROUPS))[group])

    post = tr.infer(counts, group, y=y, key=0)
    print(post.explain())
    print(post.verdict)
    print(post.summary(["mean", "spread"]))
    assert (post.explain().before, post.explain().after) == (42, 1)
    assert post.verdict.ok

    evidence, mean, spread = by_quadrature(group, y)
    error = float(post.log_evidence.standard_error)
    print(f"log-evidence {float(post.log_evidence.value):.4f} ± {error:.4f}; by quadrature {evidence:.4f}")
    assert error < 0.01
    assert abs(float(post.log_evidence.value) - evidence) < 4 * error
    for name, want in (("mean", mean), ("spread", spread)):
        assert abs(post[name].mean() - want) < 4 * post[name].std() / np.sqrt(0.7 * post[name].size)


if __name__ == "__main__":
    main()
