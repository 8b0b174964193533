r"""Kernels: functions of two points, their Gram matrices, and the operators that combine them.

Model.       A kernel is a function $k(x, x')$ of two points of $\mathbb R^d$. It is positive semi-definite if
             $\sum_{ij} f_i\,k(x_i, x_j)\,f_j \ge 0$ for all points and all $f$: the covariance of a random
             function, and the inner product $\langle\phi(x), \phi(x')\rangle$ of some features.
Closure.     $c\,k$ with $c > 0$, $k_1 + k_2$, $k_1 k_2$ and $k^p$ are positive semi-definite if the parts
             are. The other rules are in `kernels.structured`.
Cost.        `gram` evaluates $nm$ pairs in one compiled program, `diagonal` evaluates $n$.
References.  Rasmussen and Williams (2006) chapter 4; Schölkopf and Smola (2002) chapter 13.
"""

import math
import operator
from abc import abstractmethod
from functools import reduce
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import (
    as_float,
    check,
    check_count,
    check_finite,
    has_values,
    is_concrete,
    to_device,
)
from tractable.core.chunks import bucket_size, pad_rows
from tractable.core.description import describe
from tractable.core.module import Module, field
from tractable.core.support import nonnegative, positive
from tractable.core.types import Array, ArrayLike, Float, Scalar
from tractable.kernels.evaluation import compiled_diagonal, compiled_gram, compiled_pair, from_pairs

__all__ = [
    "Combined", "Constant", "Kernel", "Power", "Product", "Scaled", "Sum", "Traits", "Transformed",
]  # fmt: skip

_PADDED_ENTRIES = 2**22  # above, computing takes longer than compiling, and padding would be waste


class Traits(NamedTuple):
    """What is known of a kernel without evaluating it.

    `derivatives` counts the mean-square derivatives of a random function with this covariance: 0 is
    continuous and nowhere differentiable, infinity is smooth.
    """

    symmetric: bool = True
    psd: bool = True
    stationary: bool = False
    isotropic: bool = False
    dot_product: bool = False
    derivatives: float = math.inf

    def __and__(self, other: "Traits") -> "Traits":
        """The traits of a sum or a product: what both have."""
        both = [a and b for a, b in zip(self[:-1], other[:-1])]
        return Traits(*both, derivatives=min(self.derivatives, other.derivatives))


