r"""Which latents have an exact integral given the others: found from the trace, with a reason for each.

Discrete.    A latent of finitely many values is summed over.
Gaussian.    A set $S$ of normal latents is integrated if every site that $S$ touches is normal, with a
             location that is affine in $S$ jointly, and a spread that is free of it. Latents are tried from
             the largest to the smallest: what does not fit stays.
Conjugate.   A latent whose every child adds to its natural parameters (`conjugacy`).
Remaining.   All others, which gradient methods see.
Cost.        One walk through the jaxpr per candidate.
"""

import dataclasses
from collections.abc import Collection

from tractable.core.checks import check
from tractable.core.support import Real
from tractable.distributions.continuous import Normal
from tractable.distributions.gaussian import Gaussian
from tractable.programs.flat import Flat
from tractable.programs.survey import Facts, Seen

__all__ = ["Structure", "find_structure", "touched"]

_LOCATION = {Normal: "loc", Gaussian: "mean"}
_SPREAD = {Normal: "scale", Gaussian: "cov"}


@dataclasses.dataclass(frozen=True)
class Structure:
    """The latents by what happens to them; `reasons` says why, in a sentence for each."""

    discrete: tuple[str, ...]
    gaussian: tuple[str, ...]
    remaining: tuple[str, ...]
    reasons: dict[str, str]

    @property
    def eliminated(self) -> tuple[str, ...]:
        return self.discrete + self.gaussian


def find_structure(facts: Facts, keep: Collection[str] = ()) -> Structure:
    """The exact parts of a program; latents in `keep` are not eliminated, unless they are discrete."""
    latents = facts.of_kind("latent")
    reasons: dict[str, str] = {}
    discrete = [site for site in latents if site.is_discrete]
    for site in discrete:
        _check_finite(site)
        low, high = site.ends or (0, 0)
        reasons[site.name] = f"summed over: {high - low + 1} values"
    names = {site.name for site in discrete}
    gaussian: list[str] = []
    candidates = [s for s in latents if _may_be_gaussian(s) and s.name not in keep]
    for site in sorted(candidates, key=lambda s: (-s.size, s.name)):
        obstacle = _obstacle(facts, {*gaussian, site.name}, names)
        if obstacle is None:
            gaussian.append(site.name)
            kind = "flat" if site.family is Flat else "normal"
            reasons[site.name] = f"integrated: {kind}, and all that depends on it is normal, affinely"
        else:
            reasons[site.name] = f"stays: {obstacle}"
    order = [s.name for s in latents]
    gaussian.sort(key=order.index)
    gone = names | set(gaussian)
    for site in latents:
        kept = "asked to stay" if site.name in keep else f"no exact integral of {_law(site)} is known here"
        reasons.setdefault(site.name, f"stays: {kept}")
    remaining = tuple(name for name in order if name not in gone)
    return Structure(tuple(n for n in order if n in names), tuple(gaussian), remaining, reasons)


def touched(facts: Facts, chosen: Collection[str]) -> list[str]:
    """The sites whose density depends on a chosen latent."""
    return [name for name in facts.sites if facts.depends(name) & set(chosen)]


def _obstacle(facts: Facts, chosen: set[str], discrete: set[str]) -> str | None:
    """Why these latents have no joint Gaussian integral; nothing if they have."""
    found = facts.forms_in(sorted(chosen))
    for name in touched(facts, chosen):
        site = facts.sites[name]
        if name in chosen and site.family is Flat:
            continue
        if site.family not in _LOCATION:
            return f"{name} depends on it and is {_law(site)}"
        if facts.depends(name) & discrete:
            return f"{name} depends on it and on {', '.join(sorted(facts.depends(name) & discrete))}"
        if not found[name, _SPREAD[site.family]].is_constant:
            return f"the spread of {name} depends on it"
        if not found[name, _LOCATION[site.family]].is_affine:
            return f"the location of {name} is not affine in it"
    return None


def _may_be_gaussian(site: Seen) -> bool:
    return site.family in _LOCATION or (site.family is Flat and isinstance(site.support, Real))


def _law(site: Seen) -> str:
    return "a factor" if site.family is None else site.family.__name__


def _check_finite(site: Seen) -> None:
    must = "of finitely many values known beforehand, to be summed over"
    fix = f"It is sampled at {site.line}. Bound it, as with `Categorical` or `DiscreteUniform`."
    check(site.ends is not None, site.name, must, f"a latent {_law(site)}", fix)
