r"""Determinantal point processes of fixed size.

Process.     $P(Y) = \det(L_Y) / e_k(\lambda)$ over the subsets of exactly $k$ items; $\lambda$ are the
             eigenvalues of $L$.
Marginals.   $P(i \in Y) = \sum_n v_{in}^2\, \lambda_n e_{k-1}(\lambda_{\setminus n}) / e_k(\lambda)$ with the
             eigenvectors $v_n$.
Cost.        $O(N^3)$ for the spectrum, $O(Nk)$ for $e_k$ in log space, $O(N k^2)$ a draw.
References.  Kulesza and Taskar (2011), "k-DPPs: fixed-size determinantal point processes".
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import as_float, check, check_count
from tractable.core.iterate import Run
from tractable.core.keys import takes_key
from tractable.core.module import field
from tractable.core.numerics import xlogy
from tractable.core.support import Support, integer_range, psd
from tractable.core.types import Array, Float, Int, Key, Scalar, Shape
from tractable.distributions.base import Distribution
from tractable.distributions.dpp_determinants import (
    greedy_path,
    log_elementary_symmetric,
    log_leave_one_out,
    log_set_weights,
    log_size_table,
    nonzero_spectrum,
    subset_masks,
)
from tractable.distributions.dpp_kernels import Matrix, checked_kernel, rounding_of
from tractable.distributions.dpp_sampling import fixed_size_draws, subset_chain
from tractable.distributions.gaussian_parts import one_unit

__all__ = ["KDPP"]


class KDPP(Distribution):
    r"""Subsets of exactly `size` of $N$ items, as 0/1 vectors, with $P(Y) \propto \det(L_Y)$.

    >>> pairs = KDPP([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0]], 2)
    >>> pairs.prob(jnp.array([[1, 1, 0], [1, 0, 1], [0, 1, 1]])).round(12).tolist()
    [0.5, 0.0, 0.5]
    """

    L: Float[Array, "... n n"] = field(metadata={"support": psd, "rank": 2})
    size: int = field(static=True)

    def __init__(self, L: Matrix, size: int):
        self.L, values = checked_kernel("L", np.inf, L)
        self.size = check_count("size", size, 0, self.L.shape[-1])
        if values is not None:
            nonzero = values > rounding_of(self.L) * np.abs(values).max(-1, keepdims=True)
            rank = int(nonzero.sum(-1).min())
            fix = "Fewer features than `size`, or repeated items, leave every such subset without volume."
            check(self.size <= rank, "size", f"at most the rank of `L`, {rank}", self.size, fix)

    @classmethod
    def from_features(cls, features: Matrix, size: int) -> "KDPP":
        r"""$L = F F^\top$ with one item to a row of $F$."""
        features = as_float("features", features)
        check(features.ndim >= 2, "features", "a matrix with one item to a row", f"shape {features.shape}")
        return cls(features @ jnp.swapaxes(features, -1, -2), size)

    @property
    def unit_shape(self) -> Shape:
        return (self.L.shape[-1],)

    @property
    def support(self) -> Support:
        return integer_range(0, 1)

    @property
    def log_normaliser(self) -> Array:
        r"""$\log e_k(\lambda) = \log \sum_{|Y| = k} \det(L_Y)$."""
        return jnp.vectorize(partial(_log_normaliser, size=self.size), signature="(n,n)->()")(self.L)

    def _log_prob(self, x):
        rows = jnp.where(x[:, None] > 0, self.L, jnp.eye(self.L.shape[0], dtype=self.L.dtype))
        sign, log = jnp.linalg.slogdet(rows)
        impossible = (sign <= 0) | (x.sum() != self.size)
        return jnp.where(impossible, -jnp.inf, log - _log_normaliser(self.L, self.size))

    def _sample(self, key, n):
        values, vectors = nonzero_spectrum(self.L)
        table = log_size_table(jnp.log(values), jnp.zeros_like(values), self.size)
        return fixed_size_draws(key, values, vectors, table, n)

    def _mean(self):
        values, vectors = nonzero_spectrum(self.L)
        if self.size == 0:
            return jnp.zeros_like(values)
        log_kept = log_leave_one_out(values, self.size) - log_elementary_symmetric(values, self.size)
        return vectors**2 @ (values * jnp.exp(log_kept))

    def _variance(self):
        mean = self._mean()
        return mean * (1 - mean)

    def _entropy(self):
        probs = jnp.exp(_log_probs(self.L, self.size))
        return -xlogy(probs, probs).sum()

    def map_greedy(self) -> Int[Array, " n"]:
        """The items that multiply the determinant most, one at a time; not always the likeliest subset."""
        one_unit(self)
        return greedy_path(self.L, self.size).mask.astype(jnp.result_type(int))

    def map_exact(self) -> Int[Array, " n"]:
        """The likeliest subset, by enumeration (at most 20 items)."""
        one_unit(self)
        return subset_masks(self.L.shape[0])[jnp.argmax(_log_probs(self.L, self.size))]

    @takes_key
    def chain(self, key: Key, num_draws: int, *, thin: int | None = None) -> Run:
        """Swaps from the greedy subset on: masks in `.trace.masks`, `thin` steps apart (default: N)."""
        one_unit(self)
        steps = self.L.shape[0] if thin is None else check_count("thin", thin)
        start = self.map_greedy() > 0
        return subset_chain(key, self.L, start, check_count("num_draws", num_draws), steps, 1.0)


@partial(jax.jit, static_argnames=("size",))
def _log_normaliser(L: Array, size: int) -> Scalar:
    return log_elementary_symmetric(nonzero_spectrum(L)[0], size)


@partial(jax.jit, static_argnames=("size",))
def _log_probs(L: Array, size: int) -> Array:
    masks = subset_masks(L.shape[0])
    return jnp.where(masks.sum(1) == size, log_set_weights(L), -jnp.inf) - _log_normaliser(L, size)
