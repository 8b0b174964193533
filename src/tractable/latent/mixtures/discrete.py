r"""Mixtures of Bernoulli, categorical and multinomial rows: latent classes, by two matrix products per step.

Model.       $z \sim \mathrm{Cat}(w)$; given $z = k$ the columns are independent: $x_j \sim
             \mathrm{Bernoulli}(p_{kj})$, $x_j \sim \mathrm{Cat}(p_{kj\cdot})$, or the row is
             $\mathrm{Multinomial}(\sum_jx_j, p_k)$.
Scores.      With indicators or counts $\phi(x)$ all three are $\log w_k + \phi(x)^\top\log p_k + b(x)$,
             where the entries of $p_k$ sum to one within each group of features; $b$ is zero but for the
             multinomial coefficient.
M-step.      $p_{kf} = (\sum_n r_{nk}\phi_f(x_n) + s)/(\ldots)$ within each group, with `smoothing` $s$
             imaginary counts per entry: the mode under a Dirichlet prior of $s + 1$. Missing entries (NaN)
             of Bernoulli and categorical columns have $\phi = 0$, which integrates them out exactly.
Cost.        $O(nkf)$ per step for $f$ features.
References.  Lazarsfeld and Henry (1968); Bishop (2006) section 9.3.3; Nigam et al. (2000).
"""

from typing import Any, ClassVar

import numpy as np
from scipy.special import gammaln

from tractable.core.checks import check, check_count, check_entries, check_option
from tractable.core.host_random import generator
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.support import nonnegative, simplex
from tractable.core.types import ArrayLike, Key, Values

__all__ = ["DiscreteMixture", "DiscreteStatistics"]


class DiscreteStatistics(Module):
    """Sums over rows: how many belong to each component, and its sums of features."""

    count: Any
    features: Any


class DiscreteMixture(Module):
    """A mixture of rows of one `family`: "bernoulli", "categorical" (codes from zero) or "multinomial"
    (counts).

    `probs` (k, f) holds the probabilities side by side: of ones, of each code of each column, or of each
    kind; `sizes` says how many features each column has.

    >>> model = DiscreteMixture("bernoulli", [0.5, 0.5], [[0.9, 0.9], [0.1, 0.1]], (1, 1))
    >>> model.responsibilities([[1, 1]]).round(6).tolist()
    [[0.987805, 0.012195]]
    """

    on_host: ClassVar[bool] = True

    family: str = field(static=True)
    weights: Any = field(support=simplex)
    probs: Any = field(support=nonnegative, rank=2)
    sizes: tuple[int, ...] = field(static=True)
    smoothing: float = field(static=True, default=0.0)

    def __check_init__(self) -> None:
        check_option("family", self.family, ("bernoulli", "categorical", "multinomial"))
        wanted = (self.weights.shape[0], sum(self.sizes))
        check(self.probs.shape == wanted, "probs", f"of shape {wanted}", f"shape {self.probs.shape}")
        check(self.smoothing >= 0, "smoothing", "zero or positive", self.smoothing)

    @classmethod
    @takes_key
    def from_rows(
        cls, key: Key, rows: ArrayLike, k: int, family: str, *, smoothing: float = 0.0
    ) -> "DiscreteMixture":
        """A start: each component halfway between the frequencies of all rows and a row drawn at random."""
        check_option("family", family, ("bernoulli", "categorical", "multinomial"))
        xs, k = np.asarray(rows, float), check_count("k", k)
        check(xs.ndim == 2, "rows", "a matrix, one row per point", f"shape {xs.shape}")
        check(len(xs) >= k, "rows", f"at least as many as components ({k})", len(xs))
        sizes = _sizes(_checked(xs, family), family)
        features = _features(xs, family, sizes)
        common = _shares(features.sum(0) + 1.0, sizes, family, len(xs) + 2.0)
        drawn = features[generator(key).choice(len(xs), k, replace=False)]
        own = _shares(drawn + common, sizes, family, 1 + common)
        return cls(family, np.full(k, 1 / k), 0.5 * (common + own), sizes, smoothing)

    @property
    def num_components(self) -> int:
        return self.weights.shape[0]

    def log_joint(self, rows: ArrayLike) -> Values:
        r"""$\log w_k + \log p(x_n \mid k)$, (n, k)."""
        xs = self._rows(rows)
        features = _features(xs, self.family, self.sizes)
        probs = np.asarray(self.probs)
        with np.errstate(divide="ignore"):
            found = np.log(np.asarray(self.weights)) + _log_sum(features, probs)
            if self.family == "bernoulli":
                found = found + _log_sum(np.where(np.isnan(xs), 0.0, 1 - xs), 1 - probs)
        if self.family == "multinomial":
            found = found + (gammaln(features.sum(1) + 1) - gammaln(features + 1).sum(1))[:, None]
        return found

    def log_prob(self, rows: ArrayLike) -> Values:
        r"""$\log p(x)$ of each row; -inf where no component can produce it."""
        return np.logaddexp.reduce(self.log_joint(rows), axis=-1)

    def responsibilities(self, rows: ArrayLike) -> Values:
        r"""$p(z = k \mid x_n)$, (n, k)."""
        return _normalised(self.log_joint(rows))[0]

    def labels(self, rows: ArrayLike) -> Values:
        """The most probable component of each row."""
        return self.log_joint(rows).argmax(-1)

    def e_step(self, rows: Any, weights: Any) -> tuple[DiscreteStatistics, Any]:
        """Expected statistics and log-evidence, which add over rows."""
        shares, heights = _normalised(self.log_joint(rows))
        weights = np.asarray(weights)
        stats = self.labelled_stats(rows, weights[:, None] * shares)
        return stats, weights @ np.where(weights > 0, heights, 0.0)

    def labelled_stats(self, rows: Any, shares: Any) -> DiscreteStatistics:
        """The statistics of rows of which each component owns the given share."""
        xs, shares = self._rows(rows), np.asarray(shares)
        sums = shares.T @ _features(xs, self.family, self.sizes)
        if self.family == "bernoulli":  # how often each entry was seen: a missing one says nothing
            sums = np.concatenate([sums, shares.T @ ~np.isnan(xs)], axis=1)
        return DiscreteStatistics(shares.sum(0), sums)

    def m_step(self, stats: DiscreteStatistics) -> "DiscreteMixture":
        """The mixture of highest expected log-likelihood; a component that owns no row stays as it is."""
        count, sums = np.asarray(stats.count), np.asarray(stats.features)
        f, s = sum(self.sizes), self.smoothing
        seen = sums[:, f:] + 2 * s if self.family == "bernoulli" else 0.0
        old = np.asarray(self.probs)
        probs = _shares(sums[:, :f] + s, self.sizes, self.family, seen, old)
        probs = np.where((count > 0)[:, None], probs, old)
        return DiscreteMixture(self.family, count / count.sum(), probs, self.sizes, s)

    def log_prior(self) -> float:
        r"""$s\sum\log p$, the log-density of the prior up to a constant; zero without smoothing."""
        if not self.smoothing:
            return 0.0
        probs = np.asarray(self.probs)
        both = np.log(probs).sum() + (np.log1p(-probs).sum() if self.family == "bernoulli" else 0.0)
        return float(self.smoothing * both)

    def features(self, rows: Any) -> np.ndarray:
        """Ones and counts as they are, codes as indicators; zero where missing."""
        return _features(self._rows(rows), self.family, self.sizes)

    def _rows(self, rows: Any) -> np.ndarray:
        xs = np.asarray(rows, float)
        width = sum(self.sizes) if self.family == "multinomial" else len(self.sizes)
        check(xs.ndim == 2 and xs.shape[1] == width, "rows", f"a matrix of {width} columns", xs.shape)
        return _checked(xs, self.family)


