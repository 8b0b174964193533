"""Naive Bayes: counts by hand, every family against its distribution, gaps, streams, scikit-learn."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, GaussianNB, MultinomialNB

from tractable.core import storage
from tractable.core.checks import ImpossibleEvidence
from tractable.datasets import iris
from tractable.distributions.conjugate import posterior, predictive
from tractable.distributions.continuous import Normal
from tractable.distributions.normal_priors import NormalGamma
from tractable.distributions.positive import Exponential, Gamma
from tractable.supervised.generative.columns import FamilyColumns, GaussianColumns
from tractable.supervised.generative.counts import (
    BernoulliColumns,
    CategoricalColumns,
    MultinomialColumns,
    PoissonColumns,
    additive_smoothing,
)
from tractable.supervised.generative.naive_bayes import fit_naive_bayes

_RNG = np.random.default_rng(0)
_Y = _RNG.integers(0, 3, 150)
_MIXED = np.column_stack([
    _RNG.normal(_Y, 1.0), _RNG.integers(0, 2, 150), _RNG.integers(0, 4, 150), _RNG.poisson(1.0 + _Y),
    _RNG.exponential(1.0 + _Y),
])  # fmt: skip
_FAMILIES = ["gaussian", "bernoulli", "categorical", "poisson", Exponential(1.0)]


def test_additive_smoothing_is_counts_plus_pseudo_counts():
    counts = np.array([[3.0, 1.0, 0.0], [0.0, 0.0, 5.0]])
    np.testing.assert_allclose(
        additive_smoothing(counts, 0.5), (counts + 0.5) / (counts.sum(1)[:, None] + 1.5)
    )
    np.testing.assert_allclose(additive_smoothing(counts, 0.5).sum(1), 1.0, rtol=1e-15)
    np.testing.assert_array_equal(additive_smoothing(counts, 0.0), counts / counts.sum(1)[:, None])
    np.testing.assert_allclose(additive_smoothing([3, 1], [2.0, 1.0]), [5 / 7, 2 / 7])
    assert np.isnan(additive_smoothing([0.0, 0.0], 0.0)).all()
    with pytest.raises(ValueError, match="`counts` must be zero or positive"):
        additive_smoothing([1.0, -2.0])


def test_counting_gives_shares_of_classes_and_of_ones():
    X = np.array([[1, 0], [1, 1], [0, 1], [0, 1], [1, 1]])
    y = np.array([0, 0, 1, 1, 1])
    model = fit_naive_bayes(X, y, BernoulliColumns(0.0, 0.0))
    np.testing.assert_allclose(model.class_probs, [2 / 5, 3 / 5])
    np.testing.assert_allclose(model.conditional(0).probs, [1.0, 1 / 3], atol=1e-15)
    np.testing.assert_allclose(model.conditional(1).probs, [0.5, 1.0], atol=1e-15)
    by_hand = 0.4 * 1.0 * 0.5, 0.6 * (1 / 3) * 1.0
    np.testing.assert_allclose(model.posterior([[1, 1]])[0], np.array(by_hand) / sum(by_hand), rtol=1e-14)
    smoothed = fit_naive_bayes(X, y, BernoulliColumns(2.0, 1.0))
    np.testing.assert_allclose(
        smoothed.conditional(0).probs, [(2 + 2) / (2 + 3), (1 + 2) / (3 + 3)], rtol=1e-14
    )


def test_likelihood_is_the_sum_over_classes_and_columns():
    model = fit_naive_bayes(_MIXED, _Y, _FAMILIES)
    expected = 0.0
    for c in range(3):
        own = _MIXED[c == _Y]
        expected += len(own) * np.log(len(own) / len(_Y))
        expected += stats.norm(own[:, 0].mean(), own[:, 0].std()).logpdf(own[:, 0]).sum()
        ones = (own[:, 1].sum() + 1) / (len(own) + 2)
        expected += stats.bernoulli(ones).logpmf(own[:, 1]).sum()
        shares = (np.bincount(own[:, 2].astype(int), minlength=4) + 1) / (len(own) + 4)
        expected += np.log(shares[own[:, 2].astype(int)]).sum()
        expected += stats.poisson((own[:, 3].sum() + 1) / (len(own) + 1)).logpmf(own[:, 3]).sum()
        expected += stats.expon(scale=own[:, 4].mean()).logpdf(own[:, 4]).sum()
    assert model.log_likelihood(_MIXED, _Y) == pytest.approx(expected, rel=1e-12)


def test_joint_is_the_product_of_the_conditionals_and_gaps_are_left_out():
    model = fit_naive_bayes(_MIXED, _Y, _FAMILIES)
    row = _MIXED[7]
    terms = np.stack([assert_sum_and_give_each(model.conditional(j), row[j]) for j in range(5)])
    full = np.log(model.class_probs) + terms.sum(0)
    np.testing.assert_allclose(model.log_joint(row[None])[0], full, rtol=1e-10)
    for hidden in range(5):
        gap = row.copy()
        gap[hidden] = np.nan
        np.testing.assert_allclose(model.log_joint(gap[None])[0], full - terms[hidden], rtol=1e-10)
    nothing = np.full((1, 5), np.nan)
    np.testing.assert_allclose(model.posterior(nothing)[0], model.class_probs, rtol=1e-14)


def assert_sum_and_give_each(distribution, x):
    """The log-density of one number under each unit, by SciPy; their sum is the library's."""
    made = {
        "Normal": lambda d, c: stats.norm(float(d.loc[c]), float(d.scale[c])).logpdf(x),
        "Bernoulli": lambda d, c: stats.bernoulli(float(d.probs[c])).logpmf(x),
        "Categorical": lambda d, c: float(np.log(d.probs[c, int(x)])),
        "Poisson": lambda d, c: stats.poisson(float(d.rate[c])).logpmf(x),
        "Exponential": lambda d, c: stats.expon(scale=1 / float(d.rate[c])).logpdf(x),
    }[type(distribution).__name__]
    parts = np.array([made(distribution, c) for c in range(3)])
    np.testing.assert_allclose(parts.sum(), distribution.log_prob(np.full(3, x)), rtol=1e-10)
    return parts


