r"""Tasks that measure what a sequence model can remember, and what it can choose to remember.

Copying.     `selective_copying`: tokens at random places among blanks are to be said in their order. A linear
             time-invariant map knows how long ago something came, not how many tokens came since.
Adding.      `adding_problem`: the sum of the two numbers that a second column marks. The best linear map of
             the sequence explains $2/T$ of its variance of $1/6$: marks gate numbers, which takes a product.
Recall.      `delayed_recall`: the first token is to be said after a long time of blanks. A vanilla recurrent
             network loses it: its gradient is a product of as many contractions.
References.  Hochreiter and Schmidhuber (1997), also on adding; Arjovsky et al. (2016); Gu and Dao (2023).
"""

import jax
import jax.numpy as jnp
import jax.random as jr

from tractable.core.checks import check, check_count
from tractable.core.keys import takes_key
from tractable.core.types import Array, Float, Int, Key

__all__ = ["adding_problem", "delayed_recall", "selective_copying"]


@takes_key
def selective_copying(
    key: Key, num: int, length: int, count: int = 4, symbols: int = 4
) -> tuple[Int[Array, "num length"], Int[Array, "num count"]]:
    """Sequences of `count` tokens below `symbols` among blanks (token `symbols`), and the tokens in order.

    >>> tokens, wanted = selective_copying(jr.key(0), 1, 6, 2, 3)
    >>> tokens[0][tokens[0] < 3].tolist() == wanted[0].tolist()
    True
    """
    num, length, symbols = (
        check_count("num", num),
        check_count("length", length),
        check_count("symbols", symbols),
    )
    check(count <= length, "count", f"at most the length, {length}", check_count("count", count))
    key_place, key_token = jr.split(key)
    order = jax.vmap(lambda one: jr.permutation(one, length))(jr.split(key_place, num))
    places = jnp.sort(order[:, :count], 1)
    wanted = jr.randint(key_token, (num, count), 0, symbols)
    blanks = jnp.full((num, length), symbols)
    return blanks.at[jnp.arange(num)[:, None], places].set(wanted), wanted


@takes_key
def adding_problem(
    key: Key, num: int, length: int
) -> tuple[Float[Array, "num length 2"], Float[Array, " num"]]:
    """Sequences of uniform numbers beside marks, one mark in either half, and the sums of the marked numbers.

    >>> rows, total = adding_problem(jr.key(0), 1, 6)
    >>> rows[0, :, 1].sum().item(), bool(jnp.isclose(rows[0, :, 0] @ rows[0, :, 1], total[0]))
    (2.0, True)
    """
    num, length = check_count("num", num), check_count("length", length, least=2)
    key_number, *key_mark = jr.split(key, 3)
    numbers, half = jr.uniform(key_number, (num, length)), length // 2
    ends = ((0, half), (half, length))
    marked = [jr.randint(own, (num, 1), low, high) for own, (low, high) in zip(key_mark, ends)]
    marks = sum((jnp.arange(length)[None] == place).astype(numbers.dtype) for place in marked)
    return jnp.stack([numbers, marks], 2), (numbers * marks).sum(1)


@takes_key
def delayed_recall(
    key: Key, num: int, delay: int, symbols: int = 4
) -> tuple[Int[Array, "num length"], Int[Array, " num"]]:
    """Sequences of a token below `symbols` and `delay` blanks (the token `symbols`), and the first token.

    >>> tokens, wanted = delayed_recall(jr.key(0), 2, 3)
    >>> tokens.shape, bool((tokens[:, 0] == wanted).all())
    ((2, 4), True)
    """
    num, delay = check_count("num", num), check_count("delay", delay)
    wanted = jr.randint(key, (num,), 0, check_count("symbols", symbols))
    blanks = jnp.full((num, delay), symbols)
    return jnp.concatenate([wanted[:, None], blanks], 1), wanted
