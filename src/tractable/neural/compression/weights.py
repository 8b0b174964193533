r"""Fewer weights and fewer values of them: pruning by magnitude, sharing by k-means, both trainable.

Prune.       Of each matrix the share `kept` of the largest $|w|$ stays; the others are zero, in training too.
Share.       The weights of a matrix that are not zero take one of $k$ values, the centres of their clusters:
             codes $c_{ij}$ and a codebook $m$, $w_{ij} = m_{c_{ij}}$. Training moves the values, with the
             gradient $\partial\ell/\partial m_c = \sum_{c_{ij} = c}\partial\ell/\partial w_{ij}$.
Cost.        A sort of each matrix; k-means on a line.
References.  Han, Mao and Dally (2016), "Deep compression".
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check, check_count
from tractable.core.keys import takes_key
from tractable.core.types import Array, Bool, Float, Int, Key
from tractable.latent.kmeans.model import KMeans

__all__ = ["Compact", "MaskedArray", "SharedArray", "prune_weights", "share_weights"]


class MaskedArray(eqx.Module):
    """An array of which only the entries under `mask` count; the others are zero."""

    values: Float[Array, "..."]
    mask: Bool[Array, "..."]

    @property
    def dense(self) -> Array:
        return jnp.where(self.mask, self.values, 0.0)


class SharedArray(eqx.Module):
    """An array with few values: `codes` count into `codebook` from 1; the code 0 is the number zero."""

    codes: Int[Array, "..."]
    codebook: Float[Array, " values"]

    @property
    def dense(self) -> Array:
        zero = jnp.zeros(1, self.codebook.dtype)
        return jnp.concatenate([zero, self.codebook])[self.codes]


class Compact(eqx.Module):
    """A network some of whose arrays are masked or shared; called, trained and saved as the network itself.

    >>> import jax.random as jr
    >>> network = eqx.nn.Linear(4, 2, key=jr.key(0))
    >>> small = prune_weights(network, kept=0.5)
    >>> int((small.dense.weight != 0).sum()), small(jnp.ones(4)).shape
    (4, (2,))
    """

    network: Any

    @property
    def dense(self) -> Any:
        """The plain network, with all its zeros."""
        return jax.tree.map(
            lambda leaf: leaf.dense if is_compact(leaf) else leaf, self.network, is_leaf=is_compact
        )

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self.dense(*args, **options)


def prune_weights(network: Any, kept: float) -> Compact:
    """The network with the share `kept` of the weights of each matrix, the largest; vectors stay whole."""
    check(0 < kept <= 1, "kept", "a share above 0 and at most 1", kept)
    plain = _plain(network)

    def prune(leaf: Any) -> Any:
        if not _is_matrix(leaf):
            return leaf
        sizes = np.abs(np.asarray(leaf)).ravel()
        count = max(1, round(kept * sizes.size))
        mask = np.zeros(sizes.size, bool)
        mask[np.argsort(-sizes, kind="stable")[:count]] = True
        return MaskedArray(leaf, jnp.asarray(mask.reshape(leaf.shape)))

    found = Compact(jax.tree.map(prune, plain))
    some = any(isinstance(leaf, MaskedArray) for leaf in _leaves(found.network))
    check(some, "network", "one with at least one matrix of weights", type(plain).__name__)
    return found


@takes_key
def share_weights(network: Any, num_values: int, *, key: Key) -> Compact:
    """The network with at most `num_values` values, besides zero, in each of its matrices.

    Clusters begin at values spread evenly between the least and the largest weight, which keeps the few
    large ones apart.
    """
    count, dense = check_count("num_values", num_values), _plain(network)

    def share(leaf: Any) -> Any:
        if not _is_matrix(leaf):
            return leaf
        values = np.asarray(leaf, float)
        used = values[values != 0]
        check(
            used.size > 0, "network", "one without matrices of zeros only", f"a matrix of shape {leaf.shape}"
        )
        centres = np.unique(used)
        if len(centres) > count:
            start = np.linspace(centres[0], centres[-1], count)[:, None]
            fit = KMeans.fit(used[:, None], key=key, start=start, tol=0.0, progress=False)
            centres = np.asarray(fit.model.centres)[:, 0]
        codes = np.zeros(values.shape, np.int32)
        codes[values != 0] = 1 + np.abs(used[:, None] - centres[None]).argmin(1)
        return SharedArray(jnp.asarray(codes), jnp.asarray(centres, leaf.dtype))

    return Compact(jax.tree.map(share, dense))


def is_compact(leaf: Any) -> bool:
    """Whether it stands for an array of a network."""
    return isinstance(leaf, MaskedArray | SharedArray)


def _plain(network: Any) -> Any:
    return network.dense if isinstance(network, Compact) else network


def _is_matrix(leaf: Any) -> bool:
    return eqx.is_inexact_array(leaf) and leaf.ndim >= 2


def _leaves(network: Any) -> list:
    return jax.tree.leaves(network, is_leaf=is_compact)
