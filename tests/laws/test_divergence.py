"""Laws of the Kullback-Leibler divergence over all registered pairs, and over arrays of probabilities."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from tests.laws.cases_divergence import NUMBERS, VECTORS
from tractable.core.module import plates
from tractable.distributions.divergence import kl, kl_estimate, kl_probs
from tractable.distributions.kl_registry import registered_pairs

PAIRS = NUMBERS + VECTORS


def simplex(size):
    """Probabilities of `size` states; exact zeros appear."""
    weights = st.lists(st.integers(0, 6), min_size=size, max_size=size).filter(any)
    return weights.map(lambda w: np.array(w, float) / sum(w))


def oracle(pair):
    """E_p[log p - log q] in SciPy: over quantiles by adaptive quadrature, or a sum over whole numbers."""
    p, q = pair.scipy_p(), pair.scipy_q()
    if hasattr(p, "pmf") or hasattr(getattr(p, "dist", None), "pmf"):
        k = np.arange(int(p.ppf(1e-16)) if np.isfinite(p.ppf(1e-16)) else 0, int(p.ppf(1 - 1e-15)) + 40)
        mass, other = p.pmf(k), q.pmf(k)
        used = mass > 0
        return float((mass[used] * (np.log(mass[used]) - np.log(other[used]))).sum())
    at = p.ppf if "vonmises" not in p.dist.name else None
    if at is None:  # SciPy's quantiles of a circular density are slow and coarse
        return quad(lambda x: p.pdf(x) * (p.logpdf(x) - q.logpdf(x)), -np.pi, np.pi, epsabs=1e-12)[0]
    options = {"epsabs": 1e-11, "epsrel": 1e-11, "limit": 500}
    pieces = [(1e-300, 1e-6), (1e-6, 0.5), (0.5, 1 - 1e-6)]
    total = sum(quad(lambda u: p.logpdf(at(u)) - q.logpdf(at(u)), a, b, **options)[0] for a, b in pieces)
    upper = quad(lambda v: p.logpdf(p.isf(v)) - q.logpdf(p.isf(v)), 1e-300, 1e-6, **options)[0]
    return total + upper


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
    """Against draws of p (z-score below 5), and against another formula where there is one."""
    p, q = pair.p(), pair.q()
    value = kl_estimate(p, q)
    assert value.method == "closed_form"
    drawn = kl_estimate(p, q, "monte_carlo", key=jr.key(0), num_samples=4000)
    assert abs(float(drawn.value - value.value)) < 5 * float(drawn.standard_error) + 1e-12
    if pair.exact is not None:
        np.testing.assert_allclose(value.value, pair.exact(), rtol=1e-11)


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_positive_and_zero_only_for_equals(pair):
    p, q = pair.p(), pair.q()
    assert float(kl(p, q)) > 1e-3
    if type(p) is type(q):
        assert abs(float(kl(p, p))) < 1e-12
        assert abs(float(kl(q, q))) < 1e-12


@pytest.mark.parametrize("pair", [p for p in PAIRS if not p.edge], ids=str)
def test_stationary_where_equal(pair):
    """KL(p || q) has its minimum at p = q: the gradient in the parameters of p vanishes there and is finite elsewhere."""
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
    covered = {(type(pair.p()), type(pair.q())) for pair in PAIRS}
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


@given(simplex(4), simplex(4), simplex(3))
def test_coarser_states_diverge_less(p, q, _):
    """The data-processing inequality for merging two states."""
    merged = [np.array([v[0] + v[1], v[2], v[3], 0.0]) for v in (p, q)]
    assert float(kl_probs(*merged)) <= float(kl_probs(p, q)) + 1e-12


def test_not_symmetric():
    """P = (1/2, 1/2), Q = (2/3, 1/3): .0588915 one way, .0566330 the other."""
    p, q = jnp.array([0.5, 0.5]), jnp.array([2 / 3, 1 / 3])
    np.testing.assert_allclose(kl_probs(p, q), 0.0588915, atol=5e-8)
    np.testing.assert_allclose(kl_probs(q, p), 0.0566330, atol=5e-8)
