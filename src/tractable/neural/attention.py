r"""Attention: soft retrieval by scores, with masks that may hide everything, and many heads at once.

Retrieval.   $\mathrm{attend}(q, K, V) = \sum_j a_j v_j$ with $a = \mathrm{softmax}(s(q, k_j))$. Scores: dot
             $q^\top k$ (of variance $d$ for entries of unit variance), scaled $q^\top k/\sqrt d$ (of variance
             one), general $q^\top W k$, additive $v^\top\tanh(W_q q + W_k k)$.
Masks.       A hidden key has score $-\infty$ and weight exactly zero, and so has its gradient. A query that
             sees no key gets the zero vector, and no gradient: nothing is retrieved from nothing.
Causal.      Query $i$ sees the keys $j \le i$: $\partial y_i/\partial x_j = 0$ for $j > i$, to the last bit.
Cross.       Queries from one sequence, keys and values from another (the memory).
Cost.        $O(N M d)$; the projections of a sequence are one product of rows each.
References.  Bahdanau, Cho and Bengio (2015); Luong, Pham and Manning (2015); Vaswani et al. (2017).
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from tractable.core.checks import check, check_count, check_shape
from tractable.core.keys import takes_key
from tractable.core.types import Array, Bool, Float, Int, Key, Values
from tractable.neural.positions import rotated
from tractable.neural.rows_product import rows_product

__all__ = [
    "Cache", "CrossAttention", "SelfAttention", "additive_score", "attend", "causal_mask", "dot_score",
    "general_score", "masked_softmax", "scaled_dot_score",
]  # fmt: skip

Mask = Values
Score = Callable[[Array, Array], Array]


def dot_score(queries: Values, keys: Values) -> Float[Array, "n m"]:
    r"""$q^\top k$."""
    check_shape("keys", keys, (None, queries.shape[-1]), "As many entries as a query has.")
    return queries @ keys.T


def scaled_dot_score(queries: Values, keys: Values) -> Float[Array, "n m"]:
    r"""$q^\top k / \sqrt d$."""
    return dot_score(queries * queries.shape[-1] ** -0.5, keys)


def general_score(queries: Float[Array, "n d"], keys: Values, weight: Values) -> Float[Array, "n m"]:
    r"""$q^\top W k$: queries and keys may differ in length."""
    return queries @ weight @ keys.T


def additive_score(
    queries: Values,
    keys: Values,
    query_weight: Values,
    key_weight: Values,
    readout: Values | None = None,
) -> Float[Array, "n m"]:
    r"""$v^\top\tanh(W_q q + W_k k)$; without `readout` the linear form $\sum_h (W_q q + W_k k)_h$.

    The linear form attends blindly: what the query adds is the same for all keys, and the softmax drops it.
    """
    both = (queries @ query_weight)[:, None, :] + (keys @ key_weight)[None, :, :]
    return both.sum(-1) if readout is None else jnp.tanh(both) @ readout


def causal_mask(size: int) -> Bool[Array, "n n"]:
    """Who may see whom: entry $(i, j)$ is true for $j \\le i$.

    >>> causal_mask(3).astype(int).tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """
    places = jnp.arange(size)
    return places[:, None] >= places[None, :]


def masked_softmax(scores: Values, mask: Mask | None = None) -> Float[Array, "..."]:
    r"""The softmax along the last axis over the entries where `mask` is true; zeros where none is.

    >>> masked_softmax(jnp.zeros((2, 2)), jnp.array([[True, False], [False, False]])).tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    if mask is None:
        return jax.nn.softmax(scores, axis=-1)
    seen = jnp.where(mask, scores, -jnp.inf)
    top = jax.lax.stop_gradient(seen.max(-1, keepdims=True, initial=-jnp.inf))
    # with no key to be seen the largest score is no number: zero stands in, and all weights vanish
    weights = jnp.exp(seen - jnp.where(jnp.isneginf(top), 0, top))
    total = weights.sum(-1, keepdims=True)
    return weights / jnp.where(total > 0, total, 1)


