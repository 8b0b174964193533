r"""Mixtures of linear regressions and of experts: several lines through one cloud, chosen blindly or by $x$.

Model.       $z \mid x \sim \mathrm{Cat}(g(x))$, $y \mid x, z = k \sim N(\phi(x)^\top\beta_k, \sigma_k^2)$
             with $\phi(x) = (1, x)$. Regressions: $g_k = w_k$. Experts: $g(x) = \mathrm{softmax}(V\phi(x))$.
M-step.      Weighted least squares from sums of $r(\phi\phi^\top, \phi y, y^2)$. For the gate, from its
             gradient $\sum_n(r_n - g_n)\phi_n^\top$ and $\sum_n\phi_n\phi_n^\top$: the curvature of the
             log-likelihood never passes $\frac12(I - \frac1k11^\top) \otimes\sum\phi\phi^\top$, so $V + 2(I
             - \frac1k11^\top)^+\,\mathrm{gradient}\,(\sum\phi\phi^\top)^{-1}$ raises it. All sums add over
             rows.
Floor.       No noise variance below a millionth of the target's.
Cost.        $O(nkd^2 + kd^3)$ per step.
References.  Jordan and Jacobs (1994); Bohning (1992); DeSarbo and Cron (1988).
"""

from typing import Any, ClassVar

import numpy as np

from tractable.core.checks import check, check_count, check_finite
from tractable.core.host_random import generator
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.support import positive, real
from tractable.core.types import ArrayLike, Key, Values

__all__ = ["ExpertStatistics", "MixtureOfExperts"]

_LOG_2PI = float(np.log(2 * np.pi))
_FLOOR = 1e-6


class ExpertStatistics(Module):
    """Sums over rows: of each component, `count`, `gram` (k, f, f), `cross` (k, f) and `square` (k,); of
    the gate, its gradient (k, f) and the gram of all rows (f, f)."""

    count: Any
    gram: Any
    cross: Any
    square: Any
    gradient: Any
    total: Any


