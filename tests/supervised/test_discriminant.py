"""Gaussian discriminants: moments by hand, marginals of gaps, the three approaches, scikit-learn."""

import jax.random as jr
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis

from tractable.core.iterate import Status, count_traces
from tractable.core.programs import program
from tractable.datasets import iris
from tractable.supervised.generative import moments
from tractable.supervised.generative.discriminant import fit_gaussian_discriminant

X, Y = iris().features, iris().target
_GAPS = np.where(np.random.default_rng(0).random(X.shape) < 0.15, np.nan, X)


def test_supervised_maximum_likelihood_is_shares_means_and_covariances():
    keep = np.r_[0:50, 60:90, 100:150]  # classes of different sizes
    model = fit_gaussian_discriminant(X[keep], Y[keep])
    np.testing.assert_allclose(model.class_probs, np.bincount(Y[keep]) / len(keep))
    for c in range(3):
        own = X[keep][Y[keep] == c]
        np.testing.assert_allclose(model.means[c], own.mean(0), rtol=1e-13)
        np.testing.assert_allclose(model.covs[c], np.cov(own.T, bias=True), rtol=1e-11)
    tied = fit_gaussian_discriminant(X[keep], Y[keep], tied=True, ddof=1)
    scatter = sum(np.cov(X[keep][Y[keep] == c].T, bias=True) * (Y[keep] == c).sum() for c in range(3))
    np.testing.assert_allclose(tied.covs[0], scatter / (len(keep) - 3), rtol=1e-11)


def test_complete_data_likelihood_and_that_it_is_the_largest():
    model = fit_gaussian_discriminant(X, Y)
    expected = sum(
        np.log(1 / 3) + multivariate_normal(X[c == Y].mean(0), np.cov(X[c == Y].T, bias=True)).logpdf(x)
        for x, c in zip(X, Y)
    )
    found = model.log_likelihood(X, Y)
    assert found == pytest.approx(expected, rel=1e-12)
    for other in (
        fit_gaussian_discriminant(X, Y, tied=True),
        fit_gaussian_discriminant(X, Y, ddof=1),
        fit_gaussian_discriminant(X, Y, diagonal=True),
        fit_gaussian_discriminant(X, Y, class_probs=[0.4, 0.3, 0.3]),
    ):
        assert other.log_likelihood(X, Y) < found


def test_three_approaches_make_one_decision():
    model = fit_gaussian_discriminant(X, Y, tied=True)
    scores, posterior, joint = model.discriminant(X), model.posterior(X), model.log_joint(X)
    form = model.linear_form()
    np.testing.assert_allclose(scores, X @ form.weights.T + form.intercepts, rtol=1e-12)
    relative = scores - scores.max(1, keepdims=True)
    np.testing.assert_allclose(
        posterior, np.exp(relative) / np.exp(relative).sum(1, keepdims=True), rtol=1e-9
    )
    np.testing.assert_allclose(scores - scores[:, :1], joint - joint[:, :1], rtol=1e-9, atol=1e-9)
    assert (scores.argmax(1) == posterior.argmax(1)).all()
    assert (model.predict(X) == joint.argmax(1)).all()
    np.testing.assert_allclose(model.log_prob(X), np.log(np.exp(joint).sum(1)), rtol=1e-10)


@pytest.mark.parametrize(
    ("tied", "peer"), [(True, LinearDiscriminantAnalysis), (False, QuadraticDiscriminantAnalysis)]
)
def test_agrees_with_scikit_learn(tied, peer):
    model = fit_gaussian_discriminant(X, Y, tied=tied)
    np.testing.assert_allclose(model.posterior(X), peer().fit(X, Y).predict_proba(X), rtol=1e-6, atol=1e-10)


