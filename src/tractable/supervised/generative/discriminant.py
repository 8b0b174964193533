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

from typing import NamedTuple

import jax.random as jr
import numpy as np
from scipy.linalg import solve_triangular

from tractable.core.checks import check, check_count
from tractable.core.iterate import Status
from tractable.core.module import Module, field
from tractable.core.types import ArrayLike, Key
from tractable.distributions.gaussian import Gaussian
from tractable.supervised.generative.class_rows import (
    checked_rows,
    class_shares,
    log_posterior,
    training_rows,
)
from tractable.supervised.generative.moments import (
    ClassScatters,
    CovarianceOptions,
    class_moments,
    class_scatters,
    moments_of,
)

__all__ = ["GaussianDiscriminant", "LinearForm", "fit_gaussian_discriminant"]

_LOG_2PI = float(np.log(2 * np.pi))


class LinearForm(NamedTuple):
    r"""Discriminants $g_c(x) = w_c^\top x + b_c$, one row of `weights` for each class."""

    weights: np.ndarray
    intercepts: np.ndarray


class GaussianDiscriminant(Module):
    """Classes 0, 1, ... with a Gaussian each; `fit_gaussian_discriminant` makes it."""

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
    def tied(self) -> bool:
        """Whether all classes share one covariance."""
        return len(self.covs) == 1

    def update(self, X: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> "GaussianDiscriminant":
        """The model of the rows so far and these together; all must be complete."""
        rows, labels, weights = training_rows(
            X, y, weights, self.num_classes, self.means.shape[1], missing=False
        )
        if self.scatters is None or self.options is None:
            raise ValueError("`X` must be complete in all rows; got gaps in earlier rows. Fit all at once.")
        both = self.scatters + class_scatters(rows, labels, weights, self.num_classes)
        return _from_scatters(both, self.options, self.class_probs if self.given_probs else None)

    def conditional(self, label: int) -> Gaussian:
        r"""$p(x \mid c)$."""
        label = check_count("label", label, 0, self.num_classes - 1)
        return Gaussian(self.means[label], self.covs[0 if self.tied else label])

    def log_joint(self, X: ArrayLike) -> np.ndarray:
        r"""$\log p(x, c)$ of each row and class; what was not seen in a row is marginalised."""
        rows = checked_rows(X, self.means.shape[1])
        with np.errstate(divide="ignore"):
            prior = np.log(self.class_probs)
        found = np.empty((len(rows), self.num_classes))
        for part, seen in _patterns(rows):
            for c in range(self.num_classes):
                k = 0 if self.tied else c
                lower = self.lowers[k] if seen.all() else np.linalg.cholesky(self.covs[k][np.ix_(seen, seen)])
                found[part, c] = prior[c] + _log_density(rows[part][:, seen] - self.means[c, seen], lower)
        return found

    def log_prob(self, X: ArrayLike) -> np.ndarray:
        r"""$\log p(x) = \log\sum_c p(x, c)$ of each row."""
        return np.logaddexp.reduce(self.log_joint(X), axis=1)

    def log_likelihood(self, X: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> float:
        r"""The complete-data log-likelihood $\sum_i w_i\log p(x_i, y_i)$."""
        rows, labels, weights = training_rows(X, y, weights, self.num_classes, self.means.shape[1])
        return float(weights @ self.log_joint(rows)[np.arange(len(rows)), labels])

    def discriminant(self, X: ArrayLike) -> np.ndarray:
        """Scores whose largest decides: the linear form where the covariance is shared, else `log_joint`."""
        rows = checked_rows(X, self.means.shape[1])
        if not self.tied or np.isnan(rows).any():
            return self.log_joint(rows)
        form = self.linear_form()
        return rows @ form.weights.T + form.intercepts

    def linear_form(self) -> LinearForm:
        r"""$w_c = \Sigma^{-1}(\mu_c - \bar\mu)$ and $b_c$, with $\bar\mu$ the mean of all: what all classes
        share is gone."""
        check(self.tied, "model", "of one shared covariance", f"{len(self.covs)} covariances")
        centre = self.class_probs @ self.means
        half = solve_triangular(self.lowers[0], (self.means - centre).T, lower=True)
        weights = solve_triangular(self.lowers[0], half, lower=True, trans=1).T
        with np.errstate(divide="ignore"):
            intercepts = np.log(self.class_probs) - 0.5 * (half**2).sum(0) - weights @ centre
        return LinearForm(weights, intercepts)

    def log_posterior(self, X: ArrayLike) -> np.ndarray:
        r"""$\log p(c \mid x)$ of each row and class."""
        return log_posterior(self.log_joint(X))

    def posterior(self, X: ArrayLike) -> np.ndarray:
        r"""$p(c \mid x)$ of each row and class."""
        return np.exp(self.log_posterior(X))

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The most probable class of each row; of equals the first."""
        return self.log_joint(X).argmax(1)

    def sample(self, key: Key, num_rows: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows drawn from the model, and their classes."""
        num_rows = check_count("num_rows", num_rows)
        key_labels, key_noise = jr.split(key)
        labels = np.asarray(jr.choice(key_labels, self.num_classes, (num_rows,), p=self.class_probs))
        noise = np.asarray(jr.normal(key_noise, (num_rows, self.means.shape[1])))
        lowers = self.lowers[np.zeros_like(labels) if self.tied else labels]
        return self.means[labels] + np.einsum("nij,nj->ni", lowers, noise), labels

    def __repr__(self) -> str:
        kind = "one shared covariance" if self.tied else "a covariance each"
        size = f"{self.num_classes} classes in {self.means.shape[1]} dimensions, {kind}"
        verdict = "exact" if self.status is None else self.status.sentence
        verdict += "" if self.regular else "; regular only by the floor: columns depend on each other"
        return f"GaussianDiscriminant({size}; weight {self.class_weights.sum():g}: {verdict})"


def fit_gaussian_discriminant(
    X: ArrayLike,
    y: ArrayLike,
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
    check(0 <= shrinkage <= 1, "shrinkage", "from 0 to 1", shrinkage)
    check(ddof >= 0, "ddof", "zero or positive", ddof)
    check(floor >= 0, "floor", "zero or positive", floor)
    rows, labels, counts = training_rows(X, y, weights, num_classes)
    if num_classes is None:
        num_classes = int(labels.max()) + 1
        short = np.setdiff1d(np.arange(num_classes), labels)
        check(not short.size, "y", "codes of classes that all have rows", f"no rows of class {short[:1]}")
    options = CovarianceOptions(tied, diagonal, float(shrinkage), float(ddof), float(floor))
    if not np.isnan(rows).any():
        return _from_scatters(class_scatters(rows, labels, counts, num_classes), options, class_probs)
    totals = np.bincount(labels, counts, num_classes)
    empty = np.flatnonzero(totals == 0)
    fix = "Leave out the class, or rows with NaN."
    check(not empty.size, "y", "rows of every class where entries are missing", f"none of {empty[:1]}", fix)
    means, covs, status = class_moments(rows, labels, counts, num_classes, options, tol, max_steps)
    return _model(totals, means, covs, options, class_probs, status)


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
    z = solve_triangular(lower, differences.T, lower=True, check_finite=False)
    return -0.5 * np.einsum("ij,ij->j", z, z) - np.log(np.diag(lower)).sum() - 0.5 * len(lower) * _LOG_2PI


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
