r"""The methods that `infer` can use on what is left of a program after elimination.

Contract.    `method(task, key, num_draws, options) -> Answer`: draws `(chains, draws,
             ...)` of the remaining latents by name, the log-evidence of the whole, and the verdict.
Options.     Those of the function below a method, but for what the task gives it; others are refused.
Cost.        That of the method.
"""

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import check, to_device
from tractable.core.estimate import Estimate
from tractable.core.host_random import generator
from tractable.core.programs import light, program
from tractable.core.types import Array, Key, PyTree
from tractable.core.verdict import Verdict
from tractable.inference.posterior import Posterior
from tractable.inference.target import FlatTarget, rebuilt
from tractable.programs.prior import Likelihood, Prior
from tractable.programs.reduced import Reduced

__all__ = ["METHODS", "Answer", "Task", "check_options", "heeded"]

_DRAWS = 4000  # that stand for a posterior which is known by its density


class Answer(NamedTuple):
    """What a method found of the remaining latents."""

    draws: PyTree
    shape: tuple[int, int]
    evidence: Any
    verdict: Verdict
    inner: Posterior | None = None


class Task(NamedTuple):
    """What is left of a program: its density, the prior, a start and the supports of the latents."""

    reduced: Reduced
    prior: Prior
    start: PyTree
    supports: Any


def _exact(task: Task, key: Key, num_draws: int | None, options: Mapping) -> Answer:
    found = _value(task.reduced)
    count = num_draws or _DRAWS
    value = float(found)
    said = "Exact: every latent was summed over or integrated in closed form."
    if np.isnan(value):
        said = "Improper: the latents have no joint distribution given the data. Give them priors."
    elif value == -np.inf:
        said = "Impossible: what was observed has probability zero in this model."
    evidence = Estimate(found, jnp.zeros(()), method="closed_form")
    return Answer({}, (1, count), evidence, Verdict(bool(np.isfinite(value)), said))


@program
@light
def _value(reduced: Reduced) -> Array:
    return reduced({})


def _quadrature(task: Task, key: Key, num_draws: int | None, options: Mapping) -> Answer:
    from tractable.inference.box import found_box_posterior

    free, target = FlatTarget.of(task.reduced, task.start, supports=task.supports)
    found = found_box_posterior(target, free, accuracy=options.get("accuracy"))
    count = num_draws or _DRAWS
    points = to_device(found.draws(generator(key), count))
    draws = jax.tree.map(lambda leaf: np.asarray(leaf)[None], rebuilt(target.rebuild, points))
    return Answer(draws, (1, count), found.log_evidence, found.verdict, None)


def _chains(sampler: Callable[[], Any]) -> Callable[..., Answer]:
    def method(task: Task, key: Key, num_draws: int | None, options: Mapping) -> Answer:
        from tractable.inference.chains.mcmc import mcmc

        count = {} if num_draws is None else {"num_draws": num_draws}
        post = mcmc(task.reduced, task.start, sampler(), supports=task.supports, key=key, **count, **options)
        return _of_posterior(post)

    return method


def _of_posterior(post: Posterior) -> Answer:
    draws = post._drawn()
    shape = np.shape(jax.tree.leaves(draws)[0])[:2]
    return Answer(draws, (shape[0], shape[1]), None, post.verdict, post)


def _nuts() -> Any:
    from tractable.inference.samplers.nuts import NUTS

    return NUTS()


def _mams() -> Any:
    from tractable.inference.samplers.mams import MAMS

    return MAMS()


def _metropolis() -> Any:
    from tractable.inference.samplers.adaptive_metropolis import AdaptiveMetropolis

    return AdaptiveMetropolis()


def _laplace(task: Task, key: Key, num_draws: int | None, options: Mapping) -> Answer:
    from tractable.inference.curvature.laplace import laplace

    return _of_posterior(laplace(task.reduced, task.start, supports=task.supports, **options))


