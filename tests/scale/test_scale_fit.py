"""Fits of Dask collections by threads: the same numbers as in memory, in chunks and from a stream."""

import dask.array as da
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import load_iris

import tractable as tr
from tractable.core.chunks import chunks
from tractable.core.moments import moments_of
from tractable.distributions import Gaussian, Mixture
from tractable.inference import EM, HardEM, WithPrior
from tractable.supervised.bayes_linear.posterior import bayesian_linear
from tractable.supervised.generative.discriminant import fit_gaussian_discriminant
from tractable.supervised.generative.naive_bayes import fit_naive_bayes
from tractable.supervised.linear.least_squares import ordinary_least_squares
from tractable.supervised.linear.ridge import ridge
from tractable.supervised.logistic.binary import fit_logistic
from tractable.supervised.logistic.separation import SeparatedDataError
from tractable.supervised.logistic.softmax import fit_softmax

RNG = np.random.default_rng(1)
BLOBS = np.concatenate([RNG.normal(size=(400, 2)), RNG.normal([3.0, 1.0], size=(301, 2))])
RNG.shuffle(BLOBS)
START = Mixture([0.5, 0.5], Gaussian(jnp.array([[0.0, 1.0], [2.0, 0.0]]), jnp.stack([jnp.eye(2)] * 2)))
IRIS, SPECIES = load_iris(return_X_y=True)
IRIS, SPECIES = IRIS[ORDER := RNG.permutation(150)], SPECIES[ORDER]
WEIGHTS = RNG.integers(0, 3, 150).astype(float)


def _cut(*arrays, rows=37):
    found = tuple(da.from_array(a, chunks=(rows, *a.shape[1:])) for a in arrays)
    return found if len(found) > 1 else found[0]


def test_memory_chunks_stream_and_partitions_are_one_fit():
    memory = EM().fit(START, BLOBS)
    pieces = EM().fit(START, BLOBS, chunk=128)
    stream = EM().fit(START, chunks(lambda: iter(np.array_split(BLOBS, 9)), 128))
    spread = tr.scale.fit(START, _cut(BLOBS, rows=100), EM(), chunk=128)
    assert spread.status is memory.status is tr.core.Status.converged
    for other in (pieces, stream, spread):
        np.testing.assert_allclose(other.values, memory.values, rtol=1e-9)
        means = other.state.components.mean, memory.state.components.mean
        np.testing.assert_allclose(*means, rtol=1e-9)
    assert spread.place == "the threads of this process"
    assert spread.num_partitions == 8
    assert "the threads of this process" in repr(spread)


def test_sequences_of_hidden_markov_models_in_partitions():
    """Bags of sequences of any lengths, delayed blocks and padded arrays give the fit in memory."""
    import dask
    import dask.bag as db

    from tractable.statespace import Gaussians, HiddenMarkov

    rng = np.random.default_rng(2)
    rows = [rng.normal(size=(n, 2)) + 3 * (np.arange(n) % 7 > 3)[:, None] for n in (12, 5, 9, 9, 17, 1, 8)]
    start = HiddenMarkov([0.5, 0.5], [[0.6, 0.4], [0.4, 0.6]], Gaussians([[0, 0], [2, 2.0]], [np.eye(2)] * 2))
    memory = EM(max_steps=3).fit(start, rows)
    bag = db.from_sequence(rows, partition_size=3)
    blocks = [dask.delayed(rows[:4]), dask.delayed(rows[4:])]
    for sequences in (bag, blocks):
        spread = tr.scale.fit(start, sequences, EM(max_steps=3))
        np.testing.assert_allclose(spread.values, memory.values, rtol=1e-11)
        np.testing.assert_allclose(spread.state.transition, memory.state.transition, rtol=1e-10)
        np.testing.assert_allclose(spread.state.emissions.means, memory.state.emissions.means, rtol=1e-10)
    symbols = [[0, 1, 1], [1, 0, 0, 1], [0], [1, 1, 0, 0]]
    letters = HiddenMarkov([0.5, 0.5], [[0.6, 0.4], [0.4, 0.6]], [[0.7, 0.3], [0.2, 0.8]])
    twice = EM(max_steps=4).fit(letters, symbols, weights=[1.0, 2.0, 0.0, 1.0])
    weights = db.from_sequence([1.0, 2.0, 0.0, 1.0], partition_size=2)
    there = tr.scale.fit(
        letters, db.from_sequence(symbols, partition_size=2), EM(max_steps=4), weights=weights
    )
    np.testing.assert_allclose(there.values, twice.values, rtol=1e-11)


def test_weights_count_rows():
    weights = RNG.integers(0, 3, len(BLOBS))
    doubled = tr.scale.fit(START, _cut(np.repeat(BLOBS, weights, axis=0)), EM(max_steps=5))
    weighted = tr.scale.fit(START, _cut(BLOBS), EM(max_steps=5), weights=_cut(weights.astype(float)))
    np.testing.assert_allclose(weighted.values, doubled.values, rtol=1e-12)


