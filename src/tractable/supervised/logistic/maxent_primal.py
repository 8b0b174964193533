r"""Entropy maximisation solved directly, and its duality with maximum likelihood.

Primal.      $\max_P H(y \mid x) = \sum_n\tilde w_n\sum_y P(y \mid x_n)\log\frac1{P(y \mid x_n)}$ subject to
             $\sum_n\tilde w_n\sum_y P(y \mid x_n)f_i(x_n, y) = E_{data}[f_i]$ and $\sum_y P(y \mid x_n) = 1$.
Stationary.  $P(y \mid x) = e^{-1 - \mu_x}e^{\sum_i\lambda_i f_i(x, y)}$ with
             $\mu_x = \log\sum_y e^{\sum_i\lambda_i f_i} - 1$: the log-linear model.
Duality.     The dual is the mean log-likelihood $L(\lambda)$, up to sign: at the optimum $H = -L$ and the
             feature expectations match.
Search.      `optim.maximum_entropy.entropy_newton`: Newton steps on the stationarity and the constraints.
Cost.        $O((N + m)^3)$ per step for $N$ rows and $m$ features.
References.  Berger, Della Pietra and Della Pietra (1996); Boyd and Vandenberghe (2004) section 10.3.
"""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp, xlogy

from tractable.core.checks import check
from tractable.core.iterate import Ended, Status
from tractable.core.module import Module
from tractable.core.types import Array, ArrayLike, Float, Int, Scalar
from tractable.optim.maximum_entropy import entropy_newton
from tractable.supervised.logistic.maxent import FeatureTable, checked_targets, separated_pairs

__all__ = ["EntropySolution", "maximise_entropy"]

_LARGEST = 4000  # unknown probabilities: the system is dense


class EntropySolution(Ended, Module):
    r"""The conditional distributions of most entropy, their multipliers $\lambda$ and $\mu$, and checks.

    `gap` is $|H + L(\lambda)|$, `mismatch` the largest difference of feature expectations.
    """

    probs: Float[Array, "n k"]
    multipliers: Float[Array, " m"]
    normalisers: Float[Array, " n"]
    entropy: Scalar
    log_likelihood: Scalar
    mismatch: Scalar
    num_steps: Int[Array, ""]
    code: Int[Array, ""]

    @property
    def gap(self) -> float:
        """How far entropy and dual are apart: zero at the optimum."""
        return abs(float(self.entropy) + float(self.log_likelihood))


def maximise_entropy(
    table: FeatureTable,
    targets: Sequence | np.ndarray,
    weights: ArrayLike | None = None,
    *,
    max_steps: int = 200,
) -> EntropySolution:
    """The conditional distributions of largest entropy whose feature expectations are those of the data.

    Probabilities that the expectations force to zero are found first, by a linear program; the multipliers
    are then those of the problem without them (their own would be infinite).
    """
    codes, w = checked_targets(table, targets, weights)
    n, k = table.num_rows, len(table.labels)
    small = n * k <= _LARGEST
    check(
        small, "table", f"of at most {_LARGEST} pairs of row and label", n * k, "Use `fit_maxent`: the dual."
    )
    share = w / w.sum()
    check(bool((share > 0).all()), "weights", "positive", "a zero", "Leave such rows out.")
    possible = ~separated_pairs(table, codes)[0]
    features, each = np.asarray(table.matrix().todense()), np.repeat(share, k)
    data, flat = np.eye(k)[codes].ravel(), possible.ravel()
    constraints = np.vstack([np.kron(np.eye(n), np.ones(k)), (features * each[:, None]).T])
    start = (possible / possible.sum(1, keepdims=True)).ravel()[flat]
    found = entropy_newton(constraints[:, flat], constraints @ data, each[flat], start, max_steps)
    probs = np.zeros(n * k)
    probs[flat] = np.asarray(found.state["probs"])
    lam = -np.asarray(found.state["prices"])[n:]
    scores = np.where(possible, (features @ lam).reshape(n, k), -np.inf)
    totals = np.asarray(logsumexp(scores, axis=1))
    entropy = -float(each @ xlogy(probs, probs))
    fit = float(share @ (scores[np.arange(n), codes] - totals))
    mismatch = np.abs(features.T @ (each * (probs - data))).max()
    status = Status.exhausted if found.status is Status.completed else found.status
    numbers = (entropy, fit, mismatch, int(found.num_steps), int(status))
    return EntropySolution(*map(jnp.asarray, (probs.reshape(n, k), lam, totals - 1, *numbers)))
