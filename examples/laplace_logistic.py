"""Bayesian logistic regression by Laplace's approximation: evidence, intervals, and when not to trust it."""

import jax
import jax.numpy as jnp
import numpy as np

from tractable.inference import laplace


def log_joint(weights, features, labels):
    """Bernoulli likelihood with a standard normal prior on each weight."""
    logits = features @ weights
    likelihood = (labels * jax.nn.log_sigmoid(logits) + (1 - labels) * jax.nn.log_sigmoid(-logits)).sum()
    return likelihood - 0.5 * weights @ weights - 0.5 * weights.size * jnp.log(2 * jnp.pi)


def main() -> None:
    generator = np.random.default_rng(0)
    features = np.c_[np.ones(200), generator.normal(size=(200, 2))]
    labels = (generator.uniform(size=200) < 1 / (1 + np.exp(-features @ [0.5, 1.5, 0.0]))).astype(float)

    both = laplace(log_joint, np.zeros(3), args=(features, labels))
    print(both)
    one = laplace(log_joint, np.zeros(2), args=(features[:, :2], labels))
    factor = float(one.log_evidence.value - both.log_evidence.value)
    print(f"log Bayes factor for leaving out the useless column: {factor:.2f}")
    assert factor > 0

    deviations = jnp.sqrt(jnp.diag(both.gaussian.cov))
    assert jnp.all(jnp.abs(both.mode - jnp.asarray([0.5, 1.5, 0.0])) < 4 * deviations)

    near, far = (both.predictive(lambda w, x: x @ w, jnp.asarray([1.0, x, 0.0])) for x in (0.0, 6.0))
    inner, outer = float(near.cov[0, 0]) ** 0.5, float(far.cov[0, 0]) ** 0.5
    print(f"logit amid the data {float(near.mean[0]):.2f} +- {inner:.2f}, far away +- {outer:.2f}")
    assert outer > 3 * inner

    def ridge(z):  # skewed: the Gaussian is there, but its evidence is seven per cent too large
        return -(z**2) / 2 + jax.nn.log_sigmoid(20 * z + 4)

    skewed = laplace(ridge, 0.0)
    print(skewed.verdict)
    assert skewed.skewed
    assert abs(float(jnp.exp(skewed.log_evidence.value)) - 1.5609077) < 1e-6

    saddle = laplace(lambda x: -(x[0] ** 2) + x[1] ** 2, np.zeros(2))
    assert not saddle.ok
    print(saddle.verdict)


if __name__ == "__main__":
    main()