def test_priors_come_along_and_rows_that_are_here_are_fitted_here():
    pseudo = START.e_step(jnp.asarray(BLOBS[:10]), jnp.ones(10))[0]
    prior = WithPrior(START, pseudo)
    here = tr.scale.fit(prior, BLOBS, EM(max_steps=4), chunk=128)
    there = tr.scale.fit(prior, _cut(BLOBS), EM(max_steps=4), chunk=128)
    np.testing.assert_allclose(there.values, here.values, rtol=1e-12)
    assert here.place == "this process, in chunks"


def test_a_checkpoint_goes_on_where_it_stopped(tmp_path):
    rows = _cut(BLOBS)
    whole = tr.scale.fit(START, rows, EM(max_steps=9), checkpoint=tmp_path / "a")
    again = tr.scale.fit(START, rows, EM(max_steps=9), checkpoint=tmp_path / "a")
    np.testing.assert_array_equal(again.values, whole.values)
    other = Mixture([0.4, 0.6], START.components)
    with pytest.raises(ValueError, match="a checkpoint of this run"):
        tr.scale.fit(other, rows, EM(max_steps=9), checkpoint=tmp_path / "a")


def test_naive_bayes_of_every_family_in_one_pass():
    X = np.column_stack([IRIS[:, 0], IRIS[:, 1:3].round(), IRIS[:, 3] > 1])
    families = ["gaussian", "poisson", "categorical", "bernoulli"]
    here = fit_naive_bayes(X, SPECIES, families, weights=WEIGHTS)
    there = tr.scale.fit(fit_naive_bayes, _cut(X, SPECIES), weights=_cut(WEIGHTS), families=families).state
    np.testing.assert_allclose(there.class_probs, here.class_probs, rtol=1e-13)
    np.testing.assert_allclose(there.posterior(X), here.posterior(X), rtol=1e-9, atol=1e-300)


@pytest.mark.cheap
@pytest.mark.parametrize("options", [{}, {"tied": True}, {"diagonal": True, "shrinkage": 0.1}])
def test_gaussian_classes_in_one_pass(options):
    far = IRIS + 1e6
    here = fit_gaussian_discriminant(far, SPECIES, weights=WEIGHTS, **options)
    there = tr.scale.fit(
        fit_gaussian_discriminant, _cut(far, SPECIES), weights=_cut(WEIGHTS), **options
    ).state
    np.testing.assert_allclose(there.means, here.means, rtol=1e-13)
    np.testing.assert_allclose(there.covs, here.covs, rtol=1e-9, atol=1e-12)


@pytest.mark.cheap
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("penalty", [0.0, 2.5])
def test_linear_models_in_one_pass(penalty, intercept):
    X, y = IRIS[:, :3], IRIS[:, 3]
    here = ridge(X, y, penalty, WEIGHTS, intercept=intercept)
    if not penalty:
        here = ordinary_least_squares(X, y, WEIGHTS, intercept=intercept)
    kind = ridge if penalty else ordinary_least_squares
    options = {"penalty": penalty} if penalty else {}
    found = tr.scale.fit(kind, _cut(X, y), weights=_cut(WEIGHTS), intercept=intercept, **options)
    there = found.state
    for name in ("coefficients", "intercept", "scale", "cov", "degrees", "count", "r_squared"):
        np.testing.assert_allclose(getattr(there, name), getattr(here, name), rtol=1e-9, err_msg=name)
    np.testing.assert_allclose(there.interval(), here.interval(), rtol=1e-9)


