r"""`Posterior`: the one type of every answer about unknowns, whichever method gave it.

Kinds.       Chains (`mcmc`), variational members (`vi`, `pathfinder`), Gaussians at a mode (`laplace`),
             weighted particles (`smc`, `importance`), grids, and exact conjugate answers. Each says in
             `_chains` what draws stand for it, arrays `(chains, draws, ...)` of equal weight (one chain where
             they are independent), and in `log_evidence` what it knows of $\log p(D)$; the rest is written
             here, once.
Model.       A run carries the density that it was computed of, with its data, beside its fields: it is no
             part of the tree (`jit` and files see arrays alone). After `load` it is given again, as arguments
             of `loo`, `waic` and `predict`.
Cost.        Draws, report and evidence are computed when they are first asked for, and kept.
References.  Vehtari, Gelman and Gabry (2017), for what is asked of a posterior.
"""

import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core import storage
from tractable.core.checks import check
from tractable.core.estimate import Estimate
from tractable.core.keys import takes_key
from tractable.core.module import Module
from tractable.core.programs import light, program
from tractable.core.types import Key, PyTree
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
from tractable.inference.trust.evidence import Evidence, Grounds, digest_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Posterior", "as_one_chain", "each_draw", "remembered", "with_target"]

_BLOCK = 1 << 14  # draws of one chain that a derived quantity is computed of at once, at most
_NUMBERS = 1 << 22  # draws times numbers among the data, at once


