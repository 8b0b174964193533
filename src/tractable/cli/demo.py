r"""`tractable demo`: Bayesian linear regression in closed form, with its intervals checked on held-out rows.

Model.       $y = x^\top \beta + \epsilon$ on standardised columns; $\epsilon \sim N(0, 1/\tau)$,
             $\tau \sim \mathrm{Gamma}(1, 1)$,
             $\beta \mid \tau \sim N(0, I/\tau)$. Posterior, evidence and predictive are exact.
"""

from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from tractable import datasets
from tractable.distributions import Binomial, RegressionPrior, StudentT

__all__ = ["Result", "analyse", "run_demo"]


class Result(NamedTuple):
    """What the demonstration found, in the units of the target."""

    names: tuple[str, ...]
    coefficients: StudentT
    log_evidence: float
    log_evidence_without: float
    predicted: StudentT
    observed: np.ndarray
    target_name: str
    num_train: int

    def interval(self, distribution: StudentT, level: float) -> tuple[np.ndarray, np.ndarray]:
        """The central interval of each coordinate with probability `level`; all have the same degrees of
        freedom."""
        half = float(
            StudentT(distribution.degrees, jnp.zeros(()), jnp.ones(())).icdf((1 + level) / 2)
        ) * np.asarray(distribution.scale)
        return np.asarray(distribution.loc) - half, np.asarray(distribution.loc) + half

    def covered(self, level: float) -> int:
        """How many held-out values lie inside their intervals."""
        lower, upper = self.interval(self.predicted, level)
        return int(((lower <= self.observed) & (self.observed <= upper)).sum())


def analyse(seed: int) -> Result:
    """Hold out a quarter of the rows, fit the others, predict the held-out ones."""
    table = datasets.diabetes()
    train, test = table.split(0.25, seed)
    centre, spread = train.features.mean(0), train.features.std(0)
    mean, sd = train.target.mean(), train.target.std()
    design = _design((train.features - centre) / spread)
    targets = jnp.asarray((train.target - mean) / sd)
    posterior = _prior(design.shape[1]).posterior(design, targets)
    predicted = posterior.predict_dist(_design((test.features - centre) / spread))
    scaling = -len(train) * float(np.log(sd))  # densities of y, not of the standardised y
    return Result(
        ("intercept", *table.feature_names),
        _rescale(posterior.coefficients(), sd, mean * (np.arange(design.shape[1]) == 0)),
        float(_prior(design.shape[1]).log_evidence(design, targets)) + scaling,
        float(_prior(1).log_evidence(design[:, :1], targets)) + scaling,
        _rescale(predicted, sd, mean),
        test.target,
        table.target_name,
        len(train),
    )


def run_demo(picture: Path, level: float, seed: int) -> None:
    """Print the tables and write the picture."""
    console = Console()
    result = analyse(seed)
    console.print(
        f"[bold]Bayesian linear regression, exact.[/] {result.num_train} patients to learn from, "
        f"{len(result.observed)} held out; the target is {result.target_name}.\n"
    )
    console.print(_coefficient_table(result, level))
    console.print(_evidence_sentence(result))
    console.print(_interval_table(result, level))
    console.print(_coverage_sentence(result, level))
    _draw(result, level, picture)
    console.print(f"Picture: {picture}", soft_wrap=True)


def _prior(dim: int) -> RegressionPrior:
    return RegressionPrior(jnp.zeros(dim), jnp.eye(dim), jnp.ones(()), jnp.ones(()))


def _design(columns: np.ndarray) -> jnp.ndarray:
    return jnp.asarray(np.c_[np.ones(len(columns)), columns])


def _rescale(distribution: StudentT, scale: float, shift: float | np.ndarray) -> StudentT:
    loc, spread = np.asarray(distribution.loc), np.asarray(distribution.scale)
    return StudentT(distribution.degrees, jnp.asarray(loc * scale + shift), jnp.asarray(spread * scale))


def _coefficient_table(result: Result, level: float) -> Table:
    table = Table(title="Posterior: effect of one standard deviation of each column", title_justify="left")
    for column in ("coefficient", "mean", "sd", f"{level:.0%} interval"):
        table.add_column(column, justify="left" if column == "coefficient" else "right")
    mean, sd = np.asarray(result.coefficients.mean), np.asarray(result.coefficients.std)
    lower, upper = result.interval(result.coefficients, level)
    for i, name in enumerate(result.names):
        table.add_row(name, f"{mean[i]:.1f}", f"{sd[i]:.1f}", f"{lower[i]:8.1f} to {upper[i]:6.1f}")
    return table


def _evidence_sentence(result: Result) -> str:
    gain = result.log_evidence - result.log_evidence_without
    return (
        f"Log-evidence {result.log_evidence:.2f}; with the intercept alone "
        f"{result.log_evidence_without:.2f}: the columns are favoured by a log Bayes factor of {gain:.1f}.\n"
    )


def _interval_table(result: Result, level: float) -> Table:
    table = Table(title="Predictions for the first held-out patients", title_justify="left")
    for column in ("observed", "mean", f"{level:.0%} interval", ""):
        table.add_column(column, justify="right")
    lower, upper = result.interval(result.predicted, level)
    for y, mean, low, high in list(zip(result.observed, np.asarray(result.predicted.mean), lower, upper))[:6]:
        table.add_row(
            f"{y:.0f}", f"{mean:.0f}", f"{low:.0f} to {high:.0f}", "inside" if low <= y <= high else "outside"
        )
    return table


def _coverage_sentence(result: Result, level: float) -> str:
    total, inside = len(result.observed), result.covered(level)
    below = np.cumsum(np.exp(Binomial(total, level).log_prob(np.arange(total + 1.0))))
    low, high = np.searchsorted(below, [0.025, 0.975])
    verdict = "as it should be" if low <= inside <= high else "NOT what a calibrated model gives"
    return (
        f"Coverage: {inside} of {total} held-out values ({inside / total:.1%}) "
        f"lie inside their {level:.0%} intervals; chance alone gives {low} to {high}: {verdict}."
    )


def _draw(result: Result, level: float, picture: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    from tractable.plots.predictive import plot_coefficients, plot_intervals

    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5), width_ratios=(1, 2), layout="constrained")
    lower, upper = result.interval(result.coefficients, level)
    plot_coefficients(
        result.names[1:], np.asarray(result.coefficients.mean)[1:], lower[1:], upper[1:], ax=left
    )
    left.set_title("Posterior of the coefficients")
    lower, upper = result.interval(result.predicted, level)
    plot_intervals(
        result.observed, result.predicted.mean, lower, upper, ax=right, label=f"{level:.0%} interval"
    )
    right.set_ylabel(result.target_name)
    figure.savefig(picture, dpi=120)
    plt.close(figure)