def _checked(xs: np.ndarray, family: str) -> np.ndarray:
    """The rows, if their entries are what the family has."""
    allowed, must = {
        "bernoulli": (lambda v: (v == 0) | (v == 1) | np.isnan(v), "0, 1, or NaN where missing"),
        "multinomial": (lambda v: (v >= 0) & np.isfinite(v), "counts, zero or positive"),
        "categorical": (
            lambda v: np.isnan(v) | ((v >= 0) & np.isfinite(v) & (v == np.floor(v))),
            "codes 0, 1, ..., or NaN where missing",
        ),
    }[family]
    check_entries("rows", xs, allowed, must)
    return xs


def _sizes(xs: np.ndarray, family: str) -> tuple[int, ...]:
    if family == "bernoulli":
        return (1,) * xs.shape[1]
    if family == "multinomial":
        return (xs.shape[1],)
    empty = np.flatnonzero(np.isnan(xs).all(0)).tolist()
    check(not empty, "rows", "observed at least once in each column", f"nothing in columns {empty}")
    return tuple(int(top) + 1 for top in np.nanmax(xs, axis=0))


def _features(xs: np.ndarray, family: str, sizes: tuple[int, ...]) -> np.ndarray:
    """Ones and counts as they are, codes as indicators; zero where missing."""
    if family != "categorical":
        return np.where(np.isnan(xs), 0.0, xs)
    known = ~np.isnan(xs)
    codes = np.where(known, xs, 0).astype(int)
    within = codes < np.asarray(sizes)
    must = f"codes below the number of categories of each column, {sizes}"
    check_entries("rows", xs, lambda _: within, must)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(int)
    found = np.zeros((len(xs), sum(sizes)))
    place = np.broadcast_to(np.arange(len(xs))[:, None], xs.shape)
    found[place[known], (codes + starts)[known]] = 1.0
    return found


def _shares(
    sums: np.ndarray, sizes: tuple[int, ...], family: str, seen: Any, old: np.ndarray | None = None
) -> np.ndarray:
    """Sums as probabilities within each group; those of a group that was never seen stay as they are."""
    if family == "bernoulli":
        total = np.broadcast_to(np.asarray(seen, float), sums.shape)
    else:
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(int)
        total = np.repeat(np.add.reduceat(sums, starts, axis=-1), sizes, axis=-1)
    kept = 0.0 if old is None else old
    return np.where(total > 0, sums / np.where(total > 0, total, 1.0), kept)


def _log_sum(features: np.ndarray, probs: np.ndarray) -> np.ndarray:
    r"""$\phi^\top\log p$ with $0\log 0 = 0$."""
    impossible = (features > 0).astype(float) @ (probs == 0).T.astype(float) > 0
    return np.where(impossible, -np.inf, features @ np.log(np.where(probs > 0, probs, 1.0)).T)


def _normalised(joint: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    heights = np.logaddexp.reduce(joint, axis=1)
    return np.exp(joint - np.where(heights > -np.inf, heights, 0.0)[:, None]), heights
