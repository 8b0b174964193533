"""The cheap random numbers against their laws."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from scipy import stats

from tractable.core.streams import Stream

COUNT = 200_000


def _numbers(seed, name):
    return np.asarray(jax.jit(lambda key: getattr(Stream.of(key), name)(jnp.arange(COUNT)))(jr.key(seed)))


def test_uniform_numbers_are_uniform_and_independent():
    u = _numbers(0, "uniform")
    assert u.min() > 0
    assert u.max() < 1
    counts = np.histogram(u, 100, (0, 1))[0]
    assert stats.chisquare(counts).pvalue > 1e-4
    pairs = np.histogram2d(u[:-1], u[1:], 20, [[0, 1], [0, 1]])[0]
    assert stats.chisquare(pairs.ravel()).pvalue > 1e-4
    lowest_bits = (u * 2.0**52).astype(np.uint64) & np.uint64(1)
    assert abs(lowest_bits.mean() - 0.5) < 5 * 0.5 / np.sqrt(COUNT)


def test_normal_numbers_are_normal():
    z = _numbers(1, "normal")
    assert stats.kstest(z, "norm").pvalue > 1e-4
    assert abs(np.corrcoef(z[:-1], z[1:])[0, 1]) < 5 / np.sqrt(COUNT)
    assert abs((z > 3).mean() - stats.norm.sf(3)) < 5 * np.sqrt(stats.norm.sf(3) / COUNT)


def test_streams_of_different_keys_are_unrelated():
    one, other = _numbers(2, "normal"), _numbers(3, "normal")
    assert abs(np.corrcoef(one, other)[0, 1]) < 5 / np.sqrt(COUNT)


def test_an_index_always_gives_the_same_number():
    stream = Stream.of(jr.key(4))
    np.testing.assert_array_equal(stream.uniform(jnp.arange(10))[7], stream.uniform(jnp.asarray(7)))


def test_words_of_32_bits_serve_as_well():
    u = np.asarray(Stream(jr.key_data(jr.key(5))).uniform(jnp.arange(10_000)))
    assert stats.kstest(u, "uniform").pvalue > 1e-4
