r"""What the race says: scores with errors, the mixture of models, the winner, and how honest its ranks are.

Scores.      Mean log-score over judged rows with its standard error; differences are paired over rows.
Mixture.     $\max_w \sum_i \log\sum_k w_k p_{ik} + \sum_k c_k\log w_k$ (`inference.evidence.stacking`), where
             the prior counts $c_k = 2$ rows for each model within a paired standard error of the best. Its
             own score is that of weights from the other folds, and the mean of these is kept. Shares below
             `_FAINT` are dropped.
Winner.      The mixture, unless the best single model beats it by more than three paired standard errors: it
             was chosen among many, and rows that it is too sure of are rare. The base rate, unless that
             winner beats it by more than two, and by $\log(K/\alpha)$ nats over all rows: where the base rate
             is true, $\prod_i p_k(y_i)/p_0(y_i)$ has the mean one for each of the $K$ models, so one of them
             gets so far with probability $\alpha$ at most (as if models did not depend on the rows judged).
Ranks.       A map that makes the held-out ranks uniform (`supervised.selection.recalibration`); classes are
             tempered (`supervised.selection.tempering`): a mixture of honest shares is not sure enough.
             Either is kept only where it helps on folds that it was not fitted to, a map of ranks by more
             than two errors; tempering is an average over its family, which few rows do not mislead.
Cost.        $O(nK)$ a step.
References.  Yao, Vehtari, Simpson and Gelman (2018); Ranjan and Gneiting (2010); Dawid (1984).
"""

from typing import Any, NamedTuple

import numpy as np

from tractable.core.host_random import generator
from tractable.core.verdict import Verdict
from tractable.inference.evidence.stacking import stack
from tractable.race.base_rate import BASE
from tractable.race.composed import ClassLaws, RankedLaws, log_ranks, mixed
from tractable.race.cross_fit import BEHIND, Entry
from tractable.race.evidence import evidences
from tractable.race.laws import Laws
from tractable.race.question import Question, log_scores
from tractable.supervised.selection.recalibration import fit_rank_map
from tractable.supervised.selection.tempering import TemperedShares

__all__ = ["MIXTURE", "Choice", "Standing", "calibrated", "choose", "paired", "stacked", "turned"]

MIXTURE = "mixture"
UNJUDGED = "not judged on all folds"
_FAINT = 0.05
_PRIOR_ROWS = 2.0  # few rows do not decide among several models that are alike
_MOST_MEMBERS = 6
_TOLD_APART = 2.0  # paired standard errors
_CLEARLY = 3.0
_FALSE_ALARM = 0.1  # the probability that a model of noise beats the base rate


class Standing(NamedTuple):
    """A line of the leaderboard."""

    name: str
    log_score: float
    error: float
    difference: float  # to the best, paired
    difference_error: float
    seconds: float
    weight: float
    note: str = ""
    evidence: float = float("nan")  # log-evidence for each row of training, where it may be compared


class Choice(NamedTuple):
    """The winner, the weights of its members by name, how ranks are turned, the leaderboard and a verdict."""

    winner: str
    weights: dict[str, float]
    ranks: Any
    standings: tuple[Standing, ...]
    verdict: Verdict
    laws: list[Laws]  # of the winner, fold by fold
    parts: list[Question]  # and the rows that they are of
    refused: dict[str, str]  # why evidences are not compared, by the name of the model


def stacked(logs: np.ndarray, amounts: np.ndarray) -> np.ndarray:
    """Weights of the models of the columns; a row that no model holds possible is not asked."""
    known = (logs > -np.inf).any(1)
    if logs.shape[1] == 1 or known.sum() < 2:
        return np.eye(1, logs.shape[1])[0]
    logs, amounts, count = logs[known], amounts[known], logs.shape[1]
    with np.errstate(divide="ignore"):
        certain = np.log(np.eye(count))  # rows that say which model they are of: a Dirichlet prior
    own = _PRIOR_ROWS * _near_best(logs, amounts)
    logs, amounts = np.concatenate([logs, certain]), np.r_[amounts, own]
    return np.asarray(stack(logs, row_weights=amounts, tol=1e-6, max_steps=2000).weights)


def _near_best(logs: np.ndarray, amounts: np.ndarray) -> np.ndarray:
    """Which models are at most one paired standard error behind the best."""
    best = logs[:, np.argmax([_mean_and_error(column, amounts)[0] for column in logs.T])]
    gaps = [_gap(column, best, amounts) for column in logs.T]
    return np.array([gap > -np.inf and gap >= -error for gap, error in gaps])


