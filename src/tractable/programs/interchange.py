r"""The posterior of a program as ArviZ has it: every group, with the plates as named axes.

Groups.      Draws of all sites, records of chains, the log-likelihood of each observed unit, and what was
             observed; with a key also draws of the prior, and predictions before and after the data.
Axes.        A plate is a dimension of its own name, with its labels as coordinates. Where that name is taken
             (by a site, or by a plate of another size), the dimension has an underscore or its size behind
             it.
Cost.        The log-likelihoods and predictions of all draws.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax.random as jr
import numpy as np

from tractable.core.module import Module
from tractable.core.types import Array, Key
from tractable.inference.arviz import bundled, records_of
from tractable.inference.posterior import each_draw
from tractable.programs.flat import Flat
from tractable.programs.run import Plate
from tractable.programs.survey import Seen, survey
from tractable.programs.trace import Program

__all__ = ["Axes", "axes_of_program", "labelled_names", "program_to_arviz"]

_PRIOR_DRAWS = 1000


class Axes(NamedTuple):
    """The dimensions of each site by name, and the places along them."""

    dims: dict[str, list[str]]
    coords: dict[str, list[Any]]


def axes_of_program(bound: Program, labels: Mapping[str, Sequence] | None = None) -> Axes:
    """The plates as named axes; `labels` are those of plates that have none of their own."""
    sites = survey(bound).sites
    taken: dict[str, Plate] = {}
    dims: dict[str, list[str]] = {}
    coords: dict[str, list[Any]] = {}
    for site in sites.values():
        own = [plate for plate in site.plates if plate.name]
        if tuple(site.shape[: len(own)]) != tuple(plate.size for plate in own):
            own = []  # something computed inside a plate, of a shape of its own
        dims[site.name] = []
        for plate in own:
            name = plate.name + ("_" if plate.name in sites else "")
            name = name if taken.setdefault(name, plate).size == plate.size else f"{name}_{plate.size}"
            given = (labels or {}).get(plate.name, range(plate.size))
            places = list(plate.labels if plate.labels is not None else given)
            coords.setdefault(name, places if len(places) == plate.size else list(range(plate.size)))
            dims[site.name].append(name)
        rest = range(len(site.shape) - len(own))
        dims[site.name] += [f"{site.name}_dim_{i}" for i in rest]
    return Axes(dims, coords)


def labelled_names(post: Any, labels: Mapping[str, Sequence] | None = None) -> dict[str, str]:
    """The scalars of a posterior by name, with the labels of places in place of their numbers."""
    axes = axes_of_program(post._program(), labels)
    found = {}
    for name, draws in post.draws.items():
        own = [axes.coords.get(dim) for dim in axes.dims.get(name, [])]
        for index in np.ndindex(*draws.shape[2:]):
            places = [i if where is None else where[i] for i, where in zip(index, own)]
            found[_scalar(name, index)] = _scalar(name, places)
    return found


def _scalar(name: str, index: Sequence) -> str:
    return f"{name}[{', '.join(map(str, index))}]" if len(index) else name


def program_to_arviz(
    post: Any,
    coords: Mapping[str, Any] | None,
    dims: Mapping[str, Sequence[str]] | None,
    key: Key | None,
) -> Any:
    """See `Posterior.to_arviz`; a posterior that was read from a file has its draws alone."""
    groups: dict[str, dict[str, np.ndarray]] = {"posterior": dict(post.draws)}
    if found := records_of(post.inner):
        groups["sample_stats"] = found
    if post._stated() is None:
        return bundled(groups, dict(coords or {}), dict(dims or {}))
    bound = post._program()
    sites = survey(bound).sites
    axes = axes_of_program(bound)
    groups |= _known(bound, post)
    if key is not None:
        groups |= _drawn(bound, post, sites, key)
    places = {**axes.coords, **(coords or {})}
    names = {name: list(own) for name, own in {**axes.dims, **(dims or {})}.items() if own}
    return bundled(groups, {name: np.asarray(each) for name, each in places.items()}, names)


def _known(bound: Program, post: Any) -> dict[str, dict[str, np.ndarray]]:
    latents = {name: post.draws[name] for name in post.explanation.latents}
    if not latents:
        return {}
    first = {name: draws[0, 0] for name, draws in latents.items()}
    seen = bound.trace(first).of_kind("observed")
    if not seen:
        return {}
    rows = each_draw(_Units(bound), latents)
    return {
        "log_likelihood": {name: np.asarray(each) for name, each in rows.items()},
        "observed_data": {name: np.asarray(each) for name, each in seen.items()},
    }


def _drawn(bound: Program, post: Any, sites: Mapping[str, Seen], key: Key) -> dict[str, Any]:
    """Predictions of the draws, and where all priors are proper, draws before the data."""
    after, before = jr.split(key)
    seen = [name for name, site in sites.items() if site.kind == "observed"]
    groups: dict[str, Any] = {}
    if seen:
        draws = _predictions(bound, post, after)
        groups["posterior_predictive"] = {name: np.asarray(draws[name]) for name in seen}
    if any(site.family is Flat or site.kind == "factor" for site in sites.values()):
        return groups
    keys = jr.split(before, (1, _PRIOR_DRAWS))
    found = each_draw(_Before(bound), keys)
    groups["prior"] = {name: value for name, value in found.items() if name not in seen}
    if seen:
        groups["prior_predictive"] = {name: found[name] for name in seen}
    return groups


def _predictions(bound: Program, post: Any, key: Key) -> dict[str, Any]:
    """New values of what was observed, one for each draw."""
    from tractable.programs.posterior import Anew

    latents = {name: post.draws[name] for name in post.explanation.latents}
    shape = next(iter(latents.values())).shape[:2] if latents else (1, _PRIOR_DRAWS)
    return each_draw(Anew(bound), (latents, jr.split(key, shape)))


class _Units(Module):
    """The log-likelihood of each unit of each observed site."""

    bound: Program

    def __call__(self, latents: Mapping[str, Array]) -> dict[str, Array]:
        return self.bound.trace(latents).log_likelihoods


class _Before(Module):
    """One run in which everything is drawn."""

    bound: Program

    def __call__(self, key: Key) -> dict[str, Any]:
        found = self.bound.trace(None, key=key, anew=True)
        return found.of_kind("observed", "deterministic")
