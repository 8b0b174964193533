r"""Less variance for the same mean: conditioning (Rao-Blackwell) and control variates.

Rao-Black.   $\hat J(x) = E[J(x, y) \mid x]$ has the mean of $J$ and $\mathrm{Var}\,\hat J = \mathrm{Var}\,J -
             E[(J - \hat J)^2] \le \mathrm{Var}\,J$.
Mean field.  For $q = \prod_i q(z_i \mid \lambda_i)$ the score gradient of the ELBO in $\lambda_i$ needs only
             the factors of the joint $p(x, z)$ that contain $z_i$ (its Markov blanket):
             $\nabla_{\lambda_i}\mathcal L = E[\nabla\log q(z_i \mid \lambda_i)(\log p_i(x, z_{(i)}) - \log
             q(z_i \mid \lambda_i))]$.
Control.     $f - a^\top(h - E[h])$ has the mean of $f$ for every $a$; at $a^* = \mathrm{Cov}(h)^{-1}
             \mathrm{Cov}(h, f)$ its variance is $\mathrm{Var} f\,(1 - R^2)$. In the ELBO's gradient the score
             itself is a control, of mean zero: $\hat a_i = \sum_d\mathrm{Cov}(f_d,
             h_d)/\sum_d\mathrm{Var}(h_d)$.
Cost.        One evaluation of each factor and one score per draw.
References.  Ranganath, Gerrish and Blei (2014), "Black box variational inference"; Owen (2013) chapter 8.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import as_float, check, check_shape, is_concrete
from tractable.core.linalg import psd_factor
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.types import Array, ArrayLike, Float, Scalar
from tractable.distributions.information import as_probabilities
from tractable.inference.variational.gradients import GradientEstimate

__all__ = [
    "ControlVariate", "Factor", "Factors", "RaoBlackwell", "control_variate", "mean_field_gradient",
    "rao_blackwell", "score_coefficients",
]  # fmt: skip

Factor = tuple[Sequence[int], Callable[..., Any]]  # indices of its variables, and the log-factor of them


class Factors(Module):
    r"""A log-density of a vector as a sum of log-factors, each of a few of its entries.

    Called, it is the density; variational inference with `gradient="rao_blackwell"` leaves out of the
    gradient for an entry the factors that do not contain it.

    >>> chain = Factors([((0,), lambda a: -0.5 * a**2), ((0, 1), lambda a, b: -0.5 * (b - a) ** 2)])
    >>> float(chain(jnp.array([1.0, 3.0])))
    -2.5
    """

    plan: tuple = field(static=True)

    def __init__(self, factors: Sequence[Factor]):
        self.plan = tuple((tuple(int(i) for i in indices), function) for indices, function in factors)
        check(len(self.plan) > 0, "factors", "at least one", "none")

    def __call__(self, x: Array) -> Scalar:
        return self.logs(x).sum()

    def logs(self, x: Array) -> Float[Array, " m"]:
        """Each log-factor at one point."""
        return jnp.stack([function(*(x[i] for i in indices)) for indices, function in self.plan])

    def member(self, dim: int) -> Float[Array, "d m"]:
        """1 where a factor contains an entry."""
        inside = all(0 <= i < dim for indices, _ in self.plan for i in indices)
        check(inside, "factors", f"over variables 0 to {dim - 1}", [indices for indices, _ in self.plan])
        return jnp.asarray([[float(i in indices) for indices, _ in self.plan] for i in range(dim)])


class RaoBlackwell(Module):
    r"""$E[J \mid x]$ for each $x$, and the three variances of the identity."""

    conditional_mean: Float[Array, " x"]
    variance: Scalar  # of J
    reduced_variance: Scalar  # of E[J | x]
    removed: Scalar  # E[(J - E[J | x])^2]


class ControlVariate(Module):
    """A mean with a control variate, and what it saved."""

    mean: Scalar
    coefficient: Float[Array, "..."]
    variance: Scalar  # per draw, without the control
    reduced_variance: Scalar  # per draw, with it
    standard_error: Scalar

    @property
    def squared_correlation(self) -> Scalar:
        r"""$R^2$: the share of the variance that the control explains (at the best coefficient)."""
        return 1 - self.reduced_variance / self.variance


def rao_blackwell(values: ArrayLike, probs: ArrayLike) -> RaoBlackwell:
    r"""The conditional expectation given the first axis, for $J(x, y)$ = `values` under $p(x, y)$ = `probs`.

    >>> report = rao_blackwell([[0.0, 2.0], [1.0, 3.0]], [[0.25, 0.25], [0.25, 0.25]])
    >>> float(report.variance), float(report.reduced_variance), float(report.removed)
    (1.25, 0.25, 1.0)
    """
    j, p = as_float("values", values), as_probabilities("probs", probs)
    check(j.ndim == 2, "values", "a table with an axis for x and one for y", f"shape {j.shape}")
    check_shape("probs", p, j.shape)
    return _rao_blackwell(j, p)


def control_variate(
    values: ArrayLike,
    controls: ArrayLike,
    control_means: ArrayLike = 0.0,
    coefficient: ArrayLike | None = None,
) -> ControlVariate:
    r"""The mean of `values` with `controls` $h$ of known expectation (one column each, or a vector).

    The best coefficient is estimated from the same draws unless one is given; the bias is of order $1/n$.
    """
    f, h = as_float("values", values), as_float("controls", controls)
    check(f.ndim == 1 and f.size > 2, "values", "a vector of at least three draws", f"shape {f.shape}")
    rows = h.ndim in (1, 2) and h.shape[:1] == f.shape
    check(rows, "controls", f"a vector or a matrix with {f.size} rows", f"shape {h.shape}")
    columns = h.reshape((f.size, -1))
    means = jnp.broadcast_to(as_float("control_means", control_means), columns.shape[1:])
    given = None if coefficient is None else as_float("coefficient", coefficient).reshape(-1)
    if given is not None:
        check_shape("coefficient", given, columns.shape[1:], "One number per control.")
    found = _control_variate(f, columns, means, given)
    if is_concrete(found.mean) and not np.isfinite(np.asarray(found.coefficient)).all():
        check(False, "controls", "free of constant or dependent columns", "a singular covariance")
    return found


def mean_field_gradient(
    factors: Sequence[Factor] | Factors,
    log_prob: Callable[[Any, Any], Any],
    parameters: ArrayLike,
    draws: ArrayLike,
    *,
    blanket: bool = True,
    control: bool = False,
) -> GradientEstimate:
    r"""Score gradients of the ELBO of $\prod_i q(z_i \mid \lambda_i)$: one row of parameters per variable.

    `factors` are the logarithms of the factors of the joint, each with the indices of its variables and a
    function of their values; `log_prob(row, z_i)` is $\log q$; `draws` has one row per draw. Without
    `blanket` every factor weighs on every gradient (the plain score gradient); with `control` the score is
    used as a control variate, its coefficient estimated from the same draws.
    """
    theta, z = as_float("parameters", parameters), as_float("draws", draws)
    check(theta.ndim >= 1 and z.ndim == 2, "draws", "a matrix, one row per draw", f"shape {z.shape}")
    d = theta.shape[0]
    check(z.shape[1] == d, "draws", f"one column per row of `parameters` ({d})", z.shape[1])
    joint = factors if isinstance(factors, Factors) else Factors(factors)
    samples, s = _mean_field_samples(joint, log_prob, theta, z, joint.member(d), blanket)
    if control:
        lift = (1, d) + (1,) * (theta.ndim - 1)
        samples = samples - score_coefficients(samples, s).reshape(lift) * s
    return GradientEstimate(samples)


def score_coefficients(samples: Float[Array, "n d ..."], s: Float[Array, "n d ..."]) -> Float[Array, " d"]:
    r"""$\hat a_i = \sum_k\mathrm{Cov}(f_{ik}, h_{ik})/\sum_k\mathrm{Var}(h_{ik})$ over the draws: one number
    for the gradient `samples` $f$ and the scores $h$ of each variable."""
    f, h = samples - samples.mean(0, keepdims=True), s - s.mean(0, keepdims=True)
    axes = (0, *range(2, f.ndim))
    return (f * h).sum(axes) / (h**2).sum(axes)


@jax.jit
def _rao_blackwell(j: Array, p: Array) -> RaoBlackwell:
    share = p.sum(1)
    possible = share > 0
    inner = (p * j).sum(1) / jnp.where(possible, share, 1.0)
    conditional = jnp.where(possible, inner, jnp.nan)
    mean = (p * j).sum()
    reduced = (share * (inner - mean) ** 2).sum()
    removed = (p * (j - inner[:, None]) ** 2).sum()
    return RaoBlackwell(conditional, (p * (j - mean) ** 2).sum(), reduced, removed)


@jax.jit
def _control_variate(f: Array, h: Array, means: Array, given: Array | None) -> ControlVariate:
    n = f.shape[0]
    centred, spread = f - f.mean(), h - h.mean(0, keepdims=True)
    a = psd_factor(spread.T @ spread / n).solve(spread.T @ centred / n) if given is None else given
    adjusted = f - (h - means[None]) @ a
    reduced = adjusted.var(ddof=1)
    return ControlVariate(adjusted.mean(), a, f.var(ddof=1), reduced, jnp.sqrt(reduced / n))


@program
def _mean_field_samples(
    factors: Factors, log_prob: Callable, theta: Array, z: Array, member: Array, blanket: bool
) -> tuple[Array, Array]:
    def one(draw: Array) -> tuple[Array, Array]:
        logs = factors.logs(draw)
        own, s = jax.vmap(jax.value_and_grad(log_prob))(theta, draw)
        seen = jnp.where(member > 0, logs[None], 0.0).sum(1) if blanket else jnp.full_like(own, logs.sum())
        gain = seen - (own if blanket else own.sum())
        return gain.reshape((-1,) + (1,) * (theta.ndim - 1)) * s, s

    return jax.vmap(one)(z)
