r"""What inference needs to know of a program before a method begins: supports, prior, start, density.

Supports.    Of each remaining latent, derived from its law. One that depends on other latents moves: such a
             latent is given by free numbers (`moving_support`), and is real.
Start.       The median of draws of the prior, in free numbers; of parameters, what the program names.
Cost.        A hundred runs of the program for the start.
"""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check
from tractable.core.support import real
from tractable.core.types import Array
from tractable.inference.joint import centre
from tractable.programs.flat import Flat
from tractable.programs.methods import Task
from tractable.programs.parameters import starts
from tractable.programs.prior import Prior
from tractable.programs.reduced import placeholder, reduce
from tractable.programs.structure import Structure
from tractable.programs.survey import Facts, Seen
from tractable.programs.trace import Program

__all__ = ["prepared"]


def prepared(
    bound: Program, facts: Facts, structure: Structure, noisy: tuple[str, ...] = ()
) -> tuple[Task, dict[str, Array]]:
    """The density of what remains, with its prior, start and supports; and the start of the parameters.

    Normal latents among `noisy` are given by their noise.
    """
    moving = tuple(name for name in structure.remaining if facts.sites[name].support is None)
    for name in moving:
        _check_may_move(facts, structure, facts.sites[name])
    moving = (*moving, *noisy)
    bound = dataclasses.replace(bound, moving=moving)
    supports = {n: real if n in moving else facts.sites[n].support for n in structure.remaining}
    prior = _prior(bound, facts, structure)
    start = centre(prior, supports) if structure.remaining else {}
    params = starts(prior) if facts.of_kind("param") else {}
    reduced = reduce(bound, facts, structure, {**start, **params})
    return Task(reduced, prior, start, supports), params


def _check_may_move(facts: Facts, structure: Structure, site: Seen) -> None:
    """Refuse a support that depends on what was integrated out: its latent has no coordinates then."""
    needs = [
        facts.needs[of, label] for of, label in facts.outputs if of == site.name and label != "log_probs"
    ]
    gone = sorted(frozenset().union(*needs) & set(structure.eliminated))
    law = site.family.__name__ if site.family else ""
    fix = f"It is sampled at {site.line}. Sample a share of the range, and scale it."
    must = "of a support that does not depend on latents that are summed over or integrated"
    check(not gone, site.name, must, f"{law} that depends on {', '.join(gone)}", fix)


def _prior(bound: Program, facts: Facts, structure: Structure) -> Prior:
    flat = [site for site in facts.of_kind("latent") if site.family is Flat]
    given = {site.name: _interior(site) for site in flat}
    others = {name: placeholder(facts, name) for name in structure.eliminated}
    return Prior(bound, structure.remaining, given, others)


def _interior(site: Seen) -> Any:
    assert site.support is not None
    return jnp.asarray(site.support.interior(np.zeros(site.shape)))
