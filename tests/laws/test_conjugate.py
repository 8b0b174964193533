"""Laws of conjugacy, over all registered pairs: Bayes' theorem, the evidence, adding up, predicting."""

import jax
import numpy as np
import pytest
from scipy.integrate import quad

from tractable.distributions.conjugate import known_pairs, log_evidence, posterior, predictive
from tractable.distributions.conjugate_registry import _PAIRS

from .cases_conjugate import CASES

scalar = [case for case in CASES if case.span is not None]


def assert_close(left, right, rtol=1e-9):
    for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-11)


def test_every_registered_pair_has_a_case():
    pairs = set()
    for case in CASES:
        likelihood = case.likelihood()
        kind = likelihood if isinstance(likelihood, type) else type(likelihood)
        pairs.add((type(case.prior()).__name__, kind.__name__))
    own = {key for key, pair in _PAIRS.items() if pair.contribution.__module__.startswith("tractable.")}
    assert {(prior.__name__, likelihood.__name__) for prior, likelihood in own} == pairs
    assert pairs <= set(known_pairs())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_posterior_times_evidence_is_prior_times_likelihood(case):
    """At several parameters, with SciPy's densities on the right."""
    prior, likelihood = case.prior(), case.likelihood()
    after = posterior(prior, likelihood, case.data)
    left = np.asarray(after.log_prob(case.thetas)) + float(log_evidence(prior, likelihood, case.data))
    right = [case.log_prior(theta) + case.log_likelihood(theta, case.data).sum() for theta in case.thetas]
    np.testing.assert_allclose(left, right, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("case", scalar, ids=str)
def test_evidence_is_an_integral(case):
    """The evidence of all rows, and of one (the predictive density), by quadrature of SciPy's densities."""
    prior, likelihood = case.prior(), case.likelihood()
    for rows in case.data, case.data[1:2]:

        def joint(theta, rows=rows):
            return np.exp(case.log_prior(theta) + case.log_likelihood(theta, rows).sum())

        low, high = case.span
        low = max(low, rows.max()) if case.name == "pareto-uniform" else low  # the density jumps there
        points = [low + (high - low) * f for f in (1e-3, 1e-2, 0.1, 0.5)]
        value, _ = quad(joint, low, high, epsabs=0, epsrel=1e-10, limit=500, points=points)
        if len(rows) > 1:
            got = np.exp(log_evidence(prior, likelihood, rows))
        else:
            got = predictive(prior, likelihood).prob(rows[0])
        np.testing.assert_allclose(got, value, rtol=1e-7)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_updates_add_up(case):
    """Sequential is batch, weight two is the row twice, and rows of weight zero change nothing."""
    prior, likelihood, n = case.prior(), case.likelihood(), len(case.data)
    first, rest = np.arange(n) < 2, np.arange(n) >= 2
    halfway = posterior(prior, likelihood, case.data, first.astype(float))
    assert_close(
        posterior(halfway, likelihood, case.data, rest.astype(float)), posterior(prior, likelihood, case.data)
    )
    twice = np.where(np.arange(n) == 0, 2.0, np.where(np.arange(n) == 1, 0.0, 1.0))
    copied = case.data[np.r_[0, 0, 2:n]]
    assert_close(posterior(prior, likelihood, case.data, twice), posterior(prior, likelihood, copied))
    np.testing.assert_allclose(
        log_evidence(prior, likelihood, case.data, twice), log_evidence(prior, likelihood, copied), rtol=1e-10
    )
    assert_close(posterior(prior, likelihood, case.data, np.zeros(n)), prior, rtol=1e-12)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_evidence_is_the_chain_of_predictives(case):
    prior, likelihood = case.prior(), case.likelihood()
    total, n = 0.0, len(case.data)
    for i in range(n):
        seen = posterior(prior, likelihood, case.data, (np.arange(n) < i).astype(float))
        total += float(predictive(seen, likelihood).log_prob(case.data[i]))
    np.testing.assert_allclose(total, log_evidence(prior, likelihood, case.data), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("case", [CASES[0], CASES[4], CASES[14], CASES[17]], ids=str)
def test_no_rows_give_back_the_prior(case):
    prior, likelihood = case.prior(), case.likelihood()
    assert_close(posterior(prior, likelihood, case.data[:0]), prior, rtol=1e-12)
    np.testing.assert_allclose(log_evidence(prior, likelihood, case.data[:0]), 0.0, atol=1e-12)
