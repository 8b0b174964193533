"""Host randomness: keys and streams decide the numbers, nothing else does."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.core.host_random import generator, key_words, seeds


def test_a_key_and_a_stream_decide_the_numbers():
    key = jr.key(7)
    first = generator(key, 1, 2).random(5)
    np.random.default_rng(3).random(100)  # the state of others does not matter
    np.testing.assert_array_equal(generator(key, 1, 2).random(5), first)
    others = [
        generator(key),
        generator(key, 1),
        generator(key, 2, 1),
        generator(jr.key(8), 1, 2),
        generator(7, 1, 2),
    ]
    assert len({tuple(g.random(5)) for g in others} | {tuple(first)}) == 6


def test_seeds_are_distinct_and_a_longer_list_begins_alike():
    key = jr.key(0)
    many = seeds(key, 1000)
    assert many.dtype == np.uint64
    assert len(set(many.tolist())) == 1000
    np.testing.assert_array_equal(seeds(key, 10), many[:10])
    np.testing.assert_array_equal(key_words(key_words(key)), np.asarray(jr.key_data(key)))


def test_anything_but_a_key_is_refused():
    with pytest.raises(TypeError, match="`key` must be a random key"):
        generator(jnp.zeros(2, jnp.uint32))
