r"""Stochastic variational inference for programs: the guide that is closest to the posterior, and parameters.

Problem.     $\max_{\theta,\lambda} E_{q_\lambda}[\log p_\theta(x, y) - \log q_\lambda(x)]$ over the
             parameters $\theta$ of the model and $\lambda$ of the guide, with all latents that have an exact
             integral integrated out of $p$: a lower bound on $\log p_\theta(y)$.
Method.      The ascent of `inference.vi` (its ladder of step sizes and its test of convergence) along
             pathwise gradients; with batches, on random units of a plate.
Verdict.     At the parameters found, by the importance weights of fresh draws and of stretched ones
             (`inference.weighted.second_look`); with batches, by those of fewer draws, in pieces.
Cost.        `num_particles` densities and gradients per step.
References.  Hoffman, Blei, Wang and Paisley (2013); Kucukelbir et al. (2017); Yao et al. (2018).
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.bijections.support import unconstrain
from tractable.core.checks import check, check_count
from tractable.core.estimate import Estimate
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.types import Array, Key, PyTree, Scalar
from tractable.core.verdict import Verdict
from tractable.inference.target import FlatTarget
from tractable.inference.variational.ascent import Ascent, climb
from tractable.inference.variational.families import make_family
from tractable.inference.weighted.pareto import k_verdict, tail_shape
from tractable.inference.weighted.second_look import second_look
from tractable.inference.weighted.weights import mean_estimate
from tractable.programs.batches import BatchDensity
from tractable.programs.guides import Automatic, Law
from tractable.programs.methods import Answer, Task
from tractable.programs.parameters import Search
from tractable.programs.reduced import Reduced

__all__ = ["Bound", "Whole", "ascend", "judged", "parameters_of"]

_JUDGED = 3000  # draws whose weights tell how good a guide is
_FEWEST, _MOST = 150, 1000  # of them, with batches
_MOST_UNITS = 2e8  # of a plate that these draws look at in all
_DRAWS = 4000


class Whole(Module):
    """The reduced density at parameters and latents."""

    reduced: Reduced
    params: tuple[str, ...] = field(static=True)

    def __call__(self, params: Mapping[str, Array], latents: Mapping[str, Array], rows: Any = None) -> Scalar:
        return self.reduced({**{name: params[name] for name in self.params}, **latents})


class Bound(Module):
    """What an ascent maximises."""

    density: Any
    guide: Any

    def log_weight(self, parameters: Mapping[str, Any], noise: Array, rows: Any) -> Scalar:
        r"""$\log p_\theta(x, y) - \log q_\lambda(x)$ at the draw of this noise."""
        latents, log_q = self.guide.draw(parameters, noise, rows)
        return self.density(parameters["params"], latents, rows) - log_q


class GuideAscent(Ascent):
    """The ascent of `inference.vi` with a guide in the place of a family."""

    target: Any

    def inputs(self, key: Key, steps: int, draws: int, free: Array) -> tuple[Array, Any]:
        key_noise, key_rows = jr.split(key)
        parameters = jax.eval_shape(lambda u: self.family(u)[0], free)
        noise = self.target.guide.noise(key_noise, (steps, draws), parameters)
        batched = isinstance(self.target.density, BatchDensity)
        return noise, self.target.density.batches.rows(key_rows, steps) if batched else None

    def bound(self, free: Array, noise: Array, rows: Any) -> Scalar:
        parameters = self.family(free)[0]
        return jax.vmap(lambda each: self.target.log_weight(parameters, each, rows))(noise).mean()

    def _first_order(self, free: Array, memory: Any, rate: Array, noise: Array, rows: Any) -> tuple:
        value, slope = jax.value_and_grad(self.bound)(free, noise, rows)
        update: Any
        update, memory = _adam().update(-slope, memory)
        return free - rate * update, memory, value


def _adam() -> Any:
    from tractable.optim.gradient import Adam

    return Adam().direction()


def parameters_of(guide: Any, params: Mapping[str, Array], family: str, key: Key, wide: bool) -> dict:
    """Where the parameters of a guide and of the model begin: with `wide`, as wide as one."""
    first: dict[str, Any] = {"params": dict(params)}
    if isinstance(guide, Automatic):
        loc, scale = jnp.zeros_like(guide.centre), 1.0 if wide else 0.1
        first["guide"] = make_family(family, loc, key=key, rank=min(2, loc.size), scale=scale)
    return first


def ascend(
    bound: Bound, first: Mapping[str, Any], supports: Mapping[str, Any], key: Key, options: Mapping[str, Any]
) -> tuple[PyTree, Any, Any]:
    """The parameters at the best bound, those that the climb began at by name, and the run."""
    named = {f"params.{name}": support for name, support in supports.items()}
    given = {**_OPTIONS, **options}
    unknown = [name for name in given if name not in _OPTIONS]
    check(not unknown, "options", f"among {', '.join(_OPTIONS)}", ", ".join(unknown))
    free, rebuild = unconstrain(dict(first), named, name="param")
    fix = "Give the guide parameters by `param`, or choose `method='importance'`."
    check(free.size > 0, "guide", "a law with parameters", "none", fix)
    tol = None if given["tol"] is None else jnp.asarray(given["tol"], free.dtype)
    count = check_count("num_particles", given["num_particles"])
    ascent = GuideAscent(bound, rebuild, tol, None, "adam", "sticking", 1.0, count, None, given["block"])
    how = {"rate": given["learning_rate"], "max_steps": given["max_steps"], "progress": given["progress"]}
    made = climb(ascent, free, key, **how)
    return rebuild(made.state.answer)[0], rebuild, made


_OPTIONS: dict[str, Any] = {
    "num_particles": 8,
    "tol": 0.01,
    "learning_rate": 0.05,
    "max_steps": 50_000,
    "block": 100,
    "progress": True,
}


def judged(
    task: Task, bound: Bound, found: Mapping[str, Any], made: Any, key: Key, num_draws: int | None
) -> tuple[Answer, Search]:
    """The draws of a guide at the parameters found, with their weights' verdict, and the search."""
    key_look, key_draws = jr.split(key)
    count = num_draws or _DRAWS
    if isinstance(bound.density, BatchDensity):
        own, verdict, evidence = _look_in_pieces(bound, found, key_look)
    else:
        own, verdict, evidence = _look(task, bound, found, key_look)
    elbo = mean_estimate(own)
    search = Search(found["params"], elbo, made.num_steps, made.code, np.asarray(made.values))
    said = Verdict(verdict.ok, f"{verdict.sentence} {search.status.sentence}", verdict.numbers)
    draws = jax.tree.map(lambda leaf: np.asarray(leaf)[None], _draws(bound.guide, found, key_draws, count))
    return Answer(draws, (1, count), evidence, said), search


