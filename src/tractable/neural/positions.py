r"""Tokens and their places as vectors.

Sinusoidal.  $P_{p,2i} = \sin(p\,b^{-2i/d})$, $P_{p,2i+1} = \cos(p\,b^{-2i/d})$ with base $b = 10^4$: a shift
             of $k$ places is one rotation of each pair, whatever the place.
Rotary.      Each pair of a query or key is turned by $p\,b^{-2i/d}$, so that $\langle R_p q, R_r k\rangle$
             depends on $p - r$ only.
Tokens.      The row of a table. A token outside of the table is refused where it has a value, and gives NaN
             in compiled code, where the loss is then not finite: never the row of another token.
Cost.        $O(Td)$.
References.  Vaswani et al. (2017); Su et al. (2021).
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from tractable.core.checks import check, check_count, check_entries
from tractable.core.keys import takes_key
from tractable.core.types import Array, Float, Int, Key, Values

__all__ = ["TokenEmbedding", "check_tokens", "rotated", "sinusoidal_positions"]

_SMALL = 512  # tokens: below, a product with one-hot rows is faster than gathering rows and adding slopes


def sinusoidal_positions(
    length: int, dim: int, *, base: float = 1e4, dtype: Any = jnp.float32
) -> Float[Array, "length dim"]:
    """The vectors of the places $0, 1, \\dots$

    >>> [round(float(x), 4) for x in sinusoidal_positions(2, 4)[1]]
    [0.8415, 0.5403, 0.01, 0.9999]
    """
    check_count("length", length, least=0)
    check(check_count("dim", dim) % 2 == 0, "dim", "even: sines and cosines come in pairs", dim)
    return positions_of(jnp.arange(length), dim, base, dtype)


def positions_of(places: Any, dim: int, base: float, dtype: Any) -> Float[Array, "n dim"]:
    """The sinusoidal vectors of given places."""
    angles = _angles(places, dim, base)
    return jnp.stack([jnp.sin(angles), jnp.cos(angles)], -1).reshape(-1, dim).astype(dtype)


def rotated(x: Values, places: Any, base: float = 1e4) -> Float[Array, "n heads width"]:
    """Each pair of entries $(2i, 2i + 1)$ turned by its angle at the place.

    >>> turned = rotated(jnp.ones((1, 1, 2)), jnp.array([1]))
    >>> [round(float(x), 4) for x in turned.ravel()]
    [-0.3012, 1.3818]
    """
    angles = _angles(places, x.shape[-1], base)[:, None]
    # behind the barrier they are computed once, not again for each sequence of a batch
    cos, sin = jax.lax.optimization_barrier(
        (jnp.cos(angles).astype(x.dtype), jnp.sin(angles).astype(x.dtype))
    )
    even, odd = x[..., 0::2], x[..., 1::2]
    return jnp.stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(x.shape)


class TokenEmbedding(eqx.Module):
    """A row of `dim` numbers for each of `vocabulary` tokens.

    >>> table = TokenEmbedding(10, 4, key=jr.key(0))
    >>> table(jnp.array([1, 2, 9])).shape
    (3, 4)
    >>> table(jnp.array([1, 2, 10]))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: `tokens` must be from 0 to 9, the tokens of the vocabulary; got 10 at index 2. ...
    """

    weight: Float[Array, "vocabulary dim"]

    @takes_key
    def __init__(self, vocabulary: int, dim: int, *, dtype: Any = jnp.float32, key: Key):
        shape = check_count("vocabulary", vocabulary), check_count("dim", dim)
        self.weight = jr.normal(key, shape, dtype)

    def __call__(self, tokens: Any) -> Float[Array, "... dim"]:
        size = len(self.weight)
        tokens = check_tokens(tokens, size)
        if size > _SMALL:
            known = (tokens >= 0) & (tokens < size)  # a negative index would count from the end
            return jnp.where(known[..., None], self.weight[jnp.where(known, tokens, 0)], jnp.nan)
        rows = jax.nn.one_hot(tokens, size, dtype=self.weight.dtype)
        return jnp.where(((tokens >= 0) & (tokens < size))[..., None], rows @ self.weight, jnp.nan)


def check_tokens(tokens: Any, vocabulary: int, name: str = "tokens") -> Int[Array, "..."]:
    """Tokens as whole numbers; one beyond the vocabulary is refused by its place."""
    tokens = jnp.asarray(tokens)
    whole = jnp.issubdtype(tokens.dtype, jnp.integer)
    check(whole, name, "whole numbers", f"dtype {tokens.dtype}", error=TypeError)
    must = f"from 0 to {vocabulary - 1}, the tokens of the vocabulary"
    fix = "Enlarge the vocabulary, or map rare tokens to one for the unknown."
    check_entries(name, tokens, lambda t: (t >= 0) & (t < vocabulary), must, fix)
    return tokens


def _angles(places: Array, dim: int, base: float) -> Array:
    # 2i/d, not the whole part of i/d, which would give every pair the same angle
    rates = base ** (-jnp.arange(0, dim, 2) / dim)
    return places[:, None].astype(rates.dtype) * rates[None]
