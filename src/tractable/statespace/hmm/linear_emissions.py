r"""Emissions that are regressions: on inputs, and on the rows before (autoregressive).

Model.       $x_t \mid z_t = k \sim N(W_k\,\phi_t, \Sigma_k)$ with $\phi_t = (1, x_{t-1}, \dots, x_{t-L},
             u_t)$: `lags` $L$ rows before and the inputs $u_t$.
Start.       The first $L$ rows of a sequence are given: they have no density, and say nothing of the state.
M-step.      Weighted least squares from $\sum \gamma\,\phi\phi^\top$, $\sum \gamma\,\phi x^\top$ and $\sum
             \gamma\,xx^\top$, which add over rows; `penalty` adds a ridge.
Cost.        $O(nK(p + d)^2)$ for $p$ features.
References.  Hamilton (1989); Bengio and Frasconi (1996).
"""

from typing import Any, ClassVar

import numpy as np

from tractable.core.checks import check, check_shape
from tractable.core.module import Module, field
from tractable.core.support import psd, real
from tractable.statespace.hmm.emissions import Emissions
from tractable.statespace.hmm.sequences import Sequences

__all__ = ["LinearGaussians", "LinearSums"]

_LOG_2PI = float(np.log(2 * np.pi))


class LinearSums(Module):
    """Sums over rows of products of features and rows, per state."""

    count: Any
    features: Any
    cross: Any
    second: Any


class LinearGaussians(Emissions):
    r"""$N(W_k\phi_t, \Sigma_k)$: `coefficients` (k, d, p) with the intercept first, then lags, then inputs;
    `cov` (k, d, d).

    >>> two = LinearGaussians(np.array([[[0.0, 0.9]], [[0.0, -0.9]]]), np.ones((2, 1, 1)), lags=1)
    >>> two.num_states
    2
    """

    row_ndim: ClassVar[int] = 1

    coefficients: Any = field(support=real, rank=3)
    cov: Any = field(support=psd)
    lags: int = field(static=True, default=0)
    penalty: float = field(static=True, default=0.0)

    def __check_init__(self) -> None:
        k, dim, size = self.coefficients.shape
        check_shape("cov", self.cov, (k, dim, dim))
        check(size > dim * self.lags, "coefficients", f"of an intercept and {self.lags} lags at least", size)

    @property
    def num_states(self) -> int:
        return self.coefficients.shape[0]

    @property
    def num_inputs(self) -> int:
        """How many inputs each row has."""
        return self.coefficients.shape[2] - 1 - self.lags * self.coefficients.shape[1]

    def log_prob(self, sequences):
        features, scored = self._features(sequences)
        rows = np.asarray(sequences.rows, float)
        found = np.zeros((len(rows), self.num_states))
        lower = np.linalg.cholesky(np.asarray(self.cov))
        for k in range(self.num_states):
            away = rows[scored] - features[scored] @ np.asarray(self.coefficients)[k].T
            white = np.linalg.solve(lower[k], away.T)
            constant = rows.shape[1] * _LOG_2PI + 2 * np.log(np.diagonal(lower[k])).sum()
            found[scored, k] = -0.5 * ((white**2).sum(0) + constant)
        return found

    def stats(self, sequences, shares):
        features, scored = self._features(sequences)
        rows, features = np.asarray(sequences.rows, float)[scored], features[scored]
        owned = np.asarray(shares)[scored]
        weighted = [owned[:, k : k + 1] * features for k in range(self.num_states)]
        return LinearSums(
            owned.sum(0),
            np.stack([each.T @ features for each in weighted]),
            np.stack([each.T @ rows for each in weighted]),
            np.stack([(owned[:, k : k + 1] * rows).T @ rows for k in range(self.num_states)]),
        )

    def from_stats(self, stats):
        count, gram, cross, second = (
            np.asarray(a) for a in (stats.count, stats.features, stats.cross, stats.second)
        )
        coefficients, cov = np.array(self.coefficients), np.array(self.cov)
        for k in np.flatnonzero(count > 0):
            ridge = self.penalty * np.eye(gram.shape[1])
            solved = np.linalg.lstsq(gram[k] + ridge, cross[k], rcond=None)[0]
            left = second[k] - cross[k].T @ solved - solved.T @ cross[k] + solved.T @ gram[k] @ solved
            left = 0.5 * (left + left.T) / count[k]
            must = "rows whose residuals have a covariance"
            fix = "Use fewer states, or lags."
            positive = np.linalg.eigvalsh(left)[0] > 0
            check(bool(positive), "sequences", must, f"a singular one in state {k}", fix)
            coefficients[k], cov[k] = solved.T, left
        return LinearGaussians(coefficients, cov, self.lags, self.penalty)

    def draw(self, generator, states, inputs=None):
        dim, size = self.coefficients.shape[1], len(states)
        weights, lower = np.asarray(self.coefficients), np.linalg.cholesky(np.asarray(self.cov))
        given = np.zeros((size, 0)) if inputs is None else np.asarray(inputs, float)
        rows = np.zeros((size + self.lags, dim))
        for t, k in enumerate(states):
            before = rows[t : t + self.lags][::-1].reshape(-1)
            phi = np.concatenate([[1.0], before, given[t]])
            rows[t + self.lags] = weights[k] @ phi + lower[k] @ generator.normal(size=dim)
        return rows[self.lags :]

    def _features(self, sequences: Sequences) -> tuple[np.ndarray, np.ndarray]:
        """The features of each row, and which rows have a density: those after the first lags, observed."""
        rows = np.asarray(sequences.rows, float)
        dim, n = self.coefficients.shape[1], len(rows)
        check(rows.shape[1] == dim, "sequences", f"rows of {dim} columns", rows.shape)
        gaps = np.isnan(rows).any(1)
        whole = not gaps.any() if self.lags else not (gaps & ~sequences.missing).any()
        check(whole, "sequences", "without gaps for these emissions", f"NaN in row {gaps.argmax()}")
        since = np.arange(n) - np.repeat(sequences.starts[:-1], sequences.lengths)
        parts = [np.ones((n, 1))]
        for lag in range(1, self.lags + 1):
            before = np.zeros((min(lag, n), dim))
            parts += [np.concatenate([before, rows[:-lag]])[:n]]
        if self.num_inputs:
            wanted, got = (n, self.num_inputs), np.shape(sequences.inputs)
            check(got == wanted, "inputs", f"of shape {wanted}", f"shape {got}")
            parts.append(np.asarray(sequences.inputs, float))
        return np.concatenate(parts, 1), (since >= self.lags) & ~gaps
