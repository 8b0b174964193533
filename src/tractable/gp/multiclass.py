r"""Gaussian process classification of several classes: one function per class behind a softmax, by Laplace.

Model.       $f_c \sim GP(0, k)$ independent, $p(y_n = c \mid f) = e^{f_c(x_n)} / \sum_{c'} e^{f_{c'}(x_n)}$.
Curvature.   $W = D - D R (R^\top D R)^{-1} R^\top D$ with $D = \mathrm{diag}(w\pi)$, $R$ a sum over classes:
             $(K^{-1} + W)^{-1}$ needs one factor of size $n$ per class and one for all,
             $E_c = D_c^{1/2}(I + D_c^{1/2} K D_c^{1/2})^{-1} D_c^{1/2}$, $M = \sum_c E_c$.
Evidence.    $-\frac12 a^\top f + \sum_n w_n\log p(y_n) - \frac12\sum_c\log|B_c| - \frac12\log|M|
             + \frac12\sum_n\log w_n$.
Probability. The softmax averaged over the Gaussian of $f(x_*)$ with the same 512 points for each row: better
             than 512 draws, and the same answer each time.
Used by.     estimators.gaussian_process_classifier.
Cost.        $O(C n^3)$ per Newton step, about ten of them.
References.  Rasmussen and Williams (2006) section 3.5, algorithms 3.3 and 3.4; Williams and Barber (1998).
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from tractable.bijections.support import Rebuild, unconstrain
from tractable.core.checks import check, check_count, has_values
from tractable.core.iterate import Run, run_until
from tractable.core.linalg import PsdFactor
from tractable.core.module import Module
from tractable.core.types import Array, ArrayLike, Float, Scalar
from tractable.gp.blocks import rowwise
from tractable.gp.points import Observed, observe
from tractable.optim.minimise import Minimum, minimise

__all__ = ["MulticlassFit", "MulticlassPosterior", "fit_multiclass", "multiclass_posterior"]

_POINTS = 512
_LENGTHS = np.array([1.0, 0.5, 0.25, 0.1, 0.02, 0.0])  # of a Newton step; the best is taken


class _Mode(Module):
    """The dual weights $a = K^{-1} f$ of each class and the function itself."""

    weights: Float[Array, "c n"]
    value: Float[Array, "c n"]


class _Parts(Module):
    """The factors of the curvature at a mode."""

    roots: Float[Array, "c n"]
    lowers: Float[Array, "c n n"]
    whole: PsdFactor  # of M, the identity on hidden rows


class MulticlassPosterior(Module):
    """One function per class after seeing labels."""

    kernel: Any
    observed: Observed
    mode: _Mode
    parts: _Parts
    log_evidence: Scalar
    run: Run

    def latent(self, X: ArrayLike) -> tuple[Array, Array]:
        """The mean `(n, c)` and covariance `(n, c, c)` of the functions at each row."""
        return rowwise(_latent, self, X, self.observed.X.shape[1])

    def probability(self, X: ArrayLike) -> np.ndarray:
        """The probability of each class at each row."""
        return np.asarray(rowwise(_probability, self, X, self.observed.X.shape[1]))

    def __repr__(self) -> str:
        if not has_values(self):
            return "MulticlassPosterior(...)"
        size = f"{self.mode.value.shape[0]} classes, {self.observed.num_rows} rows"
        found = f"log-evidence {float(self.log_evidence):.4f} (Laplace)"
        return f"MulticlassPosterior({size}, {found}; {self.run.status.sentence})"


class MulticlassFit(Module):
    """The kernel found, and how the search went."""

    kernel: Any
    log_evidence: Scalar
    run: Minimum


def multiclass_posterior(
    kernel: Any, X: ArrayLike, y: ArrayLike, num_classes: int, weights: ArrayLike | None = None
) -> MulticlassPosterior:
    """The functions of the classes after seeing labels 0, 1, ...; a row of weight two counts twice."""
    observed = _observe(X, y, num_classes, weights)
    return _posterior(kernel, observed, num_classes)


def fit_multiclass(
    kernel: Any,
    X: ArrayLike,
    y: ArrayLike,
    num_classes: int,
    weights: ArrayLike | None = None,
    *,
    max_steps: int = 30,
    tol: float = 1e-2,
) -> MulticlassFit:
    """The kernel whose hyperparameters maximise the approximate evidence, from its own values."""
    observed = _observe(X, y, num_classes, weights)
    free, rebuild = unconstrain(kernel)
    run = minimise(_negative, free, args=(rebuild, observed, num_classes), max_steps=max_steps, tol=tol)
    return MulticlassFit(_rebuilt(run.state, rebuild), -run.value, run)


def _observe(X: ArrayLike, y: ArrayLike, num_classes: int, weights: ArrayLike | None) -> Observed:
    check_count("num_classes", num_classes, least=2)
    labels = np.asarray(y, float)
    known = np.isin(labels, np.arange(num_classes))
    check(bool(known.all()), "y", f"labels 0 to {num_classes - 1}", f"{labels[~known][:1]}")
    return observe(X, labels, weights)


def _codes(observed: Observed, num_classes: int) -> Float[Array, "c n"]:
    return jax.nn.one_hot(observed.y.astype(int), num_classes, axis=0, dtype=observed.y.dtype)


def _parts(gram: Array, value: Array, weights: Array) -> tuple[Array, _Parts]:
    """The probabilities of the classes and the factors of the curvature."""
    probs = jax.nn.softmax(value, axis=0)
    present = weights > 0
    eye = jnp.eye(gram.shape[0], dtype=gram.dtype)

    def one(scaled):  # mapped one by one: triangles in a stack are not solved by LAPACK
        root = jnp.where(present, jnp.sqrt(jnp.where(present, scaled, 1.0)), 0.0)
        lower = jnp.linalg.cholesky(eye + root[:, None] * gram * root[None])
        half = jax.scipy.linalg.solve_triangular(lower, jnp.diag(root), lower=True)
        return root, lower, half.T @ half

    roots, lowers, blocks = jax.lax.map(one, probs * weights[None])
    whole = jnp.linalg.cholesky(blocks.sum(0) + jnp.diag(jnp.where(present, 0.0, 1.0)))
    return probs, _Parts(roots, lowers, PsdFactor(whole, jnp.zeros((), gram.dtype)))


def _blocks(parts: _Parts, vectors: Float[Array, "c n"]) -> Float[Array, "c n"]:
    r"""$E_c v_c$ for each class."""

    def one(parts):
        root, lower, v = parts
        return root * jax.scipy.linalg.cho_solve((lower, True), root * v)

    return jax.lax.map(one, (parts.roots, parts.lowers, vectors))


def _newton(gram: Array, value: Array, codes: Array, weights: Array) -> tuple[_Mode, _Parts]:
    """The mode that a quadratic at `value` has, and the factors of its curvature."""
    probs, parts = _parts(gram, value, weights)
    mixed = (probs * value).sum(0)[None]
    target = weights[None] * (probs * (value - mixed) + codes - probs)
    taken = _blocks(parts, target @ gram)
    shared = parts.whole.solve(taken.sum(0))
    dual = target - taken + _blocks(parts, jnp.broadcast_to(shared[None], taken.shape))
    return _Mode(dual, dual @ gram), parts


def _objective(mode: _Mode, codes: Array, weights: Array) -> Scalar:
    fit = (codes * jax.nn.log_softmax(mode.value, axis=0)).sum(0)
    return weights @ fit - 0.5 * (mode.weights * mode.value).sum()


def _find_mode(gram: Array, codes: Array, weights: Array) -> Run:
    def step(mode: _Mode) -> tuple[_Mode, Scalar]:
        goal, _ = _newton(gram, mode.value, codes, weights)
        tries = jax.vmap(lambda s: jax.tree.map(lambda a, b: a + s * (b - a), mode, goal))(
            jnp.asarray(_LENGTHS)
        )
        values = jax.vmap(lambda each: _objective(each, codes, weights))(tries)
        best = jnp.argmax(values)
        return jax.tree.map(lambda leaf: leaf[best], tries), values[best]

    start = _Mode(jnp.zeros_like(codes), jnp.zeros_like(codes))
    return run_until(step, start, max_steps=100, tol=1e-12)


def _evidence(kernel: Any, observed: Observed, num_classes: int) -> tuple[Scalar, _Mode, _Parts, Run]:
    gram, codes = kernel.gram(observed.X), _codes(observed, num_classes)
    found = _find_mode(jax.lax.stop_gradient(gram), codes, observed.weights)
    # one more step: at the mode its dependence on the kernel is that of the mode itself
    mode, _ = _newton(gram, jax.lax.stop_gradient(found.state.value), codes, observed.weights)
    _, parts = _parts(gram, mode.value, observed.weights)
    halves = jnp.log(jax.vmap(jnp.diag)(parts.lowers)).sum()
    scale = 0.5 * jnp.log(observed.safe_weights()).sum()
    value = _objective(mode, codes, observed.weights) - halves - 0.5 * parts.whole.log_det() + scale
    return value, mode, parts, found


def _negative(free: Array, rebuild: Rebuild, observed: Observed, num_classes: int) -> Scalar:
    return -_evidence(rebuild(free)[0], observed, num_classes)[0]


@eqx.filter_jit
def _rebuilt(free: Array, rebuild: Rebuild) -> Any:
    return rebuild(free)[0]


@eqx.filter_jit
def _posterior(kernel: Any, observed: Observed, num_classes: int) -> MulticlassPosterior:
    value, mode, parts, run = _evidence(kernel, observed, num_classes)
    return MulticlassPosterior(kernel, observed, mode, parts, value, run)


@eqx.filter_jit
def _latent(post: MulticlassPosterior, X: Array) -> tuple[Array, Array]:
    cross = jnp.where(post.observed.present[:, None], post.kernel.gram(post.observed.X, X), 0.0)
    mean = (post.mode.weights @ cross).T
    before = post.kernel.diagonal(X)

    def one(k, variance):
        taken = _blocks(post.parts, jnp.broadcast_to(k[None], post.mode.weights.shape))
        half = post.parts.whole.half_solve(taken.T)
        return jnp.diag(variance - taken @ k) + half.T @ half

    return mean, jax.vmap(one, in_axes=(1, 0))(cross, before)


@eqx.filter_jit
def _probability(post: MulticlassPosterior, X: Array) -> Array:
    mean, cov = _latent(post, X)
    values, vectors = jnp.linalg.eigh(cov)
    roots = vectors * jnp.sqrt(jnp.maximum(values, 0.0))[:, None]  # below zero by rounding alone
    draws = jnp.asarray(_normal_points(mean.shape[1]), mean.dtype)
    functions = mean[:, None] + jnp.einsum("ncd,sd->nsc", roots, draws)
    return jax.nn.softmax(functions, axis=-1).mean(1)


def _normal_points(dim: int) -> np.ndarray:
    """Evenly spread points of a standard normal, in pairs of opposite signs."""
    uniform = qmc.Sobol(dim, scramble=True, rng=0).random(_POINTS // 2)
    points = ndtri(uniform)
    return np.concatenate([points, -points])
