r"""Losses of one example: `loss(output, target)` is a number.

Squares.     $\sum_i (\hat y_i - y_i)^2$, and its half, whose slope is $\hat y - y$.
Entropies.   On logits $z$: binary $\log(1 + e^z) - yz$ with slope $s(z) - y$; softmax
             $\log\sum_j e^{z_j} - q^\top z$ with slope $p - q$ for a class (one-hot $q$) or probabilities.
Saturated.   Squares of a softmax have the slope $2(\mathrm{diag}(p) - pp^\top)(p - q)$, which vanishes where
             $p$ is certain and wrong; the cross-entropy has $p - q$ there.
Smoothing.   $q' = (1 - \epsilon) q + \epsilon u$: $H(q', p) = (1 - \epsilon) H(q, p) + \epsilon H(u, p)$,
             the mean loss under labels that are redrawn from $u$ with probability $\epsilon$ (label dropout,
             marginalised), and a slope $p - q'$ that stays away from zero for certain $p$.
Margins.     Spread $\sum_{i \ne t} \max(0, m - (a_t - a_i))^2$; margin of capsules
             $\max(0, m^+ - v_t)^2 + \lambda \sum_{i \ne t} \max(0, v_i - m^-)^2$.
References.  Szegedy et al. (2016); Sabour, Frosst and Hinton (2017); Hinton, Sabour and Frosst (2018).
"""

import jax.numpy as jnp
import jax.random as jr
from jax.scipy.special import logsumexp

from tractable.core.checks import check, is_concrete
from tractable.core.numerics import softmax, softplus
from tractable.core.types import Array, ArrayLike, Key, Scalar

__all__ = [
    "binary_cross_entropy",
    "cross_entropy",
    "dropped_label",
    "half_squared",
    "label_smoothed",
    "margin",
    "smoothed_target",
    "smoothing_parts",
    "softmax_squared",
    "spread",
    "squared",
]


def squared(output: ArrayLike, target: ArrayLike) -> Scalar:
    r"""$\sum_i (\hat y_i - y_i)^2$.

    >>> float(squared(jnp.array([1.0, 3.0]), jnp.array([0.0, 1.0])))
    5.0
    """
    output, target = _pair(output, target)
    return ((output - target) ** 2).sum()


def half_squared(output: ArrayLike, target: ArrayLike) -> Scalar:
    r"""$\frac12 \sum_i (\hat y_i - y_i)^2$: the negative log-density of unit noise, up to a constant."""
    return squared(output, target) / 2


def binary_cross_entropy(logit: ArrayLike, target: ArrayLike) -> Scalar:
    r"""$-y \log s(z) - (1 - y) \log(1 - s(z))$ for a logit $z$ and $y$ in $[0, 1]$, summed over entries.

    Beyond, the loss has no lower bound: it is NaN, by which `train` names its batch.
    """
    logit, target = _pair(logit, target)
    known = (target >= 0) & (target <= 1)
    return jnp.where(known, softplus(logit) - target * logit, jnp.nan).sum()


def cross_entropy(logits: ArrayLike, target: ArrayLike) -> Scalar:
    r"""$-\log p_t$, $p = \mathrm{softmax}(z)$, for a class $t$; $-\sum_i q_i \log p_i$ for probabilities $q$.

    A class that there is not gives NaN, by which `train` names its batch.
    """
    logits, target = jnp.asarray(logits), jnp.asarray(target)
    check(logits.ndim == 1 and logits.size > 0, "logits", "a vector", f"shape {logits.shape}")
    if jnp.issubdtype(target.dtype, jnp.integer) and target.ndim == 0:
        place = jnp.where(target < 0, logits.size, target)
        return logsumexp(logits) - logits.at[place].get(mode="fill", fill_value=jnp.nan)
    fix = "A class is a whole number."
    check(target.shape == logits.shape, "target", f"of shape {logits.shape}", f"shape {target.shape}", fix)
    target = target.astype(logits.dtype)
    return target.sum() * logsumexp(logits) - jnp.where(target == 0, 0.0, target * logits).sum()


def softmax_squared(logits: ArrayLike, target: ArrayLike) -> Scalar:
    r"""$\|\mathrm{softmax}(z) - q\|^2$: bounded, but flat where it is certain and wrong, and not convex."""
    logits = jnp.asarray(logits)
    return ((softmax(logits) - _probabilities(target, logits)) ** 2).sum()


