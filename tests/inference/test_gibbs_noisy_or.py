"""Diseases and symptoms: running sums against the joint, Gibbs against enumeration, and a network of 500."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.core.iterate import run
from tractable.inference.gibbs.noisy_or import NoisyOrGibbs, NoisyOrNetwork, noisy_or_network
from tractable.inference.trust.autocorrelation import autocorrelation_time

SMALL = noisy_or_network(jr.key(0), 8, 14, num_causes=3, leak=(0.0, 0.05))
SYMPTOMS = np.array([1, 0, 1, -1, 0, 1, 0, 0, 1, -1, 0, 1, 0, 0])


def joint(network, diseases, symptoms):
    """P(d, s) by loops, from the definition of a noisy OR."""
    prior, leak, strength = (np.asarray(x) for x in (network.prior, network.leak, network.strength))
    total = np.prod([p if d else 1 - p for p, d in zip(prior, diseases)])
    for i, s in enumerate(symptoms):
        stays_away = 1 - leak[i]
        for (symptom, disease), w in zip(network.edges, strength):
            if symptom == i and diseases[disease]:
                stays_away *= 1 - w
        total *= {1: 1 - stays_away, 0: stays_away, -1: 1.0}[int(s)]
    return total


def enumerate_posterior(network, symptoms):
    patients = list(itertools.product((0, 1), repeat=network.num_diseases))
    weights = np.array([joint(network, d, symptoms) for d in patients])
    return (weights @ np.array(patients)) / weights.sum(), np.log(weights.sum())


@eqx.filter_jit
def chain(sampler, start, key, num_sweeps):
    key_init, key_run = jr.split(key)
    state = sampler.init(sampler.log_density, start, key_init)

    def step(state, key):
        state, info = sampler.step(sampler.log_density, state, key)
        return state, (state.position, state.log_density, info.undefined)

    return run(step, state, jr.split(key_run, num_sweeps)).trace


def test_joint_and_enumeration():
    rng = np.random.default_rng(0)
    for _ in range(5):
        diseases = rng.integers(0, 2, 8)
        np.testing.assert_allclose(
            np.exp(SMALL.log_joint(diseases, SYMPTOMS)), joint(SMALL, diseases, SYMPTOMS), rtol=1e-12
        )
    found, evidence = SMALL.exact_posterior(SYMPTOMS)
    exact, log_evidence = enumerate_posterior(SMALL, SYMPTOMS)
    np.testing.assert_allclose(found, exact, rtol=1e-11)
    np.testing.assert_allclose(evidence, log_evidence, rtol=1e-12)


def test_log_odds_are_those_of_the_joint():
    sampler = NoisyOrGibbs(SMALL, SYMPTOMS)
    rng = np.random.default_rng(1)
    odds = jax.jit(lambda j, diseases: sampler.log_odds(j, diseases))
    for _ in range(5):
        diseases = rng.integers(0, 2, 8)
        for j in range(8):
            with_it, without = diseases.copy(), diseases.copy()
            with_it[j], without[j] = 1, 0
            above, below = joint(SMALL, with_it, SYMPTOMS), joint(SMALL, without, SYMPTOMS)
            np.testing.assert_allclose(odds(j, diseases), np.log(above) - np.log(below), rtol=1e-9)


def test_gibbs_meets_the_exact_answer():
    sampler = NoisyOrGibbs(SMALL, SYMPTOMS)
    draws, values, undefined = jax.tree.map(
        np.asarray, chain(sampler, sampler.start(jr.key(1)), jr.key(2), 20_000)
    )
    exact, _ = enumerate_posterior(SMALL, SYMPTOMS)
    for j in range(8):
        series = draws[200:, j].astype(float)
        error = np.sqrt(series.var() * float(autocorrelation_time(series)) / series.size)
        assert abs(series.mean() - exact[j]) < 5 * error, j
    np.testing.assert_allclose(values[:5], [np.log(joint(SMALL, d, SYMPTOMS)) for d in draws[:5]], rtol=1e-9)
    assert not undefined.any()


def test_a_symptom_without_leak_needs_a_cause():
    """One symptom, two causes, no leak: never both absent; the posterior is a line by hand."""
    network = NoisyOrNetwork([0.3, 0.2], [0.0], [0.5, 0.8], ((0, 0), (0, 1)))
    weights = {(1, 0): 0.3 * 0.8 * 0.5, (0, 1): 0.7 * 0.2 * 0.8, (1, 1): 0.3 * 0.2 * 0.9}
    exact = (weights[1, 0] + weights[1, 1]) / sum(weights.values())
    np.testing.assert_allclose(network.exact_posterior([1])[0][0], exact, rtol=1e-12)
    sampler = NoisyOrGibbs(network, [1])
    assert float(sampler.log_odds(0, jnp.array([1, 0]))) == np.inf
    draws, _, undefined = jax.tree.map(
        np.asarray, chain(sampler, sampler.start(jr.key(0)), jr.key(1), 20_000)
    )
    assert (draws.sum(1) > 0).all()
    assert not undefined.any()
    series = draws[:, 0].astype(float)
    error = np.sqrt(series.var() * float(autocorrelation_time(series)) / series.size)
    assert abs(series.mean() - exact) < 5 * error


def test_without_symptoms_the_prior_is_left():
    found, evidence = SMALL.exact_posterior(np.full(14, -1))
    np.testing.assert_allclose(found, SMALL.prior, rtol=1e-12)
    np.testing.assert_allclose(evidence, 0.0, atol=1e-12)


def test_a_large_network_runs():
    """500 diseases, 2000 symptoms: exact inference is out of reach; the patient's diseases are found."""
    network = noisy_or_network(jr.key(3), 500, 2000, leak=(1e-4, 1e-3))
    truth, symptoms = network.sample(jr.key(4))
    sampler = NoisyOrGibbs(network, symptoms)
    draws, values, undefined = jax.tree.map(
        np.asarray, chain(sampler, sampler.start(jr.key(5)), jr.key(6), 200)
    )
    assert not undefined.any()
    np.testing.assert_allclose(values[-1], sampler.log_density(draws[-1]), rtol=1e-12)
    assert values[100:].mean() > float(sampler.log_density(np.ones(500, int))) + 100
    share = draws[100:].mean(0)
    assert share[np.asarray(truth) == 1].mean() > 0.9
    assert share[np.asarray(truth) == 0].mean() < 0.02


