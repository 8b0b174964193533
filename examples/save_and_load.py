"""Save a model, survive an interruption of a long run, and find out about a damaged file."""

import tempfile
from pathlib import Path

import jax.numpy as jnp
import jax.random as jr
import numpy as np

import tractable as tr
from tractable.core import Status
from tractable.core.blocks import run_in_blocks
from tractable.core.storage import StorageError
from tractable.distributions.continuous import Normal


def step(state, key):
    moved = {"steps": state["steps"] + 1, "x": 0.95 * state["x"] + jr.normal(key, (2,))}
    return moved, moved["x"]


def walk(**options):
    start = {"steps": jnp.asarray(0), "x": jnp.zeros(2)}
    return run_in_blocks(step, start, jr.split(jr.key(0), 1000), block=100, **options)


def press_ctrl_c(state, records):
    if int(state["steps"]) == 400:
        raise KeyboardInterrupt


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        tr.save(path, {"prior": Normal(jnp.zeros(2), 3.0), "key": jr.key(7)})
        model = tr.load(path)
        assert float(model["prior"].scale) == 3.0
        assert model["key"] == jr.key(7)

        stopped = walk(checkpoint=Path(folder) / "walk", judge=press_ctrl_c)
        resumed = walk(checkpoint=Path(folder) / "walk")
        print(stopped, resumed, sep="\n")
        assert (stopped.status, int(stopped.num_steps)) == (Status.interrupted, 300)
        assert np.array_equal(resumed.trace, walk().trace)

        path.write_bytes(path.read_bytes()[:-1])
        refusal = ""
        try:
            tr.load(path)
        except StorageError as error:
            refusal = str(error)
        assert "damaged" in refusal


if __name__ == "__main__":
    main()
