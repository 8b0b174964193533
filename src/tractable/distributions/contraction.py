r"""Sums of products of arrays with named axes: the one contraction behind every query of a table.

Identities.  $\sum_{v \notin \mathrm{keep}} \prod_f f(v_f)$, with the sums pushed inside the products;
             $P(x \mid y) = P(x, y) / \sum_x P(x, y)$.
Cost.        That of the contraction order that `jnp.einsum` finds; the full product is never stored.
References.  Dechter (1999), bucket elimination; Smith and Gray (2018) for the order.
"""

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp

from tractable.core.checks import check
from tractable.core.types import Array, ArrayLike

__all__ = ["conditional", "contract"]


def contract(factors: Sequence[tuple[Sequence[str], ArrayLike]], keep: Sequence[str]) -> Array:
    """The product of `factors` (pairs of axis names and array) summed over every name but `keep`.

    >>> start, transition = jnp.array([0.5, 0.5]), jnp.array([[0.75, 0.25], [0.5, 0.5]])
    >>> contract([(["a"], start), (["a", "b"], transition)], ["b"]).tolist()
    [0.625, 0.375]
    """
    sizes: dict[str, int] = {}
    for position, (names, array) in enumerate(factors):
        fits = len(names) == jnp.ndim(array) and len(set(names)) == len(names)
        must = "distinct names, one per axis"
        check(fits, f"factors[{position}]", must, f"{tuple(names)} for shape {jnp.shape(array)}")
        for name, size in zip(names, jnp.shape(array)):
            known = sizes.setdefault(name, size)
            check(known == size, f"factors[{position}]", f"of length {known} along {name!r}, as before", size)
    unknown = [name for name in keep if name not in sizes]
    check(not unknown, "keep", f"among the axes {tuple(sizes)}", tuple(keep))
    number = {name: i for i, name in enumerate(sizes)}
    operands: list = []
    for names, array in factors:
        operands += [array, [number[name] for name in names]]
    return jnp.einsum(*operands, [number[name] for name in keep], precision="highest")


@partial(jax.jit, static_argnums=1)
def conditional(joint: Array, axes: tuple[int, ...]) -> Array:
    """`joint` divided by its sum over `axes`; NaN, with a finite gradient, where that sum is zero."""
    total = joint.sum(axes, keepdims=True)
    defined = total != 0
    return jnp.where(defined, joint / jnp.where(defined, total, 1.0), jnp.nan)
