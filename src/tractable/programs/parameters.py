r"""Parameters of a program, numbers without a prior: set to the values that make the data most likely.

Problem.     $\max_\theta \log p_\theta(y)$ with the latents integrated out (type-II maximum likelihood,
             empirical Bayes; without latents, maximum likelihood). Where all latents have an exact integral
             this is a smooth function, maximised in free numbers by L-BFGS; the maximum does not depend on
             the coordinates, so no Jacobian enters. Where some remain, the bound of a guide takes its place.
Cost.        One reduced density and its gradient per step.
References.  Robbins (1956), "An empirical Bayes approach to statistics".
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax.random as jr
import numpy as np

from tractable.bijections.support import Rebuild, unconstrain
from tractable.core.checks import check
from tractable.core.estimate import Estimate
from tractable.core.iterate import Ended
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.types import Array, Scalar
from tractable.core.verdict import Verdict
from tractable.optim.minimise import minimise
from tractable.programs.prior import Prior
from tractable.programs.survey import Facts

__all__ = ["Search", "most_likely", "param_supports", "starts", "with_params"]


class Search(Ended, Module):
    """Parameters that were sought, by name, and how the search ended.

    `elbo` is the bound on the log-evidence that was reached, where a guide gave one; `trace` its course.
    """

    params: dict[str, Array]
    elbo: Estimate | None
    num_steps: Any
    code: Any
    trace: Any = field(show=False, default=None)
    said: str = field(static=True, show=False, default="")

    @property
    def verdict(self) -> Verdict:
        """How the search ended."""
        return Verdict(self.status.ok, f"Parameters: {self.said or self.status.sentence}")


def starts(prior: Prior) -> dict[str, Array]:
    """The values from which the parameters of a program are sought."""
    return _starts(prior)


@program
def _starts(prior: Prior) -> dict[str, Array]:
    return prior.bound.trace(prior.given, key=jr.key(0)).of_kind("param")


def param_supports(facts: Facts) -> dict[str, Any]:
    """The supports of the parameters."""
    found = {}
    for site in facts.of_kind("param"):
        fix = f"It is at {site.line}. Name a support that has no unknown ends."
        check(site.support is not None, site.name, "of a support known beforehand", "one that moves", fix)
        found[site.name] = site.support
    return found


def most_likely(reduced: Any, start: Mapping[str, Array], supports: Mapping[str, Any]) -> Search:
    """The parameters at which the density of a program without remaining latents is largest."""
    free, rebuild = unconstrain(dict(start), supports, name="param")
    first = float(_log_density(reduced, rebuild, free))
    fix = "Let each `param` begin where the data are possible."
    check(np.isfinite(first), "param", "at a start of finite density", f"log-density {first}", fix)
    found = minimise(_Negative(), free, args=(reduced, rebuild), max_steps=500)
    params = rebuild(found.state)[0]
    ends = "Converged: the evidence has a local maximum there."
    said = ends if found.verdict.ok else found.verdict.sentence
    return Search(params, None, found.num_steps, found.code, -found.values, said)


def with_params(task: Any, params: Mapping[str, Array]) -> Any:
    """The same task with these parameters in its program."""
    if not params:
        return task
    bound = task.reduced.bound.with_values(params)
    reduced = dataclasses.replace(task.reduced, bound=bound)
    return task._replace(reduced=reduced, prior=dataclasses.replace(task.prior, bound=bound))


class _Negative(Module):
    def __call__(self, free: Array, reduced: Any, rebuild: Rebuild) -> Scalar:
        return -reduced(rebuild(free)[0])


@program
def _log_density(reduced: Any, rebuild: Rebuild, free: Array) -> Scalar:
    return reduced(rebuild(free)[0])
