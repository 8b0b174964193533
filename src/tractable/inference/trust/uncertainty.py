r"""Where uncertainty comes from, and its use: aleatoric and epistemic parts, selective prediction.

Entropy.     $H[E_\theta p(y \mid \theta)] = E_\theta H[p(y \mid \theta)] + I(y; \theta)$: what noise leaves
             open (aleatoric) and what more data would settle (epistemic).
Variance.    $\mathrm{Var}[y] = E_\theta \mathrm{Var}[y \mid \theta] + \mathrm{Var}_\theta E[y \mid \theta]$.
Selection.   Answering only the cases of highest confidence, the risk at coverage $c$ is the mean loss of the
             best share $c$; the area under this curve is small if confidence orders the cases by loss.
Cost.        Linear in draws and rows; one sort for the curve.
References.  Depeweg et al. (2018); El-Yaniv and Wiener (2010); Geifman, Uziel and El-Yaniv (2019).
"""

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import as_float, check, check_entries, check_finite
from tractable.core.module import Module
from tractable.core.types import Array, ArrayLike, Float, Scalar
from tractable.core.verdict import Verdict
from tractable.distributions.information import entropy
from tractable.distributions.moments import total_variance

__all__ = ["RiskCoverage", "UncertaintySplit", "risk_coverage", "split_entropy", "split_variance"]


class UncertaintySplit(Module):
    """The uncertainty of each row in two parts, which add to the total."""

    aleatoric: Float[Array, " n"]
    epistemic: Float[Array, " n"]

    @property
    def total(self) -> Array:
        return self.aleatoric + self.epistemic

    @property
    def verdict(self) -> Verdict:
        """How much of the uncertainty more data would remove."""
        total = float(self.total.mean())
        share = float(self.epistemic.mean()) / total if total > 0 else 0.0
        sentence = f"{share:.0%} of the uncertainty would yield to more data."
        return Verdict(True, sentence, {"total": total, "epistemic_share": share})


class RiskCoverage(Module):
    """The mean loss of the most confident share of the cases, for every share."""

    coverage: Float[Array, " n"]
    risk: Float[Array, " n"]
    best: Float[Array, " n"]  # the curve of an oracle that orders the cases by their losses

    @property
    def area(self) -> Scalar:
        """The mean of the risk over coverages (AURC): smaller is better."""
        return self.risk.mean()

    @property
    def excess(self) -> Scalar:
        """How far the area is above the smallest possible one for these losses."""
        return self.area - self.best.mean()

    def risk_at(self, coverage: float | int) -> Scalar:
        """The risk when (at least) this share of the cases is answered."""
        check(0 < coverage <= 1, "coverage", "above 0, at most 1", coverage)
        return self.risk[int(np.ceil(coverage * len(self.risk) - 1e-9)) - 1]

    @property
    def verdict(self) -> Verdict:
        """Whether confidence tells the cases apart."""
        whole, half, area = float(self.risk[-1]), float(self.risk_at(0.5)), float(self.area)
        gain = "Confidence orders the cases" if area < whole else "Confidence is of no use"
        sentence = f"{gain}: risk {whole:.4g} at full coverage, {half:.4g} at half."
        return Verdict(area < whole, sentence, {"risk": whole, "risk_at_half": half, "area": area})


def split_entropy(probs: ArrayLike) -> UncertaintySplit:
    r"""The two parts of the entropy of each row, from class probabilities of shape `(draws, rows, classes)`.

    >>> split_entropy([[[1.0, 0.0]], [[0.0, 1.0]]]).epistemic.round(6).tolist()  # draws that disagree
    [0.693147]
    """
    p = as_float("probs", probs)
    check(p.ndim == 3 and p.size > 0, "probs", "of shape (draws, rows, classes)", f"shape {p.shape}")
    values = np.asarray(p)
    must = "probabilities that sum to 1 over the classes"
    check_entries("probs", values, lambda v: (v >= 0).all(-1) & (np.abs(v.sum(-1) - 1) <= 1e-6), must)
    return _split_entropy(p)


def split_variance(means: ArrayLike, variances: ArrayLike) -> UncertaintySplit:
    r"""The two parts of the variance of each row, from conditional moments of shape `(draws, rows)`."""
    m, v = as_float("means", means), as_float("variances", variances)
    check(m.ndim == 2 and m.size > 0, "means", "of shape (draws, rows)", f"shape {m.shape}")
    check(m.shape == v.shape, "variances", f"of the shape of `means` {m.shape}", f"shape {v.shape}")
    check_finite("means", m)
    check_entries("variances", v, lambda v: v >= 0, "zero or positive")
    return _split_variance(m, v)


def risk_coverage(confidence: ArrayLike, losses: ArrayLike) -> RiskCoverage:
    """The risk of answering only the most confident cases; `losses` are 0 or 1 for errors, or any numbers.

    Cases of equal confidence share their mean loss: their order must not matter.
    """
    trust, loss = as_float("confidence", confidence), as_float("losses", losses)
    check(
        trust.ndim == 1 and trust.size > 0, "confidence", "a vector of at least one", f"shape {trust.shape}"
    )
    check(loss.shape == trust.shape, "losses", f"one per case {trust.shape}", f"shape {loss.shape}")
    check_finite("losses", loss)
    check(not bool(jnp.isnan(trust).any()), "confidence", "numbers", "NaN")
    return _risk_coverage(trust, loss)


@jax.jit
def _split_entropy(p: Array) -> UncertaintySplit:
    aleatoric = jax.vmap(jax.vmap(entropy))(p).mean(0)
    return UncertaintySplit(aleatoric, jax.vmap(entropy)(p.mean(0)) - aleatoric)


@jax.jit
def _split_variance(means: Array, variances: Array) -> UncertaintySplit:
    shares = jnp.full(means.shape[0], 1 / means.shape[0], means.dtype)
    parts = jax.vmap(lambda m, v: total_variance(shares, m, v), in_axes=1)(means, variances)
    return UncertaintySplit(parts.within, parts.between)


@jax.jit
def _risk_coverage(confidence: Array, losses: Array) -> RiskCoverage:
    count = losses.shape[0]
    order = jnp.argsort(-confidence)
    ranked = confidence[order]
    group = jnp.cumsum(jnp.concatenate([jnp.zeros(1, int), (ranked[1:] != ranked[:-1]).astype(int)]))
    totals = jax.ops.segment_sum(losses[order], group, count)
    sizes = jax.ops.segment_sum(jnp.ones(count, losses.dtype), group, count)
    shared = totals[group] / sizes[group]
    sizes_so_far = jnp.arange(1, count + 1)
    risk, best = jnp.cumsum(shared) / sizes_so_far, jnp.cumsum(jnp.sort(losses)) / sizes_so_far
    return RiskCoverage(sizes_so_far / count, risk, best)
