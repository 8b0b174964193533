r"""`infer`: the posterior of a program, exact where it can be and certified where it cannot.

Choice.      Latents with an exact integral are eliminated (`structure`). With nothing left the answer is
             exact; one or two free numbers are integrated by quadrature; normal latents below other
             likelihoods by Laplace's method with weights; the rest goes to Markov chains. Every method can be
             asked for by name.
Draws.       For each draw of what remained, one exact draw of what was eliminated.
Cost.        Two traces of the program, then the method's; new data of the same shapes use the same
             programs.
"""

import dataclasses
import time
from collections.abc import Collection, Mapping
from typing import Any

import jax.random as jr
import numpy as np

from tractable.core.blas import one_blas_thread
from tractable.core.checks import check, check_count, check_option
from tractable.core.host_random import generator
from tractable.core.keys import takes_key
from tractable.core.types import Array, Key, PyTree
from tractable.core.verdict import Verdict
from tractable.inference.posterior import each_draw, with_target
from tractable.programs.attempt import Attempt, first_tied
from tractable.programs.explanation import Explanation
from tractable.programs.faults import about_improper
from tractable.programs.language import Model
from tractable.programs.methods import METHODS, Answer, check_options
from tractable.programs.posterior import ProgramPosterior, Stated
from tractable.programs.reduced import Reduced
from tractable.programs.structure import Structure, find_structure
from tractable.programs.survey import Facts, Seen, survey
from tractable.programs.trace import Program, bind

__all__ = ["infer"]

_MOST_ADAPTED = 6  # numbers left for adaptive importance sampling, where densities take long
_EXACT_DRAWS = 4000  # that stand for an exact posterior, or for one on a grid


