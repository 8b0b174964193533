r"""Errors from independent replicates: the one check of a Monte Carlo method that trusts nothing inside it.

Identities.  $R$ replicates $f_r$: $\bar f \pm \mathrm{sd}(f)/\sqrt R$. Unbiased evidences $Z_r$:
             $\log\frac1R\sum_r Z_r$. Estimates by particles are close to log-normal, for which the error of
             that logarithm is $\sqrt{s^2/R + s^4/(2(R - 1))}$ with $s = \mathrm{sd}(\log Z_r)$: for small $s$
             the delta method, for large $s$ a warning that few replicates cannot know the mean. Means under
             weights $Z_r$: $\sum_r Z_r f_r/\sum_r Z_r$ with the error of the delta method.
Few.         The scatter of $R$ replicates has $R - 1$ degrees of freedom: four such errors are passed far
             more often than four of a normal law, unless they are widened.
Cost.        None beyond the replicates.
References.  Berard, Del Moral and Doucet (2014), "A lognormal central limit theorem for particle
             approximations of normalizing constants".
"""

import jax.numpy as jnp
import numpy as np
from scipy.special import ndtr, stdtrit

from tractable.core.checks import namespace, to_device
from tractable.core.estimate import Estimate
from tractable.core.iterate import Status
from tractable.core.numerics import softmax
from tractable.core.types import Array, Float, Values
from tractable.inference.trust.evidence import Evidence

__all__ = ["evidence_of_replicates", "mean_of_replicates", "widening"]

_MOST_ERRORS = 4.0  # beyond which an answer counts as wrong


def mean_of_replicates(values: Values, log_weights: Float[Array, " replicates"] | None = None) -> Estimate:
    """The (weighted) mean over the leading axis with its standard error; infinite for one replicate.

    >>> mean_of_replicates(jnp.array([1.0, 2.0, 3.0]))
    2 ± 0.58
    """
    xp = namespace(values, log_weights)  # on the host nothing is compiled for it
    values, count = xp.asarray(values), values.shape[0]
    shares = xp.full(count, 1 / count) if log_weights is None else softmax(log_weights)
    shares = xp.asarray(shares).reshape((-1,) + (1,) * (values.ndim - 1))
    mean = (shares * values).sum(0)
    error = xp.full_like(mean, xp.inf)
    if count > 1:
        squares = (shares * (values - mean[None])) ** 2
        error = xp.sqrt(squares.sum(0) * count / (count - 1))
    place = to_device if xp is np else jnp.asarray
    return Estimate(place(mean), place(error))


def evidence_of_replicates(log_evidences: Float[Array, " replicates"], method: str) -> Evidence:
    """The logarithm of the mean of independent unbiased evidences, with its standard error.

    Where some are zero there is no error to be had of the others, and the status says so.
    """
    logs = np.asarray(log_evidences)
    count, whole = len(logs), bool(np.isfinite(logs).all())
    error = np.inf
    with np.errstate(invalid="ignore"):  # some are zero or NaN: so are the error and the mean
        value = np.logaddexp.reduce(logs) - np.log(count)
        if count > 1:
            variance = logs.var(ddof=1)
            error = np.sqrt(variance / count + variance**2 / (2 * (count - 1)))
    code = Status.completed if whole else Status.not_finite
    mean, spread = (to_device(np.asarray(part, logs.dtype)) for part in (value, error))
    return Evidence(mean, spread, to_device(np.asarray(int(code))), method=method)


def widening(count: float | int) -> float:
    """By how much to widen an error from so many replicates, so that four are as rare as for a normal law.

    >>> round(widening(20), 2), round(widening(10), 2)
    (1.28, 1.75)
    """
    return float(-stdtrit(max(count - 1, 1.0), ndtr(-_MOST_ERRORS))) / _MOST_ERRORS
