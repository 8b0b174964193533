r"""Uses of determinantal point processes: mini-batches that cover the data, varied documents.

Estimator.   With inclusion probabilities $\pi_i$ of a subset $Y$ of $k$ rows, $\frac1N \sum_{i \in Y} g_i /
             \pi_i$ has the mean $\frac1N \sum_i g_i$. Similar rows exclude each other, so their gradients are
             not counted twice; for uniform subsets $\pi_i = k/N$, and the total variance is $(1 - k/N)\,
             \mathrm{tr}\, S / k$.
Selection.   $L_{ij} = q_i\, S_{ij}\, q_j$: relevance $q$ times cosine similarity $S$; the greedy path takes
             the most relevant document first, then the one that adds most to what the chosen ones do not say.
Cost.        One spectrum, $O(N^3)$, and $O(N k^2)$ a mini-batch; $O(N k^2)$ for a selection.
References.  Zhang, Kjellstrom and Mandt (2017), "Determinantal point processes for mini-batch
             diversification"; Kulesza and Taskar (2012) section 4 for documents.
"""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import as_float, check, check_count, check_length, check_shape, is_concrete
from tractable.core.module import Module
from tractable.core.types import Array, ArrayLike, Float, Int, Key, Scalar
from tractable.distributions.dpp import DPP
from tractable.distributions.dpp_determinants import greedy_path
from tractable.distributions.gumbel import gumbel_top_k
from tractable.distributions.kdpp import KDPP

__all__ = [
    "GradientVariance",
    "Minibatches",
    "compare_minibatches",
    "diverse_documents",
    "diverse_minibatches",
    "tf_idf",
]


class Minibatches(Module):
    """Rows of each mini-batch, and weights with which a sum over them is an unbiased mean over all."""

    items: Int[Array, "batches k"]
    weights: Float[Array, "batches k"]

    def estimate(self, values: Float[Array, "n *d"]) -> Float[Array, "batches *d"]:
        """For each mini-batch, its estimate of the mean of `values` over all rows."""
        return jnp.einsum("bk,bk...->b...", self.weights, values[self.items])


class GradientVariance(Module):
    """The total variance of a mean gradient over mini-batches, diverse and uniform, with standard errors."""

    diverse: Scalar
    uniform: Scalar
    diverse_error: Scalar
    uniform_error: Scalar


def diverse_minibatches(key: Key, similarity: ArrayLike, size: int, num_batches: int) -> Minibatches:
    """Mini-batches of `size` rows that avoid similar ones: draws of `KDPP(similarity, size)`."""
    process = KDPP(similarity, size)
    masks = process.sample(key, (check_count("num_batches", num_batches),))
    items = jax.lax.top_k(masks, size)[1]
    return Minibatches(items, 1 / (masks.shape[1] * process.mean[items]))


def compare_minibatches(
    key: Key, similarity: ArrayLike, gradients: ArrayLike, size: int, num_batches: int
) -> GradientVariance:
    """Measure, over `num_batches` of each kind, how much the mean of the rows' `gradients` varies."""
    gradients = as_float("gradients", gradients)
    check_shape("gradients", gradients, (None, None), "One gradient to a row.")
    check_length("gradients", gradients, "similarity", similarity)
    key_diverse, key_uniform = jr.split(key)
    diverse = diverse_minibatches(key_diverse, similarity, size, num_batches)
    uniform = gumbel_top_k(key_uniform, size, jnp.zeros(gradients.shape[0]), (num_batches,))
    plain = Minibatches(uniform, jnp.full(uniform.shape, 1 / size, gradients.dtype))
    errors = [
        _spread(batches.estimate(gradients) - gradients.mean(0)[None, :]) for batches in (diverse, plain)
    ]
    return GradientVariance(errors[0][0], errors[1][0], errors[0][1], errors[1][1])


def diverse_documents(rows: ArrayLike, relevance: ArrayLike, size: int) -> Int[Array, " k"]:
    """Indices of `size` relevant documents that differ, in the order chosen, from rows of TF-IDF."""
    rows, relevance = as_float("rows", rows), as_float("relevance", relevance)
    check_shape("rows", rows, (None, None), "One document to a row.")
    norms = jnp.sqrt((rows**2).sum(1))
    if is_concrete(norms):
        check(np.all(np.asarray(norms) > 0), "rows", "without documents of zeros only", "a row of zeros")
    process = DPP.from_quality_diversity(relevance, rows / norms[:, None])
    path = greedy_path(process.L, check_count("size", size, 1, rows.shape[0]))
    if is_concrete(path.items):
        found = int((np.asarray(path.items) >= 0).sum())
        fix = "The other documents repeat what these say, or have relevance zero."
        check(found == size, "size", f"at most {found}, the number of independent documents", size, fix)
    return path.items


def tf_idf(counts: ArrayLike) -> Float[Array, "documents terms"]:
    r"""Term counts (a document to a row) times $\log(N / n_t)$, $n_t$ the documents that have term $t$."""
    counts = as_float("counts", counts)
    check_shape("counts", counts, (None, None), "One document to a row.")
    containing = (counts > 0).sum(0)
    rarity = jnp.log(counts.shape[0] / jnp.where(containing > 0, containing, 1))
    return counts * rarity[None, :]


def _spread(errors: Array) -> tuple[Scalar, Scalar]:
    """The mean squared length of the errors, and its standard error."""
    squares = (errors**2).sum(1)
    return squares.mean(), squares.std(ddof=1) / np.sqrt(len(squares))
