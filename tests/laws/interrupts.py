"""Long work that is interrupted at a random time: run as a program, it prints what came of each.

`python -m tests.laws.interrupts FAMILY SEED` calls every function of a family in turn, sends this process
SIGINT after a while, and prints a line of JSON each: how it ended, how long after the last signal, and how
many were sent. A case is a function that prepares work, which is then interrupted; the work is so long that
it is never done in time.
"""

import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.iterate import Status

Work = Callable[[], Any]

AGAIN = 1.0  # seconds after which an impatient person presses Ctrl-C once more
LONGEST = 2.0  # until the signal


def rows(count: int, dim: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    numbers = np.random.default_rng(seed)
    X = numbers.normal(size=(count, dim))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.5 * numbers.normal(size=count)


def busy(x: Any) -> Any:
    """A log-density that takes a while."""
    table = jnp.outer(x, x) + 200 * jnp.eye(x.size)
    for _ in range(3):
        table = jnp.linalg.inv(table) + jnp.eye(x.size)
    return -0.5 * (x**2).sum() - 1e-9 * jnp.linalg.slogdet(table)[1]


def minimum() -> Work:
    from tractable.optim import GradientDescent, minimise

    return lambda: minimise(lambda x: -busy(x), jnp.ones(30), GradientDescent(1e-7), max_steps=10**7)


def batches() -> Work:
    from tractable.optim import minimise_batches

    X, y = rows(4096)
    loss = lambda w, row: (jnp.tanh(row[0] @ w).sum() - row[1]) ** 2  # noqa: E731
    return lambda: minimise_batches(loss, jnp.ones((4, 64)), (X, y), key=jr.key(0), epochs=10**5)


def chains() -> Work:
    import tractable as tr

    return lambda: tr.mcmc(busy, jnp.zeros(30), key=jr.key(0), num_draws=10**6, progress=False)


def climb() -> Work:
    from tractable.inference import vi

    return lambda: vi(busy, jnp.zeros(30), key=jr.key(0), tol=None, max_steps=10**7)


def particles() -> Work:
    from tractable.distributions import Normal
    from tractable.inference import smc

    prior = Normal(jnp.zeros(20), jnp.ones(20))
    return lambda: smc(lambda x: 1e4 * busy(x), prior, key=jr.key(0), num_particles=20_000)


def expectation() -> Work:
    from tests.inference.test_em import start
    from tractable.inference.expectation_maximisation.em import EM

    xs = np.random.default_rng(0).normal(size=200_000)
    return lambda: EM(tol=0.0, max_steps=10**5).fit(start(-1.0, 1.0), xs)


def process() -> Work:
    from tractable.estimators import GaussianProcessRegressor

    return lambda: GaussianProcessRegressor(restarts=50, random_state=0).fit(*rows(700))


def classes() -> Work:
    from tractable.estimators import GaussianProcessClassifier

    X, y = rows(900)
    return lambda: [GaussianProcessClassifier().fit(X, y > 1) for _ in range(10**3)]


def machine() -> Work:
    from tractable.estimators import SupportVectorClassifier

    X, y = rows(20_000)
    return lambda: SupportVectorClassifier(C=1e6).fit(X, y > 1)


def forest() -> Work:
    from tractable.estimators import ForestRegressor

    return lambda: ForestRegressor(n_estimators=5000, random_state=0).fit(*rows(5000))


def lasso() -> Work:
    from tractable.estimators import LassoRegressor

    X, y = rows(2000, 400)
    return lambda: [LassoRegressor().fit(X, y + k) for k in range(10**4)]


def structure() -> Work:
    from tractable.graphs import learn_structure

    codes = np.random.default_rng(0).integers(0, 3, (3000, 40))
    return lambda: learn_structure(
        {f"x{j}": codes[:, j] for j in range(40)}, num_restarts=10**4, key=jr.key(0)
    )


def queries() -> Work:
    from tractable.graphs import random_network

    network = random_network(jr.key(1), 60, max_parents=3)
    return lambda: [network.marginals(evidence={"x0": k % 2}) for k in range(10**5)]


FAMILIES: dict[str, list[Callable[[], Work]]] = {
    "inference": [chains, climb, particles, expectation],
    "models": [process, classes, machine, forest, lasso],
    "graphs": [structure, queries],
    "optim": [batches, minimum],
}


def status_of(found: Any) -> Status | None:
    """How a result says that it ended."""
    for place in (found, getattr(found, "run_", None), getattr(found, "run", None)):
        status = getattr(place, "status", None)
        if status is not None:
            return Status(status)
    return None


def interrupted(prepare: Callable[[], Work], delay: float) -> dict[str, Any]:
    """What work does when Ctrl-C is pressed after `delay` seconds, and again while it does not stop."""
    work = prepare()
    stopped, pressed = threading.Event(), []

    def press() -> None:
        while not stopped.wait(AGAIN if pressed else delay):
            pressed.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press, daemon=True)
    try:
        try:
            thread.start()
            found = work()
        finally:
            ended = time.monotonic()
            stopped.set()
        status = status_of(found)
        how = "partial" if status is Status.interrupted and repr(found) else f"whole: {status!r}"
    except KeyboardInterrupt:
        how = "raised"
    except Exception as error:
        how = f"{type(error).__name__}: {error}"
    return {"work": prepare.__name__, "how": how, "delay": delay, "pressed": len(pressed),
            "seconds": ended - pressed[-1] if pressed else None}  # fmt: skip


def main(family: str, seed: int) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # where a shell had it ignored
    jnp.linalg.inv(jnp.eye(2)).block_until_ready()  # an interrupted import of JAX cannot be repeated
    delays = random.Random(f"{family} {seed}")
    for work in FAMILIES[family]:
        print(json.dumps(interrupted(work, delays.uniform(0.0, LONGEST))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
