"""How many modes? Tempered particles weigh a model with two modes, where one chain would see one of them."""

import jax.random as jr
import numpy as np

from tractable.distributions.continuous import Normal
from tractable.distributions.gamma import Gamma
from tractable.inference import smc

# y = slope^2 x + noise: the sign of the slope cannot be known, and the posterior has two modes
X = np.linspace(0.1, 2.0, 20)
Y = 1.5**2 * X + 0.3 * np.random.default_rng(0).normal(size=20)


def squared(theta, x, y):
    return Normal(theta["slope"] ** 2 * x, theta["noise"]).log_prob(y)


def by_quadrature(width: float) -> float:
    """The evidence on a fine grid: possible with two parameters."""
    slopes, noises = np.meshgrid(np.linspace(-4, 4, 1601), np.linspace(0.05, 1.5, 801), indexing="ij")
    squares = (Y**2).sum() - 2 * slopes**2 * (X * Y).sum() + slopes**4 * (X**2).sum()
    logs = -len(X) * np.log(noises * np.sqrt(2 * np.pi)) - squares / (2 * noises**2)
    logs += (
        -0.5 * (slopes / width) ** 2 - np.log(width * np.sqrt(2 * np.pi)) + np.log(16 * noises) - 4 * noises
    )
    cell = (8 / 1600) * (1.45 / 800)
    return float(logs.max() + np.log(np.exp(logs - logs.max()).sum() * cell))


def main() -> None:
    evidences = []
    for seed, width in enumerate((2.0, 50.0)):  # a wider prior compiles nothing new
        prior = {"slope": Normal(0.0, width), "noise": Gamma(2.0, 4.0)}
        post = smc(squared, prior, key=jr.key(seed), args=(X, Y), num_particles=2000, waste_free=False)
        exact = by_quadrature(width)
        print(f"prior of width {width:g}: exact log evidence {exact:.3f}")
        print(post)
        right = post.expectation(lambda theta: theta["slope"] > 0)
        print(f"slope above zero with probability {right} (exact: 0.5)\n")
        assert post.status.ok
        assert abs(post.log_evidence.value - exact) < 5 * post.log_evidence.standard_error
        assert abs(right.value - 0.5) < 5 * right.standard_error
        evidences.append(post.log_evidence.value)
    print(f"log Bayes factor of the narrow prior {evidences[0] - evidences[1]:.2f}")
    assert evidences[0] > evidences[1]


if __name__ == "__main__":
    main()
