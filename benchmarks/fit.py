"""`python -m benchmarks fit [--only NAME ...] [--folds N] [--effort E] [--out FILE]`: tables beside peers.

Tables of scikit-learn and generated ones (`_fit_tables`), each in five folds (`KFold(5, shuffle=True,
random_state=0)`): mean log-score, CRPS (twice the mean pinball loss of twenty quantiles), coverage and mean
width of 90 % intervals, of classes log-score, accuracy and calibration error, and seconds; beside
scikit-learn's histogram booster with split conformal intervals, Bayesian ridge and logistic regression, and
NGBoost and LightGBM where they are installed. A peer is better where its log-score is by more than two paired
standard errors.
"""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks._fit_peers import GRID, Said, peers
from benchmarks._fit_tables import Task, tasks
from tractable.race.composed import ClassLaws
from tractable.race.fit import fit_table


class Scores(NamedTuple):
    """Of one method on the rows of one fold."""

    logs: np.ndarray
    crps: np.ndarray
    inside: np.ndarray
    width: np.ndarray
    sure: np.ndarray
    seconds: float


def ours(task: Task, seen: np.ndarray, held: np.ndarray, effort: str) -> Scores:
    """The race on the rows seen, scored on those held out."""
    names = [f"x{j}" for j in range(task.X.shape[1])]
    frame = pd.DataFrame(task.X, columns=names).assign(y=task.y)
    start = time.perf_counter()
    found = fit_table(frame.iloc[seen], "y", effort=effort, task="classes" if task.classes else None)
    laws = found.predict_dist(frame.iloc[held])
    spent, y = time.perf_counter() - start, task.y[held]
    if isinstance(laws, ClassLaws):
        return _classes(laws.shares, found.model.codes(y).astype(int), spent)
    quantiles = [laws.quantile(q) for q in GRID]
    return _numbers(laws.log_density(y), quantiles, laws.interval(0.9), y, spent)


def theirs(task: Task, seen: np.ndarray, held: np.ndarray, function: Any) -> Scores:
    """A peer on the same rows."""
    start = time.perf_counter()
    said: Said = function(task.X[seen], task.y[seen], task.X[held], 0)
    spent, y = time.perf_counter() - start, task.y[held]
    if said.probabilities is not None:
        classes = np.unique(task.y[seen])
        return _classes(np.asarray(said.probabilities), np.searchsorted(classes, y), spent)
    z = (y - said.centre) / said.scale
    logs = -0.5 * z**2 - np.log(said.scale) - 0.5 * np.log(2 * np.pi)
    return _numbers(logs, said.quantiles, said.ends, y, spent)


def _numbers(logs: Any, quantiles: Any, ends: Any, y: np.ndarray, spent: float) -> Scores:
    gaps = [y - np.asarray(q) for q in quantiles]
    crps = 2 * np.mean([np.maximum(p * gap, (p - 1) * gap) for p, gap in zip(GRID, gaps)], axis=0)
    low, high = (np.asarray(end) for end in ends)
    inside = (low <= y) & (y <= high)
    return Scores(np.asarray(logs), crps, inside, high - low, np.zeros(0), spent)


def _classes(shares: np.ndarray, codes: np.ndarray, spent: float) -> Scores:
    logs = np.log(np.maximum(shares[np.arange(len(codes)), codes], 1e-300))
    right = shares.argmax(1) == codes
    brier = ((shares - np.eye(shares.shape[1])[codes]) ** 2).sum(1)
    return Scores(logs, brier, right, np.zeros(len(codes)), shares.max(1), spent)


def joined(parts: list[Scores]) -> Scores:
    """All folds."""
    arrays = [np.concatenate([getattr(p, name) for p in parts]) for name in Scores._fields[:-1]]
    logs, crps, inside, width, sure = arrays
    return Scores(logs, crps, inside, width, sure, sum(p.seconds for p in parts))


def line(task: Task, name: str, found: Scores, best: Scores) -> dict[str, Any]:
    """What is printed of a method on a table."""
    gap = found.logs - best.logs
    answer: dict[str, Any] = {
        "table": task.name, "method": name, "log_score": found.logs.mean(), "ahead": gap.mean(),
        "error": gap.std() / np.sqrt(len(gap)), "crps": found.crps.mean(), "inside": found.inside.mean(),
        "width": found.width.mean(), "seconds": found.seconds,
    }  # fmt: skip
    if len(found.sure):
        bins = np.minimum((found.sure * 15).astype(int), 14)
        gaps = np.bincount(bins, found.inside - found.sure, 15)
        answer["ece"] = np.abs(gaps).sum() / len(found.sure)
    return {k: float(v) if isinstance(v, np.floating) else v for k, v in answer.items()}


def main(arguments: Sequence[str]) -> None:
    """Run, print and keep."""
    from sklearn.model_selection import KFold

    parser = argparse.ArgumentParser(prog="benchmarks fit", description=__doc__)
    parser.add_argument("--only", nargs="*", default=None)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--effort", default="normal")
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args(arguments)
    lines: list[dict[str, Any]] = []
    for task in tasks():
        if options.only and task.name not in options.only:
            continue
        pairs = list(KFold(5, shuffle=True, random_state=0).split(task.X))[: options.folds]
        own = joined([ours(task, seen, held, options.effort) for seen, held in pairs])
        found = {"tractable fit": own}
        for name, function in peers(task.classes):
            found[name] = joined([theirs(task, seen, held, function) for seen, held in pairs])
        for name, scores in found.items():
            lines.append(line(task, name, scores, own))
            shown = (f"{k}={v:.4g}" if isinstance(v, float) else str(v) for k, v in lines[-1].items())
            print("  ".join(shown), flush=True)
    behind = [one["table"] for one in lines if one["ahead"] > 2 * one["error"] > 0]
    print(f"A peer is better by more than two errors on: {', '.join(behind) or 'none'}.")
    if options.out is not None:
        options.out.write_text(json.dumps(lines, indent=2))
