"""Poisson regression: a full-rank and a mean-field answer, their verdicts, and what weights correct."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.inference import vi
from tractable.inference.weighted.weights import weighted_mean


def log_density(weights, x, counts):
    rate = x @ weights
    return (counts * rate - jnp.exp(rate)).sum() - 0.5 * (weights**2).sum()


def main() -> None:
    random = np.random.default_rng(0)
    x = np.c_[np.ones(150), random.normal(size=(150, 3)) @ np.array([[1, 0.8, 0], [0, 0.6, 0], [0, 0, 1]])]
    counts = random.poisson(np.exp(x @ [0.5, 0.8, -0.4, 0.0])).astype(float)
    options = {"args": (x, counts), "method": "lbfgs"}

    full = vi(log_density, jnp.zeros(4), key=jr.key(1), **options)
    narrow = vi(log_density, jnp.zeros(4), key=jr.key(2), family="mean_field", **options)
    print(full)
    print(narrow)
    assert full.status.ok
    assert float(full.k_hat) < 0.7

    # correlated columns: independence costs evidence and makes the posterior too narrow
    assert float(full.elbo) > float(narrow.elbo) + 0.1
    wide, thin = np.sqrt(np.diag(full.q.cov)), np.asarray(narrow.q.scale)
    print("standard deviations:", wide.round(3), "against", thin.round(3))
    assert (thin[1:3] < 0.8 * wide[1:3]).all()

    # the weights of the judged draws correct what is left of the error
    corrected = weighted_mean(full.draws, full.log_weights)
    print("coefficients:", corrected)
    gap = np.abs(np.asarray(corrected.value) - np.asarray(full.q.mean))
    assert (gap < 0.2 * wide).all()
    assert (np.abs(np.asarray(corrected.value) - [0.5, 0.8, -0.4, 0.0]) < 4 * wide).all()


if __name__ == "__main__":
    main()
