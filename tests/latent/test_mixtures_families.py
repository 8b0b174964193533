"""Mixtures of other families, the variational mixture and the estimators: closed forms, loops, peers."""

import itertools

import jax.random as jr
import numpy as np
import pytest
from scipy.stats import multinomial, multivariate_t
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture as Peer

from tractable.distributions import Bernoulli, Mixture
from tractable.estimators import BayesianGaussianMixture
from tractable.estimators import GaussianMixture as Estimator
from tractable.inference.expectation_maximisation.em import EM
from tractable.inference.expectation_maximisation.labels import HardEM, MonteCarloEM, StochasticEM
from tractable.latent.mixtures.discrete import DiscreteMixture
from tractable.latent.mixtures.gaussian import GaussianMixture
from tractable.latent.mixtures.regressions import MixtureOfExperts
from tractable.latent.mixtures.student import StudentMixture


def blobs(seed: int = 0, count: int = 150) -> np.ndarray:
    numbers = np.random.default_rng(seed)
    centres = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])
    return centres[numbers.integers(3, size=count)] + numbers.normal(size=(count, 2))


def climbs(run) -> bool:
    return bool(np.diff(run.values).min() > -1e-9 * abs(run.values[-1]))


def in_parts(model, rows, size: int) -> bool:
    """Whether chunks give the evidence that rows in memory give."""
    whole, parts = (
        EM(tol=0.0, max_steps=4).fit(model, rows),
        EM(tol=0.0, max_steps=4).fit(model, rows, chunk=size),
    )
    return bool(np.allclose(whole.values, parts.values, rtol=1e-11))


@pytest.mark.thorough
def test_student_mixtures_have_the_density_of_scipy_and_hold_outliers_off():
    X = np.vstack([blobs(), [[60.0, 60.0]]])
    start = StudentMixture.from_rows(jr.key(0), X, 3)
    shapes = zip(start.means, start.gaussian.covariances, np.asarray(start.degrees))
    each = [multivariate_t(m, c, df).logpdf(X) for m, c, df in shapes]
    np.testing.assert_allclose(start.log_joint(X), np.log(start.weights) + np.array(each).T, rtol=1e-10)
    run = EM(max_steps=100).fit(start, X)
    assert climbs(run)
    assert in_parts(start, X, 40)
    assert run.state.row_scales(X)[-1] < 0.1
    assert np.median(run.state.row_scales(X)) > 0.7
    truth = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])
    away = np.linalg.norm(np.asarray(run.state.means)[:, None] - truth, axis=-1).min(1)
    assert away.max() < 0.6
    fixed = EM(max_steps=5).fit(StudentMixture.from_rows(jr.key(0), X, 3, degrees=4.0, fixed_degrees=True), X)
    assert np.asarray(fixed.state.degrees).tolist() == [4.0] * 3
    assert run.state.sample(jr.key(1), (3,)).shape == (3, 2)


@pytest.mark.thorough
def test_student_degrees_recover_one_t():
    numbers = np.random.default_rng(0)
    X = numbers.standard_t(3.0, size=(4000, 1))
    run = EM(max_steps=300).fit(
        StudentMixture(GaussianMixture([1.0], [[0.0]], np.ones((1, 1, 1))), [10.0]), X
    )
    assert float(run.state.degrees[0]) == pytest.approx(3.0, abs=0.45)  # about 3 standard errors
    many = EM(max_steps=300).fit(StudentMixture(GaussianMixture([1.0], [[0.0]], np.ones((1, 1, 1))), [10.0]),
                                 numbers.normal(size=(500, 1)))  # fmt: skip
    assert float(many.state.degrees[0]) > 10


def test_bernoulli_mixture_is_the_library_mixture():
    numbers = np.random.default_rng(0)
    X = (numbers.random((60, 4)) < np.where(numbers.random(60)[:, None] < 0.4, 0.9, 0.2)).astype(float)
    start = DiscreteMixture.from_rows(jr.key(0), X, 2, "bernoulli")
    same = Mixture(start.weights, Bernoulli(start.probs))
    np.testing.assert_allclose(start.log_prob(X), same.log_prob(X), rtol=1e-10)
    ours, theirs = EM(tol=0.0, max_steps=5).fit(start, X), EM(tol=0.0, max_steps=5).fit(same, X)
    np.testing.assert_allclose(ours.values, theirs.values, rtol=1e-10)
    run = EM().fit(start, X)
    assert climbs(run)
    assert in_parts(start, X, 16)
    gaps = X.copy()
    gaps[::2, 1] = np.nan
    both = [np.where(np.isnan(gaps), value, gaps) for value in (0.0, 1.0)]
    expected = np.logaddexp(start.log_prob(both[0]), start.log_prob(both[1]))
    found = start.log_prob(gaps)
    np.testing.assert_allclose(found[::2], expected[::2], rtol=1e-10)
    assert climbs(EM().fit(start, gaps))