def attend(
    queries: Values,
    keys: Values,
    values: Values,
    *,
    score: Score = scaled_dot_score,
    mask: Mask | None = None,
) -> Float[Array, "n v"]:
    r"""$\mathrm{softmax}(s(Q, K) + M)\,V$; `mask` (one entry per key, or per query and key) is true where a
    key may be seen.

    >>> keys = jnp.array([[9.0, 0.0], [0.0, 9.0]])
    >>> attend(jnp.array([[9.0, 0.0]]), keys, jnp.array([[1.0], [2.0]])).round(6).tolist()
    [[1.0]]
    """
    check(len(keys) == len(values), "values", f"as many as `keys` ({len(keys)})", len(values))
    scores = score(queries, keys)
    if mask is None:
        return masked_softmax(scores) @ values
    seen = _pairs(mask, *scores.shape)
    return masked_softmax(scores, seen) @ _looked_at(values, seen)


class Cache(eqx.Module):
    """Keys and values of the places that were seen, for one layer: `(places, heads, width)`."""

    keys: Float[Array, "places heads width"]
    values: Float[Array, "places heads width"]


class SelfAttention(eqx.Module):
    r"""Multi-head attention of a sequence to itself, with one fused projection to queries, keys and values.

    No projection has a bias, so that a place that sees nothing gets exactly zero. With `rotary`, queries and
    keys are turned by their places. `step` attends from one new place to a cache.

    >>> layer = SelfAttention(8, 2, causal=True, key=jr.key(0))
    >>> layer(jnp.ones((5, 8), jnp.float32)).shape
    (5, 8)
    """

    project: Float[Array, "dim three_dim"]
    merge: Float[Array, "dim dim"]
    dropout: eqx.nn.Dropout
    num_heads: int = eqx.field(static=True)
    causal: bool = eqx.field(static=True)
    rotary: bool = eqx.field(static=True)

    @takes_key
    def __init__(
        self,
        dim: int,
        num_heads: int,
        *,
        causal: bool = False,
        rotary: bool = False,
        dropout: float = 0.0,
        dtype: Any = jnp.float32,
        key: Key,
    ):
        width = _width(dim, num_heads)
        check(not rotary or width % 2 == 0, "dim", "an even number for each head if `rotary`", dim)
        keys = jr.split(key)
        self.project, self.merge = _weight(keys[0], dim, 3 * dim, dtype), _weight(keys[1], dim, dim, dtype)
        self.dropout, self.num_heads = dropout_of(dropout), num_heads
        self.causal, self.rotary = causal, rotary

    def __call__(
        self, x: Values, mask: Mask | None = None, *, key: Key | None = None
    ) -> Float[Array, "n dim"]:
        """`mask` (per key, or per query and key) is true where a key may be seen, beside the causal order."""
        check_shape("x", x, (None, len(self.project)), "One sequence at a time: `jax.vmap` for more.")
        queries, keys, values = self._heads(x, jnp.arange(len(x)))
        seen = None if mask is None else _pairs(mask, len(x), len(x))
        values = values if seen is None else _looked_at(values, seen)
        if self.causal:
            seen = causal_mask(len(x)) if seen is None else seen & causal_mask(len(x))
        return rows_product(_retrieve(queries, keys, values, seen, self.dropout, key), self.merge)

    def start(self, capacity: int) -> Cache:
        """An empty cache for `capacity` places."""
        shape = (check_count("capacity", capacity), self.num_heads, len(self.project) // self.num_heads)
        return Cache(jnp.zeros(shape, self.project.dtype), jnp.zeros(shape, self.project.dtype))

    def step(self, x: Values, cache: Cache, place: Int[Array, ""]) -> tuple[Float[Array, " dim"], Cache]:
        """The output at one new place of a causal layer, and the cache that holds it too."""
        queries, keys, values = self._heads(x[None], place[None])
        cache = Cache(cache.keys.at[place].set(keys[0]), cache.values.at[place].set(values[0]))
        seen = (jnp.arange(len(cache.keys)) <= place)[None]
        return (_retrieve(queries, cache.keys, cache.values, seen) @ self.merge)[0], cache

    def _heads(self, x: Values, places: Any) -> tuple[Array, Array, Array]:
        width = len(self.merge) // self.num_heads
        rows = rows_product(x, self.project).reshape(len(x), 3, self.num_heads, width)
        queries, keys, values = rows[:, 0], rows[:, 1], rows[:, 2]
        if self.rotary:
            queries, keys = rotated(queries, places), rotated(keys, places)
        return queries, keys, values


class CrossAttention(eqx.Module):
    """Multi-head attention of a sequence to a memory, whose keys and values are computed once.

    >>> layer = CrossAttention(8, 2, key=jr.key(0))
    >>> layer(jnp.ones((5, 8), jnp.float32), layer.remember(jnp.ones((3, 8), jnp.float32))).shape
    (5, 8)
    """

    query: Float[Array, "dim dim"]
    key_and_value: Float[Array, "memory_dim two_dim"]
    merge: Float[Array, "dim dim"]
    dropout: eqx.nn.Dropout
    num_heads: int = eqx.field(static=True)

    @takes_key
    def __init__(
        self,
        dim: int,
        num_heads: int,
        *,
        memory_dim: int | None = None,
        dropout: float = 0.0,
        dtype: Any = jnp.float32,
        key: Key,
    ):
        _width(dim, num_heads)
        keys = jr.split(key, 3)
        self.query, self.merge = _weight(keys[0], dim, dim, dtype), _weight(keys[1], dim, dim, dtype)
        self.key_and_value = _weight(keys[2], memory_dim or dim, 2 * dim, dtype)
        self.dropout, self.num_heads = dropout_of(dropout), num_heads

    def remember(self, memory: Values) -> Cache:
        """The keys and values of the memory."""
        check_shape("memory", memory, (None, len(self.key_and_value)), "One sequence at a time.")
        width = len(self.merge) // self.num_heads
        rows = rows_product(memory, self.key_and_value).reshape(len(memory), 2, self.num_heads, width)
        return Cache(rows[:, 0], rows[:, 1])

    def __call__(
        self, x: Values, memory: Cache, mask: Mask | None = None, *, key: Key | None = None
    ) -> Float[Array, "n dim"]:
        """`mask` (per place of the memory, or per query and place) is true where it may be seen."""
        check_shape("x", x, (None, len(self.query)), "One sequence at a time: `jax.vmap` for more.")
        queries = rows_product(x, self.query).reshape(len(x), *memory.keys.shape[1:])
        seen = None if mask is None else _pairs(mask, len(x), len(memory.keys))
        values = memory.values if seen is None else _looked_at(memory.values, seen)
        look = _retrieve(queries, memory.keys, values, seen, self.dropout, key)
        return rows_product(look, self.merge)


def _retrieve(
    queries: Array,
    keys: Array,
    values: Array,
    seen: Array | None = None,
    dropout: eqx.nn.Dropout | None = None,
    key: Key | None = None,
) -> Array:
    """What each head retrieves, side by side: `(n, heads * width)`."""
    # heads first: products of plain matrices take half the time of those that step over other heads
    queries, keys, values = (jnp.swapaxes(each, 0, 1) for each in (queries, keys, values))
    scores = (queries * queries.shape[-1] ** -0.5) @ jnp.swapaxes(keys, 1, 2)
    weights = masked_softmax(scores, None if seen is None else seen[None])
    if dropout is not None:
        weights = dropout(weights, key=key)
    heads, count, width = queries.shape
    return jnp.swapaxes(weights @ values, 0, 1).reshape(count, heads * width)


def _pairs(mask: Mask, queries: int, keys: int) -> Bool[Array, "n m"]:
    """A mask with one entry per query and key."""
    mask = jnp.asarray(mask)
    check(mask.dtype == bool, "mask", "of booleans, true where a key may be seen", mask.dtype)
    ok = mask.shape in ((keys,), (1, keys), (queries, keys))
    check(ok, "mask", f"of shape ({keys},) or ({queries}, {keys})", f"shape {mask.shape}")
    return jnp.broadcast_to(mask if mask.ndim == 2 else mask[None], (queries, keys))


def _looked_at(values: Array, seen: Array) -> Array:
    """The values with zeros for keys that no query sees: what stands in padding, be it NaN, is not read."""
    there = seen.any(0)
    return jnp.where(there.reshape(-1, *(1,) * (values.ndim - 1)), values, 0)


def dropout_of(rate: float) -> eqx.nn.Dropout:
    """Dropout by a share of what passes, below one."""
    check(0 <= rate < 1, "dropout", "a share from 0 to below 1", rate)
    return eqx.nn.Dropout(rate)


def _width(dim: int, num_heads: int) -> int:
    dim, num_heads = check_count("dim", dim), check_count("num_heads", num_heads)
    check(dim % num_heads == 0, "num_heads", f"a divisor of `dim` ({dim})", num_heads)
    return dim // num_heads


def _weight(key: Key, rows: int, columns: int, dtype: Any) -> Array:
    """Normal entries of variance one over the number of inputs: outputs as large as inputs."""
    return jr.normal(key, (rows, columns), dtype) * rows**-0.5