class MixtureOfExperts(Module):
    r"""$p(y \mid x) = \sum_kg_k(x)\,N(y; \phi(x)^\top\beta_k, \sigma_k^2)$ for rows `(X, y)`.

    `coefficients` (k, 1 + d) have the intercept first; `gate` (k, 1 + d) is $V$. With `gated=False` only its
    intercepts are used: a mixture of regressions, whose choice does not depend on $x$.
    """

    on_host: ClassVar[bool] = True

    coefficients: Any = field(support=real, rank=2)
    variance: Any = field(support=positive, rank=1)
    gate: Any = field(support=real, rank=2)
    least: Any = field(show=False)
    gated: bool = field(static=True, default=True)

    @classmethod
    @takes_key
    def from_rows(
        cls, key: Key, rows: tuple[ArrayLike, ArrayLike], k: int, *, gated: bool = True, floor: float = _FLOOR
    ) -> "MixtureOfExperts":
        """A start: the line of all rows, moved up and down at random by its own error."""
        X, y = (np.asarray(part, float) for part in rows)
        check(
            X.ndim == 2 and y.shape == X.shape[:1], "rows", "a pair (X, y) of one length", (X.shape, y.shape)
        )
        check_finite("X", X)
        check_finite("y", y)
        k = check_count("k", k)
        check(len(X) >= k, "rows", f"at least as many as components ({k})", len(X))
        variance = float(y.var())
        check(variance > 0, "y", "of more than one value", "a constant", "There is nothing to explain.")
        features = _features(X)
        line = np.linalg.lstsq(features, y, rcond=None)[0]
        left = max(float(((y - features @ line) ** 2).mean()), floor * variance)
        # slopes move by what turns the line through its error, intercepts so that lines cross at the centre
        spread = np.sqrt(left) / np.where(X.std(0) > 0, X.std(0), 1.0)
        turns = generator(key).normal(size=(k, X.shape[1])) * spread
        shifts = generator(key, 1).normal(size=k) * np.sqrt(left) - turns @ X.mean(0)
        coefficients = line + np.column_stack([shifts, turns])
        least = np.asarray(floor * variance)
        return cls(coefficients, np.full(k, left), np.zeros((k, features.shape[1])), least, gated)

    @property
    def num_components(self) -> int:
        return self.coefficients.shape[0]

    def gates(self, X: ArrayLike) -> Values:
        r"""$g_k(x)$, (n, k)."""
        logits = self._logits(_features(np.asarray(X, float)))
        return np.exp(logits)

    def log_joint(self, rows: tuple[ArrayLike, ArrayLike]) -> Values:
        r"""$\log g_k(x_n) + \log N(y_n; \phi(x_n)^\top\beta_k, \sigma_k^2)$, (n, k)."""
        X, y = (np.asarray(part, float) for part in rows)
        features, variance = _features(X), np.asarray(self.variance)
        away = y[:, None] - features @ np.asarray(self.coefficients).T
        return self._logits(features) - 0.5 * (away**2 / variance + np.log(variance) + _LOG_2PI)

    def log_prob(self, rows: tuple[ArrayLike, ArrayLike]) -> Values:
        r"""$\log p(y \mid x)$ of each row."""
        return np.logaddexp.reduce(self.log_joint(rows), axis=1)

    def responsibilities(self, rows: tuple[ArrayLike, ArrayLike]) -> Values:
        r"""$p(z = k \mid x_n, y_n)$, (n, k)."""
        joint = self.log_joint(rows)
        return np.exp(joint - np.logaddexp.reduce(joint, axis=1)[:, None])

    def predict(self, X: ArrayLike) -> Values:
        r"""$E[y \mid x] = \sum_kg_k(x)\,\phi(x)^\top\beta_k$."""
        features = _features(np.asarray(X, float))
        return (np.exp(self._logits(features)) * (features @ np.asarray(self.coefficients).T)).sum(1)

    def e_step(self, rows: Any, weights: Any) -> tuple[ExpertStatistics, Any]:
        """Expected statistics and log-evidence, which add over rows."""
        X, y = (np.asarray(part, float) for part in rows)
        weights, features = np.asarray(weights), _features(X)
        joint = self.log_joint((X, y))
        heights = np.logaddexp.reduce(joint, axis=1)
        shares = weights[:, None] * np.exp(joint - heights[:, None])
        gram = np.stack([(shares[:, k, None] * features).T @ features for k in range(shares.shape[1])])
        expected = weights[:, None] * np.exp(self._logits(features))
        gradient = (shares - expected).T @ features
        cross, square = shares.T @ (features * y[:, None]), shares.T @ y**2
        total = (weights[:, None] * features).T @ features
        return ExpertStatistics(shares.sum(0), gram, cross, square, gradient, total), weights @ heights

    def m_step(self, stats: ExpertStatistics) -> "MixtureOfExperts":
        """Regressions of highest expected log-likelihood, and a gate of higher one."""
        old, count = np.asarray(self.coefficients), np.asarray(stats.count)
        coefficients, variance = old.copy(), np.array(self.variance)
        gram, cross, square = (np.asarray(a) for a in (stats.gram, stats.cross, stats.square))
        for k in np.flatnonzero(count > 0):
            coefficients[k] = _solved(gram[k], cross[k])
            b = coefficients[k]
            variance[k] = max((square[k] - 2 * b @ cross[k] + b @ gram[k] @ b) / count[k], float(self.least))
        gate = self._better_gate(count, np.asarray(stats.gradient), np.asarray(stats.total))
        return MixtureOfExperts(coefficients, variance, gate, self.least, self.gated)

    def _better_gate(self, count: np.ndarray, gradient: np.ndarray, total: np.ndarray) -> np.ndarray:
        gate = np.array(self.gate)
        if not self.gated:
            gate[:, 0] = np.log(np.maximum(count, 1e-300) / count.sum())
            return gate
        centred = gradient - gradient.mean(0)  # the bound's inverse acts on what sums to zero over components
        return gate + 2 * _solved(total, centred.T).T

    def _logits(self, features: np.ndarray) -> np.ndarray:
        """Normalised."""
        gate = np.asarray(self.gate)
        raw = features @ gate.T if self.gated else np.broadcast_to(gate[:, 0], (len(features), len(gate)))
        return raw - np.logaddexp.reduce(raw, axis=1)[:, None]


def _solved(gram: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Least squares from sums, of columns of one length: beside a column of 1e12 the constant would seem
    to depend on it, and the intercept be lost."""
    unit = np.sqrt(np.diagonal(gram))
    unit = np.where(unit > 0, unit, 1.0)
    scaled = right.T / unit
    return (np.linalg.lstsq(gram / np.outer(unit, unit), scaled.T, rcond=1e-13)[0].T / unit).T


def _features(X: np.ndarray) -> np.ndarray:
    return np.column_stack([np.ones(len(X)), X])
