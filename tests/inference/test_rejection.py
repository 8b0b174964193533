"""Rejection sampling: exact draws and evidence under an envelope, and every way in which it can fail."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.stats import beta, kstest, norm

from tractable.core.iterate import Status
from tractable.distributions.bounded import Uniform
from tractable.distributions.continuous import Normal, StudentT
from tractable.distributions.gaussian import Gaussian
from tractable.inference.weighted.rejection import Envelope, find_envelope, gaussian_log_bound, rejection

SIZES = {"num_draws": 5000, "max_proposals": 20_000}  # one program for all
LOG_Z = 0.5 * np.log(2 * np.pi / 4)


def narrow(x):
    """N(0, 1/2) without its normaliser."""
    return -2 * x**2


@pytest.fixture(scope="module")
def envelope():
    return find_envelope(narrow, StudentT(3.0, 0.0, 1.0), key=jr.key(0))


def test_the_envelope_is_the_largest_ratio(envelope):
    x = np.linspace(-3, 3, 100_001)
    ratio = -2 * x**2 - np.asarray(StudentT(3.0, 0.0, 1.0).log_prob(x))
    np.testing.assert_allclose(envelope.log_bound, ratio.max(), atol=1e-9)
    assert envelope.status in (Status.converged, Status.stalled)


def test_draws_acceptance_and_evidence(envelope):
    found = rejection(narrow, StudentT(3.0, 0.0, 1.0), envelope, key=jr.key(1), **SIZES)
    assert kstest(np.asarray(found.draws), norm(0, 0.5).cdf).pvalue > 1e-3
    evidence = found.log_evidence
    assert abs(float(evidence.value) - LOG_Z) < 5 * float(evidence.standard_error) < 0.1
    rate = np.exp(LOG_Z - float(envelope.log_bound))
    assert abs(float(found.acceptance.value) - rate) < 5 * float(found.acceptance.standard_error)
    assert "Exact draws" in repr(found)
    assert int(found.num_proposed) % 4096 == 0


def test_acceptance_is_one_over_m_for_a_normalised_target():
    """Beta(2, 2) under the uniform: M = 3/2."""

    def log_density(x):
        return jnp.log(6 * x * (1 - x))

    found = rejection(log_density, Uniform(0.0, 1.0), np.log(1.5), key=jr.key(2), num_draws=5000)
    assert abs(float(found.acceptance.value) - 1 / 1.5) < 5 * float(found.acceptance.standard_error)
    assert kstest(np.asarray(found.draws), beta(2, 2).cdf).pvalue > 1e-3


@pytest.mark.thorough
def test_a_violated_envelope_is_reported(envelope):
    low = float(envelope.log_bound) - 1
    found = rejection(narrow, StudentT(3.0, 0.0, 1.0), low, key=jr.key(3), **SIZES)
    np.testing.assert_allclose(found.excess, 1.0, atol=1e-3)
    assert "The envelope was violated (by a factor 2.7" in repr(found)


@pytest.mark.thorough
def test_running_out_of_proposals_leaves_nan_and_says_so(envelope):
    found = rejection(narrow, StudentT(3.0, 0.0, 1.0), 12.0, key=jr.key(4), **SIZES)
    assert found.status is Status.exhausted
    filled = int(found.num_filled)
    assert np.isfinite(np.asarray(found.draws[:filled])).all()
    assert np.isnan(np.asarray(found.draws[filled:])).all()
    assert f"{filled} of 5000 draws" in found.verdict.sentence


def test_the_price_of_dimensions():
    dim = 4
    bound = gaussian_log_bound(1.0, 1.5, dim)
    np.testing.assert_allclose(bound, dim * np.log(1.5), rtol=1e-12)
    target, proposal = Gaussian(jnp.zeros(dim), jnp.eye(dim)), Gaussian(jnp.zeros(dim), 2.25 * jnp.eye(dim))
    found = rejection(target, proposal, bound, key=jr.key(5), num_draws=2000)
    rate = found.acceptance
    assert abs(float(rate.value) - 1.5**-dim) < 5 * float(rate.standard_error)
    assert float(found.excess) < 1e-9


def test_a_proposal_without_an_envelope_is_refused():
    none = find_envelope(StudentT(3.0, 0.0, 1.0), Normal(0.0, 1.0), key=jr.key(6), max_steps=20)
    assert none.status not in (Status.converged, Status.stalled)
    with pytest.raises(ValueError, match=r"`log_bound` must be an envelope that was found"):
        rejection(StudentT(3.0, 0.0, 1.0), Normal(0.0, 1.0), none, key=jr.key(7), num_draws=10)
    assert "max_steps" in repr(none)


def test_bad_input_is_refused_by_name():
    with pytest.raises(ValueError, match=r"`proposal_scale` must be at least `target_scale`"):
        gaussian_log_bound(2.0, 1.0, 3)
    with pytest.raises(ValueError, match=r"`log_bound` must be one number, log M; got shape \(2,\)"):
        rejection(narrow, Normal(0.0, 1.0), [0.0, 1.0], key=jr.key(0), num_draws=10)
    assert isinstance(Envelope(jnp.asarray(0.0), jnp.zeros(1), jnp.asarray(0)).status, Status)
