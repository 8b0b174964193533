r"""The graph of a program: which site depends directly on which, read off its jaxpr.

Edges.       The function is traced with its latents *and* its named computed values as inputs: what a
             density or a computed value then depends on are its parents, and nothing beyond them.
Chains.      A site whose parameters depend on the site itself follows its own earlier values in a scan.
Cost.        Two traces, nothing compiled.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from tractable.core.types import PyTree
from tractable.programs.dependence import depends_on
from tractable.programs.run import Plate, Run, recording
from tractable.programs.survey import Facts, Seen, survey
from tractable.programs.trace import Program

__all__ = ["ProgramGraph", "program_graph"]


@dataclasses.dataclass(frozen=True)
class ProgramGraph:
    """The sites of a program, the parents of each, and those that follow their own earlier values."""

    sites: dict[str, Seen]
    parents: dict[str, tuple[str, ...]]
    chained: frozenset[str]

    @property
    def frames(self) -> dict[tuple[Plate, ...], list[str]]:
        """The members of every plate, or plate within plates."""
        found: dict[tuple[Plate, ...], list[str]] = {}
        for name, site in self.sites.items():
            for depth in range(1, len(site.plates) + 1):
                found.setdefault(site.plates[:depth], []).append(name)
        return found


class _Cut(Run):
    """A run in which what was computed is replaced by what is known."""

    def __init__(self, known: dict[str, PyTree], **how: Any):
        super().__init__(**how)
        self.known, self.computed = known, {}

    def deterministic(self, name: str, value: Any) -> Any:
        self.computed[name] = value
        super().deterministic(name, value)
        return self.known.get(name, value)


def program_graph(bound: Program) -> ProgramGraph:
    """The graph of a program with its arguments."""
    facts = survey(bound)
    moving = {name: facts.values[i] for i, name in enumerate(facts.latents)}
    shapes = jax.eval_shape(lambda given: bound.trace(given).of_kind("deterministic"), moving)
    given = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    arrays, rebuilt = bound.divided()
    labels: list[str] = []

    def outcome(moving: dict, given: dict, data: list) -> list[Any]:
        labels.clear()
        program, found = rebuilt(data), []
        model = program.model
        run = _Cut(given, values=moving, observed=model.observed, fixed=model.fixed)
        with recording(run):
            model.function(*program.args, **program.options)
        for name, site in run.sites.items():
            own = run.computed.get(name, []) if site.kind == "deterministic" else site.log_probs
            for leaf in jax.tree.leaves(own):
                labels.append(name)
                found.append(jnp.asarray(leaf))
        return found

    closed = jax.make_jaxpr(outcome)(moving, given, arrays)
    inputs = [*sorted(moving), *(name for name in sorted(given) for _ in jax.tree.leaves(given[name]))]
    marks = [i < len(inputs) for i in range(len(closed.jaxpr.invars))]
    found: dict[str, set[str]] = {name: set() for name in facts.sites}
    for name, each in zip(labels, depends_on(closed, marks)):
        found[name] |= {inputs[i] for i in each if i < len(inputs)} - {name}
    order = list(facts.sites)
    parents = {name: tuple(sorted(found[name] & set(order), key=order.index)) for name in order}
    return ProgramGraph(facts.sites, parents, _chained(facts))


def _chained(facts: Facts) -> frozenset[str]:
    own = (name for (name, label), needs in facts.needs.items() if label != "log_probs" and name in needs)
    return frozenset(own)
