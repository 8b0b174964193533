r"""Independent components: sources that were mixed linearly, by their departure from the Gaussian.

Model.       $x = \mu + A s$ with independent sources $s_i$ of unit variance. Rows are whitened (principal
             components), so that what is left to find is a rotation $W$: $s = W z$.
Fixed point. $W \leftarrow E[g(Wz)z^\top] - \mathrm{diag}(E[g'(Wz)])W$, then $W \leftarrow (WW^\top)^{-1/2}W$
             (symmetric decorrelation): Newton's step for $\sum_i E[G(s_i)]$, of cubic rate near a solution.
Likelihood.  With sources of density $p(s) = \frac12\mathrm{sech}(\pi s/2)$ (heavier tails than the Gaussian),
             $\log p(x) = \sum_i\log p(w_i^\top x) + \log|\det W|$, which Infomax climbs: `log_prob`.
Limits.      Order and signs of sources are not determined: the largest entry of each row of the unmixing is
             positive, the order is that of departure from the Gaussian. Two Gaussians cannot be parted.
Cost.        $O(nk^2)$ a step.
References.  Comon (1994); Bell and Sejnowski (1995); Hyvärinen (1999).
"""

import dataclasses
from typing import Any

import numpy as np

from tractable.core.checks import check, check_count, check_option, namespace
from tractable.core.host_random import generator
from tractable.core.iterate import Ended, Status
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.rows import Rows, points
from tractable.core.types import Key, Values
from tractable.core.verdict import Verdict
from tractable.latent.factor.principal import PrincipalComponents

__all__ = ["IndependentComponents"]

_LEAST = 1e-12  # of the largest variance: below, a direction is rounding


class IndependentComponents(Ended, Module):
    """Sources `transform(X)` of unit variance, and how they mix: `mixing` $A$, `unmixing` $A^+$."""

    mean: Values = field(show=False)
    unmixing: Values = field(show=False)  # (k, d)
    mixing: Values = field(show=False)  # (d, k)
    kurtosis: Values = field(about="excess of each source; zero for a Gaussian")
    count: Any
    num_steps: Any
    code: Any = field(show=False)

    @classmethod
    @takes_key
    def fit(
        cls, X: Any, num_components: int | None = None, *, key: Key, contrast: str = "logcosh",
        weights: Any = None, max_steps: int = 500, tol: float | int = 1e-8,
    ) -> "IndependentComponents":  # fmt: skip
        """The sources by the fixed point of a contrast: "logcosh" (of all work), "exp" (of heavy tails) or
        "cube" (kurtosis; outliers decide).

        >>> s = np.random.default_rng(0).uniform(-1, 1, (2000, 2))
        >>> found = IndependentComponents.fit(s @ [[1.0, 0.5], [0.5, 1.0]], key=0)
        >>> found.status.name, (found.kurtosis < -1).tolist()
        ('converged', [True, True])
        """
        check_option("contrast", contrast, tuple(_CONTRASTS))
        max_steps = check_count("max_steps", max_steps)
        rows = Rows.of(X, None, weights, least=2)
        axes = PrincipalComponents.fit(rows, num_components, standardise=True)
        axes = _varying(axes, num_components)
        z, p = np.asarray(axes.whiten(rows)), np.asarray(rows.weights) / float(rows.total)
        start = generator(key).standard_normal((z.shape[1], z.shape[1]))
        turn, steps, code = _fixed_point(z, p, _orthogonal(start), contrast, max_steps, tol)
        kurtosis = p @ (z @ turn.T) ** 4 - 3
        turn = turn[np.argsort(-np.abs(kurtosis), kind="stable")]
        deviations = np.sqrt(np.asarray(axes.variances))
        unmixing = turn @ (np.asarray(axes.components) / deviations[:, None]) / axes.scale
        signs = np.sign(unmixing[np.arange(len(turn)), np.abs(unmixing).argmax(1)])
        mixing = axes.scale[:, None] * (np.asarray(axes.components).T * deviations) @ turn.T
        kurtosis = kurtosis[np.argsort(-np.abs(kurtosis), kind="stable")]
        numbers = (np.asarray(number) for number in (rows.total, steps, int(code)))
        return cls(np.asarray(axes.mean), unmixing * signs[:, None], mixing * signs, kurtosis, *numbers)

    def transform(self, X: Any) -> Values:
        """The sources of each row."""
        return (points(X, self.mean.shape[0]) - self.mean[None]) @ self.unmixing.T

    def inverse(self, Z: Any) -> Values:
        """The row that these sources make."""
        return self.mean[None] + points(Z, self.mixing.shape[1], name="Z") @ self.mixing.T

    def log_prob(self, X: Any) -> Values:
        """The log-density of each row for sources of hyperbolic secant density, one for each column."""
        k, d = self.unmixing.shape
        check(k == d, "num_components", f"that of the columns, {d}, for a density", k)
        xp = namespace(self, X)
        s = xp.abs(self.transform(X)) * (np.pi / 2)
        logs = -(s + xp.log1p(xp.exp(-2 * s)))  # log sech(a) / 2 = -a - log(1 + exp(-2a))
        return logs.sum(1) + xp.linalg.slogdet(self.unmixing)[1]

    @property
    def verdict(self) -> Verdict:
        """Whether the fixed point was reached, and whether the sources can be told apart."""
        error = np.sqrt(24 / float(self.count))
        gaussian = int((np.abs(self.kurtosis) < 3 * error).sum())
        numbers = {"gaussian": gaussian, "num_steps": int(self.num_steps)}
        if self.status.ok and gaussian > 1:
            said = f"{gaussian} sources look Gaussian (kurtosis within three errors of zero): they are mixed."
            return Verdict(False, said, numbers)
        return Verdict(self.status.ok, self.status.sentence, numbers)


def _varying(axes: PrincipalComponents, wanted: int | None) -> PrincipalComponents:
    """The directions that vary: dependent and constant columns have no source of their own."""
    check(bool(axes.variances[0] > 0), "X", "rows of which two differ", "copies of one row")
    count = int((axes.variances > _LEAST * axes.variances[0]).sum())
    must = "at most the number of directions in which the rows vary"
    check(wanted is None or wanted <= count, "num_components", f"{must} ({count})", wanted)
    return dataclasses.replace(axes, components=axes.components[:count], variances=axes.variances[:count])


def _logcosh(s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    g = np.tanh(s)
    return g, 1 - g**2


def _exp(s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    bell = np.exp(-(s**2) / 2)
    return s * bell, (1 - s**2) * bell


def _cube(s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return s**3, 3 * s**2


_CONTRASTS = {"logcosh": _logcosh, "exp": _exp, "cube": _cube}


def _orthogonal(matrix: np.ndarray) -> np.ndarray:
    r"""$(MM^\top)^{-1/2}M$, the nearest orthogonal matrix."""
    left, _, right = np.linalg.svd(matrix)
    return left @ right


def _fixed_point(
    z: np.ndarray, p: np.ndarray, turn: np.ndarray, contrast: str, max_steps: int, tol: float
) -> tuple[np.ndarray, int, Status]:
    """Rows turned until no direction moves by more than `tol` (one minus the cosine)."""
    weighted = z * p[:, None]
    for step in range(1, max_steps + 1):
        g, slope = _CONTRASTS[contrast](z @ turn.T)
        new = _orthogonal(g.T @ weighted - (p @ slope)[:, None] * turn)
        moved = np.max(1 - np.abs((new * turn).sum(1)))
        turn = new
        if moved <= tol:
            return turn, step, Status.converged
    return turn, max_steps, Status.exhausted
