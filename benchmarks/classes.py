"""`python -m benchmarks classes [--only NAME ...] [--effort E] [--seed N] [--peers] [--out FILE]`: what the
probabilities of `tractable fit` are worth, over classification tables (`_classifications`).

Generated tables give some 500 rows to learn from and 5,000 new ones; the others are cut into five folds. Of
each: the log-loss, how far it is above that of the base rate of the rows learnt from (below zero is better),
the calibration error of the likeliest class in 15 bins, and what that error is on average where the
probabilities are exactly right, by chance alone. A table keeps its promise where the log-loss is at most .005
above the base rate's. With `--peers` the losses of logistic regression and of boosters stand beside.
"""

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks._classifications import Classification, classifications
from benchmarks._fit_peers import peers

__all__ = ["main"]

_ABOVE, _ERROR, _BINS, _DRAWS = 0.005, 0.03, 15, 50


def measured(task: Classification, effort: str, seed: int, beside: bool) -> dict[str, Any]:
    """Losses and calibration errors of a table."""
    from sklearn.model_selection import StratifiedKFold

    if task.new is not None:
        parts = [((task.X, task.y), task.new)]
    else:
        folds = StratifiedKFold(5, shuffle=True, random_state=seed).split(task.X, task.y)
        parts = [((task.X[a], task.y[a]), (task.X[b], task.y[b])) for a, b in folds]
    began = sum(os.times()[:2])
    said = [_shares(seen, new[0], effort, seed) for seen, new in parts]
    work, known = sum(os.times()[:2]) - began, np.unique(task.y)
    shares = np.concatenate([_spread(found, classes, known) for found, classes in said])
    codes = np.searchsorted(known, np.concatenate([new[1] for _, new in parts]))
    base = np.concatenate([np.tile(_rates(seen[1], known), (len(new[1]), 1)) for seen, new in parts])
    loss = -np.log(shares[np.arange(len(codes)), codes])
    gap = loss + np.log(base[np.arange(len(codes)), codes])
    found = {
        "table": task.name, "kind": task.kind, "rows": len(codes), "loss": float(loss.mean()),
        "above base": float(gap.mean()), "error": float(gap.std() / np.sqrt(len(gap))),
        "ece": calibration_error(shares, codes), "by chance": _by_chance(shares, seed),
        "kept": bool(gap.mean() <= _ABOVE), "work": work,
    }  # fmt: skip
    return found | (_beside(parts, known, codes, loss) if beside else {})


def _shares(seen: Any, new: np.ndarray, effort: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    from tractable.race.fit import fit_table

    names = [f"x{j}" for j in range(seen[0].shape[1])]
    frame = pd.DataFrame(seen[0], columns=names).assign(y=seen[1])
    fitted = fit_table(frame, "y", effort=effort, seed=seed, examine=False, task="classes")
    shares = fitted.predict_proba(pd.DataFrame(new, columns=names))
    return shares, np.array(fitted.model.classes, type(seen[1][0]))


def _spread(shares: np.ndarray, classes: np.ndarray, known: np.ndarray) -> np.ndarray:
    found = np.full((len(shares), len(known)), 1e-12)
    found[:, np.searchsorted(known, classes)] = shares
    return found


def _rates(y: np.ndarray, known: np.ndarray) -> np.ndarray:
    counts = np.bincount(np.searchsorted(known, y), minlength=len(known)) + 0.5
    return counts / counts.sum()


def calibration_error(shares: np.ndarray, codes: np.ndarray) -> float:
    """Of the likeliest class, over bins of equal width."""
    return _error(shares.max(1), shares.argmax(1) == codes)


def _error(sure: np.ndarray, right: np.ndarray) -> float:
    bins = np.minimum((sure * _BINS).astype(int), _BINS - 1)
    return float(np.abs(np.bincount(bins, right - sure, _BINS)).sum() / len(sure))


def _by_chance(shares: np.ndarray, seed: int) -> float:
    sure, rng = shares.max(1), np.random.default_rng(seed)
    return float(np.mean([_error(sure, rng.random(len(sure)) < sure) for _ in range(_DRAWS)]))


def _beside(parts: Any, known: np.ndarray, codes: np.ndarray, loss: np.ndarray) -> dict[str, float]:
    """How much more peers lose, with the paired error."""
    found: dict[str, float] = {}
    for name, function in peers(True):
        shares = [
            _spread(np.asarray(function(*seen, new[0], 0).probabilities), np.unique(seen[1]), known)
            for seen, new in parts
        ]
        theirs = -np.log(np.maximum(np.concatenate(shares)[np.arange(len(codes)), codes], 1e-300))
        gap = theirs - loss
        found |= {name: float(gap.mean()), f"{name}, error": float(gap.std() / np.sqrt(len(gap)))}
    return found


def main(arguments: Sequence[str]) -> None:
    """Print a line for each table, then for each kind and for all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks classes", description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], help="names or kinds")
    parser.add_argument("--effort", default="normal")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args(arguments)
    lines: list[dict[str, Any]] = []
    for task in classifications(options.seed):
        if options.only and not {task.name, task.kind} & set(options.only):
            continue
        lines.append(measured(task, options.effort, options.seed, options.peers))
        shown = (f"{k} {v:.4f}" if isinstance(v, float) else str(v) for k, v in lines[-1].items())
        print("  ".join(shown), flush=True)
        if options.out is not None:
            options.out.write_text(json.dumps(lines, indent=1))
    _summary(lines)


def _summary(lines: list[dict[str, Any]]) -> None:
    for kind in (*dict.fromkeys(line["kind"] for line in lines), "all"):
        own = [line for line in lines if kind in (line["kind"], "all")]
        worst = max(line["above base"] for line in own)
        error, chance = (np.mean([line[name] for line in own]) for name in ("ece", "by chance"))
        print(
            f"{kind}: {len(own)} tables, kept {sum(line['kept'] for line in own)}, worst {worst:+.4f} above "
            f"the base rate; calibration error {error:.4f} (by chance {chance:.4f}; goal {_ERROR})"
        )
