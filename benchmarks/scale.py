"""`python -m benchmarks scale [memory|workers|tasks] [--rows N] [--simulate]`: many rows, and many machines.

`memory` fits a Gaussian mixture to 10^7 x 20 rows in a NumPy and in a Parquet file, in chunks, and says how
far the peak of memory grew. `workers` times one step of EM (a mixture, k-means beside dask-ml) on one and on
two processes, each on a processor of its own; the objective of k-means is the cost of all rows at the last
centres. `tasks` measures what the scheduler takes for a task. `--simulate` takes these constants to 100
workers and 10^9 rows by a simulation of the reduction tree: a model, not a measurement.
"""

import argparse
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks._scale_simulation import Costs, simulate

DIM, CLUSTERS, COMPONENTS, PARTITIONS = 20, 50, 10, 16


def memory(num_rows: int) -> Table:
    """Peaks of memory while files are fitted in chunks."""
    table = Table("file", "rows", "file MB", "MB above the interpreter", "s per step", "evidence")
    with tempfile.TemporaryDirectory() as folder:
        for name in ("rows.npy", "rows.parquet"):
            path = str(Path(folder, name))
            subprocess.run([*_child("write"), path, str(num_rows)], check=True)
            done = subprocess.run([*_child("fit"), path], check=True, capture_output=True, text=True)
            found = json.loads(done.stdout.splitlines()[-1])
            cells = (
                f"{found['MB above']:.0f}",
                f"{found['s per step']:.1f}",
                f"{found['evidence per row']:.10g}",
            )
            table.add_row(name, f"{num_rows:.0e}", f"{Path(path).stat().st_size / 2**20:.0f}", *cells)
            Path(path).unlink()
    return table


def workers(num_rows: int) -> tuple[Table, dict[str, float]]:
    """Seconds per step on one and on two workers, and rows per second of one."""
    table = Table("workers", "model", "library", "s per step", "growth", "objective")
    first: dict[str, float] = {}
    for count in (1, 2):
        with _cluster(count) as client:
            rows = _rows(num_rows)
            for name, library, work in _workloads():
                seconds, objective = work(client, rows)
                first.setdefault(f"{name} {library}", seconds)
                growth = first[f"{name} {library}"] / seconds
                table.add_row(
                    str(count), name, library, f"{seconds:.3f}", f"{growth:.2f}", f"{objective:.10g}"
                )
                print(count, name, library, f"{seconds:.3f} s", file=sys.stderr, flush=True)
    return table, {name: seconds / num_rows for name, seconds in first.items()}


def tasks(count: int = 512) -> float:
    """Seconds of the scheduler for a task that does nothing."""
    from tests.scale.workers import square

    with _cluster(1) as client:
        client.gather(client.map(square, range(64), pure=False))
        begun = time.perf_counter()
        client.gather(client.map(square, range(count), pure=False))
        return (time.perf_counter() - begun) / count


def simulation(row: float, task: float, size: float) -> Table:
    """Passes over ever more rows on ever more workers, with four partitions for each worker."""
    table = Table("workers", "rows", "partitions", "s per pass", "computing", "scheduler", "efficiency")
    for count in (1, 2, 10, 100):
        for rows in (1e7, 1e8, 1e9):
            for each in (4, 16):
                found = simulate(Costs(row, task=task, size=size), rows, count, each * count)
                ideal = row * rows / count / found.seconds
                cells = (
                    f"{found.seconds:.3g}",
                    f"{found.computing:.3g}",
                    f"{found.scheduling:.3g}",
                    f"{ideal:.2f}",
                )
                table.add_row(str(count), f"{rows:.0e}", str(each * count), *cells)
    return table


