r"""Inference with a guide, and parameters that are sought: how programs, guides and batches come together.

Guides.      A written guide keeps its latents from being eliminated; an automatic one covers what remains.
Parameters.  With `method="svi"` they climb with the guide. With any other method they are set first:
             exactly where no latent remains, else by the bound of an automatic guide, and the method then
             goes on with these values.
Cost.        That of the ascent (`svi`).
"""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.bijections.support import unconstrain
from tractable.core.checks import check
from tractable.core.types import Array, Key
from tractable.programs.batches import BatchDensity, Batches, check_units, find_batches
from tractable.programs.guides import Automatic, Written, check_sites, written_guide
from tractable.programs.methods import Answer, Task
from tractable.programs.parameters import Search, most_likely, param_supports, starts, with_params
from tractable.programs.placing import placed
from tractable.programs.preparing import prepared
from tractable.programs.structure import Structure, find_structure
from tractable.programs.survey import Facts, survey
from tractable.programs.svi import Bound, Whole, ascend, judged, parameters_of
from tractable.programs.trace import Program

__all__ = ["Guided", "fitted", "infer_guided"]

_FULL_RANK_MOST = 50  # free numbers, beyond which an automatic guide is a mean field


@dataclasses.dataclass(frozen=True)
class Guided:
    """What came of inference with a guide."""

    task: Task
    structure: Structure
    answer: Answer
    search: Search
    sentences: tuple[str, ...]
    batched: bool


def fitted(
    task: Task, facts: Facts, nested: bool, params: Mapping[str, Array], key: Key, progress: bool
) -> tuple[Task, Search, str]:
    """The task with its parameters set to what makes the data most likely, and a sentence about it."""
    supports, names = param_supports(facts), ", ".join(params)
    if not task.start:
        search = most_likely(task.reduced, params, supports)
        value = "Laplace's value of the" if nested else "the exact"
        said = f"Parameters ({names}): set where {value} evidence is largest. {search.said}"
        return with_params(task, search.params), search, said
    guide = _automatic(task)
    family = "full_rank" if guide.centre.size <= _FULL_RANK_MOST else "mean_field"
    bound = Bound(Whole(task.reduced, tuple(params)), guide)
    key_family, key_climb = jr.split(key)
    first = parameters_of(guide, params, family, key_family, False)
    found, _, made = ascend(bound, first, supports, key_climb, {"progress": progress})
    search = Search(found["params"], None, made.num_steps, made.code, np.asarray(made.values))
    said = (
        f"Parameters ({names}): set where a bound on the evidence is largest, that of a {family} guide; "
        "the evidence itself has its maximum elsewhere where the posterior is not Gaussian. "
        f"{search.status.sentence}"
    )
    return with_params(task, search.params), search, said


def infer_guided(
    bound: Program,
    facts: Facts,
    keep: Collection[str],
    guide: Any,
    batch: Mapping[str, int] | None,
    key: Key,
    num_draws: int | None,
    options: Mapping[str, Any],
) -> Guided:
    """The answer of a guide, written or automatic, on all units or on batches of a plate."""
    batches = None if batch is None else find_batches(bound, facts, batch)
    written = written_guide(guide, bound)
    own = [] if written is None else [site.name for site in written[1].of_kind("latent")]
    keep = (*keep, *own, *_outside(facts, batches))
    key_units, key_place, key_family, key_climb, key_judge = jr.split(key, 5)
    part = bound if batches is None else batches.taken(np.arange(batches.count))
    seen = facts if batches is None else survey(part)
    structure = find_structure(seen, keep)
    check(bool(structure.remaining), "method", "'auto': no latent is left for a guide", "'svi'")
    task, params = prepared(part, seen, structure)
    if batches is None:
        density: Any = Whole(task.reduced, tuple(params))
    else:
        density = _batched(bound, batches, task, params, keep, structure, written is None, key_units)
        params = starts(dataclasses.replace(task.prior, bound=bound)) if params else {}
    supports = param_supports(facts)
    if written is None:
        used: Any = _automatic(task)
        if batches is not None:
            rows = batches.rows(key_place, 1)[0]
            place = placed(density, used.latents, used.centre, params, rows)
            used = Automatic(used.latents, *place)
    else:
        moving = task.reduced.bound.moving
        fix = "Name an automatic guide, such as 'full_rank'."
        check(not moving, "guide", "automatic where supports depend on latents", ", ".join(moving), fix)
        check_sites(written[1], facts, structure.remaining)
        used = _written(*written, batches, structure.remaining)
        params, supports = params | _starts(written[0]), supports | param_supports(written[1])
    climbed = Bound(density, used)
    family = guide if written is None else ""
    first = parameters_of(used, params, family, key_family, batches is not None)
    found, _, made = ascend(climbed, first, supports, key_climb, options)
    mine = {site.name: found["params"][site.name] for site in facts.of_kind("param")}
    task = with_params(task, mine)
    answer, search = judged(task, climbed, found, made, key_judge, num_draws)
    return Guided(task, structure, answer, search, _said(guide, written, batches), batches is not None)


