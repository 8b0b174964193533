r"""Convexity and curvature of a function on a box, judged by sampling.

Chords.      Convex: $f(t x + (1 - t) y) \le t f(x) + (1 - t) f(y)$ for $0 \le t \le 1$.
Hessian.     Where $f$ is twice differentiable: convex exactly if $\nabla^2 f \succeq 0$. At a kink there is
             no Hessian (that of $|x|$ is zero wherever it exists and says nothing): kinks are looked for
             along the chords, where the slope jumps, and the test is then reported as not applicable.
Curvature.   $L$-smooth: $f(x) \le f(y) + (x - y)^\top \nabla f(y) + \tfrac{L}{2}\|x - y\|^2$;
             $\mu$-strongly convex: $f(x) \ge f(y) + (x - y)^\top \nabla f(y) + \tfrac{\mu}{2}\|x - y\|^2$;
             and $\|\nabla f(x)\|^2 \le 2L(f(x) - f^*)$.
Honesty.     Samples can refute, never prove: estimates of $L$ are lower bounds, those of $\mu$ upper bounds.
Cost.        A few values and gradients for each pair; one eigenvalue problem for each Hessian.
References.  Nesterov (2018) chapter 2; Boyd and Vandenberghe (2004) chapter 3.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import as_float, check, check_count, check_finite
from tractable.core.iterate import run
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.programs import as_data, program
from tractable.core.types import Array, ArrayLike, Bool, Float, Key, Scalar
from tractable.core.verdict import Verdict

__all__ = [
    "ConvexityReport",
    "Curvature",
    "InequalityReport",
    "box_points",
    "check_convexity",
    "check_inequalities",
    "curvature",
]

_HALVINGS = 45
_NUM_HESSIANS = 64


class ConvexityReport(Module):
    """What chords and Hessians say; `convex` is False where one of them refutes it."""

    chord_gap: Scalar  # the worst excess over a chord, relative to the size of the function there
    chord: tuple[Array, Array, Array]  # where it occurs: x, y and t
    smallest_eigenvalue: Scalar  # of the Hessians, relative to the largest; NaN where there is a kink
    kink: Float[Array, "..."]  # a point where the slope jumps; NaN where none was found
    num_pairs: int = field(static=True)
    tol: float = field(static=True)

    @property
    def hessian_applies(self) -> bool:
        """Whether no kink was found, so that the Hessian tells the whole curvature."""
        return bool(np.isnan(np.asarray(self.kink)).all())

    @property
    def convex(self) -> bool:
        """Whether nothing refutes convexity."""
        eigenvalue = float(self.smallest_eigenvalue)
        curved = not self.hessian_applies or eigenvalue >= -self.tol
        return float(self.chord_gap) <= self.tol and curved

    @property
    def verdict(self) -> Verdict:
        """Whether a test refutes it, and which apply."""
        said = "no violation found" if self.convex else "NOT CONVEX"
        where = f"not applicable: the slope jumps near {np.asarray(self.kink).round(6)}"
        hessian = "" if self.hessian_applies else f" Hessian test {where}."
        return Verdict(self.convex, f"Convexity: {said} ({self.num_pairs} random chords).{hessian}")


class Curvature(Module):
    """Estimates of $L$ (from below) and $\\mu$ (from above) on a box."""

    smoothness: Scalar
    strong_convexity: Scalar

    @property
    def condition_number(self) -> Scalar:
        r"""$L / \mu$: gradient descent needs about this many steps to shrink the error by $e$."""
        return self.smoothness / self.strong_convexity

    def _note(self) -> str:
        return f"From samples: L >= {float(self.smoothness):.6g}, mu <= {float(self.strong_convexity):.6g}"


class InequalityReport(Module):
    """The least slack of each inequality over the pairs, relative to the size of the function."""

    slack: dict[str, Scalar]
    tol: float = field(static=True)

    @property
    def holds(self) -> dict[str, bool]:
        """Which inequalities no pair breaks; a NaN breaks them."""
        return {name: float(value) >= -self.tol for name, value in self.slack.items()}

    def _columns(self) -> dict[str, Any]:
        words = {True: "holds on every pair", False: "BROKEN"}
        said = [words[ok] for ok in self.holds.values()]
        return {"inequality": [*self.slack], "least slack": [*map(float, self.slack.values())], "": said}


@takes_key
def check_convexity(
    fun: Callable[..., Any],
    low: ArrayLike,
    high: ArrayLike,
    *,
    key: Key,
    args: tuple = (),
    num_pairs: int = 1000,
    tol: float = 1e-9,
) -> ConvexityReport:
    """Chord test and Hessian test of `fun(x, *args)` on the box from `low` to `high`.

    >>> check_convexity(lambda x: x**2, -1.0, 1.0, key=jr.key(0)).convex
    True
    """
    low, high = _box(low, high)
    num_pairs = check_count("num_pairs", num_pairs)
    gap, chord, eigenvalue, kink = _convexity(fun, as_data(args), low, high, key, num_pairs)
    return ConvexityReport(gap, chord, eigenvalue, kink, num_pairs, tol)


def curvature(
    fun: Callable[..., Any],
    low: ArrayLike,
    high: ArrayLike,
    *,
    key: Key,
    args: tuple = (),
    num_pairs: int = 1000,
) -> Curvature:
    r"""$L$ and $\mu$ from pairs of gradients and from Hessians in the box; exact for a quadratic."""
    low, high = _box(low, high)
    return _curvature(fun, as_data(args), low, high, key, check_count("num_pairs", num_pairs))


def check_inequalities(
    fun: Callable[..., Any],
    low: ArrayLike,
    high: ArrayLike,
    *,
    key: Key,
    smoothness: float | Scalar,
    strong_convexity: float | Scalar = 0.0,
    minimum: float | Scalar | None = None,
    args: tuple = (),
    num_pairs: int = 1000,
    tol: float = 1e-9,
) -> InequalityReport:
    r"""Quadratic upper bound, linear lower bound, strong convexity and, with the `minimum` $f^*$, the bound
    on the gradient, on random pairs of points of the box."""
    low, high = _box(low, high)
    best = jnp.asarray(jnp.nan if minimum is None else minimum, low.dtype)
    constants = (jnp.asarray(smoothness, low.dtype), jnp.asarray(strong_convexity, low.dtype), best)
    slack = _slacks(fun, as_data(args), low, high, key, check_count("num_pairs", num_pairs), constants)
    if minimum is None:
        slack = {name: value for name, value in slack.items() if name != "gradient bound"}
    return InequalityReport(slack, tol)


def box_points(key: Key, low: Array, high: Array, num_points: int) -> Array:
    """Points drawn evenly from a box."""
    return jax.vmap(lambda u: low + (high - low) * u)(jr.uniform(key, (num_points, *low.shape), low.dtype))


def _box(low: ArrayLike, high: ArrayLike) -> tuple[Array, Array]:
    low, high = as_float("low", low), as_float("high", high)
    check(low.shape == high.shape, "high", f"of the shape of `low`, {low.shape}", f"shape {high.shape}")
    check_finite("low", low)
    check_finite("high", high)
    check(bool((np.asarray(low) < np.asarray(high)).all()), "low", "below `high`", f"{low} and {high}")
    return low, high


def _flat(fun: Callable, args: tuple, low: Array) -> Callable[[Array], Array]:
    return lambda v: fun(jnp.reshape(v, low.shape), *args)


def _pairs(key: Key, low: Array, high: Array, num_pairs: int) -> tuple[Array, Array, Key]:
    first, second, other = jr.split(key, 3)
    flat_low, flat_high = jnp.ravel(low), jnp.ravel(high)
    x = box_points(first, flat_low, flat_high, num_pairs)
    return x, box_points(second, flat_low, flat_high, num_pairs), other


@program
def _convexity(fun, args: tuple, low: Array, high: Array, key: Key, num_pairs: int) -> tuple:
    f = _flat(fun, args, low)
    x, y, other = _pairs(key, low, high, num_pairs)
    t = jr.uniform(other, (num_pairs,), low.dtype)

    def excess(x, y, t):
        ends = t * f(x) + (1 - t) * f(y)
        return (f(t * x + (1 - t) * y) - ends) / (1 + jnp.abs(f(x)) + jnp.abs(f(y)))

    gaps = jax.vmap(excess)(x, y, t)
    # A NaN is the worst of all: argmax finds it.
    worst = jnp.argmax(gaps)
    chord = (jnp.reshape(x[worst], low.shape), jnp.reshape(y[worst], low.shape), t[worst])
    jumps, places = jax.vmap(lambda x, y: _jump(f, x, y))(x, y)
    kinked = jnp.any(jumps)
    kink = jnp.where(kinked, places[jnp.argmax(jumps)], jnp.nan)
    values = jax.vmap(lambda x: jnp.linalg.eigvalsh(jax.hessian(f)(x)))(x[:_NUM_HESSIANS])
    size = jnp.abs(values).max()
    smallest = jnp.where(kinked, jnp.nan, values.min() / jnp.where(size > 0, size, 1.0))
    return gaps[worst], chord, smallest, jnp.reshape(kink, low.shape)


def _jump(f: Callable, x: Array, y: Array) -> tuple[Bool[Array, ""], Array]:
    """Whether the slope along a chord jumps, and where: halve towards what the curvature does not explain."""
    d = y - x

    def slope(t):
        return jax.grad(f)(x + t * d) @ d

    def bend(t):
        return jax.jvp(slope, (t,), (jnp.ones_like(t),))[1]

    def halve(ends, _):
        """The ends of a piece with the slopes there; the half whose slope changes unexpectedly is kept."""
        (a, b), (slope_a, slope_b) = ends
        middle, quarter = 0.5 * (a + b), 0.25 * (b - a)
        slope_m = slope(middle)
        expected = (b - a) / 2 * jax.vmap(bend)(jnp.stack([middle - quarter, middle + quarter]))
        surprise = jnp.abs(jnp.stack([slope_m - slope_a, slope_b - slope_m]) - expected)
        left = surprise[0] >= surprise[1]
        pick = ((a, middle), (slope_a, slope_m)), ((middle, b), (slope_m, slope_b))
        return jax.tree.map(lambda low, high: jnp.where(left, low, high), *pick), None

    zero, one = jnp.zeros((), x.dtype), jnp.ones((), x.dtype)
    slopes = jax.vmap(slope)(jnp.stack([zero, one]))
    start = ((zero, one), (slopes[0], slopes[1]))
    (a, _), (slope_a, slope_b) = run(halve, start, num_steps=_HALVINGS).state
    return jnp.abs(slope_b - slope_a) > 1e-6 * jnp.abs(slopes).sum(), x + a * d


@program
def _curvature(fun, args: tuple, low: Array, high: Array, key: Key, num_pairs: int) -> Curvature:
    f = _flat(fun, args, low)
    x, y, _ = _pairs(key, low, high, num_pairs)

    def quotients(x, y):
        change, d = jax.grad(f)(x) - jax.grad(f)(y), x - y
        return jnp.linalg.norm(change) / jnp.linalg.norm(d), change @ d / (d @ d)

    steep, bent = jax.vmap(quotients)(x, y)
    values = jax.vmap(lambda x: jnp.linalg.eigvalsh(jax.hessian(f)(x)))(x[:_NUM_HESSIANS])
    return Curvature(jnp.maximum(steep.max(), jnp.abs(values).max()), jnp.minimum(bent.min(), values.min()))


@program
def _slacks(fun, args: tuple, low: Array, high: Array, key: Key, num_pairs: int, constants: tuple) -> dict:
    f = _flat(fun, args, low)
    x, y, _ = _pairs(key, low, high, num_pairs)
    smoothness, strong, minimum = constants

    def slacks(x, y):
        (fx, gx), (fy, gy), d = jax.value_and_grad(f)(x), jax.value_and_grad(f)(y), x - y
        above = fx - fy - d @ gy
        found = {
            "quadratic upper bound": 0.5 * smoothness * (d @ d) - above,
            "linear lower bound": above,
            "strong convexity": above - 0.5 * strong * (d @ d),
            "gradient bound": 2 * smoothness * (fx - minimum) - gx @ gx,
        }
        return {name: value / (1 + jnp.abs(fx) + jnp.abs(fy)) for name, value in found.items()}

    return jax.tree.map(jnp.min, jax.vmap(slacks)(x, y))
