"""Steps per CPU second of an LSTM and of a transformer, on one thread: here, plain Equinox and PyTorch.

Each library trains the same sizes on the same data in a process of its own. Equinox and PyTorch are written
as their users write them, a compiled step or an eager one in a loop; here it is one call of `train`.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

ONE_THREAD = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
LSTM = {"batch": 32, "steps": 100, "inputs": 8, "hidden": 64}
TRANSFORMER = {"batch": 16, "steps": 128, "vocabulary": 64, "dim": 64, "heads": 4, "hidden": 256, "blocks": 2}
ROUND = 20  # batches of one measurement


def lstm_data(batches: int = ROUND) -> tuple[np.ndarray, np.ndarray]:
    """Sequences, and a target that is the mean of their first column."""
    shape = (LSTM["batch"] * batches, LSTM["steps"], LSTM["inputs"])
    X = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    return X, X[:, :, 0].mean(1, keepdims=True)


def transformer_data(batches: int = ROUND) -> tuple[np.ndarray, np.ndarray]:
    """Tokens that count upwards from a random one, and the next token of each."""
    first = np.random.default_rng(0).integers(
        0, TRANSFORMER["vocabulary"], (TRANSFORMER["batch"] * batches, 1)
    )
    tokens = (first + np.arange(TRANSFORMER["steps"] + 1)) % TRANSFORMER["vocabulary"]
    return tokens[:, :-1].astype(np.int32), tokens[:, 1:].astype(np.int32)


def best_rate(epoch: Callable[[], Any], rounds: int) -> float:
    """Batches per CPU second, in the best of some rounds after one to warm up."""
    epoch()
    best = np.inf
    for _ in range(rounds):
        begun = time.process_time()
        epoch()
        best = min(best, time.process_time() - begun)
    return ROUND / best


def tractable(workload: str, rounds: int) -> float:
    """One call of `train` for each measurement."""
    import jax.random as jr

    from tractable.neural import LanguageModel, RecurrentNetwork, squared, token_cross_entropy, train

    if workload == "lstm":
        data, loss, batch = lstm_data(), squared, LSTM["batch"]
        network: Any = RecurrentNetwork(LSTM["inputs"], LSTM["hidden"], 1, key=jr.key(0))
    else:
        data, loss, batch = transformer_data(), token_cross_entropy, TRANSFORMER["batch"]
        sizes = (TRANSFORMER[name] for name in ("vocabulary", "dim", "heads", "blocks"))
        network = LanguageModel(
            *sizes, hidden=TRANSFORMER["hidden"], capacity=TRANSFORMER["steps"], key=jr.key(0)
        )
    return best_rate(lambda: train(network, data, loss, key=0, batch=batch, epochs=1, progress=False), rounds)


def equinox(workload: str, rounds: int) -> float:
    """Its layers, one example at a time, and a compiled step in a loop."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import jax.random as jr
    import optax

    from benchmarks._neural_sequences_equinox import Language, Recurrent

    if workload == "lstm":
        (X, y), batch = lstm_data(), LSTM["batch"]
        model: Any = Recurrent(LSTM["inputs"], LSTM["hidden"], jr.key(0))
    else:
        (X, y), batch = transformer_data(), TRANSFORMER["batch"]
        model = Language(
            *(TRANSFORMER[n] for n in ("vocabulary", "steps", "dim", "heads", "hidden", "blocks")), jr.key(0)
        )
    rows = (
        jnp.asarray(X.reshape(ROUND, batch, *X.shape[1:])),
        jnp.asarray(y.reshape(ROUND, batch, *y.shape[1:])),
    )
    params, static = eqx.partition(model, eqx.is_inexact_array)
    adam = optax.adam(1e-3)

    @jax.jit
    def step(params, memory, x, y):
        def loss(params):
            answers = jax.vmap(eqx.combine(params, static))(x)
            if workload == "lstm":
                return ((answers - y) ** 2).mean()
            return optax.softmax_cross_entropy_with_integer_labels(answers, y).mean()

        value, slope = jax.value_and_grad(loss)(params)
        update, memory = adam.update(slope, memory)
        return optax.apply_updates(params, update), memory, value

    def epoch():
        state, value = (params, adam.init(params)), None
        for x, y in zip(*rows):
            *state, value = step(*state, x, y)
        jax.block_until_ready((state, value))

    return best_rate(epoch, rounds)


def torch(workload: str, rounds: int) -> float:
    """Its modules, eager, with Adam."""
    import torch

    from benchmarks._neural_sequences_torch import Language, Recurrent

    torch.set_num_threads(1)
    if workload == "lstm":
        (X, y), batch = lstm_data(), LSTM["batch"]
        model: Any = Recurrent(LSTM["inputs"], LSTM["hidden"])
        loss: Any = torch.nn.functional.mse_loss
    else:
        (X, y), batch = transformer_data(), TRANSFORMER["batch"]
        model = Language(
            *(TRANSFORMER[n] for n in ("vocabulary", "steps", "dim", "heads", "hidden", "blocks"))
        )
        loss = lambda answers, y: torch.nn.functional.cross_entropy(answers.flatten(0, 1), y.flatten().long())  # noqa: E731
    rows = [
        (torch.from_numpy(X[i : i + batch]), torch.from_numpy(y[i : i + batch]))
        for i in range(0, len(X), batch)
    ]
    adam = torch.optim.Adam(model.parameters(), 1e-3)

    def epoch():
        for x, y in rows:
            adam.zero_grad()
            loss(model(x), y).backward()
            adam.step()

    return best_rate(epoch, rounds)


LIBRARIES = {"tractable": tractable, "equinox": equinox, "torch": torch}


def main(options: Sequence[str] = ()) -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks neural", description=__doc__)
    parser.add_argument("names", nargs="*", default=["lstm", "transformer"])
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args(list(options))
    table = Table("workload", "library", "steps per CPU second", "tractable over it")
    for workload in chosen.names or ["lstm", "transformer"]:
        rates: dict[str, float] = {}
        for library in LIBRARIES:
            command = [
                sys.executable,
                "-m",
                "benchmarks._neural_sequences",
                workload,
                library,
                str(chosen.rounds),
            ]
            done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **ONE_THREAD})
            lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
            if not lines:
                table.add_row(
                    workload, library, (done.stderr.strip().splitlines() or ["ended early"])[-1][:60], ""
                )
                continue
            rates[library] = json.loads(lines[-1])["rate"]
            table.add_row(
                workload, library, f"{rates[library]:.1f}", f"{rates['tractable'] / rates[library]:.2f}"
            )
    Console(width=110).print(table)


if __name__ == "__main__":
    name, library, times = sys.argv[1:]
    print(json.dumps({"rate": LIBRARIES[library](name, int(times))}))
