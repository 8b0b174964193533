r"""Probabilistic principal components: linear factors with the same noise in every column.

Model.       $z \sim N(0, I_k)$, $x \mid z \sim N(\mu + Wz, \sigma^2 I)$, so
             $x \sim N(\mu, WW^\top + \sigma^2 I)$.
Closed form. With $\lambda_i, u_i$ of the covariance, $\sigma^2 = \frac{1}{d - k}\sum_{i > k}\lambda_i$ and
             $W = U_k(\Lambda_k - \sigma^2 I)^{1/2}$ is the highest likelihood, up to a rotation of $z$.
Limit.       As $\sigma^2 \to 0$ the posterior mean of $Wz$ is the projection of principal components.
Missing.     Expectation-maximisation with exact conditional moments (`inference.EM`).
Cost.        $O(nd^2 + d^3)$ in closed form; $O(ndk)$ a step of EM, without a covariance.
References.  Tipping and Bishop (1999); Roweis (1998).
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
from tractable.latent.factor.low_rank import isotropic_factors
from tractable.latent.factor.principal import PrincipalComponents, moments_from

__all__ = ["ProbabilisticPCA"]


class ProbabilisticPCA(LinearFactors):
    r"""$x \sim N(\mu, WW^\top + \sigma^2 I)$ with `loadings` $W$ and `noise` $\sigma^2$.

    >>> model = ProbabilisticPCA(jnp.zeros(2), jnp.array([[1.0], [1.0]]), 1.0)
    >>> model.cov.tolist(), model.posterior(jnp.array([[3.0, 3.0]])).mean.round(6).tolist()
    ([[2.0, 1.0], [1.0, 2.0]], [[2.0]])
    """

    def _with(self, mean: Array, loadings: Array, left: Array) -> "ProbabilisticPCA":
        return ProbabilisticPCA(mean, loadings, left.mean())

    @classmethod
    @takes_key
    def random(cls, key: Key, num_components: int, *, dim: int) -> "ProbabilisticPCA":
        """Small random loadings, mean zero and unit noise: where EM may begin on rows of about unit size."""
        k = check_count("num_components", num_components, 1, check_count("dim", dim) - 1)
        return cls(jnp.zeros(dim), 0.1 * jr.normal(key, (dim, k)), jnp.ones(()))

    @classmethod
    def fit(cls, X: Any, num_components: int, *, weights: Any = None, algorithm: Any = None) -> FactorFit:
        """Maximum likelihood: in closed form, or where entries are missing (NaN) by EM.

        >>> rows = np.array([[0.0, 0.1], [1.0, 0.9], [2.0, 2.1], [3.0, 2.9]])
        >>> fitted = ProbabilisticPCA.fit(rows, 1)
        >>> round(float(fitted.model.noise), 6)
        0.004157
        """
        rows = Rows.of(X, None, weights, gaps=True)
        k = check_count("num_components", num_components, 1, rows.num_columns - 1)
        if not rows.has_gaps:
            return cls.from_moments(moments_from(rows), k)
        return fit_with_gaps(cls, rows, k, algorithm or EM(tol=1e-9, max_steps=2000), own_units=False)

    @classmethod
    def from_moments(cls, moments: Moments, num_components: int) -> FactorFit:
        """Maximum likelihood from weight, mean and scatter, which add over rows."""
        d = moments.dim
        k = check_count("num_components", num_components, 1, d - 1)
        cov = moments.cov()
        loadings, noise = isotropic_factors(cov, k)
        least = d * np.finfo(float).eps * float(np.trace(cov)) / d
        must = f"rows with variance outside {k} directions"
        fix = "Take fewer components, or `PrincipalComponents`, which needs no density."
        check(noise > least, "X", must, f"a variance of {noise:.3g} there", fix)
        n, logs = float(moments.count), np.linalg.slogdet(loadings @ loadings.T + noise * np.eye(d))[1]
        evidence = -0.5 * n * (d * np.log(2 * np.pi) + logs + d)  # tr(S C^-1) is d at the maximum
        model = cls(*(to_device(np.asarray(part)) for part in (moments.mean, loadings, noise)))
        return FactorFit(model, evidence, moments.count, 1, np.asarray(int(Status.converged)))

    @classmethod
    def from_components(cls, found: PrincipalComponents) -> "ProbabilisticPCA":
        """The model of highest likelihood that has these directions (in units of the columns as given)."""
        k, d = found.components.shape
        check(
            bool(np.all(np.asarray(found.scale) == 1)),
            "found",
            "of columns in their own units",
            "standardised",
        )
        # with all directions, the last has no more than the noise, and the covariance is that of the rows
        noise = found.residual_variance / (d - k) if k < d else found.variances[-1]
        loadings = found.components.T * np.sqrt(np.maximum(found.variances - noise, 0.0))
        return cls(found.mean, loadings, noise)

    @property
    def components(self) -> Array:
        """The orthonormal directions that the loadings span, the most variable first."""
        return jnp.linalg.svd(self.loadings, full_matrices=False)[0].T
