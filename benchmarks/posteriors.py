"""`python -m benchmarks posteriors DIR [--only NAME ...] [--draws N] [--seed N]`: draws against references.

`DIR` holds one JSON file for each posterior: `posterior` (named `data-model`), `data`, and for each quantity
in `reference` its `mean`, `sd` and `mcse`. For each model that is known, four chains of NUTS are run and each
mean is compared in combined standard errors (ours and the reference's), each sd as a ratio.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax.random as jr
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks._mcmc_measure import columns, mean_error
from benchmarks._posterior_models import model_of
from tractable.inference.chains.mcmc import mcmc
from tractable.inference.samplers.nuts import NUTS

MOST_ERRORS, MOST_SD = 4.0, 0.05


class Line(NamedTuple):
    """One quantity: our mean and sd, the gap of the means in standard errors, the ratio of the sds."""

    name: str
    mean: float
    sd: float
    z: float
    sd_ratio: float

    @property
    def ok(self) -> bool:
        """Whether the mean is within four standard errors and the sd within 5 %."""
        return bool(abs(self.z) <= MOST_ERRORS and abs(self.sd_ratio - 1) <= MOST_SD)


def compare(entry: dict[str, Any], seed: int = 0, num_draws: int | None = None) -> tuple[list[Line], Any]:
    """Sample one posterior of a known model and compare it with its reference; also the posterior itself."""
    model = model_of(entry["posterior"])
    assert model is not None, entry["posterior"]
    data = model.prepare(entry["data"])
    post = mcmc(
        model.log_density,
        model.start(data),
        NUTS(),
        key=jr.key(seed),
        num_draws=num_draws or model.num_draws,
        supports=model.supports,
        args=(data,),
        progress=False,
    )
    draws = {name: np.asarray(values) for name, values in post.draws.items()}
    found = dict(columns(model.quantities(draws, data), first=1))
    return [line(name, found[name], wanted) for name, wanted in entry["reference"].items()], post


def line(name: str, values: np.ndarray, wanted: dict[str, float]) -> Line:
    """The comparison of one quantity."""
    error = np.hypot(mean_error(values), wanted["mcse"])
    mean, sd = float(values.mean()), float(values.std())
    return Line(name, mean, sd, float((mean - wanted["mean"]) / error), sd / wanted["sd"])


def report(entry: dict[str, Any], lines: list[Line], post: Any) -> tuple[Table, str]:
    """The table of one posterior, and its verdict."""
    table = Table(title=entry["posterior"])
    for title in ("quantity", "mean", "reference", "z", "sd", "sd ratio"):
        table.add_column(title, justify="left" if title == "quantity" else "right")
    for each in lines:
        wanted = entry["reference"][each.name]["mean"]
        numbers = (f"{each.mean:.5g}", f"{wanted:.5g}", f"{each.z:+.2f}", f"{each.sd:.4g}")
        table.add_row(each.name, *numbers, f"{each.sd_ratio:.3f}")
    worst = max(lines, key=lambda each: abs(each.z))
    widest = max(lines, key=lambda each: abs(each.sd_ratio - 1))
    word = "met" if all(each.ok for each in lines) else "NOT met"
    gaps = f"largest |z| {abs(worst.z):.2f} ({worst.name}), sd within {abs(widest.sd_ratio - 1):.1%}"
    cost = f"{post.seconds:.1f} s, {post.num_gradients} gradients"
    return table, f"{entry['posterior']}: {word}; {gaps} ({widest.name}); {cost}. {post.verdict.sentence}"


def main(options: Sequence[str]) -> None:
    """Run every file of the folder whose model is known."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks posteriors", description="Our draws, theirs.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", default=[], help="parts of the names of posteriors")
    parser.add_argument("--draws", type=int, default=None, help="per chain")
    parser.add_argument("--seed", type=int, default=0)
    chosen, console, verdicts = parser.parse_args(options), Console(width=120), []
    for path in sorted(chosen.folder.glob("*.json")):
        if chosen.only and not any(part in path.stem for part in chosen.only):
            continue
        entry = json.loads(path.read_text())
        if model_of(entry["posterior"]) is None:
            verdicts.append(f"{entry['posterior']}: unknown model.")
            continue
        lines, post = compare(entry, chosen.seed, chosen.draws)
        table, verdict = report(entry, lines, post)
        console.print(table)
        verdicts.append(verdict)
    console.print("\n".join(verdicts) or f"no posteriors in {chosen.folder}")
