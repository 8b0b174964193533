r"""Several outputs at the same rows: independent ones that share a kernel, or correlated ones, by Kronecker
algebra.

Model.       $\mathrm{Cov}[f_j(x), f_l(x')] = B_{jl}\,k(x, x')$ and noise $\sigma_j^2$ per output (intrinsic
             coregionalisation); $B$ diagonal is independent outputs. The targets, stacked, have the
             covariance $C = B \otimes K + \Sigma \otimes I$.
Identity.    With $K = V\Lambda V^\top$ and $\Sigma^{-1/2} B\,\Sigma^{-1/2} = U S U^\top$, the entries of
             $V^\top (Y - M)\,\Sigma^{-1/2} U$ are independent, of variance $1 + \lambda_i s_l$.
Gradient.    Written down (`_evidence_jvp`): eigenvectors are never differentiated, so equal eigenvalues do no
             harm.
Weights.     A row of weight $w$ is the row $w$ times: noise $\Sigma/w$ and the density of its copies. With
             $W^{1/2} K W^{1/2}$ and $W^{1/2}(Y - M)$ in place of $K$ and $Y - M$ all of it is as above, and
             $n$ in the constants is the sum of the weights.
Cost.        $O(n^3 + m^3)$ for $m$ outputs in place of $O(n^3 m^3)$.
References.  Bonilla, Chai and Williams (2008); Stegle et al. (2011).
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.bijections.support import Rebuild, unconstrain
from tractable.core.checks import as_float, check
from tractable.core.factors import normal_log_density
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.rows import Rows
from tractable.core.support import positive, psd, real
from tractable.core.types import Array, Float, Scalar
from tractable.distributions.continuous import Normal
from tractable.gp.ascent import ProcessFit, rebuilt
from tractable.gp.points import Table, matrix_size, rowwise
from tractable.optim.minimise import minimise

__all__ = ["MultiOutputPosterior", "MultiOutputProcess", "fit_multi_output"]


class MultiOutputProcess(Module):
    """Outputs $f_1, ..., f_m$ with covariance $B_{jl} k(x, x')$, noise variances and means per output.

    `coregionalisation` is $B$; a vector is its diagonal (independent outputs that share a kernel).
    """

    kernel: Any
    coregionalisation: Float[Array, "m m"] = field(support=psd)
    noise: Float[Array, " m"] = field(support=positive, rank=1)
    means: Float[Array, " m"] = field(support=real, rank=1)

    def __init__(self, kernel: Any, coregionalisation: Any, noise: Any, means: Any = None):
        given = as_float("coregionalisation", coregionalisation)
        self.kernel = kernel
        self.coregionalisation = jnp.diag(given) if given.ndim == 1 else given
        m = self.coregionalisation.shape[0]
        self.noise = jnp.broadcast_to(as_float("noise", noise), (m,))
        self.means = jnp.zeros(m) if means is None else as_float("means", means)
        check(self.means.shape == (m,), "means", f"one per output ({m})", f"shape {self.means.shape}")

    def log_evidence(self, X: Table, y: Any = None, weights: Any = None) -> Scalar:
        r"""$\log p(Y \mid X)$ of all targets together."""
        return _evidence_of(self, *_prepared(X, y, weights, len(self.noise)))

    def posterior(self, X: Table, y: Any = None, weights: Any = None) -> "MultiOutputPosterior":
        """All outputs after seeing the rows of `y` at the rows of `X`; a row of weight two is the row
        twice.
        """
        return _posterior(self, *_prepared(X, y, weights, len(self.noise)))


class MultiOutputPosterior(Module):
    """Predictions of all outputs; one unit per row and output."""

    process: MultiOutputProcess
    X: Float[Array, "n d"]
    roots: Float[Array, " n"]  # of the weights; zero for rows that do not count
    alpha: Float[Array, "n m"]
    vectors: Float[Array, "n n"]
    gains: Float[Array, "n m"]  # 1 / (1 + lambda_i s_l)
    mixing: Float[Array, "m m"]  # B Sigma^-1/2 U
    log_evidence: Scalar

    _shown = ("num_rows", "process", "log_evidence")

    @property
    def num_rows(self) -> int:
        """How many rows were seen."""
        return int((np.asarray(self.roots) > 0).sum())

    def latent(self, X: Table) -> Normal:
        """Each output at each row: parameters of shape `(n, m)`."""
        return self._normal(X, False)

    def predict_dist(self, X: Table) -> Normal:
        """A new target of each output at each row."""
        return self._normal(X, True)

    def _normal(self, X: Table, noisy: bool) -> Normal:
        mean, variance = rowwise(_moments, self, X, self.X.shape[1])
        return Normal(mean, jnp.sqrt(variance + noisy * self.process.noise[None]))


def fit_multi_output(
    process: MultiOutputProcess,
    X: Table,
    y: Any = None,
    weights: Any = None,
    *,
    max_steps: int = 100,
    tol: float = 1e-4,
) -> ProcessFit:
    """Kernel, coregionalisation, noise and means by evidence, from the values of `process`."""
    free, rebuild = unconstrain(process)
    data = _prepared(X, y, weights, len(process.noise))
    run = minimise(_negative, free, args=(rebuild, *data), max_steps=max_steps, tol=tol, curvature=False)
    return ProcessFit(rebuilt(rebuild, run.state), -run.value, run)


def _prepared(X: Table, y: Any, weights: Any, m: int) -> tuple[Array, Array, Array]:
    """Padded rows and targets, and the roots of their weights."""
    rows = Rows.of(X, y, weights, target="numbers")
    shape = rows.y.shape
    check(shape[1:] == (m,), "y", f"rows of {m} outputs", f"shape {shape}")
    padded = rows.padded(matrix_size(rows.num_rows))
    return padded.X, padded.y, jnp.sqrt(padded.weights)


def _negative(free: Array, rebuild: Rebuild, X: Array, Y: Array, roots: Array) -> Scalar:
    return -_evidence_of(rebuild(free)[0], X, Y, roots)


@program
def _evidence_of(process: MultiOutputProcess, X: Array, Y: Array, roots: Array) -> Scalar:
    residual = roots[:, None] * (Y - process.means[None])
    terms = _evidence(_gram(process, X, roots), process.coregionalisation, process.noise, residual)
    count = (roots**2).sum()
    return terms + normal_log_density(0, count * jnp.log(process.noise).sum(), count * len(process.noise))


def _gram(process: MultiOutputProcess, X: Array, roots: Array) -> Array:
    r"""$W^{1/2} K W^{1/2}$; rows that do not count have eigenvalues of zero, which add nothing."""
    return roots[:, None] * process.kernel.gram(X) * roots[None]


def _diagonalised(K: Array, B: Array, noise: Array, residual: Array) -> tuple[Array, ...]:
    """Eigenvalues and vectors of $K$ and of the scaled $B$, and the independent entries of the residual."""
    values, vectors = jnp.linalg.eigh(K)
    root = jnp.sqrt(noise)
    shares, mixed = jnp.linalg.eigh(B / root[:, None] / root[None])
    turned = vectors.T @ (residual / root[None]) @ mixed
    values, shares = jnp.maximum(values, 0.0), jnp.maximum(shares, 0.0)  # rounding of zero eigenvalues
    return values, vectors, shares, mixed / root[:, None], turned


@jax.custom_jvp
def _evidence(K: Array, B: Array, noise: Array, residual: Array) -> Scalar:
    """The log-density of the scaled targets, without its constants."""
    values, _, shares, _, turned = _diagonalised(K, B, noise, residual)
    spread = 1 + values[:, None] * shares[None]
    return normal_log_density((turned**2 / spread).sum(), jnp.log(spread).sum(), 0)


@_evidence.defjvp
def _evidence_jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    (K, B, noise, residual), (dK, dB, dnoise, dresidual) = primals, tangents
    values, vectors, shares, mixed, turned = _diagonalised(K, B, noise, residual)
    spread = 1 + values[:, None] * shares[None]
    alpha = vectors @ (turned / spread) @ mixed.T
    fit = (
        (alpha.T @ K @ alpha * dB).sum() + (alpha @ B @ alpha.T * dK).sum() + (alpha**2 * dnoise[None]).sum()
    )
    through_kernel = (vectors * (shares[None] / spread).sum(1)[None]) @ vectors.T
    through_outputs = (mixed * (values[:, None] / spread).sum(0)[None]) @ mixed.T
    # the constants hold n log|noise| of the scaling; here is what is left of it
    through_noise = ((mixed**2 * (1 / spread).sum(0)[None]).sum(1) - len(K) / noise) * dnoise
    volume = (through_kernel * dK).sum() + (through_outputs * dB).sum() + through_noise.sum()
    value = normal_log_density((turned**2 / spread).sum(), jnp.log(spread).sum(), 0)
    return value, 0.5 * (fit - volume) - (alpha * dresidual).sum()


@program
def _posterior(process: MultiOutputProcess, X: Array, Y: Array, roots: Array) -> MultiOutputPosterior:
    residual = roots[:, None] * (Y - process.means[None])
    parts = _diagonalised(_gram(process, X, roots), process.coregionalisation, process.noise, residual)
    values, vectors, shares, mixed, turned = parts
    gains = 1 / (1 + values[:, None] * shares[None])
    alpha = vectors @ (turned * gains) @ mixed.T
    mixing = process.coregionalisation @ mixed
    evidence = _evidence_of(process, X, Y, roots)
    return MultiOutputPosterior(process, X, roots, alpha, vectors, gains, mixing, evidence)


@program
def _moments(post: MultiOutputPosterior, X: Array) -> tuple[Array, Array]:
    cross = post.process.kernel.gram(X, post.X) * post.roots[None]
    mean = cross @ post.alpha @ post.process.coregionalisation + post.process.means[None]
    known = (cross @ post.vectors) ** 2 @ post.gains @ (post.mixing**2).T
    before = post.process.kernel.diagonal(X)[:, None] * jnp.diag(post.process.coregionalisation)[None]
    return mean, jnp.maximum(before - known, jnp.finfo(before.dtype).eps * before)
