r"""Random numbers that compile to almost nothing: a counter, mixed.

Identity.    $u_i = \mathrm{mix}(s + i\gamma)$ with the 64-bit finaliser of SplitMix and $\gamma$ the odd
             integer nearest $2^{64}/\varphi$; the words of a random key are the place $s$ where its stream
             begins. Normals by Box and Muller: $\sqrt{-2\log u}\,\cos 2\pi v$.
Why.         JAX's own generator unrolls into a hundred operations at every call site: a quarter of a second
             of compilation each, more than the gradient of most models. A sampler's inner loop also wants one
             number at a time, cheaply. Without 64-bit numbers the words come from JAX's generator.
Cost.        Six integer operations per word.
References.  Steele, Lea and Flood (2014), "Fast splittable pseudorandom number generators".
"""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.module import Module
from tractable.core.types import Array, Key

__all__ = ["Stream"]

_GAMMA, _FIRST, _SECOND = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


class Stream(Module):
    """Numbers by their index: the same index gives the same number, every index its own."""

    place: Array

    @staticmethod
    def of(key: Key) -> "Stream":
        """The stream that begins at the words of `key`, which must be used for nothing else."""
        words = jr.key_data(key)
        if not jax.config.read("jax_enable_x64"):
            return Stream(words)
        low, high = words[0].astype(jnp.uint64), words[1].astype(jnp.uint64)
        return Stream(low | (high << np.uint64(32)))

    def uniform(self, index: Array) -> Array:
        """Numbers in (0, 1), one per index."""
        if self.place.ndim > 0:  # 32-bit words of a key
            one = lambda i: jr.uniform(jr.fold_in(jr.wrap_key_data(self.place), i), minval=2.0**-24)  # noqa: E731
            return jax.vmap(one)(jnp.ravel(index)).reshape(jnp.shape(index))
        z = self.place + jnp.asarray(index).astype(jnp.uint64) * _GAMMA
        z = (z ^ (z >> np.uint64(30))) * _FIRST
        z = (z ^ (z >> np.uint64(27))) * _SECOND
        z = z ^ (z >> np.uint64(31))
        return (z >> np.uint64(12)).astype(jnp.float64) * 2.0**-52 + 2.0**-53

    def normal(self, index: Array) -> Array:
        """Standard normal numbers, one per index; they use the uniform numbers `2 index` and
        `2 index + 1`."""
        radius = jnp.sqrt(-2 * jnp.log(self.uniform(2 * index)))
        return radius * jnp.cos(2 * jnp.pi * self.uniform(2 * index + 1))
