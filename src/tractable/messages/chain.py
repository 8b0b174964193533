r"""Messages on a chain: totals and marginals in linear time, step by step or in parallel.

Model.       $p(x_1 \dots x_n) \propto \prod_k \phi_k(x_k) \prod_k \psi_k(x_k, x_{k+1})$ over $K$ states.
Messages.    $\mu_\alpha(x_{k+1}) = \sum_{x_k} \psi_k\,\phi_k\,\mu_\alpha(x_k)$ from the left,
             $\mu_\beta(x_k) = \sum_{x_{k+1}} \psi_k\,\phi_{k+1}\,\mu_\beta(x_{k+1})$ from the right, one at
             the ends; $p(x_k) = \phi_k\,\mu_\alpha\,\mu_\beta / Z$ with the same $Z$ at every $k$.
Scale.       Messages are normalised at each step and their scales kept apart: marginals keep all digits at
             any length, and nothing underflows.
Cost.        $O(nK^2)$ by `scan` and by `loop` (`chain_rows`: scaled, on the host, many times faster on long
             chains); $O(nK^3)$ work in $O(\log n)$ rounds by `parallel` (`prefixes`), which pays on many
             cores or an accelerator with few states.
References.  Rabiner (1989); Sarkka and Garcia-Fernandez (2021), temporal parallelization of smoothers.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import (
    as_float,
    check,
    check_count,
    check_entries,
    check_option,
    has_values,
    is_concrete,
)
from tractable.core.module import Module
from tractable.core.types import Array, Float, Int, Scalar
from tractable.messages.prefixes import prefixes
from tractable.messages.semirings import Semiring, SumProduct, as_semiring

__all__ = [
    "Chain", "ChainBeliefs", "contract_chain", "forward_backward", "forward_messages", "node_potentials",
    "pair_potential", "rescaled",
]  # fmt: skip

METHODS = ("auto", "scan", "parallel", "loop")
_LONG = 200_000  # log-potentials from which on the loop on the host repays its compiler


class Chain(Module):
    r"""The log-potentials of a chain: `log_nodes[k]` $= \log\phi_k$, `log_pairs` $= \log\psi$.

    `log_pairs` is one matrix for all steps, or one per step, with the earlier state along its rows. With
    `length`, only the first `length` positions count and the rest is padding: sequences of different lengths
    share one compiled program. Padding repeats the last position in every answer.

    >>> f1, f2 = jnp.log(jnp.array([[0.3, 0.2], [0.1, 0.4]])), jnp.log(jnp.array([[0.1, 0.5], [0.2, 0.2]]))
    >>> chain = Chain(jnp.zeros((3, 2)), jnp.stack([f1, f2]))
    >>> round(float(forward_backward(chain).log_total), 6)
    -0.733969
    """

    log_nodes: Float[Array, "n k"]
    log_pairs: Float[Array, "..."]
    length: Int[Array, ""] | None = None

    def __init__(self, log_nodes: Any, log_pairs: Any, length: Any = None):
        self.log_nodes = as_float("log_nodes", log_nodes)
        self.log_pairs = as_float("log_pairs", log_pairs)
        fine = self.log_nodes.ndim == 2 and min(self.log_nodes.shape) > 0
        check(fine, "log_nodes", "of shape (positions, states), neither zero", f"{self.log_nodes.shape}")
        n, k = self.log_nodes.shape
        shapes = (k, k), (n - 1, k, k)
        check(
            self.log_pairs.shape in shapes,
            "log_pairs",
            f"of shape {shapes[0]} or {shapes[1]}",
            f"shape {self.log_pairs.shape}",
        )
        for name, values in (("log_nodes", self.log_nodes), ("log_pairs", self.log_pairs)):
            check_entries(name, values, lambda v: v < np.inf, "finite, or -inf for an impossible state")
        if is_concrete(length) and length is not None:
            check_count("length", int(length), 1, n)
        self.length = None if length is None else jnp.asarray(length)

    @property
    def shape(self) -> tuple[int, int]:
        """The number of positions and of states."""
        n, k = self.log_nodes.shape
        return n, k


class ChainBeliefs(Module):
    """Normalised log-messages from both sides with their log-scales, and what follows from them."""

    chain: Chain
    forward: Float[Array, "n k"]
    backward: Float[Array, "n k"]
    forward_scales: Float[Array, " n"]
    backward_scales: Float[Array, " n"]

    @property
    @jax.jit
    def log_totals(self) -> Float[Array, " n"]:
        r"""$\log Z_k$ from each position: all equal; $-\infty$ if no path is possible."""
        local = _log_sum(node_potentials(self.chain) + self.forward + self.backward, 1)
        return local + self.forward_scales + self.backward_scales

    @property
    @jax.jit
    def log_total(self) -> Scalar:
        r"""$\log Z$."""
        last = node_potentials(self.chain)[-1] + self.forward[-1]
        return _log_sum(last, 0) + self.forward_scales[-1]

    @property
    @jax.jit
    def marginals(self) -> Float[Array, "n k"]:
        r"""$p(x_k)$; NaN if no path is possible."""
        return _probabilities(node_potentials(self.chain) + self.forward + self.backward, (1,))

    @property
    @jax.jit
    def filtered(self) -> Float[Array, "n k"]:
        r"""$p(x_k)$ as far as the potentials up to $k$ tell."""
        return _probabilities(node_potentials(self.chain) + self.forward, (1,))

    @property
    @jax.jit
    def pair_marginals(self) -> Float[Array, "m k k"]:
        r"""$p(x_k, x_{k+1})$: $O(nK^2)$ memory."""
        nodes, n = node_potentials(self.chain), self.chain.shape[0]
        left, right = (nodes + self.forward)[:-1], (nodes + self.backward)[1:]
        steps = jax.vmap(partial(pair_potential, self.chain))(jnp.arange(n - 1))
        return _probabilities(left[:, :, None] + steps + right[:, None, :], (1, 2))

    def __repr__(self) -> str:
        n, k = self.forward.shape[-2:]
        single = has_values(self) and self.forward.ndim == 2
        total = f", log total {float(self.log_total):.8g}" if single else ""
        return f"ChainBeliefs({n} positions, {k} states: exact{total})"


def forward_backward(chain: Chain, *, method: str = "auto") -> ChainBeliefs:
    """Both passes: `scan` step by step, `parallel` by prefix products of transition matrices, `loop` by a
    scaled loop on the host (log space where that would lose digits), which "auto" takes for long chains that
    have values."""
    check_option("method", method, METHODS)
    host = has_values(chain) and chain.log_nodes.ndim == 2
    check(host or method != "loop", "method", "'scan' or 'parallel' under a trace", "'loop'")
    if method == "loop" or (method == "auto" and host and chain.log_nodes.size >= _LONG):
        from tractable.messages.chain_rows import log_messages

        found = log_messages(chain)
        if found is not None:
            return ChainBeliefs(chain, *(jnp.asarray(part) for part in found))
    return _forward_backward(chain, "scan" if method in ("auto", "loop") else method)


@partial(jax.jit, static_argnums=1)
def _forward_backward(chain: Chain, method: str) -> ChainBeliefs:
    passes = _passes_by_scan if method == "scan" else _passes_in_parallel
    (forward, forward_scales), (backward, backward_scales) = passes(chain)
    return ChainBeliefs(chain, forward, backward, forward_scales, backward_scales)


def contract_chain(chain: Chain, semiring: str | Semiring = "sum_product") -> Array:
    """The total of the chain under any semiring: its entropy, its number of paths, its k best values."""
    return _contract(chain, as_semiring(semiring))


@partial(jax.jit, static_argnums=1)
def _contract(chain: Chain, semiring: Semiring) -> Array:
    nodes = semiring.lift(node_potentials(chain))

    def step(message, inputs):
        k, node = inputs
        pair = semiring.lift(pair_potential(chain, k))
        arrived = semiring.total(semiring.times(message[:, None], pair), (0,))
        return semiring.times(arrived, node), None

    last, _ = jax.lax.scan(step, nodes[0], (jnp.arange(chain.shape[0] - 1), nodes[1:]))
    return semiring.total(last, (0,))


def node_potentials(chain: Chain) -> Array:
    """The log-potentials of positions; padding says nothing."""
    if chain.length is None:
        return chain.log_nodes
    inside = jnp.arange(chain.shape[0]) < chain.length
    return jnp.where(inside[:, None], chain.log_nodes, 0.0)


def pair_potential(chain: Chain, k: Array) -> Array:
    """The log-potential between positions `k` and `k + 1`; into padding, the state stays."""
    pair = chain.log_pairs if chain.log_pairs.ndim == 2 else chain.log_pairs[k]
    if chain.length is None:
        return pair
    stay = jnp.where(jnp.eye(chain.shape[1], dtype=bool), 0.0, -jnp.inf).astype(pair.dtype)
    return jnp.where(k + 1 < chain.length, pair, stay)


def _log_sum(a: Array, axes: int | tuple[int, ...]) -> Array:
    return SumProduct().total(a, (axes,) if isinstance(axes, int) else axes)


def rescaled(log_values: Array) -> tuple[Array, Array]:
    """Log-values with their largest at zero, and the scale taken out; all impossible: -inf, scale zero."""
    top = jax.lax.stop_gradient(log_values.max())
    scale = jnp.where(top > -jnp.inf, top, 0.0)
    return log_values - scale, scale


def _probabilities(log_values: Array, axes: tuple[int, ...]) -> Array:
    total = jnp.expand_dims(_log_sum(log_values, axes), axes)
    possible = total > -jnp.inf
    return jnp.where(possible, jnp.exp(log_values - jnp.where(possible, total, 0.0)), jnp.nan)


def forward_messages(chain: Chain) -> tuple[Array, Array]:
    nodes = node_potentials(chain)

    def step(message, inputs):
        k, node = inputs
        sent, scale = rescaled(_log_sum((message + node)[:, None] + pair_potential(chain, k), 0))
        return sent, (sent, scale)

    start = jnp.zeros(chain.shape[1], nodes.dtype)
    _, (sent, scales) = jax.lax.scan(step, start, (jnp.arange(chain.shape[0] - 1), nodes[:-1]))
    return jnp.concatenate([start[None], sent]), jnp.cumsum(jnp.append(jnp.zeros(1, scales.dtype), scales))


def _passes_by_scan(chain: Chain) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    nodes = node_potentials(chain)

    def step(message, inputs):
        k, node = inputs
        sent, scale = rescaled(_log_sum(pair_potential(chain, k) + (message + node)[None, :], 1))
        return sent, (sent, scale)

    start = jnp.zeros(chain.shape[1], nodes.dtype)
    inputs = (jnp.arange(chain.shape[0] - 1), nodes[1:])
    _, (sent, scales) = jax.lax.scan(step, start, inputs, reverse=True)
    backward = jnp.concatenate([sent, start[None]])
    scales = jnp.append(jnp.cumsum(scales[::-1])[::-1], jnp.zeros(1, scales.dtype))
    return forward_messages(chain), (backward, scales)


def _passes_in_parallel(chain: Chain) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Prefix and suffix products of the step matrices, in the log semiring, with scales apart."""
    nodes, n = node_potentials(chain), chain.shape[0]
    steps = jax.vmap(partial(pair_potential, chain))(jnp.arange(n - 1))
    if n == 1:
        return _passes_by_scan(chain)
    zeros = jnp.zeros(n - 1, nodes.dtype)
    prefix, forward_scales = prefixes(_compose, (nodes[:-1, :, None] + steps, zeros))
    suffix, backward_scales = prefixes(
        lambda a, b: _compose(b, a), (steps + nodes[1:, None, :], zeros), reverse=True
    )
    start, none = jnp.zeros((1, chain.shape[1]), nodes.dtype), jnp.zeros(1, nodes.dtype)
    forward, more = jax.vmap(rescaled)(_log_sum(prefix, 1))
    backward, extra = jax.vmap(rescaled)(_log_sum(suffix, 2))
    left = jnp.concatenate([start, forward]), jnp.append(none, forward_scales + more)
    return left, (jnp.concatenate([backward, start]), jnp.append(backward_scales + extra, none))


def _compose(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
    """The product of log matrices: sums of exponentials for each entry, so nothing underflows."""
    (left, left_scale), (right, right_scale) = a, b
    scaled, scale = rescaled(_log_sum(left[:, :, None] + right[None], 1))
    return scaled, left_scale + right_scale + scale
