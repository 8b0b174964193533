r"""How many dimensions: the evidence for each number of components, with the mass that it leaves to others.

Evidence.    Laplace's approximation of $p(X \mid k)$ under probabilistic PCA with vague priors: with
             $v = \frac{1}{d - k}\sum_{i > k}\lambda_i$ and $m = dk - k(k + 1)/2$,
             $p(X \mid k) \approx p(U)\,\big(\prod_{i \le k}\lambda_i\big)^{-n/2}\,v^{-n(d - k)/2}\,
             (2\pi)^{(m + k)/2}\,|A|^{-1/2}\,n^{-k/2}$, with $p(U)$ the inverse volume of the frames of $k$
             directions and $|A| = \prod_{i \le k}\prod_{j > i} n(\hat\lambda_j^{-1} - \hat\lambda_i^{-1})
             (\lambda_i - \lambda_j)$, where $\hat\lambda_j = v$ for $j > k$.
BIC.         $\log p(X \mid \hat\theta_k) - \frac12(m + k + d + 1)\log n$, which the former refines.
Cost.        $O(d^3)$ for the spectrum, $O(d^2)$ for each $k$.
References.  Minka (2000), "Automatic choice of dimensionality for PCA"; Schwarz (1978).
"""

from typing import Any

import numpy as np
from scipy.special import gammaln, logsumexp

from tractable.core.checks import check, check_option
from tractable.core.chunks import Chunks
from tractable.core.module import HostResult, field
from tractable.core.moments import Moments, moments_of_chunks
from tractable.core.rows import Rows
from tractable.core.types import Values
from tractable.core.verdict import Verdict
from tractable.latent.factor.principal import moments_from

__all__ = ["DimensionEvidence", "dimension_evidence"]


class DimensionEvidence(HostResult):
    """The log-evidence of each number of components, and the probabilities under equal prior chances."""

    num_components: Values = field(show=False)
    log_evidence: Values = field(show=False)
    log_likelihood: Values = field(show=False)
    bic: Values = field(show=False)  # on the scale of a log-evidence: larger is better
    spectrum: Values = field(show=False)
    method: str = field(static=True, default="laplace")

    @property
    def scores(self) -> Values:
        return self.log_evidence if self.method == "laplace" else self.bic

    @property
    def probabilities(self) -> Values:
        """Of each number of components, where all had the same prior probability."""
        return np.exp(self.scores - logsumexp(self.scores))

    @property
    def best(self) -> int:
        """The number of components of highest evidence."""
        return int(self.num_components[np.argmax(self.scores)])

    @property
    def verdict(self) -> Verdict:
        """How sure the choice is."""
        share = float(self.probabilities.max())
        sentence = (
            f"{self.best} components have probability {share:.3g} among {len(self.num_components)} numbers."
        )
        return Verdict(share > 0.5, sentence, {"best": self.best, "probability": share})


def dimension_evidence(X: Any, *, weights: Any = None, method: str = "laplace") -> DimensionEvidence:
    """The evidence for 0, 1, ... components of rows, `Chunks`, or `Moments`; "laplace" (Minka) or "bic".

    Numbers beyond the rank of the table, which leave no noise, are not considered.

    >>> rows = np.random.default_rng(0).normal(size=(500, 5)) * [5.0, 3.0, 1.0, 1.0, 1.0]
    >>> dimension_evidence(rows).best
    2
    """
    check_option("method", method, ("laplace", "bic"))
    if isinstance(X, Moments):
        moments = X
    else:
        moments = moments_of_chunks(X) if isinstance(X, Chunks) else moments_from(Rows.of(X, None, weights))
    n, d = float(moments.count), moments.dim
    spectrum = np.linalg.eigvalsh(moments.cov())[::-1]
    rank = int((spectrum > d * np.finfo(float).eps * max(spectrum[0], 0.0)).sum())
    check(rank >= 1, "X", "rows that differ", "copies of one row", "There is no variance to explain.")
    counts = np.arange(min(rank, d))  # k components need a variance outside them
    likelihoods = np.array([_log_likelihood(spectrum, int(k), n) for k in counts])
    free = d * counts - counts * (counts + 1) / 2 + counts + d + 1
    evidence = np.array([_laplace(spectrum, int(k), n) for k in counts])
    return DimensionEvidence(
        counts, evidence, likelihoods, likelihoods - 0.5 * free * np.log(n), spectrum, method
    )


def _log_likelihood(spectrum: np.ndarray, k: int, n: float) -> float:
    d, noise = len(spectrum), spectrum[k:].mean()
    logs = np.log(spectrum[:k]).sum() + (d - k) * np.log(noise)
    return float(-0.5 * n * (d * np.log(2 * np.pi) + logs + d))


def _laplace(spectrum: np.ndarray, k: int, n: float) -> float:
    """Minka's approximation, with the constant of the likelihood; equal variances are a rounding apart."""
    d = len(spectrum)
    size = (d - np.arange(k)) / 2  # (d - i + 1)/2 for i = 1..k
    volume = -k * np.log(2) + (gammaln(size) - size * np.log(np.pi)).sum()
    noise = spectrum[k:].mean()
    adjusted = np.where(np.arange(d) < k, spectrum, noise)
    later = np.arange(d)[None] > np.arange(k)[:, None]
    gap = np.maximum(spectrum[:k, None] - spectrum[None], np.finfo(float).tiny)
    back = np.maximum(1 / adjusted[None] - 1 / spectrum[:k, None], np.finfo(float).tiny)
    log_det = np.where(later, np.log(gap) + np.log(back) + np.log(n), 0.0).sum()
    free = d * k - k * (k + 1) / 2
    occam = volume + 0.5 * (free + k) * np.log(2 * np.pi) - 0.5 * log_det - 0.5 * k * np.log(n)
    return _log_likelihood(spectrum, k, n) + float(occam)
