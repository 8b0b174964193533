r"""Counts under a Dirichlet prior, on the host: smoothed probabilities, and the evidence of a sequence.

Smoothing.   Counts $c_k$ of sum $N$ and pseudo-counts $\alpha_k$ of sum $A$: $(c_k + \alpha_k)/(N + A)$, the
             posterior mean under a Dirichlet prior, and the posterior predictive of the next symbol;
             $\alpha = 0$ is maximum likelihood.
Evidence.    A sequence with these counts, in whatever order, has probability
             $\frac{\Gamma(A)}{\Gamma(N + A)}\prod_k\frac{\Gamma(c_k + \alpha_k)}{\Gamma(\alpha_k)}$.
Cost.        One pass over the counts.
References.  Murphy (2012) sections 3.4 and 3.5.
"""

import numpy as np

from tractable.core.checks import check_entries, check_nonnegative
from tractable.core.types import ArrayLike

__all__ = ["additive_smoothing", "sequence_log_evidence"]


def additive_smoothing(counts: ArrayLike, pseudo_count: ArrayLike = 1.0) -> np.ndarray:
    r"""$(c_k + \alpha_k) / (N + \sum_k \alpha_k)$ along the last axis; no counts at all give NaN.

    >>> additive_smoothing([3, 1, 0]).round(6).tolist(), additive_smoothing([3, 1, 0], 0.0).tolist()
    ([0.571429, 0.285714, 0.142857], [0.75, 0.25, 0.0])
    """
    c, alpha = np.asarray(counts, float), np.asarray(pseudo_count, float)
    for name, values in (("counts", c), ("pseudo_count", alpha)):
        check_nonnegative(name, values)
    raised = c + alpha
    with np.errstate(invalid="ignore"):
        return raised / raised.sum(-1, keepdims=True)


def sequence_log_evidence(counts: ArrayLike, pseudo_count: ArrayLike = 1.0) -> np.ndarray | np.floating:
    r"""$\log\int\prod_k\theta_k^{c_k}\,\mathrm{Dir}(\theta;\alpha)\,d\theta$ along the last axis.

    >>> np.exp(sequence_log_evidence([[2, 1], [0, 0]])).round(6).tolist()
    [0.083333, 1.0]
    """
    from scipy.special import gammaln

    c = np.asarray(counts, float)
    alpha = np.broadcast_to(np.asarray(pseudo_count, float), c.shape)
    check_nonnegative("counts", c)
    check_entries("pseudo_count", alpha, lambda v: (v > 0) & np.isfinite(v), "positive and finite")
    totals = gammaln(alpha.sum(-1)) - gammaln((c + alpha).sum(-1))
    return totals + (gammaln(c + alpha) - gammaln(alpha)).sum(-1)
