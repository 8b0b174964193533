r"""Information in probabilities: self-information, entropy, cross-entropy, conditional entropy.

Identities.  $H(p) = -\sum_i p_i \log p_i$ with $0 \log 0 = 0$, so $0 \le H \le \log K$;
             $H(p, q) = -\sum_i p_i \log q_i = H(p) + \mathrm{KL}(p\,\|\,q)$; $H(X \mid Y) = H(X, Y) - H(Y)$.
             An array of any rank is one distribution over its cells: the entropy of a joint array is the
             joint entropy.
Cost.        Linear in the number of cells.
References.  Shannon (1948); Cover and Thomas (2006) chapter 2.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import as_float, check, check_entries, is_concrete, offender
from tractable.core.numerics import safe_log
from tractable.core.types import Array, ArrayLike, Float, Scalar
from tractable.distributions.base import Distribution

__all__ = [
    "as_probabilities", "conditional_entropy", "cross_entropy", "entropy", "perplexity", "self_information",
]  # fmt: skip

Numbers = ArrayLike | Sequence[Any]
AxisNumbers = int | Sequence[int]
Base = float | int | None

# Probabilities written with six digits pass; anything further from 1 is an input error.
_TOLERANCE = 1e-6


def as_probabilities(
    name: str, value: Any, describe: Callable[[tuple[int, ...]], str] | None = None
) -> Float[Array, "..."]:
    """`value` as an array of cells that are zero or positive and sum to 1; an error names the first bad cell.

    `describe` turns the index of a cell into words, for arrays whose axes have names.
    """
    probs = as_float(name, value)
    check(probs.size > 0, name, "an array with at least one cell", f"shape {probs.shape}")
    if is_concrete(probs):
        cells = np.asarray(probs, float)
        ok = cells >= 0
        if not ok.all():
            index = tuple(int(i) for i in np.argwhere(~ok)[0])
            got = offender(cells, ok) if describe is None else f"{cells[index].item()!r} at {describe(index)}"
            check(False, name, "probabilities, each zero or positive", got)
        fix = "Divide by the sum, or build the table from counts."
        near = abs(cells.sum() - 1) <= _TOLERANCE
        check(near, name, "probabilities that sum to 1 (to within 1e-6)", f"a sum of {cells.sum():.9g}", fix)
    return probs


def self_information(probs: Numbers, base: Base = None) -> Array:
    r"""$-\log p$ of each probability: 0 if certain, $\infty$ if impossible; in bits with `base=2`."""
    p = as_float("probs", probs)
    check_entries("probs", p, lambda v: (v >= 0) & (v <= 1), "between 0 and 1")
    return in_base(-safe_log(p), base)


def entropy(probs: Numbers | Distribution, base: Base = None) -> Scalar:
    r"""$H = -\sum_i p_i \log p_i$ over the cells of an array of any rank, or that of a distribution.

    It depends on the probabilities alone, not on the outcomes: cells of probability zero change nothing.

    >>> round(float(entropy([9 / 14, 5 / 14], base=2)), 6)
    0.940286
    """
    if isinstance(probs, Distribution):
        return in_base(probs.entropy(), base)
    p = as_probabilities("probs", probs)
    return in_base(_mean_length(p, p), base)


def cross_entropy(p: Numbers | Distribution, q: Numbers | Distribution, base: Base = None) -> Scalar:
    r"""$H(p, q) = -E_p[\log q] = H(p) + \mathrm{KL}(p\,\|\,q)$: messages from `p` in the code for `q`.

    It is the total length; what the wrong code wastes is the divergence alone. $\infty$ where `q` excludes
    what `p` allows.

    >>> round(float(cross_entropy([0.5, 0.5], [0.25, 0.75], base=2)), 6)
    1.207519
    """
    if isinstance(p, Distribution) and isinstance(q, Distribution):
        from tractable.distributions.divergence import kl  # the registry stands above this file

        return in_base(p.entropy() + kl(p, q), base)
    mixed = isinstance(p, Distribution) or isinstance(q, Distribution)
    check(not mixed, "q", "a distribution when `p` is one, and only then", type(q).__name__, error=TypeError)
    p, q = as_probabilities("p", p), as_probabilities("q", q)
    check(p.shape == q.shape, "q", f"of the shape of `p`, {p.shape}", f"shape {q.shape}")
    return in_base(_mean_length(p, q), base)


def perplexity(p: Numbers | Distribution, q: Numbers | Distribution | None = None) -> Scalar:
    r"""$e^{H(p, q)}$ (without `q`, $e^{H(p)}$): how many equally likely outcomes have this entropy.

    >>> round(float(perplexity([0.25, 0.25, 0.25, 0.25])), 6)
    4.0
    """
    return jnp.exp(entropy(p) if q is None else cross_entropy(p, q))


def conditional_entropy(joint: Numbers, given: AxisNumbers, base: Base = None) -> Scalar:
    r"""$H(X \mid Y) = H(X, Y) - H(Y)$ with $Y$ on the axes `given` of a joint array and $X$ on all others.

    >>> float(conditional_entropy([[0.5, 0.0], [0.0, 0.5]], given=0))  # one determines the other
    0.0
    """
    p = as_probabilities("joint", joint)
    kept = as_axes("given", given, p.ndim)
    others = tuple(i for i in range(p.ndim) if i not in kept)
    return entropy(p, base) - entropy(p.sum(others), base)


def in_base(nats: Array, base: Base) -> Array:
    """Nats in units of `log(base)`: bits for 2, nats for None."""
    if base is None:
        return nats
    check(base > 0 and base != 1, "base", "a positive number other than 1", base)
    return nats / math.log(base)


def as_axes(name: str, axes: AxisNumbers, ndim: int) -> tuple[int, ...]:
    """Axes as a tuple of distinct non-negative numbers below `ndim`."""
    chosen = (axes,) if isinstance(axes, int) else tuple(axes)
    ok = all(-ndim <= i < ndim for i in chosen)
    check(ok, name, f"axes of an array with {ndim} axes", chosen)
    chosen = tuple(i % ndim for i in chosen)
    check(len(set(chosen)) == len(chosen), name, "distinct axes", chosen)
    return chosen


@jax.jit
def _mean_length(p: Array, q: Array) -> Scalar:
    """The sum of `-p log q`, where a cell with `p = 0` adds nothing, whatever `q` is, nor to the gradient."""
    absent = p == 0
    return -jnp.where(absent, 0.0, p * safe_log(jnp.where(absent, 1.0, q))).sum()
