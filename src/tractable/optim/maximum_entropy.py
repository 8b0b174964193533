r"""Maximum entropy: the least committed distribution that has given averages.

Problem.     Maximise $-\sum_k p_k \log(p_k / b_k)$ subject to $\sum_k p_k = 1$, $\sum_k p_k f_j(k) = c_j$ and
             $\sum_k p_k g_j(k) \le h_j$.
Identity.    $p_k = b_k \exp\{\sum_j \lambda_j f_j(k) - \sum_j \mu_j g_j(k) - A\}$ with $\mu \ge 0$: the
             exponential family with statistics $f$ and $-g$; the multipliers minimise the convex dual
             $A(\lambda, \mu) - \langle \lambda, c \rangle + \langle \mu, h \rangle$.
Certificate. The problem is convex, so the conditions of Karush, Kuhn and Tucker prove the answer; `report`
             measures them on the primal.
Cost.        $O(K m^2)$ per Newton step for $K$ outcomes and $m$ averages, about ten steps; a linear program.
References.  Jaynes (1957); Cover and Thomas (2006) chapter 12; Boyd and Vandenberghe (2004) section 5.2.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from tractable.core.blocks import run_in_blocks
from tractable.core.checks import as_float, check, check_entries, check_finite, is_concrete
from tractable.core.iterate import Run, Status
from tractable.core.module import Module, field
from tractable.core.numerics import logsumexp, xlogy
from tractable.core.types import Array, ArrayLike, Bool, Float, Scalar
from tractable.core.verdict import Verdict
from tractable.optim.constrained import minimise_constrained
from tractable.optim.kkt import KKTReport, kkt_report
from tractable.optim.linear_program import linear_program
from tractable.optim.minimise import minimise
from tractable.optim.newton import Newton

__all__ = ["MaximumEntropy", "entropy_newton", "maximum_entropy", "maximum_entropy_density"]

_RESIDUAL = 1e-9
_PRIMAL = 1e-12


class MaximumEntropy(Module):
    r"""The solution: `probs` $p$, `multipliers` $\lambda$ (for bounded averages $-\mu$, after those that are
    given), `log_partition` $A$; and how the search for the multipliers ended.

    `residual` is the largest error of an average, relative to the range of its feature. Outcomes that the
    averages rule out have probability zero; the multipliers are then those of the problem without them.
    """

    probs: Float[Array, " k"]
    multipliers: Float[Array, " m"]
    log_partition: Scalar
    base: Float[Array, " k"] = field(show=False)
    residual: Scalar
    run: Run = field(show=False)

    @property
    def density(self) -> Float[Array, " k"]:
        """Probability relative to the base measure: a density where the base holds cell widths."""
        return self.probs / self.base

    @property
    def verdict(self) -> Verdict:
        """Whether the averages are met."""
        status = self.run.status
        return Verdict(status.ok, status.sentence, {"residual": self.residual})

    def entropy(self) -> Scalar:
        r"""$-\sum_k p_k \log(p_k / b_k)$ in nats."""
        return -xlogy(self.probs, self.density).sum()

    def report(
        self,
        features: ArrayLike,
        targets: ArrayLike,
        at_most: tuple[ArrayLike, ArrayLike] | None = None,
        tol: float = 1e-6,
    ) -> KKTReport:
        """The conditions that prove these probabilities optimal, measured on the problem they answer: over
        the outcomes that the averages allow, normalised, the averages equal and the bounds met."""
        allowed = np.asarray(self.probs) > 0
        f, c = np.asarray(features, float)[:, allowed], np.asarray(targets, float)
        g, h = (np.zeros((0, f.shape[1])), np.zeros(0)) if at_most is None else map(np.asarray, at_most)
        g = g[:, allowed] if at_most is not None else g
        base, lam = jnp.asarray(self.base)[allowed], jnp.asarray(self.multipliers)
        rows, level = jnp.asarray(np.vstack([np.ones(f.shape[1]), f])), jnp.asarray(np.r_[1.0, c])
        prices = jnp.concatenate([jnp.ravel(self.log_partition) - 1, -lam[: len(c)]])
        return kkt_report(
            lambda p: xlogy(p, p / base).sum(),
            self.probs[allowed],
            equality=lambda p: rows @ p - level,
            inequality=lambda p: jnp.asarray(g) @ p - jnp.asarray(h),
            equality_multipliers=prices,
            inequality_multipliers=-lam[len(c) :],
            tol=tol,
        )


def maximum_entropy(
    features: ArrayLike,
    targets: ArrayLike,
    base: ArrayLike | None = None,
    *,
    at_most: tuple[ArrayLike, ArrayLike] | None = None,
    max_steps: int = 200,
) -> MaximumEntropy:
    r"""The distribution of most entropy over outcomes with averages `targets` of `features`, one row each.

    `at_most` is a pair of more features and upper bounds of their averages. With no rows the answer is
    uniform. With `base` the entropy is relative to that measure. Averages that no distribution has are an
    error.

    >>> fair = maximum_entropy(np.arange(1.0, 7.0)[None], np.array([3.5]))
    >>> np.asarray(fair.probs).round(6).tolist()
    [0.166667, 0.166667, 0.166667, 0.166667, 0.166667, 0.166667]
    """
    features, targets = _pair("features", features, "targets", targets)
    k = features.shape[1]
    check(k > 0, "features", "over at least one outcome", "no columns")
    measure = jnp.ones(k) if base is None else as_float("base", base)
    check(measure.shape == (k,), "base", f"one number per outcome, ({k},)", f"shape {measure.shape}")
    more, bounds = (
        (jnp.zeros((0, k)), jnp.zeros(0))
        if at_most is None
        else _pair("at_most[0]", at_most[0], "at_most[1]", at_most[1])
    )
    check(more.shape[1] == k, "at_most[0]", f"over the same {k} outcomes", f"{more.shape[1]} columns")
    possible = jnp.ones(k, bool)
    if all(is_concrete(v) for v in (features, targets, measure)):
        values = [np.asarray(v) for v in (features, targets, measure, more, bounds)]
        _check_values(*values)
        possible = jnp.asarray(_possible(values[0], values[1], values[3], values[4]))
    both, levels = jnp.concatenate([features, more]), jnp.concatenate([targets, bounds])
    return _solve(both, levels, measure, possible, len(targets), max_steps)


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
        must = "strictly increasing"
        check(bool((np.asarray(gaps) > 0).all()), "grid", must, "a step back or a repeated point")
    widths = jnp.pad(gaps, (0, 1)) / 2 + jnp.pad(gaps, (1, 0)) / 2
    return maximum_entropy(features, targets, widths, max_steps=max_steps)


def entropy_newton(
    constraints: np.ndarray, wanted: np.ndarray, each: np.ndarray, start: np.ndarray, max_steps: int = 200
) -> Run:
    r"""Maximise $-\sum_i e_i p_i\log p_i$ with $A p = b$ in the primal, on the host: `state["probs"]` and
    `state["prices"]` of the rows of $A$.

    Newton steps on stationarity and constraints together, shortened to stay positive and to lower the
    residual; the slope of the entropy keeps $p$ positive.
    """
    scale = np.abs(constraints).max(1)
    a, b = constraints / np.where(scale > 0, scale, 1.0)[:, None], wanted / np.where(scale > 0, scale, 1.0)

    def residual(probs: np.ndarray, prices: np.ndarray) -> np.ndarray:
        return np.concatenate([np.log(probs) + 1 + (a.T @ prices) / each, a @ probs - b])

    def step(state: dict, _: None) -> tuple[dict, np.ndarray]:
        probs, prices = np.asarray(state["scaled"]["probs"]), np.asarray(state["scaled"]["prices"])
        slack, inverse = a @ probs - b, probs / each
        slope = each * (np.log(probs) + 1)
        target = np.linalg.lstsq((a * inverse) @ a.T, slack - a @ (inverse * slope), rcond=1e-13)[0]
        move, turn = -inverse * (slope + a.T @ target), target - prices
        falling = move < 0
        longest = min(1.0, 0.99 * float((-probs[falling] / move[falling]).min(initial=np.inf)))
        lengths = longest * 0.5 ** np.arange(30)
        sizes = [float(np.linalg.norm(residual(probs + t * move, prices + t * turn))) for t in lengths]
        best = lengths[int(np.argmin(sizes))]
        probs, prices = probs + best * move, prices + best * turn
        seen = {"probs": probs, "prices": prices / np.where(scale > 0, scale, 1.0)}
        return seen | {"scaled": {"probs": probs, "prices": prices}}, np.asarray(min(sizes))

    def judge(_: dict, sizes: np.ndarray) -> Status | None:
        return Status.converged if sizes[-1] <= _PRIMAL * np.sqrt(each.size) else None

    inner = {"probs": start, "prices": np.zeros(len(wanted))}
    return run_in_blocks(
        step, inner | {"scaled": inner}, num_steps=max_steps, judge=judge, compiled=False, partial=False
    )


def _solve(
    features: Array, targets: Array, base: Array, possible: Bool[Array, " k"], count: int, max_steps: int
) -> MaximumEntropy:
    """The multipliers by Newton's method on the dual; the first `count` are free, the others at most zero."""
    away = jnp.where(possible[None], features - targets[:, None], 0.0)
    width = jnp.abs(away).max(1, initial=0.0)
    width = jnp.where(width > 0, width, 1.0)
    data = away / width[:, None], jnp.where(possible, jnp.log(base), -jnp.inf)
    run = _multipliers(data, jnp.zeros_like(targets), count, max_steps)
    total, probs = _dual(run.state, *data), _probs(run.state, *data)
    residual = jnp.where(jnp.arange(targets.size) < count, jnp.abs(data[0] @ probs), data[0] @ probs)
    residual = residual.max(initial=0.0)
    missed = jnp.where(run.code == int(Status.converged), int(Status.stalled), run.code)
    run = eqx.tree_at(lambda r: r.code, run, jnp.where(residual <= _RESIDUAL, int(Status.converged), missed))
    multipliers = run.state / width
    return MaximumEntropy(probs, multipliers, total + multipliers @ targets, base, residual, run)


