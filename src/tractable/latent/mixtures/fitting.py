r"""Fits of Gaussian mixtures from rows alone: starts, restarts, guards, and the number of components.

Restarts.    EM climbs from each of several starts. A fit with components on the floor or without rows has
             collapsed: it is kept only if every start did, whatever its likelihood, for near a singularity
             the likelihood says nothing.
Choice.      $\mathrm{BIC} = -2\log p(X) + p\log N$, lower is better; differences of ten are strong evidence.
Cost.        `num_starts` fits.
References.  Schwarz (1978); Kass and Raftery (1995); McLachlan and Peel (2000) chapter 6.
"""

from collections.abc import Sequence
from typing import Any

import jax.random as jr
import numpy as np

from tractable.core.checks import check, check_count
from tractable.core.iterate import Ended, Run, Status
from tractable.core.keys import takes_key
from tractable.core.module import HostResult, field
from tractable.core.types import ArrayLike, Key
from tractable.core.verdict import Verdict
from tractable.distributions.normal_priors import NormalInverseWishart
from tractable.inference.expectation_maximisation.em import EM
from tractable.latent.mixtures.gaussian import GaussianMixture
from tractable.latent.mixtures.guard import at_fault, judge, with_prior

__all__ = ["ComponentChoice", "MixtureFit", "choose_components", "gaussian_mixture"]


class MixtureFit(Ended, HostResult):
    """A fitted mixture as `state`, the objective of each step, and what happened at the other starts."""

    state: GaussianMixture
    values: np.ndarray = field(show=False)
    num_steps: int
    code: int
    objective: float
    bic: float
    num_starts: int
    num_collapsed: int

    @property
    def verdict(self) -> Verdict:
        """Whether EM converged and no component has collapsed."""
        mixture, ended = judge(self.state), self.status
        others = f" {self.num_collapsed} of {self.num_starts} starts collapsed." if self.num_collapsed else ""
        sentence = f"{ended.sentence} {mixture.sentence}{others}"
        numbers = {**mixture.numbers, "num_starts": self.num_starts, "num_collapsed": self.num_collapsed}
        return Verdict(ended.ok and mixture.ok, sentence, numbers)


class ComponentChoice(HostResult):
    """Fits with different numbers of components; `best` has the lowest BIC."""

    num_components: np.ndarray
    bic: np.ndarray
    fits: tuple[MixtureFit, ...] = field(show=False)

    @property
    def best(self) -> MixtureFit:
        return self.fits[int(np.argmin(self.bic))]

    @property
    def probabilities(self) -> np.ndarray:
        r"""$\propto e^{-\mathrm{BIC}/2}$: the probability of each number, if all were as likely before."""
        raw = np.exp(-0.5 * (self.bic - self.bic.min()))
        return raw / raw.sum()


@takes_key
def gaussian_mixture(
    rows: ArrayLike,
    num_components: int,
    *,
    key: Key,
    covariance: str = "full",
    weights: ArrayLike | None = None,
    num_starts: int = 1,
    floor: float = 1e-6,
    rank: int = 1,
    seeding: str = "kmeans",
    prior: NormalInverseWishart | None = None,
    concentration: ArrayLike = 1.0,
    algorithm: Any = None,
) -> MixtureFit:
    """Fit a Gaussian mixture to rows, whose missing entries are NaN; the best of `num_starts` starts that did
    not collapse. With `prior`, the posterior mode.

    >>> import jax.random as jr
    >>> rows = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]])
    >>> fit = gaussian_mixture(rows, 2, key=jr.key(0))
    >>> sorted(np.ravel(fit.state.means).round(3).tolist()), fit.verdict.ok
    ([0.1, 5.1], True)
    """
    num_starts = check_count("num_starts", num_starts)
    keys = jr.split(key, num_starts) if num_starts > 1 else [key]
    fits = []
    for i in range(num_starts):
        start: Any = GaussianMixture.from_rows(
            keys[i],
            rows,
            num_components,
            covariance,
            weights=weights,
            floor=floor,
            rank=rank,
            seeding=seeding,
        )
        start = start if prior is None else with_prior(start, prior, concentration)
        fits.append(climb(start, rows, weights, algorithm or EM()))
    (model, run), collapsed = best_sound(fits, [at_fault(model) for model, _ in fits])
    return _result(model, run, rows, weights, num_starts, collapsed)


@takes_key
def choose_components(
    rows: ArrayLike, numbers: Sequence[int], *, key: Key, **options: Any
) -> ComponentChoice:
    """Fits with each of the given numbers of components, compared by BIC; options are those of
    `gaussian_mixture`."""
    check(len(numbers) > 0, "numbers", "at least one number of components", "none")
    keys = jr.split(key, len(numbers))
    fits = tuple(gaussian_mixture(rows, k, key=keys[i], **options) for i, k in enumerate(numbers))
    return ComponentChoice(np.array(numbers), np.array([fit.bic for fit in fits]), fits)


def climb(start: Any, rows: Any, weights: Any, algorithm: Any) -> tuple[Any, Run]:
    """The fitted mixture (without the prior that may wrap it), and the run; Ctrl-C is raised."""
    run = algorithm.fit(start, rows, weights=weights)
    if run.status is Status.interrupted:
        raise KeyboardInterrupt
    return getattr(run.state, "model", run.state), run


def best_sound(fits: list[tuple[Any, Run]], faults: list[int]) -> tuple[tuple[Any, Run], int]:
    """The highest of the fits without faults (of all, if all have some), and how many have."""
    usable = [pair for pair, bad in zip(fits, faults) if not bad] or fits
    return max(usable, key=lambda pair: _height(pair[1])), sum(bad > 0 for bad in faults)


def _height(run: Run) -> float:
    bad = run.status in (Status.not_finite, Status.decreased)
    return -np.inf if bad else float(run.values[-1])


def _result(
    model: GaussianMixture, run: Run, rows: Any, weights: Any, starts: int, collapsed: int
) -> MixtureFit:
    bic = model.bic(rows, weights)
    last = float(run.values[-1])
    return MixtureFit(model, run.values, int(run.num_steps), int(run.code), last, bic, starts, collapsed)
