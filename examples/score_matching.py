"""Fit energies by their scores: implicit, sliced and denoising losses, and the score of noisy data."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.distributions.continuous import Normal
from tractable.distributions.mixture import Mixture
from tractable.inference.unnormalised.score_matching import (
    denoising_score_matching,
    fit_score,
    implicit_score_matching,
    sliced_score_matching,
    stein_score,
)


def energy(theta, x):
    """A Gaussian without its normalising constant: a mean, and the lower triangle of a root."""
    lower = jnp.asarray([[jnp.exp(theta["a"]), 0.0], [theta["b"], jnp.exp(theta["c"])]])
    return -0.5 * jnp.sum((lower.T @ (x - theta["mean"])) ** 2)


def main() -> None:
    data_key, slice_key, noise_key, other_key = jr.split(jr.key(0), 4)
    root = jnp.asarray([[1.0, 0.0], [0.8, 0.5]])
    data = jr.normal(data_key, (2000, 2)) @ root.T + jnp.asarray([[1.0, -1.0]])
    start = {"mean": np.zeros(2), "a": 0.0, "b": 0.0, "c": 0.0}
    fit = fit_score(energy, start, data)
    print(fit)
    assert jnp.allclose(fit.state["mean"], data.mean(0), atol=1e-5)

    score = jax.grad(lambda x: energy(fit.state, x))
    implicit = implicit_score_matching(score, data)
    sliced = sliced_score_matching(score, data, key=slice_key, num_slices=4)
    print("implicit", implicit, "sliced", sliced)
    assert abs(float(sliced.value - implicit.value)) < 5 * float(sliced.standard_error)

    # Denoising: the best score is that of the data plus noise, here known.
    mixture = Mixture([0.5, 0.5], Normal(np.array([-2.0, 2.0]), np.array([0.5, 0.5])))
    scale = 0.6
    noisy = Mixture([0.5, 0.5], Normal(np.array([-2.0, 2.0]), np.full(2, np.sqrt(0.25 + scale**2))))
    xs = mixture.sample(other_key, (4000,))
    right = denoising_score_matching(lambda x: stein_score(noisy, x), xs, key=noise_key, scale=scale)
    clean_key = jr.fold_in(jr.key(1), 0)
    wrong = denoising_score_matching(lambda x: stein_score(mixture, x), xs, key=clean_key, scale=scale)
    print("denoising loss: score of the noisy density", right, "- of the clean one", wrong)
    assert right.value + 5 * right.standard_error < wrong.value


if __name__ == "__main__":
    main()
