"""Prefix products: equal to multiplying one after the other, with few copies of the product."""

import jax.numpy as jnp
import numpy as np
import pytest

from tractable.core.iterate import count_traces
from tractable.messages.prefixes import each, prefixes


def after(first, then):
    """Affine maps, one after the other: a product that does not commute."""
    return then[0] @ first[0], then[0] @ first[1] + then[1]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [1, 63, 64, 65, 129, 5000])
def test_prefixes_are_products_one_after_the_other(length, reverse):
    rng = np.random.default_rng(length)
    maps, shifts = np.linalg.qr(rng.normal(size=(length, 2, 2)))[0], rng.normal(size=(length, 2))
    found = prefixes(after, (jnp.asarray(maps), jnp.asarray(shifts)), reverse=reverse)
    order = range(length)[::-1] if reverse else range(length)
    whole = np.eye(2), np.zeros(2)
    for k in order:
        whole = after(whole, (maps[k], shifts[k]))
        np.testing.assert_allclose(found[0][k], whole[0], atol=1e-11)
        np.testing.assert_allclose(found[1][k], whole[1], atol=1e-10)


def test_the_copies_of_the_product_hardly_grow_with_the_length():
    joined = count_traces(jnp.add)
    prefixes(joined, jnp.arange(10_000.0))
    assert joined.count <= 5


def test_rows_in_batches_are_rows():
    rows = jnp.arange(10_001.0)
    np.testing.assert_array_equal(each(lambda x, y: x * y, rows, rows), rows**2)
