r"""Mixtures of rows that hold numbers and categories: a Gaussian and a table per column, one label for both.

Model.       $z \sim \mathrm{Cat}(w)$; given $z = k$ the numbers are $N(\mu_k, \Sigma_k)$ and each category
             is $\mathrm{Cat}(p_{kj})$, independent of the others and of the numbers.
Steps.       $\log w_k + \log N(x_n; \mu_k, \Sigma_k) + \sum_j\log p_{kj}(c_{nj})$ gives the shares, with
             which each part makes its own statistics; they add over rows, for the one EM driver.
Gaps.        Missing numbers and categories (NaN) are integrated out exactly.
Cost.        $O(nkd^2 + nkf)$ per step for $d$ numbers and $f$ categories.
References.  Hunt and Jorgensen (1999); Fraley and Raftery (2002).
"""

from typing import Any, ClassVar

import jax.random as jr
import numpy as np

from tractable.core.checks import as_float, check, check_count
from tractable.core.chunks import weighted_rows
from tractable.core.iterate import Ended
from tractable.core.keys import takes_key
from tractable.core.module import HostResult, Module, field
from tractable.core.types import ArrayLike, Key
from tractable.core.verdict import Verdict
from tractable.inference.expectation_maximisation.em import EM
from tractable.latent.mixtures.discrete import DiscreteMixture
from tractable.latent.mixtures.fitting import best_sound, climb
from tractable.latent.mixtures.gaussian import GaussianMixture
from tractable.latent.mixtures.guard import at_fault, judge
from tractable.latent.mixtures.starts import checked_rows, cluster_labels, start_from_labels

__all__ = ["MixedFit", "MixedMixture", "mixed_mixture"]

_SMOOTHING = 0.5  # imaginary rows per category and component: none is ever impossible


class MixedMixture(Module):
    """Numbers by `numbers`, categories by `categories` (either may be absent), with the same weights.

    Rows are a pair: a matrix of numbers and one of codes 0, 1, ..., both with NaN where missing.

    >>> halves, means = np.array([0.5, 0.5]), [[0.0], [9.0]]
    >>> numbers = GaussianMixture(halves, means, np.ones((2, 1, 1)))
    >>> categories = DiscreteMixture("categorical", halves, np.array([[0.9, 0.1], [0.1, 0.9]]), (2,))
    >>> both = MixedMixture(numbers, categories)
    >>> both.responsibilities(([[4.5], [4.5]], [[0], [np.nan]])).round(6).tolist()
    [[0.9, 0.1], [0.5, 0.5]]
    """

    on_host: ClassVar[bool] = True

    numbers: GaussianMixture | None
    categories: DiscreteMixture | None

    def __check_init__(self) -> None:
        given = [part for part in (self.numbers, self.categories) if part is not None]
        check(len(given) > 0, "numbers", "given where there are no categories", None)
        same = len({part.num_components for part in given}) == 1
        check(same, "categories", "as many components as `numbers`", [p.num_components for p in given])

    @property
    def weights(self) -> np.ndarray:
        """The weights of the components."""
        part = self.categories if self.numbers is None else self.numbers
        return np.asarray(part.weights)  # pyright: ignore[reportOptionalMemberAccess]

    @property
    def num_components(self) -> int:
        return len(self.weights)

    @property
    def num_parameters(self) -> int:
        """Free numbers: weights, means, covariances, and probabilities that sum to one in each column."""
        k, found = self.num_components, self.num_components - 1
        if self.numbers is not None:
            found += self.numbers.num_parameters - (k - 1)
        if self.categories is not None:
            found += k * (sum(self.categories.sizes) - len(self.categories.sizes))
        return found

    @property
    def verdict(self) -> Verdict:
        """Whether the mixture may be used: no component lies on the floor or has lost its rows."""
        if self.numbers is not None:
            return judge(self.numbers)
        empty = np.flatnonzero(self.weights == 0).tolist()
        words = f"Components {empty} hold no rows." if empty else f"Sound: {self.num_components} components."
        return Verdict(not empty, words, {"num_on_floor": 0, "num_empty": len(empty)})

    def log_joint(self, rows: Any) -> np.ndarray:
        r"""$\log w_k + \log p(x_n \mid k)$, (n, k), of what is not missing."""
        found = [np.asarray(part.log_joint(own)) for part, own in self._parts(rows)]
        if len(found) == 1:
            return found[0]
        with np.errstate(divide="ignore"):
            weights = np.log(self.weights)
        return found[0] + np.where(weights > -np.inf, found[1] - weights, -np.inf)

    def log_prob(self, rows: Any) -> np.ndarray:
        r"""$\log p(x)$ of each row."""
        return np.logaddexp.reduce(self.log_joint(rows), axis=1)

    def responsibilities(self, rows: Any) -> np.ndarray:
        r"""$p(z = k \mid x_n)$, (n, k)."""
        joint = self.log_joint(rows)
        return np.exp(joint - np.logaddexp.reduce(joint, axis=1)[:, None])

    def e_step(self, rows: Any, weights: Any) -> tuple[tuple, Any]:
        """Expected statistics of each part and log-evidence, which add over rows."""
        joint, weights = self.log_joint(rows), np.asarray(weights)
        heights = np.logaddexp.reduce(joint, axis=1)
        shares = weights[:, None] * np.exp(joint - np.where(heights > -np.inf, heights, 0.0)[:, None])
        stats = tuple(part.labelled_stats(own, shares) for part, own in self._parts(rows))
        return stats, weights @ np.where(weights > 0, heights, 0.0)

    def m_step(self, stats: tuple) -> "MixedMixture":
        """The mixture of highest expected log-likelihood (with `smoothing`, of highest posterior)."""
        supply = iter(stats)
        numbers = None if self.numbers is None else self.numbers.m_step(next(supply))
        categories = None if self.categories is None else self.categories.m_step(next(supply))
        return MixedMixture(numbers, categories)

    def log_prior(self) -> float:
        """That of the categories' smoothing, up to a constant."""
        return 0.0 if self.categories is None else self.categories.log_prior()

    def _parts(self, rows: Any) -> list[tuple[Any, np.ndarray]]:
        both = zip((self.numbers, self.categories), rows, strict=True)
        return [(part, np.asarray(own, float)) for part, own in both if part is not None]


