r"""What one trace of a program tells: its sites, and how each depends on the latents.

Trace.       The function is run once with tracers for all latents and all data. Its sites give names, shapes,
             supports and kinds; its jaxpr says which log-density and which parameter depends on which latent,
             and whether it does so affinely.
Checks.      Observed values are looked at here, where they are known: one outside the support of its site is
             refused by name and line.
Cost.        Two traces of the function, nothing compiled.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.extend.core import ClosedJaxpr

from tractable.core.checks import check, check_entries
from tractable.core.support import IntegerRange, Support
from tractable.core.types import Shape
from tractable.distributions.base import Distribution
from tractable.programs.data_checks import check_indices, check_parameters, parameters
from tractable.programs.dependence import dependence, depends_on
from tractable.programs.forms import Form, forms
from tractable.programs.run import Plate, Site
from tractable.programs.tape import evaluate, reached, record
from tractable.programs.trace import Program

__all__ = ["Facts", "Seen", "check_arguments", "survey"]


@dataclasses.dataclass(frozen=True)
class Seen:
    """What is known of a site without values. `ends` are the least and greatest values of a finite latent."""

    name: str
    kind: str
    family: type | None
    shape: Shape
    support: Support | None
    ends: tuple[int, int] | None
    plates: tuple[Plate, ...]
    line: str
    discrete: bool = False

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    @property
    def is_discrete(self) -> bool:
        return self.discrete


@dataclasses.dataclass(frozen=True)
class Facts:
    """The sites of a program, and the jaxpr of their densities and parameters as functions of the latents.

    `outputs` names what the jaxpr returns: pairs of a site and a field of its distribution, or "log_probs".
    Among `latents` are the parameters too: whatever has no value yet.
    """

    sites: dict[str, Seen]
    closed: Any
    values: tuple[Any, ...]  # of all inputs; those of latents are examples
    latents: tuple[str, ...]
    outputs: tuple[tuple[str, str], ...]
    needs: dict[tuple[str, str], frozenset[str]]
    shapes: dict[tuple[str, str], Shape]

    def of_kind(self, *kinds: str) -> list[Seen]:
        return [site for site in self.sites.values() if site.kind in kinds]

    def depends(self, name: str) -> frozenset[str]:
        """The latents on which the density of a site depends; a latent itself is among them."""
        own = frozenset([name]) if self.sites[name].kind == "latent" else frozenset()
        return self.needs.get((name, "log_probs"), frozenset()) | own

    def pattern(self, latent: str, site: str, label: str) -> Any:
        """Which elements of a latent each entry of an output depends on: a sparse matrix, or None."""
        place = self.outputs.index((site, label))
        closed = ClosedJaxpr(
            self.closed.jaxpr.replace(outvars=[self.closed.jaxpr.outvars[place]]), self.closed.consts
        )
        marks = [i < len(self.latents) and self.latents[i] == latent for i in range(len(self.values))]
        known = [
            None if i < len(self.latents) and not mark else value
            for i, (mark, value) in enumerate(zip(marks, self.values))
        ]  # of other latents nothing: they may decide on choices
        return dependence(closed, marks, known)[0]

    def forms_in(self, chosen: Sequence[str]) -> dict[tuple[str, str], Form]:
        """The joint form of every output in the `chosen` latents."""
        count = len(self.closed.jaxpr.invars)
        marks = [self.latents[i] in chosen if i < len(self.latents) else False for i in range(count)]
        return dict(zip(self.outputs, forms(self.closed, marks)))


def survey(bound: Program) -> Facts:
    """Run the program once without values."""
    sites = _seen(bound)
    examples = {s.name: _example(s) for s in sites.values() if s.kind in ("latent", "param")}
    outputs: list[tuple[str, str]] = []

    def outcome(latents: Mapping[str, Any], bound: Program) -> list[Any]:
        outputs.clear()
        found = []
        for name, site in bound.trace(latents).sites.items():
            for label, value in _parts(site):
                outputs.append((name, label))
                found.append(value)
        return found

    latents = tuple(sorted(examples))  # the order in which a dict is flattened
    closed = _jaxpr(outcome, examples, bound)
    count = len(closed.jaxpr.invars)
    moving = [i < len(latents) for i in range(count)]
    needs = [frozenset(latents[i] for i in each if i < len(latents)) for each in depends_on(closed, moving)]
    shapes = {output: tuple(var.aval.shape) for output, var in zip(outputs, closed.jaxpr.outvars)}
    values = (*(examples[name] for name in latents), *bound.divided()[0])
    return Facts(sites, closed, values, latents, tuple(outputs), dict(zip(outputs, needs)), shapes)


def _jaxpr(function: Callable, examples: dict, bound: Program) -> Any:
    arrays, rebuilt = bound.divided()
    return jax.make_jaxpr(lambda latents, data: function(latents, rebuilt(data)))(examples, arrays)


def check_arguments(bound: Program) -> None:
    """Refuse arguments for predictions that the program cannot have, such as a group beyond the last."""
    _seen(bound, anew=True)


def _seen(bound: Program, anew: bool = False) -> dict[str, Seen]:
    """The sites, from a run whose latents have no values; supports that they do not move are evaluated."""
    sites: dict[str, Site] = {}
    arrays, rebuilt = bound.divided()

    def look(key: Any, data: list) -> dict[str, Any]:
        found = rebuilt(data).trace(key=key, shapes_only=True, anew=anew).sites
        sites.update(found)
        return {
            name: (jax.tree.leaves(_support(site)), _given(site), parameters(site))
            for name, site in found.items()
        }

    closed, shapes = jax.make_jaxpr(look, return_shape=True)(jr.key(0), arrays)
    check(bool(sites), "model", "one with sites", "a function without any", "Call `sample` in it.")
    values = iter(_known(closed, [None, *arrays], _is_needed(shapes)))
    known = jax.tree.map(lambda _: next(values), shapes)
    found = {}
    for name, site in sites.items():
        leaves, value, law = known[name]
        support = _rebuilt(_support(site), leaves)
        found[name] = _of(site, support)
        _check_observed(site, support, value)
        check_parameters(site, law)
    return found


def _support(site: Site) -> Any:
    """The set of values of a site; where plates spread it out, as it was before."""
    law = site.distribution
    return site.support if site.support is not None else getattr(law, "support", law)


def _given(site: Site) -> Any:
    return site.value if site.kind == "observed" else 0.0


def _is_needed(shapes: dict[str, Any]) -> list[bool]:
    """Whether an output must be known; parameters of laws are looked at where that costs nothing."""
    return jax.tree.leaves(
        {
            name: ([True] * len(ends), True, dict.fromkeys(law, False))
            for name, (ends, _, law) in shapes.items()
        }
    )


def _known(closed: Any, values: list, needed: list[bool]) -> list[Any]:
    """The outputs that do not depend on the first input, a key; `Ellipsis` for the others."""
    tape = record(closed)
    masks = reached(tape, [1, *[0] * (len(tape.inputs) - 1)])
    check_indices(tape, closed.jaxpr.eqns, masks, values)
    free = [slot for slot in tape.outputs if masks[slot] == 0]
    must = [slot for slot, need in zip(tape.outputs, needed) if need and masks[slot] == 0]
    found = evaluate(tape, free, values, compiled=False)
    found |= evaluate(tape, set(must) - set(found), values)
    return [found.get(slot, ...) for slot in tape.outputs]


def _rebuilt(support: Any, leaves: list) -> Support | None:
    """The support with its values; None where one is unknown."""
    if not isinstance(support, Support) or any(leaf is ... for leaf in leaves):
        return None
    return jax.tree.unflatten(jax.tree.structure(support), leaves)


def _check_observed(site: Site, support: Support | None, value: Any) -> None:
    if site.kind != "observed" or support is None or value is ...:
        return
    fix = f"It is observed at {site.line}; leave such entries out."
    check_entries(site.name, value, lambda v: np.asarray(support.contains(v)), support.words, fix)


def _of(site: Site, support: Support | None) -> Seen:
    law = site.distribution if isinstance(site.distribution, Distribution) else None
    shape = tuple(np.shape(site.value)) if site.value is not None else ()
    family = None if law is None else type(law)
    return Seen(
        site.name,
        site.kind,
        family,
        shape,
        support,
        _ends(support),
        site.plates,
        site.line,
        law is not None and law.discrete,
    )


def _ends(support: Any) -> tuple[int, int] | None:
    if not isinstance(support, IntegerRange):
        return None
    low, high = np.min(support.low), np.max(support.high)
    return (int(low), int(high)) if np.isfinite(low) and np.isfinite(high) else None


def _example(site: Seen) -> Any:
    """A value of the latent, for its shape and kind of number."""
    if site.is_discrete:
        return jnp.zeros(site.shape, int)
    return jnp.zeros(site.shape)


def _parts(site: Site) -> list[tuple[str, Any]]:
    """The arrays of a site whose dependence matters: its log-densities and its parameters."""
    parts = [] if site.log_probs is None else [("log_probs", site.log_probs)]
    if isinstance(site.distribution, Distribution) and site.kind in ("latent", "observed"):
        fields = site.distribution.__dataclass_fields__
        names = [name for name, each in fields.items() if "rank" in each.metadata]
        parts += [(name, getattr(site.distribution, name)) for name in names]
    return parts
