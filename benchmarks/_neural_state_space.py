"""State-space layers: cost by length, how far modes are apart; copying and adding, learnt and not."""

import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.neural import (
    DiagonalSSM,
    RecurrentNetwork,
    SelectiveSSM,
    StateSpaceNetwork,
    predict_rows,
    squared,
    train,
)
from tractable.neural.memory_tasks import adding_problem, selective_copying
from tractable.optim import Adam

LENGTHS = 12_500, 25_000, 50_000, 100_000
COUNT, SYMBOLS = 4, 4


def cpu_seconds(function: Callable, *args: Any) -> float:
    """The least of three calls, without the first."""
    jax.block_until_ready(function(*args))
    taken = []
    for _ in range(3):
        begun = time.process_time()
        jax.block_until_ready(function(*args))
        taken.append(time.process_time() - begun)
    return min(taken)


def costs() -> None:
    """CPU milliseconds of a forward pass of each mode, and the slope of their logarithms."""
    for kind, layer in (
        ("diagonal", DiagonalSSM(8, 16, key=jr.key(0))),
        ("selective", SelectiveSSM(8, 16, key=jr.key(0))),
    ):
        for mode, call in (("whole", eqx.filter_jit(layer)), ("steps", eqx.filter_jit(layer.recur))):
            taken = [cpu_seconds(call, jnp.ones((length, 8), jnp.float32)) for length in LENGTHS]
            slope = np.polyfit(np.log(LENGTHS), np.log(taken), 1)[0]
            shown = ", ".join(f"{1000 * each:.1f}" for each in taken)
            print(f"{kind:>10} {mode}: {shown} ms at {LENGTHS}; slope {slope:.2f}")


def distances() -> None:
    """The largest distance between a convolution (or prefix scan) and the recurrence, at 10,000 steps."""
    for dtype in (jnp.float64, jnp.float32):
        x = jr.normal(jr.key(1), (10_000, 8), dtype)
        for layer in (
            DiagonalSSM(8, 16, initial="linear", steps=(1e-3, 1e-3), dtype=dtype, key=jr.key(0)),
            SelectiveSSM(8, 16, dtype=dtype, key=jr.key(0)),
        ):
            whole, steps = eqx.filter_jit(lambda layer, x: (layer(x), layer.recur(x)[1]))(layer, x)
            apart = float(jnp.abs(whole - steps).max())
            print(f"{type(layer).__name__} in {dtype.__name__}: modes are {apart:.1e} apart")


class Tail(eqx.Module):
    """What a network says at the last places."""

    network: StateSpaceNetwork

    def __call__(self, x: Any) -> Any:
        return self.network(x)[-COUNT:]


def copying(length: int, epochs: int) -> None:
    """The share of tokens, and of whole sequences, that are right on new sequences."""

    def data(key: Any, num: int) -> tuple[np.ndarray, np.ndarray]:
        tokens, wanted = selective_copying(key, num, length, COUNT, SYMBOLS)
        return np.concatenate([tokens, np.full((num, COUNT), SYMBOLS + 1)], 1), np.asarray(wanted)

    def loss(logits: Any, wanted: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), wanted[:, None], 1).mean()

    rows, held = data(jr.key(0), 2048), data(jr.key(9), 400)
    for kind, options in (("selective", {"states": 8}), ("diagonal", {"pairs": 8})):
        network = Tail(
            StateSpaceNetwork(
                SYMBOLS + 2, SYMBOLS, 16, kind=kind, steps=(0.01, 1.0), key=jr.key(1), **options
            )
        )
        begun = time.process_time()
        found = train(network, rows, loss, key=jr.key(2), method=Adam(1e-2), epochs=epochs, progress=False)
        right = np.asarray(predict_rows(found.state, held[0])).argmax(2) == held[1]
        seconds = time.process_time() - begun
        print(
            f"{kind:>10}: {COUNT} of {length} places, {epochs} epochs, {seconds:.0f} CPU s: "
            f"tokens {right.mean():.3f}, sequences {right.all(1).mean():.3f}"
        )


def adding(length: int) -> None:
    """The mean squared errors of sums of two marked numbers; that of the mean alone is a sixth."""
    (rows, totals), (held, wanted) = (
        tuple(np.asarray(part, np.float32) for part in adding_problem(key, num, length))
        for key, num in ((jr.key(0), 4096), (jr.key(9), 500))
    )
    for cell, epochs in (("gru", 12), ("lstm", 20), ("rnn", 12)):
        begun = time.process_time()
        network = RecurrentNetwork(2, 32, 1, cell=cell, key=jr.key(1))
        options = {"method": Adam(1e-2), "epochs": epochs, "clip": 1.0, "progress": False}
        found = train(network, (rows, totals[:, None]), squared, key=jr.key(2), **options)
        error = ((np.asarray(predict_rows(found.state, held)).ravel() - wanted) ** 2).mean()
        seconds = time.process_time() - begun
        print(f"{cell:>10}: adding two of {length}, {epochs} epochs, {seconds:.0f} CPU s: error {error:.4f}")


def main() -> None:
    """Print the four tables."""
    costs()
    distances()
    copying(32, 10)
    adding(100)


if __name__ == "__main__":
    main()
