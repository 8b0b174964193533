r"""Outputs of all rows with their derivatives, from one small program; all else is dense algebra on the host.

Rows.        $f_n = f_w(x_n)$ and $J_n = \partial f_n/\partial u$, in units of the prior (`bayes.curvature`).
Sums.        $L = \sum_n c_n \ell_n$, its slope $\sum_n c_n J_n^\top g_n$ and the Gauss-Newton matrix
             $G = \sum_n c_n J_n^\top H_n J_n$, with $g_n$, $H_n$ the derivatives of the unit loss by $f_n$
             and $c_n$ how often the row counts.
Search.      Newton steps with $\beta G + \mathrm{diag}(\alpha)$ (`optim.host`): a few tens, where a
             search by slopes alone takes hundreds and a compiler several seconds.
Cost.        $m$ reverse passes per row, $O(n m p^2 + p^3)$ per step, memory for $J$.
References.  Nocedal and Wright (2006) section 10.3.
"""

from typing import Any, NamedTuple

import jax
import numpy as np

from tractable.core.checks import to_device
from tractable.core.chunks import pad_rows
from tractable.core.iterate import Status
from tractable.core.programs import program
from tractable.core.types import Array, Float, Values
from tractable.inference.curvature.precision import DensePrecision
from tractable.neural.bayes.curvature import outputs_in_units
from tractable.neural.bayes.likelihoods import OutputDensity
from tractable.neural.bayes.priors import NormalWeights
from tractable.neural.bayes.statement import BayesianNetwork, without_rows
from tractable.optim.host import Walk, minimise_on_host

__all__ = [
    "HostRows",
    "OutputTerms",
    "UnitSums",
    "dense_mode",
    "dense_precision",
    "linearised_rows",
    "output_terms",
    "polished_mode",
]

_BLOCK = 256
_ROUGH = 0.1  # posterior deviations that may be left between rounds
_PASS = 25  # steps with one Gauss-Newton matrix
_FLAT = 1e-4  # posterior deviations at the end


class OutputTerms(NamedTuple):
    """What a density says of each row at its outputs: with the derivatives of the unit loss."""

    log_prob: np.ndarray
    loss: np.ndarray
    slope: np.ndarray
    bend: np.ndarray


class UnitSums(NamedTuple):
    """The log-likelihood, the unit loss, and the loss's slope and Gauss-Newton matrix, over all rows."""

    log_likelihood: float
    loss: float
    slope: np.ndarray
    matrix: np.ndarray


def linearised_rows(
    stated: BayesianNetwork, weights: Float[Array, " p"], first: int, x: Values
) -> tuple[np.ndarray, np.ndarray]:
    r"""$f$ of shape `(n, m)` and $J$ of shape `(n, m, k)` for rows `x`, on the host."""
    rows, _ = pad_rows(x)
    outputs, slopes = _linearised(without_rows(stated), weights, first, rows)
    return np.asarray(outputs)[: len(x)], np.asarray(slopes)[: len(x)]


def output_terms(density: OutputDensity, outputs: np.ndarray, targets: Any) -> OutputTerms:
    """The terms of each row, on the host."""
    count = len(outputs)
    (padded, y), _ = pad_rows((outputs, np.asarray(targets)))
    return OutputTerms(*(np.asarray(part)[:count] for part in _terms(density, padded, y)))


class HostRows:
    """The rows of a model on the host and padded, for many weights in turn."""

    def __init__(self, stated: BayesianNetwork):
        self.model = without_rows(stated)
        given = stated.row_weights
        (self.inputs, self.targets), counts = pad_rows((stated.inputs, stated.targets), given)
        self.counts = np.asarray(counts)

    def sums(self, weights: np.ndarray, density: OutputDensity, *, matrix: bool = True) -> UnitSums:
        """The sums over all rows at these weights; `density` may have another noise than the model."""
        outputs, slopes = map(np.asarray, _linearised(self.model, to_device(weights), 0, self.inputs))
        terms = OutputTerms(*map(np.asarray, _terms(density, outputs, self.targets)))
        counts, by_row = self.counts, slopes.reshape(-1, slopes.shape[-1])
        slope = (counts[:, None] * terms.slope).reshape(-1) @ by_row
        log_likelihood, loss = float(counts @ terms.log_prob), float(counts @ terms.loss)
        if not matrix:
            return UnitSums(log_likelihood, loss, slope, np.zeros((0, 0)))
        left = np.einsum("nop,noq->nqp", slopes, counts[:, None, None] * terms.bend).reshape(by_row.shape)
        return UnitSums(log_likelihood, loss, slope, left.T @ by_row)


