"""Five estimators of one gradient: the same mean, very different variances, and what that does to descent."""

import jax.random as jr
import numpy as np

from tractable.inference import pathwise_gradient, score_gradient
from tractable.inference.variational.gradients import descents, race


def square(theta, z):
    return z**2


def log_q(theta, z):  # z ~ N(2 theta + 3, 1)
    return -0.5 * (z - (2 * theta + 3)) ** 2


def draw(theta, noise):
    return 2 * theta + 3 + noise


def main() -> None:
    nodes, weights = np.polynomial.hermite_e.hermegauss(30)
    weights = weights / weights.sum()
    for theta in (0.0, -1.5, 1.0):
        z = 2 * theta + 3 + nodes
        exact = race(
            {
                "score": score_gradient(square, log_q, theta, z, weights=weights),
                "score, best baseline": score_gradient(
                    square, log_q, theta, z, weights=weights, baseline="optimal"
                ),
                "pathwise": pathwise_gradient(square, draw, theta, nodes, weights=weights),
            }
        )
        print(f"theta = {theta}: the gradient is {8 * theta + 12}")
        print(exact)
        assert np.isclose(exact.variances["pathwise"], 16)

    def with_score(theta, key):
        z = draw(theta, jr.normal(key, (4,)))
        return score_gradient(square, log_q, theta, z, baseline="leave_one_out").mean

    def with_path(theta, key):
        return pathwise_gradient(square, draw, theta, jr.normal(key, (4,))).mean

    paths = descents({"score": with_score, "pathwise": with_path}, 1.0, jr.key(0), rate=0.02, num_steps=300)
    spread = {name: float(np.asarray(path)[150:].std()) for name, path in paths.items()}
    print("standard deviation around the minimum at -1.5:", spread)
    assert spread["pathwise"] < spread["score"]
    assert abs(float(np.asarray(paths["pathwise"])[150:].mean()) + 1.5) < 0.05


if __name__ == "__main__":
    main()
