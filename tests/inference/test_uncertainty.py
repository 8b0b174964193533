"""Aleatoric and epistemic parts by loops; selective prediction by hand."""

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from scipy.stats import entropy

from tractable.inference.trust.uncertainty import risk_coverage, split_entropy, split_variance

RNG = np.random.default_rng(0)


def test_entropy_splits_into_noise_and_disagreement():
    probs = RNG.dirichlet([0.5, 1.0, 2.0], size=(8, 5))
    found = split_entropy(probs)
    for i in range(5):
        aleatoric = np.mean([entropy(p) for p in probs[:, i]])
        total = entropy(probs[:, i].mean(0))
        np.testing.assert_allclose(found.aleatoric[i], aleatoric, rtol=1e-10)
        np.testing.assert_allclose(found.epistemic[i], total - aleatoric, rtol=1e-8)
    assert (np.asarray(found.epistemic) > 0).all()
    np.testing.assert_allclose(found.total, entropy(probs.mean(0), axis=-1), rtol=1e-10)


def test_draws_that_agree_leave_noise_only():
    probs = np.tile(RNG.dirichlet([1.0, 1.0, 1.0], size=(1, 5)), (8, 1, 1))
    np.testing.assert_allclose(split_entropy(probs).epistemic, 0, atol=1e-14)
    certain = np.tile(np.eye(3)[[0, 1, 2, 0, 1]][None], (8, 1, 1))
    np.testing.assert_allclose(split_entropy(certain).total, 0, atol=1e-14)


def test_variance_splits_into_noise_and_disagreement():
    means, variances = RNG.normal(size=(8, 5)), RNG.uniform(1, 2, size=(8, 5))
    found = split_variance(means, variances)
    np.testing.assert_allclose(found.aleatoric, variances.mean(0), rtol=1e-12)
    np.testing.assert_allclose(found.epistemic, means.var(0), rtol=1e-10)
    draws = means + np.sqrt(variances) * RNG.normal(size=(40_000, 8, 5))
    np.testing.assert_allclose(found.total, draws.reshape(-1, 5).var(0), rtol=0.05)
    assert "would yield to more data" in repr(found)


def test_risk_by_coverage_by_hand():
    found = risk_coverage([0.9, 0.8, 0.7, 0.1], [0.0, 0.0, 1.0, 1.0])
    np.testing.assert_allclose(found.coverage, [0.25, 0.5, 0.75, 1])
    np.testing.assert_allclose(found.risk, [0, 0, 1 / 3, 1 / 2], rtol=1e-12)
    np.testing.assert_allclose(found.area, (1 / 3 + 1 / 2) / 4, rtol=1e-12)
    assert float(found.excess) == 0
    np.testing.assert_allclose(found.risk_at(0.75), 1 / 3)
    assert "Confidence orders the cases" in repr(found)
    assert "of no use" in repr(risk_coverage([0.1, 0.2, 0.3, 0.4], [0.0, 0.0, 1.0, 1.0]))


@given(hnp.arrays(float, 4, elements=st.sampled_from([0.0, 1.0])))
def test_equal_confidence_has_the_mean_risk_in_any_order(losses):
    found = risk_coverage(np.ones(4), losses)
    np.testing.assert_allclose(found.risk, losses.mean(), rtol=1e-12)
    assert float(found.excess) >= -1e-12


def test_bad_input_is_refused_by_name():
    with pytest.raises(ValueError, match=r"`probs` must be of shape \(draws, rows, classes\)"):
        split_entropy([[0.5, 0.5]])
    with pytest.raises(ValueError, match=r"`probs` must be probabilities that sum to 1 over the classes"):
        split_entropy([[[0.5, 0.6]]])
    with pytest.raises(ValueError, match=r"`variances` must be zero or positive; got -1.0 at index \(0, 0\)"):
        split_variance([[0.0]], [[-1.0]])
    with pytest.raises(ValueError, match=r"`losses` must be one per case \(2,\)"):
        risk_coverage([0.5, 0.5], [1.0])
