r"""Mixtures of distributions of one kind: densities, responsibilities, draws, moments, quantiles.

Model.       $z \sim \mathrm{Cat}(w)$, $x \mid z = k \sim p_k$; $p(x) = \sum_k w_k\, p_k(x)$.
Moments.     $E[x] = \sum_k w_k \mu_k$, $\mathrm{Var}[x] = \sum_k w_k (\sigma_k^2 + \mu_k^2) - E[x]^2$,
             computed about the mean.
Gradients.   Draws of numbers carry $\partial x/\partial w_k = -F_k(x)/p(x)$, the implicit derivative; through
             draws of vectors a derivative in the weights is refused by name.
Cost.        $O(k)$ component evaluations per point; drawing evaluates every component for every draw.
References.  Bishop (2006) section 9.2; McLachlan and Peel (2000).
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr

from tractable.core.checks import as_float, check
from tractable.core.iterate import bisect, run
from tractable.core.keys import takes_key
from tractable.core.module import Module, field, plates
from tractable.core.numerics import logsumexp, safe_log, softmax
from tractable.core.support import Support, simplex
from tractable.core.types import Array, ArrayLike, Float, Key, Scalar, Shape
from tractable.distributions.base import Distribution, Univariate
from tractable.distributions.expfam import Statistics, log_likelihood_from, per_unit, weigh, weighted_stats
from tractable.distributions.quantile import follow, follow_weights

__all__ = ["LabelledStatistics", "Mixture", "stack"]

# Each halving adds a bit: 80 take any bracket below the spacing of doubles around a quantile inside it.
_HALVINGS = 80


class LabelledStatistics(Module):
    """Sums over rows with soft labels: the statistics of each component, stacked, and $\\sum \\log h(x)$."""

    components: Statistics
    log_base: Scalar


class Mixture(Distribution):
    r"""$p(x) = \sum_k w_k\, p_k(x)$ with $w$ = `weights` and $p_k$ the distributions stacked in `components`.

    The first axis of every parameter of `components` counts the components.

    >>> from tractable.distributions.continuous import Normal
    >>> round(float(Mixture([0.5, 0.5], Normal(jnp.array([-1.0, 1.0]), 1.0)).variance), 6)
    2.0
    """

    weights: Float[Array, " k"] = field(support=simplex)
    components: Any = field()

    def __init__(self, weights: Any, components: Distribution):
        self.weights = weights
        units = plates(components)
        self.components = components.expand(units) if units else components

    def __check_init__(self) -> None:
        check(self.weights.ndim == 1, "weights", "a vector", f"shape {self.weights.shape}")
        k = self.weights.shape[0]
        wrong = [jnp.shape(leaf) for leaf in jax.tree.leaves(self.components) if jnp.shape(leaf)[:1] != (k,)]
        fix = "The first axis of its parameters counts components; `Mixture.of([...])` stacks a list."
        check(not wrong, "components", f"{k} stacked distributions, one per weight", f"shapes {wrong}", fix)

    @classmethod
    def of(cls, distributions: Sequence[Distribution], weights: Any = None) -> "Mixture":
        """The mixture of a list of distributions of one class, equally weighted if no `weights` are given."""
        stacked, k = stack(distributions), len(distributions)
        return cls(jnp.full(k, 1 / k) if weights is None else weights, stacked)

    @property
    def unit_shape(self) -> Shape:
        return jax.eval_shape(jax.vmap(lambda c: jnp.zeros(c.shape)), self.components).shape[1:]

    @property
    def support(self) -> Support:
        """The support of the components; their union where it depends on parameters."""
        one = _component(self.components, 0).support
        return one if not jax.tree.leaves(one) else Union(self.components)

    def log_joint(self, x: ArrayLike) -> Array:
        r"""$\log w_k + \log p_k(x)$ for each point of `x` and, along the last axis, each component."""
        return _log_joint(self, self._points("x", x))

    def responsibilities(self, x: ArrayLike) -> Array:
        r"""$p(z = k \mid x)$ along the last axis; NaN at a point that no component can produce."""
        return softmax(self.log_joint(x))

    @takes_key
    def sample_with_labels(self, key: Key, shape: Shape = ()) -> tuple[Array, Array]:
        """Draws and the components that they came from (ancestral sampling)."""
        return _sample_with_labels(self, key, tuple(shape))

    def e_step(self, rows: Array, weights: Float[Array, " n"]) -> tuple[LabelledStatistics, Scalar]:
        """Expected statistics and log-evidence, which add over rows; components of exponential families."""
        joint = self.log_joint(rows)
        evidence = logsumexp(joint, axis=-1)
        possible = evidence[:, None] > -jnp.inf
        shares = jnp.where(possible, jnp.exp(joint - jnp.where(possible, evidence[:, None], 0.0)), 0.0)
        return self.labelled_stats(rows, weights[:, None] * shares), weigh(weights, evidence)

    def labelled_stats(self, rows: Array, shares: Float[Array, "n k"]) -> LabelledStatistics:
        """The statistics of rows of which each component owns the given share."""

        def one(component, share):
            base = jax.vmap(lambda x: per_unit((component,), lambda c, p: c.log_base(p), (x,)).sum())(rows)
            return weighted_stats(component, rows, share), weigh(share, base)

        statistics, log_base = jax.vmap(one, in_axes=(0, 1))(self.components, shares)
        return LabelledStatistics(statistics, log_base.sum())

    def m_step(self, stats: LabelledStatistics) -> "Mixture":
        """The mixture of highest expected log-likelihood; a component that owns no row stays as it is."""
        counts = stats.components.weight

        def one(component, statistics):
            fitted = per_unit((component,), lambda unit, means: unit.from_stats(means), (statistics.means,))
            owns = statistics.weight > 0
            return jax.tree.map(lambda new, old: jnp.where(owns, new, old), fitted, component)

        return Mixture(counts / counts.sum(), jax.vmap(one)(self.components, stats.components))

    def expected_log_joint(self, stats: LabelledStatistics) -> Scalar:
        r"""$E[\log p(X, Z)]$ from statistics; with those of an E-step at $\theta'$, $Q(\theta, \theta')$."""
        counts = stats.components.weight
        labels = (counts * jnp.where(counts > 0, safe_log(self.weights), 0.0)).sum()
        rows = jax.vmap(log_likelihood_from)(self.components, stats.components).sum()
        return labels + rows + stats.log_base

    @property
    def cov(self) -> Array:
        r"""$\sum_k w_k (\Sigma_k + (\mu_k - \mu)(\mu_k - \mu)^\top)$ of a mixture of vectors."""
        must = "vectors, to have a covariance matrix"
        check(len(self.unit_shape) == 1, "components", must, f"draws of shape {self.unit_shape}")
        return _covariance(self)

    def cdf(self, x: ArrayLike) -> Array:
        r"""$P(X \le x) = \sum_k w_k F_k(x)$, for mixtures of numbers; each entry of `x` is one point."""
        return _cdf(self, self._numbers("x", x))

    def icdf(self, p: ArrayLike) -> Array:
        r"""The smallest $x$ with $P(X \le x) \ge p$, by bisection between the components' quantiles."""
        return _icdf(self, self._numbers("p", p))

    def _numbers(self, name: str, x: ArrayLike) -> Array:
        ok = self.unit_shape == () and isinstance(self.components, Univariate)
        got = f"{type(self.components).__name__} with draws of shape {self.unit_shape}"
        check(ok, "components", "distributions of one number, for `cdf` and `icdf`", got)
        return as_float(name, x)

    def _log_prob(self, x):
        return logsumexp(_log_joint(self, x))

    def _sample(self, key: Key, n: int) -> Array:
        return _sample_with_labels(self, key, (n,))[0]

    def _mean(self):
        return weigh(self.weights, self._means())

    def _variance(self):
        means = self._means()
        between = (means - weigh(self.weights, means)[None]) ** 2
        return weigh(self.weights, jax.vmap(lambda c: c.variance)(self.components) + between)

    def _means(self) -> Array:
        return jax.vmap(lambda c: c.mean)(self.components)


