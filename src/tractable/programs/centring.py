r"""Whether chains move a normal latent itself or its noise: by what the data know of it.

Model.       $x_i \sim N(\mu, \sigma^2)$ with $\mu$, $\sigma$ of other latents that are left: moved as it is
             (centred), or by its noise, $x_i = \mu + \sigma u_i$ (non-centred).
Rule.        $c = -\frac1n \sum_i \sigma^2\, \partial_i^2 \log p(\text{all else} \mid x)$, the precision of
             the data over that of the law, the median of draws of Pathfinder. Below one the law holds $x$,
             and its noise is nearly independent of $\sigma$; above one the data hold $x$ itself.
Trace.       $\sum_i \sigma^2 H_{ii} = E\,(\sigma r)^\top H (\sigma r)$ for random signs $r$.
Cost.        One run of Pathfinder, and a few hundred gradients.
References.  Papaspiliopoulos, Roberts and Skold (2007); Betancourt and Girolami (2015).
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import to_device
from tractable.core.programs import program
from tractable.core.types import Array, Key, PyTree, Scalar
from tractable.distributions.continuous import Normal
from tractable.inference.variational.pathfinder import pathfinder
from tractable.programs.reduced import Reduced
from tractable.programs.structure import Structure
from tractable.programs.survey import Facts

__all__ = ["candidates", "information", "recentred"]

_DRAWS, _PROBES = 32, 4


def candidates(facts: Facts, structure: Structure) -> tuple[tuple[str, ...], set[str]]:
    """The normal latents that are left and whose law depends on others, and those of the others that were
    integrated: they must be known where the noise is moved."""
    left, found, gone = set(structure.remaining), [], set()
    for name in structure.remaining:
        laws = [facts.needs.get((name, label), frozenset()) for label in ("loc", "scale")]
        needs = frozenset().union(*laws)
        if facts.sites[name].family is Normal and needs and not needs & set(structure.discrete):
            found.append(name)
            gone |= needs - left
    return tuple(found), gone


def recentred(structure: Structure, known: dict[str, float]) -> tuple[Structure, tuple[str, ...]]:
    """The latents that are moved by their noise, and the structure with the reasons."""
    noisy = tuple(name for name, share in known.items() if share < 1)
    reasons = dict(structure.reasons)
    for name, share in known.items():
        way = "moved by its noise" if name in noisy else "moved as it is"
        told = f"{way}: the data know {share:.2g} times as much of it as its law"
        reasons[name] = f"{reasons[name]}; {told}" if name in reasons else told
    return dataclasses.replace(structure, reasons=reasons), noisy


def information(centred: Reduced, task: Any, names: tuple[str, ...], key: Key) -> dict[str, float]:
    """What the data know of each latent, as a multiple of what its law says; `task` moves their noise,
    `centred` is the density of the latents themselves."""
    key_path, key_signs = jr.split(key)
    found = pathfinder(task.reduced, task.start, key=key_path, supports=task.supports, num_draws=_DRAWS)
    draws = jax.tree.map(lambda leaf: to_device(np.asarray(leaf)[0, :_DRAWS]), found._drawn())
    signs = jr.split(key_signs, _DRAWS)
    shares = _shares(centred, task.reduced, draws, signs, names)
    return {name: float(np.median(np.asarray(each))) for name, each in shares.items()}


@program
def _shares(
    centred: Reduced, noisy: Reduced, draws: PyTree, keys: Any, names: tuple[str, ...]
) -> dict[str, Array]:
    def one(given: tuple) -> dict[str, Scalar]:
        draw, key = given
        sites = noisy.bound.trace(noisy.filled(draw)).sites
        values = {name: sites[name].value if name in names else value for name, value in draw.items()}
        parts = zip(names, jr.split(key, len(names)))
        return {name: _share(centred, values, name, sites[name].distribution, own) for name, own in parts}

    return jax.lax.map(one, (draws, keys))


def _share(centred: Reduced, values: dict[str, Array], name: str, law: Any, key: Key) -> Scalar:
    """At one point, for one latent."""
    scale = jnp.broadcast_to(law.scale, law.shape)

    def others(x: Array) -> Scalar:
        return centred({**values, name: x}) - law.log_prob(x).sum()

    def along(signs: Array) -> Scalar:
        step = scale * signs
        return -jnp.vdot(step, jax.jvp(jax.grad(others), (values[name],), (step,))[1]) / step.size

    return jax.lax.map(along, jr.rademacher(key, (_PROBES, *law.shape), scale.dtype)).mean()
