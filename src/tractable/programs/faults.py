r"""What is said where a program cannot be inferred: the site at fault, its line, and what to do.

Density.     Where a method finds no point of positive density, the sites that are impossible at the start are
             named, with the entries that are.
Improper.    Where the answer is not trusted and some sites have no prior, these are named.
Cost.        One run of the program, after a failure only.
"""

import contextlib
from collections.abc import Iterator

import numpy as np

from tractable.core.programs import program
from tractable.core.types import Array
from tractable.core.verdict import Verdict
from tractable.programs.flat import Flat
from tractable.programs.methods import Task
from tractable.programs.reduced import Reduced
from tractable.programs.survey import Facts

__all__ = ["about_flat", "naming_sites"]


@contextlib.contextmanager
def naming_sites(task: Task, facts: Facts) -> Iterator[None]:
    """An error of a method that finds no density is one of the sites that have none."""
    try:
        yield
    except ValueError as error:
        if "`log_density` must be" not in str(error):
            raise
        said = _impossible(task, facts)
        if said is None:
            raise
        raise ValueError(said) from error


def _impossible(task: Task, facts: Facts) -> str | None:
    """The first observed site that is impossible at the start, in words."""
    found = _log_probs(task.reduced, dict(task.start))
    for site in facts.of_kind("observed", "factor", "latent"):
        values = np.asarray(found[site.name]) if site.name in found else np.zeros(())
        wrong = np.argwhere(~np.isfinite(values))
        if len(wrong):
            place = f" at index {', '.join(map(str, wrong[0]))}" if wrong[0].size else ""
            fix = (
                f"It is at {site.line}: leave out values that its law cannot give, or give the latents that "
                "it depends on priors under which it is possible."
            )
            got = f"log-density {values[tuple(wrong[0])]}{place}, at the centre of the prior and about it"
            return f"`{site.name}` must be possible under the model; got {got}. {fix}"
    return None


@program
def _log_probs(reduced: Reduced, start: dict) -> dict[str, Array]:
    sites = reduced.bound.trace(reduced.filled(start)).sites
    return {name: site.log_probs for name, site in sites.items() if site.log_probs is not None}


def about_flat(facts: Facts, verdict: Verdict) -> Verdict:
    """A verdict that names the sites without a prior, where it does not trust the answer."""
    flat = [f"`{site.name}` at {site.line}" for site in facts.of_kind("latent") if site.family is Flat]
    if verdict.ok or not flat:
        return verdict
    said = f"{verdict.sentence} The posterior may be improper: no prior has {', '.join(flat)}."
    return Verdict(False, said, verdict.numbers)
