r"""What is said where a program cannot be inferred: the site at fault, its line, and what to do.

Density.     Where a method finds no point of positive density, the sites that are impossible at the start are
             named, with the entries that are.
Improper.    Where the answer is not trusted, sites without a prior and those whose draws run away are named.
Cost.        One run of the program, after a failure only.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any

import jax
import jax.random as jr
import numpy as np

from tractable.core.checks import offender
from tractable.core.programs import program
from tractable.core.types import Array, Key
from tractable.core.verdict import Verdict
from tractable.programs.data_checks import parameters
from tractable.programs.flat import Flat
from tractable.programs.methods import Task
from tractable.programs.prior import Prior
from tractable.programs.reduced import Reduced
from tractable.programs.survey import Facts, Seen

__all__ = ["about_improper", "check_defined", "naming_sites"]


_FAR = 1e15  # between the tenths of draws: heavy tails have less
_POINTS = 8  # draws of the prior at which a fault is sought
_NO_DENSITY = ("`log_density` must be", "`start` must be a point with a finite log-density")


@contextlib.contextmanager
def naming_sites(task: Task, facts: Facts) -> Iterator[None]:
    """An error of a method that finds no density is one of the sites that have none."""
    try:
        yield
    except ValueError as error:
        if not any(words in str(error) for words in _NO_DENSITY):
            raise
        raise ValueError(_impossible(task, facts) or _unbounded(facts, str(error))) from error


def check_defined(task: Task, facts: Facts, value: Any, undefined: float) -> None:
    """Refuse an evidence that is no number, or a density that is none on a part of the support, where a site
    is at fault: else the posterior is improper, or its Gaussian part has lost its digits there."""
    nowhere = np.isnan(value)
    said = _impossible(task, facts, np.isfinite if nowhere else _defined) if nowhere or undefined else None
    if said is not None:
        raise ValueError(said)


def _defined(values: np.ndarray) -> Any:
    return ~np.isnan(values)


def _impossible(task: Task, facts: Facts, fine: Callable = np.isfinite) -> str | None:
    """The first site that is not `fine` at the start, or else at some draw of the prior, in words."""
    points = [task.start, *(_drawn(task.prior, key) for key in jr.split(jr.key(0), _POINTS))]
    return next(filter(None, (_impossible_at(task, facts, dict(point), fine) for point in points)), None)


def _impossible_at(task: Task, facts: Facts, point: dict, fine: Callable) -> str | None:
    found = _traced(task.reduced, point)
    for site in facts.of_kind("observed", "factor", "latent"):
        log_probs, law = found.get(site.name, (np.zeros(()), {}))
        values = np.asarray(log_probs)
        wrong = np.argwhere(~fine(values))
        if len(wrong):
            place = f" at index {', '.join(map(str, wrong[0]))}" if wrong[0].size else ""
            got = f"log-density {values[tuple(wrong[0])]}{place}, at a point of the prior"
            fix = (
                _missing(task)
                or _outside(site, law)
                or "Leave out values that its law cannot give, or give the latents that it depends on priors "
                "under which it is possible."
            )
            return f"`{site.name}` must be possible under the model; got {got}. It is at {site.line}. {fix}"
    return None


def _missing(task: Task) -> str:
    """The arguments that have entries which are no numbers."""
    bound = task.reduced.bound
    for name, value in {**dict(enumerate(bound.args)), **bound.options}.items():
        for leaf in jax.tree.leaves(value):
            if isinstance(leaf, jax.Array | np.ndarray) and leaf.dtype.kind == "f":
                wrong = np.argwhere(np.isnan(np.asarray(leaf)))
                if len(wrong):
                    place = ", ".join(map(str, wrong[0]))
                    return (
                        f"The argument `{name}` has NaN at index {place}: leave such rows out, or make what "
                        "is missing a latent."
                    )
    return ""


def _outside(site: Seen, law: Mapping[str, Any]) -> str:
    """The parameter of a law that is outside of its support."""
    own = {} if site.family is None else {f.name: f.metadata.get("support") for f in fields(site.family)}
    for name, value in law.items():
        support, values = own.get(name), np.asarray(value)
        if support is None:
            continue
        fine = np.asarray(support.contains(values))
        if not fine.all():
            must = f"Its `{name}` is {offender(values, fine)} there, and must be {support.words}"
            return f"{must}: let it be so for all values of what it depends on, as by `jax.numpy.exp`."
    return ""


def _unbounded(facts: Facts, error: str) -> str:
    """What may be wrong where all is well at the start, and is not far from it."""
    latents = ", ".join(f"`{site.name}` at {site.line}" for site in facts.of_kind("latent"))
    return (
        f"The posterior of {latents} must have a density that is a number wherever it has mass: {error} "
        "It may be improper, as where a spread may go to zero since all that it spreads is alike, or where a "
        "latent is flat. Give such latents priors that have little mass at zero and far away."
    )


@program
def _drawn(prior: Prior, key: Key) -> dict[str, Array]:
    return prior.sample(key, ())


@program
def _traced(reduced: Reduced, start: dict) -> dict[str, tuple[Array, dict]]:
    sites = reduced.bound.trace(reduced.filled(start)).sites
    return {
        name: (site.log_probs, parameters(site)) for name, site in sites.items() if site.log_probs is not None
    }


def about_improper(facts: Facts, verdict: Verdict, draws: Mapping[str, Any]) -> Verdict:
    """A verdict that names sites without a prior, or whose draws run away, where it is not good."""
    if verdict.ok:
        return verdict
    latents = facts.of_kind("latent")
    flat = [f"`{site.name}` at {site.line}" for site in latents if site.family is Flat]
    away = [f"`{site.name}` at {site.line}" for site in latents if _runs_away(draws.get(site.name))]
    said = [f"no prior has {', '.join(flat)}"] if flat else []
    said += [f"draws run away towards zero or infinity in {', '.join(away)}"] if away else []
    if not said:
        return verdict
    sentence = f"{verdict.sentence} The posterior may be improper: {'; '.join(said)}."
    return Verdict(False, sentence, verdict.numbers)


def _runs_away(draws: Any) -> bool:
    """Whether the sizes of draws range over more than any proper posterior does."""
    if draws is None or np.asarray(draws).dtype.kind != "f":
        return False
    low, high = np.quantile(np.abs(draws), (0.1, 0.9))
    return not high < _FAR * max(low, 1e-300)
