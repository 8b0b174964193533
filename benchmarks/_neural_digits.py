"""Digits to 97 % of the test rows: scikit-learn's perceptron beside the same network here, on one thread.

Both have 100 hidden neurons, batches of 200 and Adam with steps of 1e-3. How many epochs it takes is found
first, and is not timed; then a run of as many epochs is, for three seeds.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

ONE_THREAD = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
GOAL, SEEDS, MOST = 0.97, 3, 150


def digits() -> tuple[np.ndarray, ...]:
    """The bundled digits over 16: 1347 rows to train and 450 to test, stratified; inputs, then classes."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    X, y = load_digits(return_X_y=True)
    parts = train_test_split(X / 16, y, test_size=450, stratify=y, random_state=0)
    return tuple(np.asarray(part, np.float32 if part.ndim == 2 else np.int32) for part in parts)


def scikit_learn(data: Any) -> dict[str, Any]:
    """Epochs until the goal and the CPU seconds of as many, the median of the seeds."""
    from sklearn.neural_network import MLPClassifier

    X, Z, y, t = data
    epochs, seconds = [], []
    for seed in range(SEEDS):
        model, right, count = MLPClassifier((100,), batch_size=200, random_state=seed), 0.0, 0
        while right < GOAL and count < MOST:
            model.partial_fit(X, y, classes=np.arange(10))
            count, right = count + 1, float((model.predict(Z) == t).mean())
        fresh, begun = MLPClassifier((100,), batch_size=200, random_state=seed), time.process_time()
        for _ in range(count):
            fresh.partial_fit(X, y, classes=np.arange(10))
        seconds.append(time.process_time() - begun)
        epochs.append(count)
    return {"epochs": int(np.median(epochs)), "seconds": float(np.median(seconds))}


def wrong(network: Any, row: Any) -> Any:
    """Whether a row is taken for another class."""
    return (network(row[0]).argmax() != row[1]).astype(float)


def tractable(data: Any) -> dict[str, Any]:
    """The same here: the curve of errors on the test rows tells the epochs."""
    import jax.random as jr

    from tractable.neural import MLP, cross_entropy, train
    from tractable.optim import Adam, minimise_batches

    X, Z, y, t = data
    epochs, seconds = [], []
    for seed in range(SEEDS):
        network = MLP((64, 100, 10), key=jr.key(seed))
        looked = minimise_batches(
            lambda network, row: cross_entropy(network(row[0]), row[1]), network, (X, y), Adam(1e-3),
            key=jr.key(100 + seed), batch=200, epochs=MOST, validation=(Z, t), validation_loss=wrong,
        )  # fmt: skip
        count = int(np.argmax(looked.trace.validation <= 1 - GOAL)) + 1
        options = {"batch": 200, "epochs": count}
        train(network, (X, y), cross_entropy, key=jr.key(100 + seed), **options)
        begun = time.process_time()
        train(network, (X, y), cross_entropy, key=jr.key(100 + seed), **options)
        seconds.append(time.process_time() - begun)
        epochs.append(count)
    return {"epochs": int(np.median(epochs)), "seconds": float(np.median(seconds))}


def cold(path: str, epochs: int) -> dict[str, Any]:
    """All CPU seconds of a process that reads the rows, trains and counts what is right."""
    import jax.random as jr

    from tractable.neural import MLP, cross_entropy, predict_rows, train

    with np.load(path) as file:
        X, Z, y, t = (file[name] for name in file.files)
    network = MLP((64, 100, 10), key=jr.key(0))
    run = train(network, (X, y), cross_entropy, key=jr.key(100), batch=200, epochs=epochs)
    right = float((np.argmax(predict_rows(run.state, Z), axis=1) == t).mean())
    return {"seconds": time.process_time(), "right": right}


def main() -> None:
    """The table."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "digits.npz")
        np.savez(path, *digits())
        peer, here = child("scikit_learn", path), child("tractable", path)
        caches = {"JAX_COMPILATION_CACHE_DIR": f"{folder}/compiled", "NUMBA_CACHE_DIR": f"{folder}/numba"}
        fresh = child("cold", path, str(here["epochs"]), **caches)
    table = Table("digits to 97 %", "epochs", "CPU seconds", "ratio")
    table.add_row("scikit-learn", str(peer["epochs"]), f"{peer['seconds']:.3f}", "")
    ratio = peer["seconds"] / here["seconds"]
    table.add_row("tractable, warm", str(here["epochs"]), f"{here['seconds']:.3f}", f"{ratio:.1f}")
    table.add_row(
        "tractable, cold", str(here["epochs"]), f"{fresh['seconds']:.2f}", f"{fresh['right']:.3f} right"
    )
    Console().print(table)


def child(*arguments: str, **environment: str) -> dict[str, Any]:
    """What a process of its own measures."""
    command = [sys.executable, "-m", "benchmarks._neural_digits", *arguments]
    variables = {**os.environ, **ONE_THREAD, **environment}
    done = subprocess.run(command, capture_output=True, text=True, env=variables, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    if sys.argv[1] == "cold":
        print(json.dumps(cold(sys.argv[2], int(sys.argv[3]))))
    else:
        with np.load(sys.argv[2]) as file:
            rows = tuple(file[name] for name in file.files)
        print(json.dumps({"scikit_learn": scikit_learn, "tractable": tractable}[sys.argv[1]](rows)))
