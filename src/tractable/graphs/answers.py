r"""Answers that say how they were found: exact where the predicted cost is within the budget, else rough.

Choice.      With a key, likelihood weighting (of networks) if its draws are worth at least a hundred; else
             Gibbs sampling, unless the tables have zeros, which may cut its chains off. Without a key, loopy
             propagation.
Likelihood.  A likelihood $\lambda(x)$ is the evidence $y = 1$ of a child with
             $P(y = 1 \mid x) = \lambda(x) / \max \lambda$.
Cost.        Approximations: linear in the tables, per draw, sweep or iteration.
References.  Koller and Friedman (2009) chapters 11 and 12.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import ImpossibleEvidence, check, check_count, check_option
from tractable.core.description import shortened
from tractable.core.host_random import generator
from tractable.core.module import field
from tractable.core.types import Key
from tractable.core.verdict import Verdict
from tractable.distributions.table_axes import TableAxes
from tractable.distributions.tables import JointTable
from tractable.graphs.potentials import Posterior, Potentials, posterior, predict_cost
from tractable.messages.cost import BUDGET, Budget, Cost, require_fit
from tractable.messages.evidence import Evidence

__all__ = ["Answer", "Approximation", "Choice", "Marginals", "Report", "marginals_of", "solve"]

ALTERNATIVES = (
    "Observe more variables, ask `marginals` or `query` with method 'likelihood_weighting', 'gibbs' "
    "(with a key) or 'loopy', or raise the budget."
)
EXACT = Verdict(True, "Exact.")
_LEAST_WORTH = 100
_CHAINS = 4
_DAMPING = 0.3


@dataclass(frozen=True)
class Report:
    """The algorithm of an answer, how far to trust it, and what it cost."""

    algorithm: str
    exact: bool
    verdict: Verdict
    seconds: float
    cost: Cost | None = None

    def __str__(self) -> str:
        return f"{self.algorithm}, {self.seconds:.2g} s: {self.verdict}"


class Marginals(dict):
    """`{variable: {state: probability}}` of the variables that were not observed, with `report`.

    The error of each probability, where the algorithm has one, is in `errors`; `log_evidence` is NaN where
    the algorithm does not tell it.
    """

    def __init__(
        self,
        marginals: Mapping[str, Mapping[Any, float]],
        report: Report,
        log_evidence: float,
        certain: Mapping[str, Mapping[Any, float]] | None = None,
        errors: Mapping[str, Mapping[Any, float]] | None = None,
    ):
        super().__init__(marginals)
        self.report, self.log_evidence = report, log_evidence
        self.certain, self.errors = dict(certain or {}), dict(errors or {})

    @property
    def algorithm(self) -> str:
        """The name of the algorithm."""
        return self.report.algorithm

    @property
    def exact(self) -> bool:
        """Whether the numbers are exact, up to rounding."""
        return self.report.exact

    def to_pandas(self) -> Any:
        """One row per variable and state."""
        import pandas as pd

        rows = [(name, state, p) for name, states in self.items() for state, p in states.items()]
        return pd.DataFrame(rows, columns=["variable", "state", "probability"])

    def __missing__(self, name: Any) -> Mapping[Any, float]:
        """An observed variable has its state for certain."""
        known = ", ".join((*self, *self.certain))
        check(name in self.certain, "variable", f"one of {known}", repr(name), error=KeyError)
        return self.certain[name]

    def __repr__(self) -> str:
        width = max((len(name) for name in self), default=0) + 2
        lines = (
            f"{name:<{width}}" + "  ".join(f"{state}: {p:.6f}" for state, p in states.items())
            for name, states in self.items()
        )
        return "\n".join([*shortened(lines), str(self.report)])


class Answer(JointTable):
    """A joint table that knows how it was found."""

    report: Report = field(static=True, default=None)

    def __init__(self, axes: TableAxes, probs: np.ndarray, report: Report):
        super().__init__(axes.names, probs, axes.states, validate=False)
        self.report = report

    def __repr__(self) -> str:
        return f"{super().__repr__()}\n{self.report}"


@dataclass(frozen=True)
class Choice:
    """A method, what it may cost, and what the random ones need; `directed` where tables are conditional."""

    directed: bool
    method: str = "auto"
    key: Key | None = None
    num_draws: int = 10_000
    budget: Budget = BUDGET

    def __post_init__(self) -> None:
        weighting = ("likelihood_weighting",) if self.directed else ()
        check_option("method", self.method, ("auto", "exact", *weighting, "gibbs", "loopy"))


@dataclass(frozen=True)
class Approximation:
    """Marginals by number of variable, the joint draws behind them if there are any, and a verdict."""

    potentials: Potentials
    algorithm: str
    probs: dict[int, np.ndarray]
    errors: dict[int, np.ndarray]
    log_total: float  # of the evidence; NaN where the algorithm does not tell it
    verdict: Verdict
    worth: float = np.nan  # in independent draws
    rows: np.ndarray | None = None
    weights: np.ndarray | None = None

    def marginals(self, variables: Iterable[int]) -> dict[int, np.ndarray]:
        """The marginal of each of the variables."""
        return {i: self.probs[i] for i in variables}

    def joint(self, variables: Sequence[int]) -> np.ndarray:
        """The share of each joint state among the draws; the product of marginals does not replace it."""
        if len(variables) == 1:
            return self.probs[variables[0]]
        fix = "Use a method of draws: 'likelihood_weighting' or 'gibbs', with a key."
        names = tuple(self.potentials.names[i] for i in variables)
        check(self.rows is not None, "names", "one variable for loopy propagation", names, fix)
        assert self.rows is not None
        assert self.weights is not None
        table = np.zeros([self.potentials.sizes[i] for i in variables])
        np.add.at(table, tuple(self.rows[:, i] for i in variables), self.weights)
        return table / table.sum()


def marginals_of(potentials: Potentials, observed: Evidence, choice: Choice) -> Marginals:
    """The distribution of every variable that was not observed, by the chosen method."""
    found, report = solve(potentials, observed, None, choice)
    free = [i for i in range(len(potentials.names)) if i not in observed.hard]
    certain = {i: np.eye(potentials.sizes[i])[place] for i, place in observed.hard.items()}
    errors = {i: found.errors[i] for i in free if i in found.errors}

    def by_state(probs: Mapping[int, np.ndarray]) -> dict[str, dict[Any, float]]:
        named = ((potentials.names[i], potentials.axes.states[i], p) for i, p in probs.items())
        return {name: dict(zip(states, p.tolist())) for name, states, p in named}

    tables = [by_state(each) for each in (found.marginals(free), certain, errors)]
    return Marginals(tables[0], report, found.log_total, *tables[1:])


def solve(
    potentials: Potentials, observed: Evidence, relevant: Iterable[int] | None, choice: Choice
) -> tuple[Posterior | Approximation, Report]:
    """The exact posterior if its predicted cost is allowed (or it is asked for), else an approximation."""
    began = time.perf_counter()
    cost = predict_cost(potentials, observed, relevant)
    if choice.method == "exact" or (choice.method == "auto" and cost.fits(choice.budget)):
        require_fit(cost, choice.budget, ALTERNATIVES)
        found = posterior(potentials, observed, relevant).require_possible()
        return found, Report("junction tree", True, EXACT, time.perf_counter() - began, cost)
    rough = _approximate(potentials, observed, choice)
    return rough, Report(rough.algorithm, False, rough.verdict, time.perf_counter() - began, cost)


def _approximate(potentials: Potentials, observed: Evidence, choice: Choice) -> Approximation:
    """The approximation of a named method, or with "auto" of the one that the evidence asks for."""
    method, key, num_draws = choice.method, choice.key, check_count("num_draws", choice.num_draws)
    if method == "loopy" or (method == "auto" and key is None):
        return _loopy(potentials, observed)
    check(key is not None, "key", f"a random key for {method!r}", None)
    assert key is not None
    key_weighting, key_gibbs = jr.split(key)
    if method != "gibbs" and choice.directed:
        weighted = _weighting(potentials, observed, key_weighting, num_draws)
        zeros = any((logs == -np.inf).any() for logs in potentials.logs)
        if method == "likelihood_weighting" or weighted.worth >= _LEAST_WORTH or zeros:
            return weighted
    return _gibbs(potentials, observed, key_gibbs, num_draws)


def _weighting(potentials: Potentials, observed: Evidence, key: Key, num_draws: int) -> Approximation:
    from tractable.inference.weighted.ancestral import WeightedStates, forward_draws
    from tractable.inference.weighted.pareto import smooth
    from tractable.inference.weighted.weights import weighted_mean

    rows, logs = forward_draws(potentials.steps, observed, generator(key), num_draws)
    fix = "It may be impossible, or too rare for these draws."
    possible = bool((logs > -np.inf).any())
    got = f"P({observed.words}) = 0 in all {num_draws} draws"
    check(possible, "evidence", "of positive weight in a draw", got, fix, ImpossibleEvidence)
    log_weights = jnp.asarray(logs)
    found = WeightedStates({}, log_weights, smooth(log_weights).k_hat, False)
    marginals, errors = {}, {}
    for i, size in enumerate(potentials.sizes):
        estimate = weighted_mean(np.eye(size)[rows[:, i]], log_weights)
        marginals[i], errors[i] = np.asarray(estimate.value), np.asarray(estimate.standard_error)
    worth, k_hat = float(found.ess), float(found.k_hat)
    sentence = f"Worth {worth:.0f} of {num_draws} draws. {found.verdict}"
    verdict = Verdict(worth >= _LEAST_WORTH and k_hat < 0.7, sentence, {"ess": worth, "k_hat": k_hat})
    weights = np.exp(logs - logs.max())
    log_evidence = float(found.log_evidence.value)
    return Approximation(
        potentials, "likelihood weighting", marginals, errors, log_evidence, verdict, worth, rows, weights
    )


def _gibbs(potentials: Potentials, observed: Evidence, key: Key, num_draws: int) -> Approximation:
    from tractable.inference.gibbs.factors import factor_gibbs

    sweeps = max(num_draws // _CHAINS, 4)
    evidence = {str(i): state for i, state in observed.hard.items()}
    factors = [([str(i) for i in scope], logs) for scope, logs in _factors(potentials, observed)]
    found = factor_gibbs(
        factors, evidence, key=key, num_sweeps=sweeps, num_warmup=sweeps // 4, num_chains=_CHAINS
    )
    rows = np.zeros((_CHAINS * sweeps, len(potentials.names)), int)
    for i, state in observed.hard.items():
        rows[:, i] = state
    rows[:, [int(name) for name in found.free]] = np.asarray(found.places).reshape(_CHAINS * sweeps, -1)
    marginals = {i: np.eye(potentials.sizes[i])[state] for i, state in observed.hard.items()}
    errors = {i: np.zeros_like(probs) for i, probs in marginals.items()}
    for name, estimate in found.marginals().items():
        marginals[int(name)] = np.asarray(estimate.value)
        errors[int(name)] = np.asarray(estimate.standard_error)
    worth = found.least_ess
    verdict = Verdict(worth >= _LEAST_WORTH, str(found.verdict), {"ess": worth})
    return Approximation(
        potentials, "Gibbs sampling", marginals, errors, np.nan, verdict, worth, rows, np.ones(len(rows))
    )


def _loopy(potentials: Potentials, observed: Evidence) -> Approximation:
    from tractable.messages.loopy import loopy

    pairs = enumerate(_factors(potentials, observed))
    factors = {f"f{m}": ([str(i) for i in scope], logs) for m, (scope, logs) in pairs}
    evidence = {str(i): state for i, state in observed.hard.items()}
    found = loopy(factors, evidence, damping=_DAMPING)
    probs = {i: np.asarray(found.marginal(str(i)).probs) for i in range(len(potentials.names))}
    return Approximation(potentials, "loopy propagation", probs, {}, found.log_total, found.verdict)


def _factors(potentials: Potentials, observed: Evidence) -> list[tuple[tuple[int, ...], np.ndarray]]:
    """All factors by number of the variables: names and states play no part in approximations."""
    return [*zip(potentials.scopes, potentials.logs), *observed.log_factors]
