r"""Shapes of covariance of a mixture's components: full, tied, diagonal, spherical, low-rank.

M-step.      From counts $N_k$ and scatters $S_k = \sum_n r_{nk}(x_n - \mu_k)(x_n - \mu_k)^\top$: full
             $S_k/N_k$; tied $\sum_k S_k/N$; diagonal its diagonal; spherical the mean of that; low-rank
             $\Lambda_k\Lambda_k^\top + \mathrm{diag}(\psi_k)$ by steps of factor analysis on $S_k/N_k$,
             each of which raises the likelihood.
Floor.       $\Sigma_k \succeq \mathrm{diag}(f)$: eigenvalues of $D^{-1/2}\Sigma_k D^{-1/2}$, $D =
             \mathrm{diag}(f)$, below one become one. That is the exact maximiser under the constraint, so EM
             still climbs, and nothing is added where the floor is not reached.
Cost.        $O(kd^3)$.
References.  Hathaway (1985) and Ingrassia (2004) (constrained maximum likelihood); Ghahramani and Hinton
             (1996).
"""

from typing import Any, ClassVar

import numpy as np

from tractable.core.checks import check, check_count, check_option, namespace
from tractable.core.module import Module, field
from tractable.core.support import positive, psd, real
from tractable.core.types import Values
from tractable.distributions.soft_moments import precision_roots

__all__ = [
    "COVARIANCES", "Diagonal", "Fixed", "Full", "LowRank", "Spherical", "Spread", "Tied", "place_and_spread",
    "raised", "spread_of",
]  # fmt: skip

_INNER = 10  # steps of factor analysis per M-step: its own EM is slow, and costs no pass over the rows
_AT = 1 + 1e-6  # an eigenvalue this close to the floor lies on it


class Spread(Module):
    """The covariances of all components; `needs_full` says whether its M-step reads whole scatters."""

    needs_full: ClassVar[bool] = True

    def dense(self, k: int, dim: int) -> Values:
        """The covariance matrices, `(k, d, d)`."""
        raise NotImplementedError

    def roots(self, k: int, dim: int) -> tuple[Values, Values]:
        r"""$W_k$ with $W_kW_k^\top = \Sigma_k^{-1}$ (or its diagonal), and $\log|\Sigma_k|$."""
        return precision_roots(self.dense(k, dim))

    def fitted(self, divisor: Values, scatter: Values, floor: Values) -> "Spread":
        """The covariances of highest expected log-likelihood above the floor."""
        raise NotImplementedError

    def num_parameters(self, k: int, dim: int) -> int:
        """How many free numbers it has."""
        raise NotImplementedError

    def on_floor(self, k: int, floor: Values) -> np.ndarray:
        """Which components have a direction whose variance lies on the floor."""
        least = np.asarray(floor)
        if not (least > 0).all():
            return np.zeros(k, bool)
        unit = np.sqrt(least)
        whitened = np.asarray(self.dense(k, len(unit))) / np.multiply.outer(unit, unit)
        return np.linalg.eigvalsh(whitened)[:, 0] <= _AT


class Full(Spread):
    """A covariance matrix of its own for each component, `cov` of shape (k, d, d)."""

    cov: Any = field(support=psd)

    def dense(self, k, dim):
        return namespace(self.cov).asarray(self.cov)

    def fitted(self, divisor, scatter, floor):
        own = divisor > 0
        xp = namespace(divisor, scatter, self.cov)
        mean = scatter / xp.where(own, divisor, 1.0)[:, None, None]
        return Full(xp.where(own[:, None, None], raised(mean, floor), self.dense(0, 0)))

    def num_parameters(self, k, dim):
        return k * dim * (dim + 1) // 2


class Tied(Spread):
    """One covariance matrix for all components, `cov` of shape (d, d)."""

    cov: Any = field(support=psd)

    def dense(self, k, dim):
        xp = namespace(self.cov)
        return xp.broadcast_to(xp.asarray(self.cov), (k, dim, dim))

    def roots(self, k, dim):
        xp = namespace(self.cov)
        root, log_det = precision_roots(xp.asarray(self.cov)[None])
        return xp.broadcast_to(root, (k, dim, dim)), xp.broadcast_to(log_det, (k,))

    def fitted(self, divisor, scatter, floor):
        return Tied(raised(scatter.sum(0) / divisor.sum(), floor))

    def num_parameters(self, k, dim):
        return dim * (dim + 1) // 2


