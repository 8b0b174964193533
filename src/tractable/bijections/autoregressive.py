r"""Autoregressive maps: each entry is mapped by parameters that the entries before it choose.

Map.         $x_i = f(z_i; c_i(x_1, \dots, x_{i-1}))$ for $i = 1, \dots, d$; the Jacobian is triangular, so
             $\log|\det| = \sum_i\log|f'(z_i)|$. Backwards all entries are known at once (one pass); forwards
             they are found one after another ($d$ passes).
Masks.       Every unit has a degree; a hidden unit sees inputs of at most its degree, output $i$ sees hidden
             units of degree below $i$.
Cost.        $d$ calls of the conditioner forwards, one backwards; the other way round for `.inverted`.
References.  Germain et al. (2015), "MADE"; Papamakarios, Pavlakou and Murray (2017), "Masked autoregressive
             flow".
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.bijections.base import Bijection
from tractable.bijections.coupling import AffineFamily, Conditioner, Family
from tractable.core.checks import check, check_shape
from tractable.core.module import Module, field
from tractable.core.types import Array, Float, Key, Shape

__all__ = ["Autoregressive", "MaskedMLP", "is_autoregressive"]


class MaskedMLP(Module):
    """A perceptron with tanh units whose output row i depends on the inputs before i alone, by masks on its
    weights."""

    weights: tuple[Float[Array, "_out _in"], ...]
    biases: tuple[Float[Array, " _out"], ...]
    dim: int = field(static=True)
    num_parameters: int = field(static=True)

    def __init__(self, key: Key, dim: int, num_parameters: int, widths: Sequence[int] = (32, 32)):
        check(dim >= 1, "dim", "at least 1", dim)
        sizes = [dim, *widths, dim * num_parameters]
        shapes = list(zip(sizes[1:], sizes[:-1]))
        cuts = np.cumsum([m * n for m, n in shapes])
        parts = jnp.split(jr.normal(key, (cuts[-1],)), cuts[:-1])  # one draw for all layers
        self.weights = tuple(part.reshape(s) / np.sqrt(s[1]) for part, s in zip(parts, shapes))
        self.biases = tuple(jnp.zeros(m) for m in sizes[1:])
        self.dim, self.num_parameters = dim, num_parameters

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, "d p"]:
        layers = list(zip(self.weights, self.biases, self.masks))
        for weight, bias, mask in layers[:-1]:
            x = jnp.tanh((weight * mask) @ x + bias)
        weight, bias, mask = layers[-1]
        return ((weight * mask) @ x + bias).reshape((self.dim, self.num_parameters))

    @property
    def masks(self) -> tuple[np.ndarray, ...]:
        """Which weights are free, layer by layer."""
        widths = [bias.shape[0] for bias in self.biases[:-1]]
        degrees = [
            np.arange(1, self.dim + 1),
            *(np.arange(width) % max(self.dim - 1, 1) + 1 for width in widths),
        ]
        hidden = [(after[:, None] >= before[None, :]) for before, after in pairwise(degrees)]
        out = np.repeat(np.arange(1, self.dim + 1), self.num_parameters)
        return (*(mask.astype(float) for mask in hidden), (out[:, None] > degrees[-1][None, :]).astype(float))


class Autoregressive(Bijection):
    """`conditioner` takes the whole vector to one row of free numbers of `family` per entry; row i may depend
    on entries before i alone."""

    conditioner: Any
    family: Any
    dim: int = field(static=True)

    ranks: ClassVar[tuple[int | None, int | None]] = (1, 1)

    def __init__(self, conditioner: Callable[..., Any], dim: int | None = None, family: Family | None = None):
        self.family = AffineFamily() if family is None else family
        if isinstance(conditioner, MaskedMLP):
            self.conditioner, self.dim = conditioner, conditioner.dim
            return
        must = "the length of the vector, for a conditioner that does not say it"
        check(dim is not None and dim >= 1, "dim", must, dim)
        self.dim = int(dim or 0)
        self.conditioner = conditioner if isinstance(conditioner, Conditioner) else Conditioner(conditioner)
        fix = "Let row i of its output depend on the entries before i alone, or use `MaskedMLP`."
        free = is_autoregressive(self.conditioner, self.dim)
        check(free, "conditioner", "autoregressive", "one with other derivatives", fix)

    @classmethod
    def random(
        cls, key: Key, dim: int, *, family: Family | None = None, widths: Sequence[int] = (32, 32)
    ) -> "Autoregressive":
        """A map whose conditioner is a `MaskedMLP` with hidden layers of the given `widths`."""
        chosen: Family = AffineFamily() if family is None else family
        return cls(MaskedMLP(key, dim, chosen.num_parameters, widths), family=chosen)

    def _forward(self, x):
        check_shape("x", x, (self.dim,))

        def settle(
            known, i
        ):  # entries after i stay zero, so that no guess of theirs can overflow into a masked product
            return known.at[i].set(self._map(known).forward(x)[i]), None

        before, _ = jax.lax.scan(settle, jnp.zeros_like(x), jnp.arange(self.dim - 1))
        return self._map(before).forward_and_log_det(x)

    def _inverse(self, y):
        check_shape("y", y, (self.dim,))
        return self._map(y).inverse_and_log_det(y)

    def _map(self, known: Array) -> Bijection:
        shape: Shape = (self.dim, self.family.num_parameters)
        free = self.conditioner(known)
        fits = jnp.size(free) == shape[0] * shape[1]
        must = f"a function with {shape[0]} x {shape[1]} outputs"
        check(fits, "conditioner", must, f"shape {jnp.shape(free)}")
        return self.family(jnp.reshape(free, shape))


def is_autoregressive(conditioner: Callable[..., Any], dim: int) -> bool:
    """Whether row i of the output has no derivative in entry i or later ones, at a point without symmetry."""
    point = jnp.sin(1.0 + jnp.arange(dim))
    jacobian = np.asarray(jax.jacfwd(lambda x: jnp.reshape(conditioner(x), (dim, -1)))(point))
    return not (np.triu(np.moveaxis(jacobian, 1, 0)) != 0).any()
