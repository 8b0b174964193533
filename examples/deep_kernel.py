"""A deep kernel: a small network bends the inputs, and the evidence trains it together with the process."""

import equinox as eqx
import jax
import jax.random as jr
import numpy as np

from tractable.core.module import Module
from tractable.gp import GaussianProcess, fit_hyperparameters
from tractable.kernels import RBF, Warped


class Network(Module):
    """One hidden layer of three units, added to the input."""

    first: eqx.nn.Linear
    last: eqx.nn.Linear

    def __init__(self, key):
        a, b = jr.split(key)
        self.first, self.last = eqx.nn.Linear(1, 3, key=a), eqx.nn.Linear(3, 1, key=b)

    def __call__(self, x):
        return x + self.last(jax.numpy.tanh(self.first(x)))


def main() -> None:
    """A step is rough for a stationary kernel, and smooth after the inputs are bent."""
    generator = np.random.default_rng(0)
    X = np.sort(generator.uniform(-3, 3, size=50))[:, None]
    y = np.tanh(8 * X[:, 0]) + 0.05 * generator.normal(size=50)
    plain = fit_hyperparameters(GaussianProcess(1.0 * RBF(1.0), noise=0.01), X, y)
    deep = fit_hyperparameters(
        GaussianProcess(1.0 * Warped(RBF(1.0), Network(jr.key(1))), noise=0.01),
        X,
        y,
        num_restarts=2,
        key=jr.key(2),
    )
    print(f"log-evidence: stationary {float(plain.log_evidence):.2f}, deep {float(deep.log_evidence):.2f}")
    assert float(deep.log_evidence) > float(plain.log_evidence) + 5


if __name__ == "__main__":
    main()
