r"""Kernel principal components: directions of largest variance among features that are never computed.

Gram.        With shares $p_n$ of rows, $\tilde k(x, x') = k(x, x') - \sum_n p_n[k(x, x_n) + k(x_n, x')] +
             \sum_{nm}p_n p_m k(x_n, x_m)$ is the inner product of centred features.
Directions.  $P^{1/2}\tilde K P^{1/2}u_i = \lambda_i u_i$; the coordinate of $x$, of variance $\lambda_i$, is
             $\sum_n c_{ni}\tilde k(x, x_n)$ with $c_i = P^{1/2}u_i/\sqrt{\lambda_i}$. The linear kernel gives
             principal components.
Pre-image.   A point has no exact pre-image in general: `inverse` is a kernel ridge regression of rows on
             their coordinates.
Cost.        $O(n^2 d + n^3)$, or $O(n^2 k)$ for few directions; $O(n)$ kernels for each new row.
References.  Schölkopf, Smola and Müller (1998); Bakir, Weston and Schölkopf (2004).
"""

from typing import Any

import numpy as np

from tractable.core.checks import check, check_count, has_values
from tractable.core.module import Module, field
from tractable.core.rows import Rows, points
from tractable.core.types import Values
from tractable.kernels.base import Kernel
from tractable.latent.factor.solvers import leading_eigen

__all__ = ["KernelPrincipalComponents"]

_LEAST = 1e-12  # of the largest variance: below, a direction is rounding


class KernelPrincipalComponents(Module):
    """Coordinates of rows along the leading directions of the features of a kernel.

    >>> from tractable.kernels import Linear
    >>> found = KernelPrincipalComponents.fit(np.array([[0.0, 0.0], [3.0, 4.0]]), Linear(), 1)
    >>> found.variances.round(6).tolist()
    [6.25]
    """

    kernel: Kernel
    rows: Values = field(show=False)
    shares: Values = field(show=False)
    levels: Values = field(show=False)  # the mean kernel of each row with all
    level: Any = field(show=False)
    coefficients: Values = field(show=False)
    variances: Values
    total_variance: Any
    mean: Values = field(show=False)
    preimage: Values = field(show=False)  # weights of the regression back to rows

    @classmethod
    def fit(
        cls, X: Any, kernel: Kernel, num_components: int | None = None, *, weights: Any = None,
        most: int | None = None, penalty: float | int = 1e-6,
    ) -> "KernelPrincipalComponents":  # fmt: skip
        """The directions of rows: `num_components`, or as many as features vary along, at most `most`.

        `penalty`, relative to the largest kernel, is for the way back.
        """
        rows = Rows.of(X, None, weights)
        check(penalty > 0, "penalty", "positive", penalty)
        x, p = np.asarray(rows.X), np.asarray(rows.weights) / float(rows.total)
        gram = np.asarray(kernel.gram(x))
        levels = gram @ p
        level = float(p @ levels)
        centred = gram - levels[:, None] - levels[None] + level
        root = np.sqrt(p)
        scaled = root[:, None] * centred * root[None]
        count = min(len(x), most or len(x)) if num_components is None else num_components
        count = check_count("num_components", count, 1, len(x))
        found = leading_eigen(scaled, count)
        varies = found.variances > _LEAST * max(found.variances[0], _LEAST * np.abs(gram).max())
        rank = int(varies.sum())
        got = "features that do not vary"
        check(
            rank >= 1,
            "X",
            "rows with distinct features",
            got,
            "A constant kernel, or one row, has no directions.",
        )
        check(
            num_components is None or rank == count,
            "num_components",
            f"at most {rank}, as features vary",
            count,
        )
        u, variances = found.components[:rank].T, found.variances[:rank]
        scores = centred @ (root[:, None] * u / np.sqrt(variances))
        mean = p @ x
        back = _regression(kernel, scores, x - mean, penalty)
        coefficients = root[:, None] * u / np.sqrt(variances)
        total = np.asarray(np.trace(scaled))
        return cls(kernel, x, p, levels, np.asarray(level), coefficients, variances, total, mean, back)

    def transform(self, X: Any) -> Values:
        """The coordinates of each row, seen before or new."""
        x = points(X, self.rows.shape[1])
        gram = self.kernel.gram(x, self.rows)
        gram = np.asarray(gram) if has_values((self, x)) else gram
        centred = gram - (gram @ self.shares)[:, None] - self.levels[None] + self.level
        return centred @ self.coefficients

    def inverse(self, Z: Any) -> Values:
        """A row whose coordinates are near these."""
        z = points(Z, self.coefficients.shape[1], name="Z")
        gram = self.kernel.gram(z, self._scores())
        gram = np.asarray(gram) if has_values((self, z)) else gram
        return self.mean[None] + gram @ self.preimage

    @property
    def explained_ratio(self) -> Values:
        """The share of each direction in the variance of all features."""
        return self.variances / self.total_variance

    def _scores(self) -> Values:
        """The coordinates of the rows of the fit: the eigenvectors in other units."""
        return self.coefficients * (self.variances[None] / self.shares[:, None])


def _regression(kernel: Kernel, scores: np.ndarray, rest: np.ndarray, penalty: float | int) -> np.ndarray:
    gram = np.asarray(kernel.gram(scores))
    ridge = penalty * float(np.diag(gram).max())
    return np.linalg.solve(gram + ridge * np.eye(len(gram)), rest)
