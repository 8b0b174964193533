r"""Whether the particles of sequential Monte Carlo may be trusted.

Rules.       Moves that are accepted; temperatures that are not too far apart; five groups or more that count
             by their evidences; means that a last, longer stage leaves where they were; weights with a
             variance.
Drift.       The largest of $2(d + 1)$ changes of a mean, each with a $t$ distribution of $G - 1$ degrees of
             freedom for settled particles: what it passes two times in a thousand counts as a drift.
Cost.        None beyond the run.
"""

from typing import Any

import jax
import numpy as np
from scipy.special import stdtrit

from tractable.core.verdict import Verdict
from tractable.inference.weighted.pareto import k_error
from tractable.inference.weighted.weights import effective_sample_size

__all__ = ["verdict_of"]

_STUCK = 0.05  # the share of accepted moves below which particles are little more than copies
_THIN = 0.1  # the share of particles that the weights of a stage must leave
_FEWEST_GROUPS = 5  # that count, by their evidences, for an error between them
_FINITE = 0.5  # the tail shape up to which weights have a variance
_CHANCE = 0.002  # the probability with which settled particles seem to drift


def _least(values: Any) -> float:
    return float(np.min(np.asarray(values), initial=np.inf))


def verdict_of(found: Any) -> Verdict:
    """How far to trust tempered particles."""
    if not found.status.ok:
        return Verdict(
            False, f"Do not use: the last temperature was {_last(found):.3g}. {found.status.sentence}"
        )
    if found.group_log_evidences.size < 2:
        return Verdict(False, "Unknown: one group has no standard error. Take several groups.")
    evidence = found.log_evidence.verdict
    numbers = {
        "ess": _least(found.stage_ess), "acceptance": _least(found.acceptance),
        "drift": _last_of(found.drift), "tail": float(np.max(np.asarray(found.tails), initial=-np.inf)),
    }  # fmt: skip
    doubt = _doubt(found)
    if doubt is not None:
        return Verdict(False, doubt, numbers)
    if int(found.num_ancestors[-1]) < 2 * found.group_log_evidences.size:
        return Verdict(
            True,
            f"Fair: all particles descend from {int(found.num_ancestors[-1])} draws of the prior, and only "
            "the moves could find what those missed. Take more particles to be sure.",
            numbers,
        )
    return Verdict(evidence.ok, evidence.sentence, numbers)


def _doubt(found: Any) -> str | None:
    """The gravest reason for which the particles cannot be certified, if there is one."""
    rates = np.asarray(found.acceptance)
    if rates.min() < _STUCK:
        beta = float(np.asarray(found.temperatures)[1 + rates.argmin()])
        return (
            f"Doubtful: at temperature {beta:.3g} only {rates.min():.1%} of the moves were accepted, and the "
            "particles are mostly copies. Give more moves, or another kernel."
        )
    if _least(found.stage_ess) < _THIN:
        return "Doubtful: the temperatures are too far apart. Leave them to be found, or give more."
    if float(effective_sample_size(found.group_log_evidences)) < _FEWEST_GROUPS:
        return "Doubtful: the groups disagree on the evidence. Take more particles, or more moves."
    if _last_of(found.drift) > _drift_limit(found):
        return (
            "Not certified: further moves at the last temperature change the means: the particles have "
            "missed a part of the mass. Take more particles or moves, another kernel, or other coordinates."
        )
    size = found.log_weights.size
    tails = [k for k in np.asarray(found.tails).tolist() if np.isfinite(k)]
    if any(k + k_error(k, size) > _FINITE for k in tails):
        return (
            "Not certified: a few particles have most of the weight at some temperature, as where the "
            "posterior has heavier tails than the prior. Take a wider prior or more particles."
        )
    return None


def _drift_limit(found: Any) -> float:
    """What the largest drift of settled particles seldom passes."""
    numbers = sum(np.size(leaf) for leaf in jax.tree.leaves(found.draws)) // found.log_weights.size
    count = 2 * (numbers + 1)
    return float(stdtrit(found.group_log_evidences.size - 1, 1 - _CHANCE / (2 * count)))


def _last_of(values: Any) -> float:
    return float(np.asarray(values)[-1])


def _last(found: Any) -> float:
    return float(np.asarray(found.temperatures)[-1])