def test_gaps_in_training_are_in_no_statistic():
    X = _MIXED.copy()
    X[::3, 0] = np.nan
    X[1::4, 2] = np.nan
    model = fit_naive_bayes(X, _Y, _FAMILIES)
    for c in range(3):
        own = X[(c == _Y) & ~np.isnan(X[:, 0]), 0]
        np.testing.assert_allclose(model.conditional(0).loc[c], own.mean(), rtol=1e-13)
        np.testing.assert_allclose(model.conditional(0).scale[c], own.std(), rtol=1e-12)
        counts = np.bincount(X[(c == _Y) & ~np.isnan(X[:, 2]), 2].astype(int), minlength=4)
        np.testing.assert_allclose(
            model.conditional(2).probs[c], (counts + 1) / (counts.sum() + 4), rtol=1e-13
        )


def test_a_stream_and_weights_add_up_to_one_fit():
    whole = fit_naive_bayes(_MIXED, _Y, _FAMILIES)
    parts = fit_naive_bayes(_MIXED[:20], _Y[:20], _FAMILIES, num_classes=3)
    for start in range(20, 150, 13):
        parts = parts.update(_MIXED[start : start + 13], _Y[start : start + 13])
    np.testing.assert_allclose(parts.log_joint(_MIXED), whole.log_joint(_MIXED), rtol=1e-10)
    counts = _RNG.integers(0, 3, 150)
    weighted = fit_naive_bayes(_MIXED, _Y, _FAMILIES, weights=counts)
    repeated = fit_naive_bayes(np.repeat(_MIXED, counts, 0), np.repeat(_Y, counts), _FAMILIES)
    np.testing.assert_allclose(weighted.posterior(_MIXED), repeated.posterior(_MIXED), rtol=1e-9)


def test_new_categories_may_appear_in_a_stream():
    first = fit_naive_bayes([[0], [1]], [0, 1], "categorical")
    grown = first.update([[4], [2]], [0, 1])
    together = fit_naive_bayes([[0], [1], [4], [2]], [0, 1, 0, 1], "categorical")
    np.testing.assert_allclose(grown.posterior([[4], [3]]), together.posterior([[4], [3]]), rtol=1e-14)
    with pytest.raises(ValueError, match="below the number of categories of its column; got 5 in column 0"):
        grown.posterior([[5]])


def test_congressional_votes_mle_is_exactly_zero_and_smoothing_restores_it():
    generator = np.random.default_rng(1)
    party = np.repeat([0, 1], 40)  # 0 Republican, 1 Democrat
    lines = np.where(party[:, None] == 0, 0.9, 0.1)
    votes = (generator.random((80, 10)) < lines).astype(float)
    votes[party == 0, 9] = 0  # on the last bill every Republican said no
    votes[party == 1, 9] = generator.random(40) < 0.5
    maverick = np.r_[np.ones(9), 1.0][None]
    mle = fit_naive_bayes(votes, party, "bernoulli", smoothing=0.0)
    assert mle.posterior(maverick)[0, 0] == 0.0
    assert mle.predict(maverick)[0] == 1
    smoothed = fit_naive_bayes(votes, party, "bernoulli", smoothing=1.0)
    assert smoothed.posterior(maverick)[0, 0] > 0.9
    assert smoothed.predict(maverick)[0] == 0


