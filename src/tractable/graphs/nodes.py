r"""Kinds of nodes: noisy-or and deterministic tables, conditional Gaussians, and any pair of functions.

Noisy-or.    $P(y = 0 \mid x) = (1 - l) \prod_j (1 - w_j)^{x_j}$: each cause present fails by itself.
Gaussian.    $y \mid x, s \sim N(w_s^\top x + b_s, v_s)$ with continuous parents $x$ and discrete ones $s$.
Cost.        A table has one row per joint state of the parents: $2^n$ for $n$ causes.
References.  Pearl (1988) section 4.3; Lauritzen and Wermuth (1989); Henrion (1989).
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from tractable.core.checks import as_float, check, check_finite, is_concrete
from tractable.core.module import Module, field
from tractable.core.types import Array, ArrayLike, Float
from tractable.distributions.table_axes import Names, as_names
from tractable.distributions.tables import ConditionalTable

__all__ = ["CallableNode", "GaussianNode", "deterministic", "noisy_or"]

_MOST_CAUSES = 20


class GaussianNode(Module):
    r"""$y \mid x, s \sim N(w_s^\top x + b_s, v_s)$: linear in `parents`, by case of the discrete `given`.

    Without `given`, a linear-Gaussian node: `weights` is a vector, `bias` and `variance` are numbers. Each
    discrete parent adds a leading axis to all three.
    """

    weights: Float[Array, "..."]
    bias: Float[Array, "..."]
    variance: Float[Array, "..."]
    name: str = field(static=True)
    parents: tuple[str, ...] = field(static=True)
    given: tuple[str, ...] = field(static=True)

    def __init__(
        self,
        name: str,
        parents: Names = (),
        weights: ArrayLike | None = None,
        *,
        bias: ArrayLike = 0.0,
        variance: ArrayLike,
        given: Names = (),
    ):
        self.name, self.parents, self.given = name, as_names(parents), as_names(given)
        self.bias, self.variance = as_float("bias", bias), as_float("variance", variance)
        own = {name, *self.parents, *self.given}
        distinct = len(own) == 1 + len(self.parents) + len(self.given)
        check(distinct, f"parents of {name!r}", "distinct, and without itself", (*self.parents, *self.given))
        cases = self.variance.shape
        check(len(cases) == len(self.given), "variance", f"one axis per discrete parent {self.given}", cases)
        check(self.bias.shape == cases, "bias", f"of the shape of `variance`, {cases}", self.bias.shape)
        wanted = (*cases, len(self.parents))
        fix = "Give one weight per continuous parent."
        check(weights is not None or not self.parents, "weights", "given for parents", None, fix)
        self.weights = as_float("weights", np.zeros(wanted) if weights is None else weights)
        check(self.weights.shape == wanted, "weights", f"of shape {wanted}", f"shape {self.weights.shape}")
        for each in ("weights", "bias", "variance"):
            check_finite(each, getattr(self, each))
        if is_concrete(self.variance):
            least = float(np.min(np.asarray(self.variance)))
            check(least > 0, "variance", "positive", least, "A copy of a parent needs no node of its own.")


class CallableNode(Module):
    """A node given by functions of one example: `draw(key, *parents)`, and `log_prob(value, *parents)`.

    They are called with the values of the parents in order, and mapped over draws with `jax.vmap`: discrete
    parents come as positions among their states.
    """

    name: str = field(static=True)
    parents: tuple[str, ...] = field(static=True)
    draw: Callable[..., Any] = field(static=True)
    log_prob: Callable[..., Any] | None = field(static=True)

    def __init__(
        self,
        name: str,
        parents: Names,
        draw: Callable[..., Any],
        log_prob: Callable[..., Any] | None = None,
    ):
        self.name, self.parents = name, as_names(parents)
        self.draw, self.log_prob = draw, log_prob
        check(name not in self.parents, f"parents of {name!r}", "other nodes", self.parents)


def noisy_or(
    name: str,
    causes: Mapping[str, float],
    *,
    leak: float = 0.0,
    states: Mapping[str, Sequence[Any]] | None = None,
) -> ConditionalTable:
    r"""The table of an effect of independent causes; `causes` maps each parent to its strength $w_j$.

    Each variable has two states, absent and present, in this order.

    >>> table = noisy_or("fever", {"flu": 0.8, "cold": 0.4}, leak=0.1)
    >>> [round(float(p), 6) for p in table(flu=1, cold=1).probs]
    [0.108, 0.892]
    """
    names = as_names(causes)
    fix = "Use `inference.gibbs.noisy_or` for more, or group the causes."
    check(len(names) <= _MOST_CAUSES, "causes", f"at most {_MOST_CAUSES}", len(names), fix)
    for cause, strength in (*causes.items(), ("leak", leak)):
        check(0 <= strength <= 1, cause, "a probability", strength)
    absent = np.asarray(1.0 - leak)
    for strength in causes.values():
        absent = absent[..., None] * np.array([1.0, 1.0 - strength])
    probs = np.stack([absent, 1 - absent], axis=-1)
    return ConditionalTable(name, names, probs, states)


def deterministic(
    name: str, parents: Mapping[str, Sequence[Any]], function: Callable[..., Any], states: Sequence[Any]
) -> ConditionalTable:
    """The table of a function of the parents' states: `parents` maps each to its states.

    >>> both = deterministic("both", {"a": [0, 1], "b": [0, 1]}, lambda a, b: a and b, [0, 1])
    >>> float(both(a=1, b=1).prob(both=1))
    1.0
    """
    names, sizes = as_names(parents), [len(each) for each in parents.values()]
    probs = np.zeros((*sizes, len(states)))
    for index in product(*map(range, sizes)):
        arguments = [parents[parent][i] for parent, i in zip(names, index)]
        value = function(*arguments)
        check(value in states, "function", f"one of the states {tuple(states)}", f"{value!r} at {arguments}")
        probs[(*index, list(states).index(value))] = 1.0
    return ConditionalTable(name, names, probs, [*parents.values(), states])
