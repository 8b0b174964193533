r"""One sentence on a posterior: whether to trust its draws, and what to do otherwise.

Order.       Draws that are not finite; what the driver remarked; divergences; chains that are stuck; chains
             that disagree; too few effective draws; timid energies; trees cut short. The gravest fault speaks
             first, with its remedy.
Rules.       R-hat at most 1.01 for one variable, a little more for the largest of many; bulk and tail
             effective size at least 100 per chain (of eight at most); energy information at least 0.3; fewer
             than one divergence in a thousand, and those in no particular place.
Many.        Under agreement $\hat R^2 - 1$ is about proportional to $\chi^2_{m - 1}$ for $m$ half chains, and
             the largest of $p$ is larger: the limit of it grows as the quantile $1 - 0.01/p$.
Place.       Diverging draws are compared with all draws: for each variable the share of them below each
             quantile, by its binomial probability, corrected for the number of looks.
Movement.    Chains that disagree while each agrees with itself sit in separate modes; chains that disagree
             with themselves still move: too short a run, or a direction without a proper posterior.
Cost.        Cheap beside the report on the draws: the draws are read again only where there is a fault.
References.  Vehtari et al. (2021); Betancourt (2017), "A conceptual introduction to Hamiltonian Monte Carlo".
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import bdtrc, chdtri

from tractable.core.iterate import Status
from tractable.core.module import Module, field
from tractable.core.verdict import Verdict
from tractable.inference.trust.chain_report import ChainReport, column, named_leaves
from tractable.inference.trust.diagnostics import nested_rhat, rhat
from tractable.inference.trust.effective_size import energy_information

__all__ = [
    "Fault",
    "find_faults",
    "judge",
    "movement",
    "needed_effective_size",
    "rhat_limit",
    "where_diverging",
]

RHAT_LIMIT = 1.01  # for one variable
_ENERGY_LIMIT = 0.3
_ONE_IN = 0.01  # the chance that the limits for one and for many variables have in common
_RARE = 0.001  # of the steps: so many divergences, if they are not gathered in one place, are only noted
_SATURATED = 0.9  # of the steps: beyond this the limit of work shapes the chain
_SELF = 1.05  # R-hat of a chain's own halves up to which it agrees with itself


class Fault(Module):
    """What is wrong, and what to do; a `note` is said but leaves the draws trusted."""

    kind: str = field(static=True)
    finding: str = field(static=True)
    fix: str = field(static=True)
    note: bool = field(static=True, default=False)


def judge(posterior: Any) -> Verdict:
    """The verdict on anything with `report`, `faults`, `draws`, `log_density`, `info`, `sampler`, `code`.

    Its numbers are the largest `rhat`, the smallest `ess_bulk`, `ess_tail` and `energy_information`, and the
    number of `divergences`.
    """
    if posterior.num_draws == 0:
        return Verdict(False, "Do not trust these draws: there are none; resume the run.")
    worst, report, faults = _worst(posterior), posterior.report, posterior.faults
    grave = [fault for fault in faults if not fault.note]
    sentence = _sentence(posterior, worst, grave, [fault for fault in faults if fault.note])
    numbers = {
        "rhat": worst[0],
        "ess_bulk": _smallest(report.ess_bulk),
        "ess_tail": _smallest(report.ess_tail),
        "divergences": int(_record(posterior, "diverging", bool).sum()),
        "energy_information": _smallest(energy_information(_record(posterior, "energy", float))),
    }
    return Verdict(not grave, sentence, numbers)


def find_faults(posterior: Any) -> tuple[Fault, ...]:
    """What is wrong with the draws, the gravest first."""
    if posterior.num_draws == 0:
        return (Fault("empty", "there are none", "resume the run"),)
    looks = (_not_finite, _remarked, _diverging, _stuck, _disagreeing, _too_few, _timid, _saturated)
    return tuple(fault for look in looks for fault in look(posterior))


def needed_effective_size(num_chains: int) -> int:
    """100 draws' worth per chain, of at most eight chains: more chains need not each be long."""
    return 100 * min(num_chains, 8)


def rhat_limit(num_variables: int, num_chains: int) -> float:
    r"""The limit for the largest R-hat of so many variables: 1.01 for one.

    >>> rhat_limit(1, 4), round(rhat_limit(1000, 4), 3)
    (1.01, 1.019)
    """
    degrees = max(2 * num_chains - 1, 1)
    growth = chdtri(degrees, _ONE_IN / num_variables) / chdtri(degrees, _ONE_IN)
    return math.sqrt(1 + (RHAT_LIMIT**2 - 1) * growth) if num_variables > 1 else RHAT_LIMIT


def movement(chains: np.ndarray) -> str:
    """How chains `(chains, draws)` disagree: "modes", "moving", or "slow"."""
    overall = float(rhat(chains))
    own = np.asarray(rhat(np.asarray(chains).T[None]))  # each chain as a variable of one chain
    own = float(np.median(np.where(np.isnan(own), 1.0, own)))
    if overall > 1.1 and own <= _SELF and overall - 1 > 5 * (own - 1):
        return "modes"
    return "moving" if own > 1.1 else "slow"