def choose(entries: list[Entry], judged: list[np.ndarray], question: Question) -> Choice:
    """The winner of a race."""
    count = len(judged)
    whole = [each for each in entries if len(each.scores) >= count and not each.out]
    parts = [question.take(rows) for rows in judged]
    amounts = np.concatenate([part.amounts for part in parts])
    folds = np.repeat(np.arange(count), [len(rows) for rows in judged])
    logs = np.stack([np.concatenate(each.scores[:count]) for each in whole], 1)
    mixture, weights = _honest_mixture(logs, amounts, folds)
    winner, best = _winner(logs, mixture, amounts)
    if winner == MIXTURE:
        shares = {each.name: float(w) for each, w in zip(whole, weights) if w > 0}
    else:
        shares = {whole[best].name: 1.0}
    winner = winner if len(shares) > 1 else next(iter(shares))
    named = {each.name: each for each in whole}
    laws = [
        mixed(list(shares.values()), [named[name].laws[fold] for name in shares]) for fold in range(count)
    ]
    known = winner == BASE and question.of_classes  # shares of classes are right as they are
    ranks = None if known else calibrated(laws, parts, question)
    table = _standings(entries, whole, logs, mixture, amounts, shares)
    measure = "mass" if question.of_classes or question.task == "count" else "density"
    found, refused = evidences({each.name: each.evidences for each in entries}, measure)
    table = tuple(line._replace(evidence=found.get(line.name, np.nan)) for line in table)
    return Choice(winner, shares, ranks, table, _verdict(table, winner), laws, parts, refused)


def _thinned(weights: np.ndarray) -> np.ndarray:
    """Without faint members, of which a file would keep many for nothing."""
    order = np.argsort(-weights, kind="stable")
    kept = np.zeros(len(weights), bool)
    kept[order[:_MOST_MEMBERS]] = True
    found = np.where(kept & (weights >= _FAINT), weights, 0.0)
    return found / found.sum()


