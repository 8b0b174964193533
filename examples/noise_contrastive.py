"""Fit a density without its normalising constant, by telling data from noise; a ratio of two densities."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.distributions.continuous import Normal
from tractable.inference import density_ratio, noise_contrastive_fit
from tractable.inference.unnormalised.contrastive import (
    nce_gradient,
    nce_objective_exact,
    nce_posterior,
    softmax_gradient,
)


def quartic(theta, x):
    """An unnormalised log-density with two wells."""
    return theta[0] * x**2 - jnp.exp(theta[1]) * x**4


def main() -> None:
    p, q = jnp.asarray([0.5, 0.3, 0.2]), jnp.full(3, 1 / 3)
    print("P(data | word) at k = 2:", nce_posterior(jnp.log(p), jnp.log(q), 2))
    print("best objective:", nce_objective_exact(jnp.log(p), p, q, 2))
    scores = jax.nn.log_softmax(jnp.asarray([0.1, -0.2, 0.3]))
    for k in (1, 10, 1000):
        print(f"gradient at k = {k:>4}:", nce_gradient(scores, p, q, k))
    assert jnp.allclose(nce_gradient(scores, p, q, 1000), softmax_gradient(scores, p), atol=5e-4)

    # Draws from exp(2 x^2 - x^4)/Z by inverting its distribution function on a grid.
    grid = np.linspace(-3, 3, 20_001)
    density = np.exp(2 * grid**2 - grid**4)
    log_z = np.log(density.sum() * (grid[1] - grid[0]))
    data_key, noise_key, top_key, bottom_key = jr.split(jr.key(0), 4)
    uniforms = np.asarray(jr.uniform(data_key, (5000,)))
    data = np.interp(uniforms, np.cumsum(density) / density.sum(), grid)
    fit = noise_contrastive_fit(quartic, np.zeros(2), data, Normal(0.0, 1.2), k=20, key=noise_key)
    print(fit, fit.parameters, f"true log Z {log_z:.4f}")
    assert abs(float(fit.parameters[0]) - 2.0) < 0.2
    assert abs(float(fit.log_normaliser) - log_z) < 0.1

    top, bottom = 1 + jr.normal(top_key, (4000,)), jr.normal(bottom_key, (4000,))
    ratio = density_ratio(lambda w, x: w[0] + w[1] * x, np.zeros(2), top, bottom)
    print("log ratio of N(1, 1) to N(0, 1): x - 1/2, found", ratio.parameters)
    assert jnp.allclose(ratio.parameters, jnp.asarray([-0.5, 1.0]), atol=0.15)


if __name__ == "__main__":
    main()
