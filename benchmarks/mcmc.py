"""`python -m benchmarks mcmc [--only NAME ...] [--sampler NUTS ...] [--library NAME ...] [--check]`: samplers
beside peers.

Each library samples each posterior alone in a fresh process with empty caches of compiled programs: four
chains, a thousand draws each, float64. Peers warm up for a thousand steps (nutpie also for its default).

- cold: seconds from the start of the process to the summary; warm: those of a second run with another seed
  (in brackets: seconds of the processor, for machines that are busy with other work);
- gradients: evaluations of the gradient in all chains, those of the warm-up included;
- ESS: the least rank-normalised split bulk effective sample size of any parameter, by one common function.

A ratio above one says how many times better tractable is: effective draws per second against the best peer,
and per gradient against BlackJAX. `--check` compares the log-densities of all libraries at random points.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks._mcmc_peers import STATEMENTS, VARIANTS
from benchmarks._mcmc_problems import PROBLEMS, free_start
from benchmarks._mcmc_tractable import MODULES

TIME_LIMIT = 1800


def measure(library: str, variant: str, name: str) -> dict[str, Any]:
    """One library on one problem, in a process of its own whose caches are empty."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "JAX_ENABLE_X64": "1",
            "JAX_COMPILATION_CACHE_DIR": f"{folder}/jax",
            "NUMBA_CACHE_DIR": f"{folder}/numba",
            "PYTENSOR_FLAGS": f"base_compiledir={folder}/pytensor",
            "BENCHMARK_START": str(time.time()),
        }
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks._mcmc_child", library, variant, name]
        try:
            done = subprocess.run(
                command, env={**os.environ, **settings}, capture_output=True, text=True, timeout=TIME_LIMIT
            )
        except subprocess.TimeoutExpired:
            return {"failed": f"no answer in {TIME_LIMIT} s"}
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        return {"failed": (done.stderr.strip().splitlines() or ["no output"])[-1]}
    return json.loads(lines[-1])


def rates(found: dict[str, Any]) -> dict[str, float]:
    """Effective draws per second, cold and warm, and per gradient over both runs."""
    cold, warm = found["cold"], found["warm"]
    return {
        "cold": cold["ess"] / cold["seconds"],
        "warm": warm["ess"] / warm["seconds"],
        "gradient": (cold["ess"] + warm["ess"]) / (cold["gradients"] + warm["gradients"]),
    }


def plans(samplers: Sequence[str], libraries: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Every library with each of its variants."""
    if "tractable" in libraries:
        yield from (("tractable", sampler) for sampler in samplers)
    for library, variants in VARIANTS.items():
        if library in libraries:
            yield from ((library, variant) for variant in variants)


def compare(name: str, samplers: Sequence[str], libraries: Sequence[str], console: Console) -> dict[str, Any]:
    """Measure all libraries on one problem, print the table, and return the ratios of the first sampler."""
    table = Table(title=name)
    for title in ("library", "cold s", "warm s", "ESS", "least", "R-hat", "diverged", "gradients"):
        table.add_column(title, justify="left" if title == "library" else "right")
    for title in ("ESS/s cold", "ESS/s warm", "ESS/1000 gradients"):
        table.add_column(title, justify="right")
    found = {}
    for library, variant in plans(samplers, libraries):
        answer = measure(library, variant, name)
        label = f"{library} {variant}"
        if "cold" not in answer:
            missing = answer.get("absent", answer.get("failed", ""))
            table.add_row(label, "absent" if "absent" in answer else "failed", missing[:60])
            continue
        found[library, variant] = rates(answer)
        table.add_row(label, *row(answer, found[library, variant]))
    console.print(table)
    return ratios(found, samplers[0])


def row(answer: dict[str, Any], rate: dict[str, float]) -> list[str]:
    """The cells of one library; diagnostics and gradients are those of the second run."""
    cold, warm = answer["cold"], answer["warm"]
    return [
        f"{cold['seconds']:.2f} ({cold['processor_seconds']:.1f})",
        f"{warm['seconds']:.2f} ({warm['processor_seconds']:.1f})",
        f"{warm['ess']:.0f}",
        warm["worst"],
        f"{warm['rhat']:.3f}",
        f"{warm['divergences']}",
        f"{warm['gradients']}",
        f"{rate['cold']:.4g}",
        f"{rate['warm']:.4g}",
        f"{1000 * rate['gradient']:.3g}",
    ]


def ratios(found: dict[tuple[str, str], dict[str, float]], sampler: str) -> dict[str, float]:
    """Our rates over the best peer's, and over BlackJAX's for gradients; NaN where one is missing."""
    ours = found.get(("tractable", sampler))
    peers = [rate for (library, _), rate in found.items() if library != "tractable"]
    nuts = found.get(("blackjax", "vmap"))
    nan = float("nan")
    if ours is None:
        return dict.fromkeys(("cold", "warm", "gradient"), nan)
    seconds = {
        kind: ours[kind] / max(rate[kind] for rate in peers) if peers else nan for kind in ("cold", "warm")
    }
    return {**seconds, "gradient": ours["gradient"] / nuts["gradient"] if nuts else nan}


def check_densities(names: Sequence[str], console: Console) -> None:
    """The largest gap between the libraries' log-densities, up to a constant, at five random points."""
    for name in names:
        problem = PROBLEMS[name]()
        free = free_start(problem, 5, 0)
        values = {}
        for library, statement in STATEMENTS.items():
            try:
                value = statement(problem)
            except ImportError:
                console.print(f"{library} is absent")
                continue
            points = (
                {k: np.exp(v[i]) if k in problem.positive else v[i] for k, v in free.items()}
                for i in range(5)
            )
            values[library] = np.array([value(x) for x in points])
        ours = values["blackjax"] if "blackjax" in values else next(iter(values.values()))
        gaps = [np.ptp(other - ours) / np.ptp(ours) for other in values.values()]
        console.print(f"{name}: densities agree to {max(gaps):.1e} of their range")


def main(options: Sequence[str]) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks mcmc", description="Samplers beside peers.")
    parser.add_argument("--only", nargs="+", choices=list(PROBLEMS), default=list(PROBLEMS))
    parser.add_argument("--sampler", nargs="+", choices=list(MODULES), default=["NUTS"])
    known = ["tractable", *VARIANTS]
    parser.add_argument("--library", nargs="+", choices=known, default=known)
    parser.add_argument("--check", action="store_true")
    chosen, console = parser.parse_args(options), Console(width=150)
    if chosen.check:
        check_densities(chosen.only, console)
        return
    console.print(f"load of the machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    summary = Table(title="Ratios: tractable over the best peer (seconds), over BlackJAX (gradients)")
    for title in ("posterior", "ESS/s cold", "ESS/s warm", "ESS/gradient"):
        summary.add_column(title, justify="left" if title == "posterior" else "right")
    for name in chosen.only:
        better = compare(name, chosen.sampler, chosen.library, console)
        summary.add_row(name, *(f"{better[kind]:.2f}" for kind in ("cold", "warm", "gradient")))
    console.print(summary)