def _multipliers(data: tuple[Array, Array], start: Array, count: int, max_steps: int) -> Run:
    if start.size == 0:
        return Run(start, jnp.zeros(0), jnp.asarray(0), jnp.asarray(int(Status.converged)))
    if count == start.size:
        return minimise(_dual, start, Newton(), args=data, max_steps=max_steps, tol=1e-15, curvature=False)
    below = lambda multipliers, *_: multipliers[count:]  # noqa: E731
    found = minimise_constrained(_dual, start, inequality=below, args=data, max_steps=max_steps, tol=1e-10)
    held = jnp.where(found.active, 0.0, jnp.minimum(found.state[count:], 0.0))
    state = jnp.concatenate([found.state[:count], held])
    return Run(state, jnp.zeros(0), found.num_steps, found.code)


def _dual(multipliers: Array, centred: Array, log_base: Array) -> Scalar:
    r"""$\log \sum_k b_k e^{\langle \lambda, f(k) - c \rangle}$."""
    return logsumexp(log_base + multipliers @ centred)


def _probs(multipliers: Array, centred: Array, log_base: Array) -> Array:
    logits = log_base + multipliers @ centred
    return jnp.exp(logits - logsumexp(logits))


def _pair(name: str, features: ArrayLike, other: str, targets: ArrayLike) -> tuple[Array, Array]:
    rows, levels = as_float(name, features), as_float(other, targets)
    check(rows.ndim == 2, name, "a matrix: one row per average", f"shape {rows.shape}")
    must = f"one number per row of `{name}`, ({len(rows)},)"
    check(levels.shape == rows.shape[:1], other, must, f"shape {levels.shape}")
    return rows, levels


