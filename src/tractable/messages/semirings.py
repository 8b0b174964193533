r"""Semirings: what a product and a sum of potentials may mean, behind one message-passing rule.

Laws.        $\oplus$ and $\otimes$ are associative, $\oplus$ is commutative, $a \otimes (b \oplus c) =
             (a \otimes b) \oplus (a \otimes c)$, $0 \oplus a = a$, $1 \otimes a = a$, $0 \otimes a = 0$.
             Distributivity is all that message passing uses: sums move inside products.
Elements.    An array of elements has the axes of its table first and the axes `unit_shape` of one element
             last. `lift` makes elements of logarithms of potentials; $\log 0 = -\infty$ is the zero.
Cost.        Elementwise; `KBest` takes $O(k^2)$ per product. NumPy arrays stay in NumPy, so that small
             problems compile nothing; JAX arrays and tracers go through JAX.
References.  Goodman (1999), semiring parsing; Aji and McEliece (2000), the generalized distributive law;
             Li and Eisner (2009), expectation semirings.
"""

import abc
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check, check_count
from tractable.core.types import Shape

__all__ = [
    "Boolean", "Counting", "Expectation", "KBest", "MaxProduct", "MaxSum", "MinSum", "Semiring", "SumProduct",
    "as_semiring", "namespace",
]  # fmt: skip


def namespace(*arrays: Any) -> Any:
    """`jax.numpy` if one of the arrays belongs to JAX, else `numpy`."""
    return jnp if any(isinstance(a, jax.Array) for a in arrays) else np


@dataclass(frozen=True)
class Semiring(abc.ABC):
    """Two operations on arrays of elements, which must have equal rank and broadcast.

    A plain frozen class: equal semirings hash equally, so they are static arguments of compiled functions.
    """

    @property
    def unit_shape(self) -> Shape:
        """The axes of one element, after the axes of the table."""
        return ()

    @property
    @abc.abstractmethod
    def zero(self) -> Any:
        """The neutral element of `plus`: an impossible state."""

    @property
    @abc.abstractmethod
    def one(self) -> Any:
        """The neutral element of `times`: nothing said."""

    @abc.abstractmethod
    def lift(self, log_values: Any) -> Any:
        """Elements of the semiring from logarithms of potentials."""

    @abc.abstractmethod
    def times(self, a: Any, b: Any) -> Any:
        """The product of elements, for each pair of entries."""

    @abc.abstractmethod
    def total(self, a: Any, axes: tuple[int, ...]) -> Any:
        """The sum over axes of the table (counted from the front)."""

    def plus(self, a: Any, b: Any) -> Any:
        """The sum of elements, for each pair of entries."""
        xp = namespace(a, b)
        return self.total(xp.stack(xp.broadcast_arrays(a, b)), (0,))


class _Logarithms(Semiring):
    """What is multiplied by adding logarithms."""

    @property
    def zero(self) -> Any:
        return np.asarray(-np.inf)

    @property
    def one(self) -> Any:
        return np.asarray(0.0)

    def lift(self, log_values: Any) -> Any:
        return log_values

    def times(self, a: Any, b: Any) -> Any:
        return a + b


@dataclass(frozen=True)
class SumProduct(_Logarithms):
    r"""$(+, \times)$ on logarithms: $a \oplus b = \log(e^a + e^b)$, $a \otimes b = a + b$."""

    def total(self, a: Any, axes: tuple[int, ...]) -> Any:
        if not axes:
            return a
        xp = namespace(a)
        top = a.max(axes, keepdims=True)
        top = jax.lax.stop_gradient(top) if xp is jnp else top
        top = xp.where(top > -np.inf, top, 0.0).astype(a.dtype)  # all impossible: nothing to subtract
        mass = xp.exp(a - top).sum(axes)
        # The inner `where` keeps the gradient of an impossible sum at zero instead of NaN.
        logs = xp.where(mass == 0, -np.inf, xp.log(xp.where(mass == 0, 1.0, mass)))
        return (logs + top.reshape(logs.shape)).astype(a.dtype)


@dataclass(frozen=True)
class MaxSum(_Logarithms):
    r"""$(\max, +)$ on logarithms: the most probable state, without underflow."""

    def total(self, a: Any, axes: tuple[int, ...]) -> Any:
        return a.max(axes) if axes else a


@dataclass(frozen=True)
class MinSum(_Logarithms):
    r"""$(\min, +)$ on energies $-\log f$: an impossible state has energy $+\infty$."""

    @property
    def zero(self) -> Any:
        return np.asarray(np.inf)

    def lift(self, log_values: Any) -> Any:
        return -log_values

    def total(self, a: Any, axes: tuple[int, ...]) -> Any:
        return a.min(axes) if axes else a


@dataclass(frozen=True)
class MaxProduct(Semiring):
    r"""$(\max, \times)$ on the potentials themselves: as on paper; products of many underflow (`MaxSum`)."""

    @property
    def zero(self) -> Any:
        return np.asarray(0.0)

    @property
    def one(self) -> Any:
        return np.asarray(1.0)

    def lift(self, log_values: Any) -> Any:
        return namespace(log_values).exp(log_values)

    def times(self, a: Any, b: Any) -> Any:
        return a * b

    def total(self, a: Any, axes: tuple[int, ...]) -> Any:
        return a.max(axes) if axes else a


