"""Learn the shares of three parties from polls, and the covariance of two returns from prices.

A Dirichlet belief learns by adding counts; an inverse-Wishart belief by adding scatter. Both beliefs are checked against the
truth that made the data.
"""

import jax.numpy as jnp
import jax.random as jr

from tractable.distributions.matrix import InverseWishart
from tractable.distributions.multivariate import Dirichlet, DirichletMultinomial, Multinomial


def learn_shares(key):
    """A uniform belief, three polls, and the probability that the first party leads."""
    truth = jnp.array([0.42, 0.38, 0.20])
    polls = Multinomial(500, truth).sample(key, (3,))
    belief = Dirichlet(jnp.ones(3) + polls.sum(0))
    draws = belief.sample(jr.key(1), (20_000,))
    leads = float((draws[:, 0] > draws[:, 1]).mean())
    next_poll = DirichletMultinomial(500, belief.concentration)
    print(f"polls {polls.tolist()}")
    print(f"shares {belief.mean.round(3).tolist()} +- {belief.std.round(3).tolist()}, first leads: {leads:.3f}")
    print(f"next poll {next_poll.mean.round(1).tolist()} +- {next_poll.std.round(1).tolist()}")
    return truth, belief, next_poll


def learn_covariance(key):
    """A vague belief about a covariance, and 400 pairs of centred returns."""
    truth = jnp.array([[1.0, 0.6], [0.6, 2.0]])
    returns = jr.normal(key, (400, 2)) @ jnp.linalg.cholesky(truth).T
    prior = InverseWishart(4.0, jnp.eye(2))
    belief = InverseWishart(prior.degrees + len(returns), prior.scale + returns.T @ returns)
    draws = belief.sample(jr.key(2), (5_000,))
    correlation = draws[:, 0, 1] / jnp.sqrt(draws[:, 0, 0] * draws[:, 1, 1])
    low, high = jnp.quantile(correlation, jnp.array([0.025, 0.975]))
    print(f"covariance {belief.mean.round(2).tolist()}, correlation from {low:.2f} to {high:.2f}")
    return truth, belief, (low, high)


def main():
    truth, shares, next_poll = learn_shares(jr.key(0))
    assert (jnp.abs(shares.mean - truth) < 4 * shares.std).all()
    assert (next_poll.variance > Multinomial(500, shares.mean).variance).all()  # what is unknown adds spread
    cov, belief, (low, high) = learn_covariance(jr.key(3))
    assert (jnp.abs(belief.mean - cov) < 4 * belief.std).all()
    assert low < 0.6 / jnp.sqrt(2.0) < high


if __name__ == "__main__":
    main()
