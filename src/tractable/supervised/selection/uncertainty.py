r"""Using uncertainty: intervals, deferring to an expert, guarantees for new rows, ensembles.

Deferral.    Answer where the uncertainty $u(x) \le t$: coverage $\frac1n\sum 1\{u_i \le t\}$, and risk
             $\sum l_i 1\{u_i \le t\} / \sum 1\{u_i \le t\}$ of the answers.
Guarantee.   With $n$ answers and $m$ errors the risk is below the Clopper-Pearson bound
             $\mathrm{Beta}^{-1}(1 - \delta; m + 1, n - m)$ with probability $1 - \delta$; of $T$ thresholds,
             one of which is chosen, each has $\delta/T$.
Conformal.   With scores $s_i$ of $n$ calibration rows that are exchangeable with the new one, the set
             $\{y: s(x, y) \le s_{(k)}\}$, $k = \lceil(n + 1)c\rceil$, holds $y$ with probability at least
             $c$, whatever the model.
Ensembles.   Members share their distributions equally; their disagreement is what more data would settle.
Cost.        One sort.
References.  El-Yaniv and Wiener (2010); Geifman and El-Yaniv (2017); Vovk, Gammerman and Shafer (2005); Lei
             et al. (2018); Lakshminarayanan, Pritzel and Blundell (2017).
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from tractable.core.checks import as_float, check, check_entries, check_option
from tractable.core.module import Module, field
from tractable.core.types import ArrayLike
from tractable.distributions.continuous import Normal
from tractable.inference.trust.uncertainty import UncertaintySplit, split_entropy, split_variance

__all__ = [
    "Ensemble", "Interval", "Prediction", "SelectivePrediction", "class_uncertainty", "conformal_interval",
    "conformal_sets", "conformal_threshold", "ensemble_classes", "ensemble_numbers", "selective_prediction",
    "threshold_for_coverage", "threshold_for_risk",
]  # fmt: skip

_LEVELS = 20  # coverages at which a guaranteed risk is sought


class Interval(NamedTuple):
    """Both ends of an interval (of each row)."""

    lower: np.ndarray
    upper: np.ndarray


class Prediction(Module):
    """A predicted number with how far it may be off, behind it a distribution (one unit per row).

    >>> Prediction.normal(5.0, 0.1)
    5 ± 0.1, 95% in [4.804, 5.196]
    """

    distribution: Any

    @classmethod
    def normal(cls, value: ArrayLike, std: ArrayLike) -> "Prediction":
        """A Gaussian prediction from its mean and standard deviation."""
        return cls(Normal(as_float("value", value), as_float("std", std)))

    @property
    def value(self) -> np.ndarray:
        return np.asarray(self.distribution.mean)

    @property
    def std(self) -> np.ndarray:
        return np.asarray(self.distribution.std)

    def interval(self, level: float = 0.95) -> Interval:
        """The central interval that holds the number with probability `level`."""
        check(0 < level < 1, "level", "between 0 and 1", level)
        ends = ((1 - level) / 2, (1 + level) / 2)
        return Interval(*(np.asarray(self.distribution.icdf(p)) for p in ends))

    def surer_than(self, other: "Prediction") -> np.ndarray:
        """Whether this prediction has the smaller standard deviation: the one to be trusted more."""
        return np.asarray(self.std < other.std)

    def __repr__(self) -> str:
        if self.value.ndim:
            return f"Prediction({self.value.size} rows, mean standard deviation {self.std.mean():.4g})"
        low, high = self.interval()
        return f"{self.value:.4g} ± {self.std:.4g}, 95% in [{low:.4g}, {high:.4g}]"


class SelectivePrediction(Module):
    """Which cases are answered at a threshold on uncertainty, and how well."""

    answered: np.ndarray = field(show=False)
    threshold: float
    coverage: float
    risk: float  # the mean loss of the answers; NaN where all is deferred
    bound: float  # which the risk of new cases does not pass, with the probability asked for


class Ensemble(Module):
    """What members say together, and the two parts of its uncertainty."""

    prediction: Any = field(show=False)  # Normal of the mean and total variance, or class probabilities
    split: UncertaintySplit


def class_uncertainty(probs: ArrayLike, kind: str = "entropy") -> np.ndarray:
    r"""A score per row: the "entropy", one minus the largest probability ("error"), or one minus the gap
    between the two largest ("margin")."""
    check_option("kind", kind, ("entropy", "error", "margin"))
    p = np.asarray(probs, float)
    check(p.ndim == 2 and p.shape[1] > 1, "probs", "of shape (rows, classes)", f"shape {p.shape}")
    if kind == "entropy":
        return -(p * np.log(np.where(p > 0, p, 1.0))).sum(1)
    ordered = np.sort(p, 1)
    return 1 - ordered[:, -1] + (ordered[:, -2] if kind == "margin" else 0.0)


def selective_prediction(
    uncertainty: ArrayLike, losses: ArrayLike, threshold: float | int, *, failure: float | None = None
) -> SelectivePrediction:
    """Answer the cases of uncertainty up to `threshold`, defer the others.

    With `failure`, the probability that the bound may fail, errors of 0 or 1 give a bound on the risk of new
    cases; the threshold must then not have been chosen on these rows.

    >>> selective_prediction([0.1, 0.2, 0.8, 0.9], [0, 0, 1, 0], 0.5)
    SelectivePrediction(threshold=0.5, coverage=0.5, risk=0.0, bound=nan)
    """
    u, loss = _scored(uncertainty, losses)
    answered = u <= threshold
    risk = float(loss[answered].mean()) if answered.any() else float("nan")
    bound = float("nan") if failure is None else _risk_bound(loss[answered], failure)
    return SelectivePrediction(answered, float(threshold), float(answered.mean()), risk, bound)


def threshold_for_coverage(uncertainty: ArrayLike, coverage: float | int) -> float:
    """The least threshold at which at least this share of the cases is answered."""
    u = np.sort(as_float("uncertainty", uncertainty))
    check(0 < coverage <= 1, "coverage", "above 0, at most 1", coverage)
    return float(u[int(np.ceil(coverage * len(u) - 1e-9)) - 1])


def threshold_for_risk(
    uncertainty: ArrayLike, losses: ArrayLike, risk: float, *, failure: float | None = None
) -> SelectivePrediction:
    """The largest threshold at which the risk of the answers is at most `risk`; -inf where there is none.

    With `failure` the thresholds are those of 20 coverages, and the bound on the risk is held below `risk`
    for all of them at once, so that the choice is safe: the risk of new cases passes `risk` with at most this
    probability. The case that sets a threshold is not counted: the others below it are a fair sample.
    """
    u, loss = _scored(uncertainty, losses)
    order = np.argsort(u, kind="stable")
    last = np.r_[np.flatnonzero(np.diff(u[order])), len(u) - 1]  # equal uncertainties are answered together
    if failure is None:
        reached = np.cumsum(loss[order])[last] / (last + 1)
    else:
        _check_errors(loss, failure)
        wanted = np.ceil(np.arange(1, _LEVELS + 1) / _LEVELS * len(u)).astype(int) - 1
        last = last[np.unique(np.searchsorted(last, wanted))]
        below = np.cumsum(loss[order])[last] - loss[order][last]
        reached = _upper(below, last, failure / _LEVELS)
    good = np.flatnonzero(reached <= risk)
    if not good.size:
        return SelectivePrediction(np.zeros(len(u), bool), -np.inf, 0.0, float("nan"), float("nan"))
    found = selective_prediction(u, loss, float(u[order][last[good[-1]]]))
    bound = float("nan") if failure is None else float(reached[good[-1]])
    return SelectivePrediction(found.answered, found.threshold, found.coverage, found.risk, bound)


def conformal_threshold(scores: ArrayLike, level: float) -> float:
    r"""$s_{(k)}$, $k = \lceil(n + 1)\,c\rceil$, of calibration scores; infinite where $n$ is too small.

    >>> conformal_threshold(np.arange(1.0, 10.0), 0.9), conformal_threshold(np.arange(1.0, 9.0), 0.9)
    (9.0, inf)
    """
    s = np.sort(np.asarray(scores, float))
    check(s.ndim == 1 and s.size > 0 and not np.isnan(s).any(), "scores", "a vector of numbers", s.shape)
    check(0 < level < 1, "level", "between 0 and 1", level)
    k = int(np.ceil((len(s) + 1) * level - 1e-9))
    return float(s[k - 1]) if k <= len(s) else float("inf")


def conformal_interval(
    targets: ArrayLike,
    predictions: ArrayLike,
    new_predictions: ArrayLike,
    level: float = 0.9,
    *,
    scale: ArrayLike | None = None,
    new_scale: ArrayLike | None = None,
) -> Interval:
    r"""$\hat y \pm t\,\sigma(x)$ with $t$ from $|y_i - \hat y_i| / \sigma_i$ of calibration rows: holds a new
    target with probability at least `level`. Without scales all intervals are equally wide."""
    check((scale is None) == (new_scale is None), "new_scale", "given with `scale`", "one of them")
    spread = np.ones_like(np.asarray(targets, float)) if scale is None else np.asarray(scale, float)
    check_entries("scale", spread, lambda v: v > 0, "positive")
    scores = np.abs(np.asarray(targets, float) - np.asarray(predictions, float)) / spread
    centre = np.asarray(new_predictions, float)
    half = conformal_threshold(scores, level) * (1.0 if new_scale is None else np.asarray(new_scale, float))
    return Interval(centre - half, centre + half)


def conformal_sets(
    probs: ArrayLike, labels: ArrayLike, new_probs: ArrayLike, level: float = 0.9
) -> np.ndarray:
    """The classes of each new row, as `(rows, classes)` of booleans, that hold its class with probability at
    least `level`; the score is one minus the probability of the class."""
    p, codes = np.asarray(probs, float), np.asarray(labels)
    check(p.ndim == 2 and codes.shape == p.shape[:1], "labels", f"one per row ({len(p)},)", codes.shape)
    scores = 1 - p[np.arange(len(p)), codes.astype(int)]
    return 1 - np.asarray(new_probs, float) <= conformal_threshold(scores, level)


def ensemble_numbers(means: ArrayLike, variances: ArrayLike) -> Ensemble:
    """Members' means and variances, `(members, rows)`, as one Normal per row of the same two moments."""
    split = split_variance(means, variances)
    centre = np.asarray(means, float).mean(0)
    return Ensemble(Normal(as_float("means", centre), jnp.sqrt(split.total)), split)


