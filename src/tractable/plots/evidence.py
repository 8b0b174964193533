"""Pictures of trust: Pareto shapes, weights, calibration, risk by coverage."""

import numpy as np
from matplotlib.axes import Axes

from tractable.core.checks import check
from tractable.core.types import ArrayLike
from tractable.inference.evidence.comparison import ModelPosterior
from tractable.inference.evidence.cross_validation import PredictiveFit
from tractable.inference.evidence.stacking import Comparison
from tractable.inference.trust.calibration import Reliability, coverage_curve
from tractable.inference.trust.uncertainty import RiskCoverage
from tractable.inference.weighted.importance import Weighted
from tractable.inference.weighted.pareto import k_threshold
from tractable.plots.display import axes_of

__all__ = [
    "plot_comparison", "plot_coverage", "plot_k_hat", "plot_probabilities", "plot_reliability",
    "plot_risk_coverage", "plot_weights",
]  # fmt: skip


def plot_k_hat(fit: PredictiveFit, *, ax: Axes | None = None) -> Axes:
    """The Pareto shape of each row that was left out; red where it is too far to be trusted."""
    check(fit.k_hat is not None, "fit", "the result of `loo`", fit.method)
    k = np.asarray(fit.k_hat)
    limit, rows = k_threshold(fit.num_draws), np.arange(len(k))
    good = k <= limit
    ax = axes_of(ax, 6, 3)
    ax.plot(rows[good], k[good], "+", color="tab:blue", label="trusted")
    ax.plot(rows[~good], k[~good], "+", color="tab:red", label="too influential")
    ax.axhline(limit, color="0.6", lw=1, ls="--")
    ax.set(
        xlabel="row left out", ylabel="Pareto k", title=f"{(~good).sum()} of {len(k)} rows above {limit:.2f}"
    )
    ax.legend(fontsize="small")
    return ax


def plot_comparison(found: Comparison, *, ax: Axes | None = None) -> Axes:
    """The predictive accuracy of each model with two standard errors, the best on top; in grey, how far each
    is behind the best, with the error of that."""
    rows = np.arange(len(found.names))[::-1]
    values = np.array([float(fit.elpd.value) for fit in found.fits])
    errors = np.array([float(fit.elpd.standard_error) for fit in found.fits])
    ax = axes_of(ax, 6, 1 + 0.5 * len(rows))
    ax.errorbar(values, rows, xerr=2 * errors, fmt="o", color="tab:blue", capsize=3, label="elpd, two errors")
    behind = 2 * np.asarray(found.differences.standard_error)[1:]
    ax.errorbar(values[1:], rows[1:] + 0.2, xerr=behind, fmt="^", color="0.5", capsize=3, label="difference")
    ax.axvline(values[0], color="0.7", lw=1, ls="--")
    ax.set_yticks(rows, found.names)
    ax.set_xlabel("expected log predictive density")
    ax.legend(fontsize="x-small")
    return ax


def plot_probabilities(found: ModelPosterior, *, ax: Axes | None = None) -> Axes:
    """The probability of each model given the data."""
    ax = axes_of(ax, 5, 1 + 0.4 * len(found.names))
    ax.barh(list(found.names), np.asarray(found.probs), color="tab:blue")
    ax.invert_yaxis()
    ax.set(xlim=(0, 1), xlabel="probability", title=found.verdict.sentence)
    return ax


def plot_weights(weighted: Weighted, *, ax: Axes | None = None) -> Axes:
    """The largest weights in order, as shares of the total, on logarithmic axes: a straight line is a Pareto
    tail."""
    logs = np.sort(np.asarray(weighted.log_weights))[::-1]
    logs = logs[np.isfinite(logs)]
    shares = np.exp(logs - np.logaddexp.reduce(logs))
    ax = axes_of(ax, 5, 3)
    ax.loglog(np.arange(1, len(shares) + 1), shares, ".", ms=3)
    ax.axhline(1 / weighted.num_draws, color="0.6", lw=1, ls="--", label="equal shares")
    title = (
        f"effective size {float(weighted.ess):.0f} of {weighted.num_draws}, k = {float(weighted.k_hat):.2f}"
    )
    ax.set(xlabel="rank of the draw", ylabel="share of the weight", title=title)
    ax.legend(fontsize="small")
    return ax


def plot_reliability(found: Reliability, *, ax: Axes | None = None) -> Axes:
    """What happened against the probability that was stated; the diagonal is perfect, areas count cases."""
    used = np.asarray(found.counts) > 0
    p, f, n = (np.asarray(values)[used] for values in (found.confidence, found.frequency, found.counts))
    ax = axes_of(ax, 4, 4)
    ax.plot([0, 1], [0, 1], color="0.7", lw=1)
    ax.scatter(p, f, s=10 + 200 * n / n.sum(), color="tab:blue")
    title = f"expected calibration error {found.expected_error:.3f}"
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="stated probability", ylabel="share that happened", title=title)
    return ax


def plot_coverage(values: ArrayLike, *, ax: Axes | None = None) -> Axes:
    """The share of outcomes inside central intervals of every mass, from the values of `pit`."""
    mass, share = coverage_curve(values)
    count = np.size(np.asarray(values))
    ax = axes_of(ax, 4, 4)
    grid = np.asarray(mass)
    band = 2 * np.sqrt(grid * (1 - grid) / count)
    ax.fill_between(grid, grid - band, grid + band, color="0.9", label="two standard errors")
    ax.plot([0, 1], [0, 1], color="0.7", lw=1)
    ax.plot(grid, np.asarray(share), "o-", ms=3, color="tab:blue", label="observed")
    ax.set(xlabel="mass of the interval", ylabel="share inside")
    ax.legend(fontsize="small")
    return ax


def plot_risk_coverage(found: RiskCoverage, *, ax: Axes | None = None) -> Axes:
    """The risk of answering only the most confident share, beside that of an oracle."""
    ax = axes_of(ax, 5, 3)
    coverage = np.asarray(found.coverage)
    ax.plot(coverage, np.asarray(found.risk), color="tab:blue", label="by confidence")
    ax.plot(coverage, np.asarray(found.best), color="0.6", ls="--", label="best possible")
    ax.set(xlabel="coverage", ylabel="risk", title=f"area {float(found.area):.3f}")
    ax.legend(fontsize="small")
    return ax
