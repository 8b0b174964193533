"""Leave-one-out, WAIC and K-fold against the exact answers of a Gaussian mean."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.stats import norm

from tests.oracles import pareto as oracle
from tractable.inference.evidence.cross_validation import _efficiency, k_fold, loo, waic

RNG = np.random.default_rng(0)
ROWS = RNG.normal(1, 1, 40)
DRAWS = RNG.normal(ROWS.mean(), 1 / np.sqrt(40), 4000)  # the exact posterior under a flat prior
LOGS = norm.logpdf(ROWS[None], DRAWS[:, None], 1.0)


def exact_pointwise(rows):
    """y_i given the others: Gaussian about their mean, with variance 1 + 1/(n - 1)."""
    others = (rows.sum() - rows) / (len(rows) - 1)
    return norm.logpdf(rows, others, np.sqrt(1 + 1 / (len(rows) - 1)))


def test_loo_is_the_exact_leave_one_out():
    found = loo(LOGS)
    np.testing.assert_allclose(found.pointwise, exact_pointwise(ROWS), atol=0.01)
    np.testing.assert_allclose(found.elpd.value, exact_pointwise(ROWS).sum(), atol=0.02)
    np.testing.assert_allclose(
        found.elpd.standard_error, np.sqrt(40) * exact_pointwise(ROWS).std(ddof=1), rtol=0.01
    )
    assert found.verdict.sentence.startswith("Good")
    assert 0.3 < float(found.num_effective) < 1.5


def test_loo_row_by_row_is_smoothing_by_loops():
    found = loo(LOGS)
    for i in (0, 7, 23):
        logs, k = oracle.smooth(-LOGS[:, i], 190)
        w = np.exp(logs - logs.max())
        np.testing.assert_allclose(found.k_hat[i], k, rtol=1e-8)
        np.testing.assert_allclose(
            found.pointwise[i], np.log((w * np.exp(LOGS[:, i])).sum() / w.sum()), rtol=1e-9
        )


def test_an_outlier_is_pointed_out():
    rows = np.append(ROWS[:8], 14.0)
    draws = np.random.default_rng(1).normal(rows.mean(), 1 / 3, 4000)
    found = loo(norm.logpdf(rows[None], draws[:, None], 1.0))
    assert found.suspects.tolist() == [8]
    assert "1 of 9 rows are too influential (8): refit without them" in repr(found)


def test_waic_is_its_definition_and_close_to_loo():
    found = waic(LOGS)
    p = np.exp(LOGS)
    expected = np.log(p.mean(0)) - LOGS.var(0, ddof=1)
    np.testing.assert_allclose(found.pointwise, expected, rtol=1e-10)
    np.testing.assert_allclose(found.elpd.value, loo(LOGS).elpd.value, atol=0.02)
    np.testing.assert_allclose(found.num_effective, LOGS.var(0, ddof=1).sum(), rtol=1e-10)


def test_chains_have_an_efficiency():
    chains = loo(LOGS.reshape(4, 1000, 40))
    np.testing.assert_allclose(chains.elpd.value, loo(LOGS).elpd.value, atol=0.01)
    sticky = np.repeat(LOGS.reshape(4, 1000, 40)[:, :250], 4, axis=1)
    np.testing.assert_allclose(_efficiency(jnp.asarray(sticky)), 1 / 4, rtol=0.3)
    with pytest.raises(ValueError, match=r"`relative_efficiency` must be positive"):
        loo(LOGS, relative_efficiency=-1)


def gaussian_score(rest, fold):
    return norm.logpdf(np.asarray(fold), np.mean(rest), np.sqrt(1 + 1 / len(rest)))


def test_as_many_folds_as_rows_is_leave_one_out():
    found = k_fold(gaussian_score, jnp.asarray(ROWS), key=jr.key(0), num_folds=40)
    np.testing.assert_allclose(found.pointwise, exact_pointwise(ROWS), rtol=1e-10)
    assert "40-fold" in repr(found)


def test_each_row_is_scored_without_its_fold():
    seen = []

    def score(rest, fold):
        if len(rest["x"]) < 10:
            seen.append((set(np.asarray(rest["x"]).tolist()), set(np.asarray(fold["x"]).tolist())))
        return np.asarray(fold["x"]) * 1.0

    found = k_fold(score, {"x": jnp.arange(10)}, key=jr.key(1), num_folds=3)
    np.testing.assert_array_equal(found.pointwise, np.arange(10))
    assert all(not rest & fold and len(rest | fold) == 10 for rest, fold in seen)
    assert set.union(*(fold for _, fold in seen)) == set(range(10))


def test_bad_input_is_refused_by_name():
    with pytest.raises(ValueError, match=r"`log_likelihoods` must be of shape \(draws, rows\)"):
        loo(np.zeros(4))
    with pytest.raises(ValueError, match=r"`log_likelihoods` must be finite; got -inf at index \(0, 1\)"):
        loo([[0.0, -np.inf], [0.0, 0.0]])
    with pytest.raises(ValueError, match=r"`num_folds` must be a whole number from 2 to 5"):
        k_fold(gaussian_score, jnp.zeros(5), key=jr.key(0), num_folds=6)
    with pytest.raises(ValueError, match=r"`score` must be one per row of the fold"):
        k_fold(lambda rest, fold: np.zeros(1), jnp.zeros(5), key=jr.key(0), num_folds=2)