def test_gaps_in_new_rows_are_marginalised():
    model = fit_gaussian_discriminant(X, Y)
    rows = np.array([[5.0, np.nan, np.nan, 1.0], [np.nan] * 4, [6.0, 3.0, np.nan, 2.0]])
    found = model.log_joint(rows)
    for row, values in zip(rows, found):
        for c in range(3):
            gaussian = model.conditional(c)
            exact = float(gaussian.log_prob_observed(row)) + np.log(model.class_probs[c])
            assert values[c] == pytest.approx(exact, rel=1e-10)
    np.testing.assert_allclose(found[1], np.log(1 / 3), rtol=1e-12)


@pytest.mark.parametrize("tied", [False, True])
def test_gaps_in_training_reach_a_stationary_likelihood(tied):
    model = fit_gaussian_discriminant(_GAPS, Y, tied=tied, tol=1e-9)
    assert model.status is Status.converged
    top = model.log_likelihood(_GAPS, Y)
    generator = np.random.default_rng(2)
    for _ in range(6):  # no small change of the means makes what was seen more likely
        step = 1e-3 * generator.normal(size=model.means.shape)
        sides = [_moved(model, sign * step).log_likelihood(_GAPS, Y) for sign in (1, -1)]
        assert max(sides) < top
        assert abs(sides[0] - sides[1]) < 0.01 * (top - sum(sides) / 2) + 1e-5
    filled = fit_gaussian_discriminant(np.where(np.isnan(_GAPS), np.nanmean(_GAPS, 0), _GAPS), Y, tied=tied)
    assert top > filled.log_likelihood(_GAPS, Y)


def _moved(model, step):
    return type(model)(
        model.class_probs, model.means + step, model.covs, model.lowers, model.class_weights, model.status
    )


def test_diagonal_classes_use_what_was_seen_of_each_column():
    model = fit_gaussian_discriminant(_GAPS, Y, diagonal=True)
    for c in range(3):
        own = _GAPS[c == Y]
        np.testing.assert_allclose(model.means[c], np.nanmean(own, 0), rtol=1e-12)
        np.testing.assert_allclose(np.diag(model.covs[c]), np.nanvar(own, 0), rtol=1e-10)
        assert (model.covs[c] - np.diag(np.diag(model.covs[c])) == 0).all()


def test_a_new_number_of_rows_with_gaps_compiles_nothing(monkeypatch):
    counted = count_traces(moments._run.__wrapped__)
    monkeypatch.setattr(moments, "_run", program(counted))
    fit_gaussian_discriminant(_GAPS, Y)
    fit_gaussian_discriminant(_GAPS[:140], Y[:140])
    assert counted.count == 1


@given(st.integers(-12, 12), st.sampled_from([0.0, 0.3, 1.0]), st.booleans())
def test_posteriors_do_not_depend_on_units(power, shrinkage, tied):
    scale = 10.0 ** np.array([power, 0, -power, 3])
    model = fit_gaussian_discriminant(X, Y, shrinkage=shrinkage, tied=tied)
    moved = fit_gaussian_discriminant(X * scale + scale, Y, shrinkage=shrinkage, tied=tied)
    np.testing.assert_allclose(moved.posterior(X * scale + scale), model.posterior(X), rtol=1e-7, atol=1e-10)


def test_shrinkage_moves_to_the_diagonal_of_the_mean():
    model = fit_gaussian_discriminant(X, Y, shrinkage=0.25)
    mean = np.mean([np.cov(X[c == Y].T, bias=True) for c in range(3)], 0)
    expected = 0.75 * np.cov(X[Y == 1].T, bias=True) + 0.25 * np.diag(np.diag(mean))
    np.testing.assert_allclose(model.covs[1], expected, rtol=1e-11)
    few = fit_gaussian_discriminant(X[[0, 1, 50, 51, 52]], [0, 0, 1, 1, 1], shrinkage=0.5)
    assert np.isfinite(few.posterior(X)).all()


