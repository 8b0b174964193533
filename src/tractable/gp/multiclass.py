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
from tractable.core.checks import check, check_count, has_values, to_device
from tractable.core.iterate import Run, run_until
from tractable.core.linalg import PsdFactor
from tractable.core.module import Module
from tractable.core.types import Array, ArrayLike, Float, Scalar
from tractable.gp.ascent import ascend
from tractable.gp.blocks import rowwise
from tractable.gp.points import Observed, observe
from tractable.optim.minimise import Minimum

__all__ = ["MulticlassFit", "MulticlassPosterior", "fit_multiclass", "multiclass_posterior"]

_POINTS = 512
_LENGTHS = np.array([1.0, 0.5, 0.25, 0.1, 0.02, 0.0])  # of a Newton step; the best is taken
_SHORT = 1e-6  # a Newton step, relative to the largest value, after which there is none


class _Mode(Module):
    """The dual weights $a = K^{-1} f$ of each class and the function itself."""

    weights: Float[Array, "c n"]
    value: Float[Array, "c n"]


class _Search(Module):
    mode: _Mode
    around: Float[Array, "c n"]  # the values at which the next quadratic is made


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
    """The kernel found, the functions at the rows that it was found from, and how the search went."""

    kernel: Any
    log_evidence: Scalar
    run: Minimum
    X: Float[Array, "n d"]  # padded
    mode: _Mode

    def __repr__(self) -> str:
        if not has_values(self):
            return "MulticlassFit(...)"
        found = f"log-evidence {float(self.log_evidence):.4f}, {self.kernel!r}"
        return f"MulticlassFit({found}; {self.run.status.sentence})"


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
    start = _Mode(*(to_device(np.zeros(size, observed.y.dtype)) for _ in range(2)))

    def evaluate(point: Array, mode: _Mode) -> tuple[Array, Array, _Mode]:
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


def _parts(gram: Array, value: Array, weights: Array) -> tuple[_Parts, Array, Array]:
    """The factors of the curvature, the probabilities of the classes, and $E_c$ of each."""
    probs = jax.nn.softmax(value, axis=0)
    present = weights > 0
    eye = jnp.eye(gram.shape[0], dtype=gram.dtype)

    def one(scaled):  # mapped one by one: triangles in a stack are not solved by LAPACK
        root = jnp.where(present, jnp.sqrt(jnp.where(present, scaled, 1.0)), 0.0)
        lower = jnp.linalg.cholesky(eye + root[:, None] * gram * root[None])
        return root, lower, root[:, None] * jax.scipy.linalg.cho_solve((lower, True), jnp.diag(root))

    roots, lowers, blocks = jax.lax.map(one, probs * weights[None])
    whole = jnp.linalg.cholesky(blocks.sum(0) + jnp.diag(jnp.where(present, 0.0, 1.0)))
    return _Parts(roots, lowers, PsdFactor(whole, jnp.zeros((), gram.dtype))), probs, blocks


def _blocks(parts: _Parts, vectors: Float[Array, "c n"]) -> Float[Array, "c n"]:
    r"""$E_c v_c$ for each class."""

    def one(parts):
        root, lower, v = parts
        return root * jax.scipy.linalg.cho_solve((lower, True), root * v)

    return jax.lax.map(one, (parts.roots, parts.lowers, vectors))


def _newton(gram: Array, value: Array, codes: Array, weights: Array) -> _Mode:
    """The mode that a quadratic at `value` has."""
    parts, probs, _ = _parts(gram, value, weights)
    mixed = (probs * value).sum(0)[None]
    target = weights[None] * (probs * (value - mixed) + codes - probs)
    dual = target - _reduced(parts, target @ gram)
    return _Mode(dual, dual @ gram)


def _reduced(parts: _Parts, vectors: Float[Array, "c n"]) -> Float[Array, "c n"]:
    r"""$R v = E v - E R^\top M^{-1} R E v$ with $R$ the sum over classes: $(W^{-1} + K)^{-1} v$."""
    taken = _blocks(parts, vectors)
    shared = parts.whole.solve(taken.sum(0))
    return taken - _blocks(parts, jnp.broadcast_to(shared[None], taken.shape))


def _objective(mode: _Mode, codes: Array, weights: Array) -> Scalar:
    fit = (codes * jax.nn.log_softmax(mode.value, axis=0)).sum(0)
    return weights @ fit - 0.5 * (mode.weights * mode.value).sum()


