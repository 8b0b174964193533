r"""Sparse Gaussian process regression by inducing points: the collapsed bound, from sums over rows.

Model.       $f \sim GP(m, k)$, $y = f(x) + \epsilon$; all is learnt about $u = f(Z)$ at $M$ inducing points.
Bound.       $\log N(y \mid m, Q + \sigma^2 I) - \frac{1}{2\sigma^2}\mathrm{tr}(K - Q) \le \log p(y)$ with
             $Q = K_{fu} K_{uu}^{-1} K_{uf}$; equal where the inducing points are the rows themselves.
Sums.        With $L L^\top = K_{uu}$ and $a_n = L^{-1} k_u(x_n)$ only $\sum w\,a a^\top$, $\sum w\,a r$,
             $\sum w\,r^2$, $\sum w$ and $\sum w(k_{nn} - a^\top a)$ are needed: rows go through in blocks,
             and a row of weight two is the row twice.
Posterior.   $L^{-1} u \sim N(m_v, S_v)$, $S_v^{-1} = I + \sigma^{-2}\sum a a^\top$: what `gp.svgp`
             approaches by natural gradients.
Cost.        $O(n M^2)$ time, $O(M^2)$ memory besides the rows; $O(M)$ for a mean and $O(M^2)$ for a variance.
References.  Titsias (2009); Hensman, Fusi and Lawrence (2013); Rasmussen and Williams (2006) chapter 8.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tractable.bijections.support import Rebuild, unconstrain
from tractable.core.checks import as_float, check, check_count, to_device
from tractable.core.chunks import pad_rows
from tractable.core.factors import UnitFactor, normal_log_density
from tractable.core.linalg import PsdFactor, psd_factor
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.rows import points
from tractable.core.support import positive, real
from tractable.core.types import Array, ArrayLike, Bool, Float, Scalar
from tractable.distributions.continuous import Normal
from tractable.distributions.gaussian import Learned
from tractable.gp.ascent import ProcessFit, rebuilt
from tractable.gp.latent import LatentPosterior
from tractable.gp.links import Link, as_link
from tractable.gp.means import Mean, ZeroMean, as_mean
from tractable.gp.points import Observed, Table, observe
from tractable.gp.prior import covariance, means, prior_variances
from tractable.kernels.random_features import pivoted_landmarks
from tractable.optim.minimise import minimise

__all__ = ["InducingPosterior", "SparseProcess", "fit_sparse", "inducing_rows"]

_BLOCK = 2048


class SparseProcess(Module):
    """A process known through its values at `inducing` points, seen through noise with variance `noise`, or
    (for `gp.svgp`) through labels behind a `link`.

    Inducing points may lie close together: `jitter`, relative to the mean variance of the function there, is
    added to the diagonal of their covariance, and printed (by default 1e-8, or 1e-4 in single precision). The
    bound stays a lower bound. Where `shown` is false, a point only fills a shape: it has a variance of its
    own and nothing to do with the function.
    """

    kernel: Any
    inducing: Float[Array, "m d"] = field(support=real, rank=2)
    noise: Float[Array, ""] = field(support=positive)
    mean: Mean = field(default=ZeroMean())
    link: Link | None = None
    shown: Bool[Array, " m"] | None = None
    jitter: float = field(static=True, default=1e-8)

    def __init__(
        self,
        kernel: Any,
        inducing: ArrayLike,
        noise: ArrayLike = 1.0,
        mean: Any = None,
        link: Any = None,
        shown: ArrayLike | None = None,
        *,
        jitter: float | None = None,
    ):
        check(hasattr(kernel, "gram"), "kernel", "a Kernel", type(kernel).__name__, error=TypeError)
        self.kernel, self.inducing = kernel, _inducing(inducing)
        self.noise, self.mean = as_float("noise", noise), as_mean(mean)
        self.link = None if link is None else as_link(link)
        self.shown = None if shown is None else to_device(np.asarray(shown, bool))
        if jitter is None:  # about the root of the rounding, below which a factor may not exist
            jitter = 1e-8 if self.inducing.dtype == jnp.float64 else 1e-4
        check(jitter >= 0, "jitter", "zero or positive", jitter)
        self.jitter = float(jitter)

    def posterior(self, X: Table, y: Any = None, weights: Any = None) -> "InducingPosterior":
        """The best Gaussian of the inducing values, after one pass over the rows (or those that
        `gp.points.observe` prepared)."""
        check(self.link is None, "link", "none for the collapsed bound", self.link, "Use `gp.svgp.fit_svgp`.")
        return _collapsed(self, observe(X, y, weights, num_columns=self.inducing.shape[1]))

    def log_evidence(self, X: Table, y: Any = None, weights: Any = None) -> Scalar:
        r"""The lower bound of $\log p(y \mid X)$."""
        return self.posterior(X, y, weights).log_evidence

    def factor(self) -> PsdFactor:
        """The factor of the covariance of the inducing values."""
        gram = covariance(self, self.inducing)
        eye = jnp.eye(gram.shape[0], dtype=gram.dtype)
        if self.shown is None:
            return psd_factor(gram + self.jitter * jnp.diag(gram).mean() * eye)
        level = self.jitter * jnp.where(self.shown, jnp.diag(gram), 0.0).sum() / self.shown.sum()
        both = self.shown[:, None] & self.shown[None]
        return psd_factor(jnp.where(both, gram, 0.0) + jnp.where(self.shown, level, 1.0)[:, None] * eye)

    def rows(self, factor: PsdFactor, X: Float[Array, "n d"]) -> Float[Array, "m n"]:
        r"""$a_n = L^{-1} k_u(x_n)$ as columns."""
        cross = covariance(self, self.inducing, X)
        return factor.half_solve(cross if self.shown is None else jnp.where(self.shown[:, None], cross, 0.0))

    @property
    def num_inducing(self) -> int:
        """How many points count."""
        return self.inducing.shape[0] if self.shown is None else int(np.asarray(self.shown).sum())


class InducingPosterior(LatentPosterior):
    """A process after seeing rows, through a Gaussian of its (whitened) inducing values."""

    process: Any
    factor: PsdFactor  # of the covariance of the inducing values
    learned: Learned  # a belief about the whitened values
    log_evidence: Scalar = field(about="a lower bound")
    num_rows: Scalar

    _shown = ("num_inducing", "num_rows", "log_evidence", "process")

    @property
    def num_inducing(self) -> int:
        """How many inducing points count."""
        return self.process.num_inducing

    @property
    def dim(self) -> int:
        return self.process.inducing.shape[1]

    def cross(self, X: Float[Array, "n d"]) -> Float[Array, "n m"]:
        """The covariance of the function at rows and the whitened inducing values."""
        return self.process.rows(self.factor, X).T

    def predict_dist(self, X: Table) -> Normal:
        """A new target at each row."""
        mean, variance = self.moments(X)
        return Normal(mean, jnp.sqrt(variance + self.process.noise))

    def probability(self, X: Table) -> Any:
        """The probability of label 1 at each row, for a process with a link."""
        check(self.process.link is not None, "link", "given, for probabilities", None)
        return self.process.link.probability(*self.moments(X))


class RowSums(Module):
    """What the bound needs to know about the rows."""

    outer: Float[Array, "m m"]
    inner: Float[Array, " m"]
    square: Scalar
    weight: Scalar
    unexplained: Scalar


def fit_sparse(
    process: SparseProcess,
    X: Table,
    y: Any = None,
    weights: Any = None,
    *,
    max_steps: int = 100,
    tol: float = 1e-2,
) -> ProcessFit:
    """Kernel, noise and inducing points that maximise the bound, from those of `process`; `X` may be rows
    that `gp.points.observe` prepared."""
    observed = observe(X, y, weights, num_columns=process.inducing.shape[1])
    free, rebuild = unconstrain(process)
    run = minimise(_negative, free, args=(rebuild, observed), max_steps=max_steps, tol=tol, curvature=False)
    return ProcessFit(rebuilt(rebuild, run.state), -run.value, run)


def inducing_rows(kernel: Any, X: Table, num_inducing: int, *, num_candidates: int = 4096) -> np.ndarray:
    """At most `num_inducing` rows to begin with: greedily those of the largest variance given those before.

    They are the pivots of a Cholesky factor of `num_candidates` rows at even steps.
    """
    rows = np.asarray(points(X))
    rows = rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), num_candidates)).astype(int))]
    number = min(check_count("num_inducing", num_inducing), len(rows))
    padded = pad_rows(rows)[0]
    return np.asarray(padded)[np.asarray(pivoted_landmarks(kernel, padded, number).indices)]


def row_sums(process: SparseProcess, factor: PsdFactor, observed: Observed) -> RowSums:
    """The sums over all rows, block by block."""
    size = min(_BLOCK, observed.X.shape[0])
    count = -(-observed.X.shape[0] // size)
    extra = count * size - observed.X.shape[0]
    rows = jnp.concatenate([observed.X, jnp.broadcast_to(observed.X[-1:], (extra, observed.X.shape[1]))])
    rest = jnp.zeros(extra, observed.X.dtype)
    y, weights = (jnp.concatenate([v, rest]) for v in (observed.y, observed.weights))
    blocks = jax.tree.map(lambda leaf: leaf.reshape(count, size, *leaf.shape[1:]), (rows, y, weights))

    @jax.checkpoint  # a gradient makes the rows of a block again instead of keeping all of them
    def add(total, block):
        return jax.tree.map(jnp.add, total, _block_sums(process, factor, *block)), None

    first = _block_sums(process, factor, *jax.tree.map(lambda leaf: leaf[0], blocks))
    total = jax.lax.scan(add, first, jax.tree.map(lambda leaf: leaf[1:], blocks))[0]
    # rows that were merged: the squares of their targets about the mean, which stands for them
    return eqx.tree_at(lambda sums: sums.square, total, total.square + observed.within.sum())


def _block_sums(process: SparseProcess, factor: PsdFactor, X: Array, y: Array, weights: Array) -> RowSums:
    a = process.rows(factor, X)
    residual = jnp.where(weights > 0, y - means(process, X), 0.0)
    left = prior_variances(process, X) - (a**2).sum(0)  # below zero by rounding alone
    scaled = a * weights[None]
    return RowSums(
        scaled @ a.T,
        scaled @ residual,
        weights @ residual**2,
        weights.sum(),
        weights @ jnp.maximum(left, 0.0),
    )


def posterior_from_sums(process: SparseProcess, factor: PsdFactor, sums: RowSums) -> InducingPosterior:
    """The best Gaussian of the inducing values and the bound that it reaches."""
    beta = 1 / process.noise
    eye = jnp.eye(sums.outer.shape[0], dtype=sums.outer.dtype)
    precision = psd_factor(eye + beta * sums.outer)
    half = precision.half_solve(beta * sums.inner)
    squares = beta * (sums.square + sums.unexplained) - half @ half
    log_det = sums.weight * jnp.log(process.noise) + precision.log_det()
    bound = normal_log_density(squares, log_det, sums.weight)
    return InducingPosterior(
        process, factor, whitened_belief(beta * sums.inner, precision), bound, sums.weight
    )


def whitened_belief(shift: Float[Array, " m"], precision: PsdFactor) -> Learned:
    r"""$N(\Lambda^{-1}\lambda, \Lambda^{-1})$ about whitened values, from $\lambda$ and a factor of
    $\Lambda$."""
    return Learned(UnitFactor(), precision.solve(shift), precision)


def _inducing(rows: ArrayLike) -> Array:
    table = points(rows, name="inducing")
    return to_device(table) if isinstance(table, np.ndarray) else table


def _negative(free: Array, rebuild: Rebuild, observed: Observed) -> Scalar:
    process = rebuild(free)[0]
    factor = process.factor()
    return -posterior_from_sums(process, factor, row_sums(process, factor, observed)).log_evidence


@program
def _collapsed(process: SparseProcess, observed: Observed) -> InducingPosterior:
    factor = process.factor()
    return posterior_from_sums(process, factor, row_sums(process, factor, observed))
