"""Hidden Markov models beside hmmlearn and dynamax; `benchmarks.statespace` finds the workloads by the name.

Forward passes (the objective is the log-likelihood), best paths (their log-probability) and twenty steps of
Baum-Welch (the log-likelihood after them), from the same start. Rows are Gaussian in two columns with
diagonal covariances, or eight symbols; lengths are one sequence of `T` rows, or a thousand of two hundred.
Of dynamax, only its filter.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks._children import Workload

STEPS = 20


class Case(NamedTuple):
    """Rows, lengths, and a start: initial, transition, and means and variances or a table."""

    rows: np.ndarray
    lengths: list[int]
    initial: np.ndarray
    transition: np.ndarray
    emissions: Any


def made(kind: str, k: int, lengths: tuple[int, ...]) -> Case:
    """A chain that stays with probability 0.9, and a start that knows it roughly."""
    numbers = np.random.default_rng(k)
    total, starts = sum(lengths), np.cumsum((0, *lengths))[:-1]
    stay = numbers.random(total) < 0.9
    stay[starts] = False
    fresh = numbers.integers(0, k, total)
    states = fresh[np.maximum.accumulate(np.where(stay, 0, np.arange(total)))]
    transition = np.full((k, k), 0.2 / k) + 0.8 * np.eye(k)
    initial = np.full(k, 1 / k)
    if kind == "gaussian":
        means = numbers.normal(0, 3, size=(k, 2))
        rows = means[states] + numbers.normal(size=(total, 2))
        emissions: Any = means + 0.3 * numbers.normal(size=(k, 2)), np.ones((k, 2))
    else:
        table = numbers.dirichlet(np.full(8, 0.5), k)
        rows = (numbers.random(total)[:, None] > np.cumsum(table, 1)[states]).sum(1).clip(max=7)
        emissions = 0.7 * table + 0.3 / 8
    return Case(rows, list(lengths), initial, transition / transition.sum(1, keepdims=True), emissions)


def ours(task: str, kind: str) -> Callable[[Any], float]:
    from tractable.inference import EM
    from tractable.statespace import Gaussians, HiddenMarkov

    def fit(case: Case) -> float:
        emissions = case.emissions
        if kind == "gaussian":
            means, variances = case.emissions
            spread = variances[:, :, None] * np.eye(2)
            emissions = Gaussians(means, spread, "diagonal", floor=0.0)
        hmm, data = HiddenMarkov(case.initial, case.transition, emissions), (case.rows, case.lengths)
        if task == "forward":
            return float(np.sum(hmm.log_likelihood(data)))
        if task == "viterbi":
            return float(np.sum(hmm.viterbi(data)[1]))
        run = EM(tol=-1.0, max_steps=STEPS + 1).fit(hmm, data, progress=False)
        return float(run.values[-1])

    return fit


def hmmlearn(task: str, kind: str) -> Callable[[Any], float]:
    from hmmlearn import hmm as peer

    def fit(case: Case) -> float:
        k = len(case.initial)
        # its faster way; the prior on variances is switched off, so that both climb the same likelihood
        common: Any = {
            "n_components": k,
            "init_params": "",
            "n_iter": STEPS,
            "tol": -np.inf,
            "implementation": "scaling",
        }
        if kind == "gaussian":
            model = peer.GaussianHMM(covariance_type="diag", covars_prior=0.0, covars_weight=1, **common)
            model.means_, model.covars_ = case.emissions
            rows = case.rows
        else:
            model = peer.CategoricalHMM(**common)
            model.emissionprob_, model.n_features = case.emissions, 8
            rows = case.rows[:, None]
        model.startprob_, model.transmat_ = case.initial, case.transition
        if task == "forward":
            return float(model.score(rows, case.lengths))
        if task == "viterbi":
            return float(model.decode(rows, case.lengths)[0])
        return float(model.fit(rows, case.lengths).score(rows, case.lengths))

    return fit


def dynamax(kind: str) -> Callable[[Any], float]:
    """Its compiled filter, over all sequences at once; they have one length."""
    import jax
    import jax.numpy as jnp
    from dynamax.hidden_markov_model import hmm_filter

    jax.config.update("jax_enable_x64", True)

    def one(initial: Any, transition: Any, emissions: Any, rows: Any) -> Any:
        if kind == "gaussian":
            means, variances = emissions
            squares = (rows[:, None] - means) ** 2 / variances + jnp.log(2 * jnp.pi * variances)
            logs = -0.5 * squares.sum(-1)
        else:
            logs = jnp.log(emissions).T[rows]
        return hmm_filter(initial, transition, logs).marginal_loglik

    every = jax.jit(jax.vmap(one, (None, None, None, 0)))

    def fit(case: Case) -> float:
        rows = case.rows.reshape(len(case.lengths), case.lengths[0], *case.rows.shape[1:])
        return float(every(case.initial, case.transition, case.emissions, rows).sum())

    return fit


def workload(task: str, kind: str, k: int, lengths: tuple[int, ...]) -> Workload:
    fits = {"tractable": partial(ours, task, kind), "hmmlearn": partial(hmmlearn, task, kind)}
    if task == "forward":
        fits["dynamax"] = partial(dynamax, kind)
    return Workload(partial(made, kind, k, lengths), fits, "log-likelihood")


SHAPES = {"1e3": (1000,), "1e4": (10_000,), "1e5": (100_000,), "1e6": (1_000_000,), "1000x200": (200,) * 1000}
WORKLOADS: dict[str, Workload] = {
    f"hmm-{task}-{kind}-{k}-{name}": workload(task, kind, k, lengths)
    for kind in ("gaussian", "categorical")
    for k in (3, 8, 30)
    for name, lengths in SHAPES.items()
    for task in ("forward", "viterbi", "em")
    if not (name == "1e6" and (k == 30 or task == "em")) and not (kind == "categorical" and name == "1e4")
}
