r"""Nested Laplace: Gaussian latents below any likelihood are integrated by Laplace's method inside, the few
numbers that are left outside by quadrature or importance sampling, and weights make the whole exact.

Latents.     Normal sites whose locations are jointly affine in each other and whose spreads are free of each
             other; what depends on them may be anything that no discrete latent has a part in.
Outside.     $e^{V(\theta)}$, Laplace's value: nothing left is a single value, one or two numbers a grid, more
             an adaptive importance sampler from its mode.
Weights.     Those of $\theta$ times those of $x$ given $\theta$ (`laplace_draws`): the mean is the evidence,
             with its standard error; their tail is the verdict. What is given back is resampled by them.
Modes.       Searches from far away must end where the others did: draws about one mode know of no other.
Pays.        Where it leaves at most half of the numbers that exact elimination leaves, and few of them.
Cost.        Some thousand values outside, and as many draws.
References.  Rue, Martino and Chopin (2009); Geweke (1989); Cornuet et al. (2012).
"""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

import jax
import jax.random as jr
import numpy as np

from tractable.core.blas import one_blas_thread
from tractable.core.checks import check, to_device
from tractable.core.host_random import generator
from tractable.core.programs import light, program
from tractable.core.types import Array, Key, PyTree
from tractable.core.verdict import Verdict
from tractable.inference.target import FlatTarget, rebuilt
from tractable.programs.adaptive import adapted, as_weighted, resampled
from tractable.programs.laplace_draws import Drawn, Noise, num_candidates, weighted_draw
from tractable.programs.reduced import Reduced
from tractable.programs.structure import Structure, affine_obstacle, find_structure, may_be_gaussian, touched
from tractable.programs.survey import Facts

__all__ = ["nested", "nested_structure", "pays"]

_DRAWS = 4000  # at most
_CANDIDATES, _FEWEST_CANDIDATES = 8000, 2048
_WORK = 1.3e8  # log-densities of units that candidates may ask for, before they become fewer
_FEWEST = 400  # equally weighted draws that the weights must be worth
_UNDEFINED = 1e-3  # share of candidates without a density
_ACCURACY = 1e-4  # of the evidence of Laplace's value, far below the error of the weights
_MOST_LEFT = 8  # numbers outside
_CHUNK, _BATCH = 512, 32  # draws of one program, and those side by side


# --- what is integrated --------------------------------------------------------------------------------


def nested_structure(facts: Facts, keep: Collection[str] = ()) -> Structure:
    """The structure with as many Gaussian latents as possible for Laplace's method."""
    latents = facts.of_kind("latent")
    discrete = {site.name for site in latents if site.is_discrete}
    chosen: list[str] = []
    candidates = [s for s in latents if may_be_gaussian(s) and s.name not in keep]
    for site in sorted(candidates, key=lambda s: (-s.size, s.name)):
        if affine_obstacle(facts, {*chosen, site.name}, discrete) is None:
            chosen.append(site.name)
    order = [s.name for s in latents]
    chosen.sort(key=order.index)
    around, kept = set(touched(facts, chosen)), {*keep, *chosen}
    while True:
        found = find_structure(facts, kept)
        own = set(found.eliminated) - set(found.discrete)
        tied = {name for name in own if around & set(touched(facts, [name]))}
        if not tied:
            break
        kept |= tied
    said = "integrated by Laplace's method, and weighted: normal, below other likelihoods"
    reasons = {**found.reasons, **dict.fromkeys(chosen, said)}
    remaining = tuple(name for name in found.remaining if name not in chosen)
    return dataclasses.replace(found, nested=tuple(chosen), remaining=remaining, reasons=reasons)


