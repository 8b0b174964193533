"""Engines whose answers must not depend on what the process did before: run as a program, it prints digests.

Each engine is a function without arguments that returns arrays. A new engine is one line of `ENGINES`.
"""

import hashlib
import sys
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.support import positive
from tractable.graphs.example_networks import random_network
from tractable.inference.chains.mcmc import mcmc
from tractable.inference.samplers.metropolis import Metropolis, MultiplicativeWalk
from tractable.inference.samplers.nuts import NUTS
from tractable.inference.samplers.slice import SliceSampler
from tractable.kernels.stationary import RBF
from tractable.messages.junction import junction_tree
from tractable.statespace import HiddenMarkov, LinearGaussianSystem
from tractable.supervised.linear.robust import robust_regression
from tractable.supervised.svm.machine import SupportVectorMachine
from tractable.supervised.svm.multiclass import fit_pairwise
from tractable.supervised.trees.forests import fit_forest

EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def schools(x: Any, effects: Any, errors: Any) -> Any:
    fit = -0.5 * jnp.sum(((effects - x["mu"] - x["tau"] * x["z"]) / errors) ** 2)
    return fit - 0.5 * jnp.sum(x["z"] ** 2) - (x["mu"] / 10) ** 2 - x["tau"] / 5


def normal(x: Any) -> Any:
    return -0.5 * jnp.sum(x**2)


def gamma(x: Any) -> Any:
    return 2 * jnp.log(x) - x


def of_chains(log_density: Any, start: Any, sampler: Any, **options: Any) -> Any:
    """Draws, records and verdict of a short run."""
    post = mcmc(log_density, start, sampler, key=jr.key(1), num_draws=60, progress=False, **options)
    return post.draws, post.log_density, post.info, np.frombuffer(post.verdict.sentence.encode(), np.uint8)


def of_junction_tree(side: int, scale: float) -> Any:
    """Marginals, a maximum and draws of a grid; compiled loops where it is large, logs where it is wide."""
    down = [(i * side + j, (i + 1) * side + j) for i in range(side - 1) for j in range(side)]
    across = [(i * side + j, i * side + j + 1) for i in range(side) for j in range(side - 1)]
    generator = np.random.default_rng(side)
    tables = [scale * generator.standard_normal((2, 2)) for _ in down + across]
    found = junction_tree(down + across, [2] * side**2).calibrate(tables, {0: 1, 5: np.array([0.3, 0.9])})
    return found.log_total, found.marginals(), found.most_probable(), found.sample(generator, 20)


def of_networks() -> Any:
    """Marginals, explanations and draws of a network given evidence."""
    net = random_network(jr.key(3), 25, max_parents=3)
    evidence = {"x3": 0, "x20": {0: 0.5, 1: 2.0}}
    found, best = net.marginals(evidence), net.mpe(evidence)[1]
    return (
        [list(each.values()) for each in found.values()],
        best,
        net.sample(jr.key(4), 20, evidence).to_numpy(),
    )


def rows(num_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows with a target that no plane separates."""
    X = np.random.default_rng(3).normal(size=(num_rows, 5))
    return X, X[:, 0] + X[:, 1] * X[:, 2]


def of_forest(num_rows: int, **options: Any) -> Any:
    """A forest and what it answers; many rows take the compiled primitives."""
    X, y = rows(num_rows)
    forest = fit_forest(X, (y > 0).astype(int), key=jr.key(2), **options)
    return forest, forest.values(X)


def of_machine(num_rows: int) -> Any:
    """A machine of few rows takes its steps in NumPy, one of many in compiled loops."""
    X, y = rows(num_rows)
    return SupportVectorMachine.fit(X, np.sign(y), RBF(1.0)).decision(X)


def of_pairs() -> Any:
    X, y = rows(300)
    return fit_pairwise(X, np.digitize(y, [-0.5, 0.5]), RBF(1.0))[0].decisions(X)


def of_hidden_markov(num_rows: int) -> Any:
    """Beliefs, a path and a step of learning; few rows are interpreted, many are compiled."""
    generator = np.random.default_rng(num_rows)
    initial, *rest = generator.dirichlet(np.ones(4), 9)
    hmm = HiddenMarkov(initial, np.stack(rest[:4]), np.stack(rest[4:8]))
    symbols = generator.integers(0, 4, num_rows)
    found = hmm.smooth(symbols)
    learnt = hmm.m_step(hmm.e_step(symbols, np.ones(1))[0])
    return found.marginals, found.log_likelihood, hmm.viterbi(symbols), learnt.transition


def of_linear_gaussian(num_times: int) -> Any:
    """A filter and a smoother of a series with gaps."""
    series = np.random.default_rng(0).normal(size=num_times).cumsum()
    series[5:9] = np.nan
    turn = np.array([[1.0, 1.0], [0.0, 0.9]])
    system = LinearGaussianSystem(turn, 0.1 * np.eye(2), np.eye(2)[:1], np.eye(1), np.zeros(2), np.eye(2))
    found = system.smooth(series)
    return found.mean, found.cov, system.log_likelihood(series)


ENGINES = {
    "hidden-markov": lambda: of_hidden_markov(300),
    "hidden-markov-of-many-rows": lambda: of_hidden_markov(100_000),
    "linear-gaussian": lambda: of_linear_gaussian(400),
    "networks": of_networks,
    "small_junction_tree": lambda: of_junction_tree(4, 1.0),
    "large_junction_tree": lambda: of_junction_tree(12, 1.0),
    "junction_tree_in_logs": lambda: of_junction_tree(6, 300.0),
    "forest": lambda: of_forest(200, num_trees=20),
    "forest-of-many-rows": lambda: of_forest(20_000, num_trees=20, max_depth=8),
    "robust": lambda: [robust_regression(*rows(200), loss=loss) for loss in ("huber", "absolute", "student")],
    "support-vectors": lambda: of_machine(200),
    "support-vectors-of-many-rows": lambda: of_machine(1500),
    "class-pairs": of_pairs,
    "nuts": lambda: of_chains(
        schools,
        {"mu": 0.0, "tau": 1.0, "z": np.zeros(8)},
        NUTS(),
        supports={"tau": positive},
        args=(EFFECTS, ERRORS),
    ),
    "slice": lambda: of_chains(normal, np.zeros(3), SliceSampler(), warmup=40),
    "metropolis": lambda: of_chains(gamma, np.asarray(1.0), Metropolis(MultiplicativeWalk(0.5)), warmup=40),
}


def digest(name: str) -> str:
    """A digest of every bit of what an engine answers."""
    found = hashlib.sha256()
    for leaf in jax.tree.leaves(ENGINES[name]()):
        found.update(np.ascontiguousarray(leaf).tobytes())
    return found.hexdigest()


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(name, digest(name))
