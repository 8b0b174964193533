r"""Paths through a chain: the best one, the best few, and exact draws.

Best.        $v_{k+1}(x) = \max_{x_k} [v_k(x_k) + \log\psi_k(x_k, x)] + \log\phi_{k+1}(x)$ with pointers to
             where the maximum came from; with the `num` best per state, the `num` best paths.
Draws.       $x_n \sim p(x_n)$, then $x_k \sim p(x_k \mid x_{k+1}) \propto \phi_k\,\mu_\alpha\,\psi_k$.
Cost.        $O(nK^2)$ per path; works under `jit` and `vmap`.
References.  Viterbi (1967); Seshadri and Sundberg (1994), list Viterbi; Scott (2002), backward sampling.
"""

from functools import partial

import jax
import jax.numpy as jnp
import jax.random as jr

from tractable.core.checks import check_count
from tractable.core.keys import takes_key
from tractable.core.module import Module
from tractable.core.types import Array, Float, Int, Key
from tractable.messages.chain import Chain, forward_messages, node_potentials, pair_potential, rescaled

__all__ = ["BestPaths", "best_path", "best_paths", "paths_from_noise", "sample_paths"]


class BestPaths(Module):
    """Paths of largest potential in falling order (one path: no leading axis), and their log-values.

    Where fewer paths are possible than were asked for, the log-value is -inf and the path is -1 throughout.
    """

    paths: Int[Array, "..."]
    log_values: Float[Array, "..."]


@jax.jit
def best_path(chain: Chain) -> BestPaths:
    """The path of largest potential (Viterbi); of equal ones, that with the smaller states from the end."""
    best = _best_paths(chain, 1)
    return BestPaths(best.paths[0], best.log_values[0])


def best_paths(chain: Chain, num_paths: int) -> BestPaths:
    """The paths of largest potential, in falling order: $O(nK^2)$ for each."""
    return _best_paths(chain, check_count("num_paths", num_paths))


@partial(jax.jit, static_argnums=1)
def _best_paths(chain: Chain, num: int) -> BestPaths:
    n, size = chain.shape
    nodes = node_potentials(chain)
    first = jnp.full((size, num), -jnp.inf, nodes.dtype).at[:, 0].set(nodes[0])

    def step(scores, inputs):
        k, node = inputs
        # for each next state, all K * num ways to come: the best `num` and where they came from
        ways = (scores[:, :, None] + pair_potential(chain, k)[:, None, :]).reshape((size * num, size)).T
        best, pointers = _largest(ways, num)
        best, scale = rescaled(best + node[:, None])
        return best, (pointers, scale)

    first, scale = rescaled(first)
    inputs = (jnp.arange(n - 1), nodes[1:])
    last, (pointers, scales) = jax.lax.scan(step, first, inputs)
    best, ends = _largest(last.reshape(-1), num)

    def back(slot, pointers):
        before = pointers[slot // num, slot % num]
        return before, before

    def trace(end):
        _, slots = jax.lax.scan(back, end, pointers, reverse=True)
        return jnp.concatenate([slots, end[None]]) // num

    paths = jax.vmap(trace)(ends)
    return BestPaths(jnp.where((best > -jnp.inf)[:, None], paths, -1), best + scale + scales.sum())


@takes_key
def sample_paths(chain: Chain, key: Key, num_paths: int = 1) -> Int[Array, "paths n"]:
    """Exact independent paths: messages forward, draws backward; -1 throughout if no path is possible."""
    return _sample_paths(chain, key, check_count("num_paths", num_paths))


@partial(jax.jit, static_argnums=2)
def _sample_paths(chain: Chain, key: Key, num: int) -> Array:
    gumbels = jax.vmap(lambda key: jr.gumbel(key, chain.shape, chain.log_nodes.dtype))(jr.split(key, num))
    return paths_from_noise(chain, gumbels)


def paths_from_noise(chain: Chain, gumbels: Float[Array, "paths n k"]) -> Int[Array, "paths n"]:
    """`sample_paths` as a function of its noise: standard Gumbel numbers for each path and log-potential."""
    (forward, _), nodes = forward_messages(chain), node_potentials(chain)
    beliefs = nodes + forward

    def draw(noise):
        last = (beliefs[-1] + noise[-1]).argmax()

        def step(state, inputs):
            k, belief, gumbel = inputs
            state = (belief + pair_potential(chain, k)[:, state] + gumbel).argmax()
            return state, state

        inputs = (jnp.arange(chain.shape[0] - 1), beliefs[:-1], noise[:-1])
        return jnp.append(jax.lax.scan(step, last, inputs, reverse=True)[1], last)

    return jnp.where(jnp.isneginf(beliefs[-1].max()), -1, jax.vmap(draw)(gumbels))


def _largest(values: Array, num: int) -> tuple[Array, Array]:
    """The `num` largest entries along the last axis and where they are, the first of equal ones first."""
    if num == 1:  # five times faster than sorting
        return values.max(-1, keepdims=True), values.argmax(-1, keepdims=True)
    best, where = jax.lax.top_k(values, num)
    return best, where