def _look(task: Task, bound: Bound, found: Mapping[str, Any], key: Key) -> tuple[Any, Verdict, Estimate]:
    _, target = FlatTarget.of(task.reduced, task.start, supports=task.supports)
    if isinstance(bound.guide, Automatic):
        law: Any = Moved(found["guide"], bound.guide.centre)
        points, centre = _points(found["guide"], bound.guide.centre, key, _JUDGED)
    else:
        law = Law(bound.guide, found["params"], target.rebuild)
        points = _free(law, key, _JUDGED)
        inside = np.isfinite(np.asarray(points)).all()
        fix = "Give each site of the guide a law with the support that it has in the model."
        check(bool(inside), "guide", "inside the supports of the model's latents", "draws outside", fix)
        centre = points.mean(0)
    look = second_look(target, law, points, centre)
    return look.own, look.verdict, look.log_evidence


def _look_in_pieces(bound: Bound, found: Mapping[str, Any], key: Key) -> tuple[Any, Verdict, Estimate]:
    size = bound.density.batches.size
    count = int(np.clip(_MOST_UNITS / size, _FEWEST, _MOST))
    own = np.asarray(_weights(bound, dict(found), key, count))
    first = k_verdict(tail_shape(own), own.size)
    said = f"{first.sentence} By {count} draws on all {size} units; other modes were not looked for."
    top = own.max()
    weights = np.exp(own - top)
    value, error = top + np.log(weights.mean()), weights.std(ddof=1) / weights.mean() / np.sqrt(own.size)
    evidence = Estimate(jnp.asarray(value), jnp.asarray(error))
    return jnp.asarray(own), Verdict(first.ok, said, first.numbers), evidence


@program
def _weights(bound: Bound, found: dict, key: Key, count: int) -> Array:
    """The log-weights of draws, one after the other, on all units."""

    def one(noise: Array) -> Scalar:
        latents, log_q = bound.guide.draw(found, noise)
        return bound.density.whole(found["params"], latents) - log_q

    return jax.lax.map(one, bound.guide.noise(key, (count,), found))


class Moved(Module):
    """A member of a family, moved to another centre."""

    member: Any
    centre: Array

    def log_prob(self, free: Array) -> Scalar:
        return self.member.log_prob(free - self.centre)


@program
def _points(member: Any, centre: Array, key: Key, n: int) -> tuple[Array, Array]:
    noise = jr.normal(key, (n, member.noise_dim))
    middle = centre + member.forward(jnp.zeros(member.noise_dim))
    return jax.vmap(lambda each: centre + member.forward(each))(noise), middle


@program
def _free(law: Law, key: Key, n: int) -> Array:
    return jax.lax.map(law.free, law.guide.noise(key, (n,), {}), batch_size=100)


@program
def _draws(guide: Any, found: Any, key: Key, n: int) -> PyTree:
    """Draws of all latents but those inside of a plate of which batches are taken: they may be too many."""
    apart = getattr(guide, "inside", ())

    def one(noise: Array) -> PyTree:
        latents = guide.draw(found, noise)[0]
        return {name: value for name, value in latents.items() if name not in apart}

    return jax.lax.map(one, guide.noise(key, (n,), found), batch_size=100)
