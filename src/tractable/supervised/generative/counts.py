r"""Column families of naive Bayes for counts: 0 or 1, categories, Poisson counts, multinomial blocks.

Smoothing.   Counts $c_k$ of sum $N$ and pseudo-counts $\alpha$: $(c_k + \alpha)/(N + K\alpha)$, the
             posterior mean under a Dirichlet prior, and the posterior predictive of the next entry;
             $\alpha = 0$ is maximum likelihood, under which a value that a class never showed is impossible.
Cost.        One pass over the entries; scores are products with the logarithms of the parameters.
References.  Murphy (2012) section 3.5; Manning, Raghavan and Schuetze (2008) chapter 13.
"""

import jax.numpy as jnp
import numpy as np

from tractable.core.checks import namespace
from tractable.core.module import field
from tractable.core.types import Values
from tractable.distributions.counts import Poisson
from tractable.distributions.discrete import Bernoulli, Categorical
from tractable.distributions.multinomial import Multinomial
from tractable.distributions.smoothing import additive_smoothing
from tractable.supervised.generative.columns import ColumnFamily, check_entries, gammaln

__all__ = [
    "BernoulliColumns", "CategoricalColumns", "MultinomialColumns", "PoissonColumns", "additive_smoothing",
]  # fmt: skip


class BernoulliColumns(ColumnFamily):
    r"""Entries 0 or 1: $P(x_j = 1 \mid c) = (N_{jc} + a)/(N_c + a + b)$ with $a$ = `ones`, $b$ = `zeros`."""

    ones: float | int = field(static=True, default=1.0)
    zeros: float | int = field(static=True, default=1.0)

    def check(self, rows, columns):
        check_entries(rows, columns, (rows == 0) | (rows == 1), "0 or 1")

    def statistics(self, rows, weights):
        seen = ~np.isnan(rows)
        hits = weights @ (rows == 1)
        return (np.stack([weights @ seen - hits, hits], -1),)

    def parameters(self, statistics):
        return (_smoothed(statistics[0], np.array([self.zeros, self.ones])),)

    def scores(self, parameters, rows):
        logs = _logs(parameters[0])
        return _count_product(rows == 1, logs[..., 1]) + _count_product(rows == 0, logs[..., 0])

    def distribution(self, parameters):
        return Bernoulli(parameters[0][..., 1])


class CategoricalColumns(ColumnFamily):
    r"""Codes $0, \dots, K_j - 1$: $P(x_j = k \mid c) = (N_{jkc} + \alpha)/(N_{jc} + K_j\alpha)$.

    `num_categories` gives $K_j$ for each column (or one number for all); left out, the rows of the fit say.
    """

    smoothing: float | int = field(static=True, default=1.0)
    num_categories: tuple[int, ...] | int | None = field(static=True, default=None)
    sizes: tuple[int, ...] = field(static=True, default=())

    def prepared(self, rows, columns):
        given = self.num_categories
        if given is None:
            largest = np.where(np.isnan(rows), 0.0, rows).max(0).astype(int) + 1
            sizes = np.maximum(largest, self.sizes if self.sizes else 1)
        else:
            sizes = np.broadcast_to(given, rows.shape[1:])
        return CategoricalColumns(self.smoothing, given, tuple(int(k) for k in sizes))

    def joined(self, other):
        sizes = tuple(max(pair) for pair in zip(self.sizes, other.sizes))
        return CategoricalColumns(self.smoothing, self.num_categories, sizes)

    def check(self, rows, columns):
        check_entries(rows, columns, (rows >= 0) & (rows == np.floor(rows)), "a code 0, 1, 2, ...")
        words = "a code below the number of categories of its column"
        check_entries(rows, columns, rows < np.asarray(self.sizes), words)

    def statistics(self, rows, weights):
        found = np.zeros((rows.shape[1], max(self.sizes)))
        for j, column in enumerate(rows.T):
            seen = ~np.isnan(column)
            found[j] = np.bincount(column[seen].astype(int), weights[seen], found.shape[1])
        return (found,)

    def parameters(self, statistics):
        possible = np.arange(max(self.sizes)) < np.asarray(self.sizes)[:, None]
        return (_smoothed(statistics[0], np.where(possible, self.smoothing, 0.0), possible),)

    def scores(self, parameters, rows):
        xp, table = namespace(parameters, rows), _logs(parameters[0])
        table = xp.concatenate([table, xp.zeros((*table.shape[:2], 1))], -1)  # the last place: not seen
        codes = xp.where(xp.isnan(rows), table.shape[2] - 1, rows).astype(int)
        found = xp.zeros((len(rows), len(table)))
        for j in range(rows.shape[1]):
            found = found + xp.asarray(table)[:, j].T[codes[:, j]]
        return found

    def distribution(self, parameters):
        return Categorical(parameters[0])