def test_bag_of_words_documents():
    words = ["ball", "goal", "team", "vote", "law", "party"]
    sport = ["ball goal team ball", "team goal goal", "party ball team"]
    politics = ["vote law party", "law law vote", "party vote team"]
    counts = np.array([[d.split().count(w) for w in words] for d in sport + politics], float)
    y = np.array([0, 0, 0, 1, 1, 1])
    model = fit_naive_bayes(counts, y, "multinomial")
    by_hand = (counts[:3].sum(0) + 1) / (counts[:3].sum() + 6)
    np.testing.assert_allclose(model.conditional(0).probs[0], by_hand, rtol=1e-13)
    new = np.array([[d.split().count(w) for w in words] for d in ["goal goal", "law party"]], float)
    assert model.predict(new).tolist() == [0, 1]
    exact = stats.multinomial(4, by_hand).logpmf([2, 1, 1, 0, 0, 0]) + np.log(0.5)
    assert model.log_joint(counts[:1])[0, 0] == pytest.approx(exact, rel=1e-12)
    hidden = counts[:1].copy()
    hidden[0, 0] = np.nan  # the others given their sum are multinomial again
    rest = stats.multinomial(2, by_hand[1:] / by_hand[1:].sum()).logpmf([1, 1, 0, 0, 0])
    assert model.log_joint(hidden)[0, 0] == pytest.approx(rest + np.log(0.5), rel=1e-12)


def test_log_odds_and_threshold():
    X, y = _MIXED[_Y < 2][:, :1], _Y[_Y < 2]
    model = fit_naive_bayes(X, y)
    p = model.posterior(X)
    np.testing.assert_allclose(model.log_odds(X), np.log(p[:, 0] / p[:, 1]), rtol=1e-9, atol=1e-10)
    np.testing.assert_array_equal(model.decide(X), np.where(p[:, 0] > p[:, 1], 0, 1))
    np.testing.assert_array_equal(model.decide(X, 4.0), np.where(p[:, 0] > 0.8, 0, 1))
    with pytest.raises(ValueError, match="must be of two classes; got 3 classes"):
        fit_naive_bayes(_MIXED[:, :1], _Y).decide(_MIXED[:, :1])


@pytest.mark.parametrize(("columns", "families", "peer"), [
    ((0, 4), "gaussian", GaussianNB(var_smoothing=0.0)),
    ((1,), "bernoulli", BernoulliNB()),
    ((1, 2), "categorical", CategoricalNB()),
    ((1, 2, 3), "multinomial", MultinomialNB()),
])  # fmt: skip
def test_agrees_with_scikit_learn(columns, families, peer):
    X = _MIXED[:, columns]
    weights = _RNG.uniform(0.5, 2.0, 150)
    peer.fit(X, _Y, sample_weight=weights)
    model = fit_naive_bayes(X, _Y, families, weights=weights)
    np.testing.assert_allclose(model.posterior(X), peer.predict_proba(X), rtol=1e-10, atol=1e-12)


def test_predictive_columns_are_those_of_the_conjugate_prior():
    x, strength = _MIXED[:40, 0], 2.0
    model = fit_naive_bayes(x[:, None], np.zeros(40, int), GaussianColumns(prior_strength=strength))
    variance = x.var()
    prior = NormalGamma(x.mean(), strength, strength / 2, strength * variance / 2)
    t = predictive(posterior(prior, Normal, jnp.asarray(x)), Normal)
    for new in (-1.0, 0.3, 9.0):
        assert model.log_prob([[new]])[0] == pytest.approx(float(t.log_prob(new)), rel=1e-10)
    near = model.conditional(0)
    assert float(near.degrees[0]) == 42.0


def test_any_exponential_family_fits_by_its_statistics():
    x = np.abs(_MIXED[:60, :1]) + 0.1
    y = _Y[:60] % 2
    model = fit_naive_bayes(x, y, Exponential(1.0))
    np.testing.assert_allclose(model.conditional(0).rate, [1 / x[y == c].mean() for c in (0, 1)], rtol=1e-12)
    pulled = fit_naive_bayes(x, y, FamilyColumns(Exponential(1.0), smoothing=5.0))
    means = [(x[y == c].sum() + 5 * x.mean()) / ((y == c).sum() + 5) for c in (0, 1)]
    np.testing.assert_allclose(pulled.conditional(0).rate, 1 / np.array(means), rtol=1e-12)
    assert np.isfinite(fit_naive_bayes(x, y, Gamma(1.0, 1.0)).posterior(x)).all()
    with pytest.raises(ValueError, match="got -1 in column 0, row 0"):
        model.posterior([[-1.0]])


def test_draws_have_the_moments_of_the_model():
    assert_draws_have_the_moments(fit_naive_bayes(_MIXED[:, :3], _Y, _FAMILIES[:3]))


