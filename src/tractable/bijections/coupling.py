r"""Couplings: some entries stay as they are and choose the map of the others.

Map.         $y_A = x_A$ and $y_B = f(x_B; c(x_A))$ with any function $c$ (the conditioner) and any family $f$
             of elementwise maps. The Jacobian is block-triangular, so $\log|\det| = \sum_{i \in
             B}\log|f'(x_i)|$; $c$ is never inverted.
Cost.        One call of the conditioner in either direction.
References.  Dinh, Sohl-Dickstein and Bengio (2017), "Density estimation using Real NVP".
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from tractable.bijections.base import Bijection
from tractable.bijections.elementwise import Affine
from tractable.bijections.monotone import Elementwise
from tractable.core.checks import check, check_shape
from tractable.core.module import Module, field
from tractable.core.types import Array, Float, Key, PyTree

__all__ = ["AffineFamily", "Conditioner", "Coupling", "Family"]


@runtime_checkable
class Family(Protocol):
    """A family of elementwise maps: how many free numbers one entry takes, and the maps that rows of them
    make."""

    @property
    def num_parameters(self) -> int: ...

    def __call__(self, parameters: Array) -> Elementwise: ...


class AffineFamily(Module):
    r"""$y = \mathrm{shift} + e^{s}x$ from the free numbers (shift, $r$), with $s = B\tanh(r/B)$ between $\pm
    B$ = `largest_log_scale`."""

    largest_log_scale: float = field(static=True, default=5.0)

    def __check_init__(self) -> None:
        check(self.largest_log_scale > 0, "largest_log_scale", "positive", self.largest_log_scale)

    @property
    def num_parameters(self) -> int:
        """How many free numbers make one map."""
        return 2

    def __call__(self, parameters: Float[Array, "n 2"]) -> Affine:
        """The map of each of n entries from its row of free numbers."""
        largest = self.largest_log_scale
        return Affine(parameters[:, 0], jnp.exp(largest * jnp.tanh(parameters[:, 1] / largest)))


class Conditioner(Module):
    """Any callable pytree (an `equinox.nn.MLP`, a function) with its arrays apart from the rest, so that
    `jax.jit` accepts it."""

    arrays: PyTree
    rest: PyTree = field(static=True)

    def __init__(self, function: Callable[..., Any]):
        self.arrays, self.rest = eqx.partition(function, eqx.is_array)

    def __call__(self, x: Array) -> Array:
        return eqx.combine(self.arrays, self.rest)(x)


class Coupling(Bijection):
    """`keep` marks the entries that stay; `conditioner` takes them to `num_parameters` free numbers of
    `family` for each other entry."""

    conditioner: Conditioner
    family: Any
    keep: tuple[bool, ...] = field(static=True)

    ranks: ClassVar[tuple[int | None, int | None]] = (1, 1)

    def __init__(self, conditioner: Callable[..., Any], keep: Sequence[bool], family: Family | None = None):
        self.keep = tuple(bool(k) for k in np.asarray(keep))
        must = "true for some entries and false for some"
        check(any(self.keep) and not all(self.keep), "keep", must, list(self.keep))
        self.conditioner = conditioner if isinstance(conditioner, Conditioner) else Conditioner(conditioner)
        self.family = AffineFamily() if family is None else family

    @classmethod
    def random(
        cls, key: Key, keep: Sequence[bool], *, family: Family | None = None, width: int = 32, depth: int = 2
    ) -> "Coupling":
        """A coupling whose conditioner is a perceptron with `depth` hidden layers of `width` tanh units."""
        chosen: Family = AffineFamily() if family is None else family
        kept = int(np.sum(np.asarray(keep)))
        out = (len(keep) - kept) * chosen.num_parameters
        return cls(eqx.nn.MLP(kept, out, width, depth, jnp.tanh, key=key), keep, chosen)

    def _forward(self, x):
        moved, map_ = self._split("x", x)
        value, log_det = map_.forward_and_log_det(x[moved])
        return x.at[moved].set(value), log_det

    def _inverse(self, y):
        moved, map_ = self._split("y", y)
        value, log_det = map_.inverse_and_log_det(y[moved])
        return y.at[moved].set(value), log_det

    def _split(self, name: str, x: Array) -> tuple[np.ndarray, Elementwise]:
        check_shape(name, x, (len(self.keep),))
        keep = np.asarray(self.keep)
        free = self.conditioner(x[keep])
        wanted = (int((~keep).sum()), self.family.num_parameters)
        size = jnp.size(free)
        must = f"a function with {wanted[0] * wanted[1]} outputs"
        check(size == wanted[0] * wanted[1], "conditioner", must, size)
        return np.flatnonzero(~keep), self.family(jnp.reshape(free, wanted))