class PoissonColumns(ColumnFamily):
    r"""Counts of rate $(\sum x + a)/(n + b)$, with a gamma prior of `shape` $a$ and `rate` $b$."""

    shape: float | int = field(static=True, default=1.0)
    rate: float | int = field(static=True, default=1.0)

    def check(self, rows, columns):
        check_entries(rows, columns, (rows >= 0) & (rows == np.floor(rows)), "a count 0, 1, 2, ...")

    def statistics(self, rows, weights):
        seen = ~np.isnan(rows)
        return weights @ seen, weights @ np.where(seen, rows, 0.0)

    def parameters(self, statistics):
        total, sums = statistics
        empty = (total == 0) & (self.rate == 0)
        pooled = (sums.sum(0) + self.shape) / np.maximum(total.sum(0) + self.rate, np.finfo(float).tiny)
        own = (sums + self.shape) / np.where(empty, 1.0, total + self.rate)
        return (np.where(empty, pooled, own),)

    def log_base(self, rows):
        return -gammaln(_filled(rows) + 1).sum(1)

    def scores(self, parameters, rows):
        seen = ~namespace(parameters, rows).isnan(rows)
        return _count_product(_filled(rows), _logs(parameters[0])) - seen @ parameters[0].T

    def distribution(self, parameters):
        return Poisson(jnp.asarray(parameters[0]))


class MultinomialColumns(ColumnFamily):
    r"""A block of counts, such as words, given their sum: $P(x \mid c) \propto \prod_k\theta_{kc}^{x_k}$.

    $\theta_{kc} = (N_{kc} + \alpha)/(N_c + K\alpha)$. Counts that are missing in a new row leave the others
    multinomial given their sum, with probabilities that are normalised again; in a fit they are refused.
    """

    smoothing: float | int = field(static=True, default=1.0)

    def prepared(self, rows, columns):
        fix = "A multinomial needs all of its counts in a fit."
        if np.isnan(rows).any():
            column = columns[np.isnan(rows).any(0)][0]
            raise ValueError(f"`X` must be without missing counts; got NaN in column {column}. {fix}")
        return self

    def check(self, rows, columns):
        check_entries(rows, columns, rows >= 0, "zero or positive (negative values are no counts)")

    def statistics(self, rows, weights):
        return weights @ rows, np.full(rows.shape[1], weights.sum())

    def parameters(self, statistics):
        counts, rows = statistics
        lengths = counts.sum(1, keepdims=True) / np.where(rows[:, :1] > 0, rows[:, :1], 1.0)
        return _smoothed(counts, np.full(counts.shape[1], self.smoothing)), lengths

    def log_base(self, rows):
        counts = _filled(rows)
        return gammaln(counts.sum(1) + 1) - gammaln(counts + 1).sum(1)

    def scores(self, parameters, rows):
        xp = namespace(parameters, rows)
        seen, counts = ~xp.isnan(rows), _filled(rows)
        found = _count_product(counts, _logs(parameters[0]))
        if xp is np and seen.all():
            return found
        kept, length = seen @ parameters[0].T, counts.sum(1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            return xp.where(length > 0, found - length * xp.log(xp.where(length > 0, kept, 1.0)), 0.0)

    def distribution(self, parameters):
        return Multinomial(np.rint(parameters[1][..., 0]), parameters[0])


def _logs(probs: Values) -> Values:
    xp = namespace(probs)
    return xp.where(probs > 0, xp.log(xp.where(probs > 0, probs, 1.0)), -np.inf)  # with a slope of none at 0


def _filled(rows: Values) -> Values:
    """Counts, with none where they are missing."""
    xp = namespace(rows)
    return xp.where(xp.isnan(rows), 0.0, rows)


def _count_product(counts: Values, logs: Values) -> Values:
    r"""$\sum_j x_{ij}\log\theta_{cj}$ with $0\log 0 = 0$."""
    xp = namespace(counts, logs)
    impossible = xp.isneginf(logs)
    found = counts @ xp.where(impossible, 0.0, logs).T
    if xp is np and not impossible.any():
        return found
    return xp.where((counts > 0) * 1.0 @ impossible.T > 0, -np.inf, found)


def _smoothed(counts: np.ndarray, pseudo: np.ndarray, possible: np.ndarray | None = None) -> np.ndarray:
    """Smoothed shares; a class without any count, real or pseudo, has those of all classes, or equal ones."""
    none = counts.sum(-1, keepdims=True) + pseudo.sum(-1, keepdims=True) == 0
    if none.any():
        pooled = counts.sum(0, keepdims=True)
        equal = np.ones_like(pooled) if possible is None else np.broadcast_to(possible, pooled.shape) * 1.0
        counts = np.where(none, np.where(pooled.sum(-1, keepdims=True) == 0, equal, pooled), counts)
    return additive_smoothing(counts, pseudo)