def test_constant_columns_cancel_and_singular_ones_are_named():
    expected = fit_gaussian_discriminant(X, Y).posterior(X)
    constant = np.c_[X, np.full(len(X), 0.1)]
    np.testing.assert_allclose(
        fit_gaussian_discriminant(constant, Y).posterior(constant), expected, rtol=1e-9
    )
    twice = np.c_[X, X[:, 0] + X[:, 1]]
    with pytest.raises(ValueError, match=r"of class 0 is regular; got column \d, a linear combination"):
        fit_gaussian_discriminant(twice, Y)
    with pytest.raises(ValueError, match=r"shared covariance is regular; got no variance in column \[4\]"):
        fit_gaussian_discriminant(np.c_[X, Y], Y, tied=True)
    huge = X.copy()
    huge[3, 1] = 1e300
    with pytest.raises(
        ValueError, match=r"squares have a sum; got 1e\+300 at index \(3, 1\). Divide its column"
    ):
        fit_gaussian_discriminant(huge, Y)
    floored = fit_gaussian_discriminant(twice, Y, floor=1e-6)
    assert "Regular only by the floor" in repr(floored)
    assert (floored.predict(twice) == Y).mean() > 0.95


def test_draws_have_the_moments_of_their_class():
    model = fit_gaussian_discriminant(X, Y, tied=True, class_probs=[0.2, 0.3, 0.5])
    rows, labels = model.sample(jr.key(0), 5000)
    for c, p in enumerate([0.2, 0.3, 0.5]):
        assert abs((labels == c).mean() - p) <= 5 * np.sqrt(p * (1 - p) / 5000)
        own = rows[labels == c]
        error = np.sqrt(np.diag(model.covs[0]) / len(own))
        assert (np.abs(own.mean(0) - model.means[c]) <= 5 * error).all()
    centred = rows - model.means[labels]
    np.testing.assert_allclose(np.cov(centred.T), model.covs[0], atol=5 * np.diag(model.covs[0]).max() / 50)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"`shrinkage` must be from 0 to 1; got 2"):
        fit_gaussian_discriminant(X, Y, shrinkage=2)
    with pytest.raises(ValueError, match=r"no rows of class \[1\]"):
        fit_gaussian_discriminant(X[:3], [0, 0, 2])
    with pytest.raises(ValueError, match=r"only NaN in column \[0\]"):
        fit_gaussian_discriminant(np.full((4, 1), np.nan), [0, 0, 1, 1])
    model = fit_gaussian_discriminant(X, Y)
    with pytest.raises(ValueError, match="of one shared covariance; got 3 covariances"):
        model.linear_form()
    assert repr(model).endswith("tied           False\n  Exact.")


@pytest.mark.parametrize(
    "options", [{}, {"tied": True}, {"shrinkage": 0.3, "floor": 1e-3}, {"diagonal": True}]
)
def test_parts_of_the_rows_add_to_all_of_them(options):
    rows = np.hstack([X + 1e6, np.full((len(X), 1), 7.0)])  # far from zero, and one constant column
    whole = fit_gaussian_discriminant(rows, Y, **options)
    parts = fit_gaussian_discriminant(
        rows[Y < 2][::2], Y[Y < 2][::2], num_classes=3, **({"floor": 1e-9} | options)
    )
    assert parts.class_probs[2] == 0  # until its first rows come
    np.testing.assert_array_equal(parts.predict(rows) == 2, False)
    parts = fit_gaussian_discriminant(rows[:70], Y[:70], num_classes=3, **({"floor": 0.0} | options))
    for start in (70, 71, 110):
        stop = {70: 71, 71: 110, 110: 150}[start]
        parts = parts.update(rows[start:stop], Y[start:stop])
    np.testing.assert_allclose(parts.means, whole.means, rtol=1e-14)
    np.testing.assert_allclose(parts.covs, whole.covs, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(parts.class_probs, whole.class_probs, rtol=1e-15)


def test_rows_with_gaps_do_not_add():
    model = fit_gaussian_discriminant(X, Y)
    with pytest.raises(ValueError, match="NaN in column"):
        model.update(_GAPS, Y)
    with pytest.raises(ValueError, match="gaps in earlier rows"):
        fit_gaussian_discriminant(_GAPS, Y).update(X, Y)
