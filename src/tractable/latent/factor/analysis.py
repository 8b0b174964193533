r"""Factor analysis: linear factors with a noise of its own for every column, so that units do not matter.

Model.       $z \sim N(0, I_k)$, $x \mid z \sim N(\mu + Wz, \Psi)$ with $\Psi$ diagonal.
Profile.     For given $\Psi$ the best $W$ is $\Psi^{1/2}U_k(\Theta_k - I)^{1/2}$, with $\theta_i, u_i$ of
             $\Psi^{-1/2}S\Psi^{-1/2}$. What is left, $\log|\Psi| + \sum_{i \le k}(\log\theta_i + 1) +
             \sum_{i > k}\theta_i$, is a function of $\Psi$ with gradient $\mathrm{diag}(WW^\top + \Psi - S)/
             \psi^2$, which a quasi-Newton method minimises: rows are read once, for their covariance.
EM.          Under `inference.EM`, for rows with gaps, in chunks, or on a cluster: the same optimum, slowly.
Heywood.     The likelihood may rise as the noise of a column falls to zero: it stops at `least_noise` of the
             column's variance, and the verdict names the column.
Rotation.    $WR$ for orthogonal $R$ is the same density; `latent.factor.rotation` finds a simple one.
Cost.        $O(nd^2)$ once, then $O(d^2 k)$ to $O(d^3)$ a step.
References.  Jöreskog (1967); Lawley and Maxwell (1971); Rubin and Thayer (1982).
"""

from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import check, check_count, to_device
from tractable.core.iterate import Status
from tractable.core.keys import takes_key
from tractable.core.moments import Moments
from tractable.core.rows import Rows
from tractable.core.types import Array, Key
from tractable.inference.expectation_maximisation.em import EM
from tractable.latent.factor.fits import FactorFit
from tractable.latent.factor.gaps import fit_with_gaps
from tractable.latent.factor.linear_factors import LinearFactors
from tractable.latent.factor.principal import moments_from

__all__ = ["FactorAnalysis"]


class FactorAnalysis(LinearFactors):
    r"""$x \sim N(\mu, WW^\top + \Psi)$ with `loadings` $W$ and one `noise` $\psi_j$ for each column.

    >>> rows = FactorAnalysis(jnp.zeros(4), jnp.ones((4, 1)), jnp.ones(4) / 2).sample(jr.key(0), (2000,))
    >>> fitted = FactorAnalysis.fit(rows, 1)
    >>> fitted.model.noise.round(1).tolist(), fitted.verdict.ok
    ([0.5, 0.5, 0.5, 0.5], True)
    """

    def _with(self, mean: Array, loadings: Array, left: Array) -> "FactorAnalysis":
        return FactorAnalysis(mean, loadings, left)

    @classmethod
    @takes_key
    def random(cls, key: Key, num_components: int, *, dim: int) -> "FactorAnalysis":
        """Small random loadings, mean zero and unit noise: where EM may begin on rows of about unit size."""
        k = check_count("num_components", num_components, 1, check_count("dim", dim))
        return cls(jnp.zeros(dim), 0.1 * jr.normal(key, (dim, k)), jnp.ones(dim))

    @classmethod
    def fit(
        cls, X: Any, num_components: int, *, weights: Any = None, least_noise: float | int = 1e-4,
        max_steps: int = 1000, tol: float | int = 1e-10, algorithm: Any = None,
    ) -> FactorFit:  # fmt: skip
        """Maximum likelihood: from the covariance, or where entries are missing (NaN) by EM."""
        rows = Rows.of(X, None, weights, gaps=True)
        if not rows.has_gaps:
            options = {"least_noise": least_noise, "max_steps": max_steps, "tol": tol}
            return cls.from_moments(moments_from(rows), num_components, names=rows.names, **options)
        k = check_count("num_components", num_components, 1, rows.num_columns)
        climb = algorithm or EM(tol=1e-9, max_steps=2000, accelerate=True)
        return fit_with_gaps(cls, rows, k, climb, own_units=True, least_noise=least_noise)

    @classmethod
    def from_moments(
        cls, moments: Moments, num_components: int, *, names: Any = None, least_noise: float | int = 1e-4,
        max_steps: int = 1000, tol: float | int = 1e-10,
    ) -> FactorFit:  # fmt: skip
        """Maximum likelihood from weight, mean and scatter, which add over rows."""
        d = moments.dim
        k = check_count("num_components", num_components, 1, d)
        check(0 < least_noise < 1, "least_noise", "between 0 and 1, a share of the variance", least_noise)
        spread = np.sqrt(moments.squares / moments.count)
        fixed = spread == 0
        check(not fixed.all(), "X", "at least two distinct rows", "one sample, or copies of one")
        used = np.flatnonzero(~fixed)
        unit = spread[used]
        corr = moments.cov()[np.ix_(used, used)] / np.outer(unit, unit)
        found = _profile(corr, min(k, len(used)), least_noise, max_steps, tol)
        loadings, noise = np.zeros((d, k)), np.ones(d)
        loadings[used, : found.loadings.shape[1]] = found.loadings * unit[:, None]
        noise[used] = found.noise * unit**2
        n, m = float(moments.count), len(used)
        evidence = -0.5 * n * (m * np.log(2 * np.pi) + found.value + 2 * np.log(unit).sum())
        low = used[found.noise <= least_noise * (1 + 1e-6)]
        label = (lambda j: int(j)) if names is None else (lambda j: names[int(j)])
        model = cls(*(to_device(np.asarray(part)) for part in (moments.mean, loadings, noise)))
        return FactorFit(
            model, evidence, moments.count, found.num_steps, np.asarray(int(found.status)), None,
            tuple(label(j) for j in low), tuple(label(j) for j in np.flatnonzero(fixed)),
        )  # fmt: skip