@dataclass(frozen=True)
class Boolean(Semiring):
    """(or, and): is anything possible at all?"""

    @property
    def zero(self) -> Any:
        return np.asarray(False)

    @property
    def one(self) -> Any:
        return np.asarray(True)

    def lift(self, log_values: Any) -> Any:
        return log_values > -np.inf

    def times(self, a: Any, b: Any) -> Any:
        return a & b

    def total(self, a: Any, axes: tuple[int, ...]) -> Any:
        return a.any(axes) if axes else a


@dataclass(frozen=True)
class Counting(Semiring):
    r"""$(+, \times)$ on whole numbers: how many joint states are possible.

    In NumPy the numbers are Python's, of any size. In JAX they are floats: exact up to $2^{53}$, rounded
    beyond.
    """

    @property
    def zero(self) -> Any:
        return np.asarray(0, object)

    @property
    def one(self) -> Any:
        return np.asarray(1, object)

    def lift(self, log_values: Any) -> Any:
        possible = log_values > -np.inf
        if namespace(log_values) is jnp:
            return possible.astype(log_values.dtype)
        return np.asarray(possible, int).astype(object)

    def times(self, a: Any, b: Any) -> Any:
        return a * b

    def total(self, a: Any, axes: tuple[int, ...]) -> Any:
        return np.asarray(a.sum(axes), object) if a.dtype == object else a.sum(axes)


@dataclass(frozen=True)
class KBest(Semiring):
    """The `num` largest log-potentials, in falling order; missing ones are -inf."""

    num: int

    def __post_init__(self) -> None:
        check_count("num", self.num)

    @property
    def unit_shape(self) -> Shape:
        return (self.num,)

    @property
    def zero(self) -> Any:
        return np.full(self.num, -np.inf)

    @property
    def one(self) -> Any:
        return np.where(np.arange(self.num) == 0, 0.0, -np.inf)

    def lift(self, log_values: Any) -> Any:
        xp = namespace(log_values)
        one = xp.asarray(self.one, log_values.dtype).reshape((1,) * log_values.ndim + (-1,))
        return log_values[..., None] + one

    def times(self, a: Any, b: Any) -> Any:
        sums = a[..., :, None] + b[..., None, :]
        return self._largest(sums.reshape((*sums.shape[:-2], -1)))

    def total(self, a: Any, axes: tuple[int, ...]) -> Any:
        if not axes:
            return a
        kept = [i for i in range(a.ndim - 1) if i not in axes]
        moved = a.transpose((*kept, *axes, a.ndim - 1))
        return self._largest(moved.reshape((*moved.shape[: len(kept)], -1)))

    def _largest(self, values: Any) -> Any:
        return namespace(values).sort(values, axis=-1)[..., ::-1][..., : self.num]


@dataclass(frozen=True)
class Expectation(Semiring):
    r"""$(p, r)$ with $r = \sum p\,v$ of an additive $v$, held as $(\log p, r / p)$: nothing overflows.

    $p$ adds and multiplies; the mean $r/p$ of a product is the sum of the means, that of a sum the average
    weighted by $p$. `lift` takes $v = \log f$, so a total is $(\log Z, E[\log \prod f])$ and the entropy is
    `entropy(total)` $= \log Z - E[\log \prod f]$.
    """

    @property
    def unit_shape(self) -> Shape:
        return (2,)

    @property
    def zero(self) -> Any:
        return np.array([-np.inf, 0.0])

    @property
    def one(self) -> Any:
        return np.array([0.0, 0.0])

    def lift(self, log_values: Any, values: Any = None) -> Any:
        """`values`: the additive quantity in each cell; the log-potential itself by default."""
        values = log_values if values is None else values
        return self._element(log_values, values)

    def times(self, a: Any, b: Any) -> Any:
        return self._element(a[..., 0] + b[..., 0], a[..., 1] + b[..., 1])

    def total(self, a: Any, axes: tuple[int, ...]) -> Any:
        if not axes:
            return a
        xp, logs, means = namespace(a), a[..., 0], a[..., 1]
        mass = SumProduct().total(logs, axes)
        spread = xp.expand_dims(xp.where(mass > -np.inf, mass, 0.0), tuple(sorted(axes)))
        return self._element(mass, (xp.exp(logs - spread) * means).sum(axes))

    @staticmethod
    def entropy(total: Any) -> Any:
        """The entropy in nats of the normalised product whose total was lifted from log-potentials."""
        return total[..., 0] - total[..., 1]

    @staticmethod
    def _element(log_mass: Any, mean: Any) -> Any:
        xp = namespace(log_mass, mean)
        mean = xp.where(log_mass > -np.inf, mean, 0.0)  # the one zero of the semiring
        return xp.stack([log_mass, mean], -1)


_BY_NAME: dict[str, Semiring] = {
    "sum_product": SumProduct(), "max_sum": MaxSum(), "max_product": MaxProduct(), "min_sum": MinSum(),
    "boolean": Boolean(), "counting": Counting(), "expectation": Expectation(),
}  # fmt: skip


def as_semiring(name: str | Semiring) -> Semiring:
    """A semiring by name, or the semiring itself.

    >>> as_semiring("max_sum").times(np.log(0.5), np.log(0.5)) == np.log(0.25)
    np.True_
    """
    if isinstance(name, Semiring):
        return name
    known = isinstance(name, str) and name in _BY_NAME
    check(known, "semiring", f"one of {', '.join(_BY_NAME)}, or a `Semiring`", repr(name))
    return _BY_NAME[name]
