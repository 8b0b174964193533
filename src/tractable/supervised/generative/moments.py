r"""Means and covariances of classes from labelled rows, with or without missing entries.

Complete.    $\mu_c$ is the mean of the class and $\Sigma_c$ its scatter over $N_c$, about the mean; shared,
             $\Sigma = \sum_c N_c\Sigma_c / N$.
Streams.     Counts, means and scatters of two sets of rows add: $S = S_1 + S_2 + \frac{N_1 N_2}{N_1 + N_2}
             (\mu_2 - \mu_1)(\mu_2 - \mu_1)^\top$.
Missing.     Expectation-maximisation: each row is completed by its conditional mean given what was seen, and
             the conditional covariance is added to the scatter. Columns are in units of their own spread, so
             that tolerances do not depend on theirs.
Cost.        $O(nd^2)$; with gaps $O(nd^3)$ for each step.
References.  Little and Rubin (2002) section 11.2; Chan, Golub and LeVeque (1983).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check, check_entries
from tractable.core.chunks import pad_rows
from tractable.core.iterate import Run, Status, run_until
from tractable.core.module import Module
from tractable.core.programs import program
from tractable.core.types import Array
from tractable.distributions.gaussian import Gaussian, condition_observed

__all__ = ["ClassScatters", "CovarianceOptions", "class_moments", "class_scatters", "moments_of"]


class CovarianceOptions(NamedTuple):
    """How the covariances of classes follow from their scatters."""

    tied: bool
    diagonal: bool
    shrinkage: float
    ddof: float
    floor: float  # added to variances, in units of the variance of the whole column


class ClassScatters(Module):
    """What complete rows say of Gaussian classes; `+` joins what two sets of rows say."""

    counts: np.ndarray  # (classes,)
    means: np.ndarray  # (classes, d)
    scatters: np.ndarray  # (classes, d, d), about the means

    def __add__(self, other: "ClassScatters") -> "ClassScatters":
        counts = self.counts + other.counts
        share = other.counts / np.where(counts > 0, counts, 1.0)
        gap = other.means - self.means
        between = (self.counts * share)[:, None, None] * gap[:, :, None] * gap[:, None]
        return ClassScatters(
            counts, self.means + share[:, None] * gap, self.scatters + other.scatters + between
        )


def class_scatters(
    rows: np.ndarray, labels: np.ndarray, weights: np.ndarray, num_classes: int
) -> ClassScatters:
    """Weight, mean and scatter of the rows of each class; zeros for a class without rows."""
    _refuse_huge(rows)
    d = rows.shape[1]
    means, scatters = np.zeros((num_classes, d)), np.zeros((num_classes, d, d))
    for c in np.unique(labels):
        own, w = rows[labels == c], weights[labels == c]
        shift = own - own[0]  # a column that is constant in the class has no variance, not even of rounding
        centre = w @ shift / w.sum()
        means[c] = own[0] + centre
        rest = (shift - centre) * np.sqrt(w)[:, None]
        scatters[c] = rest.T @ rest
    return ClassScatters(np.bincount(labels, weights, num_classes), means, scatters)


def _refuse_huge(rows: np.ndarray) -> None:
    """Squares of entries beyond this would overflow in their sum; NaN, a gap, passes."""
    limit = 0.25 * np.sqrt(np.finfo(float).max / max(len(rows), 1))
    fix = "Divide its column by the largest entry."
    check_entries("X", rows, lambda x: ~(np.abs(x) > limit), "numbers whose squares have a sum", fix)


def moments_of(classes: ClassScatters, options: CovarianceOptions) -> tuple[np.ndarray, np.ndarray]:
    """Means `(classes, d)` and covariances `(classes, d, d)` or `(1, d, d)`.

    A class without rows has the mean and the covariance of all of them.
    """
    counts, present = classes.counts, classes.counts > 0
    origin = classes.means[present.argmax()]  # a constant has no rounding about itself
    gaps = np.where(present[:, None], classes.means - origin, 0.0)
    centre = counts @ gaps / counts.sum()
    spread = (
        np.einsum("cjj->j", classes.scatters) + counts @ np.where(present[:, None], gaps - centre, 0.0) ** 2
    )
    constant = spread == 0
    scale = np.where(constant, 1.0, np.sqrt(spread / counts.sum()))
    units = np.outer(scale, scale)
    covs = covariances(classes.scatters / units, counts, options) + np.diag(constant.astype(float))
    return np.where(present[:, None], classes.means, origin + centre), covs * units


def class_moments(
    rows: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray,
    num_classes: int,
    options: CovarianceOptions,
    tol: float,
    max_steps: int,
) -> tuple[np.ndarray, np.ndarray, Status | None]:
    """Means and covariances as in `moments_of` from rows with gaps, and how expectation-maximisation ended,
    if it was needed."""
    _refuse_huge(rows)
    seen = ~np.isnan(rows)
    empty = np.flatnonzero(~seen.any(0))
    check(not empty.size, "X", "seen at least once in each column", f"only NaN in column {empty[:1]}")
    origin = rows[seen.argmax(0), np.arange(rows.shape[1])]  # a constant has no rounding about itself
    centre, spread = _location(rows - origin, seen, weights)
    constant = spread == 0
    scale = np.where(constant, 1.0, spread)
    standard = (rows - origin - centre) / scale
    status = None
    if options.diagonal:
        means, covs = _by_columns(standard, seen, labels, weights, num_classes, options)
    else:
        run = _expectation_maximisation(standard, labels, weights, num_classes, options, tol, max_steps)
        (means, covs), status = (np.asarray(leaf) for leaf in run.state), run.status
        fix = "Give more rows, `shrinkage`, or a shared (`tied`) or `diagonal` covariance."
        check(status != Status.not_finite, "X", "rows that determine the covariances", "too few", fix)
    covs = covs + np.diag(constant.astype(float))
    return means * scale + centre + origin, covs * np.outer(scale, scale), status


def covariances(scatters, counts, options: CovarianceOptions):
    """Covariances from the scatters of classes, `(classes, d, d)`; for NumPy and JAX arrays alike."""
    identity = np.eye(scatters.shape[-1])
    freedom = counts - options.ddof
    shared = scatters.sum(0) / (counts.sum() - options.ddof * len(counts))
    own = shared[None] if options.tied else scatters / (freedom + (freedom <= 0))[:, None, None]
    own = own if options.tied else own + (counts == 0)[:, None, None] * shared[None]
    own = own * identity[None] if options.diagonal else own
    target = options.shrinkage * (identity * shared) + options.floor * identity
    return (1 - options.shrinkage) * own + target[None]


def _location(rows: np.ndarray, seen: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    total = weights @ seen
    centre = weights @ np.where(seen, rows, 0.0) / total
    return centre, np.sqrt(weights @ np.where(seen, rows - centre, 0.0) ** 2 / total)


def _by_columns(rows, seen, labels, weights, num_classes, options):
    """Without covariances a column knows nothing of the others: what was seen of it is all there is."""
    d = rows.shape[1]
    means, variances, counts = (
        np.zeros((num_classes, d)),
        np.zeros((num_classes, d)),
        np.zeros((num_classes, d)),
    )
    for c in range(num_classes):
        own = labels == c
        counts[c] = weights[own] @ seen[own]
        safe = np.where(counts[c] > 0, counts[c], 1.0)
        means[c] = weights[own] @ np.where(seen[own], rows[own], 0.0) / safe
        variances[c] = weights[own] @ np.where(seen[own], rows[own] - means[c], 0.0) ** 2
    parts = [covariances(v[:, None, None], n, options) for v, n in zip(variances.T, counts.T)]
    return means, np.stack([np.diag(column) for column in np.stack(parts, -1)[:, 0, 0]])


def _expectation_maximisation(rows, labels, weights, num_classes, options, tol, max_steps) -> Run:
    (rows, labels), weights = pad_rows((rows, labels), weights)
    seen = ~np.isnan(rows)
    start = np.zeros((num_classes, rows.shape[1]))
    covs = np.tile(np.eye(rows.shape[1]), (1 if options.tied else num_classes, 1, 1))
    return _run(rows, labels, weights, seen, (start, covs), options, np.asarray(tol), max_steps)


@program
def _run(rows, labels, weights, seen, start, options, tol, max_steps) -> Run:
    def step(state):
        moved = _step(state, rows, labels, weights, seen, options)
        change = [jnp.abs(new - old).max() for new, old in zip(moved, state)]
        return moved, jnp.maximum(*change)

    def settled(_, value, before):
        return jnp.abs(value) <= tol

    return run_until(step, jax.tree.map(jnp.asarray, start), max_steps=max_steps, tol=tol, settled=settled)


def _step(state: tuple[Array, Array], rows, labels, weights, seen, options) -> tuple[Array, Array]:
    means, covs = state
    num_classes = means.shape[0]
    each = covs[jnp.zeros_like(labels) if options.tied else labels]

    def completed(mean, cov, row):
        belief = Gaussian(mean, cov)
        after = condition_observed(belief, cov, belief, row)
        return after.mean, after.cov

    filled, spread = jax.vmap(completed)(means[labels], each, rows)
    spread = jnp.where(seen[:, :, None] | seen[:, None], 0.0, spread)  # exactly none in what was seen
    filled = jnp.where(seen, jnp.where(seen, rows, 0.0), filled)
    member = jax.nn.one_hot(labels, num_classes, dtype=rows.dtype) * weights[:, None]
    counts = member.sum(0)
    means = (member.T @ filled) / counts[:, None]
    rest = filled - means[labels]
    scatters = jnp.einsum("nc,nij->cij", member, rest[:, :, None] * rest[:, None] + spread)
    return means, covariances(scatters, counts, options)
