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

import numpy as np

from tractable.core.checks import check
from tractable.core.support import Real
from tractable.distributions.continuous import Normal
from tractable.distributions.gaussian import Gaussian
from tractable.programs.conjugacy import RULES, unit_places
from tractable.programs.flat import Flat
from tractable.programs.survey import Facts, Seen

__all__ = ["Structure", "affine_obstacle", "find_structure", "follows_itself", "may_be_gaussian", "touched"]

_LOCATION = {Normal: "loc", Gaussian: "mean"}
_SPREAD = {Normal: "scale", Gaussian: "cov"}


@dataclasses.dataclass(frozen=True)
class Structure:
    """The latents by what happens to them; `reasons` says why, in a sentence for each."""

    discrete: tuple[str, ...]
    gaussian: tuple[str, ...]
    conjugate: dict[
        str, dict[str, np.ndarray]
    ]  # the unit on which each unit of a child rests, by latent and child
    scale: str | None  # a variance or precision of which all spreads of the Gaussian part are multiples
    remaining: tuple[str, ...]
    reasons: dict[str, str]
    nested: tuple[str, ...] = ()  # Gaussian, for Laplace's method

    @property
    def eliminated(self) -> tuple[str, ...]:
        alone = () if self.scale is None else (self.scale,)
        return self.discrete + self.gaussian + alone + tuple(self.conjugate) + self.nested


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
    candidates = [s for s in latents if may_be_gaussian(s) and s.name not in keep]
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
    scale = next(
        (s.name for s in latents if s.name not in keep and _is_scale(facts, s, gaussian, gone)), None
    )
    if scale is not None:
        gone.add(scale)
        reasons[scale] = (
            "integrated: all spreads of the normal latents and their children are multiples of it"
        )
    conjugate = _conjugates(facts, keep, gone, reasons)
    gone |= set(conjugate)
    for site in latents:
        kept = "asked to stay" if site.name in keep else f"no exact integral of {_law(site)} is known here"
        reasons.setdefault(site.name, f"stays: {kept}")
    remaining = tuple(name for name in order if name not in gone)
    summed = tuple(name for name in order if name in names)
    return Structure(summed, tuple(gaussian), conjugate, scale, remaining, reasons)


def _conjugates(
    facts: Facts, keep: Collection[str], gone: set[str], reasons: dict[str, str]
) -> dict[str, dict[str, np.ndarray]]:
    """Latents conjugate to all that depends on them, with the places that they have there; says why."""
    found: dict[str, dict[str, np.ndarray]] = {}
    for site in facts.of_kind("latent"):
        if site.name in gone or site.name in keep or site.family not in _CONJUGATE:
            continue
        children = _children(facts, site, gone | set(found))
        if isinstance(children, str):
            reasons[site.name] = f"stays: {children}"
        else:
            found[site.name] = children
            reasons[site.name] = f"integrated: {_law(site)} is conjugate to all that depends on it"
    return found


def follows_itself(facts: Facts, names: Collection[str]) -> bool:
    """Whether one of the latents is a chain: made of its noise, it depends on all of it that came before."""
    laws = {pair: needs for pair, needs in facts.needs.items() if pair[1] != "log_probs"}
    return any(name in names and name in needs for (name, _), needs in laws.items())


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
        said = _not_affine(facts, found, name)
        if said is not None:
            return said
    return None


def affine_obstacle(facts: Facts, chosen: set[str], discrete: set[str]) -> str | None:
    """Why these latents are not jointly normal before data, given the rest; nothing if they are."""
    found = facts.forms_in(sorted(chosen))
    for name in touched(facts, chosen):
        if facts.depends(name) & discrete:
            return f"{name} depends on it and on {', '.join(sorted(facts.depends(name) & discrete))}"
        if name in chosen and facts.sites[name].family is not Flat:
            said = _not_affine(facts, found, name)
            if said is not None:
                return said
    return None


def _not_affine(facts: Facts, found: dict, name: str) -> str | None:
    """Why a normal site is not affine in the latents whose forms were `found`."""
    family = facts.sites[name].family
    assert family is not None
    if not found[name, _SPREAD[family]].is_constant:
        return f"the spread of {name} depends on it"
    if not found[name, _LOCATION[family]].is_affine:
        return f"the location of {name} is not affine in it"
    return None


def _is_scale(facts: Facts, site: Seen, gaussian: list[str], gone: set[str]) -> bool:
    """Whether every normal site of the Gaussian part has this variance or precision for its scale."""
    rule = RULES.get((site.family, Normal)) if site.family is not None else None
    around = touched(facts, gaussian)
    mine = [name for name in touched(facts, [site.name]) if name != site.name]
    alone = site.size == 1 and site.name not in gone and not facts.depends(site.name) & gone
    flat = any(facts.sites[name].family is not Normal for name in around)
    if rule is None or not alone or not gaussian or flat or sorted(mine) != sorted(around):
        return False
    found = facts.forms_in([site.name])
    return all(rule.holds(found[name, "scale"]) and found[name, "loc"].is_constant for name in mine)


_CONJUGATE = {prior for prior, _ in RULES}


def _children(facts: Facts, site: Seen, gone: set[str]) -> dict[str, np.ndarray] | str:
    """For each site that depends on a latent the units that its units rest on; or why it is not conjugate."""
    found = facts.forms_in([site.name])
    if facts.depends(site.name) & gone:
        return "its own prior depends on latents that are gone"
    children: dict[str, np.ndarray] = {}
    for name in touched(facts, [site.name]):
        child = facts.sites[name]
        if name == site.name:
            continue
        rule = RULES.get((site.family, child.family)) if site.family and child.family else None
        if rule is None or name in gone or facts.depends(name) & gone:
            return f"{name} depends on it and is {_law(child)}"
        others = [
            form
            for (of, label), form in found.items()
            if of == name and label not in (rule.field, "log_probs")
        ]
        if not rule.holds(found[name, rule.field]) or not all(form.is_constant for form in others):
            return f"{name} depends on it in another way than its {rule.field}"
        size = site.shape[-1] if site.support is not None and site.support.ndim == 1 else 1
        entries = int(np.prod(facts.shapes[name, rule.field]))
        places = unit_places(facts.pattern(site.name, name, rule.field), entries, site.size // size, size)
        if places is None:
            return f"units of {name} depend on several of its units"
        children[name] = np.broadcast_to(places, child.size) if places.size == 1 else places
    return children or "nothing depends on it"


def may_be_gaussian(site: Seen) -> bool:
    return site.family in _LOCATION or (site.family is Flat and isinstance(site.support, Real))


def _law(site: Seen) -> str:
    return "a factor" if site.family is None else site.family.__name__


def _check_finite(site: Seen) -> None:
    must = "of finitely many values known beforehand, to be summed over"
    fix = f"It is sampled at {site.line}. Bound it, as with `Categorical` or `DiscreteUniform`."
    check(site.ends is not None, site.name, must, f"a latent {_law(site)}", fix)
