"""`python -m benchmarks._scale_child WHAT PATH ROWS`: one process that makes a file, or fits it in chunks and
says how far its memory grew."""

import json
import re
import sys
import time
from pathlib import Path

import numpy as np

DIM, COMPONENTS, STEPS, CHUNK = 20, 5, 3, 65_536


def _centres() -> np.ndarray:
    return np.random.default_rng(0).normal(scale=4.0, size=(COMPONENTS, DIM))


def _blocks(num_rows: int, size: int = 500_000):
    random = np.random.default_rng(1)
    for low in range(0, num_rows, size):
        count = min(size, num_rows - low)
        yield low, _centres()[random.integers(COMPONENTS, size=count)] + random.normal(size=(count, DIM))


def write(path: str, num_rows: int) -> None:
    """Rows of a mixture, in a NumPy or a Parquet file, a block at a time."""
    if path.endswith(".npy"):
        held = np.lib.format.open_memmap(path, "w+", np.float64, (num_rows, DIM))
        for low, block in _blocks(num_rows):
            held[low : low + len(block)] = block
        held.flush()
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = [f"x{j}" for j in range(DIM)]
    with pq.ParquetWriter(path, pa.schema([(name, pa.float64()) for name in names])) as writer:
        for _, block in _blocks(num_rows):
            writer.write_table(pa.table(list(np.ascontiguousarray(block.T)), names=names), 100_000)


def _megabytes(field: str) -> float:
    return int(re.search(rf"{field}:\s+(\d+)", Path("/proc/self/status").read_text()).group(1)) / 1024  # pyright: ignore


def fit(path: str) -> None:
    """Three steps of EM over the file; memory above that of the process before it."""
    import tractable as tr
    from tractable.inference import EM
    from tractable.latent.mixtures.gaussian import GaussianMixture

    start = GaussianMixture(
        np.full(COMPONENTS, 1 / COMPONENTS), _centres() + 0.5, np.stack([np.eye(DIM)] * COMPONENTS)
    )
    warm = np.random.default_rng(2).normal(size=(1000, DIM))
    EM(max_steps=1).fit(start, warm, chunk=500)  # what is imported and compiled belongs to the interpreter
    before, begun = _megabytes("VmHWM"), time.perf_counter()
    run = EM(max_steps=STEPS, tol=0.0).fit(start, path, chunk=CHUNK)
    seconds = time.perf_counter() - begun
    found = {"MB above": _megabytes("VmHWM") - before, "s per step": seconds / STEPS}
    print(json.dumps(found | {"evidence per row": float(run.values[-1]), "version": tr.__version__}))


if __name__ == "__main__":
    what, where, *count = sys.argv[1:]
    write(where, int(count[0])) if what == "write" else fit(where)