def geweke(num_steps, seed):
    """Diseases by a sweep, symptoms from the diseases, in turn: diseases must keep their prior."""
    sampler = NoisyOrGibbs(SMALL, SYMPTOMS)

    @jax.jit
    def go(key):
        key_start, key_run = jr.split(key)

        def step(carry, key):
            diseases, symptoms = carry
            key_init, key_sweep, key_symptoms = jr.split(key, 3)
            kernel = eqx.tree_at(lambda s: s.symptoms, sampler, symptoms)
            state = kernel.init(kernel.log_density, diseases, key_init)
            state, _ = kernel.step(kernel.log_density, state, key_sweep)
            new = SMALL.sample_symptoms(key_symptoms, state.position)
            return (state.position, new), (state.position, new)

        return run(step, SMALL.sample(key_start), jr.split(key_run, num_steps)).trace

    diseases, symptoms = jax.tree.map(np.asarray, go(jr.key(seed)))
    scores = []
    patients = np.array(list(itertools.product((0, 1), repeat=8)))
    weights = np.prod(np.where(patients, SMALL.prior, 1 - np.asarray(SMALL.prior)), axis=1)
    rates = np.asarray(jax.jit(jax.vmap(SMALL.rates))(patients))
    exact = [*np.asarray(SMALL.prior), *(weights @ (1 - np.exp(-rates)))]
    for series, mean in zip([*diseases.T, *symptoms.T], exact):
        error = np.sqrt(series.var() * float(autocorrelation_time(series.astype(float))) / series.size)
        scores.append((series.mean() - mean) / error)
    return np.abs(scores).max()


@pytest.mark.slow
def test_geweke_long():
    assert geweke(200_000, 1) < 5


def test_bad_input_is_refused_by_name():
    with pytest.raises(ValueError, match=r"`strength` must be below 1; got 1.0 at index 1"):
        NoisyOrNetwork([0.3, 0.2], [0.0], [0.5, 1.0], ((0, 0), (0, 1)))
    with pytest.raises(ValueError, match=r"`prior` must be between 0.0 and 1.0; got 1.3"):
        NoisyOrNetwork([1.3], [0.0], [0.5], ((0, 0),))
    with pytest.raises(
        ValueError, match=r"`edges` must be pairs \(symptom, disease\) within the network; got \(0, 2\)"
    ):
        NoisyOrNetwork([0.3], [0.0], [0.5], ((0, 2),))
    with pytest.raises(ValueError, match=r"`strength` must be of shape \(2,\)"):
        NoisyOrNetwork([0.3, 0.2], [0.0], [0.5], ((0, 0), (0, 1)))
    with pytest.raises(
        ValueError, match=r"`symptoms` must be 1 \(present\), 0 \(absent\) or -1 .*; got 2 at index 0"
    ):
        NoisyOrGibbs(SMALL, [2] + [0] * 13)
    with pytest.raises(ValueError, match=r"`symptoms` must be of shape \(14,\)"):
        NoisyOrGibbs(SMALL, [0, 1])
    with pytest.raises(ValueError, match=r"`network` must be of at most 20 diseases; got 25"):
        noisy_or_network(jr.key(0), 25, 3).exact_posterior([0, 0, 1])
    with pytest.raises(ValueError, match=r"`num_causes` must be a whole number from 1 to 3"):
        noisy_or_network(jr.key(0), 3, 3, num_causes=4)
    with pytest.raises(ValueError, match=r"`leak` must be a range within \[0, 1\)"):
        noisy_or_network(jr.key(0), 3, 3, num_causes=1, leak=(0.5, 1.0))
