r"""Predictions averaged over hyperparameters without chains: draws about the mode, weighed.

Model.       $p(y_* \mid y) = \int p(y_* \mid y, \theta)\,p(\theta \mid y)\,d\theta$ over the free numbers
             $\theta$, whose prior is $N(\theta_0, s^2)$ about the process as given, where none is given.
Quadrature.  $\theta_k = \hat\theta + H^{-1/2}z_k$ with the curvature $H$ at the mode and Student's $z_k$ in
             pairs of opposite signs, weighed by $w_k \propto p(y, \theta_k)/q(\theta_k)$: heavier tails than
             the posterior's keep the weights bounded.
Few rows.    The maximum of the evidence of ten rows takes noise for signal as often as not; the average knows
             both readings.
Cost.        One factor for each of 32 points and each block of new rows: for up to about a thousand rows.
References.  Rue, Martino and Chopin (2009); Rasmussen and Williams (2006) section 5.2.
"""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp

from tractable.core.checks import check, check_count, to_device
from tractable.core.chunks import pad_rows
from tractable.core.host_random import generator
from tractable.core.module import Module, field
from tractable.core.rows import Rows
from tractable.core.types import Array, Float, Int
from tractable.core.verdict import Verdict
from tractable.distributions.base import Distribution
from tractable.distributions.continuous import Normal
from tractable.distributions.normal_mixture import NormalMixture
from tractable.gp.columns import wide_rows
from tractable.gp.hyperparameter_posterior import stacked_moments, stacked_processes
from tractable.gp.hyperparameters import HyperparameterFit, evaluated, free_process
from tractable.gp.points import Observed, Table
from tractable.gp.regression import GaussianProcess
from tractable.optim.host import whitening

__all__ = ["SPREAD", "HyperparameterAverage", "average_hyperparameters", "wide_priors"]

SPREAD = 1.5  # standard deviation of the logarithms of hyperparameters about the scale of the data
_DEGREES = 5.0  # of the draws about the mode
_FEW = 4.0  # effective points: below, the average is that of hardly any


class HyperparameterAverage(Module):
    """Weighed processes, and the mixture of normals that they predict."""

    weights: Float[Array, " k"] = field(about="of the points, summing to one")
    processes: GaussianProcess = field(show=False)  # stacked
    observed: Observed = field(show=False)
    num_failed: Int[Array, ""] = field(about="points whose evidence is no number; their weight is zero")

    @property
    def verdict(self) -> Verdict:
        """How many points the average rests on, and how many were left out: what these would have weighed
        is not known, so an average without them is not certified."""
        weights, failed = np.asarray(self.weights), int(self.num_failed)
        effective = float(1 / (weights**2).sum())
        said = f"The average over hyperparameters rests on {effective:.1f} of {len(weights)} points."
        if failed:
            said += f" Not certified: {failed} of them, where the covariance has no factor, are left out."
        numbers = {"effective_points": effective, "failed_points": failed}
        return Verdict(effective >= _FEW and not failed, said, numbers)

    def predict_dist(self, X: Table) -> NormalMixture:
        """A new target at each row."""
        return self._mixture(X, True)

    def latent(self, X: Table) -> NormalMixture:
        """The function at each row."""
        return self._mixture(X, False)

    def _mixture(self, X: Table, noisy: bool) -> NormalMixture:
        rows = wide_rows(Rows.of(X).X, self.observed.X.shape[1])  # which may be wider than the data
        found = stacked_moments(self.processes, self.observed, pad_rows(rows)[0], noisy)
        loc, scale = (np.asarray(a)[:, : len(rows)].T for a in found)
        return NormalMixture(self.weights, to_device(loc), to_device(scale))


def wide_priors(process: GaussianProcess, spread: float = SPREAD) -> dict[str, Distribution]:
    """Normal priors of all free numbers about those of the process."""
    free, rebuild, _ = free_process(process)
    priors, start = {}, 0
    for slot in rebuild.slots:
        centre = jnp.asarray(np.asarray(free)[start : start + slot.size])
        priors[slot.path] = Normal(centre, jnp.full(slot.size, float(spread)))
        start += slot.size
    return priors


def average_hyperparameters(
    fit: HyperparameterFit, observed: Observed, priors: Mapping[str, Distribution], *, num_points: int = 32
) -> HyperparameterAverage:
    """The average about the mode that `fit_hyperparameters` found with these `priors`."""
    count = check_count("num_points", num_points, least=2)
    check(count % 2 == 0, "num_points", "even", num_points)
    mode, rebuild, prior = free_process(fit.process, (), priors)

    def at(free: Any) -> Any:
        return evaluated(to_device(np.asarray(free)), rebuild, observed, prior, None)

    root = whitening(at, mode, 1.0)
    moves, log_density = _student_moves(mode.size, count)
    points = np.asarray(mode) + moves @ root
    heights = np.array([-float(at(point)[0]) for point in points]) - log_density
    # where a covariance has no factor the evidence is not a number: such a point has no part in the average,
    # and the verdict counts it
    known = np.isfinite(heights)
    fix = "Give the noise a lower bound, or use `method='evidence'`."
    check(bool(known.any()), "process", "one with an evidence near its mode", f"none at {count} points", fix)
    weights = np.exp(np.where(known, heights, -np.inf) - logsumexp(heights[known]))
    processes, failed = stacked_processes(rebuild, to_device(points)), jnp.asarray(count - known.sum())
    return HyperparameterAverage(to_device(weights), processes, observed, failed)


def _student_moves(dim: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Draws of Student's t in pairs of opposite signs, with a fixed seed, and their log-densities but for a
    constant."""
    numbers = generator(0)
    normal = numbers.standard_normal((count // 2, dim))
    stretch = np.sqrt(_DEGREES / numbers.chisquare(_DEGREES, count // 2))
    moves = np.concatenate([normal, -normal]) * np.tile(stretch, 2)[:, None]
    return moves, -0.5 * (_DEGREES + dim) * np.log1p((moves**2).sum(1) / _DEGREES)
