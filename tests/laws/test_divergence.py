"""Laws of the Kullback-Leibler divergence over all registered pairs, and over arrays of probabilities."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from tests.laws.cases_divergence import FORMS, NUMBERS, VECTORS
from tractable.core.module import plates
from tractable.distributions.divergence import kl, kl_estimate, kl_probs
from tractable.distributions.kl_registry import registered_pairs

PAIRS = NUMBERS + VECTORS


def simplex(size):
    """Probabilities of `size` states; exact zeros appear."""
    weights = st.lists(st.integers(0, 6), min_size=size, max_size=size).filter(any)
    return weights.map(lambda w: np.array(w, float) / sum(w))


def oracle(pair):
    """E_p[log p - log q] in SciPy: over quantiles, on panels that shrink to both ends; a sum; or pieces."""
    p, q = pair.scipy_p(), pair.scipy_q()
    if hasattr(p, "pmf") or hasattr(getattr(p, "dist", None), "pmf"):
        k = np.arange(-1, int(p.ppf(1 - 1e-15)) + 40)
        mass, other = p.pmf(k), q.pmf(k)
        used = mass > 0
        return float((mass[used] * (np.log(mass[used]) - np.log(other[used]))).sum())
    if pair.pieces:
        pieces = zip(pair.pieces[:-1], pair.pieces[1:])
        return sum(
            quad(lambda x: p.pdf(x) * (p.logpdf(x) - q.logpdf(x)), a, b, epsabs=1e-12)[0] for a, b in pieces
        )
    nodes, weights = np.polynomial.legendre.leggauss(20)
    ends = 0.5 * 0.25 ** np.arange(26.0)
    width, middle = (ends[:-1] - ends[1:]) / 2, (ends[:-1] + ends[1:]) / 2
    u, w = middle[:, None] + width[:, None] * nodes, width[:, None] * weights
    return float(sum((w * (p.logpdf(x) - q.logpdf(x))).sum() for x in (p.ppf(u), p.isf(u))))


@pytest.mark.parametrize("pair", NUMBERS, ids=str)
def test_closed_form_equals_the_integral(pair):
    estimate = kl_estimate(pair.p(), pair.q())
    assert estimate.method == "closed_form"
    np.testing.assert_allclose(estimate.value, oracle(pair), rtol=2e-8, atol=1e-10)


@pytest.mark.parametrize("pair", NUMBERS, ids=str)
def test_own_quadrature_or_sum_equals_the_closed_form(pair):
    p, q = pair.p(), pair.q()
    estimate = kl_estimate(p, q, "sum" if p.discrete else "quadrature")
    assert bool(estimate.certified)
    np.testing.assert_allclose(estimate.value, kl(p, q), rtol=1e-8, atol=1e-11)
    assert abs(float(estimate.value - kl(p, q))) <= max(20 * float(estimate.standard_error), 1e-11)


@pytest.mark.parametrize("pair", VECTORS, ids=str)
def test_closed_form_equals_draws(pair):
    """Against another formula, or against SciPy's log-densities at SciPy's draws of p (z-score below 5)."""
    value = kl_estimate(pair.p(), pair.q())
    assert value.method == "closed_form"
    if pair.exact is not None:
        np.testing.assert_allclose(value.value, pair.exact(), rtol=1e-11)
        return
    ratios = pair.draws(np.random.default_rng(0), 20_000)
    error = ratios.std(ddof=1) / np.sqrt(ratios.size)
    assert error < 0.1 * float(value.value)
    assert abs(ratios.mean() - float(value.value)) < 5 * error


@pytest.mark.parametrize("pair", FORMS, ids=str)
def test_every_form_of_the_gaussian_agrees(pair):
    np.testing.assert_allclose(kl(pair.p(), pair.q()), pair.exact(), rtol=1e-11)


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_positive_and_zero_only_for_equals(pair):
    p, q = pair.p(), pair.q()
    assert float(kl(p, q)) > 1e-3
    if type(p) is type(q):
        assert abs(float(kl(p, p))) < 1e-12
        assert abs(float(kl(q, q))) < 1e-12


@pytest.mark.parametrize("pair", [p for p in [*NUMBERS, *FORMS[:1]] if not p.edge], ids=str)
def test_stationary_where_equal(pair):
    """KL(p || q) is least at p = q: its gradient in p vanishes there, and is finite elsewhere."""
    p, q = pair.p(), pair.q()
    if type(p) is not type(q):
        pytest.skip("two classes are never equal")
    slope = jax.jit(jax.grad(kl, allow_int=True))
    for leaf in jax.tree.leaves(slope(p, p)):
        np.testing.assert_allclose(leaf, np.zeros_like(leaf), atol=1e-10)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slope(p, q)))


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_adds_over_independent_units(pair):
    """Two copies side by side diverge twice as much; the second distribution is repeated by itself."""
    p, q = pair.p(), pair.q()
    if "rank" not in next(iter(p.__dataclass_fields__.values())).metadata:
        pytest.skip("a distribution around others is one unit")
    pair_of_p = p.expand((2, *plates(p)))
    np.testing.assert_allclose(kl(pair_of_p, q), 2 * kl(p, q), rtol=1e-12)


def test_every_registered_pair_has_a_case():
    covered = {(type(pair.p()), type(pair.q())) for pair in PAIRS + FORMS}
    own = {pair for pair in registered_pairs() if pair[0].__module__.startswith("tractable")}
    assert own <= covered


@given(simplex(4), simplex(4))
def test_gibbs_inequality(p, q):
    """KL >= 0 with equality only for equals; infinite exactly where q excludes what p allows."""
    value = float(kl_probs(p, q))
    assert value >= -1e-15
    assert np.isinf(value) == bool((q[p > 0] == 0).any())
    if np.abs(p - q).max() > 1e-6:
        assert value > 1e-14


@given(simplex(4), simplex(4), simplex(4), simplex(4), st.sampled_from([0.1, 0.5, 0.8]))
def test_jointly_convex(p, other_p, q, other_q, share):
    mixed = kl_probs(share * p + (1 - share) * other_p, share * q + (1 - share) * other_q)
    bound = share * kl_probs(p, q) + (1 - share) * kl_probs(other_p, other_q)
    assert float(mixed) <= float(bound) + 1e-12


@given(simplex(4), simplex(4))
def test_coarser_states_diverge_less(p, q):
    """The data-processing inequality for merging two states."""
    merged = [np.array([v[0] + v[1], v[2], v[3], 0.0]) for v in (p, q)]
    assert float(kl_probs(*merged)) <= float(kl_probs(p, q)) + 1e-12


def test_not_symmetric():
    """P = (1/2, 1/2), Q = (2/3, 1/3): .0588915 one way, .0566330 the other."""
    p, q = jnp.array([0.5, 0.5]), jnp.array([2 / 3, 1 / 3])
    np.testing.assert_allclose(kl_probs(p, q), 0.0588915, atol=5e-8)
    np.testing.assert_allclose(kl_probs(q, p), 0.0566330, atol=5e-8)