def smoothed_target(
    target: ArrayLike, num_classes: int, amount: float | Array = 0.1, noise: ArrayLike | None = None
) -> Array:
    r"""$(1 - \epsilon) q + \epsilon u$, with uniform $u$ unless `noise` is given.

    >>> [round(float(each), 9) for each in smoothed_target(0, 4, 0.1)]
    [0.925, 0.025, 0.025, 0.025]
    """
    if is_concrete(amount):
        check(bool(0 <= amount <= 1), "amount", "from 0 to 1", amount)
    kind = jnp.result_type(float) if noise is None else jnp.result_type(noise, jnp.float32)
    given = _probabilities(target, jnp.zeros(num_classes, kind))
    return (1 - amount) * given + amount * _noise(given, noise)


def label_smoothed(
    logits: ArrayLike, target: ArrayLike, amount: float | Array = 0.1, noise: ArrayLike | None = None
) -> Scalar:
    """The cross-entropy with a smoothed target."""
    parts = smoothing_parts(logits, target, noise)
    return (1 - amount) * parts[0] + amount * parts[1]


def smoothing_parts(
    logits: ArrayLike, target: ArrayLike, noise: ArrayLike | None = None
) -> tuple[Scalar, Scalar]:
    """The entropies of which label smoothing is the mixture: with the label, and with the noise."""
    logits = jnp.asarray(logits)
    return cross_entropy(logits, target), cross_entropy(logits, _noise(logits, noise))


def dropped_label(
    key: Key, target: ArrayLike, num_classes: int, amount: float | Array = 0.1,
    noise: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The class, or with probability `amount` one drawn from the noise: its mean loss is the smoothed one."""
    drop, draw = jr.split(key)
    noisy = jr.categorical(draw, jnp.log(_noise(jnp.zeros(num_classes), noise)))
    return jnp.where(jr.bernoulli(drop, amount), noisy, jnp.asarray(target))


def spread(activations: ArrayLike, target: ArrayLike, width: float | Array = 0.9) -> Scalar:
    r"""$\sum_{i \ne t} \max(0, m - (a_t - a_i))^2$: the right class is to lead each other one by $m$.

    >>> round(float(spread(jnp.array([0.5, 0.25, 0.0]), 0, 0.4)), 12)
    0.0225
    """
    activations = jnp.asarray(activations)
    there = _probabilities(target, activations)
    short = jnp.maximum(width - ((there * activations).sum() - activations), 0.0)
    return ((1 - there) * short**2).sum()


def margin(
    lengths: ArrayLike, target: ArrayLike, present: float = 0.9, absent: float = 0.1, down: float = 0.5
) -> Scalar:
    r"""$\sum_c T_c \max(0, m^+ - v_c)^2 + \lambda (1 - T_c) \max(0, v_c - m^-)^2$.

    >>> round(float(margin(jnp.array([0.6, 0.3]), 0)), 12)                 # 0.3^2 + 0.5 * 0.2^2
    0.11
    """
    lengths = jnp.asarray(lengths)
    there = _probabilities(target, lengths)
    short, long = jnp.maximum(present - lengths, 0.0), jnp.maximum(lengths - absent, 0.0)
    return (there * short**2 + down * (1 - there) * long**2).sum()


def _pair(output: ArrayLike, target: ArrayLike) -> tuple[Array, Array]:
    """Both of one shape; a network of one output may have a number as its target."""
    output, target = jnp.asarray(output), jnp.asarray(target)
    if output.size == target.size == 1:
        output, target = output.reshape(()), target.reshape(())
    fix = "A loss is that of one example."
    check(output.shape == target.shape, "target", f"of shape {output.shape}", f"shape {target.shape}", fix)
    floats = jnp.issubdtype(output.dtype, jnp.inexact)
    return output, target.astype(output.dtype) if floats else target


def _probabilities(target: ArrayLike, like: Array) -> Array:
    """A class as its one-hot code (NaN where there is no such class), probabilities as they are."""
    target = jnp.asarray(target)
    if target.ndim == 0:
        whole = jnp.issubdtype(target.dtype, jnp.integer)
        check(bool(whole), "target", "a whole number or probabilities", f"dtype {target.dtype}")
        known = (target >= 0) & (target < like.size)
        return jnp.where(known, (jnp.arange(like.size) == target).astype(like.dtype), jnp.nan)
    check(target.shape == like.shape, "target", f"of shape {like.shape}", f"shape {target.shape}")
    return target.astype(like.dtype)


def _noise(like: Array, noise: ArrayLike | None) -> Array:
    if noise is None:
        return jnp.full(like.shape, 1 / like.size, like.dtype)
    return _probabilities(noise, like)
