r"""Evidence beside the log-score, of models whose priors were stated before the rows were seen.

Evidence.    $\frac1n\log p(y_1, \dots, y_n \mid M)$ of the rows that a fold learns from, mean over the folds
             that all have seen: the models of a fold have the same rows. What may be compared is said by the
             grounds of `inference.trust.evidence`; the others are refused by name.
Intercept.   Generalised linear models centre their intercept on the rows, linear ones leave it flat. Both
             become $b \sim N(0, 10^2)$ at the mean of the columns, on the scale of the link, where it needs
             no unit: under the posterior $q$ of the first, $\log E_q[p_1(b)/p_0(b)]$ is what the evidence
             gains; a flat one gains $\log N(\bar y;\, 0,\, 10^2 + 1/n\beta)$ at each precision, exactly.
Scales.      Those of the logarithm are half-Cauchy of scale one here, whatever the rows.
Measure.     A model of $\log y$ states its density of $y$: $-\sum_i\log y_i$. A density of numbers is not a
             mass of counts.
Refused.     Flat intercepts of numbers, whose unit only the rows know; targets that were standardised by the
             rows; hyperparameters that are the best for them; a part of the rows.
Cost.        $O(k)$ for the nodes of a posterior.
References.  Kass and Raftery (1995); Gelman and Meng (1998) for ratios of priors.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from tractable.inference.trust.evidence import Grounds
from tractable.race.candidates import Candidate
from tractable.race.members import Member
from tractable.race.question import Question

__all__ = ["Stated", "evidence_words", "evidences", "stated"]

_SPREAD = 10.0  # prior deviation of an intercept on the scale of a link
_LOG_2PI = float(np.log(2 * np.pi))


class Stated(NamedTuple):
    """A log-evidence for each of so many rows of training, and what it rests on."""

    value: float
    rows: int
    grounds: Grounds


def stated(candidate: Candidate, member: Member, train: Question) -> Stated | None:
    """What a fitted model says of the rows that it was given to learn from; None where it has no evidence."""
    estimator = member.estimator
    value = getattr(estimator, "log_evidence_", None)
    if value is None:
        return None
    model = estimator.model_
    change, basis = _PRIORS.get((type(model).__name__, member.log), (None, "data-dependent"))
    basis = basis if member.columns is None else "data-dependent"  # the rows chose the columns
    value, amounts = float(value), train.amounts
    if change is not None:
        value += change(model)
    if member.log:
        value -= float(amounts @ np.log(train.y))
    masses = member.num_classes > 1 or getattr(model, "family", "") in _COUNTS
    learnt = min(len(train.y), candidate.enough_rows)
    grounds = Grounds(basis, learnt, "", "mass" if masses else "density")
    return Stated(value / float(amounts.sum()), len(train.y), grounds)


def evidences(parts: dict[str, list[Stated | None]], measure: str) -> tuple[dict[str, float], dict[str, str]]:
    """Means over shared folds of the models' evidences by name, and why others that state one are refused.

    >>> fold = Stated(-1.5, 20, Grounds("proper", 20, "", "mass"))
    >>> flat = Stated(-1.0, 20, Grounds("improper", 20, "", "mass"))
    >>> evidences({"a": [fold], "b": [flat], "c": [None]}, "mass")
    ({'a': -1.5}, {'b': 'an improper prior, whose evidence has no scale'})
    """
    known = {name: [each for each in folds if each is not None] for name, folds in parts.items()}
    known = {name: folds for name, folds in known.items() if folds}
    shared = min(map(len, known.values()), default=0)  # the first ones: some run no more after them
    found: dict[str, float] = {}
    refused: dict[str, str] = {}
    for name, folds in known.items():
        reason = next(filter(None, (_objection(each, measure) for each in folds)), "")
        if reason:
            refused[name] = reason
        else:
            found[name] = float(np.mean([each.value for each in folds[:shared]]))
    return found, refused


def evidence_words(found: dict[str, float], refused: dict[str, str]) -> str:
    """What the evidences say, and whose are not compared.

    >>> evidence_words({"a": -1.0, "b": -1.5}, {"c": "an improper prior"})
    'By the evidence of the rows of training a leads, by 0.5 nats a row. Not compared: c (an improper prior).'
    """
    order = sorted(found, key=lambda name: -found[name])
    said = ""
    if len(order) > 1:
        ahead = found[order[0]] - found[order[1]]
        said = f"By the evidence of the rows of training {order[0]} leads, by {ahead:.2g} nats a row."
    elif order:
        said = f"Of the evidences only that of {order[0]} could be compared."
    elif refused:
        said = "There are no evidences to compare."
    reasons: dict[str, list[str]] = {}
    for name, reason in refused.items():
        reasons.setdefault(reason, []).append(name)
    each = [f"{', '.join(names)} ({reason})" for reason, names in reasons.items()]
    return f"{said} Not compared: {'; '.join(each)}." if each else said


def _objection(each: Stated, measure: str) -> str:
    grounds = each.grounds
    if grounds.measure != measure:
        return f"a {grounds.measure}, where others state a {measure}"
    if grounds.objection:
        return grounds.objection
    return "" if grounds.num_rows == each.rows else "it learnt from a part of the rows"


def _known_intercept(model: Any) -> float:
    """What the evidence of a generalised linear model gains by the intercept's prior without the rows."""
    from tractable.supervised.generalised.families import FAMILIES

    narrow, base = FAMILIES[model.family].intercept_spread, model.base
    mean, variance = model.means[:, 0], model.covs[:, 0, 0]
    tight = 1 / variance + _SPREAD**-2 - narrow**-2
    pull = mean / variance - base / _SPREAD**2
    logs = np.log(narrow / _SPREAD) - 0.5 * np.log(variance * tight)
    logs = logs + 0.5 * (pull**2 / tight - mean**2 / variance - base**2 / _SPREAD**2)
    return float(np.asarray(logsumexp(logs, b=model.weights)))


def _known_scales(model: Any) -> float:
    """What the evidence of a linear model of logarithms gains by priors that need no unit."""
    from tractable.supervised.bayes_linear.full import HalfCauchyScales

    statistics = model.statistics
    pairs = np.asarray(model.alphas), np.asarray(model.betas)
    before, now = HalfCauchyScales(statistics.target_scale(True)), HalfCauchyScales(1.0)
    variance = _SPREAD**2 + 1 / (float(statistics.count) * pairs[1])
    level = -0.5 * (float(statistics.mean[-1]) ** 2 / variance + np.log(variance) + _LOG_2PI)
    return float(np.asarray(logsumexp(now(*pairs) - before(*pairs) + level, b=np.asarray(model.probs))))


# by the class of the posterior and whether it is one of the logarithm: the change of priors, and the basis
_PRIORS: dict[tuple[str, bool], tuple[Any, str]] = {
    ("GeneralisedLinear", False): (_known_intercept, "proper"),
    ("FullBayesLinear", True): (_known_scales, "proper"),
    ("FullBayesLinear", False): (None, "improper"),
}
_COUNTS = ("poisson", "negative_binomial")
