"""Laws of every sampler: the contract, invariance from exact starts, the joint test, uniform ranks.

A sampler joins with one line in `CASES`. The discrete and model-specific samplers (finite factors, mixtures,
Swendsen-Wang) are held to enumeration in their own tests.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats

from tractable.bijections.support import unconstrain
from tractable.core.iterate import run
from tractable.core.support import unit_interval
from tractable.distributions.gaussian import Gaussian
from tractable.inference.gibbs.sampler import Gibbs, WithinGibbs
from tractable.inference.samplers.adaptive_metropolis import AdaptiveMetropolis
from tractable.inference.samplers.chees import ChEES
from tractable.inference.samplers.elliptical import EllipticalSlice
from tractable.inference.samplers.hmc import HMC
from tractable.inference.samplers.langevin import MALA
from tractable.inference.samplers.mams import MAMS, EnsembleMAMS
from tractable.inference.samplers.metropolis import IndependenceMetropolis, RandomWalkMetropolis
from tractable.inference.samplers.nuts import NUTS
from tractable.inference.samplers.sampler import Info, Sampler
from tractable.inference.samplers.slice import SliceSampler
from tractable.inference.samplers.tempering import ParallelTempering
from tractable.inference.trust.simulation_checks import geweke, simulation_based_calibration, transition_of


class Case(NamedTuple):
    """A sampler for positions of some dimension, whose density may be relative to a Gaussian of its own."""

    name: str
    build: Callable[[int], Sampler]
    prior_scale: float | None = None  # the sampler wants the density divided by this Gaussian's
    thin: int = 5  # steps between nearly independent draws

    def __str__(self) -> str:
        return self.name


def _gaussian(dim: int, scale: float) -> Gaussian:
    return Gaussian(jnp.zeros(dim), scale**2 * jnp.eye(dim))


def _coordinates(dim: int) -> Gibbs:
    blocks = {f"x{i}": WithinGibbs(SliceSampler()) for i in range(dim)}
    return Gibbs(blocks, scan="random")


CASES = [
    Case("random walk", lambda dim: RandomWalkMetropolis(1.0), thin=20),
    Case("adaptive walk", lambda dim: AdaptiveMetropolis(adapting=False), thin=20),
    Case("independence", lambda dim: IndependenceMetropolis(_gaussian(dim, 1.5)), thin=10),
    Case("slice in order", lambda dim: SliceSampler()),
    Case("slice at random", lambda dim: SliceSampler(lines="random")),
    Case("slice in a direction", lambda dim: SliceSampler(lines="direction"), thin=10),
    Case("elliptical slice", lambda dim: EllipticalSlice(_gaussian(dim, 1.0)), 1.0, thin=10),
    Case("Gibbs with slices", _coordinates),
    Case("MALA", lambda dim: MALA(0.4), thin=20),
    Case("HMC", lambda dim: HMC(0.3, 5)),
    Case("jittered HMC", lambda dim: HMC(0.3, 5, jitter=0.5, vary="num_steps")),
    Case("NUTS", lambda dim: NUTS(0.4)),
    Case("MAMS", lambda dim: MAMS(0.8)),
]
# its replicas are invariant together, not the coldest alone: it is judged by ranks, over whole runs
REPLICAS = [
    Case(
        "tempering",
        lambda dim: ParallelTempering(RandomWalkMetropolis(1.0), [1.0, 3.0], adapting=False),
        thin=20,
    )
]
ENSEMBLES = [Case("ChEES", lambda dim: ChEES()), Case("many MAMS", lambda dim: EnsembleMAMS())]

# A skewed, a heavy-tailed and a bounded variable, independent: exact draws, and a density of free numbers.
FREE, REBUILD = unconstrain({"bounded": 0.5, "heavy": 0.0, "skewed": 0.0}, {"bounded": unit_interval})
EXACT = {
    "bounded": scipy.stats.beta(2, 3),
    "heavy": scipy.stats.t(5),
    "skewed": scipy.stats.gumbel_r(),
}


def three(free):
    """The log-density of the free numbers, up to a constant."""
    x, log_det = REBUILD(free)
    bounded = jnp.log(x["bounded"]) + 2 * jnp.log1p(-x["bounded"])
    heavy = -3 * jnp.log1p(x["heavy"] ** 2 / 5)
    return bounded + heavy - x["skewed"] - jnp.exp(-x["skewed"]) + log_det


def exact_starts(num: int) -> np.ndarray:
    """Free numbers of exact draws."""
    draws = {name: law.rvs(num, random_state=i) for i, (name, law) in enumerate(EXACT.items())}
    draws["bounded"] = np.log(draws["bounded"]) - np.log1p(-draws["bounded"])
    return np.stack([draws[name] for name in EXACT], 1)


def as_seen(
    case: Case, sampler: Sampler, log_density: Callable, position: Any
) -> tuple[Callable, Any, Callable]:
    """The density and the position as the sampler wants them, and the way back to a vector."""
    if case.prior_scale is not None:
        return lambda x: log_density(x) + 0.5 * x @ x / case.prior_scale**2, position, lambda x: x
    if isinstance(sampler, Gibbs):
        names = [block.names[0] for block in sampler.blocks]
        parts = {name: position[i] for i, name in enumerate(names)}
        return lambda x: log_density(join(x, names)), parts, lambda x: join(x, names)
    return log_density, position, lambda x: x


def join(parts: dict[str, Any], names: list[str]) -> jax.Array:
    """A vector from its named numbers."""
    return jnp.stack([parts[name] for name in names])


@eqx.filter_jit
def moved(case, starts, keys):
    """Chains from `starts`, moved once for each row of `keys`: positions, log-densities, reports."""
    sampler = case.build(starts.shape[1])

    def init(position, key):
        density, seen, _ = as_seen(case, sampler, three, position)
        return sampler.init(density, seen, key)

    def step(state, key):
        density, _, back = as_seen(case, sampler, three, starts[0])
        state, info = sampler.step(density, state, key)
        report = jax.tree.map(jnp.asarray, info)
        return state, (back(state.position), density(state.position), state.log_density, report)

    states = jax.vmap(init)(starts, keys[0])
    return run(jax.vmap(step), states, keys[1:]).trace


@pytest.mark.parametrize("case", CASES, ids=str)
def test_contract_and_invariance(case):
    starts = exact_starts(2000)
    positions, density, kept, info = moved(case, jnp.asarray(starts), jr.split(jr.key(1), (7, 2000)))
    assert isinstance(info, Info)
    assert ((info.acceptance >= 0) & (info.acceptance <= 1)).all()
    assert (info.num_gradients >= 1).all()
    assert not np.asarray(info.undefined).any()
    np.testing.assert_allclose(kept, density, rtol=1e-9, atol=1e-9)
    last = np.array(positions[-1])
    assert (last != starts).any(1).mean() > 0.5  # it moves
    assert len(np.unique(last[:, 0])) > 1900  # chains have randomness of their own
    last[:, 0] = 1 / (1 + np.exp(-last[:, 0]))
    for column, (name, law) in zip(last.T, EXACT.items()):
        assert scipy.stats.kstest(column, law.cdf).pvalue > 1e-3, name


@pytest.mark.parametrize("case", ENSEMBLES, ids=str)
def test_invariance_of_ensembles(case):
    sampler = eqx.tree_at(lambda s: s.adapting, case.build(3), jnp.asarray(False))
    starts = exact_starts(2000)

    @eqx.filter_jit
    def ensemble(starts, keys):
        state = sampler.init(three, starts, keys[0])
        return run(lambda s, key: sampler.step(three, s, key), state, keys[1:])

    found = ensemble(jnp.asarray(starts), jr.split(jr.key(2), 7))
    assert ((found.trace.acceptance >= 0) & (found.trace.acceptance <= 1)).all()
    last = np.asarray(found.state.position)
    np.testing.assert_allclose(found.state.log_density, jax.vmap(three)(last), rtol=1e-9)
    assert (last != starts).any(1).mean() > 0.5
    last = np.column_stack([1 / (1 + np.exp(-last[:, 0])), last[:, 1:]])
    for column, (name, law) in zip(last.T, EXACT.items()):
        assert scipy.stats.kstest(column, law.cdf).pvalue > 1e-3, name


# Two log-rates with normal priors, each seen through one exponential waiting time: a skewed posterior.


def log_rates(key):
    """Standard normal log-rates."""
    return jr.normal(key, (2,))


def wait(key, x):
    """One waiting time for each rate."""
    return jr.exponential(key, (2,)) * jnp.exp(-x)


def log_joint(x, y):
    """The log-density of both."""
    return (-0.5 * x**2 + x - y * jnp.exp(x)).sum()


def transition(case: Case, num_steps: int = 1) -> Callable:
    """Steps of the sampler on the posterior, from a vector to a vector."""
    sampler = case.build(2)

    def move(key, x, y):
        density, seen, back = as_seen(case, sampler, lambda each: log_joint(each, y), x)
        inner = transition_of(sampler, lambda each, _: density(each), num_steps=num_steps)
        return back(inner(key, seen, y))

    return move


def chain_draws(case: Case, num_draws: int) -> Callable:
    """Thinned draws of a chain that begins in the prior; as many as a third of them are left out first."""
    sampler = case.build(2)

    def draw(key, y):
        first, second, third = jr.split(key, 3)
        x = log_rates(first)
        density, seen, back = as_seen(case, sampler, lambda each: log_joint(each, y), x)

        def step(state, i):
            state, _ = sampler.step(density, state, jr.fold_in(third, i))
            return state, back(state.position)

        steps = jnp.arange(case.thin * (num_draws + num_draws // 3))
        trace = run(step, sampler.init(density, seen, second), steps).trace
        return trace[:: -case.thin][:num_draws]

    return draw


# Of the laws of joint distributions and ranks one member runs by default; at length, all do.
@pytest.mark.parametrize("case", CASES[:1], ids=str)
def test_joint_distribution(case):
    found = geweke(log_rates, wait, transition(case), key=jr.key(3), num_steps=25, num_chains=400)
    assert found.verdict.ok, found


@pytest.mark.parametrize("case", CASES[:1], ids=str)
def test_ranks(case):
    found = simulation_based_calibration(
        log_rates, wait, chain_draws(case, 15), key=jr.key(4), num_simulations=200
    )
    assert found.verdict.ok, found


def ensemble_draws(case: Case, num_draws: int, num_steps: int) -> Callable:
    """Where the chains of an ensemble end that began in the prior and learnt on the first half of the way."""
    learning = case.build(2)
    settled = eqx.tree_at(lambda s: s.adapting, learning, jnp.asarray(False))

    def draw(key, y):
        first, second, third = jr.split(key, 3)

        def density(x):
            return log_joint(x, y)

        def step(sampler, state, i):
            return sampler.step(density, state, jr.fold_in(third, i))[0], None

        state = learning.init(density, jax.vmap(log_rates)(jr.split(first, num_draws)), second)
        state = run(functools.partial(step, learning), state, jnp.arange(num_steps)).state
        return run(functools.partial(step, settled), state, num_steps + jnp.arange(num_steps)).state.position

    return draw


@pytest.mark.parametrize("case", ENSEMBLES[:1], ids=str)
def test_ranks_of_ensembles(case):
    found = simulation_based_calibration(
        log_rates, wait, ensemble_draws(case, 31, 20), key=jr.key(5), num_simulations=200
    )
    assert found.verdict.ok, found


@pytest.mark.plain
@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_joint_distribution_at_length(case):
    found = geweke(log_rates, wait, transition(case), key=jr.key(6), num_steps=100, num_chains=1000)
    assert found.verdict.ok, found
    assert np.abs(found.z_scores).max() < 4


@pytest.mark.plain
@pytest.mark.slow
@pytest.mark.parametrize("case", CASES + REPLICAS, ids=str)
def test_ranks_at_length(case):
    found = simulation_based_calibration(
        log_rates, wait, chain_draws(case, 63), key=jr.key(7), num_simulations=400
    )
    assert found.verdict.ok, found


@pytest.mark.plain
@pytest.mark.slow
@pytest.mark.parametrize("case", ENSEMBLES, ids=str)
def test_ranks_of_ensembles_at_length(case):
    found = simulation_based_calibration(
        log_rates, wait, ensemble_draws(case, 63, 60), key=jr.key(8), num_simulations=200
    )
    assert found.verdict.ok, found


def test_a_wrong_sampler_is_found_out():
    class Hasty(RandomWalkMetropolis):
        """Accepts whatever is proposed."""

        def step(self, log_density, state, key):
            return super().step(lambda x: state.log_density + 0 * log_density(x), state, key)

    case = Case("hasty", lambda dim: Hasty(1.0))
    positions = moved(case, jnp.asarray(exact_starts(2000)), jr.split(jr.key(9), (7, 2000)))[0]
    assert scipy.stats.kstest(np.asarray(positions[-1])[:, 1], EXACT["heavy"].cdf).pvalue < 1e-6
    assert not geweke(
        log_rates, wait, transition(case), key=jr.key(10), num_steps=25, num_chains=400
    ).verdict.ok
