r"""Entropic optimal transport: Sinkhorn's iteration in the log domain, at the speed of matrix products.

Problem.     $\min_P \langle P, C \rangle + \varepsilon\,\mathrm{KL}(P \| a \otimes b)$ over plans with
             marginals $a$ and $b$. The optimum is $P_{ij} = a_i b_j \exp\{(f_i + g_j -
             C_{ij})/\varepsilon\}$.
Iteration.   $f_i \leftarrow -\varepsilon \log \sum_j b_j e^{(g_j - C_{ij})/\varepsilon}$, and likewise $g$.
             With the potentials absorbed in $K_{ij} = e^{(f_i + g_j - C_{ij})/\varepsilon}$, twenty updates
             are scalings $u = 1/K(bv)$, $v = 1/K^\top(au)$ near 1, two matrix-vector products each; then $u$
             and $v$ go back into $f$ and $g$. A block that leaves the range of floats (small $\varepsilon$,
             far from the optimum) is replaced by one exact update by log-sum-exp. Near the optimum the
             updates are over-relaxed, $u \leftarrow u^{1-\omega} (K(bv))^{-\omega}$, with $\omega$ from the
             observed rate.
Certificate. The dual value is a lower bound on the regularised cost at every step; the verdict rests on the
             error of the marginals.
Cost.        $O(nm)$ per update; of the order of $\max C / \varepsilon$ updates.
References.  Cuturi (2013); Schmitzer (2019) (absorption, scaling of epsilon); Feydy et al. (2019)
             (debiasing).
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import as_float, check, check_count, is_concrete
from tractable.core.iterate import Ended, Status, run, run_until
from tractable.core.module import Module
from tractable.core.numerics import safe_log
from tractable.core.programs import program
from tractable.core.types import Array, ArrayLike, Float, Int, Scalar
from tractable.distributions.transport import transport_cost, transport_problem

__all__ = ["SinkhornPlan", "sinkhorn", "sinkhorn_divergence"]

_BLOCK = 20
_LARGEST_LOG_SCALING = (
    100.0  # an entry of K below e^-745 is lost; with scalings of at most e^200 it could not have mattered
)


class SinkhornPlan(Ended, Module):
    r"""Potentials of the regularised problem, with the verdict on how well their plan meets the marginals.

    `value` is the dual objective $\langle f, a \rangle + \langle g, b \rangle - \varepsilon(\sum_{ij} P_{ij}
    - 1)$, which carries gradients with respect to cost and weights; `marginal_error` is $\sum_i |P\mathbf{1}
    - a|_i + \sum_j |P^\top\mathbf{1} - b|_j$.
    """

    row_potential: Float[Array, " n"]
    column_potential: Float[Array, " m"]
    cost: Float[Array, "n m"]
    a: Float[Array, " n"]
    b: Float[Array, " m"]
    epsilon: Scalar
    value: Scalar
    marginal_error: Scalar
    num_steps: Int[Array, ""]
    code: Int[Array, ""]
    _shown = ("epsilon", "value", "marginal_error", "num_steps")

    @property
    def plan(self) -> Float[Array, "n m"]:
        r"""$P_{ij} = a_i b_j \exp\{(f_i + g_j - C_{ij})/\varepsilon\}$."""
        return _plan(self.row_potential, self.column_potential, self.cost, self.a, self.b, self.epsilon)

    @property
    def transport_cost(self) -> Scalar:
        r"""$\langle P, C \rangle$, without the entropy."""
        return (self.plan * self.cost).sum()


def sinkhorn(
    cost: ArrayLike,
    a: ArrayLike | None = None,
    b: ArrayLike | None = None,
    *,
    epsilon: ArrayLike,
    tol: float = 1e-9,
    max_steps: int = 10_000,
    num_scales: int = 0,
) -> SinkhornPlan:
    r"""The entropic plan between weights `a` and `b` (equal by default) until the marginals are right to
    `tol`.

    `num_scales` first solves that many problems with larger $\varepsilon$, falling geometrically from the
    largest cost; it saves steps when `epsilon` is small. `max_steps` counts updates of both potentials.
    """
    c, a, b = transport_problem(cost, a, b)
    eps = as_float("epsilon", epsilon)
    if is_concrete(eps):
        check(eps.ndim == 0 and bool(eps > 0), "epsilon", "a positive number", np.asarray(eps))
    check(tol > 0, "tol", "positive", tol)
    blocks = -(-check_count("max_steps", max_steps) // _BLOCK)
    scales = check_count("num_scales", num_scales, 0)
    return _sinkhorn(
        c, a.astype(c.dtype), b.astype(c.dtype), eps.astype(c.dtype), jnp.asarray(tol), blocks, scales
    )


def sinkhorn_divergence(
    x: ArrayLike,
    y: ArrayLike,
    *,
    epsilon: ArrayLike,
    x_weights: ArrayLike | None = None,
    y_weights: ArrayLike | None = None,
    order: float = 2.0,
    **options: Any,
) -> Scalar:
    r"""$\mathrm{OT}_\varepsilon(x, y) - \frac12 \mathrm{OT}_\varepsilon(x, x) - \frac12
    \mathrm{OT}_\varepsilon(y, y)$ between clouds of points in rows.

    Zero for equal clouds, positive otherwise; between $W_p^p$ ($\varepsilon \to 0$) and a kernel discrepancy
    ($\varepsilon \to \infty$). NaN if one of the three problems does not converge; `options` go to
    `sinkhorn`.
    """

    def term(left, right, left_weights, right_weights):
        plan = sinkhorn(
            transport_cost(left, right, order), left_weights, right_weights, epsilon=epsilon, **options
        )
        return jnp.where(plan.code == int(Status.converged), plan.value, jnp.nan)

    own = term(x, x, x_weights, x_weights) + term(y, y, y_weights, y_weights)
    return term(x, y, x_weights, y_weights) - own / 2


@program
def _sinkhorn(
    cost: Array, a: Array, b: Array, eps: Array, tol: Array, blocks: int, scales: int
) -> SinkhornPlan:
    problem = jax.lax.stop_gradient((cost, a, b, eps))

    def step(state):
        f, g, error, power = state
        f, g, error_new = _block(f, g, *problem, power)
        # Two reports of the same value end the loop: below `tol` every error is reported as `tol`.
        return (f, g, error_new, _relaxation(error, error_new, power)), jnp.maximum(error_new, tol)

    start = (*_warm_start(*problem, scales), jnp.asarray(2.0, cost.dtype), jnp.ones((), cost.dtype))
    done = run_until(step, start, max_steps=blocks, tol=0.0)
    _, g, error, _ = done.state
    f = _soft_minimum(
        problem[0], g, safe_log(problem[2]), problem[3]
    )  # rows exactly right; `error` is that of columns
    mass = _plan(f, g, cost, a, b, problem[3]).sum()
    value = f @ a + g @ b - problem[3] * (mass - 1)
    code = jnp.where(error <= tol, int(Status.converged), int(Status.exhausted))
    code = jnp.where(done.code == int(Status.not_finite), done.code, code)
    return SinkhornPlan(f, g, cost, a, b, eps, value, error, done.num_steps * _BLOCK, code)


def _warm_start(cost: Array, a: Array, b: Array, eps: Array, scales: int) -> tuple[Array, Array]:
    """Potentials of the same problem with more entropy, solved roughly from the most down."""
    first = (jnp.zeros_like(a), jnp.zeros_like(b))
    if scales == 0:
        return first
    largest = jnp.maximum(cost.max() - cost.min(), eps)
    exponents = jnp.arange(scales, dtype=cost.dtype) / scales

    def stage(state, exponent):
        scaled = largest * (eps / largest) ** exponent
        f, g, _ = _block(state[0], state[1], cost, a, b, scaled, jnp.ones((), cost.dtype))
        return (f, g), None

    return run(stage, first, exponents).state


def _block(
    f: Array, g: Array, cost: Array, a: Array, b: Array, eps: Array, power: Array
) -> tuple[Array, ...]:
    """Twenty updates by scaling where they stay in range, else one by log-sum-exp; and the error of the
    marginals."""
    kernel = jnp.exp((f[:, None] + g[None] - cost) / eps)

    def scale(_, scalings):
        u, v = scalings
        v = v ** (1 - power) * ((a * u) @ kernel) ** -power
        return u ** (1 - power) * (kernel @ (b * v)) ** -power, v

    u, v = jax.lax.fori_loop(0, _BLOCK, scale, (jnp.ones_like(f), jnp.ones_like(g)))
    largest = jnp.maximum(jnp.abs(jnp.log(u)).max(), jnp.abs(jnp.log(v)).max())

    def absorbed():
        columns = b * v * ((a / (kernel @ (b * v))) @ kernel)
        return f + eps * jnp.log(u), g + eps * jnp.log(v), jnp.abs(columns - b).sum()

    def exact():
        g_new = _soft_minimum(cost.T, f, safe_log(a), eps)
        f_new = _soft_minimum(cost, g_new, safe_log(b), eps)
        return f_new, g_new, jnp.abs(_plan(f_new, g_new, cost, a, b, eps).sum(0) - b).sum()

    return jax.lax.cond(largest < _LARGEST_LOG_SCALING, absorbed, exact)  # false for NaN and infinity


def _relaxation(before: Array, after: Array, power: Array) -> Array:
    r"""The power for the next block, from how the error shrank in this one.

    Near the optimum plain updates shrink the error by $\lambda$ per step, and by $\mu$ with power $\omega$,
    where $(\mu + \omega - 1)^2 = \mu \omega^2 \lambda$; the best power is $2 / (1 + \sqrt{1 - \lambda})$. An
    error that grew asks for plain steps.
    """
    shrink = (after / before) ** (1 / _BLOCK)
    plain = (shrink + power - 1) ** 2 / (shrink * power**2)
    best = 2 / (1 + jnp.sqrt(1 - jnp.clip(plain, 0.0, 0.9999)))
    told = (shrink > power - 1) & (after < 0.1)  # faster than that, the oscillation hides the rate
    return jnp.where(after > 3 * before, 1.0, jnp.where(told, jnp.maximum(best, power), power))


def _soft_minimum(cost: Array, potential: Array, log_weights: Array, eps: Array) -> Array:
    r"""$-\varepsilon \log \sum_j w_j e^{(h_j - C_{ij})/\varepsilon}$ for each row, in two fused passes over
    the cost."""
    shift = (potential / eps + log_weights)[None]
    largest = (shift - cost / eps).max(1, keepdims=True)
    return -eps * (largest[:, 0] + jnp.log(jnp.exp(shift - cost / eps - largest).sum(1)))


def _plan(f: Array, g: Array, cost: Array, a: Array, b: Array, eps: Array) -> Array:
    return a[:, None] * b[None] * jnp.exp((f[:, None] + g[None] - cost) / eps)
