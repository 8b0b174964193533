r"""Entropy maximisation solved directly, and its duality with maximum likelihood.

Primal.      $\max_P H(y \mid x) = \sum_n\tilde w_n\sum_y P(y \mid x_n)\log\frac1{P(y \mid x_n)}$ subject to
             $\sum_n\tilde w_n\sum_y P(y \mid x_n)f_i(x_n, y) = E_{data}[f_i]$ and $\sum_y P(y \mid x_n) = 1$.
Stationary.  $P(y \mid x) = e^{-1 - \mu_x}e^{\sum_i\lambda_i f_i(x, y)}$ with
             $\mu_x = \log\sum_y e^{\sum_i\lambda_i f_i} - 1$: the log-linear model.
Duality.     The dual is the mean log-likelihood $L(\lambda)$, up to sign: at the optimum $H = -L$ and the
             feature expectations match.
Search.      Newton steps on the stationarity and the constraints; entropy's own slope keeps $P$ positive.
Cost.        $O((N + m)^3)$ per step for $N$ rows and $m$ features.
References.  Berger, Della Pietra and Della Pietra (1996); Boyd and Vandenberghe (2004) section 10.3.
"""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp, xlogy

from tractable.core.blocks import run_in_blocks
from tractable.core.checks import check, has_values
from tractable.core.iterate import Ended, Run, Status
from tractable.core.module import Module
from tractable.core.types import Array, ArrayLike, Float, Int, Scalar
from tractable.supervised.logistic.maxent import FeatureTable, checked_targets, separated_pairs

__all__ = ["EntropySolution", "maximise_entropy"]

_LARGEST = 4000  # unknown probabilities: the system is dense
_TOL = 1e-12


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

    def __repr__(self) -> str:
        """Entropy, gap, mismatch and the verdict."""
        if not has_values(self):
            return "EntropySolution(...)"
        checks = f"gap {self.gap:.1e}, mismatch {float(self.mismatch):.1e}"
        ended = "Converged." if self.status is Status.converged else self.status.sentence
        return (
            f"EntropySolution(H = {float(self.entropy):.8g}, {checks}, steps {int(self.num_steps)}: {ended})"
        )


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
    found = _search(constraints[:, flat], constraints @ data, each[flat], start, max_steps)
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


def _search(
    constraints: np.ndarray, wanted: np.ndarray, each: np.ndarray, start: np.ndarray, max_steps: int
) -> Run:
    """Newton steps, shortened to stay positive and to lower the residual."""
    scale = np.abs(constraints).max(1)
    a, b = constraints / np.where(scale > 0, scale, 1.0)[:, None], wanted / np.where(scale > 0, scale, 1.0)

    def residual(probs: np.ndarray, prices: np.ndarray) -> np.ndarray:
        return np.concatenate([np.log(probs) + 1 + (a.T @ prices) / each, a @ probs - b])

    def step(state: dict, _: None) -> tuple[dict, np.ndarray]:
        probs, prices = np.asarray(state["scaled"]["probs"]), np.asarray(state["scaled"]["prices"])
        slack, inverse = a @ probs - b, probs / each
        slope = each * (np.log(probs) + 1)
        target = np.linalg.lstsq((a * inverse) @ a.T, slack - a @ (inverse * slope), rcond=1e-13)[0]
        move, turn = -inverse * (slope + a.T @ target), target - prices
        falling = move < 0
        longest = min(1.0, 0.99 * float((-probs[falling] / move[falling]).min(initial=np.inf)))
        lengths = longest * 0.5 ** np.arange(30)
        sizes = [float(np.linalg.norm(residual(probs + t * move, prices + t * turn))) for t in lengths]
        best = lengths[int(np.argmin(sizes))]
        probs, prices = probs + best * move, prices + best * turn
        seen = {"probs": probs, "prices": prices / np.where(scale > 0, scale, 1.0)}
        return seen | {"scaled": {"probs": probs, "prices": prices}}, np.asarray(min(sizes))

    def judge(_: dict, sizes: np.ndarray) -> Status | None:
        return Status.converged if sizes[-1] <= _TOL * np.sqrt(each.size) else None

    inner = {"probs": start, "prices": np.zeros(len(wanted))}
    return run_in_blocks(step, inner | {"scaled": inner}, num_steps=max_steps, judge=judge, compiled=False)