class Kernel(Module):
    """A function of two points, written for one pair in `pair`; the rest follows.

    A kernel of one's own defines `pair(x, y)` for two vectors, its hyperparameters as fields with a support,
    and its `traits`; `_gram` and `_diagonal` are there to be faster than all pairs.
    """

    __array_ufunc__ = None  # `np.float64(2) * kernel` is left to `__rmul__`

    @abstractmethod
    def pair(self, x: Float[Array, " d"], y: Float[Array, " d"]) -> Scalar:
        """$k(x, y)$ for two vectors, with nothing checked."""

    @property
    def traits(self) -> Traits:
        """What is known of the kernel without evaluating it."""
        return Traits()

    def __call__(self, x: ArrayLike, y: ArrayLike) -> Scalar:
        """$k(x, y)$ for two points: vectors of one length, or two numbers."""
        a, b = self._row("x", x), self._row("y", y)
        check(a.shape == b.shape, "y", f"a point like `x`, of shape {a.shape[1:]}", f"shape {b.shape[1:]}")
        return compiled_pair(self, a[0], b[0])

    def gram(self, X: ArrayLike, Y: ArrayLike | None = None) -> Float[Array, "n m"]:
        """$k(x_i, y_j)$ for all rows; `Y` is `X` if it is not given. A vector is `n` points of one column.

        Rows with values are padded to a bucket size, so that a new number of them does not compile anew.

        >>> Constant(2.0).gram([1.0, 2.0]).tolist()
        [[2.0, 2.0], [2.0, 2.0]]
        """
        x = self._rows("X", X)
        y = None if Y is None else self._rows("Y", Y)
        if y is not None:
            got = f"{y.shape[1]} columns"
            check(y.shape[1] == x.shape[1], "Y", f"rows of {x.shape[1]} columns, as in `X`", got)
        n, m = x.shape[0], (x if y is None else y).shape[0]
        rows, columns = bucket_size(n), bucket_size(m)
        exact = (rows, columns) == (n, m) or rows * columns > _PADDED_ENTRIES
        if exact or not has_values((self, x, y)):
            return compiled_gram(self, x, y)
        wide = None if y is None else pad_rows(y, size=columns)[0]
        table = compiled_gram(self, pad_rows(x, size=rows)[0], wide)
        return to_device(np.array(np.asarray(table)[:n, :m]))

    def diagonal(self, X: ArrayLike) -> Float[Array, " n"]:
        """$k(x_i, x_i)$ for all rows, without the rest of the Gram matrix."""
        x = self._rows("X", X)
        if not has_values((self, x)):
            return compiled_diagonal(self, x)
        return to_device(np.array(np.asarray(compiled_diagonal(self, pad_rows(x)[0]))[: len(x)]))

    def __add__(self, other: Any) -> "Kernel":
        if _is_number(other):
            return self if _is_zero(other) else Sum((*_parts(self, Sum), Constant(other)))
        return Sum((*_parts(self, Sum), *_parts(other, Sum))) if isinstance(other, Kernel) else NotImplemented

    def __radd__(self, other: Any) -> "Kernel":
        return self + other  # addition commutes, and `sum` of kernels begins with 0

    def __mul__(self, other: Any) -> "Kernel":
        if _is_number(other):
            return Scaled(self, other)
        both = (*_parts(self, Product), *_parts(other, Product)) if isinstance(other, Kernel) else ()
        return Product(both) if both else NotImplemented

    def __rmul__(self, other: Any) -> "Kernel":
        return self * other

    def __pow__(self, exponent: int) -> "Kernel":
        return Power(self, exponent)

    def _gram(self, x: Array, y: Array | None) -> Array:
        """The table of all pairs, pure; `y` of None stands for `x`."""
        return from_pairs(self.pair, x, y)

    def _diagonal(self, x: Array) -> Array:
        """The values $k(x_i, x_i)$, pure."""
        return jax.vmap(lambda row: self.pair(row, row))(x)

    def _check_points(self, name: str, x: np.ndarray) -> None:
        """Refuse rows outside the domain of the kernel, by name; they are finite."""

    def _rows(self, name: str, value: ArrayLike) -> Array:
        """`value` as rows of finite numbers inside the domain of the kernel."""
        rows = as_float(name, value)
        check(rows.ndim in (1, 2), name, "rows (n, d), or a vector of n numbers", f"shape {rows.shape}")
        check(rows.size > 0, name, "at least one row and one column", f"shape {rows.shape}")
        if not is_concrete(rows):
            return rows[:, None] if rows.ndim == 1 else rows
        values = np.asarray(rows).reshape(len(rows), -1)  # in NumPy: nothing is compiled
        check_finite(name, values)
        self._check_points(name, values)
        return to_device(values)

    def _row(self, name: str, value: ArrayLike) -> Array:
        """One point as a table of one row."""
        point = as_float(name, value)
        check(point.ndim <= 1, name, "one point: a number or a vector", f"shape {point.shape}")
        values = np.asarray(point) if is_concrete(point) else point
        return self._rows(name, values.reshape(1, -1))


class Constant(Kernel):
    r"""$k(x, x') = c$ with $c \ge 0$: the covariance of one random level."""

    value: Scalar = field(support=nonnegative, default=1.0)

    @property
    def traits(self) -> Traits:
        return Traits(stationary=True, isotropic=True, dot_product=True)

    def pair(self, x: Array, y: Array) -> Array:
        return self.value + jnp.zeros((), x.dtype)

    def __repr__(self) -> str:
        return describe(self.value)