def test_categorical_and_multinomial_mixtures():
    numbers = np.random.default_rng(1)
    codes = np.column_stack([numbers.integers(3, size=80), numbers.integers(2, size=80)]).astype(float)
    start = DiscreteMixture.from_rows(jr.key(0), codes, 2, "categorical", smoothing=0.5)
    total = np.logaddexp.reduce(start.log_prob(np.array(list(itertools.product(range(3), range(2))), float)))
    assert total == pytest.approx(0.0, abs=1e-12)
    run = EM(max_steps=300).fit(start, codes)
    assert climbs(run)
    np.testing.assert_allclose(np.asarray(run.state.probs)[:, :3].sum(1), 1.0)
    shares = numbers.dirichlet(np.ones(5), size=2)
    counts = np.array(
        [numbers.multinomial(numbers.integers(20, 60), shares[i % 2]) for i in range(100)], float
    )
    words = DiscreteMixture.from_rows(jr.key(2), counts, 2, "multinomial", smoothing=0.1)
    exact = [multinomial(counts[0].sum(), p / p.sum()).logpmf(counts[0]) for p in np.asarray(words.probs)]
    np.testing.assert_allclose(words.log_joint(counts[:1])[0], np.log(0.5) + np.array(exact), rtol=1e-9)
    fitted = EM().fit(words, counts).state
    labels = fitted.labels(counts)
    assert max((labels == np.arange(100) % 2).mean(), (labels != np.arange(100) % 2).mean()) > 0.95
    assert in_parts(words, counts, 32)


@pytest.mark.cheap
@pytest.mark.parametrize(
    ("family", "rows", "words"),
    [
        ("bernoulli", [[0.0, 2.0]], "0, 1"),
        ("categorical", [[0.5]], "codes"),
        ("categorical", [[np.inf]], "codes"),
        ("categorical", [[np.nan, 1.0]], "nothing in columns .0."),
        ("multinomial", [[-1.0]], "counts"),
    ],
)
def test_discrete_rows_are_checked(family, rows, words):
    with pytest.raises(ValueError, match=words):
        DiscreteMixture.from_rows(jr.key(0), np.array(rows * 3), 2, family)


def test_new_rows_of_a_discrete_mixture_are_checked_too():
    """A code of -1 would else be the last code of the column before."""
    model = DiscreteMixture("categorical", [1.0], [[0.2, 0.8, 0.5, 0.5]], (2, 2))
    with pytest.raises(ValueError, match="codes"):
        model.log_prob([[0.0, -1.0]])


def lines(seed: int = 0, count: int = 300):
    numbers = np.random.default_rng(seed)
    x = numbers.uniform(-3, 3, (count, 1))
    right = numbers.random(count) < 1 / (1 + np.exp(-3 * x[:, 0]))
    y = np.where(right, 1 + 2 * x[:, 0], -1 - x[:, 0]) + 0.2 * numbers.normal(size=count)
    return (x, y), right


@pytest.mark.thorough
def test_mixtures_of_experts_and_of_regressions():
    rows, right = lines()
    start = MixtureOfExperts.from_rows(jr.key(3), rows, 2)
    run = EM(max_steps=1000).fit(start, rows)
    assert climbs(run)
    order = np.argsort(np.asarray(run.state.coefficients)[:, 1])
    np.testing.assert_allclose(np.asarray(run.state.coefficients)[order], [[-1, -1], [1, 2]], atol=0.1)
    gate = np.asarray(run.state.gate)[order]
    assert gate[1, 1] - gate[0, 1] == pytest.approx(3.0, abs=1.0)
    shares = run.state.responsibilities(rows)[:, order[1]]
    assert ((shares > 0.5) == right).mean() > 0.9
    blind = MixtureOfExperts.from_rows(jr.key(1), rows, 2, gated=False)
    fits = [
        EM(max_steps=300).fit(MixtureOfExperts.from_rows(jr.key(s), rows, 2, gated=False), rows)
        for s in range(6)
    ]
    best = max(fits, key=lambda fit: fit.values[-1])
    assert all(climbs(fit) for fit in fits)
    assert best.values[-1] < run.values[-1] - 50  # the gate is worth something here
    assert in_parts(blind, rows, 64)
    assert in_parts(start, rows, 64)
    weights = np.arange(300) % 2 + 1.0
    twice = tuple(np.concatenate([part, part[1::2]]) for part in rows)
    a = EM(tol=0.0, max_steps=4).fit(start, rows, weights=weights)
    np.testing.assert_allclose(a.values, EM(tol=0.0, max_steps=4).fit(start, twice).values, rtol=1e-11)


