r"""The result of Markov chains: named draws, how they were made, and how far to trust them.

Draws.       A pytree of arrays `(chains, draws, ...)` on the host, or memory maps on disk.
Errors.      $E[f] \approx \bar f \pm \mathrm{sd}(f)/\sqrt{n_{\mathrm{eff}}}$, with the effective size of the
             values of $f$.
Cost.        The report on all scalars is computed once, when it is first asked for.
References.  Vehtari, Gelman, Simpson, Carpenter and Buerkner (2021).
"""

import dataclasses
import importlib
import os
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core import storage
from tractable.core.checks import check, check_count, has_values
from tractable.core.estimate import Estimate
from tractable.core.iterate import Ended, Status
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.types import PyTree
from tractable.core.verdict import Verdict
from tractable.inference.trust.chain_report import (
    PROBS,
    ChainReport,
    column,
    examine,
    named_leaves,
    variable_names,
)
from tractable.inference.trust.effective_size import mcse_mean
from tractable.inference.trust.verdict import Fault, find_faults, judge

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Posterior"]

_BLOCK = 1 << 14  # draws of one chain that a derived quantity is computed of at once

_ARVIZ_RECORDS = {
    "acceptance_rate": "acceptance",
    "n_steps": "num_gradients",
    "diverging": "diverging",
    "reached_max_treedepth": "saturated",
    "energy": "energy",
}