def where_diverging(draws: Any, report: ChainReport, diverging: np.ndarray) -> tuple[str, str] | None:
    """The variable and side ("small" or "large") where diverging draws gather; `None` where they do not."""
    count = int(diverging.sum())
    columns = [leaf[diverging].reshape(count, -1) for _, leaf in named_leaves(draws)]
    points = np.concatenate(columns, 1).astype(float)
    best, looks = (1e-3, None), 2 * report.quantiles.size
    for prob, threshold in zip(report.probs, report.quantiles.T):
        for side, share, hits in (
            ("small", prob, points <= threshold[None]),
            ("large", 1 - prob, points > threshold[None]),
        ):
            chance = bdtrc(hits.sum(0) - 1, count, share) * looks  # of at least as many hits
            chance = np.where([reason == "" for reason in report.reasons], chance, np.inf)
            place = int(chance.argmin())
            if chance[place] < best[0]:
                best = chance[place], (report.names[place], side)
    return best[1]


def _not_finite(posterior: Any) -> Iterator[Fault]:
    report = posterior.report
    names = [name for name, reason in zip(report.names, report.reasons) if reason == "not finite"]
    if not np.isfinite(posterior.log_density).all():
        names.append("log_density")
    if names:
        listed = ", ".join(f"`{name}`" for name in names[:3]) + (", ..." if len(names) > 3 else "")
        fix = "look at the density there: an improper posterior runs away, an overflow needs another scale"
        yield Fault("not finite", f"there are draws that are not finite, in {listed}", fix)


def _remarked(posterior: Any) -> Iterator[Fault]:
    for remark in posterior.remarks:
        yield Fault("remark", remark[:1].lower() + remark[1:].rstrip("."), "")
    undefined = _record(posterior, "undefined", bool).mean()
    if undefined > 0 and not posterior.remarks:
        finding = f"the density was not a number in {_share(undefined)} of the steps"
        yield Fault("undefined", finding, "make it -inf where the model is impossible, and finite elsewhere")
    if posterior.code == Status.not_finite:
        yield Fault("stopped", "the run was stopped by a value that is not finite", "look at the density")


def _diverging(posterior: Any) -> Iterator[Fault]:
    diverging = _record(posterior, "diverging", bool)
    count, share = int(diverging.sum()), diverging.mean()
    if not count:
        return
    place = where_diverging(posterior.draws, posterior.report, diverging)
    where = f", most of them where `{place[0]}` is {place[1]}" if place else ", in no particular place"
    finding = f"{_share(share)} of the steps diverged ({count}){where}"
    fix = "reparametrise (non-centred where a scale is small) or raise target_acceptance"
    if place is None:
        fix = "raise target_acceptance; if that does not help, look for jumps in the density"
    yield Fault("divergences", finding, fix, note=bool(share < _RARE) and place is None)


def _stuck(posterior: Any) -> Iterator[Fault]:
    still = [chain for chain in np.flatnonzero(_constant(posterior.log_density)) if _rests(posterior, chain)]
    acceptance = _record(posterior, "acceptance", float).mean(1)
    refused = [chain for chain in np.flatnonzero(acceptance < 0.01) if chain not in still]
    if still or refused:
        which = "chain " + ", ".join(str(chain) for chain in sorted({*still, *refused})[:8])
        finding = f"{which} never moved" if still else f"{which} refused nearly every proposal"
        fix = "take smaller steps, start elsewhere, or look for jumps and walls in the density"
        yield Fault("stuck", finding, fix)
    target = getattr(posterior.sampler, "target_acceptance", None)
    mean = float(acceptance.mean())
    if target is not None and not (still or refused) and mean < 0.5 * float(np.mean(target)):
        finding = (
            f"only {mean:.2f} of the proposals were accepted where {float(np.mean(target)):.2f} was wanted"
        )
        fix = "warm up longer; if that does not help, the density has jumps or the scales differ too much"
        yield Fault("refused", finding, fix)


def _disagreeing(posterior: Any) -> Iterator[Fault]:
    value, name = _worst(posterior)
    limit = rhat_limit(len(posterior.report.names), posterior.num_chains)
    if not value > limit:
        return
    chains = posterior.log_density if name == "log_density" else column(posterior.draws, name)
    kind = movement(np.asarray(chains, float))
    shown = f"R-hat {value:.4g}" if value < 100 else "R-hat beyond 100"
    if kind == "modes":
        finding = f"the chains settled in different places of `{name}` ({shown}, yet each agrees with itself)"
        fix = "the posterior has separate modes: start from better points, use tempering, or order the labels"
    elif kind == "moving":
        finding = f"the chains are still moving in `{name}` ({shown}, and each disagrees with itself)"
        fix = "make sure that the posterior is proper there (a flat direction never settles), or run longer"
    else:
        finding = f"the chains do not agree yet in `{name}` ({shown})"
        more = posterior.num_draws * ((value**2 - 1) / (limit**2 - 1) - 1)
        fix = f"run longer: about {_rounded(more)} more draws per chain, or reparametrise"
    yield Fault(kind, finding, fix)


