r"""Determinantal point processes: random subsets that avoid similar items.

Marginals.   $P(A \subseteq Y) = \det(K_A)$ for $0 \preceq K \preceq I$: $P(i \in Y) = K_{ii}$,
             $\mathrm{Cov}(y_i, y_j) = -K_{ij}^2$.
Ensemble.    $P(Y) = \det(L_Y) / \det(L + I)$ for $L \succeq 0$, with $K = L(L + I)^{-1}$.
Set.         $P(Y) = |\det(K - I_{\bar Y})|$ from the marginal kernel, whether or not there is an $L$.
Cost.        $O(N^3)$ for a log-probability, a conversion, the spectrum; $2^N$ only where a docstring says so.
References.  Macchi (1975); Kulesza and Taskar (2012), "Determinantal point processes for machine learning".
"""

import math

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import as_float, check, check_count, check_entries, check_option
from tractable.core.iterate import Run
from tractable.core.keys import takes_key
from tractable.core.linalg import log_det
from tractable.core.module import field, plates
from tractable.core.numerics import xlogy
from tractable.core.support import Support, integer_range, nonnegative, psd, sphere
from tractable.core.types import Array, Float, Int, Key, Shape
from tractable.distributions.base import Distribution
from tractable.distributions.dpp_determinants import (
    exact_set_prob,
    greedy_path,
    log_set_weights,
    log_size_table,
    subset_masks,
)
from tractable.distributions.dpp_kernels import (
    Items,
    Matrix,
    block,
    checked_kernel,
    ensemble_kernel,
    given_items,
    item_indices,
    to_marginal,
)
from tractable.distributions.dpp_sampling import (
    enumerated_draws,
    sequential_draws,
    spectral_draws,
    subset_chain,
)
from tractable.distributions.gaussian_parts import one_unit

__all__ = ["DPP"]