class Diagonal(Spread):
    """Independent columns in each component: `variance` of shape (k, d)."""

    needs_full: ClassVar[bool] = False
    variance: Any = field(support=positive, rank=2)

    def dense(self, k, dim):
        xp = namespace(self.variance)
        return xp.asarray(self.variance)[:, :, None] * xp.eye(dim)[None]

    def roots(self, k, dim):
        xp = namespace(self.variance)
        variance = xp.asarray(self.variance)
        return variance**-0.5, xp.log(variance).sum(-1)

    def fitted(self, divisor, scatter, floor):
        own, xp = divisor > 0, namespace(divisor, scatter, self.variance)
        mean = scatter / xp.where(own, divisor, 1.0)[:, None]
        return Diagonal(xp.where(own[:, None], xp.maximum(mean, floor[None]), xp.asarray(self.variance)))

    def num_parameters(self, k, dim):
        return k * dim

    def on_floor(self, k, floor):
        least = np.asarray(floor)
        return (least > 0).all() & (np.asarray(self.variance) <= _AT * least).any(1)


class Spherical(Spread):
    """One variance for all columns of a component: `variance` of shape (k,). Its floor is the mean one."""

    needs_full: ClassVar[bool] = False
    variance: Any = field(support=positive, rank=1)

    def dense(self, k, dim):
        xp = namespace(self.variance)
        return xp.asarray(self.variance)[:, None, None] * xp.eye(dim)[None]

    def roots(self, k, dim):
        xp = namespace(self.variance)
        variance = xp.asarray(self.variance)
        return xp.broadcast_to(variance[:, None] ** -0.5, (k, dim)), dim * xp.log(variance)

    def fitted(self, divisor, scatter, floor):
        own, xp = divisor > 0, namespace(divisor, scatter, self.variance)
        mean = scatter.mean(-1) / xp.where(own, divisor, 1.0)
        return Spherical(xp.where(own, xp.maximum(mean, xp.asarray(floor).mean()), xp.asarray(self.variance)))

    def num_parameters(self, k, dim):
        return k

    def on_floor(self, k, floor):
        least = np.asarray(floor).mean()
        return (least > 0) & (np.asarray(self.variance) <= _AT * least)


class Fixed(Spherical):
    r"""Spherical variances that no fit changes: with one small $\tau$ for all, EM is k-means."""

    def fitted(self, divisor, scatter, floor):
        return self

    def num_parameters(self, k, dim):
        return 0

    def on_floor(self, k, floor):
        return np.zeros(k, bool)


