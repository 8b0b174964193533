r"""Whether predictions may be trusted, from rows whose targets they have not seen.

Log-score.   The mean $\log p(y \mid x)$ must not be below that of what knows no $x$: a normal with the mean
             and variance of the targets, or their frequencies.
Calibration. For numbers, as many targets inside intervals of 90 % as an exact binomial test finds likely. For
             classes, the sum of hits of the likeliest class against the sum of its probabilities, in units of
             the standard deviation that these have.
Beside.      Where other predictions of the same rows are given, the mean difference of the log-scores with
             its standard error: the verdict is against what is worse by more than two of them.
Cost.        One sort.
References.  Gneiting and Raftery (2007); Spiegelhalter (1986).
"""

from typing import Any

import numpy as np

from tractable.core.checks import check_length
from tractable.core.verdict import Verdict
from tractable.distributions.categorical import Categorical
from tractable.inference.trust.calibration import interval_coverage
from tractable.neural.bayes.predictive import NetworkPrediction

__all__ = ["judge_predictions", "marginal_log_score"]

_MASS = 0.9
_MOST = 3.0  # standard deviations of the number of hits


def judge_predictions(
    prediction: NetworkPrediction, targets: Any, *, seen: Any = None, beside: NetworkPrediction | None = None
) -> Verdict:
    """Whether `prediction` is fit for use, by the `targets` of its rows.

    `seen` are the targets of the fit, by which rows are predicted without their inputs (by default those of
    the rows themselves); `beside` is another prediction of the same rows.
    """
    y = np.asarray(targets, float)
    check_length("targets", y, "prediction", prediction.split.aleatoric)
    scores = prediction.log_prob(y)
    plain = marginal_log_score(y if seen is None else np.asarray(seen, float), y, prediction)
    numbers = {"log_score": float(scores.mean()), "marginal_log_score": plain, "num_rows": y.size}
    if not np.isfinite(scores).all():
        return Verdict(False, f"{int((~np.isfinite(scores)).sum())} rows have no finite log-score.", numbers)
    calibrated, said, more = _classes(prediction, y) if _is_classes(prediction) else _numbers(prediction, y)
    numbers |= more
    useful = numbers["log_score"] >= plain
    gain = "above" if useful else "below"
    said = f"Log-score {numbers['log_score']:.3f}, {gain} {plain:.3f} without inputs; {said}"
    level = True
    if beside is not None:
        gap = scores - beside.log_prob(y)
        error = gap.std(ddof=1) / np.sqrt(gap.size) if gap.size > 1 else np.inf
        numbers |= {"gain": float(gap.mean()), "gain_error": float(error)}
        level = gap.mean() >= -2 * error
        said += f" Beside the other: {gap.mean():+.3f} ± {error:.3f}."
    return Verdict(calibrated and useful and level, said, numbers)


def marginal_log_score(seen: np.ndarray, y: np.ndarray, prediction: NetworkPrediction) -> float:
    """The mean log-score of `y` by the distribution of the targets that were seen."""
    if _is_classes(prediction):
        classes = prediction.probs.shape[1]
        counts = np.bincount(seen.astype(int), minlength=classes) + 0.5  # Jeffreys: no class is impossible
        return float(np.log(counts / counts.sum())[y.astype(int)].mean())
    variance = seen.var()
    if not variance > 0:
        return -np.inf
    return float((-0.5 * (y - seen.mean()) ** 2 / variance - 0.5 * np.log(2 * np.pi * variance)).mean())


def _is_classes(prediction: NetworkPrediction) -> bool:
    return isinstance(prediction.distribution, Categorical)


def _numbers(prediction: NetworkPrediction, y: np.ndarray) -> tuple[bool, str, dict]:
    ends = prediction.interval(_MASS)
    found = interval_coverage(y, ends.lower, ends.upper, _MASS)
    return (
        found.verdict.ok,
        found.verdict.sentence,
        {"coverage": float(found.value), "p_value": found.p_value},
    )


def _classes(prediction: NetworkPrediction, y: np.ndarray) -> tuple[bool, str, dict]:
    probs = prediction.probs
    best, trust = probs.argmax(1), probs.max(1)
    hits = best == y
    spread = np.sqrt((trust * (1 - trust)).sum())
    surplus = hits.sum() - trust.sum()
    z = float(surplus / spread) if spread > 0 else (0.0 if surplus == 0 else np.copysign(np.inf, surplus))
    kind = "as sure as right" if abs(z) <= _MOST else ("too sure" if z < 0 else "not sure enough")
    said = f"{hits.mean():.1%} are right where {trust.mean():.1%} were promised: {kind}."
    return abs(z) <= _MOST, said, {"accuracy": float(hits.mean()), "confidence": float(trust.mean()), "z": z}
