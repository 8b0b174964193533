r"""Column families of naive Bayes: what a class needs of its rows, and log-densities of columns given it.

Statistics.  Each family states what it adds up over the rows of one class; sums of blocks, streams and
             machines add. Missing entries (NaN) are in no sum and in no product: they are marginalised.
             A class without entries in a column has the parameters of all classes together there.
Predictive.  With `prior_strength` a Gaussian column is Student's t of the normal-gamma posterior.
Cost.        One pass over the entries.
References.  Murphy (2012) section 3.5; Chan, Golub and LeVeque (1983) for sums about a moving mean.
"""

from abc import abstractmethod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special

from tractable.core.checks import check, namespace
from tractable.core.chunks import pad_rows
from tractable.core.module import Module, field
from tractable.core.types import Values
from tractable.distributions.base import Distribution, Univariate
from tractable.distributions.continuous import Normal, StudentT
from tractable.distributions.expfam import ExponentialFamily

__all__ = ["ColumnFamily", "FamilyColumns", "GaussianColumns", "check_entries", "gammaln"]

_LOG_2PI = float(np.log(2 * np.pi))
Arrays = tuple[Values, ...]


class ColumnFamily(Module):
    """A family for one or more columns: statistics of one class, parameters of all classes, log-densities.

    Arrays of statistics have the columns first; those of parameters have the classes first, then the columns.
    """

    @abstractmethod
    def statistics(self, rows: Values, weights: Values) -> Arrays:
        """Sums over the rows of one class."""

    @abstractmethod
    def parameters(self, statistics: Arrays) -> Arrays:
        """Parameters from the statistics of all classes, stacked."""

    @abstractmethod
    def scores(self, parameters: Arrays, rows: Values) -> Values:
        """`(rows, classes)`: log-densities without `log_base`, summed over the columns that were seen."""

    @abstractmethod
    def distribution(self, parameters: Arrays) -> Distribution:
        """The distributions with these parameters, one unit for each leading entry."""

    def log_base(self, rows: Values) -> Values:
        """The part of the log-density that no class changes, of each row."""
        return namespace(rows).zeros(len(rows))

    def prepared(self, rows: Values, columns: Values) -> "ColumnFamily":
        """The family for these rows, whose entries are checked; errors name the column."""
        return self

    def check(self, rows: Values, columns: Values) -> None:
        """Refuse entries that have no place in the family."""

    def joined(self, other: Any) -> "ColumnFamily":
        """The family for the rows of both, each prepared for its own."""
        return self

    def add(self, first: Arrays, second: Arrays) -> Arrays:
        """The statistics of both sets of rows together."""
        return tuple(_grown(a, b.shape) + _grown(b, a.shape) for a, b in zip(first, second))


class GaussianColumns(ColumnFamily):
    r"""$N(\mu_{jc}, \sigma_{jc}^2)$; $\sigma^2$ is at least `floor` times the variance of the whole column.

    A column that never varies gets the scale 1 in every class and so cancels from every posterior. With
    `prior_strength` $\kappa > 0$ the parameters are integrated out under the normal-gamma prior worth
    $\kappa$ rows with the mean and variance of the whole column: Student's t with $\kappa + n$ degrees.
    """

    floor: float | int = field(static=True, default=1e-9)
    prior_strength: float | int | None = field(static=True, default=None)

    def statistics(self, rows, weights):
        missing = np.isnan(rows)
        if not missing.any():
            total = np.full(rows.shape[1], weights.sum())
            rest = rows - rows[0]  # a constant has no rounding about itself
            mean = weights @ rest / np.where(total > 0, total, 1.0)
            rest -= mean
            mean = rows[0] + mean
        else:
            seen = ~missing
            origin = rows[seen.argmax(0), np.arange(rows.shape[1])]
            origin = np.where(np.isnan(origin), 0.0, origin)
            total = weights @ seen
            shifted = weights @ np.where(seen, rows - origin, 0.0)
            mean = origin + shifted / np.where(total > 0, total, 1.0)
            rest = np.where(seen, rows - mean, 0.0)
        rest *= rest
        return total, mean, weights @ rest

    def add(self, first, second):
        (n, a, s), (m, b, t) = first, second
        share = m / np.where(n + m > 0, n + m, 1.0)
        return n + m, a + share * (b - a), s + t + share * n * (b - a) ** 2

    def parameters(self, statistics):
        total, mean, squares = statistics
        whole, centre, spread = total[:1], mean[:1], squares[:1]
        for c in range(1, len(total)):
            whole, centre, spread = self.add((whole, centre, spread), tuple(s[c : c + 1] for s in statistics))
        variance = spread / np.where(whole > 0, whole, 1.0)
        constant, seen = variance == 0, total > 0
        if self.prior_strength is not None:
            k, n = self.prior_strength, self.prior_strength + total
            loc = centre + total / n * (mean - centre)
            spread = k * variance + squares + k * total / n * (mean - centre) ** 2
            scale = np.sqrt(np.where(constant, 1.0, spread / n * (1 + 1 / n)))
            return np.where(constant, k, n), np.where(constant, centre, loc), scale
        own = np.where(seen, squares / np.where(seen, total, 1.0), variance)
        scale = np.sqrt(np.where(constant, 1.0, np.maximum(own, self.floor * variance)))
        return np.where(seen & ~constant, mean, centre), scale

    def scores(self, parameters, rows):
        xp = namespace(parameters, rows)
        seen, found = ~xp.isnan(rows), []
        complete = xp is np and bool(seen.all())
        for *degrees, loc, scale in zip(*parameters):
            z = (rows if complete else xp.where(seen, rows, loc[None])) - loc[None]
            z = z / scale[None]
            fixed = -xp.log(scale) - (0.5 * _LOG_2PI if not degrees else _student_normaliser(degrees[0]))
            base = fixed.sum() if complete else seen @ fixed
            if degrees:
                found.append(base - xp.log1p(z**2 / degrees[0][None]) @ (degrees[0] + 1) / 2)
            else:
                found.append(base - 0.5 * xp.einsum("ij,ij->i", z, z))
        return xp.stack(found, axis=1)

    def distribution(self, parameters):
        fitted = [jnp.asarray(p) for p in parameters]
        return Normal(*fitted) if len(fitted) == 2 else StudentT(*fitted)