def dense_precision(stated: BayesianNetwork, matrix: np.ndarray) -> DensePrecision:
    r"""$\beta G + \mathrm{diag}(\alpha)$ from $G$ on the host."""
    prior: Any = stated.prior
    alpha = np.asarray(prior.factor)[np.asarray(prior.layer)]
    return DensePrecision.of(float(stated.likelihood.precision) * matrix + np.diag(alpha))


def dense_mode(
    rows: HostRows, stated: BayesianNetwork, start: Float[Array, " p"], *, max_steps: int
) -> Float[Array, " p"]:
    """Towards the weights of highest density from `start`, by so many Gauss-Newton steps."""
    prior, beta = stated.prior, float(stated.likelihood.precision)
    assert isinstance(prior, NormalWeights)
    scale, alpha = np.asarray(prior.base) ** -0.5, np.asarray(prior.factor)[np.asarray(prior.layer)]

    def look(u: np.ndarray) -> tuple:
        sums = rows.sums(u * scale, stated.likelihood)
        value, slope = beta * sums.loss + 0.5 * alpha @ u**2, beta * sums.slope + alpha * u
        return value, slope, beta * sums.matrix + np.diag(alpha)

    def near(walk: Walk) -> Status | None:
        return Status.converged if walk.decrement <= _ROUGH else None

    origin = np.asarray(start) / scale
    found = minimise_on_host(look, origin, max_steps=max_steps, tol=_ROUGH, stop="decrement", judge=near)
    return to_device(np.asarray(found.state) * scale)


def polished_mode(
    rows: HostRows, stated: BayesianNetwork, start: Float[Array, " p"], *, max_passes: int = 100
) -> Float[Array, " p"]:
    """The weights of highest density from `start`, to rounding where that is reached in so many passes.

    Gauss-Newton steps neglect the curvature of the network and end slowly: BFGS learns it, in coordinates
    in which the Gauss-Newton matrix is one; far from the mode that matrix is soon another's.
    """
    for _ in range(max_passes):
        start, ended = _whitened_search(rows, stated, start)
        if ended:
            break
    return start


def _whitened_search(
    rows: HostRows, stated: BayesianNetwork, start: Float[Array, " p"]
) -> tuple[Float[Array, " p"], bool]:
    """Where some steps lead, and whether that is a mode or as near as rounding lets one come."""
    prior, beta = stated.prior, float(stated.likelihood.precision)
    assert isinstance(prior, NormalWeights)
    scale, alpha = np.asarray(prior.base) ** -0.5, np.asarray(prior.factor)[np.asarray(prior.layer)]
    near = dense_precision(stated, rows.sums(np.asarray(start), stated.likelihood).matrix).on_host()
    axes = near.vectors / np.sqrt(near.values) / near.scale[:, None]

    def look(u: np.ndarray) -> tuple:
        sums = rows.sums(u * scale, stated.likelihood, matrix=False)
        return beta * sums.loss + 0.5 * alpha @ u**2, beta * sums.slope + alpha * u

    def flat(walk: Walk) -> Status | None:
        return Status.converged if np.linalg.norm(walk.gradient) <= _FLAT else None

    origin = np.asarray(start) / scale
    found = minimise_on_host(look, origin, axes, max_steps=_PASS, tol=0.0, judge=flat)
    return to_device(np.asarray(found.state) * scale), found.status is not Status.exhausted


@program
def _linearised(
    stated: BayesianNetwork, weights: Float[Array, " p"], first: int, x: Array
) -> tuple[Float[Array, "n m"], Float[Array, "n m k"]]:
    model, u = outputs_in_units(stated, weights, first)

    def row(each):
        return model(u, each), jax.jacrev(model)(u, each)

    return jax.lax.map(row, x, batch_size=min(_BLOCK, x.shape[0]))


@program
def _terms(density: OutputDensity, outputs: Values, targets: Values) -> tuple:
    def row(f, y):
        loss, slope = jax.value_and_grad(density.unit_loss)(f, y)
        return density.log_prob(f, y), loss, slope, jax.hessian(density.unit_loss)(f, y)

    return jax.vmap(row)(outputs, targets)
