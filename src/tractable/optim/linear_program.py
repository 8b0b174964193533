r"""Linear programs and their duals, solved by SciPy's HiGHS and certified here.

Pair.        $\max c^\top x$, $A x \le b$, $x \ge 0$ and $\min b^\top y$, $A^\top y \ge c$, $y \ge 0$.
Derivation.  $L = b^\top y + \lambda^\top (c - A^\top y) - \mu^\top y$ is bounded in $y$ only where
             $b - A\lambda = \mu \ge 0$, and is then $c^\top \lambda$: the dual of the minimisation is the
             maximisation, and back.
Duality.     Weak: $c^\top x \le b^\top y$ for any feasible pair. Strong: equal at the optima, with
             complementary slackness $y_i (b - A x)_i = 0$ and $x_j (A^\top y - c)_j = 0$.
No solution. An infeasible program ends with prices that contradict it (Farkas), an unbounded one with a
             feasible point and a ray (`certificates`); what is not proved is not claimed.
Cost.        That of HiGHS; the check is a few products.
References.  Bertsimas and Tsitsiklis (1997) chapter 4; Huangfu and Hall (2018).
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from tractable.core.checks import as_float, check, check_finite, check_shape
from tractable.core.iterate import Status
from tractable.core.module import Module, field
from tractable.core.types import Array, ArrayLike, Float, Int, Scalar
from tractable.optim.certificates import Rows, descent_ray, farkas, feasible_point
from tractable.optim.kkt import Solved

__all__ = ["LinearProgram", "LinearSolution", "linear_program"]

_SOLVED, _EXHAUSTED = 0, 1  # of SciPy; its other outcomes are claims without a proof


class LinearSolution(Solved, Module):
    """The point, the dual point, and the checks of strong duality and complementary slackness.

    `dual` has a price per row of the constraints, in the sign of the pair: zero or positive. `reduced_costs`
    are what is left of the objective's row after those prices, and `room` is how far each unknown is from the
    bound that such a price holds it to. Where the constraints contradict each other, `dual` and
    `equality_dual` are the prices that prove it; where the objective improves without end, `x` is feasible
    and `ray` the direction. What does not exist is NaN.
    """

    x: Float[Array, " n"]
    dual: Float[Array, " m"]
    slack: Float[Array, " m"]
    reduced_costs: Float[Array, " n"]
    room: Float[Array, " n"]
    equality_dual: Float[Array, " p"]
    value: Scalar
    dual_value: Scalar
    num_steps: Int[Array, ""]
    code: Int[Array, ""]
    ray: Float[Array, " n"] = field(show=False)

    @property
    def gap(self) -> float:
        """The difference of the two optimal values: zero by strong duality."""
        return abs(float(self.value) - float(self.dual_value))

    @property
    def slackness(self) -> float:
        """The largest product of a price and its slack, and of an unknown's room and its reduced cost:
        zero."""
        rows = np.abs(np.asarray(self.dual) * np.asarray(self.slack)).max(initial=0.0)
        columns = np.abs(np.asarray(self.room) * np.asarray(self.reduced_costs)).max(initial=0.0)
        return float(max(rows, columns))


class LinearProgram(Module):
    r"""$\max c^\top x$, $A x \le b$, $x \ge 0$, or (not `maximise`) $\min c^\top x$, $A x \ge b$, $x \ge 0$.

    >>> game = LinearProgram([1.0, 1.0], [[2.0, 1.0], [1.0, 2.0]], [1.0, 1.0])
    >>> round(float(game.solve().value), 6), round(float(game.dual().solve().value), 6)
    (0.666667, 0.666667)
    """

    objective: Float[Array, " n"]
    matrix: Float[Array, "m n"]
    bound: Float[Array, " m"]
    maximise: bool = field(static=True, default=True)

    def __init__(self, objective: ArrayLike, matrix: ArrayLike, bound: ArrayLike, maximise: bool = True):
        self.objective, self.matrix = as_float("objective", objective), as_float("matrix", matrix)
        self.bound, self.maximise = as_float("bound", bound), maximise
        check(self.objective.ndim == 1, "objective", "a vector", f"shape {self.objective.shape}")
        check_shape("matrix", self.matrix, (None, self.objective.size), "A row per constraint.")
        check_shape("bound", self.bound, self.matrix.shape[:1])
        for name in ("objective", "matrix", "bound"):
            check_finite(name, getattr(self, name))

    def dual(self) -> "LinearProgram":
        """The dual program: the same numbers, transposed, with the other sense; its dual is this program."""
        return LinearProgram(self.bound, self.matrix.T, self.objective, not self.maximise)

    def dual_function(self, multipliers: ArrayLike) -> Scalar:
        r"""The best value of the Lagrangian over $x \ge 0$, the rows priced at `multipliers` $\ge 0$.

        It is $b^\top\lambda$ where $A^\top\lambda$ dominates the objective (is dominated, when minimising),
        and infinite elsewhere.
        """
        lam = as_float("multipliers", multipliers)
        check_shape("multipliers", lam, self.bound.shape)
        sign = 1.0 if self.maximise else -1.0
        left = sign * (self.matrix.T @ lam - self.objective)
        rounding = 1e-12 * (1 + jnp.abs(self.objective).max(initial=0.0))
        feasible = (lam >= 0).all() & (left >= -rounding).all()
        return jnp.where(feasible, self.bound @ lam, sign * jnp.inf)

    def solve(self) -> LinearSolution:
        """Both optima at once, with the checks of duality."""
        rows = (self.matrix, self.bound)
        if self.maximise:
            return linear_program(self.objective, upper=rows, maximise=True)
        return linear_program(self.objective, lower=rows)


def linear_program(
    objective: ArrayLike,
    *,
    upper: tuple[Any, ArrayLike] | None = None,
    lower: tuple[Any, ArrayLike] | None = None,
    equality: tuple[Any, ArrayLike] | None = None,
    low: ArrayLike | None = 0.0,
    high: ArrayLike | None = None,
    maximise: bool = False,
) -> LinearSolution:
    r"""Optimise $c^\top x$ with $A x \le b$ (`upper`), $\ge b$ (`lower`), $= b$ (`equality`), `low` $\le x
    \le$ `high`.

    Bounds are one number or one for each unknown; `None` and infinity are free. Matrices may be sparse.
    Prices in `dual` come in the order upper, lower; each is how much the optimum improves per unit by which
    its bound is loosened, and so zero or positive.
    """
    from scipy.optimize import linprog

    c = np.asarray(as_float("objective", objective))
    check(c.ndim == 1 and c.size > 0, "objective", "a vector", f"shape {c.shape}")
    check_finite("objective", c)
    box = np.stack([_bound("low", low, c.size, -np.inf), _bound("high", high, c.size, np.inf)], 1)
    above, below = _rows("upper", upper, c.size), _rows("lower", lower, c.size)
    rows = _stacked(above[0], -below[0])
    bounds = np.concatenate([above[1], -below[1]])
    equal, target = _rows("equality", equality, c.size)
    sign = -1.0 if maximise else 1.0
    found = linprog(sign * c, rows, bounds, equal, target, bounds=box, method="highs")
    if found.x is None or found.status != _SOLVED:
        return _explained(found, c, rows, bounds, equal, target, box, sign)
    return _certified(found, c, rows, bounds, equal, target, box, sign)


def _bound(name: str, value: ArrayLike | None, width: int, free: float) -> np.ndarray:
    given = np.asarray(free if value is None else value, float)
    check(given.shape in ((), (width,)), name, f"one number or {width} of them", f"shape {given.shape}")
    check(not np.isnan(given).any(), name, "numbers or infinite", "NaN")
    return np.broadcast_to(given, (width,))


def _rows(name: str, pair: Any, width: int) -> tuple[Any, np.ndarray]:
    from scipy.sparse import issparse

    if pair is None:
        return np.zeros((0, width)), np.zeros(0)
    check(isinstance(pair, tuple) and len(pair) == 2, name, "a pair (matrix, vector)", type(pair).__name__)
    sparse = issparse(pair[0])
    matrix = pair[0].tocsr() if sparse else np.asarray(as_float(name, pair[0]))
    vector = np.asarray(as_float(name, pair[1]))
    check_shape(f"{name}[0]", matrix, (None, width), "One row per constraint, one column per unknown.")
    check_shape(f"{name}[1]", vector, matrix.shape[:1])
    check_finite(f"{name}[0]", np.asarray(matrix.data if sparse else matrix))
    check_finite(f"{name}[1]", vector)
    return matrix, vector


def _stacked(first: Any, second: Any) -> Any:
    from scipy.sparse import issparse, vstack

    parts = [part for part in (first, second) if part.shape[0]]
    if len(parts) < 2:
        return parts[0] if parts else first
    return vstack(parts, format="csr") if any(map(issparse, parts)) else np.concatenate(parts)


def _explained(
    found: Any, c: np.ndarray, rows: Any, bounds: Any, equal: Any, target: Any, box: np.ndarray, sign: float
) -> LinearSolution:
    """Why there is no solution, proved; the bounds of the unknowns are rows of the proof."""
    low, high = (np.isfinite(side) for side in box.T)
    walls = np.concatenate([-np.eye(c.size)[low], np.eye(c.size)[high]])
    ends = np.concatenate([bounds, -box[low, 0], box[high, 1]])
    all_rows = Rows.of(_stacked(rows, walls), ends, equal, target)
    proof = farkas(all_rows)
    point = feasible_point(all_rows) if proof is None else None
    ray = descent_ray(np.zeros((1, c.size)), sign * c, all_rows) if point is not None else None
    status = Status.exhausted if found.status == _EXHAUSTED else Status.stalled
    status = Status.infeasible if proof is not None else status if ray is None else Status.unbounded
    worst = {Status.infeasible: sign * np.inf, Status.unbounded: -sign * np.inf}.get(status, np.nan)
    prices, levels = proof or (np.full(len(bounds), np.nan), np.full(len(target), np.nan))
    missing, none = jnp.full(c.size, jnp.nan), jnp.full(len(bounds), jnp.nan)
    x, away = (missing if v is None or ray is None else jnp.asarray(v) for v in (point, ray))
    price, level = jnp.asarray(prices[: len(bounds)]), jnp.asarray(levels)
    numbers = (
        jnp.asarray(worst),
        jnp.asarray(jnp.nan),
        jnp.asarray(int(found.nit)),
        jnp.asarray(int(status)),
    )
    return LinearSolution(x, price, none, missing, missing, level, *numbers, away)


def _certified(
    found: Any, c: np.ndarray, rows: Any, bounds: Any, equal: Any, target: Any, box: np.ndarray, sign: float
) -> LinearSolution:
    """SciPy's result in the signs of the pair."""
    ending = (jnp.asarray(int(found.nit)), jnp.asarray(int(Status.converged)), jnp.zeros(c.size))
    prices = -np.asarray(found.ineqlin.marginals)  # the minimum falls as a bound is loosened
    levels = -np.asarray(found.eqlin.marginals)
    reduced = sign * c + rows.T @ prices + equal.T @ levels
    held = np.where(reduced > 0, box[:, 0], box[:, 1])  # a positive cost holds an unknown to its lower bound
    bounded = np.isfinite(held)
    room = np.where(bounded, np.where(bounded, held, 0.0) - found.x, 1.0)  # a free unknown has no cost
    paid = reduced[bounded] @ held[bounded]
    dual_value = sign * (paid - bounds @ prices - target @ levels)
    x, price, slack = jnp.asarray(found.x), jnp.asarray(prices), jnp.asarray(bounds - rows @ found.x)
    cost, left, level = jnp.asarray(reduced), jnp.asarray(room), jnp.asarray(levels)
    return LinearSolution(
        x, price, slack, cost, left, level, jnp.asarray(sign * found.fun), jnp.asarray(dual_value), *ending
    )
