"""How many bends has the curve? Evidence, a posterior over degrees, and predictions averaged over it."""

import jax.numpy as jnp
import numpy as np

from tractable.distributions.gaussian import Gaussian
from tractable.distributions.regression_conjugate import (
    linear_regression_posterior,
    linear_regression_predictive,
)
from tractable.inference import bayes_factor, interval_coverage, model_posterior
from tractable.inference.evidence.comparison import average_predictive, polynomial_evidences

NOISE, DEGREES = 0.1, 6


def design(x, degree):
    """Columns past the degree are zero: every model has the same shape."""
    return x[:, None] ** np.arange(DEGREES + 1) * (np.arange(DEGREES + 1) <= degree)


def main() -> None:
    rng = np.random.default_rng(0)
    curve = lambda x: 0.5 - x + 1.2 * x**2  # noqa: E731
    x, new = rng.uniform(-1, 1, 60), rng.uniform(-1, 1, 200)
    y, later = curve(x) + NOISE * rng.normal(size=60), curve(new) + NOISE * rng.normal(size=200)

    evidences = polynomial_evidences(x, y, DEGREES, noise=NOISE)
    post = model_posterior({f"degree {m}": evidences[m] for m in range(DEGREES + 1)})
    print(post, end="\n\n")
    assert post.best == "degree 2"
    print(bayes_factor(evidences[2], evidences[1]), end="\n\n")
    assert (np.diff(np.asarray(evidences)[2:]) < 0).all()  # what is not needed costs evidence

    prior = Gaussian(jnp.zeros(DEGREES + 1), jnp.eye(DEGREES + 1))
    predictives = []
    for degree in range(DEGREES + 1):
        after = linear_regression_posterior(prior, design(x, degree), y, noise=NOISE)
        predictives.append(linear_regression_predictive(after, design(new, degree), noise=NOISE))
    averaged = average_predictive(predictives, post)
    print(f"log-density of new rows: averaged {float(averaged.log_prob(later)):.2f}")
    mean, spread = np.asarray(averaged.mean), np.asarray(averaged.std)
    coverage = interval_coverage(later, mean - 1.645 * spread, mean + 1.645 * spread, 0.9)
    print(coverage)
    assert coverage.p_value > 0.01


if __name__ == "__main__":
    main()