class LowRank(Spread):
    r"""Mixtures of factor analysers: $\Lambda_k\Lambda_k^\top + \mathrm{diag}(\psi_k)$ with `loadings` (k,
    d, q) and `noise` (k, d)."""

    loadings: Any = field(support=real, rank=3)
    noise: Any = field(support=positive, rank=2)

    def dense(self, k, dim):
        xp = namespace(self.loadings, self.noise)
        loadings = xp.asarray(self.loadings)
        return loadings @ loadings.swapaxes(1, 2) + xp.asarray(self.noise)[:, :, None] * xp.eye(dim)[None]

    def fitted(self, divisor, scatter, floor):
        own, xp = divisor > 0, namespace(divisor, scatter, self.noise)
        mean = scatter / xp.where(own, divisor, 1.0)[:, None, None]
        old, noise = xp.asarray(self.loadings), xp.asarray(self.noise)
        loadings = old
        for _ in range(_INNER):
            loadings, noise = _factor_step(loadings, noise, mean, floor)
        flags = own[:, None, None]
        kept = xp.where(own[:, None], noise, xp.asarray(self.noise))
        return LowRank(xp.where(flags, loadings, old), kept)

    def num_parameters(self, k, dim):
        rank = np.shape(self.loadings)[-1]
        return k * (dim * rank + dim - rank * (rank - 1) // 2)

    def on_floor(self, k, floor):
        least = np.asarray(floor)
        return (least > 0).all() & (np.asarray(self.noise) <= _AT * least).any(1)


COVARIANCES = ("full", "tied", "diagonal", "spherical", "low_rank")


def spread_of(name: str, cov: Any, counts: Any, rank: int = 1) -> Spread:
    """The named shape nearest to covariance matrices `(k, d, d)`, weighted by `counts` where it is shared.

    >>> spread_of("spherical", np.eye(2)[None] * np.array([1.0, 3.0]), np.ones(1))
    Spherical(variance=[2.0])
    """
    check_option("covariance", name, COVARIANCES)
    cov, counts = np.asarray(cov, float), np.asarray(counts, float)
    variance = np.diagonal(cov, axis1=1, axis2=2)
    if name == "full":
        return Full(cov)
    if name == "tied":
        return Tied(np.tensordot(counts / counts.sum(), cov, 1))
    if name == "diagonal":
        return Diagonal(variance.copy())
    if name == "spherical":
        return Spherical(variance.mean(1))
    dim = cov.shape[1]
    rank = check_count("rank", rank, most=max(dim - 1, 1))
    check(dim > 1, "rows", "of at least two columns for low-rank covariances", f"{dim} column")
    values, vectors = np.linalg.eigh(cov)
    rest = np.maximum(values[:, : dim - rank].mean(1), 1e-3 * variance.mean(1))  # the closed form of PPCA
    lengths = np.sqrt(np.maximum(values[:, dim - rank :] - rest[:, None], 0.1 * rest[:, None]))
    loadings = vectors[:, :, dim - rank :] * lengths[:, None, :]
    noise = np.maximum(variance - (loadings**2).sum(-1), 0.1 * np.maximum(variance, rest[:, None]))
    return LowRank(loadings, noise)


def place_and_spread(moments: Any, divisor: Any, centre: Any, means: Any, spread: Spread,
                     floor: Any) -> tuple[Any, Spread]:  # fmt: skip
    """Means and covariances of highest likelihood above the floor, from moments about a centre; a component
    that owns no row stays where it is."""
    xp = namespace(moments, divisor, centre, means, spread)
    count, first, second = (xp.asarray(a) for a in (moments.count, moments.first, moments.second))
    owns = count > 0
    away = first / xp.where(owns, count, 1.0)[:, None]
    placed = xp.where(owns[:, None], xp.asarray(centre)[None] + away, xp.asarray(means))
    outer = away[:, :, None] * first[:, None, :] if spread.needs_full else away * first
    return placed, spread.fitted(xp.asarray(divisor), second - outer, xp.asarray(floor))


def raised(cov: Any, floor: Any) -> Any:
    """The covariance above the floor that is likeliest for scatter `cov`; the same where it is above."""
    xp = namespace(cov, floor)
    cov = 0.5 * (cov + cov.swapaxes(-1, -2))
    unit = xp.sqrt(xp.asarray(floor))
    if xp is np and not (unit > 0).all():  # no floor
        return cov
    scale = (unit[:, None] * unit[None, :]).reshape((1,) * (cov.ndim - 2) + (len(unit),) * 2)
    values, vectors = xp.linalg.eigh(cov / scale)
    low = values[..., 0] < 1
    if xp is np and not low.any():
        return cov
    raised = (vectors * xp.maximum(values, 1.0)[..., None, :]) @ vectors.swapaxes(-1, -2) * scale
    return xp.where(low[..., None, None], 0.5 * (raised + raised.swapaxes(-1, -2)), cov)


def _factor_step(loadings: Any, noise: Any, cov: Any, floor: Any) -> tuple[Any, Any]:
    r"""One EM step of factor analysis on a covariance: with $\beta = \Lambda^\top\Sigma^{-1}$, $\Lambda' =
    S\beta^\top(I - \beta\Lambda + \beta S\beta^\top)^{-1}$, $\psi' = \mathrm{diag}(S - \Lambda'\beta S)$."""
    xp = namespace(loadings, noise, cov)
    scaled = loadings / noise[:, :, None]
    eye = xp.eye(loadings.shape[-1])[None]
    inner = xp.linalg.inv(eye + loadings.swapaxes(1, 2) @ scaled)  # Woodbury: $\beta = (I + \ldots)^{-1}$ ...
    beta = inner @ scaled.swapaxes(1, 2)
    cross = cov @ beta.swapaxes(1, 2)
    second = inner + beta @ cross
    new = cross @ xp.linalg.inv(second)
    left = xp.diagonal(cov, axis1=1, axis2=2) - (new * cross).sum(-1)
    return new, xp.maximum(left, xp.maximum(floor[None], 1e-12 * xp.diagonal(cov, axis1=1, axis2=2)))
