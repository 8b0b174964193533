r"""Ranks that keep their promises: what held-out rows say of predictive distributions.

Problem.     The ranks $u_i = F_i(y_i)$ of held-out rows are uniform where the distributions $F_i$ are right.
Map.         $G(u) = \sigma(a + \alpha\log u - \beta\log(1 - u))$ (`distributions.recalibrated`), by the
             log-score of the moved distributions: $\max\sum_i w_i\log g(u_i)$, since $\log f^*(y_i) =
             \log f_i(y_i) + \log g(u_i)$.
Shrunk.      $(a, \log\alpha, \log\beta) \sim N(0, \tau^2 I)$ about the identity; $\tau$ by Laplace's evidence
             among 0.03, 0.1 and 0.3, and the identity, which has half of the prior, where no $\tau$ beats it:
             few rows change little, and right distributions stay as they are.
Shape.       Then nine of Bernstein's polynomials, with a Dirichlet prior about equal weights, where rows that
             a fit has not seen gain more than a standard error by them: they shape the middle. Of many rows
             33, where they gain as much over nine.
Cost.        Some ten Newton steps of $O(n)$ for each $\tau$.
References.  Dawid (1984); MacKay (1992); Kull, Silva Filho and Flach (2017); Kuleshov et al. (2018).
"""

from typing import Any

import jax
import numpy as np
from scipy.special import betaln, expit, log_expit, logsumexp

from tractable.core.blas import one_blas_thread
from tractable.core.checks import check
from tractable.core.chunks import pad_rows
from tractable.core.module import Module, field
from tractable.core.rows import row_weights
from tractable.core.types import ArrayLike, Float, Values
from tractable.core.verdict import Verdict
from tractable.distributions.base import Univariate
from tractable.distributions.recalibrated import Recalibrated, moved_tails

__all__ = ["RankMap", "fit_rank_map"]

_SPREADS = (0.03, 0.1, 0.3)
_MAX_STEPS = 50
_ORDERS, _FOLDS = (9, 33), 5
_PRIORS = (30.0, 5.0, 1.0)  # rows of a Dirichlet prior for each polynomial
_EM_STEPS, _ENOUGH = 400, 20_000


