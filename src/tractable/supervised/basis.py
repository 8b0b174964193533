r"""Basis functions and the design matrix: nonlinear in the inputs, linear in the coefficients.

Model.       $f(x, w) = \sum_j w_j \phi_j(x)$ and the design matrix $\Phi_{ij} = \phi_j(x_i)$.
Families.    Monomials $\prod_k x_k^{m_k}$ with $\sum_k m_k \le$ degree; products of distinct inputs
             $\prod_{k \in S} x_k$; Gaussian bumps $\exp(-\|x - \mu_j\|^2 / 2 s^2)$; sigmoids
             $\sigma(a_j^\top (x - \mu_j)/s)$ (in one dimension $\sigma((x - \mu_j)/s)$); the constant; any
             callable of the rows.
Cost.        $O(n)$ per feature and input; NumPy rows stay in NumPy, so that nothing is compiled.
References.  Bishop (2006) section 3.1.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import chain, combinations, combinations_with_replacement
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import expit

from tractable.core.checks import as_float, check, check_count, check_finite, namespace
from tractable.core.module import Module, field
from tractable.core.rows import Rows, points
from tractable.core.support import positive, real
from tractable.core.types import Array, ArrayLike, Float, Values

__all__ = [
    "Basis", "Bias", "Concatenated", "Functions", "GaussianBumps", "Inputs", "Polynomial", "Products",
    "Sigmoids", "design_matrix",
]  # fmt: skip


class Basis(Module):
    """A map of rows (n, d) to features (n, m); a vector is n points in one dimension. `a + b` joins two.

    >>> (Bias() + Polynomial(2, bias=False))(np.array([3.0])).tolist()
    [[1.0, 3.0, 9.0]]
    """

    def __call__(self, X: ArrayLike | Rows) -> Values:
        """The design matrix of the rows, in NumPy unless the rows are JAX arrays."""
        features = self._features(points(X))
        return jnp.asarray(features) if isinstance(X, jax.Array) else features

    def __add__(self, other: "Basis") -> "Concatenated":
        return Concatenated((*_parts(self), *_parts(other)))

    @abstractmethod
    def _features(self, X: Values) -> Values:
        """The features of rows of shape (n, d)."""


class Bias(Basis):
    r"""$\phi_0(x) = 1$."""

    def _features(self, X: Values) -> Values:
        return namespace(X).ones_like(X[:, :1])


class Inputs(Basis):
    r"""$\phi_k(x) = x_k$: the inputs themselves."""

    def _features(self, X: Values) -> Values:
        return X


class Polynomial(Basis):
    r"""All monomials $\prod_k x_k^{m_k}$ of total degree up to `degree`; without `products`, powers only.

    >>> Polynomial(2)(np.array([[2.0, 3.0]])).tolist()
    [[1.0, 2.0, 3.0, 4.0, 6.0, 9.0]]
    """

    degree: int = field(static=True, default=2)
    bias: bool = field(static=True, default=True)
    products: bool = field(static=True, default=True)

    def __check_init__(self) -> None:
        check_count("degree", self.degree, least=0)

    def _features(self, X: Values) -> Values:
        columns = range(X.shape[1])
        degrees = range(0 if self.bias else 1, self.degree + 1)
        if self.products:
            factors = chain.from_iterable(combinations_with_replacement(columns, m) for m in degrees)
        else:
            factors = ((k,) * m for m in degrees for k in (columns if m else (0,)))
        return _monomials(X, list(factors))


class Products(Basis):
    r"""$\prod_{k \in S} x_k$ for every set $S$ of at most `order` distinct inputs ($2^d$ of them for $d$).

    >>> Products()(np.array([[2.0, 3.0]])).tolist()
    [[1.0, 2.0, 3.0, 6.0]]
    """

    order: int | None = field(static=True, default=None)
    bias: bool = field(static=True, default=True)

    def __check_init__(self) -> None:
        if self.order is not None:
            check_count("order", self.order, least=0)

    def _features(self, X: Values) -> Values:
        dim = X.shape[1]
        sizes = range(0 if self.bias else 1, (dim if self.order is None else min(self.order, dim)) + 1)
        return _monomials(X, list(chain.from_iterable(combinations(range(dim), m) for m in sizes)))


class GaussianBumps(Basis):
    r"""$\phi_j(x) = \exp(-\|x - \mu_j\|^2 / (2 s^2))$ with `centres` $\mu_j$; one `scale` $s$, or one each.

    >>> GaussianBumps([0.0, 1.0], 1.0)(np.array([0.0])).round(6).tolist()
    [[1.0, 0.606531]]
    """

    centres: Float[Array, "m d"]
    scale: Float[Array, "..."] = field(support=positive)

    def __init__(self, centres: ArrayLike, scale: Any = 1.0):
        self.centres, self.scale = _centres(centres), _one_or_each("scale", scale, centres)

    def _features(self, X: Values) -> Values:
        xp, centres = namespace(self, X), self.centres
        _check_width(X, centres.shape[1])
        distances = ((xp.asarray(X)[:, None, :] - xp.asarray(centres)[None]) ** 2).sum(-1)
        return xp.exp(-0.5 * distances / xp.broadcast_to(xp.asarray(self.scale) ** 2, distances.shape))


class Sigmoids(Basis):
    r"""$\phi_j(x) = \sigma(a_j^\top (x - \mu_j) / s)$ with the logistic $\sigma$; $a_j = 1$ in one dimension.

    >>> Sigmoids([0.0, 1.0], 1.0)(np.array([0.0])).round(6).tolist()
    [[0.5, 0.268941]]
    """

    centres: Float[Array, "m d"]
    scale: Float[Array, "..."] = field(support=positive)
    directions: Float[Array, "m d"] = field(support=real, rank=2)

    def __init__(self, centres: ArrayLike, scale: Any = 1.0, directions: ArrayLike | None = None):
        self.centres, self.scale = _centres(centres), _one_or_each("scale", scale, centres)
        given = directions is not None or self.centres.shape[1] == 1
        check(given, "directions", "given in more than one dimension", None, "One direction per centre.")
        ones = np.ones(self.centres.shape)
        self.directions = as_float("directions", ones if directions is None else directions)
        same = self.directions.shape == self.centres.shape
        check(same, "directions", f"of shape {self.centres.shape}", f"shape {self.directions.shape}")

    def _features(self, X: Values) -> Values:
        xp = namespace(self, X)
        _check_width(X, self.centres.shape[1])
        centres, directions = xp.asarray(self.centres), xp.asarray(self.directions)
        along = X @ directions.T - (centres * directions).sum(-1)[None]
        steepness = along / xp.broadcast_to(xp.asarray(self.scale), along.shape)
        return jax.nn.sigmoid(steepness) if xp is jnp else expit(steepness)


class Functions(Basis):
    """Any callables of the rows (n, d), each giving a vector (n,) or a matrix (n, k) of features.

    >>> Functions(lambda X: np.sin(X[:, 0]), lambda X: X)(np.array([0.0, 1.0])).shape
    (2, 2)
    """

    functions: tuple[Callable, ...] = field(static=True)

    def __init__(self, *functions: Callable):
        good = len(functions) > 0 and all(callable(f) for f in functions)
        check(good, "functions", "one or more callables of the rows", functions)
        self.functions = functions

    def _features(self, X: Values) -> Values:
        xp = namespace(X)
        parts = [xp.asarray(function(X)) for function in self.functions]
        for k, part in enumerate(parts):
            fits = part.ndim in (1, 2) and part.shape[0] == X.shape[0]
            check(fits, f"functions[{k}]", f"one that gives {X.shape[0]} rows", f"shape {part.shape}")
        return xp.concatenate([p[:, None] if p.ndim == 1 else p for p in parts], axis=1)


class Concatenated(Basis):
    """The features of several bases side by side."""

    parts: tuple[Basis, ...]

    def _features(self, X: Values) -> Values:
        return namespace(self, X).concatenate([part._features(X) for part in self.parts], axis=1)


def design_matrix(basis: "Basis | Callable | Sequence", X: ArrayLike | Rows) -> Values:
    r"""$\Phi_{ij} = \phi_j(x_i)$ for a basis, a callable of the rows, or a sequence of either.

    >>> design_matrix([Bias(), np.sin], np.array([0.0])).tolist()
    [[1.0, 0.0]]
    """
    if isinstance(basis, Sequence):
        check(len(basis) > 0, "basis", "at least one basis", "none")
        return Concatenated(tuple(_as_basis(part) for part in basis))(X)
    return _as_basis(basis)(X)


def _as_basis(basis: Any) -> Basis:
    return basis if isinstance(basis, Basis) else Functions(basis)


def _parts(basis: Basis) -> tuple[Basis, ...]:
    return basis.parts if isinstance(basis, Concatenated) else (basis,)


def _monomials(X: Values, factors: list[tuple[int, ...]]) -> Values:
    """One column per tuple of inputs; each is one product away from a shorter one, as in Horner's scheme."""
    xp = namespace(X)
    known: dict[tuple[int, ...], Any] = {(): xp.ones_like(X[:, 0])}

    def column(inputs: tuple[int, ...]) -> Any:
        if inputs not in known:
            known[inputs] = column(inputs[:-1]) * X[:, inputs[-1]]
        return known[inputs]

    check(len(factors) > 0, "degree", "one that leaves at least one feature", "none")
    return xp.stack([column(inputs) for inputs in factors], axis=1)


def _centres(centres: Any) -> Array:
    points = as_float("centres", centres)
    points = points[:, None] if points.ndim == 1 else points
    check(points.ndim == 2 and points.size > 0, "centres", "rows, one per feature", f"shape {points.shape}")
    check_finite("centres", points)
    return points


def _one_or_each(name: str, value: Any, centres: Any) -> Array:
    array, count = as_float(name, value), np.shape(centres)[0]
    check(array.shape in ((), (count,)), name, f"one number or {count} of them", f"shape {array.shape}")
    return array


def _check_width(X: Values, dim: int) -> None:
    check(X.shape[1] == dim, "X", f"rows of {dim} columns, like the centres", f"{X.shape[1]} columns")