def ensemble_classes(probs: ArrayLike) -> Ensemble:
    """Members' class probabilities, `(members, rows, classes)`, averaged."""
    split = split_entropy(probs)
    return Ensemble(np.asarray(probs, float).mean(0), split)


def _scored(uncertainty: ArrayLike, losses: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    u, loss = np.asarray(uncertainty, float), np.asarray(losses, float)
    check(u.ndim == 1 and u.size > 0, "uncertainty", "a vector of at least one", f"shape {u.shape}")
    check(loss.shape == u.shape, "losses", f"one per case {u.shape}", f"shape {loss.shape}")
    check(not np.isnan(u).any(), "uncertainty", "numbers", "NaN")
    check(bool(np.isfinite(loss).all()), "losses", "finite", "NaN or infinity")
    return u, loss


def _check_errors(losses: np.ndarray, failure: float) -> None:
    check(0 < failure < 1, "failure", "between 0 and 1", failure)
    check_entries("losses", losses, lambda v: (v == 0) | (v == 1), "0 or 1 for a bound")


def _risk_bound(losses: np.ndarray, failure: float) -> float:
    _check_errors(losses, failure)
    return float(_upper(losses.sum(), len(losses), failure)) if len(losses) else 1.0


def _upper(errors: Any, count: Any, failure: float) -> Any:
    """The Clopper-Pearson bound on a probability."""
    from scipy.stats import beta

    certain = np.asarray(errors) == np.asarray(count)
    return np.where(certain, 1.0, beta.ppf(1 - failure, errors + 1.0, np.where(certain, 1.0, count - errors)))
