r"""Parts of a plate: random units of it, whose log-density counts as often as it takes to stand for all.

Identity.    With $N$ units of a plate of which $b$ are drawn, $\log p(x) \approx \sum_{s \notin n} \log p_s +
             \frac Nb \sum_{i \in B} \sum_{s \in n} \log p_{si}$ has the whole as its mean.
Data.        Arrays among the arguments whose first axis is as long as the plate go with its units. That this
             is so is looked at once: a unit must have the density in a batch that it has in the whole.
Latents.     Those inside the plate may be eliminated unit by unit; those outside stay, since a batch says
             nothing exact of them.
Cost.        That of $b$ units per evaluation, whatever $N$; the whole is summed in pieces of $b$.
References.  Hoffman, Blei, Wang and Paisley (2013), "Stochastic variational inference".
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import check, check_count
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.types import Array, Key, Scalar
from tractable.programs.reduced import Reduced
from tractable.programs.survey import Facts
from tractable.programs.trace import Program

__all__ = ["BatchDensity", "Batches", "check_units", "find_batches"]


class Batches(Module):
    """A program of which `count` units of the plate `name` are taken at a time; `places` are its arrays that
    go with the units, `local` its latents and parameters that do."""

    bound: Program
    name: str = field(static=True)
    size: int = field(static=True)
    count: int = field(static=True)
    places: tuple[int, ...] = field(static=True)
    local: tuple[str, ...] = field(static=True, default=())

    @property
    def scale(self) -> float:
        """How many units of the whole each unit of a batch stands for."""
        return self.size / self.count

    def rows(self, key: Key, steps: int) -> Array:
        """The units of each of `steps` batches."""
        return jr.randint(key, (steps, self.count), 0, self.size)

    def taken(self, rows: Any) -> Program:
        """The program with these units alone."""
        arrays, rebuilt = self.bound.divided()
        chosen = [array[rows] if i in self.places else array for i, array in enumerate(arrays)]
        return dataclasses.replace(rebuilt(chosen), sizes=((self.name, int(np.shape(rows)[0])),))

    def of_values(self, values: Mapping[str, Array], rows: Any) -> dict[str, Array]:
        """Values of latents or parameters, those of the plate for these units alone."""
        return {name: value[rows] if name in self.local else value for name, value in values.items()}


class BatchDensity(Module):
    """The log-density of latents and parameters estimated from a batch: sites `inside` the plate, and what is
    integrated there, count `batches.scale` times. `reduced` is planned for `count` units, `last` for those
    that are left over when all are taken in turn."""

    batches: Batches
    reduced: Reduced
    last: Reduced | None
    params: tuple[str, ...] = field(static=True)
    inside: tuple[str, ...] = field(static=True)

    def __call__(self, params: Mapping[str, Array], latents: Mapping[str, Array], rows: Array) -> Scalar:
        values = {**self.batches.of_values({name: params[name] for name in self.params}, rows), **latents}
        outer, inner = self.divided(self.reduced, values, rows)
        return outer + self.batches.scale * inner

    def divided(self, reduced: Reduced, values: Mapping[str, Array], rows: Array) -> tuple[Scalar, Scalar]:
        """The log-density outside of the plate, and that of these units of it."""
        bound = self.batches.taken(rows)
        sites = bound.trace(reduced.filled(values)).sites
        outer = [sites[name].log_probs.sum() for name in reduced.plain if name not in self.inside]
        inner = [sites[name].log_probs.sum() for name in reduced.plain if name in self.inside]
        inner += [part.log_evidence(bound, values) for part in reduced.parts]
        return sum(outer, start=jnp.zeros(())), sum(inner, start=jnp.zeros(()))

    def whole(self, params: Mapping[str, Array], latents: Mapping[str, Array]) -> Scalar:
        """The log-density of all units, piece by piece."""
        size, count = self.batches.size, self.batches.count
        given = {**{name: params[name] for name in self.params}, **latents}

        def piece(reduced: Reduced, rows: Array) -> tuple[Scalar, Scalar]:
            return self.divided(reduced, self.batches.of_values(given, rows), rows)

        rows = jnp.arange(size - size % count).reshape((-1, count))
        outer, inner = jax.lax.map(lambda each: piece(self.reduced, each), rows)
        rest = (
            jnp.zeros(()) if self.last is None else piece(self.last, jnp.arange(size - size % count, size))[1]
        )
        return outer[0] + inner.sum() + rest


def find_batches(bound: Program, facts: Facts, batch: Mapping[str, int]) -> Batches:
    """The plate of which batches are taken, and the arrays that go with it."""
    sizes = {plate.name: plate.size for site in facts.sites.values() for plate in site.plates}
    check(len(batch) == 1, "batch", "of one plate, as in {'row': 256}", f"{dict(batch)}")
    (name, count), *_ = batch.items()
    check(
        name in sizes, "batch", f"by the name of a plate ({', '.join(sizes) or 'there is none'})", repr(name)
    )
    count = check_count(f"batch[{name!r}]", count, 1, sizes[name])
    arrays, _ = bound.divided()
    places = tuple(i for i, array in enumerate(arrays) if np.shape(array)[:1] == (sizes[name],))
    fix = "Give the data of its units as arguments of the model."
    check(bool(places), "batch", f"of a plate whose data are arguments with {sizes[name]} rows", "none", fix)
    inside = [s for s in facts.sites.values() if any(each.name == name for each in s.plates)]
    for site in inside:
        first = site.plates[0].name
        check(
            first == name, "batch", "of an outermost plate, outside of scans", f"{site.name} within {first}"
        )
    local = [s.name for s in facts.of_kind("latent") if s in inside]
    local += [s.name for s in facts.of_kind("param") if s.shape[:1] == (sizes[name],)]
    return Batches(bound, name, sizes[name], count, places, tuple(local))


def check_units(batches: Batches, inside: tuple[str, ...], values: Mapping[str, Array], key: Key) -> None:
    """Refuse a program whose units have another density in a batch than in the whole."""
    rows = batches.rows(key, 1)[0]
    found, wanted = _densities(batches, inside, dict(values), rows)
    for name in found:
        a, b = np.asarray(found[name]), np.asarray(wanted[name])
        same = a.shape == b.shape and bool(np.allclose(a, b, rtol=1e-6, atol=1e-8, equal_nan=True))
        must = f"the same in a batch of {batches.name!r} as in the whole"
        fix = (
            "What differs from unit to unit must come from arguments whose first axis is the plate, not from "
            "the numbers of its places; what does not must not depend on such arguments."
        )
        check(same, f"the density of {name}", must, "another", fix)


@program
def _densities(batches: Batches, inside: tuple, values: dict, rows: Array) -> tuple[dict, dict]:
    whole = batches.bound.trace(values).sites
    part = batches.taken(rows).trace(batches.of_values(values, rows)).sites
    names = [name for name, site in whole.items() if site.log_probs is not None]
    found = {name: part[name].log_probs for name in names}
    return found, {n: whole[n].log_probs[rows] if n in inside else whole[n].log_probs for n in names}
