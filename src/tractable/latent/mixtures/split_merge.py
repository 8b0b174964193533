r"""Split and merge: out of optima in which two components share one cluster while another holds two.

Move.        Of a fitted mixture, merge components $i, j$ and split $l$; climb again; keep what is higher,
             and go on until no candidate is. The likelihood never falls below that of plain EM.
Candidates.  Merge pairs with the largest $\sum_n r_{ni}r_{nj}/(\|r_i\|\,\|r_j\|)$ (they claim the same
             rows); split the components whose rows look least normal along their longest axis, by the
             fourth moment.
Cost.        At most `max_moves` times `num_candidates` fits.
References.  Ueda, Nakano, Ghahramani and Hinton (2000), "SMEM algorithm for mixture models".
"""

import itertools
from typing import Any

import equinox as eqx
import numpy as np

from tractable.core.checks import as_float, check, check_count
from tractable.core.iterate import Run, Status
from tractable.core.module import Module, field
from tractable.core.types import ArrayLike
from tractable.distributions.spreads import LowRank, Spread, spread_of
from tractable.inference.expectation_maximisation.em import EM
from tractable.latent.mixtures.gaussian import GaussianMixture
from tractable.latent.mixtures.guard import at_fault

__all__ = ["SplitMergeEM"]

_NAMES = {
    "Full": "full",
    "Tied": "tied",
    "Diagonal": "diagonal",
    "Spherical": "spherical",
    "LowRank": "low_rank",
}


class SplitMergeEM(Module):
    """EM, followed by moves that merge two components and split a third as long as that raises the evidence.

    `run.trace` is the climb that led to the last model; a move that puts a component on the floor of the
    covariance is never taken.
    """

    em: EM = EM()
    num_candidates: int = field(static=True, default=5)
    max_moves: int = field(static=True, default=10)

    def fit(self, model: GaussianMixture, data: ArrayLike, *, weights: ArrayLike | None = None) -> Run:
        """The fitted mixture as `run.state`, never below what `em` alone reaches."""
        check(isinstance(model, GaussianMixture), "model", "a `GaussianMixture`", type(model).__name__)
        best = self.em.fit(model, data, weights=weights)
        rows = np.asarray(data, float)
        for _ in range(check_count("max_moves", self.max_moves, least=0)):
            better = self._move(best, rows, weights) if model.num_components > 2 else None
            if better is None:
                return best
            best = better
        return best

    def _move(self, best: Run, rows: np.ndarray, weights: Any) -> Run | None:
        """The first candidate that climbs higher, or None."""
        here, bad = float(best.values[-1]), at_fault(best.state)
        for merged, split in _candidates(
            best.state, rows, check_count("num_candidates", self.num_candidates)
        ):
            found = self.em.fit(rearranged(best.state, merged, split), rows, weights=weights)
            if found.status is Status.interrupted:
                raise KeyboardInterrupt
            ended = found.status not in (Status.not_finite, Status.decreased)
            higher = float(found.values[-1]) > here + 1e-6 * (1 + abs(here))
            if ended and higher and at_fault(found.state) <= bad:
                return found
        return None


def rearranged(model: GaussianMixture, merged: tuple[int, int], split: int) -> GaussianMixture:
    """The mixture in which two components are one, of the same moments, and another is two halves along its
    longest axis."""
    i, j = merged
    weights, means, cov = (np.array(a, float) for a in (model.weights, model.means, model.covariances))
    total = weights[i] + weights[j]
    shares = np.array([weights[i], weights[j]]) / total if total > 0 else np.array([0.5, 0.5])
    centre = shares @ means[[i, j]]
    away = means[[i, j]] - centre
    joint = np.tensordot(shares, cov[[i, j]], 1) + (shares[:, None] * away).T @ away
    values, vectors = np.linalg.eigh(cov[split])
    step = np.sqrt(2 / np.pi * values[-1]) * vectors[:, -1]  # the mean of a half normal
    half = cov[split] - np.outer(step, step)
    middle = means[split].copy()
    weights[i], means[i], cov[i] = total, centre, joint
    weights[[j, split]] = weights[split] / 2
    means[j], means[split] = middle + step, middle - step
    cov[j] = cov[split] = half
    return _with(model, weights / weights.sum(), means, cov)


def _with(model: GaussianMixture, weights: np.ndarray, means: np.ndarray, cov: np.ndarray) -> GaussianMixture:
    old: Any = model.spread
    rank = np.shape(old.loadings)[-1] if isinstance(old, LowRank) else 1
    spread: Spread = spread_of(_NAMES[type(old).__name__], cov, weights, rank)
    parts = as_float("weights", weights), as_float("means", means), spread
    return eqx.tree_at(lambda m: (m.weights, m.means, m.spread), model, parts)


def _candidates(model: GaussianMixture, rows: np.ndarray, count: int) -> list[tuple[tuple[int, int], int]]:
    shares = model.responsibilities(rows)
    k = model.num_components
    lengths = np.sqrt((shares**2).sum(0)) + 1e-300
    overlap = shares.T @ shares / np.multiply.outer(lengths, lengths)
    pairs = sorted(itertools.combinations(range(k), 2), key=lambda p: -overlap[p])[: 2 * count]
    splits = np.argsort(-_misfit(model, rows, shares))
    found = [(pair, int(l)) for pair in pairs for l in splits if l not in pair]
    rank = {pair: place for place, pair in enumerate(pairs)} | {int(l): p for p, l in enumerate(splits)}
    return sorted(found, key=lambda c: rank[c[0]] + rank[c[1]])[:count]


def _misfit(model: GaussianMixture, rows: np.ndarray, shares: np.ndarray) -> np.ndarray:
    r"""How far each component's rows are from normal along its longest axis: its weight times $(\kappa -
    3)^2$ with the fourth moment $\kappa$ (two clusters in one component have $\kappa$ near one)."""
    cov, means = np.asarray(model.covariances), np.asarray(model.means)
    known = np.where(np.isnan(rows), means.mean(0), rows)
    found = np.zeros(len(means))
    for k, (mean, one) in enumerate(zip(means, cov)):
        values, vectors = np.linalg.eigh(one)
        z = (known - mean) @ vectors[:, -1] / np.sqrt(values[-1])
        total = shares[:, k].sum()
        fourth = shares[:, k] @ z**4 / total if total > 0 else 3.0
        found[k] = total * (fourth - 3) ** 2
    return found
