"""Two marked numbers of a long sequence are added: the LSTM's memory carries them, a vanilla cell forgets."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.neural import RecurrentNetwork, gradient_flow, squared, train
from tractable.optim.gradient import Adam

LENGTH = 30


def adding(generator: np.random.Generator, num: int) -> tuple[np.ndarray, np.ndarray]:
    """Uniform numbers, two of them marked, one in either half; the target is their sum less one."""
    X = np.zeros((num, LENGTH, 2), np.float32)
    X[:, :, 0] = generator.uniform(size=(num, LENGTH))
    first, second = generator.integers(0, LENGTH // 2, (2, num))
    rows = np.arange(num)
    X[rows, first, 1] = X[rows, LENGTH // 2 + second, 1] = 1
    return X, ((X[:, :, 0] * X[:, :, 1]).sum(1, keepdims=True) - 1).astype(np.float32)


def main() -> None:
    generator = np.random.default_rng(0)
    data, (X, y) = adding(generator, 2000), adding(generator, 300)
    guess = float((y**2).mean())  # of the mean: the variance of two uniform numbers, 1/6
    errors, rates = {}, {}
    for cell, options in (("lstm", {"forget_bias": 3.0}), ("rnn", {})):
        network = RecurrentNetwork(2, 16, 1, cell=cell, key=jr.key(0), **options)
        rates[cell] = float(gradient_flow(network.cells[0], X[0]).rate)
        run = train(
            network,
            data,
            squared,
            method=Adam(1e-2),
            batch=50,
            epochs=20,
            clip=1.0,
            key=jr.key(1),
            progress=False,
        )
        errors[cell] = float(((jax.vmap(run.state)(jnp.asarray(X)) - y) ** 2).mean())
        factor = np.exp(rates[cell])
        print(
            f"{cell}: a step back multiplies the gradient by {factor:.3f} at first; error {errors[cell]:.4f}"
        )
    print(f"the mean as the answer has error {guess:.4f}")
    assert rates["lstm"] > -0.1 > rates["rnn"]
    assert errors["lstm"] < 0.1 * guess
    assert errors["rnn"] > 5 * errors["lstm"]


if __name__ == "__main__":
    main()
