"""The training loop beside one that is written and compiled by hand: one program per epoch, called in a loop.

Both do the same updates of the same network on as many rows as fill the batches, by Adam, in single
precision. What an update costs more is the slope between a short run and a long one; what a run costs more,
the setting up, is told apart.
"""

import json
import os
import subprocess
import sys
import time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

ROWS, HIDDEN, EPOCHS, ROUNDS = 1280, 100, 60, 5
BATCHES = (32, 128)


def by_hand(batch: int) -> Any:
    """A function of the number of epochs: what a user of Equinox and optax writes who knows how."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import jax.random as jr
    import optax

    from tractable.neural import MLP, cross_entropy

    X, y = rows()
    network, data = MLP((64, HIDDEN, 10), key=jr.key(0)), (jnp.asarray(X), jnp.asarray(y))
    start, fixed = eqx.partition(network, eqx.is_inexact_array)
    method = optax.adam(1e-3)

    @jax.jit
    def epoch(params: Any, memory: Any, key: Any) -> tuple:
        def step(carry: tuple, at: Any) -> tuple:
            def mean(params: Any) -> Any:
                loss = jax.vmap(lambda x, t: cross_entropy(eqx.combine(params, fixed)(x), t))
                return loss(data[0][at], data[1][at]).mean()

            value, slope = jax.value_and_grad(mean)(carry[0])
            update, memory = method.update(slope, carry[1], carry[0])
            return (optax.apply_updates(carry[0], update), memory), value

        places = jr.permutation(key, ROWS).reshape(-1, batch)
        (params, memory), values = jax.lax.scan(step, (params, memory), places)
        return params, memory, values.mean()

    def run(epochs: int) -> float:
        params, memory, value = start, method.init(start), jnp.zeros(())
        for key in jr.split(jr.key(1), epochs):
            params, memory, value = epoch(params, memory, key)
        return float(value)

    return run


def by_train(batch: int) -> Any:
    """The same by `train`."""
    import jax.random as jr

    from tractable.neural import MLP, cross_entropy, train

    network = MLP((64, HIDDEN, 10), key=jr.key(0))

    def run(epochs: int) -> float:
        return float(
            train(network, rows(), cross_entropy, key=jr.key(1), batch=batch, epochs=epochs).trace[-1]
        )

    return run


def rows() -> tuple[np.ndarray, np.ndarray]:
    """Inputs and classes that a network can learn."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 64)).astype(np.float32)
    return X, np.argmax(X @ rng.normal(size=(64, 10)), axis=1).astype(np.int32)


def measure(batch: int) -> dict[str, float]:
    """CPU microseconds of an update and milliseconds of setting up, the least of several rounds in turn."""
    works = {"hand": by_hand(batch), "train": by_train(batch)}
    least: dict[tuple[str, int], float] = {}
    for round_number in range(ROUNDS + 1):
        for epochs in (EPOCHS, 4 * EPOCHS):
            for name, work in works.items():
                begun = time.process_time()
                work(epochs)
                spent = time.process_time() - begun
                if round_number:  # the first compiles
                    least[name, epochs] = min(spent, least.get((name, epochs), np.inf))
    found = {}
    for name in works:
        each = (least[name, 4 * EPOCHS] - least[name, EPOCHS]) / (3 * EPOCHS * (ROWS // batch))
        found[name], found[f"{name}_total"] = 1e6 * each, least[name, 4 * EPOCHS]
    return found


def main() -> None:
    """The table."""
    from benchmarks._neural_digits import ONE_THREAD

    table = Table(
        "batch", "by hand, us an update", "train", "ratio", "240 epochs by hand, s", "train", "ratio"
    )
    for batch in BATCHES:
        command = [sys.executable, "-m", "benchmarks._neural_loop", str(batch)]
        done = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, **ONE_THREAD}, check=False
        )
        if done.returncode:
            sys.exit(done.stderr)
        found = json.loads(done.stdout.splitlines()[-1])
        cells = [f"{found[name]:.1f}" for name in ("hand", "train")]
        totals = [f"{found[name]:.3f}" for name in ("hand_total", "train_total")]
        table.add_row(
            str(batch), *cells, f"{found['train'] / found['hand']:.3f}", *totals,
            f"{found['train_total'] / found['hand_total']:.3f}",
        )  # fmt: skip
    Console().print(table)


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
