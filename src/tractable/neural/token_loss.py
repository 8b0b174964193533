r"""The loss of a sequence of tokens: the mean surprise of the targets that are there.

Loss.        $-\frac{1}{|P|}\sum_{t \in P} \log\mathrm{softmax}(\ell_t)_{y_t}$ over the places $P$ with a
             target that is not negative: $-1$ marks padding, and what should not be asked. Without any place
             it is zero.
Cost.        One pass over the logits.
"""

import jax.numpy as jnp

from tractable.core.checks import check_entries, check_shape
from tractable.core.numerics import log_softmax
from tractable.core.types import Array, ArrayLike, Values

__all__ = ["token_cross_entropy"]


def token_cross_entropy(logits: Values, targets: ArrayLike) -> Array:
    """The mean of $-\\log p$ over the targets that are zero or positive; those beyond the logits are refused,
    and give NaN in compiled code.

    >>> float(token_cross_entropy(jnp.log(jnp.array([[0.5, 0.5], [0.9, 0.1]])), [0, -1]).round(6))
    0.693147
    """
    targets = jnp.asarray(targets)
    check_shape("targets", targets, (len(logits),), "One target for each row of `logits`.")
    size = logits.shape[-1]
    check_entries("targets", targets, lambda t: t < size, f"below {size}, the size of the vocabulary")
    places = jnp.arange(size)
    logs = log_softmax(logits)
    # a sum over all tokens of which one counts: its slope needs no scattered additions
    chosen = jnp.where(places[None] == targets[:, None], logs, 0).sum(-1)
    chosen = jnp.where(targets < size, chosen, jnp.nan)
    present = targets >= 0
    return -jnp.where(present, chosen, 0).sum() / jnp.maximum(present.sum(), 1).astype(logs.dtype)