class RankMap(Module):
    r"""$G(u) = \sigma(a + \alpha\log u - \beta\log(1 - u))$: $a$ = `shift`, $\alpha$ = `lower`, $\beta$ =
    `upper`."""

    shift: Float[Values, ""] = field(about="moves the middle")
    lower: Float[Values, ""] = field(about="power of the lower tail; below one is heavier")
    upper: Float[Values, ""] = field(about="power of the upper tail; below one is heavier")
    weights: Float[Values, " m"] = field(about="of Bernstein's polynomials; one alone changes nothing")
    gain: Float[Values, ""] = field(about="log-score that it gains over the rows it was fitted to, in all")
    log_evidence: Float[Values, ""] = field(about="of the map over the identity")

    def __call__(self, base: Univariate) -> Univariate:
        """The moved distribution; the identity leaves it as it is."""
        if self.is_identity:
            return base
        numbers: Any = (np.asarray(v) for v in (self.shift, self.lower, self.upper, self.weights))
        return Recalibrated(base, *numbers)

    def moved(self, log_lower: ArrayLike, log_upper: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        r"""$\log G$, $\log(1 - G)$ and $\log g$ of ranks, one program for all numbers of them."""
        low, up = (np.atleast_1d(np.asarray(v, float)) for v in (log_lower, log_upper))
        (low_more, up_more), _ = pad_rows((low, up))
        numbers: Any = (np.asarray(v, float) for v in (self.shift, self.lower, self.upper, self.weights))
        found = _moved(np.asarray(low_more), np.asarray(up_more), *numbers)
        return tuple(np.asarray(part)[: len(low)] for part in found)  # pyright: ignore

    def ranks(self, log_lower: ArrayLike, log_upper: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        r"""$G(u)$ and $1 - G(u)$ on the host: nothing is compiled.

        $\sum_kw_kP(B \ge k)$ with $B \sim \mathrm{Binomial}(m, \sigma(s))$: sums of positive terms.
        """
        s = self._odds(np.asarray(log_lower, float), np.asarray(log_upper, float))
        m, weights = len(self.weights), np.asarray(self.weights)
        low, up = (np.maximum(log_expit(side), -1e4)[..., None] for side in (s, -s))  # finite: 0 * inf is NaN
        j = np.arange(m + 1)
        masses = np.exp(j * low + (m - j) * up - betaln(j + 1, m - j + 1) - np.log(m + 1))
        reached = np.r_[0.0, np.cumsum(weights)]
        left = np.r_[np.cumsum(weights[::-1])[::-1], 0.0]
        return np.asarray(masses @ reached), np.asarray(masses @ left)

    def log_slope(self, log_lower: np.ndarray, log_upper: np.ndarray) -> np.ndarray:
        r"""$\log g(u)$ of ranks on the host."""
        powers = np.log([float(self.lower), float(self.upper)])
        slopes, _, _ = _log_slopes(np.array([float(self.shift), *powers]), log_lower, log_upper)
        s = self._odds(log_lower, log_upper)
        orders = _order_log_densities(log_expit(s), log_expit(-s), len(self.weights))
        return slopes + logsumexp(orders, axis=1, b=np.asarray(self.weights))

    def back(self, p: float) -> tuple[float, float]:
        """The rank that is moved to `p`, and one less it."""
        low, high = -800.0, 800.0
        for _ in range(80):
            middle = (low + high) / 2
            below, above = self.ranks(log_expit(middle), log_expit(-middle))
            reached = below >= p if p < 0.5 else above <= 1 - p
            low, high = (low, middle) if reached else (middle, high)
        return float(expit(high)), float(expit(-high))

    def _odds(self, log_lower: Any, log_upper: Any) -> Any:
        return float(self.shift) + float(self.lower) * log_lower - float(self.upper) * log_upper

    @property
    def is_identity(self) -> bool:
        straight = (np.array([self.shift, self.lower, self.upper]) == [0.0, 1.0, 1.0]).all()
        return bool(straight) and len(self.weights) == 1

    @property
    def verdict(self) -> Verdict:
        """What the ranks said."""
        numbers = {"gain": float(self.gain), "log_evidence": float(self.log_evidence)}
        if self.is_identity:
            return Verdict(True, "The ranks give no reason to change the distributions.", numbers)
        powers = f"powers {float(self.lower):.3g} and {float(self.upper):.3g} of the tails"
        shape = f", shaped by {len(self.weights)} polynomials" if len(self.weights) > 1 else ""
        moved = f"Ranks moved by {powers}, shift {float(self.shift):+.3g}{shape}"
        told = f"{moved}; {float(self.gain):.3g} nats gained."
        return Verdict(True, told, numbers)


_moved = jax.jit(moved_tails)


def fit_rank_map(log_lower: ArrayLike, log_upper: ArrayLike, weights: ArrayLike | None = None) -> RankMap:
    r"""The map of held-out ranks, given by $\log u$ and $\log(1 - u)$.

    >>> u = np.linspace(0.001, 0.999, 400)
    >>> fit_rank_map(np.log(u), np.log1p(-u)).is_identity
    True
    >>> heavy = u**2 / (u**2 + (1 - u) ** 2)  # too many ranks at both ends
    >>> found = fit_rank_map(np.log(heavy), np.log1p(-heavy))
    >>> round(float(found.lower), 1), round(float(found.upper), 1)
    (0.5, 0.5)
    """
    low, up = np.asarray(log_lower, float), np.asarray(log_upper, float)
    check(low.ndim == 1 and low.shape == up.shape, "log_upper", f"of shape {low.shape}", up.shape)
    bad = ~(np.isfinite(low) & np.isfinite(up))
    fix = "A target outside the support, or a tail that rounds to nothing, has no rank."
    check(not bad.any(), "log_lower", "finite", f"row {int(np.argmax(bad)) if bad.any() else 0}", fix)
    w = row_weights(weights, len(low))
    best, odds = (0.0, np.zeros(3)), np.log(len(_SPREADS))  # half of the prior is on the identity
    for spread in _SPREADS:
        theta, value, hessian = _mode(low, up, w, spread**-2)
        evidence = value - 3 * np.log(spread) - 0.5 * np.linalg.slogdet(hessian)[1] - odds
        best = max(best, (evidence, theta), key=lambda found: found[0])
    evidence, theta = best
    slopes = _log_slopes(theta, low, up)[0]
    shift, lower, upper = theta[0], *np.exp(theta[1:])
    s = shift + lower * low - upper * up
    weights = _shaped(log_expit(s), log_expit(-s), w)
    more = logsumexp(
        _order_log_densities(log_expit(s), log_expit(-s), len(weights)) + np.log(weights), axis=1
    )
    parts = (shift, lower, upper, weights, w @ (slopes + more), evidence)
    return RankMap(*(np.asarray(v) for v in parts))


def _order_log_densities(log_lower: np.ndarray, log_upper: np.ndarray, m: int) -> np.ndarray:
    """Log-densities of the laws of the order statistics of `m` uniform numbers, `(rows, m)`."""
    k = np.arange(1, m + 1)
    return (k - 1) * log_lower[:, None] + (m - k) * log_upper[:, None] - betaln(k, m - k + 1)


def _shaped(log_lower: np.ndarray, log_upper: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Weights of the polynomials, or one alone where rows that a fit has not seen do not gain by them."""
    best, gains, fold = np.ones(1), np.zeros(len(w)), np.arange(len(w)) % _FOLDS
    for m in _ORDERS:
        if len(w) < 10 * m or (m > _ORDERS[0] and len(best) == 1):
            break
        orders = _order_log_densities(log_lower, log_upper, m)
        for prior in _PRIORS:
            logs = np.empty(len(w))
            for f in range(_FOLDS):
                found = _order_weights(orders[fold != f], w[fold != f], prior)
                logs[fold == f] = logsumexp(orders[fold == f] + np.log(found), axis=1)
            if _is_more(logs - gains, w):
                best, gains = _order_weights(orders, w, prior), logs
    return best


def _is_more(gains: np.ndarray, w: np.ndarray) -> bool:
    """Whether the mean is above zero by more than its standard error."""
    mean = np.average(gains, weights=w)
    return bool(mean > np.sqrt(np.average((gains - mean) ** 2, weights=w) / len(w)))


def _order_weights(orders: np.ndarray, w: np.ndarray, prior: float) -> np.ndarray:
    """The most probable weights under a Dirichlet prior of `prior` rows for each, by EM: the log-posterior is
    concave."""
    keep = slice(None, None, max(1, len(w) // _ENOUGH))
    heights, mass = np.exp(orders[keep]), w[keep]
    found = np.full(orders.shape[1], 1 / orders.shape[1])
    with one_blas_thread():  # two products a step, whose digits depend on no thread
        for _ in range(_EM_STEPS):
            owned = found * ((mass / (heights @ found)) @ heights) + prior
            moved, found = np.abs(owned / owned.sum() - found).max(), owned / owned.sum()
            if moved < 1e-7:
                break
    return found


def _mode(
    low: np.ndarray, up: np.ndarray, w: np.ndarray, precision: float
) -> tuple[np.ndarray, float, np.ndarray]:
    """The penalised maximum, its value, and the negative Hessian there, by damped Newton."""
    theta, value = np.zeros(3), 0.0
    gradient, hessian = _derivatives(theta, low, up, w, precision)
    for _ in range(_MAX_STEPS):
        values, vectors = np.linalg.eigh(hessian)  # away from the maximum some curvatures have the wrong sign
        step = vectors @ ((vectors.T @ gradient) / np.maximum(np.abs(values), precision))
        rate = min(1.0, 1.0 / max(np.abs(step).max(), 1e-300))
        while rate > 1e-8:
            new = _value(theta + rate * step, low, up, w, precision)
            if new >= value:
                break
            rate /= 2
        else:
            break
        moved, theta, value = np.abs(rate * step).max(), theta + rate * step, new
        gradient, hessian = _derivatives(theta, low, up, w, precision)
        if moved < 1e-9:
            break
    return theta, value, hessian


def _value(theta: np.ndarray, low: np.ndarray, up: np.ndarray, w: np.ndarray, precision: float) -> float:
    return float(w @ _log_slopes(theta, low, up)[0] - 0.5 * precision * theta @ theta)


def _log_slopes(theta: np.ndarray, low: np.ndarray, up: np.ndarray) -> tuple[np.ndarray, ...]:
    r"""$\log g$, $G$ and the share of the lower term in the slope."""
    alpha, beta = np.exp(theta[1:])
    s = theta[0] + alpha * low - beta * up
    one, two = theta[1] - low, theta[2] - up
    whole = np.logaddexp(one, two)
    return log_expit(s) + log_expit(-s) + whole, np.exp(log_expit(s)), np.exp(one - whole)


def _derivatives(
    theta: np.ndarray, low: np.ndarray, up: np.ndarray, w: np.ndarray, precision: float
) -> tuple[np.ndarray, np.ndarray]:
    """The gradient of the penalised log-score, and its negative Hessian."""
    alpha, beta = np.exp(theta[1:])
    _, G, r = _log_slopes(theta, low, up)
    tilt, bend = 1 - 2 * G, -2 * G * (1 - G)
    design = np.stack([np.ones(len(low)), alpha * low, -beta * up])  # of the log-odds in the parameters
    gradient = design @ (w * tilt) + np.array([0.0, w @ r, w @ (1 - r)])
    hessian = (design * (w * bend)) @ design.T
    mixed = w @ (r * (1 - r))
    hessian[1:, 1:] += mixed * np.array([[1.0, -1.0], [-1.0, 1.0]])
    hessian[1, 1] += (w * tilt) @ design[1]
    hessian[2, 2] += (w * tilt) @ design[2]
    return gradient - precision * theta, precision * np.eye(3) - hessian
