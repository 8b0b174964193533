r"""Pathfinder: Gaussian approximations along an optimiser's path, the best of which is kept.

Path.        L-BFGS climbs $\log p$; at every iterate $x_l$ its pairs $(s_i, y_i)$ give an inverse Hessian $H
             = \mathrm{diag}(a) + B\,\Gamma B^\top$ of low rank, with $B = [\mathrm{diag}(a)Y, S]$, $\Gamma =
             [[0, -R^{-1}], [-R^{-\top}, R^{-\top}(D + Y^\top\mathrm{diag}(a)Y)R^{-1}]]$, $R_{ij} = s_i^\top
             y_j$ for $i \le j$, $D = \mathrm{diag}(s_i^\top y_i)$.
Member.      $N(x_l + H\nabla\log p(x_l),\ H)$, drawn through $QR = \mathrm{diag}(a)^{-1/2}B$ and the factor
             of $I + R\Gamma R^\top$; the ELBO of a few draws decides which iterate is best.
Several.     Paths from several starts are pooled into a mixture, and draws are resampled by their weights
             $p/q$: paths that end in a minor mode count for little.
Verdict.     On the Gaussian of the best path, by a second look (`inference.weighted.second_look`).
Cost.        One L-BFGS run, `num_elbo_draws` densities per iterate, $O(dj^2)$ per member; all paths in one
             program.
References.  Zhang, Carpenter, Gelman and Vehtari (2022), "Pathfinder: parallel quasi-Newton variational
             inference"; Byrd, Nocedal and Schnabel (1994); Gilbert and Lemarechal (1989).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import jax.scipy.linalg as jsl
import numpy as np

from tractable.core.checks import check, check_count
from tractable.core.iterate import Run, Status, run
from tractable.core.keys import takes_key
from tractable.core.linalg import psd_factor
from tractable.core.module import Module
from tractable.core.numerics import logsumexp
from tractable.core.programs import program
from tractable.core.types import Array, Float, Key, PyTree, Scalar
from tractable.inference.joint import as_stated
from tractable.inference.posterior import with_target
from tractable.inference.target import FlatTarget
from tractable.inference.variational.families import VariationalFamily
from tractable.inference.variational.judgement import JudgedDraws
from tractable.inference.weighted.second_look import second_look
from tractable.optim.objective import Iterate, Objective
from tractable.optim.quasi_newton import LBFGS, History

__all__ = ["InverseHessian", "PathfinderPosterior", "pathfinder"]

_LOG_2PI = float(np.log(2 * np.pi))


class InverseHessian(VariationalFamily):
    r"""$N(m, \mathrm{diag}(a)^{1/2}(I + Q(LL^\top - I)Q^\top)\,\mathrm{diag}(a)^{1/2})$, never formed."""

    loc: Float[Array, " d"]
    root: Float[Array, " d"]  # of the diagonal
    basis: Float[Array, "d r"]
    lower: Float[Array, "r r"]

    @property
    def dim(self) -> int:
        return self.loc.shape[0]

    @property
    def log_det(self) -> Scalar:
        r"""$\frac12\log|\Sigma|$."""
        return jnp.log(self.root).sum() + jnp.log(jnp.diagonal(self.lower)).sum()

    def forward(self, noise):
        inside = self.basis.T @ noise
        return self.loc + self.root * (noise + self.basis @ (self.lower @ inside - inside))

    def log_prob(self, x):
        u = (x - self.loc) / self.root
        inside = self.basis.T @ u
        z = u + self.basis @ (jsl.solve_triangular(self.lower, inside, lower=True) - inside)
        return -0.5 * (z @ z + self.dim * _LOG_2PI) - self.log_det

    @property
    def mean(self) -> Float[Array, " d"]:
        """The mean vector."""
        return self.loc

    @property
    def cov(self) -> Float[Array, "d d"]:
        """The covariance matrix."""
        columns = jax.vmap(self.forward)(jnp.eye(self.dim, dtype=self.loc.dtype)) - self.loc[None]
        return columns.T @ columns

    @staticmethod
    def of(diagonal: Array, history: History, point: Array, slope: Array) -> "InverseHessian":
        r"""The member at `point` where $\nabla\log p$ = `slope`; an empty pair of `history` is absent."""
        s, y, filled = history.steps, history.changes, history.rho > 0
        inner = jnp.triu(s @ y.T) + jnp.diag(jnp.where(filled, 0.0, 1.0))
        size = inner.shape[0]
        inverse = jsl.solve_triangular(inner, jnp.eye(size, dtype=point.dtype))
        spread = jnp.diag(jnp.diagonal(inner)) + (y * diagonal[None]) @ y.T
        middle = jnp.block([[jnp.zeros_like(inverse), -inverse], [-inverse.T, inverse.T @ spread @ inverse]])
        columns = jnp.concatenate([diagonal[:, None] * y.T, s.T], axis=1)
        root = jnp.sqrt(diagonal)
        basis, upper = jnp.linalg.qr(columns / root[:, None])
        rank = upper.shape[0]
        lower = psd_factor(jnp.eye(rank, dtype=point.dtype) + upper @ middle @ upper.T).lower
        step = diagonal * slope + columns @ (middle @ (columns.T @ slope))
        return InverseHessian(point + step, root, basis, lower)


class PathfinderPosterior(JudgedDraws):
    """The Gaussian of the best path with its bound, draws from all paths, and how far to trust them."""

    elbos: Float[Array, " p"]  # of each path

    _shown = ("family", "elbo", "elbos", "k_hat", "efficiency", "num_steps")


@takes_key
def pathfinder(
    log_density: Callable[..., Any] | None = None,
    start: PyTree = None,
    *,
    key: Key,
    prior: Any = None,
    likelihood: Callable[..., Any] | None = None,
    observed: Any = None,
    num_paths: int = 1,
    args: tuple = (),
    log_prior: Callable[..., Any] | None = None,
    supports: Any = None,
    num_draws: int = 1000,
    num_elbo_draws: int = 10,
    history: int = 6,
    max_steps: int = 200,
    spread: float = 1.0,
    tol: float = 1e-8,
) -> PathfinderPosterior:
    """Gaussians along L-BFGS paths to the mode; the best of each path, and draws by importance resampling.

    Of `log_density(x, *args) + log_prior(x)`, or of `prior` and `likelihood`, as in `mcmc`.
    The first path begins at `start`; the others at `start` plus normal noise of standard deviation `spread`
    in the free numbers. `num_draws` are taken from each path.

    >>> post = pathfinder(lambda x: -0.5 * ((x - 3.0) ** 2).sum(), jnp.zeros(2), key=jr.key(0))
    >>> post.q.mean.round(4).tolist(), round(float(post.elbo), 4)
    ([3.0, 3.0], 1.8379)
    """
    paths, steps = check_count("num_paths", num_paths), check_count("max_steps", max_steps)
    draws, few = check_count("num_draws", num_draws, 25), check_count("num_elbo_draws", num_elbo_draws)
    check(spread > 0, "spread", "positive", spread)
    parts = (prior, likelihood, args, observed, supports)
    density, start, args, supports = as_stated(log_density, start, *parts)
    free, target = FlatTarget.of(density, start, args, log_prior, supports)
    value = float(_value(target, free))
    fix = "Choose a start at which the density is positive."
    check(bool(np.isfinite(value)), "log_density", "finite at `start`", value, fix)
    key_start, key_path = jr.split(key)
    noise = jnp.concatenate([jnp.zeros((1, free.size)), jr.normal(key_start, (paths - 1, free.size))])
    starts = free[None] + spread * noise.astype(free.dtype)
    keys = jr.split(key_path, paths)
    found = _paths(target, starts, keys, LBFGS(check_count("history", history)), steps, few, draws, tol)
    return _pooled(target, found)


class _Path(Module):
    family: InverseHessian
    elbo: Scalar
    draws: Float[Array, "n d"]
    log_weights: Float[Array, " n"]
    num_steps: Any
    code: Any


class _Pool(Module):
    """The mixture of the members of all paths."""

    members: InverseHessian  # stacked
    log_shares: Float[Array, " p"]  # minus infinity for paths that found nothing

    def log_prob(self, x: Array) -> Scalar:
        return logsumexp(self.log_shares + jax.vmap(lambda member: member.log_prob(x))(self.members))


def _pooled(target: FlatTarget, found: _Path) -> PathfinderPosterior:
    elbos = np.asarray(found.elbo)
    fix = "Start where the density is smooth and finite, or raise `num_elbo_draws`."
    check(bool((elbos > -np.inf).any()), "log_density", "finite along some path", "no finite ELBO", fix)
    best = int(np.nanargmax(np.where(np.isfinite(elbos), elbos, -np.inf)))
    paths = np.flatnonzero(np.isfinite(elbos))
    whole = _Pool(found.family, jnp.where(jnp.isfinite(found.elbo), -np.log(len(paths)), -jnp.inf))
    family, num_steps, code = jax.tree.map(lambda a: a[best], (found.family, found.num_steps, found.code))
    # each path that lives in turn, so that any stretch of the rows is a draw of the pool
    rows = np.arange(elbos.size * found.draws.shape[1])
    points = found.draws[paths[rows % len(paths)], (rows // len(paths)) % found.draws.shape[1]]
    look = second_look(target, whole, points, family.loc, family)
    post = PathfinderPosterior(
        family, target.rebuild, found.elbo[best], look, num_steps, code, found.elbo,
    )  # fmt: skip
    return with_target(post, target)


@program
def _value(target: FlatTarget, free: Array) -> Scalar:
    return target(free)


@program
def _paths(
    target: FlatTarget,
    starts: Array,
    keys: Array,
    method: LBFGS,
    steps: int,
    few: int,
    draws: int,
    tol: float,
) -> _Path:
    def one(start: Array, key: Key) -> _Path:
        key_elbo, key_draws = jr.split(key)
        iterates, active, run_code, count = _trajectory(target, method, start, steps, tol)
        diagonals = _diagonals(iterates, active)
        members = jax.vmap(InverseHessian.of)(diagonals, iterates.memory, iterates.point, -iterates.gradient)
        noise = jr.normal(key_elbo, (few, start.size), start.dtype)

        def elbo(member: InverseHessian) -> Scalar:
            return _log_weights(target, member, noise)[1].mean()

        # the same noise for every iterate: they are compared with each other
        bounds = jax.lax.map(elbo, members)
        bounds = jnp.where(active & jnp.isfinite(bounds), bounds, -jnp.inf)
        best = jnp.argmax(bounds)
        member = jax.tree.map(lambda leaf: leaf[best], members)
        fresh = jr.normal(key_draws, (draws, start.size), start.dtype)
        points, logs = _log_weights(target, member, fresh)
        final = jnp.where(jnp.isfinite(bounds[best]), logs.mean(), -jnp.inf)
        return _Path(member, final, points, logs, count, run_code)

    return jax.vmap(one)(starts, keys)


def _log_weights(target: FlatTarget, member: InverseHessian, noise: Array) -> tuple[Array, Array]:
    points = jax.vmap(member.forward)(noise)
    return points, jax.vmap(target)(points) - jax.vmap(member.log_prob)(points)


def _trajectory(
    target: FlatTarget, method: LBFGS, start: Array, steps: int, tol: float
) -> tuple[Iterate, Array, Array, Array]:
    """Every iterate after the first, which of them moved, and how the climb ended."""
    objective = Objective(lambda x: -target(x), lambda x: x)

    def settled(iterate: Iterate) -> Array:
        return (jnp.abs(iterate.gradient).max() <= tol * (1 + jnp.abs(iterate.value))) | iterate.stalled

    def step(iterate: Iterate, _: Any) -> tuple[Iterate, tuple[Iterate, Array]]:
        moved = method.step(objective, iterate)
        stop = settled(iterate) | ~jnp.isfinite(moved.value)
        kept = jax.tree.map(lambda old, new: jnp.where(stop, old, new), iterate, moved)
        return kept, (kept, ~stop & ~moved.stalled)

    made: Run = run(step, method.init(objective, start), num_steps=steps)
    iterates, active = made.trace
    last = made.state
    done = jnp.where(settled(last), int(Status.converged), int(Status.exhausted))
    return iterates, active, done, active.sum()


def _diagonals(iterates: Iterate, active: Array) -> Float[Array, "l d"]:
    """The diagonal of the inverse Hessian at each iterate, updated by its newest pair."""

    def update(a: Array, inputs: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        s, y, use = inputs
        top, middle, bottom = (y * a) @ y, y @ s, (s / a) @ s
        use = use & (middle > 1e-12 * jnp.linalg.norm(s) * jnp.linalg.norm(y))
        b, c = jnp.where(use, middle, 1.0), jnp.where(use, bottom, 1.0)
        inverse = top / (b * a) + y**2 / b - top * s**2 / (b * c * a**2)
        a = jnp.where(use & (inverse > 0).all(), 1 / jnp.where(inverse > 0, inverse, 1.0), a)
        return a, a

    newest = (iterates.memory.steps[:, -1], iterates.memory.changes[:, -1], active)
    return run(update, jnp.ones_like(iterates.point[0]), newest).trace
