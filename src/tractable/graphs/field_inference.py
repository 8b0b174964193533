r"""Inference in a product of discrete factors: exact through a junction tree, else Gibbs or loopy messages.

Identity.    $Z = \sum_x \prod_m \psi_m(x_m)$ and all marginals come from one calibration of a junction tree;
             $\partial \log Z / \partial \log\psi_m(x_m) = p(x_m)$, so that $\nabla\log Z$ is the expected
             statistics.
Cost.        Exponential in the treewidth alone, predicted by `cost` and refused where it does not fit.
References.  Koller and Friedman (2009), chapters 9 to 11.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check, check_count, check_option, is_concrete
from tractable.core.module import Module, field
from tractable.core.types import Array, Key, Scalar
from tractable.distributions.contraction import contract
from tractable.distributions.table_axes import Event, Names, TableAxes
from tractable.distributions.tables import JointTable
from tractable.graphs.answers import Marginals
from tractable.graphs.fallbacks import Choice, marginals_of
from tractable.graphs.forward import as_generator
from tractable.graphs.queries import Cost, Posterior, Potentials, posterior, predict_cost, read_evidence
from tractable.inference.gibbs.draws import FactorDraws
from tractable.inference.gibbs.factors import factor_gibbs
from tractable.messages.junction import TooLarge
from tractable.messages.loopy import LoopyBeliefs, loopy
from tractable.messages.potentials import Table

__all__ = ["FieldInference"]

Evidence = Mapping[str, Any] | None
_MOST_BYTES, _MOST_SECONDS = 2e9, 300.0


class FieldInference(Module):
    """Factors with named axes as log-potentials, and the queries that need nothing else."""

    logs: tuple[Array, ...]
    scopes: tuple[tuple[str, ...], ...] = field(static=True)
    axes: TableAxes = field(static=True)

    @property
    def names(self) -> tuple[str, ...]:
        return self.axes.names

    @property
    def states(self) -> dict[str, tuple[Any, ...]]:
        """The states of each variable."""
        return dict(zip(self.axes.names, self.axes.states))

    @property
    def factors(self) -> tuple[tuple[tuple[str, ...], Array], ...]:
        """Pairs of names and log-potentials."""
        return tuple(zip(self.scopes, self.logs))

    def log_partition(self, evidence: Evidence = None) -> Scalar:
        r"""$\log Z$, or with evidence the logarithm of the part of $Z$ that agrees with it ($-\infty$: none).

        Where the potentials are traced, by one contraction: $\nabla \log Z$ is the expected statistics.
        """
        if all(map(is_concrete, self.logs)):
            return jnp.asarray(self._posterior(evidence).log_total)
        check(not evidence, "evidence", "left out where the potentials are traced", evidence)
        tops = [jnp.max(logs) for logs in self.logs]
        tops = [jnp.where(top > -jnp.inf, top, 0.0) for top in tops]
        scaled = [(names, jnp.exp(logs - top)) for (names, logs), top in zip(self.factors, tops)]
        return jnp.log(contract(scaled, ())) + jnp.stack(tops).sum()

    def marginals(
        self,
        evidence: Evidence = None,
        *,
        method: str = "auto",
        key: Key | None = None,
        num_draws: int = 10_000,
        max_bytes: float | int = 2e9,
        max_seconds: float | int = 300.0,
    ) -> Marginals:
        """The distribution of every variable that was not observed, `{variable: {state: probability}}`.

        Exact where the predicted cost is within `max_bytes` and `max_seconds`; else by Gibbs sampling (with a
        `key`) or loopy propagation. The result says which. `method` may be "exact", "gibbs" or "loopy" too.
        """
        check_option("method", method, ("auto", "exact", "gibbs", "loopy"))
        observed = read_evidence(self.potentials, evidence)
        if method == "auto":
            fits = predict_cost(self.potentials, observed).fits(max_bytes, max_seconds)
            method = "exact" if fits else "loopy" if key is None else "gibbs"
        choice = Choice(method, key, num_draws, max_bytes, max_seconds)
        return marginals_of(self.potentials, observed, choice)

    def query(self, names: Names, evidence: Evidence = None) -> JointTable:
        """The joint distribution of `names` given evidence."""
        axes = self.axes.select(names)
        cells = self._possible(evidence).joint(self.potentials.numbers(axes.names))
        return JointTable(axes.names, cells, axes.states, validate=False)

    def mpe(self, evidence: Evidence = None) -> tuple[dict[str, Any], float]:
        """The most probable joint state that agrees with evidence, and its log-probability."""
        best, value = self._possible(evidence).most_probable()
        found = {name: self.axes.states[i][best[i]] for i, name in enumerate(self.names)}
        return found, value - float(np.asarray(self.log_partition()))

    def sample(self, key: Key, num_draws: int, evidence: Evidence = None) -> Any:
        """Independent exact draws given evidence, as a pandas DataFrame of states."""
        import pandas as pd

        rows = self._possible(evidence).sample(
            as_generator(key), check_count("num_draws", num_draws, least=0)
        )
        return pd.DataFrame({v: self.axes.state_array(v)[rows[:, i]] for i, v in enumerate(self.names)})

    def gibbs(self, key: Key, evidence: Event | None = None, **options: Any) -> FactorDraws:
        """Draws by Gibbs sampling, for fields too wide for exact answers; options of `factor_gibbs`."""
        places = {
            name: set(self.axes.mask(name, v).nonzero()[0].tolist()) for name, v in (evidence or {}).items()
        }
        found = factor_gibbs(self.factors, places, key=key, **options)
        return FactorDraws(found.places, self.axes, found.free, found.evidence)

    def loopy(self, evidence: Event | None = None, **options: Any) -> LoopyBeliefs:
        """Loopy belief propagation: exact on trees, else an estimate that says whether it settled.

        Options of `messages.loopy.loopy`, such as `damping` and `schedule`.
        """
        parts = [Table(names, logs, self.axes.select(names).states) for names, logs in self.factors]
        return loopy({f"factor {i}": each for i, each in enumerate(parts, start=1)}, evidence, **options)

    def cost(self, evidence: Evidence = None) -> Cost:
        """What an exact answer is predicted to need, before it is asked."""
        return predict_cost(self.potentials, read_evidence(self.potentials, evidence))

    @cached_property
    def potentials(self) -> Potentials:
        """The factors over numbered variables, for the engine of exact inference."""
        place = {name: i for i, name in enumerate(self.names)}
        scopes = tuple(tuple(place[name] for name in names) for names in self.scopes)
        return Potentials(self.names, self.axes.states, scopes, tuple(np.asarray(logs) for logs in self.logs))

    def _posterior(self, evidence: Evidence) -> Posterior:
        observed = read_evidence(self.potentials, evidence)
        cost = predict_cost(self.potentials, observed)
        if not cost.fits(_MOST_BYTES, _MOST_SECONDS):
            fix = "Use `marginals` with method 'gibbs' or 'loopy', `mean_field` or `gibbs`, or observe more."
            allowed = f"within {_MOST_BYTES:.3g} bytes and {_MOST_SECONDS:.3g} seconds"
            check(False, "exact inference", allowed, f"a prediction of {cost}", fix, TooLarge)
        return posterior(self.potentials, observed)

    def _possible(self, evidence: Evidence) -> Posterior:
        return self._posterior(evidence).require_possible()