class MixedFit(Ended, HostResult):
    """A fitted mixture as `state`, with the log-likelihood of each row."""

    state: MixedMixture
    values: np.ndarray = field(show=False)
    num_steps: int
    code: int
    bic: float
    log_likelihood: np.ndarray = field(show=False)
    num_starts: int
    num_collapsed: int

    @property
    def verdict(self) -> Verdict:
        """Whether EM converged and no component has collapsed."""
        mixture = self.state.verdict
        sentence = f"{self.status.sentence} {mixture.sentence}"
        return Verdict(self.status.ok and mixture.ok, sentence, mixture.numbers)


@takes_key
def mixed_mixture(
    rows: tuple[ArrayLike, ArrayLike],
    num_components: int,
    *,
    key: Key,
    covariance: str = "full",
    weights: ArrayLike | None = None,
    num_starts: int = 1,
    smoothing: float = _SMOOTHING,
    algorithm: Any = None,
) -> MixedFit:
    """Fit a mixture to a pair of numbers and codes, either of which may have no columns; the best of
    `num_starts` starts that did not collapse.

    >>> numbers, codes = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.3]]), [[0], [0], [1], [1], [1], [1]]
    >>> fit = mixed_mixture((numbers, codes), 2, key=0)
    >>> sorted(fit.state.weights.round(3).tolist()), fit.verdict.ok
    ([0.5, 0.5], True)
    """
    (numbers, codes), shares = _pair(rows, weights)
    k = check_count("num_components", num_components)
    keys = jr.split(key, check_count("num_starts", num_starts))
    fits = []
    for i in range(num_starts):
        start = _start(keys[i], numbers, codes, shares, k, covariance, smoothing)
        fits.append(climb(start, (numbers, codes), shares, algorithm or EM()))
    (model, run), collapsed = best_sound(fits, [_faults(model) for model, _ in fits])
    each = model.log_prob((numbers, codes))
    bic = -2 * float(shares @ each) + model.num_parameters * float(np.log(shares.sum()))
    parts = (run.values, int(run.num_steps), int(run.code), bic, each, num_starts, collapsed)
    return MixedFit(model, *parts)


def _pair(rows: Any, weights: Any) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    check(len(rows) == 2, "rows", "a pair of numbers and codes", f"{len(rows)} tables")
    numbers, codes = (np.asarray(as_float("rows", part)) for part in rows)
    wide = numbers.ndim == codes.ndim == 2 and numbers.shape[1] + codes.shape[1] > 0
    check(wide, "rows", "two matrices with a column at least", f"shapes {numbers.shape}, {codes.shape}")
    (numbers, codes), shares = weighted_rows((numbers, codes), weights)
    keep = shares > 0
    check(bool(keep.any()), "weights", "positive for at least one row", "zero for all")
    return (numbers[keep], codes[keep]), shares[keep]


def _start(
    key: Key,
    numbers: np.ndarray,
    codes: np.ndarray,
    shares: np.ndarray,
    k: int,
    covariance: str,
    smooth: float,
) -> MixedMixture:
    """The mixture of clusters of numbers and indicators, each in units of its spread."""
    check(len(shares) >= k, "rows", f"at least as many as components ({k})", len(shares))
    table = None
    if codes.shape[1]:
        key_table, key = jr.split(key)
        table = DiscreteMixture.from_rows(key_table, codes, k, "categorical", smoothing=smooth)
    whole = [checked_rows(numbers, shares)[0]] if numbers.shape[1] else []
    shown = whole if table is None else [*whole, table.features(codes)]
    labels = cluster_labels(key, np.concatenate(shown, axis=1), shares, k, "kmeans")
    gaussian = None if not whole else start_from_labels(numbers, labels, k, covariance, weights=shares)
    if table is not None:
        table = table.m_step(table.labelled_stats(codes, shares[:, None] * np.eye(k)[labels]))
    return MixedMixture(gaussian, table)


def _faults(model: MixedMixture) -> int:
    return 0 if model.numbers is None else at_fault(model.numbers)
