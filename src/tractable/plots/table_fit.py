"""Pictures of a raced table: predictions beside what happened, ranks, reliability, risk by coverage, what
matters, effects. All take plain arrays, and draw on `ax`."""

from typing import Any

import numpy as np

__all__ = [
    "plot_effect", "plot_importance", "plot_outcomes", "plot_ranks", "plot_reliability", "plot_risk",
]  # fmt: skip

_BLUE, _GREY, _RED = "#2a6fb0", "#999999", "#c0504d"


def plot_outcomes(mean: Any, lower: Any, upper: Any, actual: Any, *, ax: Any) -> Any:
    """What happened over what was predicted, with the intervals; those that missed in red."""
    mean, lower, upper, actual = (np.asarray(v, float) for v in (mean, lower, upper, actual))
    inside = (lower <= actual) & (actual <= upper)
    ax.vlines(mean, lower, upper, color=_GREY, lw=0.6, alpha=0.5)
    ax.plot(mean[inside], actual[inside], ".", color=_BLUE, ms=4, label="inside")
    ax.plot(mean[~inside], actual[~inside], ".", color=_RED, ms=5, label="outside")
    ends = min(mean.min(), actual.min()), max(mean.max(), actual.max())
    ax.plot(ends, ends, color="black", lw=0.8)
    ax.set(xlabel="predicted mean", ylabel="what happened")
    ax.legend(frameon=False)
    return ax


def plot_ranks(ranks: Any, *, ax: Any) -> Any:
    """A histogram of ranks, and the band that uniform ones keep to with probability 95 %."""
    ranks = np.asarray(ranks, float)
    bins = 10
    ax.hist(ranks, bins=np.linspace(0, 1, bins + 1), color=_BLUE, alpha=0.7)
    expected = len(ranks) / bins
    reach = 1.96 * np.sqrt(expected * (1 - 1 / bins))
    ax.axhspan(expected - reach, expected + reach, color=_GREY, alpha=0.3)
    ax.set(xlabel="rank of what happened in its predicted law", ylabel="rows")
    return ax


def plot_reliability(sure: Any, right: Any, *, ax: Any) -> Any:
    """The share that was right among rows of about the same promise, with errors."""
    sure, right = np.asarray(sure, float), np.asarray(right, float)
    order = np.array_split(np.argsort(sure, kind="stable"), max(2, min(10, len(sure) // 15)))
    said = [sure[part].mean() for part in order]
    seen = np.array([right[part].mean() for part in order])
    error = [1.96 * np.sqrt(max(p * (1 - p), 0.25 / len(part)) / len(part)) for p, part in zip(said, order)]
    ax.errorbar(said, seen, error, fmt="o", color=_BLUE, capsize=2)
    ax.plot([0, 1], [0, 1], color="black", lw=0.8)
    low = max(0.0, min(min(said), float(seen.min())) - 0.1)
    ax.set(xlabel="probability that was promised", ylabel="share that was right", xlim=(low, 1.02))
    ax.set_ylim(low, 1.05)
    return ax


def plot_risk(uncertainty: Any, losses: Any, *, ax: Any, name: str = "mean loss") -> Any:
    """The mean loss of the rows that are kept, the least sure being left to a person first."""
    order = np.argsort(np.asarray(uncertainty, float), kind="stable")
    losses = np.asarray(losses, float)[order]
    share = np.arange(1, len(losses) + 1) / len(losses)
    risk = np.cumsum(losses) / np.arange(1, len(losses) + 1)
    shown = share >= 0.1
    ax.plot(share[shown], risk[shown], color=_BLUE)
    ax.axhline(losses.mean(), color=_GREY, lw=0.8, ls="--")
    ax.set(xlabel="share of rows that are answered", ylabel=name, xlim=(0, 1.02))
    ax.set_ylim(bottom=0)
    return ax


def plot_importance(names: list[str], lost: Any, errors: Any, *, ax: Any) -> Any:
    """Log-score lost where a column is shuffled, with two standard errors."""
    place = np.arange(len(names))[::-1]
    ax.barh(place, lost, xerr=2 * np.asarray(errors, float), color=_BLUE, alpha=0.8, ecolor=_GREY)
    ax.set_yticks(place, [name if len(name) <= 24 else f"{name[:21]}..." for name in names])
    ax.axvline(0, color="black", lw=0.8)
    ax.set(xlabel="log-score lost without the column (nats a row)")
    return ax


def plot_effect(values: Any, mean: Any, low: Any, high: Any, *, ax: Any, name: str, said: str) -> Any:
    """The mean prediction at values of a column, with the middle 80 % of the rows."""
    if isinstance(values, list):
        place = np.arange(len(values))
        mean, low, high = (np.asarray(v, float) for v in (mean, low, high))
        ax.errorbar(place, mean, [mean - low, high - mean], fmt="o", color=_BLUE, ecolor=_GREY, capsize=3)
        ax.set_xticks(place, [v if len(v) <= 10 else f"{v[:8]}.." for v in values], rotation=30)
    else:
        ax.fill_between(values, low, high, color=_BLUE, alpha=0.2)
        ax.plot(values, mean, color=_BLUE)
    ax.set(xlabel=name, ylabel=said)
    return ax
