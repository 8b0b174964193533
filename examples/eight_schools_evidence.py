"""The log-evidence of eight schools, -31.311347: by quadrature over one scale, and by bridge sampling.

mu ~ N(0, 5), tau ~ HalfCauchy(5), theta_j ~ N(mu, tau), y_j ~ N(theta_j, sigma_j).
"""

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.inference import bridge_evidence, grid_posterior

Y = jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
SIGMA = jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def mean_given_scale(log_tau):
    """Precision and mean of mu once the effects are integrated out."""
    weight = 1 / (SIGMA**2 + jnp.exp(2 * log_tau))
    precision = 1 / 25 + weight.sum()
    return weight, precision, (weight * Y).sum() / precision


def log_prior_scale(log_tau):
    return jnp.log(2 / (5 * jnp.pi)) - jnp.log1p(jnp.exp(2 * log_tau) / 25) + log_tau


def log_marginal(log_tau):
    weight, precision, mean = mean_given_scale(log_tau)
    log_y = 0.5 * (jnp.log(weight) - weight * Y**2 - jnp.log(2 * jnp.pi)).sum()
    return log_y + 0.5 * precision * mean**2 - 0.5 * jnp.log(25 * precision) + log_prior_scale(log_tau)


def log_joint(x):
    """Of (mu, log tau): the effects are integrated out, which bridge sampling then need not do."""
    variance = SIGMA**2 + jnp.exp(2 * x[1])
    log_y = -0.5 * ((Y - x[0]) ** 2 / variance + jnp.log(2 * jnp.pi * variance)).sum()
    return log_y - 0.5 * (x[0] / 5) ** 2 - 0.5 * jnp.log(50 * jnp.pi) + log_prior_scale(x[1])


def main() -> None:
    scale = grid_posterior(log_marginal, -18.0, 22.0, num_panels=40)
    print(scale, end="\n\n")
    assert np.isclose(scale.log_evidence.value, -31.311347, atol=5e-7)

    key_scale, key_mean, key_bridge = jr.split(jr.key(0), 3)
    log_tau = scale.marginal().sample(key_scale, (8000,))
    variance = SIGMA[None] ** 2 + jnp.exp(2 * log_tau)[:, None]
    precision = 1 / 25 + (1 / variance).sum(1)
    mu = (Y[None] / variance).sum(1) / precision + jr.normal(key_mean, (8000,)) / jnp.sqrt(precision)
    found = bridge_evidence(log_joint, jnp.stack([mu, log_tau], 1), key=key_bridge)
    print(found)
    assert abs(found.value + 31.311347) < 3 * found.standard_error


if __name__ == "__main__":
    main()
