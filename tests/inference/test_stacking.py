"""Stacking weights against a constrained optimiser; the table of models."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.optimize import minimize

from tractable.inference.evidence.cross_validation import PredictiveFit
from tractable.inference.evidence.stacking import compare, pseudo_bma, stack

RNG = np.random.default_rng(0)


def fit(pointwise, k_hat=None):
    return PredictiveFit(jnp.asarray(pointwise), jnp.asarray(pointwise) + 0.1, k_hat, 4000, "PSIS-LOO")


@pytest.mark.parametrize("spread", [0.3, 2.0])
def test_weights_are_the_optimum_on_the_simplex(spread):
    logs = spread * RNG.normal(size=(60, 4)) + np.array([0.0, 0.1, -0.2, -3.0])
    found = stack(logs)

    def loss(w):
        return -np.log(np.exp(logs) @ w).mean()

    sums_to_one = {"type": "eq", "fun": lambda w: w.sum() - 1}
    best = minimize(
        loss,
        np.full(4, 0.25),
        bounds=[(0, 1)] * 4,
        constraints=sums_to_one,
        options={"ftol": 1e-14, "maxiter": 500},
    )
    np.testing.assert_allclose(loss(np.asarray(found.weights)), best.fun, atol=1e-7)
    np.testing.assert_allclose(found.weights, best.x, atol=2e-3)
    assert float(found.gap) <= 1.01e-8
    assert loss(np.asarray(found.weights)) - best.fun <= float(found.gap) + 1e-9
    assert "gap" in repr(found)


def test_a_model_that_is_best_everywhere_gets_all_the_weight():
    base = RNG.normal(size=(60, 1))
    found = stack(np.concatenate([base, base - 1, base - 2, base - np.inf], 1))
    np.testing.assert_allclose(found.weights, [1, 0, 0, 0], atol=1e-6)


def test_two_models_that_are_right_about_different_rows():
    """Half of the rows each: the weights are even by symmetry."""
    logs = np.where(np.arange(60)[:, None] % 2 == np.array([[0, 1]]), 0.0, -4.0)
    np.testing.assert_allclose(stack(logs).weights, [0.5, 0.5], atol=1e-6)


def test_pseudo_averages():
    logs = RNG.normal(size=(60, 4)) * 0.1
    w = np.exp(logs.sum(0) - logs.sum(0).max())
    np.testing.assert_allclose(pseudo_bma(logs), w / w.sum(), rtol=1e-10)
    softened = pseudo_bma(logs, key=jr.key(0), num_bootstraps=4000)
    rng = np.random.default_rng(1)
    each = 60 * rng.dirichlet(np.ones(60), 4000) @ logs
    each = np.exp(each - each.max(1, keepdims=True))
    each = each / each.sum(1, keepdims=True)
    np.testing.assert_allclose(softened, each.mean(0), atol=5 * each.std() * np.sqrt(2 / 4000))


def test_bootstraps_of_a_row_that_counts_twice_are_those_of_two_rows():
    """A Dirichlet's shares add: the same law, so averages over 4000 bootstraps differ by chance alone."""
    logs = 0.5 * np.random.default_rng(3).normal(size=(12, 3))
    logs[2, 1] = -np.inf  # a model that a row refutes has no weight, with no NaN
    amounts = np.r_[2.0, np.ones(10), 0.0]
    once = pseudo_bma(logs, row_weights=amounts, key=jr.key(1), num_bootstraps=4000)
    twice = pseudo_bma(np.r_[logs[:1], logs[:11]], key=jr.key(2), num_bootstraps=4000)
    assert once[1] == twice[1] == 0
    np.testing.assert_allclose(once, twice, atol=4 * 0.5 * np.sqrt(2 / 4000))


def test_the_table_is_sorted_and_paired():
    good = RNG.normal(size=60)
    table = compare(
        {"worse": fit(good - 0.2 - 0.05 * RNG.normal(size=60)), "better": fit(good), "bad": fit(good - 3)}
    )
    assert table.names == ("better", "worse", "bad")
    gap = np.asarray(table.fits[1].pointwise - table.fits[0].pointwise)
    np.testing.assert_allclose(table.differences.value[1], gap.sum(), rtol=1e-10)
    np.testing.assert_allclose(table.differences.standard_error[1], np.sqrt(60) * gap.std(ddof=1), rtol=1e-10)
    assert "better predicts better than all others." in repr(table)
    same = compare({"a": fit(good), "b": fit(good - 0.01 * RNG.normal(size=60), jnp.full(60, 0.9))})
    assert "predict about equally well. 60 influential rows" in repr(same)


def test_bad_input_is_refused_by_name():
    with pytest.raises(ValueError, match=r"`pointwise` must be of shape \(rows, models\)"):
        stack(np.zeros(3))
    with pytest.raises(ValueError, match=r"`pointwise` must be numbers; got NaN or inf"):
        stack([[np.nan, 0.0], [0.0, 0.0]])
    with pytest.raises(ValueError, match=r"`pointwise` must be possible under at least one model; got row 1"):
        stack([[0.0, 0.0], [-np.inf, -np.inf]])
    with pytest.raises(ValueError, match=r"`fits` must be of the same rows"):
        compare({"a": fit(np.zeros(3)), "b": fit(np.zeros(4))})