def _too_few(posterior: Any) -> Iterator[Fault]:
    report, needed = posterior.report, needed_effective_size(posterior.num_chains)
    if np.isnan(report.ess_bulk).all():
        reason = max(report.reasons, key=len)
        fix = "draw more, and look at a trace"
        yield Fault("unknown", f"no variable can be judged ({reason})", fix)
        return
    sizes = {"bulk": report.ess_bulk, "tail": report.ess_tail}
    kind, values = min(sizes.items(), key=lambda item: _smallest(item[1]))
    worst = _smallest(values)
    if worst < needed:
        name = report.names[int(np.nanargmin(values))]
        finding = (
            f"the draws of `{name}` are worth only {worst:.0f} independent ones ({kind}; {needed} needed)"
        )
        more = posterior.num_draws * (needed / worst - 1)
        yield Fault("few", finding, f"run longer: about {_rounded(more)} more draws per chain")


def _timid(posterior: Any) -> Iterator[Fault]:
    worst = _smallest(energy_information(_record(posterior, "energy", float)))
    if worst < _ENERGY_LIMIT:
        finding = f"energies hardly change from step to step (information {worst:.2f}, 0.3 needed)"
        yield Fault("energy", finding, "reparametrise: tails are heavier or narrower than the metric knows")


def _saturated(posterior: Any) -> Iterator[Fault]:
    share = _record(posterior, "saturated", bool).mean()
    if share >= 0.01:
        finding = f"{_share(share)} of the steps were cut short by their limit of work"
        fix = "raise the limit (max_depth), or look for a flat direction, or for jumps in the density"
        yield Fault("saturated", finding, fix, note=bool(share < _SATURATED))


def _sentence(posterior: Any, worst: tuple[float, str], grave: list[Fault], notes: list[Fault]) -> str:
    partial = posterior.code == Status.interrupted
    start = f"Partial (interrupted after {posterior.num_draws} draws per chain). " if partial else ""
    if grave:
        first = grave[0].finding + (f"; {grave[0].fix}" if grave[0].fix else "")
        others = "".join(f" Also: {fault.finding}." for fault in [*grave[1:], *notes])
        return f"{start}Do not trust these draws: {first}.{others}"
    report = posterior.report
    least = min(_smallest(report.ess_bulk), _smallest(report.ess_tail))
    agree = "the chains agree" if posterior.num_chains > 1 else "the halves of the one chain agree"
    body = f"{agree} (R-hat at most {worst[0]:.4g}, at `{worst[1]}`) and are worth {least:.0f} draws or more"
    lone = "" if posterior.num_chains > 1 else " One chain cannot show other modes: run four."
    return f"{start}Trusted: {body}.{lone}" + "".join(f" Note: {note.finding}; {note.fix}." for note in notes)


def _worst(posterior: Any) -> tuple[float, str]:
    """The largest R-hat and its variable; of the log-density, where no variable has a larger one."""
    report, groups = posterior.report, getattr(posterior.warmup, "superchains", None)
    names, values = [*report.names, "log_density"], np.append(report.rhat, rhat(posterior.log_density))
    if groups:  # many short chains, of which each group began at one point: what they say together counts
        parts = [leaf for _, leaf in named_leaves(posterior.draws)] + [posterior.log_density]
        values = np.concatenate([np.ravel(nested_rhat(part, groups)) for part in parts])
    if np.isnan(values).all():
        return math.nan, names[0]
    place = int(np.nanargmax(values))
    return float(values[place]), names[place]


def _record(posterior: Any, name: str, kind: type) -> np.ndarray:
    """One record of the steps as `(chains, draws)`; absent ones as NaN or false."""
    value = getattr(posterior.info, name, math.nan if kind is float else False)
    return np.broadcast_to(np.asarray(value, kind), np.shape(posterior.log_density))


def _constant(values: np.ndarray) -> np.ndarray:
    return (np.asarray(values) == np.asarray(values)[:, :1]).all(1) & (np.shape(values)[1] > 1)


def _rests(posterior: Any, chain: Any) -> bool:
    """Whether no variable of a chain ever changes (where the density is flat, only the draws can say)."""
    return all(bool((leaf[chain] == leaf[chain][:1]).all()) for _, leaf in named_leaves(posterior.draws))


def _smallest(values: np.ndarray) -> float:
    return float(np.nanmin(values)) if not np.isnan(values).all() else math.nan


def _share(value: Any) -> str:
    return f"{100 * float(value):.2g} %"


def _rounded(count: float) -> str:
    """Up to two digits: no one knows it better."""
    if not math.isfinite(count) or count <= 0:
        return "as many"
    unit = 10 ** max(math.floor(math.log10(count)) - 1, 0)
    return str(math.ceil(count / unit) * unit)