class DPP(Distribution):
    r"""Random subsets of $N$ items, as 0/1 vectors, from the ensemble kernel `L` or the marginal kernel `K`.

    >>> pair = DPP(K=[[0.3, -0.1], [-0.1, 0.4]])
    >>> pair.prob(subset_masks(2)).round(12).tolist()
    [0.41, 0.29, 0.19, 0.11]
    """

    kernel: Float[Array, "... n n"] = field(metadata={"support": psd, "rank": 2})
    stores_marginal: bool = field(static=True)  # whether `kernel` is K rather than L

    def __init__(self, L: Matrix | None = None, *, K: Matrix | None = None):
        given = "neither" if L is None else "both"
        check((L is None) != (K is None), "L", "given, or else `K`, not both", given)
        self.stores_marginal = K is not None
        self.kernel, _ = checked_kernel("L", np.inf, L) if K is None else checked_kernel("K", 1.0, K)

    @classmethod
    def from_features(cls, features: Matrix) -> "DPP":
        r"""$L = F F^\top$, an item to a row of $F$: $\det(L_Y)$ is the squared volume that $Y$ spans."""
        features = as_float("features", features)
        check(features.ndim >= 2, "features", "a matrix with one item to a row", f"shape {features.shape}")
        return cls(features @ jnp.swapaxes(features, -1, -2))

    @classmethod
    def from_quality_diversity(cls, quality: Matrix, features: Matrix) -> "DPP":
        r"""$L_{ij} = q_i\, \phi_i^\top \phi_j\, q_j$ for `quality` $q_i \ge 0$ and unit rows $\phi_i$."""
        quality, features = as_float("quality", quality), as_float("features", features)
        items = features.shape[:-1]
        must = f"one number for each item, shape {items}"
        check(quality.shape == items, "quality", must, f"shape {quality.shape}")
        fix = "Divide each row by its norm; how good an item is belongs in `quality`."
        check_entries("features", features, sphere.contains, "rows of length 1", fix)
        check_entries("quality", quality, nonnegative.contains, nonnegative.words)
        return cls.from_features(quality[..., None] * features)

    @property
    def unit_shape(self) -> Shape:
        return (self.kernel.shape[-1],)

    @property
    def support(self) -> Support:
        return integer_range(0, 1)

    @property
    def L(self) -> Array:
        r"""$L = K(I - K)^{-1}$; an error where $K$ has an eigenvalue 1."""
        return ensemble_kernel(self.kernel) if self.stores_marginal else self.kernel

    @property
    def K(self) -> Array:
        r"""$K = L(L + I)^{-1} = I - (L + I)^{-1}$."""
        return self.kernel if self.stores_marginal else to_marginal(self.kernel)

    @property
    @jax.jit
    def spectrum(self) -> tuple[Array, Array]:
        """The eigenvalues of `K`, each the probability that its eigenvector takes part, and those."""
        values, vectors = jnp.linalg.eigh(self.kernel)
        return (values if self.stores_marginal else values / (1 + values)), vectors

    @property
    @jax.jit
    def log_normaliser(self) -> Array:
        r"""$\log\det(L + I) = -\log\det(I - K)$; infinite where $K$ has an eigenvalue 1."""
        kernel, sign = self.kernel, -1.0 if self.stores_marginal else 1.0
        identity = jnp.broadcast_to(jnp.eye(kernel.shape[-1], dtype=kernel.dtype), kernel.shape)
        return sign * jnp.linalg.slogdet(identity + sign * kernel)[1]

    def _log_prob(self, x):
        identity = jnp.eye(x.shape[0], dtype=self.kernel.dtype)
        # Inside, rows of L (of K); outside, rows of I (of I - K): det(L_Y), resp. |det(K - I_Ybar)|.
        outside = identity - self.kernel if self.stores_marginal else identity
        sign, log = jnp.linalg.slogdet(jnp.where(x[:, None] > 0, self.kernel, outside))
        log_total = 0.0 if self.stores_marginal else log_det(self.kernel + identity)
        return jnp.where(sign <= 0, -jnp.inf, log - log_total)

    def _sample(self, key, n):
        # Sequential decisions need no eigenvectors, which take as long as two draws (measured, 1000 items).
        return sequential_draws(key, self.K, n) if n <= 2 else spectral_draws(key, *self.spectrum, n)

    def _mean(self):
        return jnp.diagonal(self.K)

    def _variance(self):
        return jnp.diagonal(self.cov)

    def _entropy(self):
        probs = jnp.exp(self.set_log_probs())
        return -xlogy(probs, probs).sum()

    @takes_key
    def sample(self, key: Key, shape: Shape = (), *, method: str | None = None) -> Array:
        """Exact draws by "spectral" decomposition, "sequential" decisions or "enumeration" (N <= 20).

        Left open, the faster of the first two for that many draws.
        """
        if method is None:
            return super().sample(key, shape)
        check_option("method", method, ("spectral", "sequential", "enumeration"))
        one_unit(self)
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        n, count = math.prod(shape), self.kernel.shape[0]
        if method == "spectral":
            draws = spectral_draws(key, *self.spectrum, n)
        elif method == "sequential":
            draws = sequential_draws(key, self.K, n)
        else:
            draws = enumerated_draws(key, self.set_log_probs(), count, n)
        return draws.reshape((*shape, count))

    @takes_key
    def chain(self, key: Key, num_draws: int, *, thin: int | None = None, swap_prob: float = 0.5) -> Run:
        """A Markov chain from the empty set: masks in `.trace.masks`, `thin` steps apart (default: N)."""
        one_unit(self)
        fix = "Swaps alone never leave the empty set."
        check(0 <= swap_prob < 1, "swap_prob", "at least 0 and below 1", swap_prob, fix)
        count = self.kernel.shape[0]
        steps = count if thin is None else check_count("thin", thin)
        start = jnp.zeros(count, bool)
        return subset_chain(key, self.L, start, check_count("num_draws", num_draws), steps, swap_prob)

    def inclusion_prob(self, items: Items) -> Array:
        r"""$P(A \subseteq Y) = \det(K_A)$ for the item indices $A$; one for no items."""
        items = item_indices("items", items, self.kernel.shape[-1])
        return _inclusion_prob(self, items) if len(items) else jnp.ones(plates(self))

    def exact_set_prob(self, items: Items, *, method: str = "determinant") -> Array:
        r"""$P(Y = A)$: $|\det(K - I_{\bar A})|$, or $\sum_{B \supseteq A} (-1)^{|B| - |A|} \det(K_B)$.

        The second, "inclusion_exclusion", sums $2^{N - |A|}$ terms of both signs: it loses digits where they
        cancel.
        """
        check_option("method", method, ("determinant", "inclusion_exclusion"))
        one_unit(self)
        inside = np.zeros(self.kernel.shape[0], self.kernel.dtype)
        inside[item_indices("items", items, len(inside))] = 1
        return exact_set_prob(self.K, inside, method)

    def set_log_probs(self) -> Float[Array, " sets"]:
        """Log-probabilities of all subsets in the order of `subset_masks`: bits of the index (N <= 20)."""
        one_unit(self)
        return _set_log_probs(self)

    @property
    @jax.jit
    def pair_probs(self) -> Array:
        r"""$P(i, j \in Y) = K_{ii} K_{jj} - K_{ij}^2$; on the diagonal $P(i \in Y)$."""
        mean = jnp.diagonal(self.K, axis1=-2, axis2=-1)
        return self.cov + mean[..., :, None] * mean[..., None, :]

    @property
    @jax.jit
    def cov(self) -> Array:
        r"""The covariance of a draw: $-K_{ij}^2$ off the diagonal, $K_{ii}(1 - K_{ii})$ on it."""
        K = self.K
        return K * jnp.broadcast_to(jnp.eye(K.shape[-1], dtype=K.dtype), K.shape) - K**2

    @property
    def expected_size(self) -> Array:
        r"""$E|Y| = \mathrm{tr}\, K$."""
        return jnp.trace(self.K, axis1=-2, axis2=-1)

    @property
    def size_variance(self) -> Array:
        r"""$\mathrm{Var}|Y| = \mathrm{tr}(K - K^2)$."""
        return self.cov.sum((-1, -2))

    def size_log_probs(self) -> Float[Array, " sizes"]:
        r"""$\log P(|Y| = k)$ for $k = 0..N$; Bernoulli variables, one for each eigenvalue of $K$, add up."""
        one_unit(self)
        return _size_log_probs(self)

    def marginal(self, items: Items) -> "DPP":
        r"""The process of $Y \cap A$ on the item indices $A$, in the order given: its kernel is $K_A$."""
        items = item_indices("items", items, self.kernel.shape[-1])
        check(len(items) > 0, "items", "at least one item", "none")
        return DPP(K=block(self.K, items, items))

    def condition(self, included: Items = (), excluded: Items = ()) -> "DPP":
        r"""The process on the other items, in their order, given what $Y$ has and has not.

        Schur complements: $L_R - L_{RA} L_A^{-1} L_{AR}$ for $A$ included, the excluded rows dropped; from a
        marginal kernel $K_R - K_{RB} (K_B - I_E)^{-1} K_{BR}$ with $E$ excluded and $B = A \cup E$.
        """
        count = self.kernel.shape[-1]
        included, excluded = (
            item_indices("included", included, count),
            item_indices("excluded", excluded, count),
        )
        check(not set(included) & set(excluded), "excluded", "apart from `included`", excluded.tolist())
        fixed = np.concatenate([included, excluded])
        rest = np.setdiff1d(np.arange(count), fixed)
        check(len(rest) > 0, "included", "such that, with `excluded`, an item is left", f"all {count} items")
        if not self.stores_marginal:
            return DPP(given_items("included", self.kernel, rest, included))
        absent = jnp.diag(jnp.asarray(np.isin(np.arange(count), excluded), self.kernel.dtype))
        shifted = self.kernel - jnp.broadcast_to(absent, self.kernel.shape)
        return DPP(K=given_items("included", shifted, rest, fixed))

    def map_greedy(self, max_size: int | None = None) -> Int[Array, " n"]:
        r"""A likely subset: the item that raises $\det(L_Y)$ most, until none does or `max_size` are in."""
        one_unit(self)
        count = self.kernel.shape[0]
        size = count if max_size is None else check_count("max_size", max_size, 0, count)
        return greedy_path(self.L, size, 1.0).mask.astype(jnp.result_type(int))

    def map_exact(self) -> Int[Array, " n"]:
        """The likeliest subset, by enumeration (at most 20 items)."""
        return subset_masks(self.kernel.shape[-1])[jnp.argmax(self.set_log_probs())]


@jax.jit
def _inclusion_prob(process: DPP, items: Array) -> Array:
    return jnp.linalg.det(block(process.K, items, items))


@jax.jit
def _set_log_probs(process: DPP) -> Array:
    weights = log_set_weights(process.kernel, marginal=process.stores_marginal)
    return weights if process.stores_marginal else weights - process.log_normaliser


@jax.jit
def _size_log_probs(process: DPP) -> Array:
    # The eigenvalues were checked on construction; only their rounding can leave [0, 1].
    probs = jnp.clip(process.spectrum[0], 0.0, 1.0)
    return log_size_table(jnp.log(probs), jnp.log1p(-probs), probs.shape[0])[-1]