@pytest.mark.cheap
@pytest.mark.parametrize("dependent", [False, True])
def test_columns_far_away_and_dependent_columns_of_linear_models(dependent):
    X = np.column_stack([IRIS[:, 0] * 1e-8, IRIS[:, 1] + 1e6, IRIS[:, 2]])
    if dependent:
        X = np.column_stack([IRIS[:, 1], np.ones(150), IRIS[:, 2], 2 * IRIS[:, 2]])
    here = ordinary_least_squares(X, IRIS[:, 3])
    there = tr.scale.fit(ordinary_least_squares, _cut(X, IRIS[:, 3])).state
    np.testing.assert_allclose(there.coefficients, here.coefficients, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(there.scale, here.scale, rtol=1e-9)
    assert int(there.solution.rank) == int(here.solution.rank) == 4 - dependent


def test_bayesian_regression_and_moments_in_one_pass():
    here = bayesian_linear(IRIS[:, :3], IRIS[:, 3], 0.5, 4.0, intercept=True)
    options = {"alpha": 0.5, "noise_precision": 4.0, "intercept": True}
    there = tr.scale.fit(bayesian_linear, _cut(IRIS[:, :3], IRIS[:, 3]), **options).state
    np.testing.assert_allclose(there.mean, here.mean, rtol=1e-11)
    np.testing.assert_allclose(there.log_evidence, here.log_evidence, rtol=1e-12)
    found = tr.scale.fit(moments_of, _cut(IRIS)).state
    np.testing.assert_allclose(found.scatter, moments_of(IRIS).scatter, rtol=1e-12)


@pytest.mark.cheap
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("penalty", [0.0, 3.0])
def test_logistic_regression_by_sums_over_partitions(penalty, intercept):
    X, y = np.column_stack([IRIS[:, :2] * [1.0, 1e6], np.ones(150)]), (SPECIES == 1).astype(int)
    options = {"penalty": penalty, "intercept": intercept}
    here = fit_logistic(X, y, WEIGHTS, **options)
    there = tr.scale.fit(fit_logistic, _cut(X, y), weights=_cut(WEIGHTS), **options)
    for name in ("coefficients", "intercept", "loss", "covariance"):
        np.testing.assert_allclose(getattr(there.state, name), getattr(here, name), rtol=1e-7, atol=1e-12)
    assert there.status is tr.core.Status.converged


def test_softmax_regression_by_sums_over_partitions():
    here = fit_softmax(IRIS, SPECIES, penalty=0.3)
    there = tr.scale.fit(fit_softmax, _cut(IRIS, SPECIES), penalty=0.3).state
    np.testing.assert_allclose(there.coefficients, here.coefficients, rtol=1e-7)
    np.testing.assert_allclose(there.loss, here.loss, rtol=1e-10)


def test_separated_classes_are_an_error_or_a_report():
    X, y = IRIS, (SPECIES == 0).astype(int)
    with pytest.raises(SeparatedDataError, match="must not separate the classes"):
        tr.scale.fit(fit_logistic, _cut(X, y))
    told = tr.scale.fit(fit_logistic, _cut(X, y), separated="report").state
    assert not told.separation.exists
    assert not told.verdict.ok
    with pytest.raises(SeparatedDataError):
        tr.scale.fit(fit_softmax, _cut(IRIS, np.where(SPECIES == 0, 0, SPECIES)))


def test_errors_name_the_partition():
    X = IRIS.copy()
    X[80, 1] = np.nan
    with pytest.raises(ValueError, match=r"In partition 2: .*column 1"):
        tr.scale.fit(ordinary_least_squares, _cut(X, IRIS[:, 3]))
    with pytest.raises(ValueError, match="In partition"):
        tr.scale.fit(fit_logistic, _cut(IRIS, SPECIES))


@pytest.mark.cheap
@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((START, _cut(BLOBS), HardEM()), {}, r"`algorithm` must be `EM\(\)`"),
        ((np.mean, _cut(BLOBS)), {}, "`model` must be one with `e_step`"),
        ((START, _cut(BLOBS)), {"client": 3}, "`client` must be a client"),
    ],
)
def test_what_cannot_be_spread_is_said(arguments, options, words):
    with pytest.raises(TypeError, match=words):
        tr.scale.fit(*arguments, **options)


def test_acceleration_needs_rows_in_memory():
    with pytest.raises(ValueError, match="`accelerate` must be off"):
        tr.scale.fit(START, _cut(BLOBS), EM(accelerate=True))


def test_restarts_and_folds_in_threads():
    from sklearn.model_selection import KFold

    from tractable.supervised.selection.validation import cross_validate

    other = Mixture([0.5, 0.5], Gaussian(jnp.array([[9.0, 9.0], [9.0, 9.0]]), START.components.cov))
    here = tr.inference.best_of([other, START], BLOBS, EM(max_steps=5))
    there = tr.scale.best_of([other, START], BLOBS, EM(max_steps=5))
    np.testing.assert_array_equal(there.values, here.values)
    spread = tr.scale.best_of([other, START], _cut(BLOBS), EM(max_steps=5))
    np.testing.assert_allclose(spread.values, here.values, rtol=1e-12)

    def mean(X, y):
        return lambda new: np.full(len(new), y.mean())

    one, two = (f(mean, IRIS, IRIS[:, 3], KFold(3)) for f in (tr.scale.cross_validate, cross_validate))
    np.testing.assert_array_equal(one.losses, two.losses)
    np.testing.assert_array_equal(one.train_losses, two.train_losses)


def test_topics_of_documents_in_partitions_are_those_of_all_documents():
    corpus = tr.latent.simulate_corpus(60, num_topics=3, num_words=30, key=0).corpus
    start = tr.latent.LatentDirichletAllocation.random(3, corpus.num_words, key=1)
    memory = EM(tol=0.0, max_steps=4).fit(start, corpus.rows)
    spread = tr.scale.fit(start, _cut(*corpus.rows, rows=17), EM(tol=0.0, max_steps=4))
    np.testing.assert_allclose(spread.values, memory.values, rtol=1e-9)
    np.testing.assert_allclose(spread.state.topics, memory.state.topics, rtol=1e-6)