class Posterior(Module):
    """What is known of unknowns after data: draws by name, summaries, evidence, predictions, files."""

    __slots__ = ("_answers", "_target")  # beside the fields: no part of the tree

    @abstractmethod
    def _chains(self) -> PyTree:
        """Draws of equal weight, arrays `(chains, draws, ...)` on the host."""

    @property
    @abstractmethod
    def verdict(self) -> Verdict:
        """How far to trust it: `ok`, `sentence`, and the `numbers` behind it."""

    @property
    @abstractmethod
    def log_evidence(self) -> Estimate:
        r"""$\log p(D)$ by what fits the kind, with its standard error."""

    def __getitem__(self, name: str) -> np.ndarray:
        """The draws `(chains, draws, ...)` of a variable (`theta`) or of one of its scalars (`theta[0]`)."""
        leaves = self._leaves()
        return leaves[name] if name in leaves else column(self._drawn(), name)

    @property
    def names(self) -> list[str]:
        """The scalar variables: `tau`, `theta[0]`, `theta[1]`, ..."""
        return [scalar for name, leaf in self._leaves().items() for scalar in variable_names(name, leaf)]

    @property
    def report(self) -> ChainReport:
        """Means, quantiles and diagnostics of every scalar variable, as arrays."""
        return remembered(self, "report", lambda: self._examined(PROBS))

    def summary(
        self, names: Sequence[str] | None = None, probs: Sequence[float | int] = (0.05, 0.5, 0.95)
    ) -> "pd.DataFrame":
        """Mean, sd, quantiles and error by variable, for chains with diagnostics; printed, it ends with the
        verdict.

        `names` choose scalars (`theta[0]`) or whole leaves (`theta`).
        """
        from tractable.inference.trust.summary_table import summary_table

        probs = tuple(float(prob) for prob in probs)
        report = self.report if set(probs) <= set(PROBS) else self._examined(probs)
        rows = self.names if names is None else self._chosen(names)
        return summary_table(report, probs, rows, self.verdict.sentence, diagnostics=self._is_dependent)

    def to_frame(self) -> "pd.DataFrame":
        """One row per draw, one column per scalar variable; the index is chain and draw."""
        import pandas as pd

        leaves = self._leaves()
        chains, draws = next(iter(leaves.values())).shape[:2]
        index = pd.MultiIndex.from_product([range(chains), range(draws)], names=["chain", "draw"])
        flat = [leaf.reshape(chains * draws, -1) for leaf in leaves.values()]
        return pd.DataFrame(np.concatenate(flat, 1), index=index, columns=self.names)

    def stacked(self) -> PyTree:
        """The draws with chains one after the other: arrays `(chains * draws, ...)`."""
        return jax.tree.map(lambda leaf: np.asarray(leaf).reshape(-1, *np.shape(leaf)[2:]), self._drawn())

    def expectation(self, function: Callable[[PyTree], Any]) -> Estimate:
        """The mean of `function(draw)`, a number or an array, with an error that knows the autocorrelation.

        The error is zero for a constant and NaN where draws are not finite.
        """
        values = each_draw(function, self._drawn())
        check(isinstance(values, np.ndarray), "function", "one that returns an array", type(values).__name__)
        values = values.astype(float)
        constant = values.max((0, 1)) == values.min((0, 1))
        error = np.where(constant, 0.0, mcse_mean(values))
        return Estimate(jnp.asarray(values.mean((0, 1))), jnp.asarray(error))

    # --- what needs the model ----------------------------------------------------------------------

    @property
    def grounds(self) -> Grounds:
        """What is known of the prior and the rows behind it: which evidences it may be compared with."""
        return remembered(self, "grounds", lambda: _grounds(self))

    def log_likelihoods(self, likelihood: Callable[..., Any] | None = None, *args: Any) -> np.ndarray:
        """The log-likelihood `(chains, draws, rows)` of each row at each draw.

        By the `likelihood` that the run was stated with, or `likelihood(x, *args)` that is given here.
        """
        return self._rows_of(self._drawn(), likelihood, args)

    def _rows_of(self, draws: PyTree, likelihood: Callable[..., Any] | None, args: tuple) -> np.ndarray:
        """The log-likelihood of each row at each of these draws."""
        rule, data = self._pointwise("likelihood") if likelihood is None else (likelihood, tuple(args))
        found = each_draw(rule, draws, data)
        fix = "Do not sum over the rows: the sum is made for you."
        shape = np.shape(found)[2:]
        check(len(shape) == 1, "likelihood", "one number per row", f"shape {shape} per draw", fix)
        return np.asarray(found)

    def loo(self, likelihood: Callable[..., Any] | None = None, *args: Any) -> Any:
        """Leave-one-out predictive accuracy: `inference.loo` of the log-likelihoods of the rows."""
        from tractable.inference.evidence.cross_validation import loo

        return loo(self, likelihood=likelihood, args=args)

    def waic(self, likelihood: Callable[..., Any] | None = None, *args: Any) -> Any:
        """The widely applicable information criterion: `inference.waic`."""
        from tractable.inference.evidence.cross_validation import waic

        return waic(self, likelihood=likelihood, args=args)

    def compare(self, other: "Posterior | Mapping[str, Posterior]", name: str = "this") -> Any:
        """This model beside an `other`, or several by name: which predicts left-out rows better."""
        from tractable.inference.evidence.stacking import compare

        others = other if isinstance(other, Mapping) else {"other": other}
        return compare({name: self, **others})

    @takes_key
    def predict(self, model: Callable[..., Any] | None = None, *args: Any, key: Key | None = None) -> Any:
        """What will be seen: `model(x, *args)` of each draw, drawn from where it is a distribution.

        Without a `model`, new rows like those observed, by the likelihood that the run was stated with; with
        `args`, at these instead of those of the run.

        >>> import jax.random as jr
        >>> from tractable.distributions import Normal
        >>> from tractable.inference import laplace
        >>> post = laplace(lambda mean: -0.5 * mean**2, 0.0)
        >>> found = post.predict(lambda mean: Normal(mean, 2.0), key=jr.key(0))
        >>> bool(abs(found.variance - 5) < 0.6)
        True
        """
        from tractable.inference.predicted import predict

        return predict(self, model, args, key)

    # --- where it goes -----------------------------------------------------------------------------

    @takes_key
    def to_arviz(
        self,
        *,
        coords: Mapping[str, Any] | None = None,
        dims: Mapping[str, Sequence[str]] | None = None,
        key: Key | None = None,
    ) -> Any:
        """Everything as ArviZ has it: a `DataTree`, or before version 1 an `InferenceData`.

        The draws and records; where the run was stated by a likelihood, the log-likelihood of the rows; where
        that is a distribution, what was observed and (with a `key`) what the draws predict. `dims` names the
        axes of variables, `coords` their places; the rows are `row`.
        """
        from tractable.inference.arviz import to_arviz

        return to_arviz(self, coords, dims, key)

    def save(self, path: str | os.PathLike) -> None:
        """Write all of it to one file for `tractable.load`; what cannot be stored is refused by name."""
        storage.save(path, self)

    def resume(self, num_draws: int | None = None, **options: Any) -> "Posterior":
        """Go on with a run of chains; the other kinds have nothing to go on with."""
        fix = "Call its function again, with more draws, or with the `checkpoint` of a run that was stopped."
        check(False, "resume", "asked of a run of chains", type(self).__name__, fix, TypeError)
        return self

    def _repr_html_(self) -> str:
        return f"{super()._repr_html_()}{self.summary()._repr_html_()}"

    # --- parts -------------------------------------------------------------------------------------

    _is_dependent = False  # whether draws follow each other, so that R-hat and effective sizes mean something

    def _weighted_draws(self) -> tuple[PyTree, Any] | None:
        """Draws `(n, ...)` of an approximation, and the log-weights that correct it."""
        return None

    def _drawn(self) -> PyTree:
        return remembered(self, "chains", self._chains)

    def _leaves(self) -> dict[str, np.ndarray]:
        return dict(named_leaves(self._drawn()))

    def _examined(self, probs: Sequence[float]) -> ChainReport:
        return examine(self._drawn(), probs)

    def _evidence(self, value: Any, error: Any, method: str, code: Any) -> Evidence:
        """An evidence with the grounds of this run."""
        value, error = jnp.asarray(value), jnp.asarray(error)
        return Evidence(value, error, jnp.asarray(int(code)), method=method, grounds=self.grounds)

    def _stated(self) -> Any:
        """The density with its data that the run carries; `None` after it was read from a file."""
        target: Any = getattr(self, "_target", None)
        return target

    def _pointwise(self, name: str) -> tuple[Any, tuple]:
        """The likelihood of the rows, and the data."""
        target: Any = self._stated()
        pointwise = getattr(getattr(target, "log_density", None), "pointwise", None)
        fix = (
            "Give it here, one number per row; or state the run by it: `mcmc(prior=..., likelihood=..., "
            "args=...)`."
        )
        alone = self._stated() is None
        got = "a run without its model, as read from a file" if alone else "a run of one log-density"
        check(pointwise is not None, name, "known, or given", got, fix)
        return pointwise, target.args

    def _chosen(self, names: Sequence[str]) -> list[str]:
        """The scalars that names of scalars or of leaves stand for."""
        check(not isinstance(names, str), "names", "a list of names", repr(names), f"Pass [{names!r}].")
        leaves = {name: variable_names(name, leaf) for name, leaf in self._leaves().items()}
        every, rows = set(self.names), []
        for name in names:
            known = name in leaves or name in every
            check(known, "names", f"among the variables ({', '.join(leaves)})", repr(name))
            rows += leaves.get(name, [name])
        return rows