class Transformed(Kernel):
    """A function of the values of another kernel, which `transform` applies elementwise."""

    kernel: eqx.AbstractVar[Kernel]

    @abstractmethod
    def transform(self, values: Array) -> Array:
        """The values of this kernel from those of the inner one."""

    @property
    def traits(self) -> Traits:
        return self.kernel.traits

    def pair(self, x: Array, y: Array) -> Array:
        return self.transform(self.kernel.pair(x, y))

    def _gram(self, x: Array, y: Array | None) -> Array:
        return self.transform(self.kernel._gram(x, y))

    def _diagonal(self, x: Array) -> Array:
        return self.transform(self.kernel._diagonal(x))

    def _check_points(self, name: str, x: np.ndarray) -> None:
        self.kernel._check_points(name, x)


class Scaled(Transformed):
    r"""$c\,k(x, x')$ with $c > 0$.

    >>> from tractable.kernels.stationary import RBF
    >>> 2.0 * RBF(1.3)
    2.0 * RBF(length_scale=1.3)
    """

    kernel: Kernel
    variance: Scalar = field(support=positive)

    def transform(self, values: Array) -> Array:
        return self.variance * values

    def __repr__(self) -> str:
        return f"{describe(self.variance)} * {_factor(self.kernel)}"


class Power(Transformed):
    r"""$k(x, x')^p$ for a whole $p \ge 1$, with one set of hyperparameters."""

    kernel: Kernel
    exponent: int = field(static=True)

    def __check_init__(self) -> None:
        check_count("exponent", self.exponent)

    def transform(self, values: Array) -> Array:
        return values**self.exponent

    def __repr__(self) -> str:
        simple = not isinstance(self.kernel, Sum | Product | Scaled | Power)
        return f"{self.kernel!r}**{self.exponent}" if simple else f"({self.kernel!r})**{self.exponent}"


class Combined(Kernel):
    """Several kernels whose values `combine` makes into one."""

    parts: tuple[Kernel, ...]

    def __check_init__(self) -> None:
        kernels = len(self.parts) > 0 and all(isinstance(part, Kernel) for part in self.parts)
        check(kernels, "parts", "a tuple of kernels", repr(self.parts), error=TypeError)

    @abstractmethod
    def combine(self, values: list[Array]) -> Array:
        """The values of this kernel from those of the parts."""

    @property
    def traits(self) -> Traits:
        return reduce(operator.and_, [part.traits for part in self.parts])

    def pair(self, x: Array, y: Array) -> Array:
        return self.combine([part.pair(x, y) for part in self.parts])

    def _gram(self, x: Array, y: Array | None) -> Array:
        return self.combine([part._gram(x, y) for part in self.parts])

    def _diagonal(self, x: Array) -> Array:
        return self.combine([part._diagonal(x) for part in self.parts])

    def _check_points(self, name: str, x: np.ndarray) -> None:
        for part in self.parts:
            part._check_points(name, x)


class Sum(Combined):
    r"""$\sum_i k_i(x, x')$."""

    def combine(self, values: list[Array]) -> Array:
        return reduce(operator.add, values)

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.parts))


class Product(Combined):
    r"""$\prod_i k_i(x, x')$, positive semi-definite by Schur's theorem."""

    def combine(self, values: list[Array]) -> Array:
        return reduce(operator.mul, values)

    def __repr__(self) -> str:
        return " * ".join(map(_factor, self.parts))


def _factor(kernel: Kernel) -> str:
    return f"({kernel!r})" if isinstance(kernel, Sum) else repr(kernel)


def _parts(kernel: Kernel, kind: type) -> tuple[Kernel, ...]:
    return getattr(kernel, "parts") if isinstance(kernel, kind) else (kernel,)  # noqa: B009


def _is_number(value: Any) -> bool:
    number = isinstance(value, int | float | np.number | np.ndarray | jax.Array)
    return number and not isinstance(value, bool) and jnp.ndim(value) == 0


def _is_zero(value: Any) -> bool:
    return isinstance(value, int | float) and bool(value == 0)