def _said(guide: Any, written: Any, batches: Batches | None) -> tuple[str, ...]:
    name = f"the guide {written[0].model.name}" if written is not None else f"a {guide} guide"
    said = f"Draws are those of {name}, which maximises a lower bound on the log-evidence."
    if batches is None:
        return (said,)
    return (
        said,
        f"Each step sees {batches.count} of the {batches.size} units of {batches.name}, which count "
        f"{batches.scale:g} times; what is inside of that plate is not drawn.",
    )


def _automatic(task: Task) -> Automatic:
    free, rebuild = unconstrain(dict(task.start), task.supports)
    return Automatic(rebuild, free, jnp.ones_like(free))


def _written(bound: Program, facts: Facts, batches: Batches | None, remaining: tuple[str, ...]) -> Written:
    params = tuple(site.name for site in facts.of_kind("param"))
    moves = any(site.support is None for site in facts.of_kind("latent"))
    if batches is None:
        return Written(bound, None, remaining, params, (), moves)
    arrays, _ = bound.divided()
    places = tuple(i for i, each in enumerate(arrays) if np.shape(each)[:1] == (batches.size,))
    local = [s.name for s in facts.of_kind("param") if s.shape[:1] == (batches.size,)]
    inside = [s.name for s in facts.of_kind("latent") if any(p.name == batches.name for p in s.plates)]
    given = (batches.size, batches.count, places, tuple(local))
    return Written(bound, Batches(bound, batches.name, *given), remaining, params, tuple(inside), moves)


def _starts(bound: Program) -> dict[str, Array]:
    from tractable.programs.prior import Prior

    return starts(Prior(bound, (), {}, {}))


def _outside(facts: Facts, batches: Batches | None) -> list[str]:
    """The latents that stay where only a part of a plate is seen."""
    if batches is None:
        return []
    names = []
    for site in facts.of_kind("latent"):
        within = any(plate.name == batches.name for plate in site.plates)
        fix = "Leave `batch` out, or put it inside the plate."
        must = f"inside of the plate {batches.name!r}, to be summed over in batches"
        check(within or not site.is_discrete, site.name, must, f"a discrete latent at {site.line}", fix)
        if not within:
            names.append(site.name)
    return names


def _batched(
    bound: Program,
    batches: Batches,
    task: Task,
    params: Mapping[str, Array],
    keep: Collection[str],
    structure: Structure,
    automatic: bool,
    key: Key,
) -> BatchDensity:
    local = [name for name in structure.remaining if name in batches.local]
    fix = "Write a guide with these sites, whose parameters it computes of the data of each unit."
    check(not (automatic and local), "batch", "of a plate without latents that remain", ", ".join(local), fix)
    facts = survey(task.reduced.bound)
    inside = tuple(
        s.name for s in facts.sites.values() if any(plate.name == batches.name for plate in s.plates)
    )
    last, rest = None, batches.size % batches.count
    if rest:
        piece = batches.taken(np.arange(rest))
        seen = survey(piece)
        last = prepared(piece, seen, find_structure(seen, keep))[0].reduced
    _check_whole(bound, batches, task, inside, key)
    return BatchDensity(batches, task.reduced, last, tuple(params), inside)


def _check_whole(bound: Program, batches: Batches, task: Task, inside: tuple[str, ...], key: Key) -> None:
    """Look at the units at some values of all latents."""
    values = dict(task.reduced.filled(task.start))
    for name in batches.local:
        if name in values:
            shape = (batches.size, *np.shape(values[name])[1:])
            values[name] = jnp.broadcast_to(values[name][:1], shape)
    check_units(batches, inside, values, key)
