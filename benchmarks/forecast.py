"""`python -m benchmarks forecast [--seeds N] [--only FAMILY ...] [--python PATH]`: do forecasts hold?

Generated series of 120 months with the 12 that follow, and the series that come with statsmodels
(`_forecast_series`): absolute errors of the middle and CRPS, both in units of the mean change over a season,
and the coverage of 90 % intervals by step, beside the seasonal naive forecast and AutoETS, AutoTheta and
AutoARIMA of statsforecast, where the interpreter `--python` has it. The CRPS of every method is twice the
mean pinball loss of its twenty quantiles 0.025, 0.075, ..., 0.975. `--out` keeps every answer.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks._forecast_series import FAMILIES, Task, generated, real
from tractable.statespace.forecast.forecast import forecast_series
from tractable.statespace.forecast.laws import mase_scale
from tractable.statespace.forecast.naive import Naive

PEERS = ("AutoETS", "AutoTheta", "AutoARIMA")
GRID = tuple(round(0.025 + 0.05 * i, 3) for i in range(20))
ENDS = (0.05, 0.95)


class Answer(NamedTuple):
    """Scores of one method on one task: errors and CRPS in units of the series, hits by step, seconds."""

    mase: float
    crps: float
    held: np.ndarray
    seconds: float


def ours(task: Task) -> tuple[np.ndarray, dict[float, np.ndarray]]:
    """Middle and quantiles of the forecast."""
    found = forecast_series(task.y, len(task.after), times=task.times)
    return found.median, {q: found.quantile(q) for q in (*GRID, *ENDS)}


def naive(task: Task) -> tuple[np.ndarray, dict[float, np.ndarray]]:
    """The same of the season before."""
    from scipy.special import ndtri

    fitted = Naive(task.season).fit(task.y)
    mean, sd = (leaf[0] for leaf in fitted.origins(task.y, np.array([len(task.y)]), len(task.after)))
    return mean, {q: mean + sd * ndtri(q) for q in (*GRID, *ENDS)}


def scored(task: Task, middle: Any, quantiles: dict[float, Any], seconds: float) -> Answer:
    """Errors, CRPS and coverage."""
    unit = mase_scale(task.y, task.season)
    gaps = [task.after - np.asarray(quantiles[q], float) for q in GRID]
    losses = [np.maximum(q * gap, (q - 1) * gap) for q, gap in zip(GRID, gaps)]
    low, high = (np.asarray(quantiles[q], float) for q in ENDS)
    # whole numbers that an interval of a count names belong to it
    held = (task.after >= low - 1e-9) & (task.after <= high + 1e-9)
    error = float(np.abs(task.after - np.asarray(middle)).mean()) / unit
    return Answer(error, 2 * float(np.mean(losses)) / unit, held, seconds)


def here(make: Callable, tasks: list[Task]) -> list[Answer | None]:
    """A method of this process; one that fails is an error."""
    found: list[Answer | None] = []
    for task in tasks:
        began = time.process_time()
        middle, quantiles = make(task)
        found.append(scored(task, middle, quantiles, time.process_time() - began))
    return found


def beside(python: str, name: str, tasks: list[Task]) -> list[Answer | None]:
    """A model of statsforecast in a process of its own; None where it fails."""
    rows = [{"y": t.y.tolist(), "season": t.season, "steps": len(t.after)} for t in tasks]
    command = [python, "-m", "benchmarks._forecast_peer", name]
    done = subprocess.run(
        command, input="\n".join(map(json.dumps, rows)), capture_output=True, text=True, check=True
    )
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return [
        None if "failed" in a
        else scored(t, a["mean"], {float(q): v for q, v in a["quantiles"].items()}, a["seconds"])
        for t, a in zip(tasks, answers, strict=True)
    ]  # fmt: skip


def main(options: Sequence[str]) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks forecast")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=7000, help="constants were chosen on seeds from 1000 on")
    parser.add_argument("--only", nargs="*", choices=(*FAMILIES, "real"), default=(*FAMILIES, "real"))
    parser.add_argument("--ends", type=int, default=3, help="places from which each real series is forecast")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS)
    parser.add_argument("--python", default=sys.executable, help="an interpreter that has statsforecast")
    parser.add_argument("--out", type=Path, help="where every answer goes, in JSON")
    asked = parser.parse_args(options)
    makers: dict[str, Callable] = {
        "tractable": lambda tasks: here(ours, tasks), "seasonal naive": lambda tasks: here(naive, tasks)
    }  # fmt: skip
    look = [asked.python, "-c", "import statsforecast"]
    if asked.peers and subprocess.run(look, capture_output=True).returncode:
        print(f"statsforecast is left out: {asked.python} does not have it.")
    else:
        makers |= {name: lambda tasks, name=name: beside(asked.python, name, tasks) for name in asked.peers}
    print(f"{'kind':<16}{'method':<16}{'MASE':>8}{'CRPS':>9}{'coverage':>10}{'seconds':>9}")
    answers: dict[str, list[Any]] = {name: [] for name in makers}
    tasks: list[Task] = []
    for kind in asked.only:
        own = (
            real(asked.ends)
            if kind == "real"
            else [generated(kind, asked.first + i) for i in range(asked.seeds)]
        )
        tasks += own
        for name, make in makers.items():
            found = make(own)
            answers[name] += found
            print(f"{kind:<16}{name:<16}{_line([a for a in found if a is not None])}", flush=True)
        if asked.out is not None:  # what there is, should it be stopped
            asked.out.write_text(json.dumps(_kept(tasks, answers)))
    _summary(answers)


def _line(found: list[Answer]) -> str:
    if not found:
        return "  it failed"
    means = (np.mean([getattr(a, key) for a in found]) for key in ("mase", "crps", "seconds"))
    mase, crps, seconds = means
    return f"{mase:8.3f}{crps:9.3f}{np.mean([a.held.mean() for a in found]):10.3f}{seconds:9.2f}"


def _summary(answers: dict[str, list[Any]]) -> None:
    """Means over all series on which every method gave an answer, differences of CRPS, coverage by step."""
    whole = [i for i, row in enumerate(zip(*answers.values())) if all(a is not None for a in row)]
    crps = {name: np.array([found[i].crps for i in whole]) for name, found in answers.items()}
    print(f"All {len(whole)} series on which every method gave an answer:")
    for name, found in answers.items():
        kept = [found[i] for i in whole]
        shares = np.array([a.held.mean() for a in kept])
        more = crps[name] - crps["tractable"]
        steps = [np.mean([a.held[h] for a in kept if len(a.held) > h]) for h in range(12) if _any(kept, h)]
        print(
            f"{name:<16}{_line(kept)}   CRPS less ours {more.mean():+.3f} +- {_error(more):.3f}"
            f"; coverage +- {_error(shares):.3f}; by step {' '.join(f'{s:.2f}' for s in steps)}"
        )


def _any(kept: list[Answer], step: int) -> bool:
    return any(len(a.held) > step for a in kept)


def _error(values: np.ndarray) -> float:
    return float(values.std() / np.sqrt(max(len(values), 1)))


def _kept(tasks: list[Task], answers: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [
        {"kind": t.kind, "name": t.name, "method": name, "mase": a.mase, "crps": a.crps,
         "held": a.held.tolist(), "seconds": a.seconds}
        for name, found in answers.items() for t, a in zip(tasks, found) if a is not None
    ]  # fmt: skip
