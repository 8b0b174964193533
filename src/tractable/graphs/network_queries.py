r"""The questions that a discrete network answers, by name: marginals, explanations, draws, sensitivity.

Identities.  $P(x_A \mid e)$, $\log P(e)$, $\max_x P(x, e)$, $\max_{x_A} P(x_A, e)$, $E[f(x_A) \mid e]$.
Cost.        One calibration of a junction tree, planned once per pattern of evidence; see `cost`.
References.  Koller and Friedman (2009) chapters 9, 10 and 13; Darwiche (2009).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tractable.core.checks import check, check_count
from tractable.core.types import Key, Scalar
from tractable.distributions.table_axes import Names, as_names
from tractable.graphs.answers import Answer, Marginals
from tractable.graphs.dag import DAG
from tractable.graphs.fallbacks import Choice, marginals_of, require_fit, solve
from tractable.graphs.forward import as_generator, forward_draws
from tractable.graphs.marginal_map import marginal_map
from tractable.graphs.queries import (
    Cost,
    Observed,
    Potentials,
    k_best,
    posterior,
    predict_cost,
    read_evidence,
)
from tractable.graphs.reasoning import Reasoning, Sensitivity, reasoning_kinds, sensitivity

__all__ = ["Evidence", "NetworkQueries"]

Evidence = Mapping[str, Any] | None
Explanation = tuple[dict[str, Any], float]


class NetworkQueries(ABC):
    """Queries of a network given evidence.

    Evidence maps names to a state, a set or list of states, a predicate of one state, or a likelihood: a
    mapping from states to numbers (zero where not named), or an array with one number per state.
    """

    @property
    @abstractmethod
    def potentials(self) -> Potentials:
        """The tables as factors over numbered variables."""

    @property
    @abstractmethod
    def dag(self) -> DAG:
        """The graph."""

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

        Exact where the predicted cost is within `max_bytes` and `max_seconds`; else by likelihood weighting
        or Gibbs sampling (with a `key`) or loopy propagation. The result says which. `method` may be "exact",
        "likelihood_weighting", "gibbs" or "loopy" too.
        """
        observed = read_evidence(self.potentials, evidence)
        choice = Choice(method, key, num_draws, max_bytes, max_seconds)
        return marginals_of(self.potentials, observed, choice)

    def query(
        self,
        names: Names,
        evidence: Evidence = None,
        *,
        method: str = "auto",
        key: Key | None = None,
        num_draws: int = 10_000,
        max_bytes: float | int = 2e9,
        max_seconds: float | int = 300.0,
    ) -> Answer:
        """The joint table of `names` given evidence; options as for `marginals`."""
        observed, targets = read_evidence(self.potentials, evidence), self.potentials.numbers(names)
        cells = float(np.prod([float(self.potentials.sizes[i]) for i in targets]))
        fix = "Ask for fewer variables at once."
        check(8 * cells <= max_bytes, "names", "few enough for one table", f"{cells:.3g} cells", fix)
        choice = Choice(method, key, num_draws, max_bytes, max_seconds)
        found, report = solve(self.potentials, observed, self._ancestral(targets, observed), choice)
        return Answer(self.potentials.axes(targets), found.joint(targets), report)

    def cost(self, evidence: Evidence = None) -> Cost:
        """The predicted seconds, bytes and treewidth of exact marginals given this pattern of evidence."""
        return predict_cost(self.potentials, read_evidence(self.potentials, evidence))

    def log_evidence(self, evidence: Evidence = None) -> float:
        r"""$\log P(e)$; minus infinity for impossible evidence."""
        observed = read_evidence(self.potentials, evidence)
        relevant = self._ancestral((), observed)
        require_fit(predict_cost(self.potentials, observed, relevant))
        return posterior(self.potentials, observed, relevant).log_total

    def mpe(self, evidence: Evidence = None) -> Explanation:
        r"""The most probable joint state $x$ of all variables given evidence, and $\log P(x, e)$."""
        observed = self._fitting(evidence)
        found = posterior(self.potentials, observed).require_possible()
        return self._explanation(*found.most_probable())

    def map(self, names: Names, evidence: Evidence = None) -> Explanation:
        r"""The most probable joint state of `names` with all others summed out, and $\log P(x_A, e)$.

        It need not agree with `mpe`; the probability given evidence is that divided by $P(e)$.
        """
        observed, targets = read_evidence(self.potentials, evidence), self.potentials.numbers(names)
        found = marginal_map(self.potentials, observed, targets, self._ancestral(targets, observed))
        return self._explanation(*found)

    def k_best(self, count: int, evidence: Evidence = None) -> list[Explanation]:
        r"""The `count` most probable joint states given evidence, best first, each with $\log P(x, e)$.

        Fewer where there are fewer of positive probability.
        """
        observed = self._fitting(evidence)
        posterior(self.potentials, observed).require_possible()
        found = k_best(self.potentials, observed, check_count("count", count))
        return [self._explanation(*each) for each in found]

    def sample(self, key: Key, num_draws: int, evidence: Evidence = None) -> Any:
        """Independent draws as a pandas DataFrame: ancestral, or given evidence of the exact posterior."""
        import pandas as pd

        count, generator = check_count("num_draws", num_draws), as_generator(key)
        if evidence:
            found = posterior(self.potentials, self._fitting(evidence)).require_possible()
            rows = found.sample(generator, count)
        else:
            rows, _ = forward_draws(self.potentials, Observed({}, {}, ""), generator, count)
        axes = self.potentials.axes(range(len(self.potentials.names)))
        return pd.DataFrame(
            {name: axes.state_array(name).take(rows[:, i]) for i, name in enumerate(axes.names)}
        )

    def expectation(
        self, quantity: str | Mapping[Any, Any] | Callable[..., Any], *names: str, evidence: Evidence = None
    ) -> Scalar:
        r"""$E[f(x_A) \mid e]$, with `quantity` and `names` as for `JointTable.expectation`."""
        targets = (quantity,) if isinstance(quantity, str) else names
        return self.query(targets, evidence).expectation(quantity, *names)

    def sensitivity(
        self, event: Mapping[str, Any], evidence: Evidence = None, *, of: str, covary: bool = True
    ) -> Sensitivity:
        r"""$\partial P(\mathrm{event} \mid e)/\partial\theta$ by each entry $\theta$ of the table of `of`.

        With `covary` the rest of the row keeps its proportions and the row its sum; without, the entry alone
        moves.
        """
        self._fitting(evidence)
        return sensitivity(self.potentials, event, evidence, of, covary)

    def reasoning(self, targets: Names, evidence: Mapping[str, Any]) -> Reasoning:
        """Prior and posterior of the targets, and the kinds of reasoning that connect them to evidence."""
        names = as_names(targets)
        read_evidence(self.potentials, evidence)
        before = {name: self._table(name, None) for name in names}
        after = {name: self._table(name, evidence) for name in names}
        kinds = {name: reasoning_kinds(self.dag, name, evidence) for name in names}
        return Reasoning(dict(evidence), before, after, kinds)

    def d_separated(self, x: Names, y: Names, given: Names = ()) -> bool:
        """Whether the graph alone makes `x` and `y` independent given the variables `given`."""
        return self.dag.d_separated(x, y, given)

    def markov_blanket(self, name: str) -> frozenset[str]:
        """Parents, children and the children's other parents."""
        return self.dag.markov_blanket(name)

    def _table(self, name: str, evidence: Evidence) -> dict[Any, float]:
        i = self.potentials.index(name)
        return dict(zip(self.potentials.states[i], map(float, np.asarray(self.query(name, evidence).probs))))

    def _fitting(self, evidence: Evidence) -> Observed:
        """Evidence whose exact posterior over all variables fits."""
        observed = read_evidence(self.potentials, evidence)
        require_fit(predict_cost(self.potentials, observed))
        return observed

    def _ancestral(self, targets: Sequence[int], observed: Observed) -> tuple[int, ...]:
        """The numbers of targets, evidence and their ancestors: all others sum to one."""
        names = [self.potentials.names[i] for i in {*targets, *observed.variables}]
        kept = {*names, *self.dag.ancestors(names)}
        return tuple(i for i, name in enumerate(self.potentials.names) if name in kept)

    def _explanation(self, places: Mapping[int, int], value: float) -> Explanation:
        states, names = self.potentials.states, self.potentials.names
        return {names[i]: states[i][places[i]] for i in sorted(places)}, float(value)