def with_target(post: Any, target: Any) -> Any:
    """The same posterior, which now carries the density that it was computed of."""
    object.__setattr__(post, "_target", target)
    return post


def remembered(post: Posterior, name: str, compute: Callable[[], Any]) -> Any:
    """Computed once per object, which keeps it."""
    if not hasattr(post, "_answers"):
        object.__setattr__(post, "_answers", {})
    if name not in post._answers:
        post._answers[name] = compute()
    return post._answers[name]


def as_one_chain(draws: PyTree) -> PyTree:
    """Independent draws `(n, ...)` as one chain of them, on the host."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[None], draws)


def each_draw(function: Callable, draws: PyTree, args: tuple = ()) -> PyTree:
    """`function(draw, *args)` of each draw of arrays `(chains, draws, ...)`, in one program."""
    leaves = jax.tree.leaves(draws)
    chains = [_map_chain(function, draws, args, chain) for chain in range(np.shape(leaves[0])[0])]
    return jax.tree.map(lambda *parts: np.stack(parts), *chains)


def _map_chain(function: Callable, draws: PyTree, args: tuple, chain: int) -> PyTree:
    """Blocks of one size, the last of which reaches back: one program for all."""
    num_draws = np.shape(jax.tree.leaves(draws)[0])[1]
    held = sum(np.size(leaf) for leaf in jax.tree.leaves((function, args)) if np.ndim(leaf))
    size = min(_BLOCK, num_draws, max(_NUMBERS // max(held, 1), 16))
    starts = [min(start, num_draws - size) for start in range(0, num_draws, size)]
    parts, done = [], 0
    for start in starts:
        block = jax.tree.map(lambda leaf, low=start: _host(leaf[chain, low : low + size]), draws)
        found, skip = _of_block(function, block, args), done - start
        parts.append(jax.tree.map(lambda leaf, skip=skip: np.asarray(leaf)[skip:], found))
        done = start + size
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


def _host(leaf: Any) -> Any:
    """An array of NumPy; random keys stay as they are."""
    return leaf if isinstance(leaf, jax.Array) else np.asarray(leaf)


@program
@light
def _of_block(function: Callable, block: PyTree, args: tuple) -> PyTree:
    return jax.vmap(lambda draw: function(draw, *args))(block)


def _grounds(post: Posterior) -> Grounds:
    """From the statement that the run carries."""
    target = post._stated()
    statement: Any = getattr(target, "log_density", None)
    pointwise = getattr(statement, "pointwise", None)
    if pointwise is None:
        return Grounds("unknown")
    first = jax.tree.map(lambda leaf: leaf[0, 0], post._drawn())
    rows = jax.eval_shape(lambda x, args: pointwise(x, *args), first, target.args).shape
    count = rows[0] if rows else None
    if not pointwise.observes:
        return Grounds(statement.basis, count)
    is_mass = pointwise.distribution(first, *target.args).discrete
    return Grounds(statement.basis, count, digest_of(target.args[-1]), "mass" if is_mass else "density")
