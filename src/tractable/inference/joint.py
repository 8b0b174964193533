r"""A model in two parts, each stated once: a prior, and a likelihood that speaks for every row.

Density.     $\log p(\theta) + \sum_n \log p(y_n \mid \theta)$, the sum that samplers and approximations see.
Rows.        The terms of the sum, one number per row: what leave-one-out and WAIC need.
Likelihood.  `likelihood(x, *args)` returns the log-likelihood of each row; or, with `observed`, the
             distribution of the rows, which then can also be drawn from: predictions need no second model.
Prior.       A distribution, a pytree of them, or what has `sample` and `log_prob`. A function of `args` is a
             prior that depends on the data, and none at all is a flat one: both are marked, because their
             evidences cannot be compared.
Start.       The median of draws of the prior, coordinate by coordinate in free numbers.
Cost.        That of the two parts.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr

from tractable.bijections.support import unconstrain
from tractable.core.checks import check
from tractable.core.interfaces import HasLogProb, HasSample
from tractable.core.module import Module, field
from tractable.core.programs import light, program
from tractable.core.types import Array, Key, PyTree, Scalar, Shape
from tractable.core.user_code import call_user
from tractable.distributions.base import Distribution
from tractable.distributions.expfam import per_unit

__all__ = ["Independent", "LogPrior", "Pointwise", "Statement", "as_prior", "as_stated", "centre", "state"]

_CENTRED = 101  # draws of the prior whose median is the start


class Independent(Module):
    """Independent parts with a distribution each: the prior of a pytree."""

    parts: PyTree

    def sample(self, key: Key, shape: Shape = ()) -> PyTree:
        """Draws with the structure of the parts, each with leading axes `shape`."""
        leaves, structure = jax.tree.flatten(self.parts, is_leaf=_is_distribution)
        keys = jr.split(key, len(leaves))
        return jax.tree.unflatten(structure, [leaf.sample(k, shape) for leaf, k in zip(leaves, keys)])

    def log_prob(self, x: PyTree) -> Scalar:
        """The sum of the log-densities of the parts."""
        each = jax.tree.map(lambda part, value: part.log_prob(value), self.parts, x, is_leaf=_is_distribution)
        return sum(jax.tree.leaves(each), start=jnp.zeros(()))


class LogPrior(Module):
    """The log-density of a prior, as a function."""

    prior: Any

    def __call__(self, x: PyTree) -> Scalar:
        return self.prior.log_prob(x)


class Pointwise(Module):
    """The log-likelihood of each row; with `observes`, the last argument is what the rows were seen to be."""

    likelihood: Callable[..., Any]
    observes: bool = field(static=True, default=False)

    def __call__(self, x: PyTree, *args: Any) -> Array:
        if not self.observes:
            return jnp.asarray(call_user("likelihood", self.likelihood, x, *args))
        found = self.distribution(x, *args)
        if found.shape == found.unit_shape:
            return found.log_prob(args[-1])
        return per_unit((found,), lambda d, y: d.log_prob(y), (jnp.asarray(args[-1]),), pointwise=True)

    def distribution(self, x: PyTree, *args: Any) -> Distribution:
        """The distribution of the rows at one draw."""
        found = call_user("likelihood", self.likelihood, x, *args[:-1])
        fix = "Return a distribution of the rows, such as `Normal(mean, scale)`; or leave `observed` out."
        given = type(found).__name__
        check(isinstance(found, Distribution), "likelihood", "a distribution with `observed`", given, fix)
        return found

    def sample(self, key: Key, x: PyTree, *args: Any) -> Array:
        """Rows as this draw would have them."""
        found = self.distribution(x, *args)
        rows = () if found.shape != found.unit_shape else jnp.shape(args[-1])[:1]
        return found.sample(key, rows)


class Statement(Module):
    """The log-density of a prior and a likelihood; `basis` says what the prior is."""

    prior: Any
    pointwise: Pointwise
    basis: str = field(static=True)

    def __call__(self, x: PyTree, *args: Any) -> Scalar:
        value = self.pointwise(x, *args).sum()
        return value if self.prior is None else value + self.prior.log_prob(x)

    def divided(self) -> tuple["Statement", LogPrior]:
        """The likelihood alone, of which a batch of rows can be taken, and the log-density of the prior."""
        flat = self.prior is None
        return dataclasses.replace(self, prior=None), LogPrior(_Flat() if flat else self.prior)


class _Flat(Module):
    """No prior: every value is as likely as any other."""

    def log_prob(self, x: PyTree) -> Scalar:
        return jnp.zeros(())


def as_stated(
    log_density: Any,
    start: PyTree,
    prior: Any,
    likelihood: Any,
    args: tuple,
    observed: Any,
    supports: Any,
) -> tuple[Any, PyTree, tuple, Any]:
    """The density, the start, the data and the supports of a model, whichever way it is stated."""
    if likelihood is None and log_density is not None:
        idle = prior is None and observed is None
        check(idle, "prior, observed", "left out beside a log-density", "given", "State a `likelihood`.")
        return log_density, start, args, supports
    return state(log_density, start, prior, likelihood, args, observed, supports)


def state(
    log_density: Any,
    start: PyTree,
    prior: Any,
    likelihood: Any,
    args: tuple,
    observed: Any,
    supports: Any,
) -> tuple[Statement, PyTree, tuple, Any]:
    """The density of `prior` and `likelihood`, the start, the data with what was observed, the supports."""
    fix = "State the model once: as one log-density, or as `prior` and `likelihood`."
    check(log_density is None, "log_density", "left out beside `likelihood`", "both", fix)
    check(callable(likelihood), "likelihood", "a function of `x` and `args`", type(likelihood).__name__)
    basis = "improper" if prior is None else "proper"
    if callable(prior) and not _is_prior(prior):
        prior, basis = prior(*args), "data-dependent"
    if prior is not None:
        prior, supports = as_prior(prior, supports)
    fix = "Without a prior every value is as likely as any other, and a run needs a point to begin at."
    check(prior is not None or start is not None, "start", "given where there is no `prior`", None, fix)
    if start is None:
        start = centre(prior, supports)
    data = args if observed is None else (*args, observed)
    return Statement(prior, Pointwise(likelihood, observed is not None), basis), start, data, supports


def as_prior(prior: Any, supports: Any) -> tuple[Any, Any]:
    """What draws and weighs the parameters, and the supports of their parts."""
    if isinstance(prior, Distribution):
        return prior, prior.support if supports is None else supports
    if _is_prior(prior):
        return prior, supports
    found = jax.tree_util.tree_flatten_with_path(prior, is_leaf=_is_distribution)[0]
    whole = bool(found) and all(_is_distribution(part) for _, part in found)
    must = "a distribution, a pytree of them, or an object with `sample` and `log_prob`"
    check(whole, "prior", must, f"{prior!r}", error=TypeError)
    names = {jax.tree_util.keystr(path, simple=True, separator="."): part.support for path, part in found}
    return Independent(prior), names | (supports or {})


@program
@light
def centre(prior: Any, supports: Any) -> PyTree:
    """The median of draws of a prior, coordinate by coordinate in free numbers: where a run begins."""
    draws = prior.sample(jr.key(0), (_CENTRED,))
    rebuild = unconstrain(jax.tree.map(lambda leaf: leaf[0], draws), supports)[1]
    free = jax.vmap(lambda x: unconstrain(x, supports)[0])(draws)
    return rebuild(jnp.median(free, axis=0))[0]


def _is_prior(prior: Any) -> bool:
    return isinstance(prior, HasSample) and isinstance(prior, HasLogProb)


def _is_distribution(x: Any) -> bool:
    return isinstance(x, Distribution)