def pays(facts: Facts, plain: Structure, found: Structure) -> bool:
    """Whether it leaves so few numbers that chains on all of them are the dearer way."""
    if facts.of_kind("param"):
        return False
    before, after = (_left(facts, each) for each in (plain, found))
    return bool(found.nested) and before > 2 and after <= min(_MOST_LEFT, before // 2)


def _left(facts: Facts, structure: Structure) -> int:
    return sum(facts.sites[name].size for name in structure.remaining)


# --- the method ----------------------------------------------------------------------------------------


def nested(task: Any, key: Key, num_draws: int | None, options: Mapping) -> Any:
    """Draws of what is left and of what Laplace's method integrated, by their weights."""
    from tractable.programs.methods import Answer

    fix = "It needs normal latents that no discrete latent is tied to. Choose another method."
    check(task.reduced.nested is not None, "method", "other than 'nested' for this program", "nested", fix)
    outside, inside, last = jr.split(key, 3)
    part = task.reduced.nested
    count = max(_num_candidates(part), 2 * (num_draws or 0))
    draws, logs, hidden = _outside(task, outside, count)
    noise = Noise.of(part, inside, len(logs))
    with one_blas_thread():
        drawn = _drawn(task.reduced, draws, noise)
    logs, undefined = logs + drawn.log_weight, float(drawn.undefined.mean())
    values = {**draws, **drawn.values}
    if np.isnan(logs).any() or not (logs > -np.inf).any():
        said = "Unknown: Laplace's method found no Gaussian at some of the values outside."
        logs, verdict = np.where(np.isnan(logs), -np.inf, logs), Verdict(False, said)
        logs = logs if (logs > -np.inf).any() else np.zeros_like(logs)
        post = as_weighted(values, logs)
    else:
        post = as_weighted(values, logs)
        verdict = _verdict(post, undefined, _elsewhere(task.reduced, draws, noise, drawn, last))
    verdict = Verdict(verdict.ok, verdict.sentence, {**verdict.numbers, "undefined_outside": hidden})
    kept = num_draws or int(np.clip(float(post.ess), 1, _DRAWS))
    places = resampled(np.exp(logs - logs.max()), kept, last)
    chosen = jax.tree.map(lambda leaf: np.asarray(leaf)[places][None], post.draws)
    return Answer(chosen, (1, kept), post.log_evidence, verdict, post)


def _num_candidates(part: Any) -> int:
    """How many draws are weighted: fewer where each of them goes through many rows."""
    each = len(part.groups.of_unit) * num_candidates(part)[0]
    return int(np.clip(_WORK / each, _FEWEST_CANDIDATES, _CANDIDATES))


def _verdict(post: Any, undefined: float, elsewhere: float) -> Verdict:
    """That of the weights, which must be worth enough draws."""
    found, worth = post.verdict, float(post.ess)
    numbers = {**found.numbers, "ess": worth, "undefined": undefined, "elsewhere": elsewhere}
    if not found.ok:
        return Verdict(False, found.sentence, numbers)
    if undefined > _UNDEFINED:
        said = f"Not certified: the density is not a number at {undefined:.2%} of the candidates."
        return Verdict(False, said, numbers)
    if elsewhere > 0:
        said = f"Not certified: {elsewhere:.1%} of the searches from far away end at another mode."
        return Verdict(False, f"{said} Use `method='smc'`, or chains.", numbers)
    if worth < _FEWEST:
        return Verdict(False, f"Not certified: the weights are worth {worth:.0f} draws alone.", numbers)
    said = f"Good: Laplace's method, corrected by weights that are worth {worth / post.num_draws:.0%} of the"
    return Verdict(True, f"{said} draws; their tail is light.", numbers)


def _drawn(reduced: Reduced, draws: PyTree, noise: Noise) -> Drawn:
    """A draw for each value of the rest, in chunks of one size."""
    count = len(noise.stretch)
    starts = np.broadcast_to(np.asarray(reduced.nested.centre), (_CHUNK, reduced.nested.size))
    chunks = []
    for start in range(0, count, _CHUNK):
        part = np.minimum(np.arange(start, start + _CHUNK), count - 1)
        own = jax.tree.map(lambda leaf, part=part: leaf[part], (draws, noise))
        chunks.append(_chunk(reduced, own[0], own[1], to_device(np.asarray(starts))))
    return jax.tree.map(lambda *parts: np.concatenate([np.asarray(p) for p in parts])[:count], *chunks)


@program
@light
def _chunk(reduced: Reduced, draws: PyTree, noise: Noise, starts: Array) -> Drawn:
    def one(given: tuple) -> Drawn:
        draws, noise, start = given
        part = dataclasses.replace(reduced.nested, centre=start)
        return weighted_draw(part, noise, reduced.bound, draws)

    return jax.lax.map(one, (draws, noise, starts), batch_size=_BATCH)


def _elsewhere(reduced: Reduced, draws: PyTree, noise: Noise, drawn: Drawn, key: Key) -> float:
    r"""The share of searches from far away that end at another mode, one that is not nothing ($e^{-10}$)."""
    random, first = generator(jr.fold_in(key, 1)), np.minimum(np.arange(_CHUNK), len(drawn.phi) - 1)
    mode, x = drawn.mode[first], drawn.x[first]
    wide = random.choice([6.0, 40.0, 300.0], (_CHUNK, 1))
    starts = mode + wide * (x - mode)
    if not reduced.nested.centred:  # the prior is standard there
        starts = np.where(wide > 100, 2.0 * random.standard_normal(x.shape), starts)
    own = jax.tree.map(lambda leaf: leaf[first], (draws, noise))
    found = np.asarray(_chunk(reduced, own[0], own[1], to_device(np.asarray(starts))).phi)
    other = (np.abs(found - drawn.phi[first]) > 1e-3) & (found - drawn.phi[first] < 10.0)
    return float(other.mean())


# --- outside -------------------------------------------------------------------------------------------


def _outside(task: Any, key: Key, count: int) -> tuple[dict[str, Any], np.ndarray, float]:
    """Values of what is left, log-weights whose mean is the integral of Laplace's value, and the share of it
    that may be where that is not a number."""
    from tractable.programs.methods import METHODS

    if not task.start:
        value = float(METHODS["exact"](task, key, 1, {}).evidence.value)
        return {}, np.full(count, value), 0.0
    free, target = FlatTarget.of(task.reduced, task.start, supports=task.supports)
    if free.size <= 2 and not _is_large(task.reduced):
        answer = METHODS["quadrature"](task, key, count, {"accuracy": _ACCURACY})
        if answer.verdict.ok:
            draws = jax.tree.map(lambda leaf: leaf[0], answer.draws)
            value, hidden = float(answer.evidence.value), answer.verdict.numbers["undefined"]
            return draws, np.full(count, value), hidden
    points, logs = adapted(target, free, key, count)
    return rebuilt(target.rebuild, points), logs, 0.0


def _is_large(reduced: Reduced) -> bool:
    """Whether a thousand values side by side need too much memory."""
    return reduced.nested.curvature.num_colours * len(reduced.nested.groups.of_unit) > 20_000
