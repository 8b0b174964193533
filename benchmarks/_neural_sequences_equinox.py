"""The networks of `_neural_sequences` in plain Equinox, float32."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

F = jnp.float32


class Recurrent(eqx.Module):
    """An LSTM over one sequence and a linear head on its last state."""

    cell: eqx.nn.LSTMCell
    head: eqx.nn.Linear

    def __init__(self, inputs, hidden, key):
        keys = jr.split(key)
        self.cell = eqx.nn.LSTMCell(inputs, hidden, dtype=F, key=keys[0])
        self.head = eqx.nn.Linear(hidden, 1, dtype=F, key=keys[1])

    def __call__(self, xs):
        zero = jnp.zeros(self.cell.hidden_size, F)
        (h, _), _ = jax.lax.scan(lambda state, x: (self.cell(x, state), None), (zero, zero), xs)
        return self.head(h)


class Block(eqx.Module):
    """Attention and a feed-forward layer, normalised before."""

    norms: list
    attention: eqx.nn.MultiheadAttention
    into: eqx.nn.Linear
    back: eqx.nn.Linear

    def __init__(self, dim, heads, hidden, key):
        keys = jr.split(key, 3)
        self.norms = [eqx.nn.LayerNorm(dim, dtype=F) for _ in range(2)]
        self.attention = eqx.nn.MultiheadAttention(heads, dim, dtype=F, key=keys[0])
        self.into = eqx.nn.Linear(dim, hidden, dtype=F, key=keys[1])
        self.back = eqx.nn.Linear(hidden, dim, dtype=F, key=keys[2])

    def __call__(self, x):
        h = jax.vmap(self.norms[0])(x)
        x = x + self.attention(h, h, h, mask=jnp.tril(jnp.ones((len(x), len(x)), bool)))
        h = jax.vmap(self.norms[1])(x)
        return x + jax.vmap(lambda row: self.back(jax.nn.gelu(self.into(row))))(h)


class Language(eqx.Module):
    """A causal language model with learned places."""

    embedding: eqx.nn.Embedding
    places: jax.Array
    blocks: list
    norm: eqx.nn.LayerNorm
    head: eqx.nn.Linear

    def __init__(self, vocabulary, steps, dim, heads, hidden, blocks, key):
        keys = jr.split(key, blocks + 3)
        self.embedding = eqx.nn.Embedding(vocabulary, dim, dtype=F, key=keys[0])
        self.places = 0.02 * jr.normal(keys[1], (steps, dim), F)
        self.blocks = [Block(dim, heads, hidden, key) for key in keys[3:]]
        self.norm = eqx.nn.LayerNorm(dim, dtype=F)
        self.head = eqx.nn.Linear(dim, vocabulary, dtype=F, key=keys[2])

    def __call__(self, tokens):
        x = jax.vmap(self.embedding)(tokens) + self.places
        for block in self.blocks:
            x = block(x)
        return jax.vmap(self.head)(jax.vmap(self.norm)(x))
