"""`python -m benchmarks distributions`: log-density and draws of 10^6 points beside SciPy and NumPyro, after
compilation.

A ratio above one says how many times faster tractable is. Each time is the best of several runs in one
process, on the same
points and in float64.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.random as jr
import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import stats

from tractable import distributions as tr

NUM_POINTS = 1_000_000
REPEATS = 5


class Row(NamedTuple):
    """One distribution in three libraries; `peer` names NumPyro's class and its arguments."""

    ours: Any
    scipy: Any
    peer: tuple[str, tuple, dict]


def rows() -> dict[str, Row]:
    """Twenty distributions with the same parameters in each library."""
    return {
        "Normal": Row(tr.Normal(0.5, 2.0), stats.norm(0.5, 2.0), ("Normal", (0.5, 2.0), {})),
        "StudentT": Row(
            tr.StudentT(5.0, 0.5, 2.0), stats.t(5.0, 0.5, 2.0), ("StudentT", (5.0, 0.5, 2.0), {})
        ),
        "Cauchy": Row(tr.Cauchy(0.5, 2.0), stats.cauchy(0.5, 2.0), ("Cauchy", (0.5, 2.0), {})),
        "Laplace": Row(tr.Laplace(0.5, 2.0), stats.laplace(0.5, 2.0), ("Laplace", (0.5, 2.0), {})),
        "Logistic": Row(tr.Logistic(0.5, 2.0), stats.logistic(0.5, 2.0), ("Logistic", (0.5, 2.0), {})),
        "Gumbel": Row(tr.Gumbel(0.5, 2.0), stats.gumbel_r(0.5, 2.0), ("Gumbel", (0.5, 2.0), {})),
        "Uniform": Row(tr.Uniform(-1.0, 3.0), stats.uniform(-1.0, 4.0), ("Uniform", (-1.0, 3.0), {})),
        "HalfNormal": Row(tr.HalfNormal(2.0), stats.halfnorm(scale=2.0), ("HalfNormal", (2.0,), {})),
        "HalfCauchy": Row(tr.HalfCauchy(2.0), stats.halfcauchy(scale=2.0), ("HalfCauchy", (2.0,), {})),
        "LogNormal": Row(
            tr.LogNormal(0.5, 0.7), stats.lognorm(0.7, scale=np.exp(0.5)), ("LogNormal", (0.5, 0.7), {})
        ),
        "Exponential": Row(tr.Exponential(1.5), stats.expon(scale=1 / 1.5), ("Exponential", (1.5,), {})),
        "Gamma": Row(tr.Gamma(2.5, 1.5), stats.gamma(2.5, scale=1 / 1.5), ("Gamma", (2.5, 1.5), {})),
        "InverseGamma": Row(
            tr.InverseGamma(3.5, 1.5), stats.invgamma(3.5, scale=1.5), ("InverseGamma", (3.5, 1.5), {})
        ),
        "Beta": Row(tr.Beta(2.0, 3.5), stats.beta(2.0, 3.5), ("Beta", (2.0, 3.5), {})),
        "Weibull": Row(tr.Weibull(1.7, 2.0), stats.weibull_min(1.7, scale=2.0), ("Weibull", (2.0, 1.7), {})),
        "Pareto": Row(tr.Pareto(3.0, 2.0), stats.pareto(3.0, scale=2.0), ("Pareto", (2.0, 3.0), {})),
        "Bernoulli": Row(tr.Bernoulli(0.3), stats.bernoulli(0.3), ("BernoulliProbs", (0.3,), {})),
        "Binomial": Row(
            tr.Binomial(20.0, 0.3),
            stats.binom(20, 0.3),
            ("BinomialProbs", (), {"probs": 0.3, "total_count": 20}),
        ),
        "Geometric": Row(tr.Geometric(0.3), stats.geom(0.3, loc=-1), ("GeometricProbs", (0.3,), {})),
        "Poisson": Row(tr.Poisson(4.0), stats.poisson(4.0), ("Poisson", (4.0,), {})),
    }


def best(work: Callable[[], Any], repeats: int) -> float:
    """The least seconds of several runs, after one that compiles."""
    jax.block_until_ready(work())
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(work())
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def peer_module() -> Any:
    """NumPyro's distributions, or None with the reason printed."""
    try:
        import numpyro.distributions as peer
    except ModuleNotFoundError:
        Console().print("NumPyro is not installed (pip install -e '.[bench]'): its columns are empty.")
        return None
    return peer


def measure(row: Row, peer: Any, num_points: int, repeats: int) -> dict[str, float]:
    """Milliseconds of both jobs in each library."""
    generator = np.random.default_rng(0)
    points = np.asarray(row.scipy.rvs(num_points, random_state=generator), float)
    device, key = jax.numpy.asarray(points), jr.key(0)
    seconds = {
        "log ours": best(lambda: row.ours.log_prob(device), repeats),
        "log scipy": best(
            lambda: (row.scipy.logpmf if hasattr(row.scipy.dist, "logpmf") else row.scipy.logpdf)(points), 2
        ),
        "draw ours": best(lambda: row.ours.sample(key, (num_points,)), repeats),
        "draw scipy": best(lambda: row.scipy.rvs(num_points, random_state=generator), 2),
    }
    if peer is not None:
        name, positional, named = row.peer
        other = getattr(peer, name)(*positional, **named)
        log_prob, draw = jax.jit(other.log_prob), jax.jit(lambda key: other.sample(key, (num_points,)))
        seconds["log peer"] = best(lambda: log_prob(device), repeats)
        seconds["draw peer"] = best(lambda: draw(key), repeats)
    return {name: 1e3 * value for name, value in seconds.items()}


def main(arguments: Sequence[str] = ()) -> None:
    """Print milliseconds and ratios; an argument replaces the number of points."""
    num_points = int(arguments[0]) if arguments else NUM_POINTS
    peer = peer_module()
    table = Table(
        title=f"{num_points:,} points: milliseconds, and how many times faster than SciPy and NumPyro"
    )
    table.add_column("distribution")
    for column in ("log_prob ms", "/ SciPy", "/ NumPyro", "sample ms", "/ SciPy", "/ NumPyro"):
        table.add_column(column, justify="right")
    ratios: dict[str, list[float]] = {"log scipy": [], "log peer": [], "draw scipy": [], "draw peer": []}
    for name, row in rows().items():
        found = measure(row, peer, num_points, REPEATS)
        for other in ratios:
            if other in found:
                ratios[other].append(found[other] / found[other.split()[0] + " ours"])
        cells = [
            f"{ratios[other][-1]:.2f}" if other in found else "-"
            for other in ("log scipy", "log peer", "draw scipy", "draw peer")
        ]
        table.add_row(name, f"{found['log ours']:.2f}", *cells[:2], f"{found['draw ours']:.2f}", *cells[2:])
    means = [f"{np.exp(np.mean(np.log(values))):.2f}" if values else "-" for values in ratios.values()]
    table.add_section()
    table.add_row("geometric mean", "", *means[:2], "", *means[2:])
    Console(width=110).print(table)
