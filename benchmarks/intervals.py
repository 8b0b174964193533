"""`python -m benchmarks intervals [--only NAME ...] [--effort E] [--seed N] [--out FILE]`: coverage of
`tractable fit` over regression tables (`_regressions`).

Generated tables give 500 rows to learn from and 2,000 new ones; the others are cut into three folds
(`KFold(3, shuffle=True, random_state=seed)`). A table keeps its promise where the share inside 90 % intervals
is within .04 + 2.6 standard errors of what was promised, and in the third of widest intervals at least .82
less 2.6 standard errors. Whole-numbered intervals promise the mass that they have, which is printed too.
"""

import argparse
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks._regressions import Regression, regressions

__all__ = ["main"]

_SLACK, _ERRORS, _WIDEST = 0.04, 2.6, 0.82


def measured(task: Regression, effort: str, seed: int) -> dict[str, Any]:
    """Shares inside intervals, overall and by thirds of their width, and what was promised."""
    from sklearn.model_selection import KFold

    if task.new is not None:
        parts = [((task.X, task.y), task.new)]
    else:
        folds = KFold(3, shuffle=True, random_state=seed).split(task.X)
        parts = [((task.X[a], task.y[a]), (task.X[b], task.y[b])) for a, b in folds]
    began = sum(os.times()[:2])
    found = [np.concatenate(column) for column in zip(*(_inside(*pair, effort, seed) for pair in parts))]
    inside, promised, width = found
    widest = np.argsort(width, kind="stable")[-(len(width) // 3) :]
    count, held, meant = len(inside), float(inside.mean()), float(promised.mean())
    off = _SLACK + _ERRORS * float(np.sqrt(0.09 / count))
    least = _WIDEST - _ERRORS * float(np.sqrt(_WIDEST * (1 - _WIDEST) / max(len(widest), 1)))
    third = float(inside[widest].mean())
    return {
        "table": task.name, "kind": task.kind, "rows": count, "inside": held, "promised": meant,
        "off": held - meant, "allowed": off, "widest": third,
        "kept": abs(held - meant) <= off and third >= least, "work": sum(os.times()[:2]) - began,
    }  # fmt: skip


def _inside(seen: Any, new: Any, effort: str, seed: int) -> tuple[np.ndarray, ...]:
    from tractable.race.fit import fit_table

    names = [f"x{j}" for j in range(seen[0].shape[1])]
    frame = pd.DataFrame(seen[0], columns=names).assign(y=seen[1])
    laws = fit_table(frame, "y", effort=effort, seed=seed, examine=False).predict_dist(
        pd.DataFrame(new[0], columns=names)
    )
    low, high = laws.interval(0.9)
    promised = laws.cdf(high) - laws.cdf(low - 1) if laws.discrete else np.full(len(low), 0.9)
    return (low <= new[1]) & (new[1] <= high), promised, high - low


def main(arguments: Sequence[str]) -> None:
    """Print a line for each table, then for each kind and for all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks intervals", description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], help="names or kinds")
    parser.add_argument("--effort", default="normal")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args(arguments)
    lines: list[dict[str, Any]] = []
    start = time.monotonic()
    for task in regressions(options.seed):
        if options.only and not {task.name, task.kind} & set(options.only):
            continue
        lines.append(measured(task, options.effort, options.seed))
        print(
            "  ".join(f"{v:.3f}" if isinstance(v, float) else str(v) for v in lines[-1].values()), flush=True
        )
        if options.out is not None:
            options.out.write_text(json.dumps(lines, indent=1))
    _summary(lines)
    print(f"{time.monotonic() - start:.0f} s of the clock")


def _summary(lines: list[dict[str, Any]]) -> None:
    for kind in (*dict.fromkeys(line["kind"] for line in lines), "all"):
        own = [line for line in lines if kind in (line["kind"], "all")]
        inside, promised, widest = (
            np.mean([line[name] for line in own]) for name in ("inside", "promised", "widest")
        )
        print(
            f"{kind}: {len(own)} tables, kept {sum(line['kept'] for line in own)}, mean inside "
            f"{inside:.3f} (promised {promised:.3f}), widest {widest:.3f}"
        )
