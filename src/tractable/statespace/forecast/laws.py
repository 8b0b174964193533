r"""Predictive laws: mixtures of Gaussian and Student laws of the readings or of their logarithms.

Model.       $F(y) = \sum_k w_k F_k((g(y) - \mu_k)/\sigma_k)$, $g$ the identity or the logarithm; Student laws
             are scaled so that $\sigma_k$ is the standard deviation. The log-density has the Jacobian $\log
             g'(y)$.
Score.       $\mathrm{CRPS}(F, y) = \int (F(x) - 1[x \ge y])^2\,dx$, split at $y$, each part by Gauss-Legendre
             in $u$ with $g(x) = g(y) \pm s\sinh u$; of one Gaussian, $\sigma(z(2\Phi(z) - 1) + 2\phi(z) -
             \pi^{-1/2})$.
Spread.      `widened(c)` stretches the law about its centre by the factor $c$.
Cost.        $O(nK)$ with 128 points for each score.
References.  Gneiting and Raftery (2007); Hyndman and Koehler (2006).
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtr, stdtr, stdtrit

__all__ = ["Law", "crps_normal", "mase_scale"]

_POINTS = np.polynomial.legendre.leggauss(64)


class Law(NamedTuple):
    """A mixture over the last axis; `log` says that the readings' logarithm follows it."""

    mean: np.ndarray  # (..., K)
    sd: np.ndarray
    df: np.ndarray  # (K,), infinite where Gaussian
    weights: np.ndarray  # (K,)
    log: bool = False

    @property
    def centre(self) -> Any:
        """The mean on the scale of the model."""
        return self.mean @ self.weights

    def widened(self, factor: Any) -> "Law":
        """The law stretched about its centre."""
        middle, c = self.centre[..., None], np.asarray(factor)[..., None]
        return self._replace(mean=middle + c * (self.mean - middle), sd=c * self.sd)

    def _cdf(self, z: Any) -> Any:
        """The distribution function on the scale of the model."""
        parts = [
            w * (ndtr(u) if np.isinf(v) else stdtr(v, u * np.sqrt(v / (v - 2))))
            for w, v, u in zip(
                self.weights, self.df, np.moveaxis((z[..., None] - self.mean) / self.sd, -1, 0)
            )
            if w > 0
        ]
        return np.sum(parts, 0)

    def rows(self, use: Any) -> "Law":
        """The laws of some origins."""
        return self._replace(mean=self.mean[use], sd=self.sd[use])

    def cdf(self, y: Any) -> Any:
        """The probability of at most `y`."""
        return self._cdf(self._model_scale(y))

    rank = cdf

    def log_masses(self, low: Any, high: Any) -> Any:
        """The probability between two places of the scale of the model under each member, `(..., K)`."""
        parts = []
        for k, v in enumerate(self.df):
            # from the nearer tail, which keeps the digits
            u, w = ((x - self.mean[..., k]) / self.sd[..., k] for x in (low, high))
            above = u > 0
            parts.append(_log_mass(np.where(above, -w, u), np.where(above, -u, w), float(v)))
        return np.stack(parts, -1)

    def log_density(self, y: Any) -> Any:
        """Of readings."""
        with np.errstate(divide="ignore"):
            return logsumexp(np.log(self.weights) + self.log_densities(y), axis=-1)

    def log_densities(self, y: Any) -> Any:
        """Of readings under each member, `(..., K)`."""
        z = self._model_scale(y)
        u, parts = (z[..., None] - self.mean) / self.sd, []
        for k, v in enumerate(self.df):
            parts.append(_log_density(u[..., k], float(v)) - np.log(self.sd[..., k]))
        return np.stack(parts, -1) - (z[..., None] if self.log else 0.0)

    def quantile(self, level: Any) -> Any:
        """The reading not exceeded with probability `level`: bisection between those of the members."""
        level = np.asarray(level, float)
        edges = np.stack(
            [
                self.mean[..., k] + self.sd[..., k] * _unit_quantile(level, float(self.df[k]))
                for k in np.flatnonzero(self.weights)
            ]
        )
        low, high = np.broadcast_arrays(*(edges.min(0), edges.max(0)))
        low, high = low.copy(), high.copy()
        for _ in range(60 if len(edges) > 1 else 0):
            middle = 0.5 * (low + high)
            below = self._cdf(middle) < level
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        found = 0.5 * (low + high)
        return np.exp(found) if self.log else found

    def expectation(self) -> Any:
        """The mean of the readings (members are Gaussian on the log scale)."""
        return np.exp(self.mean + 0.5 * self.sd**2) @ self.weights if self.log else self.centre

    def crps(self, y: Any) -> Any:
        """The continuous ranked probability score; smaller is better, in units of the readings."""
        z = self._model_scale(y)
        use = self.weights > 0
        reach = np.where(np.isinf(self.df), 9.0, 200.0)[use] * self.sd[..., use]
        unit = self.sd[..., use].min(-1)
        total = np.zeros(np.broadcast_shapes(z.shape, unit.shape))
        for side in (-1.0, 1.0):
            far = np.max(side * (self.mean[..., use] - z[..., None]) + reach, -1)
            top = np.arcsinh(np.maximum(far, 1e-12 * unit) / unit)
            for node, weight in zip(*_POINTS):
                u = 0.5 * top * (node + 1)
                x = z + side * unit * np.sinh(u)
                part = self._cdf(x) if side < 0 else 1 - self._cdf(x)
                slope = np.exp(x) if self.log else 1.0
                total = total + weight * 0.5 * top * unit * np.cosh(u) * part**2 * slope
        return total

    def _model_scale(self, y: Any) -> Any:
        return np.log(np.asarray(y, float)) if self.log else np.asarray(y, float)


def crps_normal(mean: Any, sd: Any, y: Any) -> Any:
    """The score of one Gaussian in closed form.

    >>> round(float(crps_normal(0.0, 1.0, 0.0)), 6)
    0.233695
    """
    z = (np.asarray(y, float) - mean) / sd
    return sd * (z * (2 * ndtr(z) - 1) + 2 * np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi) - 1 / np.sqrt(np.pi))


def mase_scale(values: Any, season: int = 1) -> float:
    """The mean absolute change over a season: errors are measured in it.

    >>> mase_scale([1.0, 2.0, 4.0, 7.0])
    2.0
    """
    y = np.asarray(values, float)
    changes = np.abs(y[season:] - y[:-season])
    changes = changes[~np.isnan(changes)]
    return float(changes.mean()) if len(changes) else float("nan")


def _log_density(u: Any, df: float) -> Any:
    if np.isinf(df):
        return -0.5 * u**2 - 0.5 * np.log(2 * np.pi)
    from math import lgamma

    front = lgamma((df + 1) / 2) - lgamma(df / 2) - 0.5 * np.log(np.pi * (df - 2))
    return front - 0.5 * (df + 1) * np.log1p(u**2 / (df - 2))


def _log_mass(low: Any, high: Any, df: float) -> Any:
    """The logarithm of the probability between two places of the unit law, the lower one below zero."""
    if np.isinf(df):
        left, right = log_ndtr(low), log_ndtr(high)
    else:
        wide = np.sqrt(df / (df - 2))
        with np.errstate(divide="ignore"):
            left, right = np.log(stdtr(df, low * wide)), np.log(stdtr(df, high * wide))
    with np.errstate(divide="ignore", invalid="ignore"):
        return right + np.log1p(-np.exp(left - right))


def _unit_quantile(level: Any, df: float) -> Any:
    from scipy.special import ndtri

    return ndtri(level) if np.isinf(df) else stdtrit(df, level) * np.sqrt((df - 2) / df)
