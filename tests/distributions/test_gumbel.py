"""Categorical draws by Gumbel noise: the trick, its proof as an integral, top-k, and what goes wrong."""

import itertools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tests.oracles import subsets
from tractable.distributions.continuous import Gumbel
from tractable.distributions.gumbel import (
    gumbel_max,
    gumbel_top_k,
    maximum_of_gumbels,
    perturbed,
    top_k_log_prob,
)

MU = np.array([1.0, 2.0, 3.0])
PROBS = np.array([0.09003057, 0.24472847, 0.66524096])
DRAWS = 40_000


def _z(counts, probs):
    total = counts.sum()
    return (counts / total - probs) / np.sqrt(probs * (1 - probs) / total)


def test_softmax_of_the_worked_logits():
    np.testing.assert_allclose(np.exp(MU) / np.exp(MU).sum(), PROBS, atol=5e-9)
    draws = np.asarray(gumbel_max(jr.key(0), MU, (DRAWS,)))
    counts = np.bincount(draws, minlength=3)
    assert np.abs(_z(counts, PROBS)).max() < 5
    assert stats.chi2(2).sf(subsets.chi_square(counts, PROBS)) > 1e-6


def test_weights_are_exponentials_of_logits():
    """The two conventions give the same draws for the same key; a weight of zero is never drawn."""
    weights = np.exp(MU)
    by_logits, by_weights = (
        gumbel_max(jr.key(0), MU, (DRAWS,)),
        gumbel_max(jr.key(0), shape=(DRAWS,), weights=weights),
    )
    assert (by_logits == by_weights).all()
    draws = gumbel_max(jr.key(1), weights=np.array([0.0, 2.0, 1.0]), shape=(DRAWS,))
    assert abs(_z(np.bincount(np.asarray(draws), minlength=3)[1:], np.array([2, 1]) / 3)).max() < 5
    assert draws.min() == 1


def test_proof_by_quadrature():
    """P(k is largest) = int gumbel(z; mu_k) prod_{i != k} F(z; mu_i) dz = softmax(mu)_k."""

    nodes, weights = np.polynomial.legendre.leggauss(60)
    edges = np.linspace(-6.0, 40.0, 12)
    half = np.diff(edges) / 2
    z = ((edges[:-1] + half)[:, None] + half[:, None] * nodes[None]).ravel()
    cdf = np.stack([np.asarray(Gumbel(np.full(z.shape, m)).cdf(z)) for m in MU])
    density = np.stack([np.asarray(Gumbel(m).prob(z)) for m in MU])

    def largest(k):
        values = density[k] * np.prod(np.delete(cdf, k, axis=0), axis=0)
        return half @ values.reshape(-1, 60) @ weights

    np.testing.assert_allclose([largest(k) for k in range(3)], PROBS, atol=5e-9)


def test_maximum_of_gumbels():
    """P(max <= z) = prod_i F(z; mu_i) is the cdf of Gumbel(logsumexp mu), with any scale, and in draws."""
    grid = np.linspace(-1.0, 8.0, 50)
    for scale in (1.0, 2.5):
        law = maximum_of_gumbels(MU, scale)
        product = np.prod([stats.gumbel_r(m, scale).cdf(grid) for m in MU], axis=0)
        np.testing.assert_allclose(np.exp(-np.exp(-(grid - law.loc) / law.scale)), product, rtol=1e-12)
    law = maximum_of_gumbels(MU)
    np.testing.assert_allclose(law.loc, np.log(np.exp(MU).sum()), rtol=1e-14)
    noisy = np.asarray(perturbed(jr.key(2), jnp.asarray(MU), (DRAWS,)))
    assert stats.kstest(noisy.max(1), stats.gumbel_r(float(law.loc)).cdf).pvalue > 1e-6
    by_winner = [
        noisy.max(1)[noisy.argmax(1) == k] for k in range(3)
    ]  # the maximum does not depend on who wins
    assert stats.kruskal(*by_winner).pvalue > 1e-6


def test_shared_noise_always_gives_the_mode():
    """The negative control: one G for all indices cancels in every comparison."""
    shared = MU[None] + np.asarray(jr.gumbel(jr.key(3), (1000, 1)))
    assert (shared.argmax(1) == 2).all()
    independent = np.asarray(gumbel_max(jr.key(3), MU, (1000,)))
    assert set(independent.tolist()) == {0, 1, 2}


def test_top_k_is_sampling_without_replacement():
    weights = np.array([1.0, 2.0, 3.0, 0.5])
    draws = np.asarray(gumbel_top_k(jr.key(4), 2, shape=(DRAWS,), weights=weights))
    expected = subsets.ordered_draws(weights, 2)
    counts = np.array([((draws == pair).all(1)).sum() for pair in expected])
    probs = np.array(list(expected.values()))
    assert counts.sum() == DRAWS
    assert np.abs(_z(counts, probs)).max() < 5
    assert stats.chi2(11).sf(subsets.chi_square(counts, probs)) > 1e-6
    logs = jax.vmap(lambda pair: top_k_log_prob(pair, weights=weights))(np.array(list(expected)))
    np.testing.assert_allclose(np.exp(logs), probs, rtol=1e-12)


def test_top_k_of_all_is_a_permutation_and_repeats_are_impossible():
    draws = np.asarray(gumbel_top_k(jr.key(5), 3, MU, (200,)))
    assert (np.sort(draws, axis=1) == np.arange(3)).all()
    total = sum(float(jnp.exp(top_k_log_prob(np.array(p), MU))) for p in itertools.permutations(range(3)))
    np.testing.assert_allclose(total, 1.0, rtol=1e-13)
    assert top_k_log_prob(np.array([1, 1]), MU) == -jnp.inf
    with_impossible = np.array([0.0, -np.inf, 1.0])
    assert 1 not in np.asarray(gumbel_top_k(jr.key(6), 2, with_impossible, (100,)))
    with pytest.raises(ValueError, match="`k` must be at most the number of possible indices, 2; got 3"):
        gumbel_top_k(jr.key(7), 3, with_impossible)


@given(st.floats(-1e3, 1e3), st.integers(0, 2**31 - 1))
def test_draws_do_not_depend_on_a_common_shift(shift, seed):
    logits = np.array([0.0, 1.0, -1.0, 0.5])
    assert (gumbel_max(jr.key(seed), logits + shift, (8,)) == gumbel_max(jr.key(seed), logits, (8,))).all()


def test_leading_axes_and_jit():
    logits = np.stack([MU, -MU])
    draws = jax.jit(lambda key, mu: gumbel_max(key, mu, (5000,)))(jr.key(8), logits)
    assert draws.shape == (5000, 2)
    for column, probs in zip(np.asarray(draws).T, (PROBS, PROBS[::-1])):
        assert np.abs(_z(np.bincount(column, minlength=3), probs)).max() < 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "`logits` must be given, or else `weights`, not both; got neither"),
        ({"logits": MU, "weights": MU}, "`logits` must be given, or else `weights`, not both; got both"),
        ({"weights": np.array([1.0, -1.0])}, r"`weights` must be zero or positive.*; got -1\.0 at index 1"),
        ({"weights": np.zeros(3)}, "`weights` must be not all zero along the last axis"),
        ({"logits": np.array([0.0, np.nan])}, "`logits` must be logarithms of weights"),
        (
            {"logits": np.zeros(0)},
            r"`logits` must be an array with an entry for each index; got shape \(0,\)",
        ),
    ],
)
def test_bad_input_is_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        gumbel_max(jr.key(0), **arguments)