class FamilyColumns(ColumnFamily):
    r"""Any exponential family of one number: `member` gives the class and what is not fitted.

    $E[t(x)]$ is set to $(\sum t(x) + s\,\bar t)/(n + s)$ with $\bar t$ the mean over all rows and $s$ =
    `smoothing`: a prior worth $s$ rows.
    """

    member: Any
    smoothing: float | int = field(static=True, default=0.0)

    def __check_init__(self):
        ok = isinstance(self.member, Univariate) and isinstance(self.member, ExponentialFamily)
        check(ok, "member", "an exponential family of one number", type(self.member).__name__)

    def check(self, rows, columns):
        inside = np.asarray(self.member.support.contains(np.where(np.isnan(rows), 0.0, rows)))
        check_entries(rows, columns, inside, self.member.support.words)

    def statistics(self, rows, weights):
        padded = pad_rows(rows, weights)
        return tuple(np.asarray(total) for total in _family_sums(self.member, *padded))

    def parameters(self, statistics):
        total, *sums = statistics
        whole = total.sum(0)
        found = []
        for t in sums:
            n = total.reshape(total.shape + (1,) * (t.ndim - 2))
            spread = whole.reshape(whole.shape + (1,) * (t.ndim - 2))
            pooled = t.sum(0) / np.where(spread > 0, spread, 1.0)
            own = (t + self.smoothing * pooled) / np.where(n + self.smoothing > 0, n + self.smoothing, 1.0)
            found.append(np.where(n + self.smoothing > 0, own, pooled))
        return tuple(found)

    def scores(self, parameters, rows):
        padded, _ = pad_rows(rows)
        found = _family_scores(self.distribution(parameters), padded)[: len(rows)]
        return namespace(found).asarray(found)

    def distribution(self, parameters):
        return self.member.from_stats(tuple(jnp.asarray(p) for p in parameters))


@jax.jit
def _family_sums(member, rows, weights):
    seen = ~jnp.isnan(rows)
    stats = jax.vmap(jax.vmap(member.stats))(jnp.where(seen, rows, member.support.interior(rows)))
    counted = weights[:, None] * seen

    def total(t):
        return (counted.reshape(counted.shape + (1,) * (t.ndim - 2)) * t).sum(0)

    return counted.sum(0), *(total(t) for t in stats)


@jax.jit
def _family_scores(members, rows):
    def entry(member, x):
        missing = jnp.isnan(x)
        return jnp.where(missing, 0.0, member.log_prob(jnp.where(missing, member.support.interior(x), x)))

    def row(x):
        return jax.vmap(lambda of_class: jax.vmap(entry)(of_class, x).sum())(members)

    return jax.vmap(row)(rows)


def _student_normaliser(degrees: Values) -> Values:
    return 0.5 * namespace(degrees).log(degrees * np.pi) + gammaln(degrees / 2) - gammaln((degrees + 1) / 2)


def gammaln(x: Values) -> Values:
    """SciPy's on the host, where nothing is to be compiled."""
    return jax.scipy.special.gammaln(x) if namespace(x) is jnp else scipy.special.gammaln(x)


def _grown(values: Values, shape: tuple[int, ...]) -> Values:
    """`values` with zeros at the ends of its axes, where `shape` is longer: categories not seen before."""
    extra = [(0, max(0, want - have)) for have, want in zip(values.shape, shape)]
    return np.pad(values, extra) if any(after for _, after in extra) else values


def check_entries(rows: Values, columns: Values, ok: Values, words: str) -> None:
    """Check that entries which are not missing are ok; the error names the column and the row."""
    bad = ~(ok | np.isnan(rows))
    if bad.any():
        row, j = np.argwhere(bad)[0]
        check(False, "X", words, f"{rows[row, j]:g} in column {columns[j]}, row {row}")
