"""Growth of a population, seen with noise: its rate by particle Metropolis, beside quadrature on a grid."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.messages.gaussian_beliefs import Grid
from tractable.statespace import NonlinearSystem, particle_metropolis


def population(theta):
    """Ricker's map of the logarithm of a population, of unknown growth rate."""
    return NonlinearSystem(
        lambda x: x + theta[0] * (1 - jnp.exp(x)), 0.02 * jnp.eye(1), lambda x: jnp.exp(x), 0.05 * jnp.eye(1),
        jnp.zeros(1), 0.1 * jnp.eye(1),
    )  # fmt: skip


def log_prior(theta):
    """Growth about one half, give or take one half, and positive."""
    return jnp.where(theta[0] > 0, -0.5 * ((theta[0] - 0.5) / 0.5) ** 2, -jnp.inf)


def main() -> None:
    y = population(jnp.array([0.7])).sample(jr.key(0), 25)[1][0]
    found = particle_metropolis(
        population, log_prior, [0.5], y, key=jr.key(1), num_draws=800, num_warmup=300, num_particles=60
    )
    print(found)
    draws = found.draws["parameters"][..., 0]
    # one parameter and one state: quadrature gives the posterior too
    rates = np.linspace(0.05, 2.0, 40)
    grid = Grid.uniform(-2.0, 1.5, 141)

    def log_posterior(rate):
        theta = rate[None]
        return population(theta).grid_filter(y, grid).log_likelihood + log_prior(theta)

    logs = np.asarray(jax.vmap(log_posterior)(jnp.asarray(rates)))
    weights = np.exp(logs - logs.max())
    mean = float(weights @ rates / weights.sum())
    deviation = float(np.sqrt(weights @ (rates - mean) ** 2 / weights.sum()))
    print(
        f"growth {draws.mean():.3f} +- {draws.std():.3f} by particles, {mean:.3f} +- {deviation:.3f} exactly"
    )
    assert abs(draws.mean() - mean) < 0.25 * deviation
    assert 0.7 < draws.std() / deviation < 1.4


if __name__ == "__main__":
    main()
