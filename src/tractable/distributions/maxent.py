r"""Maximum entropy: the least committed distribution that has given averages.

Problem.     Maximise $-\sum_k p_k \log(p_k / b_k)$ subject to $\sum_k p_k = 1$ and $\sum_k p_k f_j(k) = c_j$.
Identity.    $p_k = b_k \exp\{\sum_j \lambda_j f_j(k) - A(\lambda)\}$: the exponential family with statistics
             $f$; the multipliers minimise the convex dual $A(\lambda) - \langle \lambda, c \rangle$.
Cost.        $O(K m^2)$ per Newton step for $K$ outcomes and $m$ averages, about ten steps; a linear program.
References.  Jaynes (1957); Cover and Thomas (2006) chapter 12; Boyd and Vandenberghe (2004) section 5.2.
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import as_float, check, is_concrete, offender
from tractable.core.iterate import Run, Status, run_until
from tractable.core.module import Module
from tractable.core.numerics import logsumexp, xlogy
from tractable.core.types import Array, ArrayLike, Bool, Float, Scalar

__all__ = ["MaximumEntropy", "maximum_entropy", "maximum_entropy_density"]

_RESIDUAL = 1e-9


class MaximumEntropy(Module):
    r"""The solution: `probs` $p$, `multipliers` $\lambda$, `log_partition` $A(\lambda)$; and a verdict.

    `residual` is the largest error of an average, relative to the range of its feature. Outcomes that the
    averages rule out have probability zero; the multipliers are then those of the problem without them.
    """

    probs: Float[Array, " k"]
    multipliers: Float[Array, " m"]
    log_partition: Scalar
    base: Float[Array, " k"]
    residual: Scalar
    run: Run

    @property
    def density(self) -> Float[Array, " k"]:
        """Probability relative to the base measure: a density where the base holds cell widths."""
        return self.probs / self.base

    def entropy(self) -> Scalar:
        r"""$-\sum_k p_k \log(p_k / b_k)$ in nats."""
        return -xlogy(self.probs, self.density).sum()

    def __repr__(self) -> str:
        """One line that never hides the verdict."""
        sizes = f"outcomes={self.probs.shape[0]}, averages={self.multipliers.shape[0]}"
        if not is_concrete(self.residual):
            return f"MaximumEntropy({sizes})"
        return f"MaximumEntropy({sizes}, residual={float(self.residual):.1e}: {self.run.status.sentence})"


def maximum_entropy(
    features: ArrayLike, targets: ArrayLike, base: ArrayLike | None = None, *, max_steps: int = 200
) -> MaximumEntropy:
    r"""The distribution of most entropy over outcomes with averages `targets` of `features`, one row each.

    With no rows it is uniform. With `base` the entropy is relative to that measure. Averages that no
    distribution has are an error.

    >>> fair = maximum_entropy(np.arange(1.0, 7.0)[None], np.array([3.5]))
    >>> np.asarray(fair.probs).round(6).tolist()
    [0.166667, 0.166667, 0.166667, 0.166667, 0.166667, 0.166667]
    """
    features, targets = as_float("features", features), as_float("targets", targets)
    check(features.ndim == 2, "features", "a matrix: one row per average", f"shape {features.shape}")
    m, k = features.shape
    check(k > 0, "features", "over at least one outcome", "no columns")
    check(
        targets.shape == (m,),
        "targets",
        f"one number per row of `features`, ({m},)",
        f"shape {targets.shape}",
    )
    measure = jnp.ones(k) if base is None else as_float("base", base)
    check(measure.shape == (k,), "base", f"one number per outcome, ({k},)", f"shape {measure.shape}")
    possible = jnp.ones(k, bool)
    if all(is_concrete(v) for v in (features, targets, measure)):
        _check_values(np.asarray(features), np.asarray(targets), np.asarray(measure))
        possible = jnp.asarray(_possible(np.asarray(features), np.asarray(targets)))
    return _solve(features, targets, measure, possible, max_steps)


def maximum_entropy_density(
    grid: ArrayLike, features: ArrayLike, targets: ArrayLike, *, max_steps: int = 200
) -> MaximumEntropy:
    r"""The density on an increasing `grid` with averages `targets` of `features` (their values on the grid).

    Integrals are sums over cells of the trapezoidal rule; `density` holds the density at each grid point.
    """
    grid = as_float("grid", grid)
    check(grid.ndim == 1 and grid.size > 1, "grid", "a vector of at least two points", f"shape {grid.shape}")
    gaps = jnp.diff(grid)
    if is_concrete(gaps):
        check(
            bool((np.asarray(gaps) > 0).all()),
            "grid",
            "strictly increasing",
            "a step back or a repeated point",
        )
    widths = jnp.pad(gaps, (0, 1)) / 2 + jnp.pad(gaps, (1, 0)) / 2
    return maximum_entropy(features, targets, widths, max_steps=max_steps)


@partial(jax.jit, static_argnums=4)
def _solve(
    features: Array, targets: Array, base: Array, possible: Bool[Array, " k"], max_steps: int
) -> MaximumEntropy:
    away = jnp.where(possible[None], features - targets[:, None], 0.0)
    width = jnp.abs(away).max(1, initial=0.0)
    width = jnp.where(width > 0, width, 1.0)
    centred, log_base = away / width[:, None], jnp.where(possible, jnp.log(base), -jnp.inf)
    start = jnp.zeros_like(targets)
    run = _run_newton(centred, log_base, start, max_steps)
    total, probs = _dual(centred, log_base, run.state)
    residual = jnp.abs(centred @ probs).max(initial=0.0)
    missed = jnp.where(run.code == int(Status.converged), int(Status.stalled), run.code)
    run = eqx.tree_at(lambda r: r.code, run, jnp.where(residual <= _RESIDUAL, int(Status.converged), missed))
    multipliers = run.state / width
    return MaximumEntropy(probs, multipliers, total + multipliers @ targets, base, residual, run)


def _run_newton(centred: Array, log_base: Array, start: Array, max_steps: int) -> Run:
    if start.size == 0:
        return Run(start, jnp.zeros(0), jnp.asarray(0), jnp.asarray(int(Status.converged)))

    def step(multipliers):
        _, probs = _dual(centred, log_base, multipliers)
        slope = centred @ probs
        curvature = (centred * probs[None]) @ centred.T - jnp.outer(slope, slope)
        direction = jnp.linalg.lstsq(curvature, -slope)[0]  # of least norm, where averages repeat one another
        lengths = jnp.concatenate([jnp.zeros(1), 0.5 ** jnp.arange(40)])
        values = jax.vmap(lambda t: _dual(centred, log_base, multipliers + t * direction)[0])(lengths)
        # Near the solution the dual is flat to rounding, and the full step is the one to take.
        slack = 8 * jnp.finfo(values.dtype).eps * (1 + jnp.abs(values[0]))
        longest = jnp.where(values <= values.min() + slack, lengths, 0.0).max()
        best = multipliers + longest * direction
        return best, jnp.abs(centred @ _dual(centred, log_base, best)[1]).max()

    return run_until(step, start, max_steps=max_steps, tol=1e-15)


def _dual(centred: Array, log_base: Array, multipliers: Array) -> tuple[Scalar, Array]:
    r"""$\log \sum_k b_k e^{\langle \lambda, f(k) - c \rangle}$ and the distribution at $\lambda$."""
    logits = log_base + multipliers @ centred
    total = logsumexp(logits)
    return total, jnp.exp(logits - total)


def _check_values(features: np.ndarray, targets: np.ndarray, base: np.ndarray) -> None:
    for name, values in ("features", features), ("targets", targets):
        if not np.isfinite(values).all():
            check(False, name, "finite", offender(values, np.isfinite(values)))
    positive = np.isfinite(base) & (base > 0)
    if not positive.all():
        check(False, "base", "positive and finite", offender(base, positive))


def _possible(features: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Which outcomes can have probability, given the averages; an error if none can.

    Among weights $t + s$ with the right averages (up to scale), as many $t$ as possible reach 1: one linear
    program finds the whole face of the polytope.
    """
    from scipy.optimize import linprog

    m, k = features.shape
    if m == 0:
        return np.ones(k, bool)
    away = features - targets[:, None]
    away = away / np.maximum(np.abs(away).max(1, keepdims=True), np.finfo(float).tiny)
    gain = np.concatenate([-np.ones(k), np.zeros(k)])
    bounds = [(0, 1)] * k + [(0, None)] * k
    found = linprog(gain, A_eq=np.concatenate([away, away], 1), b_eq=np.zeros(m), bounds=bounds)
    possible = found.x[:k] > 0.5
    if not possible.any():
        spans = [f"[{low:g}, {high:g}]" for low, high in zip(features.min(1), features.max(1))]
        must = f"averages that some distribution has, jointly (singly within {', '.join(spans)})"
        check(False, "targets", must, targets.tolist())
    return possible
