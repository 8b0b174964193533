r"""Bayes' rule for discrete variables, on tables for all observations at once and on arrays for one.

Identity.    $P(x \mid y) = P(y \mid x) P(x) / \sum_{x'} P(y \mid x') P(x')$.
Cost.        Linear in the cells of $P(x, y)$.
References.  Bayes (1763); Gelman et al. (2013) section 1.3.
"""

from typing import Any

from tractable.core.checks import ImpossibleEvidence, as_float, check, check_entries, is_concrete
from tractable.core.types import Array
from tractable.distributions.information import Numbers, as_probabilities
from tractable.distributions.tables import ConditionalTable, JointTable

__all__ = ["bayes"]


def bayes(prior: Numbers | JointTable, likelihood: Numbers | ConditionalTable) -> Array | ConditionalTable:
    r"""The posterior for all $x$ at once.

    From tables $P(x)$ and $P(y \mid x)$: the table $P(x \mid y)$, NaN where $P(y) = 0$. From arrays:
    `likelihood` holds $P(y \mid x)$ of one observed $y$ for each $x$; the posterior has its shape.

    >>> [round(float(p), 6) for p in bayes([0.01, 0.99], [0.9, 0.05])]
    [0.153846, 0.846154]
    """
    if isinstance(prior, JointTable) and isinstance(likelihood, ConditionalTable):
        known = set(likelihood.given) <= set(prior.names)
        must = f"conditional on variables of the prior {prior.names}"
        check(known, "likelihood", must, likelihood.given)
        joint = prior * likelihood
        return joint.conditional_table(prior.names, likelihood.targets)
    mixed = isinstance(prior, JointTable) or isinstance(likelihood, ConditionalTable)
    must = "a `ConditionalTable` when `prior` is a `JointTable`, and only then"
    check(not mixed, "likelihood", must, type(likelihood).__name__, error=TypeError)
    return _posterior(prior, likelihood)


def _posterior(prior: Any, likelihood: Any) -> Array:
    p, weight = as_probabilities("prior", prior), as_float("likelihood", likelihood)
    same = weight.shape == p.shape
    check(same, "likelihood", f"of the shape of `prior`, {p.shape}", f"shape {weight.shape}")
    check_entries("likelihood", weight, lambda v: v >= 0, "zero or positive")
    evidence = (p * weight).sum()
    if is_concrete(evidence):
        got = "an observation of probability 0"
        check(float(evidence) != 0, "likelihood", "positive where `prior` is", got, error=ImpossibleEvidence)
    return p * weight / evidence
