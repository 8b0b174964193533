r"""All prefixes $e_1,\; e_1 \circ e_2,\; e_1 \circ e_2 \circ e_3, \dots$ of an associative product.

Blocks.      Inside blocks of 64 step by step, all blocks at once; the products of whole blocks have prefixes
             in the same way; each is joined to the prefixes inside the next block.
Cost.        Two products per element and $O(\log n)$ rounds; two copies of the product to compile for each
             factor of 64 in $n$ (`jax.lax.associative_scan` compiles two for each factor of 2).
References.  Blelloch (1990), "Prefix sums and their applications".
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["each", "prefixes"]

_BLOCK = 64
_BATCH = 4096


def prefixes(join: Callable[[Any, Any], Any], elements: Any, *, reverse: bool = False) -> Any:
    """The prefixes of `elements`, a tree of arrays with one leading axis; `join(before, after)` is of two.

    With `reverse` they begin at the end, and `join` is given the later of the two first.

    >>> prefixes(jnp.add, jnp.arange(5)).tolist(), prefixes(jnp.add, jnp.arange(5), reverse=True).tolist()
    ([0, 1, 3, 6, 10], [10, 10, 9, 7, 4])
    """
    if reverse:
        return _turned(prefixes(join, _turned(elements)))
    length = len(jax.tree.leaves(elements)[0])
    if length <= _BLOCK:
        return _one_by_one(join, elements)
    columns = jax.tree.map(lambda leaf: jnp.swapaxes(_blocks(leaf, _BLOCK), 0, 1), elements)
    inside = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), _one_by_one(jax.vmap(join), columns))
    whole = prefixes(join, jax.tree.map(lambda leaf: leaf[:-1, -1], inside))
    before = jax.tree.map(lambda leaf: jnp.repeat(leaf, _BLOCK, 0), whole)
    later = each(join, before, jax.tree.map(lambda leaf: _flat(leaf[1:]), inside))
    return jax.tree.map(lambda a, b: jnp.concatenate([a[0], b])[:length], inside, later)


def each(function: Callable, *stacks: Any) -> Any:
    """A function of each row, in batches: factorisations of 100,000 matrices at once can block each other's
    threads for ever on a machine of two cores."""
    length = len(jax.tree.leaves(stacks)[0])
    if length <= _BATCH:
        return jax.vmap(function)(*stacks)
    batches = jax.tree.map(lambda leaf: _blocks(leaf, _BATCH), stacks)
    results = jax.lax.map(lambda rows: jax.vmap(function)(*rows), batches)
    return jax.tree.map(lambda leaf: _flat(leaf)[:length], results)


def _one_by_one(join: Callable[[Any, Any], Any], elements: Any) -> Any:
    first = jax.tree.map(lambda leaf: leaf[0], elements)
    rest = jax.tree.map(lambda leaf: leaf[1:], elements)
    _, later = jax.lax.scan(lambda before, after: (join(before, after),) * 2, first, rest)
    return jax.tree.map(lambda one, more: jnp.concatenate([one[None], more]), first, later)


def _blocks(leaf: Any, size: int) -> Any:
    """Rows of blocks; the last is filled with copies, which nothing that is kept depends on."""
    whole = jnp.concatenate([leaf, jnp.repeat(leaf[-1:], -len(leaf) % size, 0)])
    return whole.reshape(-1, size, *leaf.shape[1:])


def _flat(leaf: Any) -> Any:
    return leaf.reshape(-1, *leaf.shape[2:])


def _turned(elements: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[::-1], elements)
