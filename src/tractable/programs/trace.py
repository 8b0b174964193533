r"""A model with its arguments, and what can be asked of it without inference: draws, densities, rows.

Trace.       The record of one run: every site with its distribution, its value, and the log-density of each
             of its units.
Identity.    $\log p(x, y) = \sum_s \sum_u \log p(x_{su} \mid x_{<s})$ over sites and their units, plus the
             factors: the log-joint is the sum of what a trace holds, and the pointwise log-likelihood is the
             observed part of it before the sum.
Data.        Arrays among the arguments are data: other arrays of the same shapes use the same programs.
             Whole numbers, strings and functions belong to the model.
Cost.        One run of the function each.
"""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import check, to_device
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.types import Array, Key, PyTree, Scalar
from tractable.core.user_code import TRACED, traced_words, user_line
from tractable.programs.language import Model
from tractable.programs.moving_support import from_support
from tractable.programs.run import Site
from tractable.programs.run_checks import check_names

__all__ = ["Program", "Trace", "bind"]


class Trace(Module):
    """The sites of one run by name, in the order in which they were named."""

    sites: dict[str, Site]

    def __getitem__(self, name: str) -> Any:
        """The value of a site."""
        return self.sites[name].value

    @property
    def log_joint(self) -> Scalar:
        r"""$\log p(x, y)$ of all latent and observed values, with the factors."""
        terms = [site.log_probs.sum() for site in self.sites.values() if site.log_probs is not None]
        return sum(terms, start=jnp.zeros(()))

    def of_kind(self, *kinds: str) -> dict[str, Any]:
        """The values of the sites of these kinds."""
        return {name: site.value for name, site in self.sites.items() if site.kind in kinds}

    @property
    def log_likelihoods(self) -> dict[str, Array]:
        """The log-density of each unit of each observed site."""
        return {name: site.log_probs for name, site in self.sites.items() if site.kind == "observed"}


class Program(Module):
    """A model with its arguments."""

    model: Model
    args: tuple
    options: dict[str, Any]
    moving: tuple[str, ...] = field(static=True, default=())  # latents given by free numbers
    sizes: tuple[tuple[str, int], ...] = field(static=True, default=())  # of plates that have other ones

    def trace(self, values: Mapping[str, Any] | None = None, **how: Any) -> Trace:
        """One run with these values of latent sites; with a `key`, others are drawn."""
        plain = {name: value for name, value in (values or {}).items() if name not in self.moving}
        raws = {name: value for name, value in (values or {}).items() if name in self.moving}
        how = {"raws": raws, "sizes": dict(self.sizes), **how}
        try:
            run = self.model.run(self.args, self.options, values=plain, **how)
        except TRACED as error:
            said = traced_words("model", error)
            if said is None:
                raise
            raise TypeError(said) from error
        except Exception as error:
            self._placed(error)
            raise
        check_names((*(values or {}), *self.model.observed, *self.model.fixed), run.sites)
        # without the lines: a program is the same wherever its words are written
        return Trace(run.sites)

    def _placed(self, error: Exception) -> None:
        """Where an error that does not say so came about in the user's code, and with what arguments."""
        where = user_line(error)
        if not where or where.partition(", `")[0] in str(error):
            return
        given = [
            f"{name} of shape {value.shape}"
            for name, value in self.options.items()
            if hasattr(value, "shape")
        ]
        with_what = f" Arrays among its arguments: {', '.join(given)}." if given else ""
        error.add_note(f"In the model `{self.model.name}` at {where}.{with_what}")

    def divided(self) -> tuple[list, Callable[[list], "Program"]]:
        """The arrays among the arguments, and the way back from them."""
        leaves, tree = jax.tree.flatten(self)
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, jax.Array | np.ndarray)]

        def rebuilt(arrays: list) -> Program:
            filled = list(leaves)
            for place, array in zip(places, arrays):
                filled[place] = array
            return jax.tree.unflatten(tree, filled)

        return [leaves[i] for i in places], rebuilt

    def free_of(self, sites: Mapping[str, Site], names: tuple[str, ...]) -> dict[str, Array]:
        """The values of latents as `trace` takes them."""
        return {
            name: from_support(sites[name].distribution, sites[name].value)
            if name in self.moving
            else sites[name].value
            for name in names
        }

    def with_values(self, values: Mapping[str, Any]) -> "Program":
        """The same with these sites set from outside, as by `do`: parameters among them."""
        return dataclasses.replace(self, model=self.model.do(values))

    def log_joint(self, values: Mapping[str, Any]) -> Scalar:
        r"""$\log p(x, y)$ at these values of all latent sites."""
        return self.trace(values).log_joint

    @takes_key
    def sample(self, key: Key, num_draws: int, *, values: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Draws `(num_draws, ...)` of all sites of the model, observed ones as they are given."""
        return _drawn(self, jr.split(key, num_draws), dict(values or {}))


def bind(model: Model, args: tuple = (), options: Mapping[str, Any] | None = None) -> Program:
    """The model with its arguments, whose arrays become data."""
    fix = "Put `@tractable.model` above the function."
    check(
        isinstance(model, Model), "model", "a function under `@model`", type(model).__name__, fix, TypeError
    )
    given = (model.observed, model.fixed)
    model = Model(model.function, *(_as_data(part) for part in given))
    args, named = _by_name(model.function, tuple(args), dict(options or {}))
    return Program(model, _as_data(args), _as_data(named))


def _by_name(function: Any, args: tuple, options: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """Arguments by their names, where they have names, so that predictions can replace any of them."""
    parameters = list(inspect.signature(function).parameters.values())
    plain = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    kinds = {each.kind for each in parameters[: len(args)]}
    if len(args) > len(plain) or len(kinds) > 1 or set(plain[: len(args)]) & set(options):
        return args, options  # Python says what is wrong when the function is called
    return (), dict(zip(plain, args)) | options


@program
def _drawn(bound: Program, keys: Any, values: PyTree) -> dict[str, Any]:
    def one(key: Key) -> dict[str, Any]:
        found = bound.trace(values, key=key)
        return found.of_kind("latent", "observed", "fixed", "deterministic", "param")

    return jax.vmap(one)(keys)


def _as_data(tree: PyTree) -> PyTree:
    """Numbers with a fraction, arrays and columns of tables as arrays; all else as it is."""

    def one(leaf: Any) -> Any:
        if isinstance(leaf, jax.Array) or leaf is None or isinstance(leaf, int | str | bool):
            return leaf
        if isinstance(leaf, float | np.ndarray | np.generic) or hasattr(leaf, "to_numpy"):
            array = np.asarray(leaf)
            numeric = np.issubdtype(array.dtype, np.number) or array.dtype == bool
            return to_device(array) if numeric else leaf
        if isinstance(leaf, list | tuple):
            fix = "Leave such rows out."
            check(None not in leaf, "arguments", "columns of numbers", f"None at index {_index(leaf)}", fix)
            return to_device(np.asarray(leaf))
        return leaf

    return jax.tree.map(one, tree, is_leaf=_is_column)


def _is_column(leaf: Any) -> bool:
    """Whether it is one thing: a list of numbers, a column of a table; whole numbers in a tuple belong to
    the model."""
    if isinstance(leaf, list | tuple):
        kinds = (float, np.floating) if isinstance(leaf, tuple) else (int, float, np.number)
        numbers = all(each is None or isinstance(each, int | float | np.number) for each in leaf)
        return numbers and any(isinstance(each, kinds) for each in leaf)
    return leaf is None or hasattr(leaf, "to_numpy")


def _index(entries: list | tuple) -> int:
    return next((i for i, each in enumerate(entries) if each is None), -1)
