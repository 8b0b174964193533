r"""Gaussian process classification of several classes: one function per class behind a softmax, by Laplace.

Model.       $f_c \sim GP(0, k)$ independent, $p(y_n = c \mid f) = e^{f_c(x_n)} / \sum_{c'} e^{f_{c'}(x_n)}$.
Posterior.   By Laplace's method (`gp.softmax_mode`): the mode, its curvature and the evidence.
Probability. The softmax averaged over the Gaussian of $f(x_*)$ with the same 512 points for each row: better
             than 512 draws, and the same answer each time.
Cost.        $O(C n^3)$ per Newton step, about ten of them.
References.  Rasmussen and Williams (2006) section 3.5, algorithm 3.4; Williams and Barber (1998).
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtri

from tractable.bijections.support import Rebuild, unconstrain
from tractable.core.checks import check, check_count, has_values, to_device
from tractable.core.iterate import Run
from tractable.core.module import Module, field
from tractable.core.types import Array, ArrayLike, Float, Scalar
from tractable.gp.ascent import ascend
from tractable.gp.blocks import rowwise
from tractable.gp.latent import Searched
from tractable.gp.points import Observed, observe
from tractable.gp.softmax_mode import (
    Mode,
    Parts,
    class_blocks,
    curvature_parts,
    evidence_at,
    find_mode,
    newton_step,
    slope_of_gram,
)
from tractable.optim.minimise import Minimum

__all__ = ["MulticlassFit", "MulticlassPosterior", "fit_multiclass", "multiclass_posterior"]

_POINTS = 512
_SHORT = 1e-6  # a Newton step, relative to the largest value, after which there is none


class MulticlassPosterior(Searched, Module):
    """One function per class after seeing labels."""

    kernel: Any
    observed: Observed = field(show=False)
    mode: Mode = field(show=False)
    parts: Parts = field(show=False)
    log_evidence: Scalar
    run: Run = field(show=False)

    def latent(self, X: ArrayLike) -> tuple[Array, Array]:
        """The mean `(n, c)` and covariance `(n, c, c)` of the functions at each row."""
        return rowwise(_latent, self, X, self.observed.X.shape[1])

    def probability(self, X: ArrayLike) -> Any:
        """The probability of each class at each row."""
        found = rowwise(_probability, self, X, self.observed.X.shape[1])
        return np.asarray(found) if has_values(found) else found


class MulticlassFit(Searched, Module):
    """The kernel found, the functions at the rows that it was found from, and how the search went."""

    kernel: Any
    log_evidence: Scalar
    run: Minimum = field(show=False)
    X: Float[Array, "n d"] = field(show=False)  # padded
    mode: Mode = field(show=False)


def multiclass_posterior(
    kernel: Any,
    X: ArrayLike,
    y: ArrayLike,
    num_classes: int,
    weights: ArrayLike | None = None,
    *,
    near: MulticlassFit | None = None,
) -> MulticlassPosterior:
    """The functions of the classes after seeing labels 0, 1, ...; a row of weight two counts twice.

    The search for the mode begins at the functions that `near`, a fit to some of the rows, predicts.
    """
    observed = _observe(X, y, num_classes, weights)
    return _posterior(kernel, observed, num_classes, None if near is None else (near.X, near.mode.weights))


def fit_multiclass(
    kernel: Any,
    X: ArrayLike,
    y: ArrayLike,
    num_classes: int,
    weights: ArrayLike | None = None,
    *,
    max_steps: int = 30,
    tol: float = 1e-2,
    stop: str = "gradient",
    spread: float | int | None = None,
) -> MulticlassFit:
    """The kernel whose hyperparameters maximise the approximate evidence, from its own values.

    It ends where the gradient is below `tol`, or with `stop="value"` where a step gains less. With `spread`
    the free numbers are normal about their start, with that standard deviation (`gp.ascent`).
    """
    observed = _observe(X, y, num_classes, weights)
    free, rebuild = unconstrain(kernel)
    size = num_classes, observed.y.shape[0]
    start = Mode(*(to_device(np.zeros(size, observed.y.dtype)) for _ in range(2)))

    def evaluate(point: Array, mode: Mode) -> tuple[Array, Array, Mode]:
        return _value_and_slope(point, rebuild, observed, num_classes, mode)

    run, found, mode = ascend(evaluate, free, start, max_steps=max_steps, tol=tol, stop=stop, spread=spread)
    return MulticlassFit(_rebuilt(run.state, rebuild), found, run, observed.X, mode)


def _observe(X: ArrayLike, y: ArrayLike, num_classes: int, weights: ArrayLike | None) -> Observed:
    check_count("num_classes", num_classes, least=2)
    labels = np.asarray(y, float)
    known = np.isin(labels, np.arange(num_classes))
    check(bool(known.all()), "y", f"labels 0 to {num_classes - 1}", f"{labels[~known][:1]}")
    observed = observe(X, labels, weights)
    size = _matrix_size(observed)
    return jax.tree.map(lambda leaf: to_device(np.asarray(leaf)[:size]) if leaf.ndim else leaf, observed)


def _matrix_size(observed: Observed) -> int:
    """Above 128 rows two sizes for each doubling: here computing takes as long as compiling does."""
    size = observed.X.shape[0]
    return size * 3 // 4 if 128 < observed.num_rows <= size * 3 // 4 else size


def _codes(observed: Observed, num_classes: int) -> Float[Array, "c n"]:
    return jax.nn.one_hot(observed.y.astype(int), num_classes, axis=0, dtype=observed.y.dtype)


def _evidence(
    kernel: Any, observed: Observed, num_classes: int, start: Array
) -> tuple[Scalar, Mode, Parts, Run]:
    gram, codes = kernel.gram(observed.X), _codes(observed, num_classes)
    found = find_mode(jax.lax.stop_gradient(gram), codes, observed.weights, start, _SHORT**0.5)
    # one more step: at the mode its dependence on the kernel is that of the mode itself
    mode = newton_step(gram, jax.lax.stop_gradient(found.state.value), codes, observed.weights)
    parts, _, _ = curvature_parts(gram, mode.value, observed.weights)
    return evidence_at(mode, parts, codes, observed), mode, parts, found


@eqx.filter_jit
def _value_and_slope(
    free: Array, rebuild: Rebuild, observed: Observed, num_classes: int, start: Mode
) -> tuple[Scalar, Array, Mode]:
    """The evidence at free numbers, its gradient, and the mode there."""
    codes = _codes(observed, num_classes)
    gram, pull = jax.vjp(lambda point: rebuild(point)[0].gram(observed.X), free)
    mode = find_mode(gram, codes, observed.weights, start.value, _SHORT).state
    parts, probs, blocks = curvature_parts(gram, mode.value, observed.weights)
    slope = slope_of_gram(gram, mode, parts, probs, blocks, observed.weights)
    return evidence_at(mode, parts, codes, observed), pull(slope)[0], mode


@eqx.filter_jit
def _rebuilt(free: Array, rebuild: Rebuild) -> Any:
    return rebuild(free)[0]


@eqx.filter_jit
def _posterior(
    kernel: Any, observed: Observed, num_classes: int, near: tuple[Array, Array] | None
) -> MulticlassPosterior:
    size = num_classes, observed.X.shape[0]
    start = jnp.zeros(size, observed.X.dtype) if near is None else near[1] @ kernel.gram(near[0], observed.X)
    value, mode, parts, run = _evidence(kernel, observed, num_classes, jax.lax.stop_gradient(start))
    return MulticlassPosterior(kernel, observed, mode, parts, value, run)


@eqx.filter_jit
def _latent(post: MulticlassPosterior, X: Array) -> tuple[Array, Array]:
    cross = jnp.where(post.observed.present[:, None], post.kernel.gram(post.observed.X, X), 0.0)
    mean = (post.mode.weights @ cross).T
    before = post.kernel.diagonal(X)

    def one(k, variance):
        taken = class_blocks(post.parts, jnp.broadcast_to(k[None], post.mode.weights.shape))
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
    from scipy.stats import qmc

    uniform = qmc.Sobol(dim, scramble=True, rng=0).random(_POINTS // 2)
    points = ndtri(uniform)
    return np.concatenate([points, -points])
