"""Recursive least squares: four covariance updates, batch ridge to rounding, any gain, forgetting."""

import jax.numpy as jnp
import numpy as np
import pytest

from tractable.core.iterate import count_traces
from tractable.core.programs import program
from tractable.supervised.linear import recursive
from tractable.supervised.linear.recursive import (
    FORMS,
    RecursiveModel,
    recursive_least_squares,
    recursive_update,
    ridge_prior,
)

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(40, 4))
Y = X @ [1.0, 2.0, 3.0, 4.0] + GENERATOR.normal(size=40)
NOISE, PENALTY = 0.3, 0.7
RIDGE = np.linalg.solve(X.T @ X + PENALTY * np.eye(4), X.T @ Y)
COV = NOISE * np.linalg.inv(X.T @ X + PENALTY * np.eye(4))


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_batch_ridge(form):
    prior = ridge_prior(4, PENALTY, NOISE)
    run = recursive_least_squares(X, Y, prior, NOISE, form=form)
    np.testing.assert_allclose(run.state.mean, RIDGE, atol=1e-14)
    np.testing.assert_allclose(run.state.cov, COV, atol=1e-16)
    assert run.trace.mean.shape == (40, 4)
    assert (np.diff(run.trace.trace) < 0).all()  # each row adds knowledge
    pairs = recursive_least_squares(X.reshape(20, 2, 4), Y.reshape(20, 2), prior, NOISE, form=form)
    np.testing.assert_allclose(pairs.state.mean, RIDGE, atol=1e-14)
    np.testing.assert_allclose(pairs.trace.mean, run.trace.mean[1::2], atol=1e-13)


def test_a_flat_start_gives_least_squares_with_any_noise():
    root = GENERATOR.normal(size=(2, 2))
    R = root @ root.T + np.eye(2)
    run = recursive_least_squares(X.reshape(20, 2, 4), Y.reshape(20, 2), ridge_prior(4, 1e-8), R)
    precision = np.kron(np.eye(20), np.linalg.inv(R))
    cov = np.linalg.inv(X.T @ precision @ X)
    np.testing.assert_allclose(run.state.mean, cov @ X.T @ precision @ Y, rtol=1e-6)
    np.testing.assert_allclose(run.state.cov, cov, rtol=1e-5, atol=1e-7)


def test_the_best_gain_minimises_the_trace_and_any_gain_is_unbiased():
    belief = ridge_prior(4, 1.0)
    rows, value, R = X[:2], Y[:2], 0.5 * np.eye(2)
    S = rows @ rows.T + R
    best = rows.T @ np.linalg.inv(S)
    updated = recursive_update(belief, rows, value, R, form="joseph")
    given = recursive_update(belief, rows, value, R, form="joseph", gain=best)
    np.testing.assert_allclose(given.cov, updated.cov, atol=1e-14)
    np.testing.assert_allclose(-2 * rows.T + 2 * best @ S, 0, atol=1e-14)  # the derivative of the trace
    truth = GENERATOR.normal(size=4)
    for change in GENERATOR.normal(size=(5, 4, 2)):
        other = recursive_update(belief, rows, value, R, form="joseph", gain=best + 0.1 * change)
        assert jnp.trace(other.cov) > jnp.trace(updated.cov)
        # the error after noiseless rows is linear in the error before: its mean stays zero
        a = recursive_update(belief, rows, rows @ truth, R, form="joseph", gain=change).mean - truth
        np.testing.assert_allclose(a, (np.eye(4) - change @ rows) @ (0 - truth), atol=1e-12)
    with pytest.raises(ValueError, match="`form` must be 'joseph' where a gain is given; got 'gain'"):
        recursive_update(belief, rows, value, R, gain=best)


@pytest.mark.parametrize("form", FORMS)
def test_forgetting_is_ridge_with_fading_rows(form):
    rho = 0.9
    run = recursive_least_squares(X, Y, ridge_prior(4, PENALTY, NOISE), NOISE, form=form, forgetting=rho)
    fade = rho ** np.arange(39, -1, -1.0)
    precision = (X.T * fade) @ X + PENALTY * rho**40 * np.eye(4)
    np.testing.assert_allclose(run.state.mean, np.linalg.solve(precision, X.T @ (fade * Y)), atol=1e-12)
    np.testing.assert_allclose(run.state.cov, NOISE * np.linalg.inv(precision), atol=1e-13)


def test_weights_and_a_new_number_of_rows_do_not_compile_again(monkeypatch):
    counted = count_traces(recursive._scan.__wrapped__)
    monkeypatch.setattr(recursive, "_scan", program(counted))
    w = GENERATOR.integers(0, 3, 40).astype(float)
    prior = ridge_prior(4, PENALTY, NOISE)
    run = recursive_least_squares(X, Y, prior, NOISE, weights=w)
    expected = np.linalg.solve((X.T * w) @ X + PENALTY * np.eye(4), X.T @ (w * Y))
    np.testing.assert_allclose(run.state.mean, expected, atol=1e-13)
    for n in (33, 35, 50):
        rows, targets = np.resize(X, (n, 4)), np.resize(Y, n)
        found = recursive_least_squares(rows, targets, prior, NOISE)
        np.testing.assert_allclose(
            found.state.mean,
            np.linalg.solve(rows.T @ rows + PENALTY * np.eye(4), rows.T @ targets),
            atol=1e-13,
        )
    assert counted.count == 1


def test_model_goes_on_where_it_stopped_and_predicts_as_the_conjugate_posterior():
    whole = RecursiveModel.start(X, intercept=False, penalty=0.5).update(X, Y)
    parts = (
        RecursiveModel.start(X, intercept=False, penalty=0.5).update(X[:13], Y[:13]).update(X[13:], Y[13:])
    )
    np.testing.assert_allclose(parts.coefficients, whole.coefficients, atol=1e-13)
    scale = np.asarray(whole.column_scale)
    rows = X / scale
    cov = np.linalg.inv(rows.T @ rows + 0.5 * np.eye(4))
    energy = Y @ np.linalg.solve(np.eye(40) + rows @ rows.T / 0.5, Y)
    assert float(parts.energy) == pytest.approx(energy, rel=1e-11)
    predicted = parts.predict_dist(X[:3])
    spread = np.sqrt(energy / 40 * (1 + np.einsum("ij,jk,ik->i", rows[:3], cov, rows[:3])))
    np.testing.assert_allclose(predicted.scale, spread, rtol=1e-10)
    assert float(predicted.degrees[0]) == 40
    assert "40.0" in repr(parts)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"`forgetting` must be in \(0, 1\]; got 1\.5"):
        recursive_least_squares(X, Y, ridge_prior(4, 1.0), forgetting=1.5)
    with pytest.raises(ValueError, match="`form` must be one of"):
        recursive_least_squares(X, Y, ridge_prior(4, 1.0), form="kalman")
    with pytest.raises(ValueError, match=r"`X` must be of shape \(any, any, 3\)"):
        recursive_least_squares(X, Y, ridge_prior(3, 1.0))
    with pytest.raises(ValueError, match="`penalty` must be positive; got 0"):
        ridge_prior(3, 0)
