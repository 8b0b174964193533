"""`python -m benchmarks forecast [--first SEED] [--seeds N] [--only FAMILY ...]`: do forecasts hold?

Series with known truth (`_forecast_series`) of 120 months and the 12 that follow: MASE, CRPS and the coverage
of 90 % intervals by step, beside the seasonal naive forecast and, where they are installed, AutoETS,
AutoTheta and AutoARIMA of statsforecast. CRPS of a peer is that of the Gaussian law with its mean and 90 %
interval.
"""

import argparse
import importlib.util
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks._forecast_series import FAMILIES, draw
from tractable.statespace.forecast.forecast import forecast_series
from tractable.statespace.forecast.laws import crps_normal, mase_scale
from tractable.statespace.forecast.naive import Naive

SIZE, STEPS, LEVEL, HALF = 120, 12, 0.9, 1.6448536269514722
MONTHS = np.datetime64("2010-01", "M") + np.arange(SIZE)


def ours(y: np.ndarray, after: np.ndarray) -> tuple[Any, ...]:
    """Median, ends and score of the forecast."""
    found = forecast_series(y, STEPS, times=MONTHS, level=LEVEL)
    return found.median, found.lower, found.upper, found.law.crps(after)


def naive(y: np.ndarray, after: np.ndarray) -> tuple[Any, ...]:
    """The same of the season before."""
    mean, sd = (leaf[0] for leaf in Naive(12).fit(y).origins(y, np.array([SIZE]), STEPS))
    return mean, mean - HALF * sd, mean + HALF * sd, crps_normal(mean, sd, after)


def peer(name: str) -> Any:
    """The same of a model of statsforecast."""

    def run(y: np.ndarray, after: np.ndarray) -> tuple[Any, ...]:
        models: Any = importlib.import_module("statsforecast.models")
        found = getattr(models, name)(season_length=12).forecast(y, STEPS, level=[100 * LEVEL])
        low, high = found["lo-90"], found["hi-90"]
        return found["mean"], low, high, crps_normal(found["mean"], (high - low) / (2 * HALF), after)

    return run


def main(options: Sequence[str]) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks forecast")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=7000, help="constants were chosen on seeds from 1000 on")
    parser.add_argument("--only", nargs="*", choices=FAMILIES, default=FAMILIES)
    asked = parser.parse_args(options)
    makers = {"tractable": ours, "seasonal naive": naive}
    if importlib.util.find_spec("statsforecast") is None:
        print("statsforecast is left out: it is not installed.")
    else:
        makers |= {name: peer(name) for name in ("AutoETS", "AutoTheta", "AutoARIMA")}
    print(f"{'family':<16}{'method':<16}{'MASE':>8}{'CRPS':>9}{'coverage':>10}{'seconds':>9}")
    inside: dict[str, list[np.ndarray]] = {name: [] for name in makers}
    for family in asked.only:
        drawn = [draw(family, asked.first + seed, SIZE, STEPS) for seed in range(asked.seeds)]
        for name, make in makers.items():
            began = time.process_time()
            rows = [(y, after, *make(y, after)) for y, after in drawn]
            spent = (time.process_time() - began) / len(rows)
            held = [(after >= low) & (after <= high) for _, after, _, low, high, _ in rows]
            mase = np.mean(
                [np.abs(after - middle).mean() / mase_scale(y, 12) for y, after, middle, *_ in rows]
            )
            crps = np.mean([row[-1].mean() for row in rows])
            print(
                f"{family:<16}{name:<16}{mase:8.3f}{crps:9.3f}{np.mean(held):10.3f}{spent:9.2f}", flush=True
            )
            inside[name] += held
    for name, held in inside.items():
        shares = np.mean(held, 1)
        error = shares.std() / np.sqrt(len(shares))
        steps = " ".join(f"{share:.2f}" for share in np.mean(held, 0))
        print(f"{name}: coverage {shares.mean():.3f} +- {error:.3f}; by step {steps}")