@pytest.mark.slow
def test_draws_of_all_families_have_the_moments_of_the_model():
    assert_draws_have_the_moments(fit_naive_bayes(_MIXED, _Y, _FAMILIES))
    blocks = fit_naive_bayes(_MIXED[:, 1:4], _Y, MultinomialColumns())
    rows, _ = blocks.sample(jr.key(4), 50)
    assert set(rows.sum(1)) <= set(np.rint(blocks.blocks[0].parameters[1][:, 0]))


def assert_draws_have_the_moments(model):
    X, y = model.sample(jr.key(3), 4000)
    shares = np.bincount(y) / 4000
    assert (np.abs(shares - model.class_probs) <= 5 * np.sqrt(model.class_probs / 4000)).all()
    own = y == 1
    for column in range(X.shape[1]):
        d = model.conditional(column)
        mean, std = float(d.mean[1]), float(d.std[1])
        assert abs(X[own, column].mean() - mean) <= 5 * std / np.sqrt(own.sum())


@given(st.integers(-12, 12), st.floats(-5, 5))
def test_posteriors_do_not_depend_on_units(power, shift):
    table = iris()
    model = fit_naive_bayes(table.features, table.target)
    moved = fit_naive_bayes((table.features + shift) * 10.0**power, table.target)
    expected, found = model.posterior(table.features), moved.posterior((table.features + shift) * 10.0**power)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-12)


def test_constant_columns_cancel_and_large_offsets_cost_no_digits():
    X, y = iris().features, iris().target
    expected = fit_naive_bayes(X, y).posterior(X)
    constant = np.c_[X, np.full(len(X), 0.1)]
    np.testing.assert_allclose(fit_naive_bayes(constant, y).posterior(constant), expected, rtol=1e-12)
    np.testing.assert_allclose(fit_naive_bayes(X + 1e8, y).posterior(X + 1e8), expected, rtol=1e-4, atol=1e-6)
    within = np.c_[X, y]  # constant in each class: the floor keeps the variance positive
    assert (fit_naive_bayes(within, y).predict(within) == y).all()
    absent = np.c_[X, np.full(len(X), np.nan)]
    np.testing.assert_allclose(fit_naive_bayes(absent, y).posterior(constant), expected, rtol=1e-12)


def test_impossible_rows_are_an_error_by_row():
    model = fit_naive_bayes([[1.0], [1.0], [1.0]], [0, 1, 1], "bernoulli", smoothing=0.0)
    assert np.isneginf(model.log_joint([[0.0]])).all()
    with pytest.raises(ImpossibleEvidence, match=r"got row 1\. Smooth the counts"):
        model.posterior([[1.0], [0.0]])


@pytest.mark.parametrize(("X", "y", "options", "message"), [
    ([[2.0]], [0], {"families": "bernoulli"}, "`X` must be 0 or 1; got 2 in column 0, row 0"),
    ([[0.5]], [0], {"families": "categorical"}, "a code 0, 1, 2, ...; got 0.5 in column 0"),
    ([[-1.0]], [0], {"families": "poisson"}, "a count 0, 1, 2, ...; got -1 in column 0"),
    ([[np.nan, 1.0]], [0], {"families": "multinomial"}, "without missing counts; got NaN in column 0"),
    ([[np.inf]], [0], {}, "finite, or NaN where missing; got infinity"),
    ([[1.0]], [-1], {}, "`y` must be codes 0, 1, ... of classes, from 0"),
    ([[1.0]], [0, 1], {}, "`y` must be as long as `X`"),
    ([[1.0]], [0], {"weights": [0.0]}, "`weights` must be positive for at least one row"),
    ([[1.0]], [0], {"families": "cauchy"}, "`families` must be one of 'gaussian'"),
    ([[1.0]], [0], {"families": ["gaussian"] * 2}, "`families` must be one per column"),
    ([[1.0]], [0], {"class_probs": [0.4]}, "`class_probs` must be 1 probabilities that sum to 1"),
])  # fmt: skip
def test_bad_input_is_named(X, y, options, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        fit_naive_bayes(X, y, **options)


def test_models_are_stored(tmp_path):
    model = fit_naive_bayes(
        _MIXED, _Y, {0: "gaussian", (1,): BernoulliColumns(), 2: CategoricalColumns(), 3: PoissonColumns()}
    )
    storage.save(tmp_path / "model", model)
    again = storage.load(tmp_path / "model")
    np.testing.assert_array_equal(again.posterior(_MIXED), model.posterior(_MIXED))
    assert repr(again) == repr(model)
    assert "families       ('2 gaussian', '1 bernoulli', '1 categorical', '1 poisson')" in repr(model)
    assert repr(model).endswith("Every class has rows.")