@takes_key
def infer(
    model: Model | Program,
    *args: Any,
    key: Key,
    method: str = "auto",
    guide: Any = None,
    batch: Mapping[str, int] | None = None,
    keep: Collection[str] = (),
    num_draws: int | None = None,
    seconds: float | int | None = None,
    options: dict[str, Any] | None = None,
    progress: bool = True,
    **data: Any,
) -> ProgramPosterior:
    """The posterior of the latents of `model`, run with `args` and `data`.

    `method` is "auto", "exact", "quadrature", "nested", "adaptive", "nuts", "mams", "metropolis", "laplace",
    "pathfinder", "vi", "smc", "importance" or "svi"; `options` go to it, with "auto" also to chains if they
    answer. With "svi", `guide` is a model of the same latents, or "full_rank", "mean_field" or "low_rank",
    and `batch={"row": 256}` takes random units of a plate at each step. Latents in `keep` are not eliminated.
    Parameters (`param`) are set to what makes the data most likely. With `seconds`, chains are shortened, or
    given up, to end within about that time. Arguments of the model that have the name of an option here are
    given by `model.bind(...)`.

    >>> import jax.numpy as jnp
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
    begun = time.monotonic()
    check_option("method", method, ("auto", "svi", *METHODS))
    bound = model if isinstance(model, Program) else bind(model, args, data)
    facts = survey(bound)
    for name in keep:
        check_option("keep", name, tuple(site.name for site in facts.of_kind("latent")))
    count = None if num_draws is None else check_count("num_draws", num_draws)
    how = {"progress": progress, **(options or {})}
    timed = seconds is None or (method in ("auto", "nuts") and guide is None and batch is None)
    check(timed, "seconds", "left out but for `method='auto'` and 'nuts'", seconds)
    if method == "svi" or guide is not None or batch is not None:
        fits = method in ("auto", "svi")
        check(fits, "method", "'svi' with a guide or batches", method, "Leave `guide` and `batch` out.")
        return _guided(bound, facts, keep, guide, batch, key, count, how)
    structure, chosen, why = _chosen(facts, keep, method)
    _check_possible(chosen, facts, structure)
    if options:
        check_options(options, chosen, *(("nuts",) if method == "auto" else ()))
    draws_key, back_key = jr.split(key)
    attempt = Attempt.of(
        bound, facts, structure, jr.fold_in(key, 1), method=chosen, why=why, options=how, num_draws=count,
        seconds=seconds, begun=begun, keep=keep,
    )  # fmt: skip
    answered = attempt.settled if method == "auto" else attempt.answered
    attempt, answer = answered(draws_key)
    return _posterior(attempt, answer, back_key)


def _posterior(attempt: Attempt, answer: Answer, key: Key) -> ProgramPosterior:
    """Draws of all sites, and what is said of them."""
    facts, search = attempt.facts, attempt.search
    with one_blas_thread():
        draws = _restored(attempt.task.reduced, answer, key)
    explanation = _explained(facts, attempt.structure, attempt.method, attempt.why, attempt.said)
    verdict = about_improper(facts, answer.verdict, draws)
    if search is not None and not search.status.ok:
        verdict = Verdict(False, f"{search.verdict.sentence} {verdict.sentence}", verdict.numbers)
    post = ProgramPosterior(draws, answer.inner, answer.evidence, verdict, explanation, search)
    return with_target(post, _stated(attempt.task.reduced, facts))


def _guided(
    bound: Program,
    facts: Facts,
    keep: Collection[str],
    guide: Any,
    batch: Mapping[str, int] | None,
    key: Key,
    num_draws: int | None,
    options: dict[str, Any],
) -> ProgramPosterior:
    """The posterior by a guide."""
    from tractable.programs.guided import infer_guided

    own_key, back_key = jr.split(key)
    given = "full_rank" if guide is None else guide
    found = infer_guided(bound, facts, keep, given, batch, own_key, num_draws, options)
    answer, why = found.answer, "as asked"
    if found.batched:
        draws = {name: np.asarray(value) for name, value in answer.draws.items()}
        known = tuple(name for name in facts.latents if name in draws)
    else:
        draws, known = _restored(found.task.reduced, answer, back_key), None
    explanation = _explained(facts, found.structure, "svi", why, found.sentences, known)
    parts = (answer.inner, answer.evidence, answer.verdict, explanation, found.search)
    post = ProgramPosterior(draws, *parts)
    return post if found.batched else with_target(post, _stated(found.task.reduced, facts))


def _stated(reduced: Reduced, facts: Facts) -> Stated:
    latents = tuple(site.name for site in facts.of_kind("latent"))
    return Stated.of(dataclasses.replace(reduced.bound, moving=()), latents)


def _chosen(facts: Facts, keep: Collection[str], method: str) -> tuple[Structure, str, str]:
    """What is eliminated, the method that fits the rest, and the reason."""
    from tractable.programs.marginal_part import is_dear
    from tractable.programs.nested import nested_structure, pays

    if method == "nested":
        return nested_structure(facts, keep), method, "as asked"
    structure = find_structure(facts, keep)
    left = sum(facts.sites[name].size for name in structure.remaining)
    if method != "auto":
        return structure, method, "as asked"
    if left == 0:
        return structure, "exact", "everything has an exact answer"
    if left <= 2:
        numbers = f"{left} free number{'s' if left > 1 else ''}"
        return structure, "quadrature", f"{numbers} can be integrated on a grid"
    found = nested_structure(facts, keep)
    if pays(facts, structure, found):
        return found, "nested", "normal latents below other likelihoods leave few numbers outside"
    if is_dear(facts, structure) and left <= _MOST_ADAPTED:
        return structure, "adaptive", f"{left} free numbers remain, each density of which takes long"
    return structure, "nuts", f"{left} free numbers remain"


def _check_possible(method: str, facts: Facts, structure: Structure) -> None:
    rest = ", ".join(structure.remaining)
    found = first_tied(facts, structure) if method in ("smc", "importance") else None
    if found is not None:
        name, tied = found
        must = f"other than {method}: {name} depends on latents that were eliminated"
        check(False, "method", must, tied, f"Keep them with `keep={tied}`, or choose another method.")
    fix = "Choose another method, or `method='auto'`."
    check(method != "exact" or not rest, "method", "other than 'exact' with latents left", rest, fix)
    free = method == "exact" or bool(structure.nested)
    check(free or bool(rest), "method", "'exact' or 'auto': no latent is left", method)


def _restored(reduced: Reduced, answer: Answer, key: Key) -> dict[str, np.ndarray]:
    """The draws of all sites."""
    remaining = answer.draws
    shape = answer.shape
    words = generator(key).integers(0, 2**32, (*shape, 2), np.uint32)
    found = each_draw(_back, (remaining, words), (reduced,))
    return {name: np.asarray(value) for name, value in found.items()}


def _back(pair: tuple[PyTree, Array], reduced: Reduced) -> dict[str, Any]:
    """All sites of one draw; its key is made here, since blocks of draws overlap."""
    return reduced.restored(jr.wrap_key_data(pair[1]), pair[0])


def _explained(
    facts: Facts,
    structure: Structure,
    method: str,
    why: str,
    more: tuple[str, ...] = (),
    known: tuple[str, ...] | None = None,
) -> Explanation:
    latents = facts.of_kind("latent")
    before = sum(site.size for site in latents)
    after = sum(facts.sites[name].size for name in structure.remaining)
    summed = (*structure.discrete, *structure.nested)
    parts = [
        f"{len(names)} {kind} ({', '.join(names)})"
        for kind, names in (
            ("summed over", structure.discrete),
            ("integrated", tuple(n for n in structure.eliminated if n not in summed)),
            ("integrated by Laplace's method", structure.nested),
        )
        if names
    ]
    said = [f"{before} unknown numbers, {after} after elimination: " + ("; ".join(parts) or "none") + "."]
    said += [*more, f"Method: {method}, since {why}."]
    rows = [
        (
            site.name,
            site.family.__name__ if site.family else site.kind,
            "x".join(map(str, site.shape)) or "1",
            _happened(site, structure),
        )
        for site in facts.sites.values()
    ]
    order = tuple(site.name for site in latents) if known is None else known
    return Explanation(tuple(said), tuple(rows), order, before, after)


def _happened(site: Seen, structure: Structure) -> str:
    if site.kind == "param":
        return "set where the data are most likely"
    return "observed" if site.kind == "observed" else structure.reasons.get(site.name, site.kind)
