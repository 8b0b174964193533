r"""Guides: laws with parameters that stand for the posterior of what remains of a program.

Automatic.   $x = T(u)$ with $u$ from a family of `inference.vi` over the free numbers of the latents, so that
             $\log q(x) = \log q(u) - \log|\partial T/\partial u|$.
Written.     A model with a site for each latent, and `param` for what is sought; its draws are smooth in the
             parameters, and $\log q(x)$ is the sum over its sites.
Gradient.    Of the draw alone: the parameters are held in $\log q$, whose score has mean zero. At the exact
             posterior the estimate has no variance. Where they move a support, they are not held.
Cost.        One run of a written guide for the draw, and one for its density.
References.  Roeder, Wu and Duvenaud (2017), "Sticking the landing".
"""

import inspect
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr

from tractable.bijections.support import Rebuild
from tractable.core.checks import check, check_option
from tractable.core.module import Module, field
from tractable.core.types import Array, Key, Scalar, Shape
from tractable.inference.target import freed
from tractable.programs.language import Model
from tractable.programs.survey import Facts, survey
from tractable.programs.trace import Program, bind

__all__ = ["AUTOMATIC", "Automatic", "Law", "Written", "written_guide"]

AUTOMATIC = ("mean_field", "full_rank", "low_rank", "coupling", "spline", "autoregressive")


class Automatic(Module):
    """A member of a family over the free numbers of all latents, measured from `centre` in units of `scale`;
    the member is `parameters["guide"]`."""

    latents: Rebuild
    centre: Array
    scale: Array

    def noise(self, key: Key, shape: Shape, parameters: Mapping[str, Any]) -> Array:
        """What draws are made of."""
        return jr.normal(key, (*shape, parameters["guide"].noise_dim))

    def draw(self, parameters: Mapping[str, Any], noise: Array, rows: Any = None) -> tuple[dict, Scalar]:
        """The latents at this noise, and their log-density."""
        member = parameters["guide"]
        place = member.forward(noise)
        latents, log_det = self.latents(self.centre + self.scale * place)
        log_q = jax.lax.stop_gradient(member).log_prob(place)
        return latents, log_q - log_det - jnp.log(self.scale).sum()


class Written(Module):
    """A model with sites `latents`; `inside` of them are in the plate of which batches are taken."""

    bound: Program
    batches: Any  # `Batches` of the plate, or None
    latents: tuple[str, ...] = field(static=True)
    params: tuple[str, ...] = field(static=True)
    inside: tuple[str, ...] = field(static=True, default=())
    moves: bool = field(static=True, default=False)  # a support depends on parameters: no score has mean zero

    def noise(self, key: Key, shape: Shape, parameters: Mapping[str, Any]) -> Array:
        """What draws are made of: the words of random keys."""
        return jr.key_data(jr.split(key, shape))

    def draw(self, parameters: Mapping[str, Any], noise: Array, rows: Any = None) -> tuple[dict, Scalar]:
        """The latents at this noise, and their log-density."""
        own = {name: parameters["params"][name] for name in self.params}
        bound, scale = self.bound, 1.0
        if rows is not None:
            bound, own = self.batches.taken(rows), self.batches.of_values(own, rows)
            scale = self.batches.scale
        sites = bound.trace(own, key=jr.wrap_key_data(noise)).sites
        values = {name: sites[name].value for name in self.latents}
        held = sites if self.moves else bound.trace({**values, **jax.lax.stop_gradient(own)}).sites
        parts = [
            held[name].log_probs.sum() * (scale if name in self.inside else 1.0) for name in self.latents
        ]
        return values, sum(parts, start=jnp.zeros(()))

    def log_prob(self, params: Mapping[str, Any], values: Mapping[str, Array]) -> Scalar:
        """The log-density of values of all latents."""
        own = {name: params[name] for name in self.params}
        return self.bound.trace({**values, **own}).log_joint


class Law(Module):
    """The law of a written guide over the free numbers of the latents."""

    guide: Written
    params: dict[str, Array]
    rebuild: Rebuild

    def log_prob(self, free: Array) -> Scalar:
        values, log_det = self.rebuild(free)
        return self.guide.log_prob(self.params, values) + log_det

    def free(self, noise: Array) -> Array:
        """The free numbers of a draw."""
        values, _ = self.guide.draw({"params": self.params}, noise)
        return freed(self.rebuild, values)


def written_guide(guide: Any, program: Program) -> tuple[Program, Facts] | None:
    """The guide with the arguments of the program, and its sites; nothing where it is a name."""
    if isinstance(guide, str):
        check_option("guide", guide, AUTOMATIC)
        return None
    fix = f"Put `@tractable.model` above it, or name one of {', '.join(AUTOMATIC)}."
    check(isinstance(guide, Model), "guide", "a model, or a name", type(guide).__name__, fix, TypeError)
    bound = bind(guide, *_arguments(guide, program))
    facts = survey(bound)
    for site in facts.sites.values():
        able = site.kind in ("latent", "param", "deterministic")
        must = "free of observations and factors: it has draws and parameters alone"
        check(able, "guide", must, f"{site.name} at {site.line}")
        fix = f"Leave it out of the guide, at {site.line}: infer sums over it."
        check(not site.is_discrete, site.name, "continuous in a guide", "a discrete site", fix)
    return bound, facts


def check_sites(guide: Facts, model: Facts, remaining: tuple[str, ...]) -> None:
    """Refuse a guide whose sites are not those of the latents that remain."""
    names = {site.name for site in guide.of_kind("latent")}
    known = {site.name for site in model.of_kind("latent")}
    for site in guide.of_kind("latent"):
        must = f"a model whose every site is one of the model's latents ({', '.join(sorted(known))})"
        check(site.name in known, "guide", must, f"{site.name!r} at {site.line}")
        want = model.sites[site.name].shape
        fix = f"It is at {site.line} of the guide and at {model.sites[site.name].line} of the model."
        check(site.shape == want, site.name, f"of shape {want} in the guide", f"shape {site.shape}", fix)
    missing = [name for name in remaining if name not in names]
    lines = ", ".join(model.sites[name].line for name in missing)
    must = "a model with a site for each latent that remains"
    fix = f"Sample it in the guide too (in the model it is at {lines})."
    check(not missing, "guide", must, f"none for {', '.join(missing)}", fix)


def _arguments(guide: Model, program: Program) -> tuple[tuple, dict]:
    """The arguments of the program that the guide takes, by name where it takes fewer."""
    given = inspect.signature(program.model.function).bind(*program.args, **program.options).arguments
    wanted = inspect.signature(guide.function).parameters
    if all(name in wanted for name in given) or any(
        each.kind is inspect.Parameter.VAR_POSITIONAL for each in wanted.values()
    ):
        return program.args, program.options
    return (), {name: value for name, value in given.items() if name in wanted}
