r"""New kernels from old ones: the closure rules beyond sums, products, scales and powers.

Rules.       If $k$ is positive semi-definite, so are $q(k)$ for a polynomial $q$ with non-negative
             coefficients, $e^{k}$, $f(x)\,k(x, x')\,f(x')$, $k(\phi(x), \phi(x'))$ for any map $\phi$, and
             the direct sum $k_a(x_a, x'_a) + k_b(x_b, x'_b)$ and product $k_a(x_a, x'_a)\,k_b(x_b, x'_b)$ on
             sub-vectors.
Cost.        That of the inner kernel, and one pass over its table; a warp maps each row once.
References.  Schölkopf and Smola (2002) section 13.1; Bishop (2006) section 6.2.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import as_float, check, is_concrete
from tractable.core.module import field
from tractable.core.support import nonnegative
from tractable.core.types import Array, Float
from tractable.kernels.base import Kernel, Product, Sum, Traits, Transformed

__all__ = [
    "Exponentiated", "Modulated", "Normalised", "OnColumns", "PolynomialOf", "Warped", "direct_product",
    "direct_sum",
]  # fmt: skip

Columns = Sequence[int] | np.ndarray | int


class PolynomialOf(Transformed):
    r"""$q(k) = \sum_i c_i\,k^i$ with coefficients $c_i \ge 0$, from the constant term up."""

    kernel: Kernel
    coefficients: Float[Array, " p"] = field(support=nonnegative, rank=1)

    def __check_init__(self) -> None:
        shape = jnp.shape(self.coefficients)
        check(len(shape) == 1 and shape[0] > 0, "coefficients", "a vector", f"shape {shape}")

    def transform(self, values: Array) -> Array:
        return jnp.polyval(self.coefficients[::-1], values)


class Exponentiated(Transformed):
    r"""$e^{k(x, x')}$, the limit of polynomials with coefficients $1/i!$."""

    kernel: Kernel

    def transform(self, values: Array) -> Array:
        return jnp.exp(values)

    def __repr__(self) -> str:
        return f"exp({self.kernel!r})"


class RowScaled(Kernel):
    """$s(x)\\,k(x, x')\\,s(x')$ with a number for each row: `scales`."""

    kernel: eqx.AbstractVar[Kernel]

    @abstractmethod
    def scales(self, x: Array) -> Array:
        """The number of each row."""

    def pair(self, x: Array, y: Array) -> Array:
        return self._gram(x[None], y[None])[0, 0]

    def _gram(self, x: Array, y: Array | None) -> Array:
        left = self.scales(x)
        right = left if y is None else self.scales(y)
        return left[:, None] * self.kernel._gram(x, y) * right[None, :]

    def _diagonal(self, x: Array) -> Array:
        return self.scales(x) ** 2 * self.kernel._diagonal(x)

    def _check_points(self, name: str, x: np.ndarray) -> None:
        self.kernel._check_points(name, x)


class Modulated(RowScaled):
    r"""$f(x)\,k(x, x')\,f(x')$: the covariance of $f(x)\,g(x)$ for a random function $g$.

    `function` maps one point to a number; a module may be given, and its leaves are hyperparameters.
    """

    kernel: Kernel
    function: Callable

    @property
    def traits(self) -> Traits:
        return _given(self.kernel)

    def scales(self, x: Array) -> Array:
        return jax.vmap(self.function)(x)


class Normalised(RowScaled):
    r"""$k(x, x') / \sqrt{k(x, x)\,k(x', x')}$: the correlation, the cosine of the angle between features."""

    kernel: Kernel

    @property
    def traits(self) -> Traits:
        return self.kernel.traits._replace(dot_product=False)

    def scales(self, x: Array) -> Array:
        return 1 / jnp.sqrt(self.kernel._diagonal(x))

    def _diagonal(self, x: Array) -> Array:
        return jnp.ones(len(x), x.dtype)


class Warped(Kernel):
    r"""$k(\phi(x), \phi(x'))$: the pull-back along any map of one point to a number or a vector.

    The map may be a module: its leaves are hyperparameters (a network makes a deep kernel), and it is stored.

    >>> from tractable.kernels.stationary import RBF
    >>> float(Warped(RBF(), jnp.log)(1.0, jnp.e)) == float(RBF()(0.0, 1.0))
    True
    """

    kernel: Kernel
    map: Callable

    @property
    def traits(self) -> Traits:
        return _given(self.kernel)

    def pair(self, x: Array, y: Array) -> Array:
        return self.kernel.pair(self._mapped(x), self._mapped(y))

    def _gram(self, x: Array, y: Array | None) -> Array:
        rows = jax.vmap(self._mapped)
        return self.kernel._gram(rows(x), None if y is None else rows(y))

    def _diagonal(self, x: Array) -> Array:
        return self.kernel._diagonal(jax.vmap(self._mapped)(x))

    def _mapped(self, x: Array) -> Array:
        return jnp.reshape(as_float("map", self.map(x)), -1)

    def _check_points(self, name: str, x: np.ndarray) -> None:
        mapped = jax.vmap(self._mapped)(jnp.asarray(x))
        if is_concrete(mapped):  # the map may hold traced hyperparameters
            ok = np.isfinite(np.asarray(mapped)).all(1)
            got = f"row {int(np.argmin(ok))}, which it maps to {np.asarray(mapped)[np.argmin(ok)].tolist()}"
            check(ok.all(), name, "inside the domain of `map`", got)
            self.kernel._check_points(f"map({name})", np.asarray(mapped))


class OnColumns(Kernel):
    r"""$k(x_a, x'_a)$ on the columns $a$ of the points.

    >>> from tractable.kernels.nonstationary import Linear
    >>> float(OnColumns(Linear(), [2])([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]))
    18.0
    """

    kernel: Kernel
    columns: tuple[int, ...] = field(static=True)

    def __init__(self, kernel: Kernel, columns: Columns):
        chosen = (columns,) if isinstance(columns, int | np.integer) else tuple(columns)
        whole = all(isinstance(c, int | np.integer) and not isinstance(c, bool) and c >= 0 for c in chosen)
        distinct = whole and len(set(chosen)) == len(chosen) > 0
        check(distinct, "columns", "distinct column numbers, from 0 up", repr(columns))
        self.kernel, self.columns = kernel, tuple(int(c) for c in chosen)

    @property
    def traits(self) -> Traits:
        return self.kernel.traits._replace(isotropic=False, dot_product=False)

    def pair(self, x: Array, y: Array) -> Array:
        return self.kernel.pair(x[self._index(len(x))], y[self._index(len(y))])

    def _gram(self, x: Array, y: Array | None) -> Array:
        index = self._index(x.shape[1])
        return self.kernel._gram(x[:, index], None if y is None else y[:, index])

    def _diagonal(self, x: Array) -> Array:
        return self.kernel._diagonal(x[:, self._index(x.shape[1])])

    def _check_points(self, name: str, x: np.ndarray) -> None:
        self.kernel._check_points(name, x[:, self._index(x.shape[1])])

    def _index(self, columns: int) -> np.ndarray:
        largest = max(self.columns)
        check(largest < columns, "columns", f"below {columns}, the number of columns", largest)
        return np.array(self.columns)


def direct_sum(*parts: tuple[Kernel, Columns]) -> Kernel:
    r"""$\sum_a k_a(x_a, x'_a)$ from pairs of a kernel and its columns."""
    return Sum(_on_columns(parts))


def direct_product(*parts: tuple[Kernel, Columns]) -> Kernel:
    r"""$\prod_a k_a(x_a, x'_a)$ from pairs of a kernel and its columns."""
    return Product(_on_columns(parts))


def _on_columns(parts: tuple[tuple[Kernel, Columns], ...]) -> tuple[Kernel, ...]:
    check(len(parts) > 0, "parts", "at least one pair of a kernel and its columns", "none")
    return tuple(OnColumns(kernel, columns) for kernel, columns in parts)


def _given(kernel: Kernel) -> Traits:
    """What is left of the traits of a kernel after a function that is given: nothing is known of that."""
    return Traits(symmetric=kernel.traits.symmetric, psd=kernel.traits.psd, derivatives=np.nan)