def test_units_of_the_inputs_change_nothing():
    (X, y), _ = lines(1, 80)
    small, large = (
        EM(tol=0.0, max_steps=5).fit(MixtureOfExperts.from_rows(jr.key(0), (unit * X, y), 2), (unit * X, y))
        for unit in (1.0, 1e12)
    )
    np.testing.assert_allclose(large.values, small.values, rtol=1e-9)
    for found, wanted in (
        (large.state.coefficients, small.state.coefficients), (large.state.gate, small.state.gate)
    ):  # fmt: skip
        np.testing.assert_allclose(np.asarray(found) * np.array([1.0, 1e12]), wanted, rtol=1e-7)


def test_one_expert_is_least_squares():
    rows, _ = lines(1, 80)
    run = EM(max_steps=3).fit(MixtureOfExperts.from_rows(jr.key(0), rows, 1), rows)
    design = np.column_stack([np.ones(80), rows[0]])
    np.testing.assert_allclose(
        run.state.coefficients[0], np.linalg.lstsq(design, rows[1], rcond=None)[0], rtol=1e-9
    )
    assert run.state.predict(rows[0]) == pytest.approx(design @ np.asarray(run.state.coefficients[0]))


def test_the_estimator_answers_like_scikit_learn():
    X = blobs(2)
    ours, peer = (
        Estimator(3, random_state=0, tol=1e-10).fit(X),
        Peer(3, random_state=0, tol=1e-10, reg_covar=0, max_iter=500).fit(X),
    )
    assert ours.score(X) == pytest.approx(peer.score(X), abs=1e-6)
    assert ours.bic(X) == pytest.approx(peer.bic(X), rel=1e-6)
    assert ours.aic(X) == pytest.approx(peer.aic(X), rel=1e-6)
    order = np.linalg.norm(ours.means_[:, None] - peer.means_, axis=-1).argmin(0)
    np.testing.assert_allclose(ours.predict_proba(X)[:, order], peer.predict_proba(X), atol=1e-3)
    assert (ours.predict(X) == ours.labels_).all()
    assert ours.converged_
    assert ours.lower_bound_ == pytest.approx(peer.lower_bound_, abs=1e-6)
    draws, labels = ours.sample(500)
    assert (np.diff(labels) >= 0).all()
    assert np.abs(draws.mean(0) - X.mean(0)).max() < 0.8
    gaps = X.copy()
    gaps[::5, 0] = np.nan
    with_gaps = Estimator(3, random_state=0).fit(gaps)
    assert with_gaps.impute(gaps)[~np.isnan(gaps)].tolist() == gaps[~np.isnan(gaps)].tolist()
    assert np.abs(with_gaps.means_[:, None] - ours.means_).sum(-1).min(1).max() < 0.8


def test_the_estimator_warns_where_the_floor_acted():
    with pytest.warns(ConvergenceWarning, match="floor"):
        found = Estimator(3, random_state=0).fit(np.repeat(blobs(3, 2), 10, axis=0))
    assert not found.verdict_.ok


def test_the_variational_mixture_finds_the_number_of_components():
    X = blobs(4)
    found = BayesianGaussianMixture(random_state=0).fit(X)
    assert found.n_active_ == 3
    assert found.converged_
    truth = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])
    assert np.linalg.norm(found.means_[:3, None] - truth, axis=-1).min(1).max() < 0.6
    np.testing.assert_allclose(
        found.score_samples(X[:5]), [float(found.model_.predictive().log_prob(x)) for x in X[:5]], rtol=1e-9
    )
    assert set(found.labels_.tolist()) == {0, 1, 2}
    draws, _ = found.sample(200)
    assert np.isfinite(draws).all()


def test_directions_in_which_nothing_varies_are_said_to_decide_the_number_of_components():
    X = blobs(4)
    still = BayesianGaussianMixture(3, random_state=0).fit(np.column_stack([X, np.full(len(X), 7.0)]))
    assert still.verdict_.numbers["constant"] == (2,)
    twice = BayesianGaussianMixture(3, random_state=0).fit(np.column_stack([X, X[:, 0] - X[:, 1]]))
    assert twice.verdict_.numbers["dependent"]
    few = BayesianGaussianMixture(3, random_state=0).fit(X[:2])
    assert [each.verdict_.ok for each in (still, twice, few)] == [False] * 3


def test_hard_and_sampled_labels_stay_near_the_maximum_of_em():
    X = blobs()
    start = GaussianMixture.from_rows(jr.key(0), X, 3)
    best = EM(tol=1e-12).fit(start, X).values[-1]
    hard = HardEM().fit(start, X).state
    assert best - 1.0 < hard.log_evidence(X) <= best + 1e-9
    one, many = (each.fit(start, X, key=jr.key(1)) for each in (StochasticEM(40), MonteCarloEM(40, 200)))
    late_one, late_many = (np.asarray(run.trace.log_evidence)[-20:].mean() for run in (one, many))
    assert late_one <= late_many <= best + 1e-9  # two hundred draws are nearly the shares themselves
    assert best - late_many < 0.05
    assert best - late_one < 3.0
    np.testing.assert_allclose(np.asarray(one.trace.counts).sum(1), len(X))