def _check_values(
    features: np.ndarray, targets: np.ndarray, base: np.ndarray, more: np.ndarray, bounds: np.ndarray
) -> None:
    named = {"features": features, "targets": targets, "at_most[0]": more, "at_most[1]": bounds}
    for name, values in named.items():
        check_finite(name, values)
    check_entries("base", base, lambda v: np.isfinite(v) & (v > 0), "positive and finite")


def _possible(features: np.ndarray, targets: np.ndarray, more: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Which outcomes can have probability, given the averages; an error if none can.

    Among weights $t + s$ with the right averages (up to scale), as many $t$ as possible reach 1: one linear
    program finds the whole face of the polytope.
    """
    k = features.shape[1]
    if not len(features) + len(more):
        return np.ones(k, bool)
    gain, high = np.repeat([1.0, 0.0], k), np.repeat([1.0, np.inf], k)
    away, above = (_doubled(rows - levels[:, None]) for rows, levels in ((features, targets), (more, bounds)))
    equal, upper = (away, np.zeros(len(away))), (above, np.zeros(len(above)))
    found = linear_program(gain, equality=equal, upper=upper, high=high, maximise=True)
    possible = np.asarray(found.x)[:k] > 0.5
    if not possible.any():
        spans = [f"[{low:g}, {high:g}]" for low, high in zip(features.min(1), features.max(1))]
        must = f"averages that some distribution has, jointly (singly within {', '.join(spans)})"
        check(False, "targets", must, targets.tolist())
    return possible


def _doubled(away: np.ndarray) -> np.ndarray:
    scaled = away / np.maximum(np.abs(away).max(1, keepdims=True, initial=0.0), np.finfo(float).tiny)
    return np.concatenate([scaled, scaled], 1)
