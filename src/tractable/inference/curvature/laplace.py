r"""Laplace's approximation: a Gaussian at the mode, its evidence, and how far to trust both.

Mode.        $u_0 = \arg\max_u \log f(u)$, $A = -\nabla\nabla\log f(u_0)$, $q = N(u_0, A^{-1})$.
Coordinates. Constrained parameters are mapped to real ones first (`bijections.unconstrain`) and the
             log-determinant is part of $f$: the mode is that of the density in free coordinates.
Search.      L-BFGS from each start, then Newton steps; the usable mode with the largest evidence is returned.
Skewness.    $\partial^3 \log f(u_0 + t v)/\partial t^3$ along each axis $v$ of the Gaussian,
             $v^\top A v = 1$.
Verdict.     By importance weights of draws of the Gaussian and of stretched versions of it
             (`inference.weighted.second_look`).
Cost.        The search, then $d$ Hessian-vector products and $O(d^3)$ (dense); a density per draw.
References.  MacKay (1992); Tierney and Kadane (1986); Bishop (2006) section 4.4; Daxberger et al. (2021).
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.bijections.elementwise import Identity
from tractable.bijections.support import unconstrain
from tractable.core.checks import check, check_count, check_option
from tractable.core.iterate import Status, run
from tractable.core.module import Module
from tractable.core.programs import program
from tractable.core.support import Support
from tractable.core.types import Array, ArrayLike, Bool, PyTree, Scalar
from tractable.inference.curvature.posterior import NEAR, LaplacePosterior
from tractable.inference.curvature.precision import (
    DensePrecision,
    DiagonalPrecision,
    LowRankPrecision,
    Precision,
    hessian_diagonal,
    hessian_product,
)
from tractable.inference.joint import as_stated
from tractable.inference.posterior import with_target
from tractable.inference.target import FlatTarget
from tractable.inference.weighted.second_look import second_look
from tractable.optim.minimise import minimise
from tractable.optim.newton import Newton
from tractable.optim.objective import Objective
from tractable.optim.quasi_newton import LBFGS

__all__ = ["LaplacePosterior", "laplace"]

_LOG_2PI = float(np.log(2 * np.pi))
_POLISH = 3  # Newton steps after the search: each squares what is left of the error
_FORMS = ("dense", "diagonal", "low_rank")

LogDensity = Callable[..., Any]
Curvature = str | Callable[..., Precision]


def laplace(
    log_density: LogDensity | None = None,
    start: PyTree = None,
    *,
    prior: Any = None,
    likelihood: LogDensity | None = None,
    observed: Any = None,
    args: tuple = (),
    supports: Support | Mapping[str, Support | None] | None = None,
    other_starts: Sequence[PyTree] = (),
    curvature: Curvature = "dense",
    rank: int = 10,
    prior_precision: ArrayLike | None = None,
    max_steps: int = 500,
    tol: float = 1e-8,
    num_eval: int = 1000,
) -> LaplacePosterior:
    r"""Laplace's approximation of $f = \exp$ `log_density(parameters, *args)`, which need not be normalised.

    Or of `prior` and `likelihood`, as in `mcmc`.
    `start` is any pytree of floats or a `Module` with supports (`supports` gives or replaces them). From
    `other_starts` further modes are looked for; the one with the largest evidence is returned, the rest are
    its `others`. `curvature` is "dense", "diagonal", "low_rank" (`rank` eigenpairs and a diagonal, or
    `prior_precision`), or a function of the mode and `args` that returns a `Precision`, such as
    `ggn_curvature` and `kronecker_curvature` for networks. The verdict is made of the importance weights of
    `num_eval` draws, the same in every call; with 0 the answer is not certified.

    >>> post = laplace(lambda x: -0.5 * 4.0 * (x - 1.0) ** 2, 0.0)
    >>> round(float(post.mode), 6), bool(abs(post.log_evidence.value - 0.5 * jnp.log(jnp.pi / 2)) < 1e-6)
    (1.0, True)
    """
    if isinstance(curvature, str):
        check_option("curvature", curvature, _FORMS)
    parts = (prior, likelihood, args, observed, supports)
    density, start, args, supports = as_stated(log_density, start, *parts)
    free, target = FlatTarget.of(density, start, args, supports=supports)
    rebuild = target.rebuild
    plain = all(isinstance(b, Identity) for b in rebuild.bijections)
    fix = "It describes the parameters themselves: leave them unconstrained."
    check(
        isinstance(curvature, str) or plain, "curvature", "a name for constrained starts", "a function", fix
    )
    known = None if prior_precision is None else jnp.broadcast_to(jnp.asarray(prior_precision), free.shape)
    options = (check_count("rank", rank), known, check_count("max_steps", max_steps), float(tol))
    others = [unconstrain(other, supports) for other in other_starts]
    alike = all(other.names == rebuild.names for _, other in others)
    check(alike, "other_starts", "shaped like `start`", f"{len(others)} starts, not all of that shape")
    starts = [free, *(u for u, _ in others)]
    found = [_at_mode(target, u, curvature, supports, *options) for u in starts]
    return with_target(_judged(_dominant(found), target, check_count("num_eval", num_eval, 0)), target)


def _at_mode(
    target: FlatTarget,
    start: Array,
    curvature: Curvature,
    supports: Any,
    rank: int,
    prior: Array | None,
    max_steps: int,
    tol: float,
) -> LaplacePosterior:
    fix = "Choose a start inside the support of the density."
    height = float(_value(target, start))
    check(bool(np.isfinite(height)), "log_density", "finite at the start", height, fix)
    search = minimise(
        _negative, start, LBFGS(), args=(target,), max_steps=max_steps, tol=tol, curvature=False
    )
    mode, value, precision, offset, skewness = _inspect(target, search.state, curvature, rank, prior)
    fix = "A curvature function returns a `Precision` over the flattened start."
    sized = precision.size == start.size
    check(sized, "curvature", f"of size {start.size}", f"size {precision.size}", fix)
    code = jnp.where(offset <= NEAR, int(Status.converged), search.code)
    return LaplacePosterior(mode, precision, -value, offset, skewness, target.rebuild, supports, code)


def _judged(post: LaplacePosterior, target: FlatTarget, num_eval: int) -> LaplacePosterior:
    """The answer with a second look at it, where there is a Gaussian to look at."""
    if not post.ok or num_eval == 0:
        return post
    points = _points(post, num_eval + num_eval // 2)
    return dataclasses.replace(post, look=second_look(target, _AtMode(post), points, post.centre))


class _AtMode(Module):
    """The Gaussian on the free numbers."""

    post: LaplacePosterior

    def log_prob(self, u: Array) -> Scalar:
        precision = self.post.precision
        gap = precision.quadratic(u - self.post.centre)
        return 0.5 * (precision.log_det() - u.size * _LOG_2PI - gap)


@program
def _points(post: LaplacePosterior, count: int) -> Array:
    noise = jr.normal(jr.key(0), (count, post.centre.size), post.centre.dtype)  # a rule, as of quadrature
    return post.centre[None] + jax.vmap(post.precision.root)(noise)


def _negative(u: Array, target: FlatTarget) -> Scalar:
    return -target(u)


@program
def _value(target: FlatTarget, u: Array) -> Scalar:
    return target(u)


@program
def _inspect(
    target: FlatTarget, u: Array, curvature: Curvature, rank: int, prior: Array | None
) -> tuple[Array, Scalar, Precision, Scalar, Array]:
    """The mode, polished where the Hessian is at hand; the precision there, what is left of the distance to
    the mode in posterior deviations, and the skewness along the axes."""

    def fun(v):
        return -target(v)

    if not isinstance(curvature, str):
        precision = curvature(target.rebuild(u)[0], *target.args)
    elif curvature == "dense":
        u = _polished(Objective(fun, lambda v: v), u)
        precision = DensePrecision.of(jax.hessian(fun)(u))
    elif curvature == "diagonal":
        precision = DiagonalPrecision(hessian_diagonal(fun, u))
    else:
        precision = LowRankPrecision.of(hessian_product(fun, u), hessian_diagonal(fun, u), rank, prior)
    gradient = jax.grad(fun)(u)
    offset = jnp.sqrt(gradient @ precision.solve(gradient))
    skewness = jax.vmap(lambda v: -_third(lambda t: fun(u + t * v)))(precision.directions())
    return u, fun(u), precision, offset, skewness


def _polished(objective: Objective, u: Array) -> Array:
    method = Newton()
    first = method.init(objective, u)
    return run(lambda at, _: (method.step(objective, at), None), first, num_steps=_POLISH).state.point


def _third(line: Callable[[Array], Scalar]) -> Scalar:
    """The third derivative at zero, forward three times: one direction costs a few evaluations."""
    derivative = line
    for _ in range(3):
        derivative = _slope(derivative)
    return derivative(jnp.zeros(()))


def _slope(function: Callable[[Array], Scalar]) -> Callable[[Array], Scalar]:
    return lambda t: jax.jvp(function, (t,), (jnp.ones_like(t),))[1]


def _dominant(found: list[LaplacePosterior]) -> LaplacePosterior:
    """The usable mode with the largest evidence, the other distinct ones attached."""
    ranked = sorted(found, key=lambda m: float(m.log_evidence.value) if m.ok else -np.inf, reverse=True)
    distinct: list[LaplacePosterior] = []
    for candidate in ranked:
        if candidate.ok and all(bool(_apart(kept, candidate)) for kept in distinct):
            distinct.append(candidate)
    best = distinct[0] if distinct else ranked[0]
    return dataclasses.replace(best, others=tuple(distinct[1:]))


@program
def _apart(a: LaplacePosterior, b: LaplacePosterior) -> Bool[Array, ""]:
    return a.precision.quadratic(a.centre - b.centre) > (10 * NEAR) ** 2
