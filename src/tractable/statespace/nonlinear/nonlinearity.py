r"""How far a system is from linear where a filter by moments used it: what its verdict rests on.

Measure.     About the same belief $x \sim N(m, P)$, points that see products and odd bends give the best
             affine map of $g$, its residual covariance $\Lambda$ and the covariance $S$ of $g(x)$ with noise.
             Of each entry $i$: $\Lambda_{ii}/S_{ii}$, the share of the variance that no affine map explains,
             plus $(\hat y_i - \hat y^{\mathrm{rule}}_i)^2/S_{ii}$; the largest counts. It is zero for a
             linear system, whatever the rule.
Verdict.     The sum over the series: zero to rounding is exact, below 0.02 good, else not certified.
Cost.        $4^d$ values of each function per time ($20d$ beyond four dimensions), where it is asked for.
References.  Sarkka (2013) section 5.1; Dunik, Straka and Simandl (2013), measures of nonlinearity.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.programs import light, program
from tractable.core.types import Array
from tractable.core.verdict import Verdict
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.linear_gaussian import LinearGaussian
from tractable.messages.gaussian_chain import GaussianChain
from tractable.statespace.nonlinear.model import Dynamics
from tractable.statespace.nonlinear.rules import reference_rule

__all__ = ["judged", "nonlinearity"]

_ROUNDING, _SMALL = 1e-12, 0.02  # of the measure of a whole series


@program
@light
def nonlinearity(
    model: Dynamics, ys: Array, inputs: Any, chain: GaussianChain, predicted: Gaussian, filtered: Gaussian
) -> Array:
    """The measure of each reading and of the step to it; a reading that is missing has none."""
    reference = reference_rule(model.dim)
    move_covs, look_covs = model.covs(len(ys))

    def gap(function: Any, belief: Gaussian, used: LinearGaussian, noise: Array) -> Array:
        seen = reference(function, belief.mean, belief.cov)
        variance = jnp.diag(seen.weights @ belief.cov @ seen.weights.T + seen.residual + noise)
        away = (seen.weights - used.weights) @ belief.mean + seen.bias - used.bias
        return (jnp.diag(seen.residual) + away**2) / jnp.where(variance > 0, variance, jnp.inf)

    def look(each: tuple) -> Array:
        belief, used, noise, t, u, y = each
        share = gap(lambda x: model.look(x, t, u), belief, used, noise)
        return jnp.where(jnp.isnan(y), 0.0, share).max()

    def move(each: tuple) -> Array:
        belief, used, noise, t, u = each
        return gap(lambda x: model.move(x, t, u), belief, used, noise).max()

    times = jnp.arange(len(ys))
    looks = jax.lax.map(look, (predicted, chain.observation, look_covs, times, inputs, ys))
    before = jax.tree.map(lambda leaf: leaf[:-1], (filtered, times, inputs))
    moves = jax.lax.map(move, (before[0], chain.transition, move_covs, *before[1:]))
    return looks + jnp.concatenate([jnp.zeros(1, looks.dtype), moves])


def judged(log_densities: Array, measure: Array) -> Verdict:
    """What the measure says of a whole series."""
    shares, densities = np.asarray(measure), np.asarray(log_densities)
    total, worst = float(shares.sum()), int(shares.argmax())
    numbers = {"nonlinearity": total}
    if not np.isfinite(densities).all():
        t = int((~np.isfinite(densities)).argmax())
        return Verdict(False, f"Do not use: the reading at time {t} has no density.", numbers)
    if total < _ROUNDING:
        return Verdict(True, "Exact: the system is linear wherever the beliefs reach.", numbers)
    if total < _SMALL:
        said = "Good: the system is close to linear where the beliefs are; the likelihood is approximate"
        return Verdict(True, f"{said} (nonlinearity {total:.2g} in all).", numbers)
    return Verdict(
        False,
        f"Not certified: the system is not linear where the beliefs are (nonlinearity {total:.2g} in all, "
        f"most at time {worst}). Compare the log-likelihood with that of `particle_filter`.",
        numbers,
    )
