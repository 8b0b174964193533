r"""Approximate answers where exact ones do not fit: likelihood weighting, Gibbs sampling, loopy propagation.

Choice.      With a key, likelihood weighting if its draws are worth at least a hundred; else Gibbs sampling,
             unless the tables have zeros, which may cut its chains off. Without a key, loopy propagation.
Likelihood.  A likelihood $\lambda(x)$ is the evidence $y = 1$ of a child with
             $P(y = 1 \mid x) = \lambda(x) / \max \lambda$.
Cost.        Linear in the tables, per draw, sweep or iteration.
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
from tractable.core.types import Key
from tractable.graphs.answers import Marginals, Report
from tractable.graphs.forward import as_generator, forward_draws
from tractable.graphs.queries import Cost, Observed, Posterior, Potentials, posterior, predict_cost
from tractable.inference.gibbs.factors import factor_gibbs
from tractable.inference.weighted.ancestral import WeightedStates
from tractable.inference.weighted.pareto import smooth
from tractable.inference.weighted.weights import weighted_mean
from tractable.messages.junction import TooLarge
from tractable.messages.loopy import loopy

__all__ = ["METHODS", "Approximation", "Choice", "marginals_of", "require_fit", "solve"]

METHODS = ("likelihood_weighting", "gibbs", "loopy")
_LEAST_WORTH = 100
_CHAINS = 4
_DAMPING = 0.3


@dataclass(frozen=True)
class Choice:
    """A method, what it may cost, and what the random ones need."""

    method: str = "auto"
    key: Key | None = None
    num_draws: int = 10_000
    max_bytes: float | int = 2e9
    max_seconds: float | int = 300.0


@dataclass(frozen=True)
class Approximation:
    """Marginals by number of variable, the joint draws behind them if there are any, and a verdict."""

    potentials: Potentials
    algorithm: str
    probs: dict[int, np.ndarray]
    errors: dict[int, np.ndarray]
    log_total: float  # of the evidence; NaN where the algorithm does not tell it
    verdict: str
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


def marginals_of(potentials: Potentials, observed: Observed, choice: Choice) -> Marginals:
    """The distribution of every variable that was not observed, by the chosen method."""
    found, report = solve(potentials, observed, None, choice)
    free = [i for i in range(len(potentials.names)) if i not in observed.hard]
    certain = {i: np.eye(potentials.sizes[i])[place] for i, place in observed.hard.items()}
    errors = {i: found.errors[i] for i in free if i in found.errors}

    def by_state(probs: Mapping[int, np.ndarray]) -> dict[str, dict[Any, float]]:
        named = ((potentials.names[i], potentials.states[i], p) for i, p in probs.items())
        return {name: dict(zip(states, map(float, p))) for name, states, p in named}

    tables = [by_state(each) for each in (found.marginals(free), certain, errors)]
    return Marginals(tables[0], report, found.log_total, *tables[1:])


def solve(
    potentials: Potentials, observed: Observed, relevant: Iterable[int] | None, choice: Choice
) -> tuple[Posterior | Approximation, Report]:
    """The exact posterior if its predicted cost is allowed (or it is asked for), else an approximation."""
    check_option("method", choice.method, ("auto", "exact", *METHODS))
    began = time.perf_counter()
    cost = predict_cost(potentials, observed, relevant)
    if choice.method == "exact" or (
        choice.method == "auto" and cost.fits(choice.max_bytes, choice.max_seconds)
    ):
        require_fit(cost, choice.max_bytes, choice.max_seconds)
        found = posterior(potentials, observed, relevant).require_possible()
        return found, Report("junction tree", True, "Exact.", time.perf_counter() - began, cost)
    rough = _approximate(potentials, observed, choice)
    return rough, Report(rough.algorithm, False, rough.verdict, time.perf_counter() - began, cost)


def require_fit(cost: Cost, max_bytes: float | int = 2e9, max_seconds: float | int = 300.0) -> None:
    """Refuse, with alternatives, what would not fit."""
    if not cost.fits(max_bytes, max_seconds):
        fix = (
            "Observe more variables, ask `marginals` or `query` with method 'likelihood_weighting', 'gibbs' "
            "(with a key) or 'loopy', or raise `max_bytes` and `max_seconds`."
        )
        allowed = f"{max_bytes:.3g} bytes and {max_seconds:.3g} seconds"
        check(False, "exact inference", f"within {allowed}", f"a prediction of {cost}", fix, TooLarge)


def _approximate(potentials: Potentials, observed: Observed, choice: Choice) -> Approximation:
    """The approximation of a named method, or with "auto" of the one that the evidence asks for."""
    method, key, num_draws = choice.method, choice.key, check_count("num_draws", choice.num_draws)
    if method == "loopy" or (method == "auto" and key is None):
        return _loopy(potentials, observed)
    check(key is not None, "key", f"a random key for {method!r}", None)
    assert key is not None
    key_weighting, key_gibbs = jr.split(key)
    if method != "gibbs":
        weighted = _weighting(potentials, observed, key_weighting, num_draws)
        zeros = any((logs == -np.inf).any() for logs in potentials.logs)
        if method == "likelihood_weighting" or weighted.worth >= _LEAST_WORTH or zeros:
            return weighted
    return _gibbs(potentials, observed, key_gibbs, num_draws)


def _weighting(potentials: Potentials, observed: Observed, key: Key, num_draws: int) -> Approximation:
    rows, logs = forward_draws(potentials, observed, as_generator(key), num_draws)
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
    worth = float(found.ess)
    verdict = f"Worth {worth:.0f} of {num_draws} draws. {found.verdict}"
    weights = np.exp(logs - logs.max())
    log_evidence = float(found.log_evidence.value)
    return Approximation(
        potentials, "likelihood weighting", marginals, errors, log_evidence, verdict, worth, rows, weights
    )


def _gibbs(potentials: Potentials, observed: Observed, key: Key, num_draws: int) -> Approximation:
    # the chains know variables by number: names and states of the network play no part in them
    factors: list[Any] = [([str(i) for i in s], logs) for s, logs in zip(potentials.scopes, potentials.logs)]
    with np.errstate(divide="ignore"):
        factors += [([str(i)], np.log(likelihood)) for i, likelihood in observed.soft.items()]
    evidence = {str(i): state for i, state in observed.hard.items()}
    sweeps = max(num_draws // _CHAINS, 4)
    found = factor_gibbs(factors, evidence, key=key, sweeps=sweeps, warmup=sweeps // 4, chains=_CHAINS)
    rows = np.zeros((_CHAINS * sweeps, len(potentials.names)), int)
    for i, state in observed.hard.items():
        rows[:, i] = state
    rows[:, [int(name) for name in found.free]] = np.asarray(found.places).reshape(_CHAINS * sweeps, -1)
    marginals = {i: np.eye(len(potentials.states[i]))[state] for i, state in observed.hard.items()}
    errors = {i: np.zeros_like(probs) for i, probs in marginals.items()}
    for name, estimate in found.marginals().items():
        marginals[int(name)] = np.asarray(estimate.value)
        errors[int(name)] = np.asarray(estimate.standard_error)
    weights = np.ones(rows.shape[0])
    return Approximation(
        potentials, "Gibbs sampling", marginals, errors, np.nan, found.verdict, found.least_ess, rows, weights
    )


def _loopy(potentials: Potentials, observed: Observed) -> Approximation:
    pairs = zip(potentials.scopes, potentials.logs)
    factors = {f"f{m}": ([str(i) for i in scope], logs) for m, (scope, logs) in enumerate(pairs)}
    found = loopy(
        factors,
        {str(i): state for i, state in observed.hard.items()},
        likelihoods={str(i): likelihood for i, likelihood in observed.soft.items()},
        damping=_DAMPING,
    )
    probs = {i: np.asarray(found.marginal(str(i)).probs) for i in range(len(potentials.names))}
    return Approximation(potentials, "loopy propagation", probs, {}, found.log_total, found.verdict)