def main(options: Sequence[str] = ()) -> None:
    """Measure, simulate and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks scale", description=__doc__)
    parser.add_argument("names", nargs="*", default=["memory", "workers"])
    parser.add_argument("--rows", type=float, default=None)
    parser.add_argument("--simulate", action="store_true")
    chosen, console = parser.parse_args(list(options)), Console(width=130)
    names = ["workers"] if chosen.simulate else chosen.names
    if "memory" in names:
        console.print(memory(int(chosen.rows or 1e7)))
    per_row: dict[str, float] = {}
    if "workers" in names:
        table, per_row = workers(int(chosen.rows or 1e6))
        console.print(table)
    if "tasks" in names:
        console.print(f"{1e3 * tasks():.2f} ms for a task")
    if chosen.simulate:
        task = tasks()
        for name, size in (("mixture", _mixture_bytes()), ("k-means", 8.0 * CLUSTERS * (DIM + 1))):
            row = per_row[f"{name} tractable"]
            said = f"{name}: {row:.2e} s a row, {1e3 * task:.2f} ms a task, statistics of {size:.0f} bytes"
            console.print(f"Simulated, from measured constants ({said}):")
            console.print(simulation(row, task, size))


def _child(what: str) -> list[str]:
    return [sys.executable, "-m", "benchmarks._scale_child", what]


def _cluster(count: int) -> Any:
    from contextlib import contextmanager

    from distributed import Client, LocalCluster

    @contextmanager
    def opened():
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        options = {"n_workers": count, "threads_per_worker": 1, "dashboard_address": None}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cluster = LocalCluster(**options, silence_logs=logging.CRITICAL)
            with cluster, Client(cluster) as client:
                for place, worker in enumerate(client.scheduler_info(n_workers=-1)["workers"]):
                    client.run(os.sched_setaffinity, 0, {place}, workers=[worker])
                yield client

    return opened()


def _rows(num_rows: int) -> Any:
    import dask.array as da
    from distributed import wait

    centres, random = _centres(), da.random.default_rng(1)
    labels = random.integers(CLUSTERS, size=num_rows, chunks=num_rows // PARTITIONS)
    noise = random.normal(size=(num_rows, DIM), chunks=(num_rows // PARTITIONS, DIM))
    rows = (
        labels.map_blocks(centres.take, axis=0, new_axis=1, chunks=noise.chunks, dtype=float) + noise
    ).persist()
    wait(rows)
    return rows


def _centres() -> np.ndarray:
    return np.random.default_rng(0).normal(scale=4.0, size=(CLUSTERS, DIM))


def _timed(fit: Any, steps: int) -> tuple[float, float]:
    """Seconds of one step, from the difference of a long and a short fit: what is paid once cancels."""
    fit(1)
    begun = time.perf_counter()
    fit(1)
    short = time.perf_counter() - begun
    begun = time.perf_counter()
    objective = fit(1 + steps)
    return (time.perf_counter() - begun - short) / steps, objective


def _workloads() -> list[tuple[str, str, Any]]:
    # near the true centres: no cluster empties, for which the libraries have other rules
    start = _centres() + np.random.default_rng(3).normal(size=(CLUSTERS, DIM))

    def mixture(client: Any, rows: Any) -> tuple[float, float]:
        from tractable.latent.mixtures.gaussian import GaussianMixture

        spread = np.stack([np.eye(DIM) * 9.0] * COMPONENTS)
        model = GaussianMixture(np.full(COMPONENTS, 1 / COMPONENTS), start[:COMPONENTS], spread)
        return _ours(client, rows, model)

    def clusters(client: Any, rows: Any) -> tuple[float, float]:
        import jax.numpy as jnp

        from tractable.latent.kmeans.model import KMeans

        return _ours(
            client, rows, KMeans(jnp.asarray(start)), lambda model: _cost(client, rows, model.centres)
        )

    def peer(client: Any, rows: Any) -> tuple[float, float]:
        from dask_ml.cluster import KMeans

        def fit(steps: int) -> float:
            # a tolerance below zero is never met: as many steps as asked for
            made = KMeans(CLUSTERS, init=start, max_iter=steps, tol=-1.0, oversampling_factor=2).fit(rows)
            fit.centres = made.cluster_centers_
            return 0.0

        seconds = _timed(fit, 4)[0]
        return seconds, _cost(client, rows, fit.centres)

    return [
        ("mixture", "tractable", mixture),
        ("k-means", "tractable", clusters),
        ("k-means", "dask-ml", peer),
    ]


def _ours(client: Any, rows: Any, model: Any, judged: Any = None) -> tuple[float, float]:
    from tractable.inference import EM
    from tractable.scale import DistributedRows

    found: list = []
    with DistributedRows(rows, client=client) as held:

        def fit(steps: int) -> float:
            found.append(EM(max_steps=steps, tol=0.0).fit(model, held))
            return float(found[-1].values[-1])

        seconds, objective = _timed(fit, 4)
    return seconds, objective if judged is None else judged(found[-1].state)


def _cost(client: Any, rows: Any, centres: Any) -> float:
    import jax.numpy as jnp

    from tractable.latent.kmeans.model import KMeans
    from tractable.scale import DistributedRows

    with DistributedRows(rows, client=client) as held:
        return -float(held.total(KMeans(jnp.asarray(centres)).e_step)[1])


def _mixture_bytes() -> float:
    return 8.0 * COMPONENTS * (2 + DIM + DIM * DIM)