class _Found:
    """Where a minimisation over the noise of columns ended."""

    def __init__(self, loadings: np.ndarray, noise: np.ndarray, value: float, steps: int, status: Status):
        self.loadings, self.noise, self.value, self.num_steps, self.status = (
            loadings,
            noise,
            value,
            steps,
            status,
        )


def _profile(corr: np.ndarray, k: int, least: float, max_steps: int, tol: float | int) -> _Found:
    r"""The minimum over $\log\psi$ of the profile: $-2/n$ times the log-likelihood without its constant."""
    import scipy.optimize

    start = _first_noise(corr, k, least)
    bounds = [(np.log(least), 0.0)] * len(corr)
    options = {"maxiter": max_steps, "maxfun": 20 * max_steps, "ftol": tol * 1e-3, "gtol": tol**0.5 * 1e-2}
    found = scipy.optimize.minimize(
        lambda free: _value_and_slope(free, corr, k)[:2], np.log(start), jac=True, method="L-BFGS-B",
        bounds=bounds, options={**options, "maxcor": 20},
    )  # fmt: skip
    value, _, loadings = _value_and_slope(found.x, corr, k)
    status = Status.converged if found.success else Status.exhausted
    return _Found(loadings, np.exp(found.x), value, int(found.nit), status)


def _value_and_slope(free: np.ndarray, corr: np.ndarray, k: int) -> tuple[float, np.ndarray, np.ndarray]:
    import scipy.linalg

    d, noise = len(corr), np.exp(free)
    root = np.sqrt(noise)
    scaled = corr / np.outer(root, root)
    values, vectors = scipy.linalg.eigh(scaled, subset_by_index=[d - k, d - 1], check_finite=False)
    above = np.maximum(values, 1.0)
    loadings = root[:, None] * vectors * np.sqrt(above - 1)
    # a direction with theta below one has no factor: its theta counts as it is
    rest = np.trace(scaled) - values.sum() + np.where(values < 1, values - 1, 0.0).sum()
    value = free.sum() + np.log(above).sum() + k + rest
    slope = ((loadings**2).sum(1) + noise - np.diag(corr)) / noise
    return float(value), slope, loadings[:, ::-1]


def _first_noise(corr: np.ndarray, k: int, least: float) -> np.ndarray:
    """The part of each column that the others do not tell, a little less (Jöreskog's start)."""
    d = len(corr)
    alone = 1 / np.diag(np.linalg.inv(corr + 1e-3 * np.eye(d)))
    return np.clip((1 - 0.5 * min(k, d - 1) / d) * alone, 10 * least, 0.99)
