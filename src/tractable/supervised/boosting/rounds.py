r"""Rounds of boosting, all folds in step: natural gradients, honest spreads, an end by held-out rows.

Round.       For each coordinate $\theta_k$ of the law a tree takes the natural step: slopes $g_i$ of the
             log-densities and information $h_i$ make leaf values $v = \sum w g/(\sum w h + \lambda)$, the
             tree nearest to the natural gradient in Fisher's metric, and
             $\theta_k \leftarrow \theta_k + \eta v$.
Folds.       One booster for each fold, which does not see it. All of them make a round before any makes the
             next, so that held-out rows of all folds together say when to stop.
Crossed.     The coordinates of spread are fitted to what the *other* boosters say of the centre of a row,
             those that have not seen it: residuals of rows that a booster has seen are too small, and a
             spread that was fitted to them covers too little.
End.         The round of highest held-out log-density, once `patience` rounds have not bettered it.
Draws.       Each tree sees a share of the rows and of the columns, drawn by the key and the round, for the
             trees of all folds alike.
Cost.        Folds times rounds times coordinates trees.
References.  Friedman (2001, 2002); Duan et al. (2020); Chernozhukov et al. (2018) for crossed fits.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from tractable.core.host_random import generator
from tractable.core.progress import progress_bar
from tractable.supervised.boosting.law import Law
from tractable.supervised.trees.histograms import (
    MUCH_WORK,
    Binned,
    Branch,
    Leafing,
    grow_by_histograms,
)

__all__ = ["Boosting", "Rounds", "boost"]

_TUNING = 20  # rounds between two looks at what is common to all rows


@dataclass(frozen=True)
class Rounds:
    """How boosting goes on, and when it ends."""

    max_rounds: int = 500
    learning_rate: float | None = None  # by the number of rows
    max_depth: int | None = None
    min_samples_leaf: float = 10.0
    pseudo_rows: float = 1.0
    row_share: float = 0.5
    column_share: float = 1.0
    patience: int = 30
    num_threads: int | None = None

    def sized(self, num_rows: int) -> "Rounds":
        """With what is left open chosen by the number of rows: many allow deep trees and long steps."""
        depth = 3 if num_rows <= 5_000 else 4 if num_rows <= 20_000 else 5
        rate = 0.05 if num_rows <= 5_000 else 0.1
        return replace(self, max_depth=self.max_depth or depth, learning_rate=self.learning_rate or rate)

    def leafing(self, k: int, crossed: bool) -> Leafing:
        """Spreads are harder to see than centres: their trees are one level lower."""
        depth = self.max_depth or 3
        depth = max(1, depth - 1) if crossed and k > 0 else depth
        return Leafing(depth, self.min_samples_leaf, self.pseudo_rows)


class Boosting(NamedTuple):
    """Trees of each fold, round and coordinate; held-out coordinates; scores of all rounds."""

    branches: list[list[list[Branch]]]
    held_out: np.ndarray
    scores: np.ndarray
    num_rounds: int
    law: Law


def boost(
    law: Law, binned: Binned, y: np.ndarray, weights: np.ndarray, fold: np.ndarray, starts: np.ndarray,
    rounds: Rounds, key: Any,
) -> Boosting:  # fmt: skip
    """Boost from `starts` (folds, rows, coordinates); rows of fold -1 are seen by all and never held out."""
    team = _Team(law, binned, y, weights, fold, np.array(starts), rounds, key)
    best, scores, since = team.mark(), [team.score()], 0
    with progress_bar(rounds.max_rounds, "Boosting") as bar:
        for r in range(1, rounds.max_rounds + 1):
            team.advance(r)
            scores.append(team.score())
            bar.advance(1, log_score=scores[-1])
            if scores[-1] > best[0] + 1e-9 * abs(best[0]):
                best, since = team.mark(), 0
            since += 1
            if since > rounds.patience:
                break
    _, count, held_out, law = best
    law = law.tuned(held_out[team.held], y[team.held], weights[team.held]) if team.held.any() else law
    return Boosting([each[:count] for each in team.branches], held_out, np.array(scores), count, law)


class _Team:
    """The boosters of all folds."""

    def __init__(
        self, law: Law, binned: Binned, y: np.ndarray, weights: np.ndarray, fold: np.ndarray,
        theta: np.ndarray, rounds: Rounds, key: Any,
    ):  # fmt: skip
        self.law, self.binned, self.y, self.theta, self.rounds = law, binned, y, theta, rounds
        count = len(theta)
        self.weights, self.held = weights, fold >= 0
        self.seen = np.stack([np.where(fold == f, 0.0, weights) for f in range(count)])
        self.own = np.maximum(fold, 0), np.arange(len(y))
        self.branches: list[list[list[Branch]]] = [[] for _ in range(count)]
        self.key = key
        trees = count * law.num_parameters * min(rounds.max_rounds, 150)
        self.compiled = binned.codes.size * trees * rounds.row_share * rounds.column_share > MUCH_WORK

    def advance(self, number: int) -> None:
        """One more round: a tree for each fold and coordinate."""
        draws = generator(self.key, 11, number)
        for each in self.branches:
            each.append([])
        if number % _TUNING == 0 and self.held.any():
            out = self.held_out()
            self.law = self.law.tuned(out[self.held], self.y[self.held], self.weights[self.held])
        for k in range(self.law.num_parameters):
            self._step(k, draws)

    def _step(self, k: int, draws: np.random.Generator) -> None:
        law, rounds = self.law, self.rounds
        centre = self.held_out()[:, :1] if law.crossed and k > 0 else None
        at = lambda theta: theta if centre is None else np.concatenate([centre, theta[:, 1:]], axis=1)  # noqa: E731
        slopes, information = (
            np.stack(parts) for parts in zip(*(law.slope(k, at(theta), self.y) for theta in self.theta))
        )
        weights, columns = self.seen, None
        if rounds.row_share < 1:
            drawn = np.where(draws.random(len(self.y)) < rounds.row_share, weights, 0.0)
            weights = np.where(np.any(drawn, axis=1, keepdims=True), drawn, weights)
        if rounds.column_share < 1:
            count = len(self.binned.codes)
            columns = np.sort(draws.permutation(count)[: max(1, round(rounds.column_share * count))])
        grove = grow_by_histograms(
            self.binned, slopes, information, weights, rounds.leafing(k, law.crossed), columns,
            compiled=self.compiled, num_threads=rounds.num_threads,
        )  # fmt: skip
        limit, rate = law.limits[k], rounds.learning_rate or 0.05
        self.theta[:, :, k] += rate * np.clip(grove.values, -limit, limit)
        for each, branch in zip(self.branches, grove.branches):
            each[-1].append(branch._replace(value=rate * np.clip(branch.value, -limit, limit)))

    def held_out(self) -> np.ndarray:
        """The coordinates of each row by the booster that has not seen it."""
        return self.theta[self.own]

    def score(self) -> float:
        """The mean log-density of held-out rows."""
        if not self.held.any():
            return -np.inf
        rows = self.held
        logs = self.law.log_prob(self.held_out()[rows], self.y[rows])
        return float(np.average(logs, weights=self.weights[rows]))

    def mark(self) -> tuple[float, int, np.ndarray, Law]:
        return self.score(), len(self.branches[0]), self.held_out(), self.law
