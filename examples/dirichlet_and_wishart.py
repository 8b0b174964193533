"""Learn the shares of three parties from polls, and the covariance of two returns from prices.

A Dirichlet belief learns by adding counts, an inverse-Wishart belief by adding scatter.
"""

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.distributions.matrix import InverseWishart
from tractable.distributions.multivariate import Dirichlet, DirichletMultinomial, Multinomial

POLLS = np.array([[184, 208, 108], [224, 175, 101], [207, 187, 106]])


def learn_shares():
    """A uniform belief, three polls, and the probability that the first party leads."""
    belief = Dirichlet(1.0 + POLLS.sum(0))
    draws = belief.sample(jr.key(1), (20_000,))
    leads = float((draws[:, 0] > draws[:, 1]).mean())
    next_poll = DirichletMultinomial(500, belief.concentration)
    print(
        "shares",
        np.round(belief.mean, 3),
        "+-",
        np.round(belief.std, 3),
        "first leads with probability",
        leads,
    )
    print("next poll of 500", np.round(next_poll.mean, 1), "+-", np.round(next_poll.std, 1))
    return belief, leads, next_poll


def learn_covariance(truth, key):
    """A vague belief about a covariance, and 400 pairs of centred returns."""
    returns = jr.normal(key, (400, 2)) @ jnp.linalg.cholesky(truth).T
    prior = InverseWishart(4.0, jnp.eye(2))
    belief = InverseWishart(prior.degrees + len(returns), prior.scale + returns.T @ returns)
    draws = np.asarray(belief.sample(jr.key(2), (5_000,)))
    correlation = draws[:, 0, 1] / np.sqrt(draws[:, 0, 0] * draws[:, 1, 1])
    low, high = np.quantile(correlation, [0.025, 0.975])
    print("covariance", np.round(belief.mean, 2).tolist(), f"correlation from {low:.2f} to {high:.2f}")
    return belief, low, high


def main():
    shares, leads, next_poll = learn_shares()
    np.testing.assert_allclose(shares.mean, (1 + POLLS.sum(0)) / 1503, rtol=1e-12)
    assert 0.8 < leads < 0.97
    assert (next_poll.variance > Multinomial(500, shares.mean).variance).all()  # what is unknown adds spread
    truth = jnp.array([[1.0, 0.6], [0.6, 2.0]])
    belief, low, high = learn_covariance(truth, jr.key(3))
    assert (jnp.abs(belief.mean - truth) < 4 * belief.std).all()
    assert low < 0.6 / np.sqrt(2.0) < high


if __name__ == "__main__":
    main()
