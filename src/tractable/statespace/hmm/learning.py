r"""Other ways to learn a hidden Markov model: labelled sequences, priors, starts.

Supervised.  With known states the maximum likelihood is by counts: $\pi \propto n_1$, $A_{ij} \propto n_{ij}
             + s$, emissions by theirs; `smoothing` $s$ is imaginary counts, the mode under a Dirichlet of $s
             + 1$.
Prior.       Dirichlet rows: the M-step adds $\alpha - 1$ moves; `stickiness` more on the diagonal, so that
             states last. What is impossible stays so. Gaussians have a normal-inverse-Wishart prior.
Starts.      Rows nearest to seeds far apart, or tables about the frequencies of symbols: Baum-Welch finds the
             nearest maximum, so take the best of several (`inference.best_of`).
Cost.        One pass over the rows.
References.  Rabiner (1989); Fox et al. (2011), sticky transitions.
"""

from typing import Any

import numpy as np

from tractable.core.checks import check, check_count
from tractable.core.host_random import generator
from tractable.core.keys import takes_key
from tractable.core.seeding import far_apart
from tractable.core.types import Key
from tractable.distributions.normal_priors import NormalInverseWishart
from tractable.distributions.soft_moments import Quadratics, SoftMoments, scores
from tractable.distributions.spreads import Tied
from tractable.inference.expectation_maximisation.prior import WithPrior
from tractable.statespace.hmm.emissions import Symbols
from tractable.statespace.hmm.gaussian_emissions import Gaussians, GaussianSums
from tractable.statespace.hmm.model import HiddenMarkov, MarkovSums
from tractable.statespace.hmm.sequences import as_sequences
from tractable.statespace.hmm.ties import SharedEmissions, prior_counts

__all__ = ["fit_labelled", "start_gaussian", "start_symbols", "with_prior"]

_MOST_SYMBOLS = 1_000_000
_SEEDED = 20_000  # rows among which seeds are sought


def fit_labelled(
    hmm: HiddenMarkov, sequences: Any, states: Any, *, smoothing: float = 0.0, weights: Any = None
) -> HiddenMarkov:
    """The model of highest likelihood for sequences whose states are known; `hmm` says which moves are
    possible and what family the emissions have.

    >>> shape = HiddenMarkov([0.5, 0.5], np.full((2, 2), 0.5), np.full((2, 3), 1 / 3))
    >>> found = fit_labelled(shape, [[0, 1, 2], [0, 0]], [[0, 0, 1], [0, 0]])
    >>> found.transition.round(3).tolist()
    [[0.667, 0.333], [0.5, 0.5]]
    """
    check(smoothing >= 0, "smoothing", "zero or positive", smoothing)
    sums = hmm.labelled_sums(sequences, states, weights)
    moves = np.asarray(sums.transition) + smoothing * (np.asarray(hmm.transition) > 0)
    first = np.asarray(sums.initial) + smoothing * (np.asarray(hmm.initial) > 0)
    emitted = sums.emissions
    if isinstance(_own(hmm.emissions), Symbols):
        emitted = np.asarray(emitted) + smoothing
    return hmm.m_step(MarkovSums(first, moves, emitted))


def with_prior(
    hmm: HiddenMarkov, *, initial: Any = 1.0, transition: Any = 1.0, stickiness: float = 0.0,
    symbols: Any = 1.0, component: NormalInverseWishart | None = None,
) -> WithPrior:  # fmt: skip
    """The model for `EM()` whose M-step gives the posterior mode: Dirichlet concentrations, one or more, of
    `initial`, the rows of `transition` (with `stickiness` more for staying) and the rows of `symbols`, and a
    prior of each state's Gaussian. What states share has its prior once. The fitted model is
    `run.state.model`.

    >>> hmm = HiddenMarkov([0.5, 0.5], [[0.9, 0.1], [0.0, 1.0]], np.full((2, 3), 1 / 3))
    >>> with_prior(hmm, transition=2.0, stickiness=5.0).pseudo.transition.tolist()
    [[6.0, 1.0], [0.0, 6.0]]
    """
    check(stickiness >= 0, "stickiness", "zero or positive", stickiness)
    k = hmm.num_states
    moves = _counts("transition", transition, hmm.transition) + stickiness * np.eye(k)
    moves = np.where(np.asarray(hmm.transition) > 0, moves, 0.0)
    first = np.where(np.asarray(hmm.initial) > 0, _counts("initial", initial, hmm.initial), 0.0)
    if hmm.ties is not None:
        first, moves = prior_counts(hmm.ties, first, moves)
    return WithPrior(hmm, MarkovSums(first, moves, _pseudo(hmm.emissions, symbols, component)))