class Posterior(Ended, Module):
    """Draws of Markov chains with their records; prints as the table of its variables and the verdict."""

    __slots__ = ("_answers",)  # beside the fields, so that what was computed is no part of the tree

    draws: PyTree  # arrays (chains, draws, ...)
    log_density: Any  # (chains, draws)
    info: Any = None  # an `Info` of arrays (chains, draws)
    sampler: Any = None  # as the warm-up left it
    warmup: Any = None
    seconds: float | int = 0.0
    code: Any = Status.completed
    remarks: tuple[str, ...] = field(
        static=True, default=()
    )  # of the driver; each makes the verdict a refusal
    continuation: Any = None  # with which a run goes on

    @property
    def num_chains(self) -> int:
        return int(np.shape(self.log_density)[0])

    @property
    def num_draws(self) -> int:
        """Draws per chain."""
        return int(np.shape(self.log_density)[1])

    @property
    def num_gradients(self) -> int:
        """Evaluations of the density (with its gradient, where it is followed), those of the warm-up too."""
        counts = [getattr(part, "num_gradients", 0) for part in (self.info, self.warmup)]
        return int(sum(np.sum(np.asarray(count)) for count in counts))

    @property
    def names(self) -> list[str]:
        """The scalar variables: `tau`, `theta[0]`, `theta[1]`, ..."""
        return [scalar for name, leaf in named_leaves(self.draws) for scalar in variable_names(name, leaf)]

    @property
    def report(self) -> ChainReport:
        """Means, quantiles and diagnostics of every scalar variable, as arrays."""
        return _remembered(self, "report", lambda: examine(self.draws))

    @property
    def verdict(self) -> Verdict:
        """Whether to trust the draws: `ok`, `sentence`, and the `numbers` behind it."""
        return _remembered(self, "verdict", lambda: judge(self))

    @property
    def faults(self) -> tuple[Fault, ...]:
        """What is wrong with the draws, the gravest first, and what to do about it."""
        return _remembered(self, "faults", lambda: find_faults(self))

    def variable(self, name: str) -> np.ndarray:
        """The draws `(chains, draws)` of one scalar variable, such as `theta[0]`."""
        return column(self.draws, name)

    def summary(
        self, names: Sequence[str] | None = None, probs: Sequence[float | int] = (0.05, 0.5, 0.95)
    ) -> "pd.DataFrame":
        """Mean, sd, quantiles, error and diagnostics by variable; printed, it ends with the verdict.

        `names` choose scalars (`theta[0]`) or whole leaves (`theta`).
        """
        from tractable.inference.trust.summary_table import summary_table

        probs = tuple(float(prob) for prob in probs)
        report = self.report if set(probs) <= set(PROBS) else examine(self.draws, probs)
        rows = self.names if names is None else self._chosen(names)
        return summary_table(report, probs, rows, self.verdict.sentence)

    def stacked(self) -> PyTree:
        """The draws with chains one after the other: arrays `(chains * draws, ...)`."""
        size = self.num_chains * self.num_draws
        return jax.tree.map(lambda leaf: np.asarray(leaf).reshape(size, *np.shape(leaf)[2:]), self.draws)

    def map(self, function: Callable[[PyTree], PyTree]) -> "Posterior":
        """The posterior of `function(draw)`: a pytree of arrays, computed of each draw in one program."""
        chains = [self._map_chain(function, chain) for chain in range(self.num_chains)]
        draws = jax.tree.map(lambda *parts: np.stack(parts), *chains)
        return dataclasses.replace(self, draws=draws, continuation=None)

    def thin(self, step: int) -> "Posterior":
        """Every `step`-th draw of each chain."""
        step = check_count("step", step, 1, self.num_draws)
        kept = jax.tree.map(lambda leaf: leaf[:, ::step], (self.draws, self.log_density))
        shape = np.shape(self.log_density)
        info = jax.tree.map(lambda leaf: np.broadcast_to(np.asarray(leaf), shape)[:, ::step], self.info)
        return dataclasses.replace(self, draws=kept[0], log_density=kept[1], info=info, continuation=None)

    def expectation(self, function: Callable[[PyTree], Any]) -> Estimate:
        """The mean of `function(draw)`, a number or an array, with an error that knows the autocorrelation.

        The error is zero for a constant and NaN where draws are not finite.
        """
        values = self.map(function).draws
        check(isinstance(values, np.ndarray), "function", "one that returns an array", type(values).__name__)
        values = values.astype(float)
        constant = values.max((0, 1)) == values.min((0, 1))
        error = np.where(constant, 0.0, mcse_mean(values))
        return Estimate(jnp.asarray(values.mean((0, 1))), jnp.asarray(error))

    def save(self, path: str | os.PathLike) -> None:
        """Write all of it to one file for `tractable.load`; what cannot be stored is refused by name."""
        storage.save(path, self)

    def to_arviz(self) -> Any:
        """The draws and records as ArviZ has them: a `DataTree`, or before version 1 an `InferenceData`."""
        posterior = {name: np.asarray(leaf) for name, leaf in named_leaves(self.draws)}
        shape = np.shape(self.log_density)
        stats = {"lp": np.asarray(self.log_density)}
        if self.info is not None:
            stats |= {
                theirs: np.broadcast_to(np.asarray(getattr(self.info, ours)), shape)
                for theirs, ours in _ARVIZ_RECORDS.items()
            }
        return _to_arviz({"posterior": posterior, "sample_stats": stats})

    def __repr__(self) -> str:
        if not has_values((self.draws, self.log_density)):
            return "Posterior(...)"
        size = f"Posterior of {self.num_chains} x {self.num_draws} draws"
        return f"{size}, {self.num_gradients} gradients, {self.seconds:.3g} s\n{self.summary()!r}"

    def _chosen(self, names: Sequence[str]) -> list[str]:
        """The scalars that names of scalars or of leaves stand for."""
        check(not isinstance(names, str), "names", "a list of names", repr(names), f"Pass [{names!r}].")
        leaves = {name: variable_names(name, leaf) for name, leaf in named_leaves(self.draws)}
        every, rows = set(self.names), []
        for name in names:
            known = name in leaves or name in every
            check(known, "names", f"among the variables ({', '.join(leaves)})", repr(name))
            rows += leaves.get(name, [name])
        return rows

    def _map_chain(self, function: Callable, chain: int) -> PyTree:
        """Blocks of one size, the last of which reaches back: one program for all."""
        size = min(_BLOCK, self.num_draws)
        starts = [min(start, self.num_draws - size) for start in range(0, self.num_draws, size)]
        parts, done = [], 0
        for start in starts:
            block = jax.tree.map(
                lambda leaf, low=start: np.asarray(leaf[chain, low : low + size]), self.draws
            )
            found, skip = _each_draw(function, block), done - start
            parts.append(jax.tree.map(lambda leaf, skip=skip: np.asarray(leaf)[skip:], found))
            done = start + size
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


def _remembered(post: Posterior, name: str, compute: Callable[[], Any]) -> Any:
    """Computed once per object, which keeps it."""
    if not hasattr(post, "_answers"):
        object.__setattr__(post, "_answers", {})
    if name not in post._answers:
        post._answers[name] = compute()
    return post._answers[name]


@program
def _each_draw(function: Callable, block: PyTree) -> PyTree:
    return jax.vmap(function)(block)


def _to_arviz(groups: dict[str, dict[str, np.ndarray]]) -> Any:
    """By whichever generation of ArviZ is installed."""
    library = _arviz()
    old = library.__name__ == "arviz" and library.__version__.startswith("0.")
    return library.from_dict(**groups) if old else library.from_dict(groups)


def _arviz() -> ModuleType:
    for name in ("arviz", "arviz_base"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:  # it is there, and lacks something itself
                raise
    raise ModuleNotFoundError(
        "`to_arviz` must have ArviZ installed; got none. Run `pip install tractable[arviz]`."
    )
