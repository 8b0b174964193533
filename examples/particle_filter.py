"""Stochastic volatility: returns whose hidden log-variance wanders, followed by particles, and smoothed."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.distributions.continuous import Normal
from tractable.inference import backward_sample, particle_filter
from tractable.inference.particles.smoothing import lineages

# x_t = mu + phi (x_{t-1} - mu) + sigma e, y_t = exp(x_t / 2) e': no Kalman filter for this one
MU, PHI, SIGMA = -1.0, 0.95, 0.25
START = Normal(MU, SIGMA / np.sqrt(1 - PHI**2))


def transition(x, t, mu, phi, sigma):
    return Normal(mu + phi * (x - mu), sigma)


def observation(x, y, t, mu, phi, sigma):
    return Normal(0.0, jnp.exp(x / 2)).log_prob(y)


def followed(ys, args, seed):
    return particle_filter(START, transition, observation, ys, key=jr.key(seed), num_particles=400, args=args)


def simulate(times: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    x = np.empty(times)
    x[0] = MU + SIGMA / np.sqrt(1 - PHI**2) * generator.normal()
    for t in range(1, times):
        x[t] = MU + PHI * (x[t - 1] - MU) + SIGMA * generator.normal()
    return x, np.exp(x / 2) * generator.normal(size=times)


def main() -> None:
    truth, returns = simulate(150, seed=0)
    returns[100:105] = np.nan  # the exchange was closed
    args = (jnp.asarray(MU), jnp.asarray(PHI), jnp.asarray(SIGMA))
    found = followed(returns, args, seed=0)
    print(found)
    low, high = found.quantile([0.05, 0.95])
    covered = ((low < truth) & (truth < high)).mean()
    print(f"90 % intervals hold the truth {float(covered):.0%} of the time")
    assert 0.8 < covered < 0.99
    smooth = backward_sample(found, transition, key=jr.key(1), num_paths=20, args=args)
    print(lineages(found), smooth, sep="\n")
    before, after = (np.sqrt(np.mean((np.asarray(e.value) - truth) ** 2)) for e in (found.mean, smooth.mean))
    print(f"error of the filter {before:.3f}, with the future {after:.3f}")
    assert after < before
    # a likelihood for comparison: a walk with another memory explains the returns worse
    other = followed(returns, (args[0], jnp.asarray(0.5), args[2]), seed=2)
    gap = found.log_evidence.value - other.log_evidence.value
    assert gap > 5 * np.hypot(found.log_evidence.standard_error, other.log_evidence.standard_error)


if __name__ == "__main__":
    main()
