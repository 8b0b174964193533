r"""Gaussian classes: linear and quadratic discriminants, with shared, separate or diagonal covariances.

Model.       $p(x, c) = \pi_c N(x \mid \mu_c, \Sigma_c)$; `tied`: one $\Sigma$; `diagonal`: no covariances.
Fit.         Supervised maximum likelihood: shares, means and covariances of the classes maximise the
             complete-data likelihood $\sum_i [\log\pi_{z_i} - \frac12\log|2\pi\Sigma_{z_i}|
             - \frac12 (x_i - \mu_{z_i})^\top\Sigma_{z_i}^{-1}(x_i - \mu_{z_i})]$.
Shrinkage.   $(1 - s)\Sigma_c + s\,\mathrm{diag}(\bar\Sigma)$ with $\bar\Sigma$ the mean over classes: the
             same for columns in other units.
Missing.     Marginalised exactly in a prediction; in a fit by expectation-maximisation.
Streams.     Complete rows add to the statistics of the classes (`update`): many small fits are one large one.
Three views. A discriminant $g_c(x)$ (linear where `tied`), the posterior $p(c \mid x)$ (logistic in $g$), and
             the generative $p(x, c)$, which also draws rows and judges how likely a row is.
Cost.        $O(nd^2 + Cd^3)$; for rows with gaps one factor for each pattern of gaps.
References.  Hastie, Tibshirani and Friedman (2009) section 4.3; Friedman (1989).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import scipy.linalg

from tractable.core.checks import check, check_count, has_values, namespace
from tractable.core.iterate import Status
from tractable.core.keys import takes_key
from tractable.core.module import field
from tractable.core.rows import Rows, points
from tractable.core.types import ArrayLike, Key, Values
from tractable.core.verdict import Verdict
from tractable.distributions.gaussian import Gaussian
from tractable.supervised.generative.class_rows import ClassModel, class_shares, log_shares
from tractable.supervised.generative.moments import (
    ClassScatters,
    CovarianceOptions,
    class_moments,
    class_scatters,
    moments_of,
)

__all__ = ["GaussianDiscriminant", "LinearForm", "discriminant_from", "fit_gaussian_discriminant"]

_LOG_2PI = float(np.log(2 * np.pi))


class LinearForm(NamedTuple):
    r"""Discriminants $g_c(x) = w_c^\top x + b_c$, one row of `weights` for each class."""

    weights: Values
    intercepts: Values


class GaussianDiscriminant(ClassModel):
    """Classes 0, 1, ... with a Gaussian each; `fit_gaussian_discriminant` makes it."""

    _shown = ("class_probs", "class_weights", "means", "tied")

    class_probs: np.ndarray
    means: np.ndarray  # (classes, d)
    covs: np.ndarray  # (classes, d, d), or (1, d, d) where all classes share it
    lowers: np.ndarray  # their Cholesky factors
    class_weights: np.ndarray
    status: Status | None = field(static=True)  # of expectation-maximisation, if entries were missing
    regular: bool = field(static=True, default=True)  # whether the covariances have inverses without `floor`
    scatters: ClassScatters | None = None  # what the rows said, if all were complete: further rows add
    options: CovarianceOptions | None = field(static=True, default=None)
    given_probs: bool = field(static=True, default=False)

    @property
    def num_classes(self) -> int:
        return len(self.means)

    @property
    def num_columns(self) -> int:
        return self.means.shape[1]

    @property
    def tied(self) -> bool:
        """Whether all classes share one covariance."""
        return len(self.covs) == 1

    def update(
        self, X: ArrayLike | Rows, y: ArrayLike | None = None, weights: ArrayLike | None = None
    ) -> "GaussianDiscriminant":
        """The model of the rows so far and these together; all must be complete."""
        rows, labels, counts = self._rows(X, y, weights, gaps=False)
        if self.scatters is None or self.options is None:
            raise ValueError("`X` must be complete in all rows; got gaps in earlier rows. Fit all at once.")
        both = self.scatters + class_scatters(rows, labels, counts, self.num_classes)
        return _from_scatters(both, self.options, self.class_probs if self.given_probs else None)

    def conditional(self, label: int) -> Gaussian:
        r"""$p(x \mid c)$."""
        label = check_count("label", label, 0, self.num_classes - 1)
        return Gaussian(self.means[label], self.covs[0 if self.tied else label])

    def log_joint(self, X: ArrayLike | Rows) -> Values:
        r"""$\log p(x, c)$ of each row and class; what was not seen in a row is marginalised."""
        rows, prior = points(X, self.num_columns, gaps=True), log_shares(self.class_probs)
        if not has_values((self, rows)):
            return prior[None] + _traced_log_densities(self, jnp.asarray(rows))
        own = jax.tree.map(np.asarray, self)
        found = np.empty((len(rows), self.num_classes))
        for part, seen in _patterns(rows):
            for c in range(self.num_classes):
                k = 0 if self.tied else c
                lower = own.lowers[k] if seen.all() else np.linalg.cholesky(own.covs[k][np.ix_(seen, seen)])
                found[part, c] = prior[c] + _log_density(rows[part][:, seen] - own.means[c, seen], lower)
        return found

    def discriminant(self, X: ArrayLike | Rows) -> Values:
        """Scores whose largest decides: the linear form where the covariance is shared, else `log_joint`."""
        xp = namespace(self, X)
        rows = xp.asarray(points(X, self.num_columns, gaps=True))
        gaps = xp.isnan(rows).any()
        if not self.tied or (xp is np and gaps):
            return self.log_joint(rows)
        form = self.linear_form()
        scores = xp.where(xp.isnan(rows), 0.0, rows) @ form.weights.T + form.intercepts[None]
        return scores if xp is np else jax.lax.cond(gaps, lambda x: self.log_joint(x), lambda _: scores, rows)

    def linear_form(self) -> LinearForm:
        r"""$w_c = \Sigma^{-1}(\mu_c - \bar\mu)$ and $b_c$, with $\bar\mu$ the mean of all: what all classes
        share is gone."""
        check(self.tied, "model", "of one shared covariance", f"{len(self.covs)} covariances")
        solve = (jax.scipy if namespace(self) is jnp else scipy).linalg.solve_triangular
        centre = self.class_probs @ self.means
        half = solve(self.lowers[0], (self.means - centre[None]).T, lower=True)
        weights = solve(self.lowers[0], half, lower=True, trans=1).T
        return LinearForm(weights, log_shares(self.class_probs) - 0.5 * (half**2).sum(0) - weights @ centre)

    @takes_key
    def sample(self, key: Key, num_rows: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows drawn from the model, and their classes."""
        num_rows = check_count("num_rows", num_rows)
        key_labels, key_noise = jr.split(key)
        labels = np.asarray(jr.choice(key_labels, self.num_classes, (num_rows,), p=self.class_probs))
        noise = np.asarray(jr.normal(key_noise, (num_rows, self.means.shape[1])))
        lowers = self.lowers[np.zeros_like(labels) if self.tied else labels]
        return self.means[labels] + np.einsum("nij,nj->ni", lowers, noise), labels

    @property
    def verdict(self) -> Verdict:
        """How the parameters were found, and whether the covariances are those of the rows."""
        sentence = "Exact." if self.status is None else self.status.sentence
        sentence += "" if self.regular else " Regular only by the floor: columns depend on each other."
        return Verdict(self.status is None or self.status.ok, sentence)