@takes_key
def start_gaussian(
    key: Key, sequences: Any, num_states: int, covariance: str = "full", *, stay: float = 0.8,
    floor: float = 1e-6,
) -> HiddenMarkov:  # fmt: skip
    """A start from rows: the groups nearest to seeds far apart, and states that last `1/(1 - stay)` rows."""
    rows = np.asarray(as_sequences(sequences, 1).rows, float)
    whole = rows[~np.isnan(rows).any(1)]
    k = check_count("num_states", num_states)
    check(len(whole) >= k, "sequences", f"at least as many whole rows as states ({k})", len(whole))
    seen = (
        whole[generator(key, 1).choice(len(whole), _SEEDED, replace=False)] if len(whole) > _SEEDED else whole
    )
    variance = seen.var(0)
    variance = np.where(variance > 0, variance, 1.0)
    unit = np.tile(variance**-0.5, (k, 1))
    centres = seen[np.asarray(far_apart(key, seen * unit[:1], k, trials=3))]
    for _ in range(5):  # a few steps of k-means
        nearest = scores(Quadratics(np.zeros(k), centres, unit), seen).argmax(1)
        members = np.bincount(nearest, minlength=k)
        sums = np.stack([np.bincount(nearest, column, k) for column in seen.T], 1)
        centres = np.where(members[:, None] > 0, sums / np.maximum(members, 1)[:, None], centres)
    wide = np.diag(variance)
    groups = [seen[nearest == j] for j in range(k)]
    cov = np.stack([_scatter(group, wide) for group in groups])
    emissions = Gaussians(centres, cov, covariance, floor=floor)
    return HiddenMarkov(np.full(k, 1 / k), _lasting(k, stay), emissions)


@takes_key
def start_symbols(
    key: Key, sequences: Any, num_states: int, num_symbols: int | None = None, *, stay: float = 0.8
) -> HiddenMarkov:
    """A start for symbols: tables drawn about the frequencies of the data."""
    held = as_sequences(sequences, 0)
    seen = np.asarray(held.rows)[~held.missing]
    codes, k = seen.astype(np.int64), check_count("num_states", num_states)
    fine = (seen >= 0) & (seen == codes) & (codes < _MOST_SYMBOLS)
    got = "" if fine.all() else f"{seen[(~fine).argmax()]:g}"
    fix = "Number the symbols from zero on, without wide gaps."
    check(bool(fine.all()), "sequences", f"whole numbers from 0 to {_MOST_SYMBOLS - 1}", got, fix)
    least = int(codes.max(initial=0)) + 1
    size = least if num_symbols is None else check_count("num_symbols", num_symbols, least)
    common = np.bincount(codes, minlength=size) + 1.0
    tables = generator(key).dirichlet(np.ones(size), k) + common / common.sum()
    return HiddenMarkov(np.full(k, 1 / k), _lasting(k, stay), Symbols(tables / tables.sum(1, keepdims=True)))


def _scatter(group: np.ndarray, wide: np.ndarray) -> np.ndarray:
    """The covariance of a group, widened by as much as one row of all rows counts."""
    if not len(group):
        return wide
    away = group - group.mean(0)
    return (away.T @ away + wide) / (len(group) + 1)


def _lasting(k: int, stay: float) -> np.ndarray:
    check(0 < stay < 1, "stay", "between zero and one", stay)
    return np.eye(k) if k == 1 else stay * np.eye(k) + (1 - stay) / (k - 1) * (1 - np.eye(k))


def _counts(name: str, concentration: Any, like: Any) -> np.ndarray:
    alpha = np.broadcast_to(np.asarray(concentration, float), np.shape(like))
    check(bool((alpha >= 1).all()), name, "concentrations of at least 1, for a mode inside", alpha.min())
    return alpha - 1


def _own(emissions: Any) -> Any:
    """The emissions of groups, where states share them."""
    return emissions.shared if isinstance(emissions, SharedEmissions) else emissions


def _pseudo(emissions: Any, symbols: Any, component: NormalInverseWishart | None) -> Any:
    emissions = _own(emissions)
    if isinstance(emissions, Symbols):
        return _counts("symbols", symbols, emissions.table)
    kind = type(emissions).__name__
    check(isinstance(emissions, Gaussians), "hmm", "one of symbols or Gaussians, for a prior", kind)
    k, dim, full = emissions.num_states, emissions.dim, emissions.spread.needs_full
    if component is None:
        second = np.zeros((k, dim, dim) if full else (k, dim))
        return GaussianSums(np.zeros(k), SoftMoments(np.zeros(k), np.zeros((k, dim)), second))
    share = k if isinstance(emissions.spread, Tied) else 1  # the one covariance has the prior once
    away = np.asarray(component.loc) - np.asarray(emissions.centre)
    kappa = float(component.mean_scale)
    second = np.asarray(component.scale) / share + kappa * np.outer(away, away)
    second = second if full else np.diagonal(second)
    moments = SoftMoments(np.full(k, kappa), np.tile(kappa * away, (k, 1)), np.stack([second] * k))
    return GaussianSums(np.full(k, (float(component.degrees) + dim + 2) / share), moments)
