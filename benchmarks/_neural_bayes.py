"""`python -m benchmarks neural bayes`: uncertain networks beside long chains and beside Gaussian processes.

The first table has one hidden layer of ten units on a noisy sine: for each method the distance of its
predictive means from those of NUTS, in units of NUTS' predictive deviations, and the ratio of the deviations.
The second has held-out log-scores and coverages of 90 % intervals over splits of regression tables, with a
hidden layer of twenty units, beside `GaussianProcessRegressor`. Columns and targets are standardised.
"""

import time
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable import datasets
from tractable.estimators import GaussianProcessRegressor
from tractable.neural.bayes.chains import NetworkChains
from tractable.neural.bayes.posterior import weight_posterior

__all__ = ["main"]

_METHODS = (
    "laplace", "kronecker_laplace", "diagonal_laplace", "last_layer_laplace", "mean_field", "low_rank",
    "backprop", "ensemble", "swag", "sgld", "sghmc",
)  # fmt: skip
_ON_TABLES = ("laplace", "kronecker_laplace", "last_layer_laplace", "ensemble")


def main() -> None:
    """Both tables."""
    _beside_chains()
    _on_tables()


def _network(inputs: int, width: int, seed: int) -> eqx.nn.MLP:
    return eqx.nn.MLP(inputs, 1, width, 1, activation=jnp.tanh, key=jr.key(seed))


def _beside_chains() -> None:
    numbers = np.random.default_rng(0)
    x = np.sort(numbers.uniform(-2, 2, 60))[:, None]
    y = np.sin(2 * x[:, 0]) + 0.2 * numbers.normal(size=60)
    grid = np.linspace(-3, 3, 61)[:, None]
    inside = np.abs(grid[:, 0]) <= 2
    judge = weight_posterior(_network(1, 10, 0), (x, y), NetworkChains(num_draws=2000), key=jr.key(1))
    truth = judge.predict(grid)
    print(f"NUTS: {judge.verdict}")
    print("| method | mean, inside | deviation, inside | mean, outside | deviation, outside | CPU s |")
    print("|---|---|---|---|---|---|")
    for method in _METHODS:
        begun = time.process_time()
        found = weight_posterior(_network(1, 10, 0), (x, y), method, key=jr.key(1)).predict(grid)
        cells = []
        for rows in (inside, ~inside):
            gap = np.abs(found.value - truth.value)[rows] / truth.std[rows]
            ratio = found.std[rows] / truth.std[rows]
            cells += [f"{gap.mean():.2f}", f"{np.exp(np.log(ratio).mean()):.2f}"]
        print(f"| {method} | {' | '.join(cells)} | {time.process_time() - begun:.1f} |", flush=True)


def _on_tables() -> None:
    tables = {
        "diabetes": datasets.diabetes(),
        "noisy_line": datasets.noisy_line(100),
        "noisy_sinusoid": datasets.noisy_sinusoid(100),
    }
    print("| table | method | log-score | coverage of 90 % | CPU s a fit |")
    print("|---|---|---|---|---|")
    for name, table in tables.items():
        found: dict[str, list] = {}
        for seed in range(5):
            seen, new = table.split(0.2, seed)
            centre, size = seen.features.mean(0), seen.features.std(0)
            data = (seen.features - centre) / size, (seen.target - seen.target.mean()) / seen.target.std()
            held = (new.features - centre) / size, (new.target - seen.target.mean()) / seen.target.std()
            for method in ("gaussian process", *_ON_TABLES):
                begun = time.process_time()
                scores, ends = _answers(method, data, held, seed)
                inside = (held[1] >= ends[0]) & (held[1] <= ends[1])
                found.setdefault(method, []).append((scores, inside, time.process_time() - begun))
        for method, runs in found.items():
            scores, inside = (np.concatenate([run[i] for run in runs]) for i in (0, 1))
            seconds = np.median([run[2] for run in runs])
            cells = f"{scores.mean():.3f} | {inside.mean():.3f} | {seconds:.1f}"
            print(f"| {name} | {method} | {cells} |", flush=True)


def _answers(method: str, data: tuple, held: tuple, seed: int) -> tuple[np.ndarray, tuple]:
    """The log-score of each held-out row, and the ends of its interval."""
    if method == "gaussian process":
        told: Any = GaussianProcessRegressor().fit(*data).predict_dist(held[0])
        ends = tuple(np.asarray(told.icdf(p)) for p in (0.05, 0.95))
        return np.asarray(told._log_prob(jnp.asarray(held[1]))), ends
    told = weight_posterior(_network(data[0].shape[1], 20, seed), data, method, key=jr.key(seed)).predict(
        held[0]
    )
    return told.log_prob(held[1]), told.interval(0.9)