def fit_gaussian_discriminant(
    X: ArrayLike | Rows,
    y: ArrayLike | None = None,
    *,
    weights: ArrayLike | None = None,
    tied: bool = False,
    diagonal: bool = False,
    shrinkage: float | int = 0.0,
    floor: float | int = 0.0,
    ddof: float | int = 0,
    class_probs: ArrayLike | None = None,
    num_classes: int | None = None,
    tol: float = 1e-8,
    max_steps: int = 2000,
) -> GaussianDiscriminant:
    r"""Gaussian classes from rows `X` (NaN where missing) and classes `y` = 0, 1, ...

    `ddof` = 1 divides scatters by $N_c - 1$ ($N - C$ where `tied`) in place of maximum likelihood. A column
    that never varies gets the variance 1 in every class and so cancels from every posterior; a covariance
    that is singular otherwise is an error that names the column, unless `floor` times the variance of each
    column is added to its variance in the classes. Of `num_classes` classes some may have no rows yet: their
    probability is zero until `update` brings some. `tol` and `max_steps` are those of
    expectation-maximisation, used if entries are missing.

    >>> model = fit_gaussian_discriminant([[0.0], [2.0], [4.0], [6.0]], [0, 0, 1, 1], tied=True)
    >>> model.posterior([[3.0], [4.0]]).round(4).tolist()
    [[0.5, 0.5], [0.018, 0.982]]
    """
    options = _options(tied, diagonal, shrinkage, ddof, floor)
    table = Rows.of(X, y, weights, target="class", gaps=True, num_classes=num_classes)
    rows, labels, counts = table
    if num_classes is None:
        num_classes = table.num_classes
        short = np.setdiff1d(np.arange(num_classes), labels)
        check(not short.size, "y", "codes of classes that all have rows", f"no rows of class {short[:1]}")
    if not table.has_gaps:
        return _from_scatters(class_scatters(rows, labels, counts, num_classes), options, class_probs)
    totals = np.bincount(labels, counts, num_classes)
    empty = np.flatnonzero(totals == 0)
    fix = "Leave out the class, or rows with NaN."
    check(not empty.size, "y", "rows of every class where entries are missing", f"none of {empty[:1]}", fix)
    means, covs, status = class_moments(rows, labels, counts, num_classes, options, tol, max_steps)
    return _model(totals, means, covs, options, class_probs, status)


def discriminant_from(
    scatters: ClassScatters,
    *,
    tied: bool = False,
    diagonal: bool = False,
    shrinkage: float = 0.0,
    ddof: float = 0.0,
    floor: float = 0.0,
    class_probs: ArrayLike | None = None,
) -> GaussianDiscriminant:
    """`fit_gaussian_discriminant`, from what complete rows say (`class_scatters`), added over their parts."""
    return _from_scatters(scatters, _options(tied, diagonal, shrinkage, ddof, floor), class_probs)