def _honest_mixture(
    logs: np.ndarray, amounts: np.ndarray, folds: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The log-scores of the mixture, its weights those of the other folds; and the mean of these weights,
    which depends less on single rows than weights of all of them."""
    found, weights = np.empty(len(logs)), []
    for fold in range(folds.max() + 1):
        own = folds == fold
        others = ~own if folds.max() > 0 else own
        weights.append(stacked(logs[others], amounts[others]))
        with np.errstate(divide="ignore"):
            terms = logs[own] + np.log(_thinned(weights[-1]))
        high = terms.max(1, keepdims=True)
        high = np.where(np.isfinite(high), high, 0.0)
        with np.errstate(divide="ignore"):
            found[own] = high[:, 0] + np.log(np.exp(terms - high).sum(1))
    return found, _thinned(np.mean(weights, axis=0))


def _mean_and_error(values: np.ndarray, amounts: np.ndarray) -> tuple[float, float]:
    share = amounts / amounts.sum()
    with np.errstate(invalid="ignore"):
        mean = float((share * values)[share > 0].sum())
        if not np.isfinite(mean):
            return mean, float("nan")
        return mean, float(np.sqrt((share**2 * (values - mean) ** 2).sum()))


def _gap(first: np.ndarray, second: np.ndarray, amounts: np.ndarray) -> tuple[float, float]:
    """How much better the first is, paired."""
    with np.errstate(invalid="ignore"):
        gap = np.where(first == second, 0.0, first - second)
    mean, error = _mean_and_error(gap, amounts)
    return mean, error if np.isfinite(error) else float("inf")


def paired(
    scores: dict[str, np.ndarray], notes: dict[str, str], amounts: np.ndarray | None = None
) -> tuple[Standing, ...]:
    """Models by their log-scores of the same rows, the best first, each with its distance to the best."""
    amounts = np.ones(len(next(iter(scores.values())))) if amounts is None else amounts
    means = {name: _mean_and_error(column, amounts) for name, column in scores.items()}
    best = max(means, key=lambda name: means[name][0])
    return tuple(
        Standing(
            name, *means[name], *_gap(scores[name], scores[best], amounts), 0.0, 0.0, notes.get(name, "")
        )
        for name in sorted(scores, key=lambda name: -means[name][0])
    )


def _winner(logs: np.ndarray, mixture: np.ndarray, amounts: np.ndarray) -> tuple[str, int]:
    """The name MIXTURE or "", and the place of the best single model; the first column is the base rate."""
    means = np.array([_mean_and_error(column, amounts)[0] for column in logs.T])
    best = int(np.argmax(means))
    top, name = logs[:, best], ""
    gain, error = _gap(mixture, top, amounts)
    if gain > -_CLEARLY * error:  # the best of many looks better than it is
        top, name = mixture, MIXTURE
    gain, error = _gap(top, logs[:, 0], amounts)
    told = gain > _TOLD_APART * error and gain * amounts.sum() > np.log(logs.shape[1] / _FALSE_ALARM)
    return (name, best) if told else ("", 0)


def _standings(
    entries: list[Entry], whole: list[Entry], logs: np.ndarray, mixture: np.ndarray, amounts: np.ndarray,
    shares: dict[str, float],
) -> tuple[Standing, ...]:  # fmt: skip
    columns = {each.name: column for each, column in zip(whole, logs.T)}
    if len(whole) > 1:
        columns[MIXTURE] = mixture
    spent = {each.name: each.seconds for each in entries} | {MIXTURE: 0.0}
    won = shares | {MIXTURE: float(len(shares) > 1)}
    lines = [
        line._replace(seconds=spent[line.name], weight=won.get(line.name, 0.0))
        for line in paired(columns, {}, amounts)
    ]
    for each in entries:
        if each.name not in columns:
            scores = np.concatenate(each.scores) if each.scores else np.array([np.nan])
            mean = float(scores.mean())
            error = float(scores.std() / np.sqrt(len(scores)))
            gone = each.out or UNJUDGED
            lines.append(Standing(each.name, mean, error, np.nan, np.nan, each.seconds, 0.0, gone))
    return tuple(lines)


def _verdict(table: tuple[Standing, ...], winner: str) -> Verdict:
    lines = [line for line in table if not line.note]
    base = next(line for line in lines if line.name == BASE)
    if winner == BASE:
        return Verdict(False, _nothing(table))
    single = [line for line in lines if line.name not in (MIXTURE, BASE)]
    best = single[0]
    near = [
        line.name for line in single[1:]
        if best.log_score - line.log_score <= 2 * max(line.difference_error, best.difference_error)
    ]  # fmt: skip
    top = next(line for line in lines if line.name == winner)
    said = f"The {winner} is ahead of the base rate by {top.log_score - base.log_score:.3g} nats a row."
    if near:
        said += f" {best.name.capitalize()} and {', '.join(near[:3])} cannot be told apart."
    return Verdict(True, said, {"log_score": top.log_score, "base_rate": base.log_score})


def _nothing(table: tuple[Standing, ...]) -> str:
    """Why the base rate wins; models without a whole judgement might have beaten it."""
    judged = [line for line in table if line.note in ("", BEHIND) and line.name not in (MIXTURE, BASE)]
    refused = [line for line in table if line.note not in ("", BEHIND, UNJUDGED)]
    if refused and not judged:
        return (
            f"No model could be fitted. {refused[0].name[0].upper()}{refused[0].name[1:]}: {refused[0].note}"
        )
    unjudged = [line.name for line in table if line.note == UNJUDGED]
    if unjudged:
        return f"Nothing that was judged beats the base rate; there was no time for {', '.join(unjudged)}."
    return "Nothing beats the base rate: the columns say too little about the target."


def calibrated(laws: list[Laws], parts: list[Question], question: Question) -> Any:
    """What turns ranks or probabilities, by rows held out; None where that does not help on other folds."""
    if question.events is not None:
        return None
    places = range(len(laws))
    before = [log_scores(each, part) for each, part in zip(laws, parts)]
    if not all(np.isfinite(scores).all() for scores in before):
        return None
    gains = []
    for fold in places:
        others = [k for k in places if k != fold] or [fold]
        found = _turning([laws[k] for k in others], [parts[k] for k in others])
        after = log_scores(turned(laws[fold], found), parts[fold])
        gains.append(after - before[fold])
    gain, error = _mean_and_error(np.concatenate(gains), np.concatenate([part.amounts for part in parts]))
    least = 0.0 if question.of_classes and len(laws) > 1 else _TOLD_APART * error
    return _turning(laws, parts) if gain > least else None


def turned(laws: Laws, ranks: Any) -> Laws:
    """The laws, with what `calibrated` found."""
    if ranks is None:
        return laws
    if isinstance(ranks, TemperedShares):
        return ClassLaws(np.asarray(ranks(laws.shares)))  # pyright: ignore
    return RankedLaws(laws, ranks)


def _turning(laws: list[Laws], parts: list[Question]) -> Any:
    if isinstance(laws[0], ClassLaws):
        counts = sum(np.bincount(part.y, part.amounts, part.num_classes) for part in parts)
        found = TemperedShares.of(counts)
        for each, part in zip(laws, parts):
            found = found.add(each.shares, part.y, part.weights)  # pyright: ignore
        return found
    rng = generator(0, 11)  # places of counts within their jumps: always the same
    pairs = [log_ranks(each, part.y, rng.random(len(part.y))) for each, part in zip(laws, parts)]
    low, up = (np.concatenate(side) for side in zip(*pairs))
    return fit_rank_map(low, up, np.concatenate([part.amounts for part in parts]))
