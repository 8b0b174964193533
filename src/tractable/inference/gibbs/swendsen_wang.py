r"""Swendsen-Wang: labels of a Potts model, redrawn a cluster at a time.

Model.       $p(x) \propto \exp\{\sum_{(a,b)} J_{ab} 1[x_a = x_b] + \sum_i h_i(x_i)\}$ with $J \ge 0$.
Extension.   $e^{J 1[x_a = x_b]} = 1 + (e^J - 1) 1[x_a = x_b]$: an auxiliary bond on each edge chooses one
             of the two terms. Given the labels, an edge between equal labels is bonded with probability
             $1 - e^{-J}$; given the bonds, each connected cluster draws one label by $\sum_i h_i$.
Correction.  For another target the move is a proposal, reversible for the Potts model, and is accepted by the
             ratio of what the target has beside it; for the Potts model itself that ratio is one.
Cost.        One density per step, and rounds of neighbour minima, about the logarithm of a cluster's length.
References.  Swendsen and Wang (1987); Edwards and Sokal (1988); Barbu and Zhu (2005).
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import as_float, check, check_count, check_entries, check_finite
from tractable.core.types import Array, ArrayLike, Bool, Float, Int, Key, PyTree, Scalar
from tractable.inference.samplers.metropolis import decide, valued_state
from tractable.inference.samplers.sampler import ChainState, Info, LogDensity, Sampler

__all__ = ["SwendsenWang", "grid_edges"]


class SwendsenWang(Sampler):
    r"""Cluster moves for a Potts model on `edges` (pairs of sites) with couplings $J \ge 0$.

    `coupling` is one number or one per edge; `weights` are the $h_i(k)$, sites by states, or zero. An Ising
    model of spins $\pm 1$ with $\beta s_a s_b$ on its edges has $J = 2\beta$. Positions are whole numbers
    from 0 to `num_states - 1`, one per site.
    """

    space: ClassVar[str] = "native"
    edges: Int[Array, "edges 2"]
    coupling: Float[Array, " edges"]
    weights: Float[Array, "sites states"]

    def __init__(
        self,
        edges: ArrayLike,
        coupling: ArrayLike,
        num_sites: int,
        num_states: int = 2,
        weights: ArrayLike | None = None,
    ):
        shape = check_count("num_sites", num_sites), check_count("num_states", num_states, 2)
        pairs = _as_edges(edges, num_sites)
        h = jnp.zeros(shape) if weights is None else as_float("weights", weights)
        check(h.shape == shape, "weights", f"of shape {shape}", f"shape {h.shape}")
        self.edges, self.weights = jnp.asarray(pairs), h
        self.coupling = _as_coupling(coupling, len(pairs))

    def log_density(self, labels: Array) -> Scalar:
        """The log-density of the Potts model, up to its constant."""
        same = labels[self.edges[:, 0]] == labels[self.edges[:, 1]]
        own = jnp.take_along_axis(self.weights, labels[:, None], 1)
        return jnp.where(same, self.coupling, 0.0).sum() + own.sum()

    def init(self, log_density: LogDensity, position: PyTree, key: Key) -> ChainState:
        """The state at `position`; the key is not used."""
        labels = jnp.asarray(position)
        whole = jnp.issubdtype(labels.dtype, jnp.integer) and labels.shape == self.weights.shape[:1]
        must = f"whole numbers, one for each of {self.weights.shape[0]} sites"
        check(whole, "position", must, f"{labels.dtype} of shape {labels.shape}")
        return valued_state(log_density, labels)

    def step(self, log_density: LogDensity, state: Any, key: Key) -> tuple[Any, Info]:
        """Bond, find the clusters, and draw a label for each."""
        key_bonds, key_labels, key_accept = jr.split(key, 3)
        x = state.position
        same = x[self.edges[:, 0]] == x[self.edges[:, 1]]
        bonded = same & (jr.exponential(key_bonds, same.shape, self.coupling.dtype) < self.coupling)
        cluster = _clusters(self.edges, bonded, x.size)
        logits = jnp.zeros_like(self.weights).at[cluster].add(self.weights)
        proposed = jr.categorical(key_labels, logits).astype(x.dtype)[cluster]
        correction = self.log_density(x) - self.log_density(proposed)
        return decide(log_density, state, proposed, correction, key_accept)


def grid_edges(num_rows: int, num_columns: int) -> np.ndarray:
    """The edges between neighbours of a grid whose sites are numbered row by row.

    >>> grid_edges(1, 3).tolist()
    [[0, 1], [1, 2]]
    """
    sites = np.arange(check_count("num_rows", num_rows) * check_count("num_columns", num_columns))
    sites = sites.reshape((num_rows, num_columns))
    across = np.stack([sites[:, :-1].ravel(), sites[:, 1:].ravel()], 1)
    down = np.stack([sites[:-1].ravel(), sites[1:].ravel()], 1)
    return np.concatenate([across, down])


def _as_edges(edges: ArrayLike, num_sites: int) -> np.ndarray:
    pairs = np.asarray(edges, int).reshape((-1, 2)) if np.size(edges) == 0 else np.asarray(edges)
    whole = pairs.ndim == 2 and pairs.shape[1] == 2 and np.issubdtype(pairs.dtype, np.integer)
    check(whole, "edges", "pairs of sites, shape (edges, 2)", f"{pairs.dtype} of shape {pairs.shape}")
    must = f"pairs of sites from 0 to {num_sites - 1}"
    check_entries("edges", pairs, lambda v: ((v >= 0) & (v < num_sites)).all(1), must)
    return pairs


def _as_coupling(coupling: ArrayLike, num_edges: int) -> Array:
    strength = as_float("coupling", coupling)
    ok = strength.shape in ((), (num_edges,))
    check(ok, "coupling", f"one number, or {num_edges}", f"shape {strength.shape}")
    check_finite("coupling", strength)
    fix = "Bonds join equal labels: labels that repel each other need another sampler."
    check_entries("coupling", strength, lambda v: v >= 0, "zero or positive", fix)
    return strength * jnp.ones(num_edges, strength.dtype)


def _clusters(edges: Int[Array, "edges 2"], bonded: Bool[Array, " edges"], num_sites: int) -> Array:
    """For each site the least site of its cluster: minima over bonds, and jumps to what those have found."""
    first, second = edges[:, 0], edges[:, 1]

    def spread(carry):
        labels, _ = carry
        least = jnp.minimum(labels[first], labels[second])
        least = jnp.where(bonded, least, num_sites)
        found = labels.at[first].min(least).at[second].min(least)
        found = found[found]
        return found, (found != labels).any()

    start = jnp.arange(num_sites), jnp.asarray(True)
    return jax.lax.while_loop(lambda carry: carry[1], spread, start)[0]
