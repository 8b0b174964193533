r"""Exact posteriors of conjugate models, as `Posterior`: the distribution itself, and what is known of it.

Identity.    $p(\theta \mid D)$, $\log p(D)$, $p(\tilde y \mid D)$ in closed form, `distributions.conjugate`.
Use.         What the distribution can do, the posterior can: `post.mean`, `post.icdf(0.95)`, `post.a`.
Cost.        That of adding statistics; draws are made where they are asked for.
"""

import dataclasses
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.iterate import Status
from tractable.core.keys import takes_key
from tractable.core.module import Module
from tractable.core.types import Key, PyTree, Scalar
from tractable.core.verdict import Verdict
from tractable.distributions.base import Distribution, Univariate
from tractable.distributions.conjugate import find_pair, predictive
from tractable.inference.joint import Pointwise, Statement
from tractable.inference.posterior import Posterior, as_one_chain, with_target
from tractable.inference.trust.chain_report import ChainReport
from tractable.inference.trust.evidence import Evidence

__all__ = ["ConjugatePosterior", "exact_posterior"]

_DRAWS = 4000  # that stand for the distribution where draws are asked for


class ConjugatePosterior(Posterior):
    """A posterior in closed form, with its exact evidence."""

    distribution: Distribution
    log_marginal: Scalar
    _shown = ("distribution", "log_evidence")

    def __getattr__(self, name: str) -> Any:
        # only what this class has not: whatever the distribution can do
        if name.startswith("_") or name == "distribution":
            raise AttributeError(name)
        return getattr(self.distribution, name)

    def _chains(self) -> PyTree:
        return as_one_chain(self.distribution.sample(jr.key(0), (_DRAWS,)))

    @property
    def verdict(self) -> Verdict:
        return Verdict(True, "Exact: the prior is conjugate to the likelihood.")

    @property
    def log_evidence(self) -> Evidence:
        r"""$\log p(D)$, without error."""
        return self._evidence(self.log_marginal, 0.0, "closed_form", Status.completed)

    @takes_key
    def predict(self, model: Any = None, *args: Any, key: Key | None = None) -> Any:
        """The exact distribution of the next row, where `model` is the likelihood (or left out)."""
        if model is None:
            model = self._stated().log_density.pointwise.likelihood.model
        if isinstance(model, Distribution) or (isinstance(model, type) and issubclass(model, Distribution)):
            return predictive(self.distribution, model)
        return super().predict(model, *args, key=key)

    def _examined(self, probs: Any) -> ChainReport:
        found, exact = super()._examined(probs), self.distribution
        moments = {
            "mean": np.ravel(exact.mean),
            "sd": np.ravel(exact.std),
            "mcse": np.zeros(len(found.names)),
        }
        if isinstance(exact, Univariate):
            quantiles = [np.ravel(exact.icdf(jnp.asarray(prob))) for prob in probs]
            moments["quantiles"] = np.stack(quantiles, 1)
        return dataclasses.replace(found, **moments)


class _Given(Module):
    """The statement of the model and its rows: what the posterior carries."""

    log_density: Statement
    args: tuple


class _Member:
    """The likelihood of a conjugate pair as a function of the unknown: a distribution of one row."""

    def __init__(self, pair: Any, model: Any):
        self.pair, self.model = pair, model

    def __call__(self, x: PyTree) -> Distribution:
        held = None if isinstance(self.model, type) else self.model
        return self.pair.member(held, x)


def exact_posterior(
    prior: Distribution, likelihood: Any, data: Any, weights: Any = None
) -> ConjugatePosterior:
    """The posterior of a conjugate pair given rows, with all that can be asked of a `Posterior`."""
    from tractable.distributions.conjugate import log_evidence, posterior

    found = posterior(prior, likelihood, data, weights)
    post = ConjugatePosterior(found, log_evidence(prior, likelihood, data, weights))
    member = _Member(find_pair(prior, likelihood), likelihood)
    statement = Statement(prior, Pointwise(member, True), "proper")
    if weights is not None:  # rows that count other than once: no statement row by row
        return post
    return with_target(post, _Given(statement, (jnp.asarray(data),)))
