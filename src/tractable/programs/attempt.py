"""What is tried on a program: a method, and others where its answer is not certified.

Order.       Parameters are set first, then the method that was chosen answers. Where nobody asked for it and
             its verdict is not good, chains answer instead; where these settle in different modes of a small
             program, particles that begin at the prior do, if their own verdict is good. The explanation says
             so. Before chains, what the data know of normal latents decides how they are moved (`centring`).
Cost.        That of the methods that are tried.
"""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

import jax.random as jr

from tractable.core.blas import one_blas_thread
from tractable.core.types import Key
from tractable.programs.faults import check_defined, naming_sites
from tractable.programs.methods import METHODS, Answer, Task, heeded
from tractable.programs.parameters import with_params
from tractable.programs.preparing import prepared
from tractable.programs.structure import Structure, find_structure
from tractable.programs.survey import Facts
from tractable.programs.time_budget import plan_within
from tractable.programs.trace import Program

__all__ = ["Attempt", "first_tied"]

_LARGE = 300  # latents of a dense Gaussian from which on several threads help one factor
_PARTICLES = 16_000  # what the shares of modes need
_MOST_TEMPERED, _MOST_ELEMENTS = 20, 500  # free numbers, and entries of all sites: some tens of seconds
# why chains answer after a method, and how its own answer is told
_SECOND = {
    "quadrature": ("a grid was too coarse for it", ""),
    "adaptive": ("those weights were poor", "Adaptive importance sampling was tried first."),
    "nested": ("those weights were poor", "Nested Laplace was tried first."),
}


@dataclasses.dataclass(frozen=True)
class Attempt:
    """A method on the task of a structure; `said` are sentences about what happened, `begun` is the time."""

    bound: Program
    facts: Facts
    structure: Structure
    task: Task
    method: str
    why: str
    options: Mapping[str, Any]
    num_draws: int | None
    seconds: float | int | None
    begun: float
    keep: Collection[str] = ()
    search: Any = None
    said: tuple[str, ...] = ()

    @classmethod
    def of(cls, bound: Program, facts: Facts, structure: Structure, key: Key, **how: Any) -> "Attempt":
        """The task, with its parameters set."""
        task, params = prepared(bound, facts, structure)
        attempt = cls(bound, facts, structure, task, **how)
        if not params:
            return attempt
        from tractable.programs.guided import fitted

        progress = attempt.options.get("progress", True)
        task, search, said = fitted(task, facts, bool(structure.nested), params, key, progress)
        return dataclasses.replace(attempt, task=task, search=search, said=(said,))

    def answered(self, key: Key) -> tuple["Attempt", Answer]:
        """The answer, and the attempt as it was made."""
        made = self._recentred(jr.fold_in(key, 1)) if self.method in ("nuts", "mams") else self
        made = made._within_time() if made.method == "nuts" and made.seconds is not None else made
        with naming_sites(made.task, made.facts), one_blas_thread(made._is_small()):
            answer = METHODS[made.method](made.task, key, made.num_draws, heeded(made.method, made.options))
        if made.method in ("exact", "quadrature", "nested"):
            label = "undefined" if made.method == "quadrature" else "undefined_outside"
            undefined = answer.verdict.numbers.get(label, 0.0)
            check_defined(made.task, made.facts, answer.evidence.value, undefined)
        return made, answer

    def settled(self, key: Key) -> tuple["Attempt", Answer]:
        """The same, with other methods after one whose answer is not certified."""
        made, answer = self.answered(key)
        while (again := made.second(answer)) is not None:
            key = jr.fold_in(key, 2)
            other, found = again.answered(key)
            if other.method == "smc" and not found.verdict.ok:
                said = (
                    *made.said,
                    f"Particles that begin at the prior were tried too. {found.verdict.sentence}",
                )
                return dataclasses.replace(made, said=said), answer
            made, answer = other, found
        return made, answer

    def _is_small(self) -> bool:
        """Whether what is integrated has matrices too small for several threads of the linear algebra."""
        return sum(self.facts.sites[name].size for name in self.structure.gaussian) < _LARGE

    def second(self, answer: Answer) -> "Attempt | None":
        """Chains, where the answer of this method is not certified, and particles after chains."""
        if answer.verdict.ok:
            return None
        if self.method == "nuts":
            return self._tempered(answer)
        if self.method not in _SECOND:
            return None
        why, tried = _SECOND[self.method]
        said = (*self.said, f"{tried} {answer.verdict.sentence}") if tried else self.said
        chains = dataclasses.replace(self, method="nuts", why=why, said=said)
        if self.method != "nested":
            return chains
        structure = find_structure(self.facts, self.keep)
        return dataclasses.replace(chains, structure=structure, task=self._task(structure))

    def _tempered(self, answer: Answer) -> "Attempt | None":
        """Particles, where chains settled in different modes and what is left is small enough for them."""
        structure = find_structure(self.facts, self.keep)
        sizes = {name: site.size for name, site in self.facts.sites.items()}
        small = sum(sizes[name] for name in structure.remaining) <= _MOST_TEMPERED
        small = small and sum(sizes.values()) <= _MOST_ELEMENTS
        modes = any(fault.kind == "modes" for fault in getattr(answer.inner, "faults", ()))
        if not (modes and small) or self.seconds is not None or self.num_draws is not None:
            return None
        task = self._task(structure)
        if task.prior.given or first_tied(self.facts, structure) is not None:
            return None
        return dataclasses.replace(
            self, method="smc", why="chains settled in different modes", structure=structure, task=task,
            said=(*self.said, f"Chains were tried first. {answer.verdict.sentence}"), num_draws=_PARTICLES,
        )  # fmt: skip

    def _task(self, structure: Structure, noisy: tuple[str, ...] = ()) -> Task:
        """With the parameters that were found."""
        params = {} if self.search is None else self.search.params
        return with_params(prepared(self.bound, self.facts, structure, noisy)[0], params)

    def _recentred(self, key: Key) -> "Attempt":
        """Normal latents by their noise, where the data know less of them than their laws."""
        from tractable.programs.centring import candidates, information, recentred

        names, gone = candidates(self.facts, self.structure)
        if not names:
            return self
        wider = find_structure(self.facts, {*self.keep, *gone}) if gone else self.structure
        centred = self._task(wider) if gone else self.task
        known = information(centred.reduced, self._task(wider, names), names, key)
        told, noisy = recentred(wider, known)
        if noisy:
            return dataclasses.replace(self, structure=told, task=self._task(told, noisy))
        return dataclasses.replace(self, structure=recentred(self.structure, known)[0])

    def _within_time(self) -> "Attempt":
        """Chains as long as the time allows, or what is done instead."""
        assert self.seconds is not None
        plan = plan_within(self.seconds, self.begun, self.task, self.method, self.num_draws)
        return dataclasses.replace(
            self, method=plan.method, num_draws=plan.num_draws, options={**plan.options, **self.options},
            said=(*self.said, plan.said),
        )  # fmt: skip


def first_tied(facts: Facts, structure: Structure) -> tuple[str, list[str]] | None:
    """The first latent left whose law depends on eliminated ones, and these; it has no prior by itself."""
    for name in structure.remaining:
        if tied := sorted(facts.depends(name) & set(structure.eliminated)):
            return name, tied
    return None
