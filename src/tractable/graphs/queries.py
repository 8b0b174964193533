r"""The questions that a product of discrete tables answers, by name: marginals, explanations, draws.

Identities.  $P(x_A \mid e)$, $\max_x P(x, e)$, $\max_{x_A} P(x_A, e)$, $E[f(x_A) \mid e]$, with
             $P(x) = \frac1Z \prod_m f_m(x_m)$; $Z = 1$ for a network.
Cost.        One calibration of a junction tree, planned once per pattern of evidence; see `cost`.
References.  Koller and Friedman (2009) chapters 9, 10 and 13; Darwiche (2009).
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from tractable.core.checks import check, check_count
from tractable.core.host_random import generator
from tractable.core.types import Key, Scalar
from tractable.distributions.table_axes import Names
from tractable.graphs.answers import ALTERNATIVES, Answer, Choice, Marginals, marginals_of, solve
from tractable.graphs.potentials import Posterior, Potentials, k_best, marginal_map, posterior, predict_cost
from tractable.messages.cost import BUDGET, Budget, Cost, require_fit
from tractable.messages.evidence import Evidence

__all__ = ["DiscreteQueries", "Observations"]

Observations = Mapping[str, Any] | None
Explanation = tuple[dict[str, Any], float]


class DiscreteQueries:
    """Queries of discrete variables given evidence.

    Evidence maps names to a state, a set or list of states, a predicate of one state, or a likelihood: a
    mapping from states to numbers (zero where not named), or an array with one number per state.
    """

    directed: ClassVar[bool] = False  # whether the factors are conditional tables, parents before children

    @property
    @abstractmethod
    def potentials(self) -> Potentials:
        """The tables as factors over numbered variables: what exact inference works on."""

    def marginals(
        self,
        evidence: Observations = None,
        *,
        method: str = "auto",
        key: Key | None = None,
        num_draws: int = 10_000,
        budget: Budget = BUDGET,
    ) -> Marginals:
        """The distribution of every variable that was not observed, `{variable: {state: probability}}`.

        Exact where the predicted cost is within the `budget` of bytes and seconds; else by likelihood
        weighting (of networks) or Gibbs sampling (with a `key`) or loopy propagation. The result says which.
        `method` may be "exact", "likelihood_weighting", "gibbs" or "loopy" too.
        """
        choice = Choice(self.directed, method, key, num_draws, budget)
        return marginals_of(self.potentials, self.potentials.read(evidence), choice)

    def query(self, names: Names, evidence: Observations = None, **options: Any) -> Answer:
        """The joint table of `names` given evidence; options as for `marginals`."""
        choice = Choice(self.directed, **options)
        observed, targets = self.potentials.read(evidence), self.potentials.numbers(names)
        cells = float(np.prod([float(self.potentials.sizes[i]) for i in targets]))
        fix, fits = "Ask for fewer variables at once.", 8 * cells <= choice.budget.max_bytes
        check(fits, "names", "few enough for one table", f"{cells:.3g} cells", fix)
        found, report = solve(self.potentials, observed, self._relevant(targets, observed), choice)
        return Answer(self.potentials.select(targets), found.joint(targets), report)

    def cost(self, evidence: Observations = None) -> Cost:
        """The predicted seconds, bytes and treewidth of exact marginals given this pattern of evidence."""
        return predict_cost(self.potentials, self.potentials.read(evidence))

    def log_evidence(self, evidence: Observations = None) -> float:
        r"""$\log P(e)$; minus infinity for impossible evidence."""
        return self._exact(evidence, ()).log_total - self._log_scale()

    def mpe(self, evidence: Observations = None) -> Explanation:
        r"""The most probable joint state $x$ of all variables given evidence, and $\log P(x, e)$."""
        return self._explanation(*self._exact(evidence).require_possible().most_probable())

    def map(self, names: Names, evidence: Observations = None) -> Explanation:
        r"""The most probable joint state of `names` with all others summed out, and $\log P(x_A, e)$.

        It need not agree with `mpe`; the probability given evidence is that divided by $P(e)$.
        """
        observed, targets = self.potentials.read(evidence), self.potentials.numbers(names)
        relevant = self._relevant(targets, observed)
        return self._explanation(*marginal_map(self.potentials, observed, targets, relevant))

    def k_best(self, num_best: int, evidence: Observations = None) -> list[Explanation]:
        r"""The `count` most probable joint states given evidence, best first, each with $\log P(x, e)$.

        Fewer where there are fewer of positive probability.
        """
        observed = self._exact(evidence).require_possible().observed
        found = k_best(self.potentials, observed, check_count("num_best", num_best))
        return [self._explanation(*each) for each in found]

    def sample(self, key: Key, num_draws: int, evidence: Observations = None) -> Any:
        """Independent draws given evidence, exact, as a pandas DataFrame of states."""
        count = check_count("num_draws", num_draws, least=0)
        return self._frame(self._exact(evidence).require_possible().sample(generator(key), count))

    def expectation(
        self,
        quantity: str | Mapping[Any, Any] | Callable[..., Any],
        *names: str,
        evidence: Observations = None,
    ) -> Scalar:
        r"""$E[f(x_A) \mid e]$, with `quantity` and `names` as for `JointTable.expectation`."""
        targets = (quantity,) if isinstance(quantity, str) else names
        return self.query(targets, evidence).expectation(quantity, *names)

    def _exact(self, evidence: Observations, targets: Sequence[int] | None = None) -> Posterior:
        """The exact posterior of all variables, or of some with what they depend on, if that fits."""
        observed = self.potentials.read(evidence)
        relevant = None if targets is None else self._relevant(targets, observed)
        require_fit(predict_cost(self.potentials, observed, relevant), BUDGET, ALTERNATIVES)
        return posterior(self.potentials, observed, relevant)

    def _relevant(self, targets: Sequence[int], observed: Evidence) -> tuple[int, ...] | None:
        """The variables that targets and evidence depend on, the others summing to one; None for all."""
        return None

    def _log_scale(self) -> float:
        r"""$\log Z$."""
        return 0.0

    def _explanation(self, places: Mapping[int, int], value: float) -> Explanation:
        axes = self.potentials.axes
        states = {axes.names[i]: axes.states[i][places[i]] for i in sorted(places)}
        return states, float(value) - self._log_scale()

    def _frame(self, rows: np.ndarray) -> Any:
        import pandas as pd

        axes = self.potentials.axes
        return pd.DataFrame({v: axes.state_array(v).take(rows[:, i]) for i, v in enumerate(axes.names)})
