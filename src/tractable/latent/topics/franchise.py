r"""How much each topic is used by all documents, drawn by the tables of a Chinese restaurant franchise.

Model.       $b \sim \mathrm{Dir}(g/K, \dots, g/K)$ and $\theta_d \sim \mathrm{Dir}(c\,b)$, with $g, c \sim
             \mathrm{Gamma}$; as $K$ grows, the hierarchical Dirichlet process.
Draws.       The tables $m_{dk} = \sum_{i < n_{dk}} \mathrm{Bernoulli}\{cb_k/(cb_k + i)\}$; then
             $b \mid m \sim \mathrm{Dir}(g/K + \sum_d m_{dk})$; $c$ by the auxiliary variables of Teh et al.
Cost.        $O(\sum_d N_d)$ uniform numbers.
References.  Teh, Jordan, Beal and Blei (2006); Fox et al. (2011) for the finite form.
"""

import numpy as np

__all__ = ["draw_document_prior", "draw_tables"]

_SMALLEST = 1e-8  # of a topic's share: below, a gamma variable may be zero
TOP = 1.0  # g: how freely topics are made
SHAPE, RATE = 1.0, 1.0  # of the prior of c


def draw_tables(concentration: np.ndarray, counts: np.ndarray, numbers: np.random.Generator) -> np.ndarray:
    """How many tables the customers `counts[d, k]` sit at, for each document and topic.

    >>> draw_tables(np.array([0.5, 0.5]), np.array([[1.0, 0.0]]), np.random.default_rng(0)).tolist()
    [[1.0, 0.0]]
    """
    tables = np.zeros(counts.shape)
    places = np.nonzero(counts)
    left, alpha = counts[places], np.broadcast_to(concentration, counts.shape)[places]
    found = np.zeros(len(left))
    for i in range(int(left.max(initial=0))):
        here = left > i
        found[here] += numbers.random(int(here.sum())) < alpha[here] / (alpha[here] + i)
    tables[places] = found
    return tables


def draw_document_prior(alpha: np.ndarray, counts: np.ndarray, numbers: np.random.Generator) -> np.ndarray:
    """The next $c\\,b$ of a Gibbs sampler, given counts of topics by document."""
    tables = draw_tables(alpha, counts, numbers)
    c, lengths = alpha.sum(), counts.sum(1)
    lengths = lengths[lengths > 0]
    kept = numbers.beta(c + 1, lengths)
    also = numbers.random(len(lengths)) < lengths / (lengths + c)
    c = numbers.gamma(SHAPE + tables.sum() - also.sum()) / (RATE - np.log(kept).sum())
    b = numbers.gamma(TOP / len(alpha) + tables.sum(0))
    b = np.maximum(b / b.sum(), _SMALLEST)
    return c * b / b.sum()
