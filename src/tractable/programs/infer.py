r"""`infer`: the posterior of a program, exact where it can be and certified where it cannot.

Choice.      Latents with an exact integral are eliminated (`structure`). With nothing left the answer is
             exact; one or two free numbers are integrated by quadrature; more go to Markov chains. Every
             method can be asked for by name.
Draws.       For each draw of what remained, one exact draw of what was eliminated.
Cost.        Two traces of the program, then the method's; new data of the same shapes use the same
             programs.
"""

from collections.abc import Collection
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import check, check_count, check_option, to_device
from tractable.core.host_random import generator
from tractable.core.keys import takes_key
from tractable.core.types import Array, Key, PyTree
from tractable.inference.joint import centre
from tractable.inference.posterior import each_draw, with_target
from tractable.programs.explanation import Explanation
from tractable.programs.flat import Flat
from tractable.programs.language import Model
from tractable.programs.methods import METHODS, Answer, Task
from tractable.programs.posterior import ProgramPosterior, Stated
from tractable.programs.prior import Prior
from tractable.programs.reduced import Reduced, placeholder, reduce
from tractable.programs.structure import Structure, find_structure
from tractable.programs.survey import Facts, Seen, survey
from tractable.programs.trace import Program, bind

__all__ = ["infer"]

_EXACT_DRAWS = 4000  # that stand for an exact posterior, or for one on a grid


@takes_key
def infer(
    model: Model | Program,
    *args: Any,
    key: Key,
    method: str = "auto",
    keep: Collection[str] = (),
    num_draws: int | None = None,
    options: dict[str, Any] | None = None,
    progress: bool = True,
    **data: Any,
) -> ProgramPosterior:
    """The posterior of the latents of `model`, run with `args` and `data`.

    `method` is "auto", "exact", "quadrature", "nuts", "mams", "metropolis", "laplace", "pathfinder", "vi",
    "smc" or "importance"; `options` go to it. Latents in `keep` are not eliminated. Arguments of the model
    that have the name of an option here are given by `model.bind(...)`.

    >>> from tractable.distributions import Beta, Bernoulli
    >>> from tractable.programs import model, plate, sample
    >>> @model
    ... def coin(tosses):
    ...     bias = sample("bias", Beta(2.0, 2.0))
    ...     with plate("toss", len(tosses)):
    ...         sample("tosses", Bernoulli(bias), obs=tosses)
    >>> post = infer(coin, jnp.array([1, 1, 1, 0]), key=0)
    >>> bool(abs(post["bias"].mean() - 0.625) < 0.02)
    True
    """
    check_option("method", method, ("auto", *METHODS))
    bound = model if isinstance(model, Program) else bind(model, args, data)
    facts = survey(bound)
    structure = find_structure(facts, keep)
    supports, prior = _supports(facts, structure), _prior(bound, facts, structure)
    start = centre(prior, supports) if structure.remaining else {}
    reduced = reduce(bound, facts, structure, start)
    chosen, why = (method, "as asked") if method != "auto" else _chosen(facts, structure)
    _check_possible(chosen, facts, structure)
    draws_key, back_key = jr.split(key)
    count = None if num_draws is None else check_count("num_draws", num_draws)
    how = {"progress": progress, **(options or {})}
    task = Task(reduced, prior, start, supports)
    answer = METHODS[chosen](task, draws_key, count, how)
    if method == "auto" and chosen == "quadrature" and not answer.verdict.ok:
        chosen, why = "nuts", "a grid was too coarse for it"
        answer = METHODS[chosen](task, draws_key, count, how)
    draws = _restored(reduced, answer, back_key)
    explanation = _explained(facts, structure, chosen, why)
    post = ProgramPosterior(draws, answer.inner, answer.evidence, answer.verdict, explanation)
    return with_target(post, Stated.of(bound, facts.latents))


def _chosen(facts: Facts, structure: Structure) -> tuple[str, str]:
    """The method that fits, and the reason."""
    left = sum(facts.sites[name].size for name in structure.remaining)
    if left == 0:
        return "exact", "everything has an exact answer"
    if left <= 2:
        return "quadrature", f"{left} free number{'s' if left > 1 else ''} can be integrated on a grid"
    return "nuts", f"{left} free numbers remain"


def _check_possible(method: str, facts: Facts, structure: Structure) -> None:
    rest = ", ".join(structure.remaining)
    for name in structure.remaining if method in ("smc", "importance") else ():
        tied = sorted(facts.depends(name) & set(structure.eliminated))
        fix = f"Keep them with `keep={tied}`, or choose another method."
        check(
            not tied,
            "method",
            f"other than {method}: {name} depends on latents that were eliminated",
            tied,
            fix,
        )
    fix = "Choose another method, or `method='auto'`."
    check(method != "exact" or not rest, "method", "other than 'exact' with latents left", rest, fix)
    check(method == "exact" or bool(rest), "method", "'exact' or 'auto': no latent is left", method)


def _supports(facts: Facts, structure: Structure) -> dict[str, Any]:
    found = {}
    for name in structure.remaining:
        site = facts.sites[name]
        fix = f"It is sampled at {site.line}. Sample a share of the range, and scale it."
        must = "of a support that does not depend on other latents"
        check(site.support is not None, name, must, f"{site.family.__name__ if site.family else ''}", fix)
        found[name] = site.support
    return found


def _prior(bound: Program, facts: Facts, structure: Structure) -> Prior:
    flat = [site for site in facts.of_kind("latent") if site.family is Flat]
    given = {site.name: _interior(site) for site in flat}
    others = {name: placeholder(facts, name) for name in structure.eliminated}
    return Prior(bound, structure.remaining, given, others)


def _interior(site: Seen) -> Array:
    assert site.support is not None
    return jnp.asarray(site.support.interior(np.zeros(site.shape)))


def _restored(reduced: Reduced, answer: Answer, key: Key) -> dict[str, np.ndarray]:
    """The draws of all sites."""
    remaining = answer.draws
    shape = answer.shape
    words = generator(key).integers(0, 2**32, (*shape, 2), np.uint32)
    keys = jr.wrap_key_data(to_device(words))
    found = each_draw(_back, (remaining, keys), (reduced,))
    return {name: np.asarray(value) for name, value in found.items()}


def _back(pair: tuple[PyTree, Key], reduced: Reduced) -> dict[str, Any]:
    return reduced.restored(pair[1], pair[0])


def _explained(facts: Facts, structure: Structure, method: str, why: str) -> Explanation:
    latents = facts.of_kind("latent")
    before = sum(site.size for site in latents)
    after = sum(facts.sites[name].size for name in structure.remaining)
    parts = [
        f"{len(names)} {kind} ({', '.join(names)})"
        for kind, names in (
            ("summed over", structure.discrete),
            ("integrated", tuple(n for n in structure.eliminated if n not in structure.discrete)),
        )
        if names
    ]
    said = [f"{before} unknown numbers, {after} after elimination: " + ("; ".join(parts) or "none") + "."]
    said.append(f"Method: {method}, since {why}.")
    rows = [
        (
            site.name,
            site.family.__name__ if site.family else site.kind,
            "x".join(map(str, site.shape)) or "1",
            "observed" if site.kind == "observed" else structure.reasons.get(site.name, site.kind),
        )
        for site in facts.sites.values()
    ]
    order = tuple(facts.latents)
    return Explanation(tuple(said), tuple(rows), order, before, after)