def _find_mode(gram: Array, codes: Array, weights: Array, start: Array, short: float) -> Run:
    """The mode by Newton's method, which begins at values `start` of the functions; where the first step is
    no better than no functions at all, at those.
    """

    def step(search: _Search) -> tuple[_Search, Scalar]:
        goal = _newton(gram, search.around, codes, weights)
        tries = jax.vmap(lambda s: jax.tree.map(lambda a, b: a + s * (b - a), search.mode, goal))(
            jnp.asarray(_LENGTHS, gram.dtype)
        )
        best = jnp.argmax(jax.vmap(lambda each: _objective(each, codes, weights))(tries))
        moved = jax.tree.map(lambda leaf: leaf[best], tries)
        return _Search(moved, moved.value), jnp.abs(moved.value - search.around).max()

    def settled(search: _Search, change: Scalar, before: Scalar) -> Array:
        # what a step leaves is the square of its length
        return (change >= 0) & (change <= short * (1 + jnp.abs(search.around).max()))

    none = _Mode(jnp.zeros_like(codes), jnp.zeros_like(codes))
    found = run_until(step, _Search(none, start), max_steps=100, tol=0.0, settled=settled)
    return Run(found.state.mode, found.trace, found.num_steps, found.code)


def _evidence(
    kernel: Any, observed: Observed, num_classes: int, start: Array
) -> tuple[Scalar, _Mode, _Parts, Run]:
    gram, codes = kernel.gram(observed.X), _codes(observed, num_classes)
    found = _find_mode(jax.lax.stop_gradient(gram), codes, observed.weights, start, _SHORT**0.5)
    # one more step: at the mode its dependence on the kernel is that of the mode itself
    mode = _newton(gram, jax.lax.stop_gradient(found.state.value), codes, observed.weights)
    parts, _, _ = _parts(gram, mode.value, observed.weights)
    return _evidence_at(mode, parts, codes, observed), mode, parts, found


def _evidence_at(mode: _Mode, parts: _Parts, codes: Array, observed: Observed) -> Scalar:
    halves = jnp.log(jax.vmap(jnp.diag)(parts.lowers)).sum()
    scale = 0.5 * jnp.log(observed.safe_weights()).sum()
    return _objective(mode, codes, observed.weights) - halves - 0.5 * parts.whole.log_det() + scale


@eqx.filter_jit
def _value_and_slope(
    free: Array, rebuild: Rebuild, observed: Observed, num_classes: int, start: _Mode
) -> tuple[Scalar, Array, _Mode]:
    """The evidence at free numbers, its gradient, and the mode there."""
    codes = _codes(observed, num_classes)
    gram, pull = jax.vjp(lambda point: rebuild(point)[0].gram(observed.X), free)
    mode = _find_mode(gram, codes, observed.weights, start.value, _SHORT).state
    parts, probs, blocks = _parts(gram, mode.value, observed.weights)
    slope = _slope_of_gram(gram, mode, parts, probs, blocks, observed.weights)
    return _evidence_at(mode, parts, codes, observed), pull(slope)[0], mode


def _slope_of_gram(
    gram: Array, mode: _Mode, parts: _Parts, probs: Array, blocks: Array, weights: Array
) -> Float[Array, "n n"]:
    r"""$\partial/\partial K$ of the evidence, with $R = (W^{-1} + K)^{-1}$ and $\Sigma = K - K R K$:
    $\frac12\sum_c (a_c a_c^\top - R_{cc}) + \sum_c z_c a_c^\top$ for $z = (I + W K)^{-1} s$, where
    $s = -\frac12\partial_f \log|I + K W|$ is what moving the mode does to the volume.
    """

    def one(block):
        shared = parts.whole.half_solve(block)
        before = jnp.diag(gram) - (gram * (block @ gram)).sum(0)
        return block - shared.T @ shared, shared @ gram, before

    own, across, before = jax.lax.map(one, blocks)
    eye = jnp.eye(len(probs), dtype=gram.dtype)
    cov = jnp.einsum("aij,bij->abj", across, across) + eye[:, :, None] * before[:, None]
    s = _volume_slope(cov, probs, weights)
    z = s - _reduced(parts, s @ gram)
    return 0.5 * (mode.weights.T @ mode.weights - own.sum(0)) + z.T @ mode.weights


def _volume_slope(cov: Float[Array, "c c n"], probs: Array, weights: Array) -> Float[Array, "c n"]:
    r"""$-rac12\partial_{f_c}\mathrm{tr}(\Sigma_n W_n)$ with $\Sigma_n$ held, for each row, in closed form:
    $W_n = w(\mathrm{diag}\,\pi - \pi\pi^	op)$ and $\partial_{f_c}\pi = \pi_c(e_c - \pi)$.
    """
    mixed = jnp.einsum("abn,bn->an", cov, probs)
    inner = jnp.diagonal(cov).T - 2 * mixed  # the derivative of the trace by each probability
    return -0.5 * weights[None] * probs * (inner - (probs * inner).sum(0)[None])


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
