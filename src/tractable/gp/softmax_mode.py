r"""The mode of several functions behind a softmax, its curvature, and what they do to the evidence.

Mode.        Newton's method on $\sum_n w_n\log p(y_n \mid f) - \frac12\sum_c f_c^\top K^{-1} f_c$ in the
             dual weights $a_c = K^{-1} f_c$, by `optim.minimise`.
Curvature.   $W = D - D R (R^\top D R)^{-1} R^\top D$ with $D = \mathrm{diag}(w\pi)$, $R$ a sum over classes:
             $(K^{-1} + W)^{-1}$ needs one factor of size $n$ per class and one for all,
             $E_c = D_c^{1/2}(I + D_c^{1/2} K D_c^{1/2})^{-1} D_c^{1/2}$, $M = \sum_c E_c$.
Evidence.    $-\frac12 a^\top f + \sum_n w_n\log p(y_n) - \frac12\sum_c\log|B_c| - \frac12\log|M|
             + \frac12\sum_n\log w_n$, with its slope by $K$ in closed form.
Cost.        $O(C n^3)$ per Newton step, about ten of them.
References.  Rasmussen and Williams (2006) section 3.5, algorithm 3.3; Williams and Barber (1998).
"""

import jax
import jax.numpy as jnp

from tractable.core.iterate import Run
from tractable.core.linalg import PsdFactor
from tractable.core.module import Module
from tractable.core.types import Array, Float, Scalar
from tractable.gp.points import Observed
from tractable.optim.minimise import minimise
from tractable.optim.newton import Newton

__all__ = [
    "Mode", "Parts", "class_blocks", "curvature_parts", "evidence_at", "find_mode", "newton_step",
    "slope_of_gram",
]  # fmt: skip


class Mode(Module):
    """The dual weights $a = K^{-1} f$ of each class and the function itself."""

    weights: Float[Array, "c n"]
    value: Float[Array, "c n"]


class Parts(Module):
    """The factors of the curvature at a mode."""

    roots: Float[Array, "c n"]
    lowers: Float[Array, "c n n"]
    whole: PsdFactor  # of M, the identity on hidden rows


def find_mode(gram: Array, codes: Array, weights: Array, start: Array, short: float) -> Run:
    """The mode by Newton's method from no functions, its first quadratic made at the values `start`."""
    data = (gram, codes, weights, start)
    found = minimise(_depth, jnp.zeros_like(codes), _NEWTON, args=data, max_steps=100, tol=short, stop="step")
    return Run(Mode(found.state, found.state @ gram), found.trace, found.num_steps, found.code)


def _depth(dual: Array, gram: Array, codes: Array, weights: Array, start: Array) -> Scalar:
    return -_objective(Mode(dual, dual @ gram), codes, weights)


def _step(dual: Array, gram: Array, codes: Array, weights: Array, start: Array) -> Array:
    around = jnp.where(jnp.any(dual != 0), dual @ gram, start)
    return newton_step(gram, around, codes, weights).weights - dual


_NEWTON = Newton(direction=_step)


def newton_step(gram: Array, value: Array, codes: Array, weights: Array) -> Mode:
    """The mode that a quadratic at `value` has."""
    parts, probs, _ = curvature_parts(gram, value, weights)
    mixed = (probs * value).sum(0)[None]
    target = weights[None] * (probs * (value - mixed) + codes - probs)
    dual = target - _reduced(parts, target @ gram)
    return Mode(dual, dual @ gram)


def curvature_parts(gram: Array, value: Array, weights: Array) -> tuple[Parts, Array, Array]:
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
    return Parts(roots, lowers, PsdFactor(whole, jnp.zeros((), gram.dtype))), probs, blocks


def evidence_at(mode: Mode, parts: Parts, codes: Array, observed: Observed) -> Scalar:
    halves = jnp.log(jax.vmap(jnp.diag)(parts.lowers)).sum()
    scale = 0.5 * jnp.log(observed.safe_weights()).sum()
    return _objective(mode, codes, observed.weights) - halves - 0.5 * parts.whole.log_det() + scale


def slope_of_gram(
    gram: Array, mode: Mode, parts: Parts, probs: Array, blocks: Array, weights: Array
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


def class_blocks(parts: Parts, vectors: Float[Array, "c n"]) -> Float[Array, "c n"]:
    r"""$E_c v_c$ for each class."""

    def one(parts):
        root, lower, v = parts
        return root * jax.scipy.linalg.cho_solve((lower, True), root * v)

    return jax.lax.map(one, (parts.roots, parts.lowers, vectors))


def _reduced(parts: Parts, vectors: Float[Array, "c n"]) -> Float[Array, "c n"]:
    r"""$R v = E v - E R^\top M^{-1} R E v$ with $R$ the sum over classes: $(W^{-1} + K)^{-1} v$."""
    taken = class_blocks(parts, vectors)
    shared = parts.whole.solve(taken.sum(0))
    return taken - class_blocks(parts, jnp.broadcast_to(shared[None], taken.shape))


def _objective(mode: Mode, codes: Array, weights: Array) -> Scalar:
    fit = (codes * jax.nn.log_softmax(mode.value, axis=0)).sum(0)
    return weights @ fit - 0.5 * (mode.weights * mode.value).sum()


def _volume_slope(cov: Float[Array, "c c n"], probs: Array, weights: Array) -> Float[Array, "c n"]:
    r"""$-\frac12\partial_{f_c}\mathrm{tr}(\Sigma_n W_n)$ with $\Sigma_n$ held, for each row, in closed form:
    $W_n = w(\mathrm{diag}\,\pi - \pi\pi^\top)$ and $\partial_{f_c}\pi = \pi_c(e_c - \pi)$.
    """
    mixed = jnp.einsum("abn,bn->an", cov, probs)
    inner = jnp.diagonal(cov).T - 2 * mixed  # the derivative of the trace by each probability
    return -0.5 * weights[None] * probs * (inner - (probs * inner).sum(0)[None])