class Union(Support):
    """The union of the supports of stacked distributions."""

    components: Any

    @property
    def ndim(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return _component(self.components, 0).support.ndim

    @property
    def discrete(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return _component(self.components, 0).support.discrete

    @property
    def words(self) -> str:
        return "possible under at least one component"

    def contains(self, x):
        return jax.vmap(lambda c: c.support.contains(jnp.asarray(x)))(self.components).any(0)

    def interior(self, like):
        return _component(self.components, 0).support.interior(jnp.asarray(like))


def stack(distributions: Sequence[Distribution]) -> Any:
    """Distributions of one class as one, whose parameters have a new first axis that counts them."""
    check(len(distributions) > 0, "distributions", "a non-empty list", "an empty one")
    kinds = sorted({type(d).__name__ for d in distributions})
    check(len(kinds) == 1, "distributions", "of one class", ", ".join(kinds))
    units = jnp.broadcast_shapes(*map(plates, distributions))
    spread = [d.expand(units) if units else d for d in distributions]
    shapes = {(jax.tree.structure(d), tuple(jnp.shape(leaf) for leaf in jax.tree.leaves(d))) for d in spread}
    got = [d.shape for d in distributions]
    check(len(shapes) == 1, "distributions", "of one shape, with the same fixed options", f"shapes {got}")
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *spread)


def _component(components: Any, k: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[k], components)


@jax.jit
def _log_joint(mixture: Mixture, x: Array) -> Array:
    each = jax.vmap(lambda c: c.log_prob(x), out_axes=-1)(mixture.components)
    return each + safe_log(mixture.weights).reshape((1,) * (each.ndim - 1) + (-1,))


@partial(jax.jit, static_argnums=2)
def _sample_with_labels(mixture: Mixture, key: Key, shape: Shape) -> tuple[Array, Array]:
    key_label, key_draw = jr.split(key)
    labels = jr.categorical(key_label, safe_log(mixture.weights), shape=shape)
    k = mixture.weights.shape[0]
    flags = labels.reshape(shape + (1,) * len(mixture.unit_shape))

    def step(chosen, each):
        component, key, index = each
        return jnp.where(flags == index, component.sample(key, shape), chosen), None

    kind = jax.eval_shape(lambda c, key: _component(c, 0).sample(key, shape), mixture.components, key_draw)
    empty = jnp.zeros(kind.shape, kind.dtype)
    draws = run(step, empty, (mixture.components, jr.split(key_draw, k), jnp.arange(k))).state
    if mixture.discrete:
        return draws, labels
    numbers = mixture.unit_shape == () and isinstance(mixture.components, Univariate)
    shares = _shares_of_density if numbers else None
    return follow_weights(shares, mixture.weights, draws, mixture.components), labels


def _shares_of_density(x: Array, weights: Array, components: Any) -> Array:
    """F_k(x)/p(x) along the last axis."""
    each = jax.vmap(lambda c: jax.vmap(c.cdf)(x.reshape(-1)), out_axes=-1)(components)
    return each.reshape(x.shape + weights.shape) / Mixture(weights, components).prob(x)[..., None]


@jax.jit
def _covariance(mixture: Mixture) -> Array:
    def within(c):
        names = [name for name in ("cov", "covariance") if hasattr(type(c), name)]
        return getattr(c, names[0]) if names else jnp.diag(c.variance)

    means = mixture._means()
    centred = means - weigh(mixture.weights, means)[None]
    spread = jax.vmap(within)(mixture.components) + centred[:, :, None] * centred[:, None, :]
    return weigh(mixture.weights, spread)


@jax.jit
def _cdf(mixture: Mixture, x: Array) -> Array:
    flat = x.reshape(-1)
    each = jax.vmap(lambda c: jax.vmap(c.cdf)(flat))(mixture.components)
    return weigh(mixture.weights, each).reshape(x.shape)


@jax.jit
def _icdf(mixture: Mixture, p: Array) -> Array:
    each = jax.vmap(lambda c: jax.vmap(c.icdf)(p.reshape(-1)))(mixture.components)
    used = mixture.weights[:, None] > 0
    low = jnp.where(used, each, jnp.inf).min(0).reshape(p.shape)
    high = jnp.where(used, each, -jnp.inf).max(0).reshape(p.shape)
    inside = (p > 0) & (p < 1) & jnp.isfinite(low) & jnp.isfinite(high)
    fixed, p_fixed, below, above = jax.lax.stop_gradient((mixture, p, low, high))
    x = _bisect(fixed, p_fixed, below, above, inside)
    if not mixture.discrete:
        x = _implicit(mixture, p, x, inside)
    end = jnp.where(p == 0, low, jnp.where(p == 1, high, jnp.nan))
    return jnp.where(inside, x, jnp.where((p >= 0) & (p <= 1), end, jnp.nan))


def _bisect(mixture: Mixture, p: Array, low: Array, high: Array, inside: Array) -> Array:
    below = jnp.where(inside, low - 1 if mixture.discrete else low, 0.0)
    above = jnp.where(inside, high, 1.0)
    _, high = bisect(lambda x: _cdf(mixture, x) >= p, below, above, num_steps=_HALVINGS)
    return jnp.floor(high) if mixture.discrete else high


def _implicit(mixture: Mixture, p: Array, x: Array, inside: Array) -> Array:
    """`x` with the derivative of the quantile: $F(x) = p$ gives $dx = (dp - dF) / p(x)$."""
    point = jnp.where(inside, x, 0.0)
    density = jnp.where(inside, mixture.prob(point), 0.0)
    return follow(x, p - _cdf(mixture, point), density)
