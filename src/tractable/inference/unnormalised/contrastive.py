r"""Noise-contrastive estimation: learn a density that need not be normalised by telling data from noise.

Posterior.   With $k$ draws of noise $q$ per observation,
             $P(\mathrm{data} \mid x) = p/(p + kq) = \sigma(\Delta)$, $\Delta = \log p(x) - \log(k\,q(x))$.
Objective.   $C(s) = E_p[\log\sigma(s - \log kq)] + k\,E_q[\log\sigma(-(s - \log kq))]$ for a score
             $s = \log u$. Its free maximum is $u = p$, normalised without being told to; there
             $C = 2\,\mathrm{JSD}(p\,\|\,q) - \log 4$ for $k = 1$. Without the logarithms the maximum runs off
             to infinity.
Gradient.    $\partial C/\partial s(x) = \frac{kq}{u + kq}(p - u)$, which tends to that of maximum likelihood,
             $p - u$, as $k$ grows.
Ratio.       With $q$ known only by draws and $k = 1$, $s$ learns $\log p/q$: a classifier $D$ gives
             $p/q = D/(1 - D)$.
Cost.        $k + 1$ scores per observation, whatever the number of words.
References.  Gutmann and Hyvarinen (2012); Mnih and Teh (2012); Mikolov et al. (2013); Goldberg and Levy
             (2014).
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import as_float, check, check_count, check_option, is_concrete
from tractable.core.iterate import Status
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.numerics import log_sigmoid, sigmoid, softmax
from tractable.core.support import simplex
from tractable.core.types import Array, ArrayLike, Float, Key, PyTree, Scalar
from tractable.distributions.base import Distribution
from tractable.inference.unnormalised.noise import check_noise_support
from tractable.optim.minimise import Minimum, minimise

__all__ = [
    "DensityRatio", "NoiseContrastiveFit", "density_ratio", "improper_objective", "nce_gradient",
    "nce_gradient_variance", "nce_logit", "nce_objective", "nce_objective_exact", "nce_posterior",
    "negative_sampling_objective", "noise_contrastive_fit", "optimal_ratio", "softmax_gradient",
]  # fmt: skip

LogScore = Callable[..., Any]


class NoiseContrastiveFit(Module):
    """The parameters, the log-normaliser of the score (zero where it was held at one), and the search."""

    parameters: PyTree
    log_normaliser: Scalar
    objective: Scalar
    run: Minimum = field(show=False)

    @property
    def status(self) -> Status:
        return self.run.status


class DensityRatio(Module):
    """$\\log p/q$ as a fitted function of one point, and the search that found it."""

    function: LogScore
    parameters: PyTree
    run: Minimum = field(show=False)

    @property
    def status(self) -> Status:
        return self.run.status

    def log_ratio(self, x: Any) -> Array:
        """$\\log p(x)/q(x)$ at one point."""
        return self.function(self.parameters, x)

    def probability(self, x: Any) -> Array:
        """$D(x) = p/(p + q)$: how surely the point came from the numerator, at equal odds."""
        return sigmoid(self.log_ratio(x))


def nce_logit(score: ArrayLike, log_noise: ArrayLike, k: ArrayLike) -> Array:
    r"""$\Delta = s - \log(k q)$."""
    return jnp.asarray(score) - jnp.asarray(log_noise) - jnp.log(k)


def nce_posterior(score: ArrayLike, log_noise: ArrayLike, k: ArrayLike = 1) -> Array:
    r"""$P(\mathrm{data} \mid x) = u/(u + k q)$ with $u = e^s$; for $k = 1$ the optimal discriminator.

    >>> nce_posterior(jnp.log(jnp.array([0.5, 0.3, 0.2])), jnp.log(1 / 3), 2).round(6).tolist()
    [0.428571, 0.310345, 0.230769]
    """
    return sigmoid(nce_logit(score, log_noise, k))


def nce_objective(
    data_score: ArrayLike,
    data_log_noise: ArrayLike,
    noise_score: ArrayLike,
    noise_log_noise: ArrayLike,
    k: ArrayLike,
) -> Scalar:
    r"""The mean of $\log\sigma(\Delta)$ over data plus $k$ times that of $\log\sigma(-\Delta)$ over noise."""
    positive = log_sigmoid(nce_logit(data_score, data_log_noise, k))
    negative = log_sigmoid(-nce_logit(noise_score, noise_log_noise, k))
    return positive.mean() + k * negative.mean()


def improper_objective(
    data_score: ArrayLike,
    data_log_noise: ArrayLike,
    noise_score: ArrayLike,
    noise_log_noise: ArrayLike,
    k: ArrayLike,
) -> Scalar:
    """The same sums without logarithms: a warning, not a method. Its maximum lies at infinite scores."""
    positive = sigmoid(nce_logit(data_score, data_log_noise, k))
    negative = sigmoid(-nce_logit(noise_score, noise_log_noise, k))
    return positive.mean() + k * negative.mean()


def negative_sampling_objective(data_score: ArrayLike, noise_score: ArrayLike, k: ArrayLike) -> Scalar:
    r"""$\frac1n\sum\log\sigma(s) + \frac km\sum\log\sigma(-s)$: the noise density is left out.

    The free maximum is $s = \log p/(kq)$, a shifted ratio: good for word vectors, not a density.
    """
    return nce_objective(data_score, -jnp.log(k), noise_score, -jnp.log(k), k)


def nce_objective_exact(scores: ArrayLike, probs: ArrayLike, noise_probs: ArrayLike, k: ArrayLike) -> Scalar:
    r"""$C(s) = \sum_x p \log\sigma(\Delta) + k \sum_x q\log\sigma(-\Delta)$ on a finite set."""
    s, p, q = _finite("scores", scores, probs, noise_probs)
    delta = nce_logit(s, jnp.log(q), k)
    return p @ log_sigmoid(delta) + k * q @ log_sigmoid(-delta)


def nce_gradient(scores: ArrayLike, probs: ArrayLike, noise_probs: ArrayLike, k: ArrayLike) -> Array:
    r"""$\partial C/\partial s = \frac{kq}{u + kq}(p - u)$ on a finite set, $u = e^s$."""
    s, p, q = _finite("scores", scores, probs, noise_probs)
    return sigmoid(-nce_logit(s, jnp.log(q), k)) * (p - jnp.exp(s))


def softmax_gradient(scores: ArrayLike, probs: ArrayLike) -> Array:
    r"""$p - \mathrm{softmax}(s)$: the gradient of maximum likelihood, the limit of `nce_gradient`."""
    return as_float("probs", probs) - softmax(as_float("scores", scores))


def nce_gradient_variance(
    scores: ArrayLike, probs: ArrayLike, noise_probs: ArrayLike, k: ArrayLike
) -> Scalar:
    r"""The summed variance of the gradient from one observation and $k$ draws of noise.

    $\sum_x [p a^2 - (p a)^2] + k\sum_x [q b^2 - (q b)^2]$ with $a = \sigma(-\Delta)$, $b = \sigma(\Delta)$.
    """
    s, p, q = _finite("scores", scores, probs, noise_probs)
    delta = nce_logit(s, jnp.log(q), k)
    a, b = sigmoid(-delta), sigmoid(delta)
    return (p * a**2 - (p * a) ** 2).sum() + k * (q * b**2 - (q * b) ** 2).sum()


def optimal_ratio(probs: ArrayLike, noise_probs: ArrayLike, k: ArrayLike = 1) -> tuple[Array, Minimum]:
    r"""The ratio $G = kq/u$ that maximises $C$ with no model, found numerically: $kq/p$, so $u = p$."""
    p, q = as_float("probs", probs), as_float("noise_probs", noise_probs)
    _finite("probs", p, p, q)
    check_noise_support(p, q)
    run = minimise(
        _negative_exact, jnp.zeros_like(p), args=(p, q, jnp.asarray(k, p.dtype)), tol=1e-10, curvature=False
    )
    return jnp.exp(jnp.log(q) + jnp.log(k) - run.state), run


@takes_key
def noise_contrastive_fit(
    log_score: LogScore,
    start: PyTree,
    data: ArrayLike,
    noise: Distribution,
    *,
    k: int = 10,
    key: Key,
    normaliser: str = "learnt",
    max_steps: int = 500,
    tol: float = 1e-8,
) -> NoiseContrastiveFit:
    """Fit an unnormalised log-density `log_score(parameters, x)` to rows of `data` against `noise`.

    `normaliser="learnt"` adds a free log-normaliser, $s = $ `log_score` $- \\log Z$; `"one"` leaves it at
    zero, for models that are normalised or can scale themselves.
    """
    rows, k = as_float("data", data), check_count("k", k)
    check(rows.ndim > 0 and len(rows) > 1, "data", "at least two rows", f"shape {rows.shape}")
    check_option("normaliser", normaliser, ("learnt", "one"))
    log_noise = noise.log_prob(rows)
    possible = np.isfinite(np.asarray(log_noise))
    fix = "The noise must be positive wherever the data are: widen it."
    check(bool(possible.all()), "noise", "positive at every row of `data`", f"{(~possible).sum()} rows", fix)
    drawn = noise.sample(key, (k * len(log_noise),))
    args = (log_score, rows, log_noise, drawn, noise.log_prob(drawn), jnp.asarray(float(k)))
    first = (start, jnp.zeros(()) if normaliser == "learnt" else None)
    run = minimise(_negative_objective, first, args=args, max_steps=max_steps, tol=tol, curvature=False)
    parameters, log_z = run.state
    return NoiseContrastiveFit(parameters, jnp.zeros(()) if log_z is None else log_z, -run.value, run)


def density_ratio(
    log_ratio: LogScore,
    start: PyTree,
    numerator: ArrayLike,
    denominator: ArrayLike,
    *,
    ridge: float = 0.0,
    max_steps: int = 500,
    tol: float = 1e-8,
) -> DensityRatio:
    """Fit `log_ratio(parameters, x)` to $\\log p/q$ from draws of both, by logistic regression at equal odds.

    `ridge` times half the squared parameters is taken from the objective: separable samples need it.
    """
    top, bottom = as_float("numerator", numerator), as_float("denominator", denominator)
    check(top.ndim >= 1 and len(top) > 0, "numerator", "at least one row", f"shape {top.shape}")
    same = top.shape[1:] == bottom.shape[1:] and bottom.ndim == top.ndim
    check(same, "denominator", f"rows of shape {top.shape[1:]}", f"shape {bottom.shape}")
    check(ridge >= 0, "ridge", "zero or positive", ridge)
    args = (log_ratio, top, bottom, jnp.asarray(ridge))
    run = minimise(_negative_ratio, start, args=args, max_steps=max_steps, tol=tol, curvature=False)
    return DensityRatio(log_ratio, run.state, run)


def _negative_exact(scores: Array, p: Array, q: Array, k: Array) -> Scalar:
    delta = nce_logit(scores, jnp.log(q), k)
    return -(p @ log_sigmoid(delta) + k * q @ log_sigmoid(-delta))


def _negative_objective(
    state: tuple, log_score: LogScore, rows: Array, log_rows: Array, drawn: Array, log_drawn: Array, k: Array
) -> Scalar:
    parameters, log_z = state
    shift = 0.0 if log_z is None else log_z

    def scores(xs):
        return jax.vmap(lambda x: jnp.asarray(log_score(parameters, x)))(xs) - shift

    return -nce_objective(scores(rows), log_rows, scores(drawn), log_drawn, k)


def _negative_ratio(
    parameters: PyTree, log_ratio: LogScore, top: Array, bottom: Array, ridge: Array
) -> Scalar:
    def scores(xs):
        return jax.vmap(lambda x: jnp.asarray(log_ratio(parameters, x)))(xs)

    penalty = sum((leaf**2).sum() for leaf in jax.tree.leaves(eqx.filter(parameters, eqx.is_array)))
    return 0.5 * ridge * penalty - nce_objective(scores(top), 0.0, scores(bottom), 0.0, 1.0)


def _finite(
    name: str, values: ArrayLike, probs: ArrayLike, noise_probs: ArrayLike
) -> tuple[Float[Array, " v"], Float[Array, " v"], Float[Array, " v"]]:
    """Scores, data and noise probabilities over one finite set."""
    s, p, q = as_float(name, values), as_float("probs", probs), as_float("noise_probs", noise_probs)
    check(p.ndim == 1 and p.shape == s.shape, "probs", f"a vector of shape {s.shape}", f"shape {p.shape}")
    check(q.shape == p.shape, "noise_probs", f"of shape {p.shape}", f"shape {q.shape}")
    for label, value in (("probs", p), ("noise_probs", q)):
        if is_concrete(value):
            check(bool(simplex.contains(np.asarray(value))), label, simplex.words, np.asarray(value).tolist())
    return s, p, q