def _pathfinder(task: Task, key: Key, num_draws: int | None, options: Mapping) -> Answer:
    from tractable.inference.variational.pathfinder import pathfinder

    count = {} if num_draws is None else {"num_draws": num_draws}
    own = {"supports": task.supports, "key": key, **count, **options}
    return _of_posterior(pathfinder(task.reduced, task.start, **own))


def _vi(task: Task, key: Key, num_draws: int | None, options: Mapping) -> Answer:
    from tractable.inference.variational.vi import vi

    return _of_posterior(vi(task.reduced, task.start, supports=task.supports, key=key, **options))


def _smc(task: Task, key: Key, num_draws: int | None, options: Mapping) -> Answer:
    from tractable.inference.particles.smc import smc

    task.prior.check_proper("smc")
    count = {} if num_draws is None else {"num_particles": num_draws}
    likelihood = Likelihood(task.reduced, task.prior)
    post = smc(likelihood, task.prior, supports=task.supports, key=key, **count, **options)
    return _of_posterior(post)


def _importance(task: Task, key: Key, num_draws: int | None, options: Mapping) -> Answer:
    from tractable.inference.weighted.importance import Weighted

    task.prior.check_proper("importance")
    weigh, choose = jr.split(key)
    count = num_draws or 10 * _DRAWS
    post = Weighted.of(*_weighed(Likelihood(task.reduced, task.prior), weigh, count))
    chosen = min(count, _DRAWS)
    draws = jax.tree.map(lambda leaf: np.asarray(leaf)[None], post.resample(choose, chosen))
    return Answer(draws, (1, chosen), post.log_evidence, post.verdict, post)


@program
def _weighed(likelihood: Likelihood, key: Key, count: int) -> tuple[PyTree, Array]:
    draws = likelihood.prior.sample(key, (count,))
    return draws, jax.vmap(likelihood)(draws)


def _nested(task: Task, key: Key, num_draws: int | None, options: Mapping) -> Answer:
    from tractable.programs.nested import nested

    return nested(task, key, num_draws, options)


def _adaptive(task: Task, key: Key, num_draws: int | None, options: Mapping) -> Answer:
    from tractable.programs.adaptive import adaptive

    return adaptive(task, key, num_draws, options)


METHODS: dict[str, Callable[..., Answer]] = {
    "exact": _exact,
    "adaptive": _adaptive,
    "nested": _nested,
    "quadrature": _quadrature,
    "nuts": _chains(_nuts),
    "mams": _chains(_mams),
    "metropolis": _chains(_metropolis),
    "laplace": _laplace,
    "pathfinder": _pathfinder,
    "vi": _vi,
    "smc": _smc,
    "importance": _importance,
}

_CHAINS = ("chains.mcmc", "mcmc")
_FUNCTIONS = {  # whose options a method takes
    "nuts": _CHAINS,
    "mams": _CHAINS,
    "metropolis": _CHAINS,
    "laplace": ("curvature.laplace", "laplace"),
    "pathfinder": ("variational.pathfinder", "pathfinder"),
    "vi": ("variational.vi", "vi"),
    "smc": ("particles.smc", "smc"),
}
_GIVEN = ("log_density", "start", "sampler", "prior", "likelihood", "observed", "args", "supports", "key")


def _taken(method: str) -> tuple[str, ...]:
    """The options of a method."""
    if method not in _FUNCTIONS:
        return ("accuracy",) if method == "quadrature" else ()
    place, name = _FUNCTIONS[method]
    function = getattr(importlib.import_module(f"tractable.inference.{place}"), name)
    return tuple(own for own in inspect.signature(function).parameters if own not in _GIVEN)


def heeded(method: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the options that this method takes."""
    taken = _taken(method) if options else ()
    return {name: value for name, value in options.items() if name in taken}


def check_options(options: Mapping[str, Any], *methods: str) -> None:
    """Refuse options that none of these methods takes."""
    taken = list(dict.fromkeys(["progress", *(name for each in methods for name in _taken(each))]))
    unknown = [name for name in options if name not in taken]
    told = " or ".join(map(repr, dict.fromkeys(methods)))
    check(not unknown, "options", f"of {told}: {', '.join(taken)}", ", ".join(map(repr, unknown)))
