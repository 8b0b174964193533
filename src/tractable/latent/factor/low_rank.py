r"""Covariances of low rank plus noise: what one component of a mixture does with its weighted covariance.

Isotropic.   $WW^\top + \sigma^2 I$: the maximum in closed form, so the whole M-step of a component.
Diagonal.    $WW^\top + \Psi$: one step of EM, which never lowers the likelihood of a mixture.
Use.         On the host, or under `jit` and `vmap` over the covariances $S_c/N_c$ of all components;
             the density is that of `core.factors.DiagonalPlusLowRank`.
Cost.        $O(d^3)$; $O(d^2 k)$ for the step.
References.  Tipping and Bishop (1999); Ghahramani and Hinton (1996).
"""

import numpy as np

from tractable.core.checks import namespace
from tractable.core.types import Values
from tractable.latent.factor.solvers import by_eigen, leading_eigen

__all__ = ["factor_step", "isotropic_factors"]


def isotropic_factors(cov: Values, num_components: int) -> tuple[Values, Values]:
    r"""The loadings $W$ and the noise $\sigma^2$ of highest likelihood for a covariance.

    >>> loadings, noise = isotropic_factors(np.diag([5.0, 1.0, 1.0]), 1)
    >>> loadings.round(6).tolist(), float(noise.round(6))
    ([[2.0], [0.0], [0.0]], 1.0)
    """
    xp = namespace(cov)
    d = cov.shape[-1]
    found = by_eigen(np.asarray(cov), num_components) if xp is np else leading_eigen(cov, num_components)
    noise = (xp.trace(cov) - found.variances.sum()) / (d - num_components)
    return found.components.T * xp.sqrt(xp.maximum(found.variances - noise, 0.0))[None], xp.asarray(noise)


def factor_step(cov: Values, loadings: Values, noise: Values) -> tuple[Values, Values]:
    r"""One step of EM for a covariance $S$ about the mean: the M-step of a component of a mixture.

    $B = G W^\top\Psi^{-1}$, $W' = S B^\top(G + B S B^\top)^{-1}$ and $\Psi' = \mathrm{diag}(S - W' B S)$.
    """
    xp = namespace(cov, loadings, noise)
    scaled = loadings / noise[:, None]
    inner = xp.linalg.inv(xp.eye(loadings.shape[1]) + loadings.T @ scaled)
    gain = inner @ scaled.T
    cross = cov @ gain.T
    new = xp.linalg.solve(inner + gain @ cross, cross.T).T
    return new, xp.diagonal(cov) - (new * cross).sum(1)
