r"""Why EM climbs, in numbers: the evidence taken apart at any two parameters.

Identity.    With $q = p(Z \mid X, \theta')$:
             $L(\theta) = Q(\theta, \theta') + H(\theta') + \mathrm{KL}(\theta' \| \theta)$, where
             $Q = E_q \log p(X, Z \mid \theta)$, $H$ is the entropy of $q$ and KL is between the posteriors of
             $Z$. So $Q + H$ bounds $L$ from below and touches it at $\theta = \theta'$, with equal slope
             there.
Contract.    A model with `e_step` that also has `expected_log_joint(stats)`, such as `Mixture`.
Cost.        Two E-steps.
References.  Neal and Hinton (1998).
"""

from typing import Any

import jax.numpy as jnp

from tractable.core.checks import check
from tractable.core.chunks import pad_rows
from tractable.core.module import Module
from tractable.core.programs import program
from tractable.core.types import Array, ArrayLike, Float, Scalar

__all__ = ["Decomposition", "HalfSteps", "decompose", "half_steps"]


class Decomposition(Module):
    r"""$L(\theta) = Q + H + \mathrm{KL}$, each term found from its own definition where it has one."""

    log_evidence: Scalar
    expected_log_joint: Scalar
    entropy: Scalar
    _shown = ("log_evidence", "expected_log_joint", "entropy", "bound", "divergence")

    @property
    def divergence(self) -> Scalar:
        r"""$\mathrm{KL}[p(Z \mid X, \theta') \| p(Z \mid X, \theta)]$, the gap of the bound: zero or more."""
        return self.log_evidence - self.bound

    @property
    def bound(self) -> Scalar:
        r"""$Q + H \le L$, the evidence lower bound."""
        return self.expected_log_joint + self.entropy

    @property
    def cross_entropy(self) -> Scalar:
        r"""$-E_q \log p(Z \mid X, \theta) = H + \mathrm{KL}$, so that $L = Q$ plus it."""
        return self.entropy + self.divergence


class HalfSteps(Module):
    """The bound and the evidence after each half step: E closes the gap, M raises both."""

    bound: Float[Array, " steps"]
    log_evidence: Float[Array, " steps"]


def decompose(model: Any, old: Any, data: Any, weights: ArrayLike | None = None) -> Decomposition:
    r"""The evidence of `model` ($\theta$) taken apart with the posterior of the labels under `old`
    ($\theta'$).

    >>> from tractable.distributions import Mixture, Normal
    >>> old = Mixture([0.5, 0.5], Normal(jnp.array([1.0, 4.0]), 1.0))
    >>> bool(abs(decompose(old, old, [0.0, 1.0, 4.0, 5.0]).divergence) < 1e-12)
    True
    """
    for name, given in (("model", model), ("old", old)):
        known = hasattr(given, "expected_log_joint") and hasattr(given, "e_step")
        check(known, name, "one with `e_step` and `expected_log_joint`", type(given).__name__)
    rows, weights = pad_rows(jnp.asarray(data), weights)
    return _decompose(model, old, rows, weights)


def half_steps(model: Any, data: Any, num_steps: int, weights: ArrayLike | None = None) -> HalfSteps:
    """EM as coordinate ascent on the bound: its value and the evidence after every E- and every M-step."""
    rows, spread = pad_rows(jnp.asarray(data), weights)
    bounds, evidences = [], []
    for _ in range(num_steps):
        after_e = _decompose(model, model, rows, spread)
        better = _improve(model, rows, spread)
        after_m = _decompose(better, model, rows, spread)
        bounds += [after_e.bound, after_m.bound]
        evidences += [after_e.log_evidence, after_m.log_evidence]
        model = better
    return HalfSteps(jnp.stack(bounds), jnp.stack(evidences))


@program
def _decompose(model: Any, old: Any, rows: Any, weights: Array) -> Decomposition:
    stats, before = old.e_step(rows, weights)
    entropy = before - old.expected_log_joint(stats)
    return Decomposition(model.e_step(rows, weights)[1], model.expected_log_joint(stats), entropy)


@program
def _improve(model: Any, rows: Any, weights: Array) -> Any:
    return model.m_step(model.e_step(rows, weights)[0])
