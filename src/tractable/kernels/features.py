r"""Explicit features: kernels written out as inner products, finite or cut off with a bound on the error.

Monomials.   $(x^\top x')^p = \sum_{|m| = p}\phi_m(x)\,\phi_m(x')$ with
             $\phi_m(x) = \sqrt{p!/\prod_j m_j!}\,\prod_j x_j^{m_j}$; in two columns and $p = 2$:
             $(x_1^2, \sqrt2\,x_1 x_2, x_2^2)$. The constant of $(c + x^\top x')^p$ is one more column
             $\sqrt c$.
Products.    $\prod_j (1 + x_j x'_j) = \sum_{S}\prod_{j \in S} x_j\prod_{j \in S} x'_j$ over all $2^d$ subsets
             of columns.
Series.      $e^{-\gamma\|x - x'\|^2} = e^{-\gamma\|x\|^2} e^{-\gamma\|x'\|^2}\sum_k (2\gamma\,x^\top x')^k /
             k!$. Cut after $k = K$ it errs by at most
             $e^{-\gamma(\|x\| - \|x'\|)^2}\,P(K + 1, 2\gamma\|x\|\|x'\|)$, $P$ the regularised lower
             incomplete gamma function.
Cost.        $\binom{d + p - 1}{p}$ columns for degree $p$; $\binom{d + K}{K}$ for the series; $2^d$ for
             products.
References.  Shawe-Taylor and Cristianini (2004) section 9.1; Cotter, Keshet and Srebro (2011).
"""

import math
from functools import partial
from itertools import combinations_with_replacement

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammainc

from tractable.core.checks import check, check_count
from tractable.core.rows import points
from tractable.core.types import Array, ArrayLike, Float, Int

__all__ = [
    "monomial_exponents", "polynomial_features", "product_features", "rbf_series_error",
    "rbf_series_features",
]  # fmt: skip

_MOST_FEATURES = 10**6


def monomial_exponents(dim: int, degree: int) -> Int[np.ndarray, "features d"]:
    """The exponents of all monomials of exactly `degree` in `dim` variables.

    >>> monomial_exponents(2, 2).tolist()
    [[2, 0], [1, 1], [0, 2]]
    """
    dim, degree = check_count("dim", dim), check_count("degree", degree, least=0)
    count = math.comb(dim + degree - 1, degree)
    check(count <= _MOST_FEATURES, "degree", "low enough to list the monomials", f"{count} of them")
    table = np.zeros((count, dim), dtype=np.int64)
    for row, chosen in enumerate(combinations_with_replacement(range(dim), degree)):
        np.add.at(table[row], list(chosen), 1)
    return table


def polynomial_features(X: ArrayLike, degree: int, offset: float = 0.0) -> Float[Array, "n features"]:
    r"""Rows $\phi(x)$ with $\phi(x)^\top\phi(x') = (c + x^\top x')^p$ for `offset` $c \ge 0$.

    >>> a, b = polynomial_features([[1.0, 2.0], [3.0, 4.0]], 2)
    >>> round(float(a @ b), 9)
    121.0
    """
    x = _rows(X)
    check(offset >= 0, "offset", "at least zero", offset)
    if offset > 0:
        x = jnp.concatenate([x, jnp.full((len(x), 1), math.sqrt(offset), x.dtype)], axis=1)
    return _monomials(x, check_count("degree", degree))


def product_features(X: ArrayLike) -> Float[Array, "n features"]:
    r"""Rows of all $2^d$ products of distinct columns, the empty product first."""
    x = _rows(X)
    check(
        2 ** x.shape[1] <= _MOST_FEATURES, "X", "narrow enough to list all products", f"{x.shape[1]} columns"
    )
    features = jnp.ones((len(x), 1), x.dtype)
    for column in range(x.shape[1]):
        features = jnp.concatenate([features, features * x[:, column][:, None]], axis=1)
    return features


def rbf_series_features(X: ArrayLike, order: int, gamma: float = 0.5) -> Float[Array, "n features"]:
    r"""Rows $\phi(x)$ with $\phi(x)^\top\phi(x') \to e^{-\gamma\|x - x'\|^2}$: monomials up to `order`."""
    x = _rows(X)
    check(gamma > 0, "gamma", "positive", gamma)
    return _series(x, jnp.asarray(gamma, x.dtype), check_count("order", order, least=0))


def rbf_series_error(X: ArrayLike, Y: ArrayLike, order: int, gamma: float = 0.5) -> Float[Array, "n m"]:
    r"""What `rbf_series_features` of this `order` err by at most, for each pair of rows."""
    x, y = (jnp.linalg.norm(_rows(rows), axis=1) for rows in (X, Y))
    x, y = x[:, None], y[None, :]
    return jnp.exp(-gamma * (x - y) ** 2) * gammainc(order + 1.0, 2 * gamma * x * y)


@partial(jax.jit, static_argnames="order")
def _series(x: Array, gamma: Array, order: int) -> Array:
    blocks = [
        jnp.sqrt((2 * gamma) ** k / float(math.factorial(k))) * _monomials(x, k) for k in range(order + 1)
    ]
    return jnp.exp(-gamma * (x**2).sum(1))[:, None] * jnp.concatenate(blocks, axis=1)


@partial(jax.jit, static_argnames="degree")
def _monomials(x: Array, degree: int) -> Array:
    exponents = monomial_exponents(x.shape[1], degree)
    powers = [jnp.ones_like(x)]  # repeated products: the derivative of x**0 at zero is zero, not NaN
    for _ in range(degree):
        powers.append(powers[-1] * x)
    table = jnp.stack(powers)
    logs = [math.lgamma(degree + 1) - sum(math.lgamma(m + 1) for m in row) for row in exponents.tolist()]
    features = jnp.ones((len(x), len(exponents)), x.dtype)
    for column in range(x.shape[1]):
        features = features * table[exponents[:, column], :, column].T
    return features * jnp.asarray(np.exp(0.5 * np.array(logs)), x.dtype)[None, :]


def _rows(X: ArrayLike) -> Array:
    return jnp.asarray(points(X))
