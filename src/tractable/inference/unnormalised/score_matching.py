r"""Score matching: fit the gradient of a log-density, so that its normalising constant never appears.

Score.       $s(x) = \nabla_x \log p(x)$.
Explicit.    $\tfrac12 E_p\|\nabla\log p - s\|^2$, half the Fisher divergence
             (`distributions.fisher_divergence`).
Implicit.    Equal up to a constant to $E_p[\tfrac12\|s\|^2 + \mathrm{tr}\,\nabla s]$, where $p\,s \to 0$ at
             the boundary.
Sliced.      $E_p E_v[v^\top (\nabla s)\, v + \tfrac12\|s\|^2]$ with $E[vv^\top] = I$: one product per slice,
             not $d$.
Denoising.   $\tfrac12 E\|s(\alpha x + \sigma\epsilon) + \epsilon/\sigma\|^2$: equal up to a constant to
             matching the score of the noisy density. With $\alpha = \sqrt{\bar\alpha}$,
             $\sigma = \sqrt{1 - \bar\alpha}$ it is the loss of a diffusion model, whose noise predictor is
             $\hat\epsilon = -\sigma s$.
Cost.        Per point: $d$ forward products (implicit), one per slice (sliced), one evaluation (denoising).
References.  Hyvarinen (2005); Vincent (2011); Song et al. (2019, 2021); Ho, Jain and Abbeel (2020).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import as_float, check, check_count, check_finite, check_option, is_concrete
from tractable.core.estimate import Estimate
from tractable.core.keys import takes_key
from tractable.core.programs import program
from tractable.core.types import Array, ArrayLike, Key, PyTree, Scalar
from tractable.distributions.base import Distribution
from tractable.distributions.integrals import monte_carlo
from tractable.optim.minimise import Minimum, minimise

__all__ = [
    "denoising_loss", "denoising_score_matching", "fit_score", "implicit_loss", "implicit_score_matching",
    "noise_from_score", "perturb", "score_from_noise", "sliced_loss", "sliced_score_matching", "stein_score",
]  # fmt: skip

Score = Callable[[Array], Array]


def stein_score(p: Distribution | Callable[[Array], Any], x: ArrayLike) -> Array:
    r"""$\nabla_x \log p(x)$ of a distribution at each point, or of a log-density at one; $Z$ cancels.

    NaN where the density is zero: there is no gradient of $-\infty$.

    >>> stein_score(lambda x: -0.5 * x @ x + 7.0, [1.0, -2.0]).tolist()
    [-1.0, 2.0]
    """
    points = as_float("x", x)
    if isinstance(p, Distribution):
        check(not p.discrete, "p", "a density", type(p).__name__, "Counts have no gradient.")
        return _scores(p, points)
    return _score(p, points)


def implicit_loss(score: Score, x: Array) -> Scalar:
    r"""$\tfrac12\|s(x)\|^2 + \mathrm{tr}\,\nabla s(x)$ at one point, the trace by $d$ forward products."""
    value = score(x)
    size = max(x.size, 1)

    def entry(i):
        direction = jnp.reshape(jax.nn.one_hot(i, size, dtype=x.dtype), x.shape)
        return jnp.ravel(jax.jvp(score, (x,), (direction,))[1])[i]

    return 0.5 * (value**2).sum() + jax.vmap(entry)(jnp.arange(size)).sum()


def sliced_loss(score: Score, x: Array, direction: Array, exact_norm: bool = True) -> Scalar:
    r"""$v^\top(\nabla s)\,v + \tfrac12\|s\|^2$ at one point, or $\tfrac12 (v^\top s)^2$ unless `exact_norm`.

    For directions of covariance $I$ both have the implicit loss as their mean; the first varies less.
    """
    value, along = jax.jvp(score, (x,), (direction,))
    size = (value**2).sum() if exact_norm else (value * direction).sum() ** 2
    return (along * direction).sum() + 0.5 * size


def perturb(x: Array, noise: Array, signal: ArrayLike, scale: ArrayLike) -> Array:
    r"""$\alpha x + \sigma\epsilon$; at $\alpha = \sqrt{1 - \sigma^2}$ the variance is preserved."""
    return jnp.asarray(signal) * x + jnp.asarray(scale) * noise


def denoising_loss(
    score: Score,
    x: Array,
    noise: Array,
    signal: ArrayLike = 1.0,
    scale: ArrayLike = 1.0,
    weight: ArrayLike = 1.0,
) -> Scalar:
    r"""$\tfrac12\lambda\,\|s(\alpha x + \sigma\epsilon) + \epsilon/\sigma\|^2$ for one draw of noise.

    With `weight` $\lambda = \sigma^2$ it is half the squared error of the noise predictor $-\sigma s$.
    """
    gap = score(perturb(x, noise, signal, scale)) - score_from_noise(noise, scale)
    return 0.5 * jnp.asarray(weight) * (gap**2).sum()


def score_from_noise(noise: ArrayLike, scale: ArrayLike) -> Array:
    r"""$s = -\epsilon/\sigma$; for preserved variance $\sigma = \sqrt{1 - \bar\alpha_t}$."""
    return -jnp.asarray(noise) / scale


def noise_from_score(score: ArrayLike, scale: ArrayLike) -> Array:
    r"""$\hat\epsilon = -\sigma s$, the way back."""
    return -jnp.asarray(score) * scale


def implicit_score_matching(score: Score, xs: ArrayLike) -> Estimate:
    r"""$E[\tfrac12\|s\|^2 + \mathrm{tr}\,\nabla s]$ over the rows of `xs`, with its standard error."""
    return _implicit(score, _rows(xs))


def sliced_score_matching(
    score: Score,
    xs: ArrayLike,
    *,
    key: Key,
    num_slices: int = 1,
    directions: str = "normal",
    exact_norm: bool = True,
) -> Estimate:
    """The sliced loss over the rows of `xs`, with random directions for each ("normal" or "signs")."""
    check_option("directions", directions, ("normal", "signs"))
    return _sliced(score, _rows(xs), key, check_count("num_slices", num_slices), directions, exact_norm)


@takes_key
def denoising_score_matching(
    score: Callable[..., Array],
    xs: ArrayLike,
    *,
    key: Key,
    signal: ArrayLike = 1.0,
    scale: ArrayLike = 1.0,
    weight: ArrayLike = 1.0,
    times: ArrayLike | None = None,
) -> Estimate:
    r"""The denoising loss over the rows of `xs`, one draw of noise each, with its standard error.

    `signal`, `scale` and `weight` are numbers or one number per row; with `times` (one per row) the score is
    `score(x, t)`, as in a diffusion model.
    """
    rows = _rows(xs)
    count = len(rows)
    a, s, w = (_per_row(*pair, count) for pair in (("signal", signal), ("scale", scale), ("weight", weight)))
    if is_concrete(s):
        check(bool(np.all(np.asarray(s) > 0)), "scale", "positive", float(np.min(np.asarray(s))))
    moments = None if times is None else _per_row("times", times, count)
    return _denoising(score, rows, jr.normal(key, rows.shape, rows.dtype), a, s, w, moments)


def fit_score(
    log_density: Callable[[Any, Array], Any],
    start: PyTree,
    xs: ArrayLike,
    *,
    max_steps: int = 500,
    tol: float = 1e-8,
) -> Minimum:
    """Minimise the implicit loss of an unnormalised `log_density(parameters, x)` over the rows of `xs`.

    For densities on the whole space: at a boundary where $p\\,s$ does not vanish the loss is another one.
    """
    return minimise(
        _fitted_loss, start, args=(log_density, _rows(xs)), max_steps=max_steps, tol=tol, curvature=False
    )


def _fitted_loss(parameters: PyTree, log_density: Callable[..., Any], rows: Array) -> Scalar:
    score = jax.grad(lambda x: jnp.asarray(log_density(parameters, x)))
    return jax.vmap(lambda x: implicit_loss(score, x))(rows).mean()


def _rows(xs: ArrayLike) -> Array:
    rows = as_float("xs", xs)
    check(rows.ndim >= 1 and len(rows) > 1, "xs", "at least two rows", f"shape {rows.shape}")
    check_finite("xs", rows)
    return rows


def _per_row(name: str, value: ArrayLike, count: int) -> Array:
    array = as_float(name, value)
    check(array.shape in ((), (count,)), name, f"a number or {count} numbers", f"shape {array.shape}")
    return jnp.broadcast_to(array, (count,))


@program
def _score(log_density: Callable[[Array], Any], x: Array) -> Array:
    value, gradient = jax.value_and_grad(lambda x: jnp.asarray(log_density(x)))(x)
    return jnp.where(jnp.isfinite(value), gradient, jnp.nan)


@program
def _scores(p: Distribution, x: Array) -> Array:
    lead = x.shape[: x.ndim - len(p.shape)]
    flat = x.reshape((-1, *p.shape))
    return jax.vmap(lambda row: _score(p.log_prob, row))(flat).reshape(lead + p.shape)


@program
def _implicit(score: Score, rows: Array) -> Estimate:
    return monte_carlo(jax.vmap(lambda x: implicit_loss(score, x))(rows))


@program
def _sliced(
    score: Score, rows: Array, key: Key, num_slices: int, directions: str, exact_norm: bool
) -> Estimate:
    shape = (len(rows), num_slices, *rows.shape[1:])
    drawn = (
        jr.normal(key, shape, rows.dtype) if directions == "normal" else jr.rademacher(key, shape, rows.dtype)
    )

    def point(x, vs):
        return jax.vmap(lambda v: sliced_loss(score, x, v, exact_norm))(vs).mean()

    return monte_carlo(jax.vmap(point)(rows, drawn))


@program
def _denoising(
    score: Callable[..., Array], rows: Array, noise: Array, signal: Any, scale: Any, weight: Any, times: Any
) -> Estimate:
    def point(x, e, a, s, w, t):
        field = score if t is None else lambda y: score(y, t)
        return denoising_loss(field, x, e, a, s, w)

    in_axes = (0, 0, 0, 0, 0, None if times is None else 0)
    return monte_carlo(jax.vmap(point, in_axes)(rows, noise, signal, scale, weight, times))