def _options(tied: bool, diagonal: bool, shrinkage: Any, ddof: Any, floor: Any) -> CovarianceOptions:
    check(0 <= shrinkage <= 1, "shrinkage", "from 0 to 1", shrinkage)
    check(ddof >= 0, "ddof", "zero or positive", ddof)
    check(floor >= 0, "floor", "zero or positive", floor)
    return CovarianceOptions(tied, diagonal, float(shrinkage), float(ddof), float(floor))


def _from_scatters(
    classes: ClassScatters, options: CovarianceOptions, class_probs: ArrayLike | None
) -> GaussianDiscriminant:
    means, covs = moments_of(classes, options)
    return _model(classes.counts, means, covs, options, class_probs, None, classes)


def _model(
    totals: np.ndarray,
    means: np.ndarray,
    covs: np.ndarray,
    options: CovarianceOptions,
    class_probs: ArrayLike | None,
    status: Status | None,
    classes: ClassScatters | None = None,
) -> GaussianDiscriminant:
    shares = class_shares(totals, 0.0 if class_probs is None else None, class_probs)
    factors = [_factor(cov, None if options.tied else c, options.floor) for c, cov in enumerate(covs)]
    regular = all(ok for _, ok in factors)
    lowers = np.stack([lower for lower, _ in factors])
    given = class_probs is not None
    return GaussianDiscriminant(shares, means, covs, lowers, totals, status, regular, classes, options, given)


def _log_density(differences: np.ndarray, lower: np.ndarray) -> np.ndarray:
    z = scipy.linalg.solve_triangular(lower, differences.T, lower=True, check_finite=False)
    return -0.5 * np.einsum("ij,ij->j", z, z) - np.log(np.diag(lower)).sum() - 0.5 * len(lower) * _LOG_2PI


def _traced_log_densities(model: GaussianDiscriminant, rows: Any) -> Any:
    """As on the host, where no values are known: an entry that is missing has a variance of its own and no
    covariance, which marginalises it. Rows without gaps use the factors of the fit."""
    seen = ~jnp.isnan(rows)
    places = jnp.zeros(model.num_classes, int) if model.tied else jnp.arange(model.num_classes)

    def density(difference, lower, seen):
        z = jax.scipy.linalg.solve_triangular(lower, difference, lower=True)
        return -0.5 * z @ z - jnp.log(jnp.diagonal(lower)).sum() - 0.5 * seen.sum() * _LOG_2PI

    def each(factors):
        def entry(row, seen, c):
            difference = jnp.where(seen, jnp.where(seen, row, 0.0) - jnp.asarray(model.means)[c], 0.0)
            return density(difference, factors(seen, places[c]), seen)

        classes = jnp.arange(model.num_classes)
        over_classes = jax.vmap(entry, (None, None, 0))
        return jax.vmap(over_classes, (0, 0, None))(rows, seen, classes)

    def marginal(seen, k):
        cov = jnp.asarray(model.covs)[k]
        both = seen[:, None] & seen[None]
        return jnp.linalg.cholesky(jnp.where(both, cov, jnp.eye(len(cov))))

    whole = lambda _: each(lambda _, k: jnp.asarray(model.lowers)[k])  # noqa: E731
    return jax.lax.cond(seen.all(), whole, lambda _: each(marginal), None)


def _patterns(rows: np.ndarray) -> list[tuple[np.ndarray | slice, np.ndarray]]:
    """Rows with the same entries seen, and which entries these are."""
    seen = ~np.isnan(rows)
    if seen.all():
        return [(slice(None), np.ones(rows.shape[1], bool))]
    patterns, group = np.unique(seen, axis=0, return_inverse=True)
    group = group.reshape(-1)
    return [(np.flatnonzero(group == g), pattern) for g, pattern in enumerate(patterns)]


def _factor(cov: np.ndarray, label: int | None, floor: float | int) -> tuple[np.ndarray, bool]:
    """The Cholesky factor; singular to rounding, in the scale of the columns, is an error by name. Also
    whether it would be regular without the floor."""
    scale = np.sqrt(np.diag(cov))
    whose = "the shared covariance" if label is None else f"the covariance of class {label}"
    fix = "Drop a column, pass `shrinkage`, share the covariance (`tied`) or give more rows."
    flat = np.flatnonzero(scale == 0)
    check(not flat.size, "X", f"such that {whose} is regular", f"no variance in column {flat[:1]}", fix)
    correlation = cov / np.outer(scale, scale)
    values, vectors = np.linalg.eigh(correlation)
    if values[0] <= len(cov) * np.finfo(float).eps * values[-1]:
        column = int(np.abs(vectors[:, 0]).argmax())
        got = f"column {column}, a linear combination of others"
        check(False, "X", f"such that {whose} is regular", got, fix)
    return scale[:, None] * np.linalg.cholesky(correlation), bool(values[0] > 2 * floor)
