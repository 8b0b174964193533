"""Estimators given Dask collections: the fit of the same rows in memory, and predictions when asked for."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

from tractable import estimators as es

RNG = np.random.default_rng(5)
IRIS, SPECIES = load_iris(return_X_y=True)
IRIS, SPECIES = IRIS[ORDER := RNG.permutation(150)], SPECIES[ORDER]
NAMES = np.array(["setosa", "versicolor", "virginica"])[SPECIES]
WEIGHTS = RNG.integers(0, 3, 150).astype(float)


def _cut(array, rows=40):
    return da.from_array(array, chunks=(rows, *array.shape[1:]))


CLASSIFIERS = [
    es.GaussianNaiveBayesClassifier(calibrate=False),
    es.LinearDiscriminantClassifier(calibrate=False),
    es.QuadraticDiscriminantClassifier(calibrate=False, shrinkage=0.2),
    es.LogisticClassifier(),
    es.LogisticClassifier(0.1, standardise=False),
    es.GaussianNaiveBayesClassifier(),
]


@pytest.mark.cheap
@pytest.mark.parametrize("made", CLASSIFIERS, ids=lambda e: type(e).__name__)
def test_classifiers_of_collections_are_those_of_the_rows(made):
    from sklearn.base import clone

    here = clone(made).fit(IRIS, NAMES, sample_weight=WEIGHTS)
    there = clone(made).fit(_cut(IRIS), _cut(NAMES), sample_weight=_cut(WEIGHTS))
    np.testing.assert_array_equal(there.classes_, here.classes_)
    lazy = there.predict_proba(_cut(IRIS, 60))
    assert lazy.shape == (150, 3)
    assert lazy.chunks[0] == (60, 60, 30)
    np.testing.assert_allclose(lazy.compute(), here.predict_proba(IRIS), rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(there.predict(_cut(IRIS)).compute(), here.predict(IRIS))
    assert there.fitted_at_ == "the threads of this process"


@pytest.mark.cheap
@pytest.mark.parametrize(
    "made", [es.LinearRegressor(), es.RidgeRegressor(2.0), es.RidgeRegressor(2.0, standardise=False)], ids=str
)
def test_regressors_of_frames_are_those_of_the_rows(made):
    from sklearn.base import clone

    table = pd.DataFrame(IRIS, columns=["a", "b", "c", "d"])
    spread = dd.from_pandas(table, npartitions=4)
    here = clone(made).fit(table[["a", "b", "c"]], table["d"])
    there = clone(made).fit(spread[["a", "b", "c"]], spread["d"])
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-9)
    np.testing.assert_allclose(there.summary(), here.summary(), rtol=1e-9)
    found = there.predict(spread[["a", "b", "c"]]).compute()
    np.testing.assert_allclose(found, here.predict(table[["a", "b", "c"]]), rtol=1e-9)


def test_components_and_factors_of_collections():
    for made in (es.PCA(2), es.PCA(0.9, standardise=True)):
        here, there = made.fit(IRIS).transform(IRIS), made.fit(_cut(IRIS)).transform(_cut(IRIS)).compute()
        np.testing.assert_allclose(there, here, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(es.PCA(2).fit_transform(_cut(IRIS)).compute(), es.PCA(2).fit_transform(IRIS))
    here, there = es.FactorAnalysis(1).fit(IRIS), es.FactorAnalysis(1).fit(_cut(IRIS))
    np.testing.assert_allclose(there.noise_variance_, here.noise_variance_, rtol=1e-6)


def test_clusters_of_collections():
    centres = IRIS[:3]
    here = es.KMeans(3, init=centres, tol=0.0).fit(IRIS)
    there = es.KMeans(3, init=centres, tol=0.0).fit(_cut(IRIS))
    np.testing.assert_allclose(there.inertia_, here.inertia_, rtol=1e-12)
    np.testing.assert_array_equal(there.predict(_cut(IRIS)).compute(), here.labels_)
    drawn = es.KMeans(3, n_init=3, random_state=0)
    labels = drawn.fit_predict(_cut(IRIS))
    assert labels.shape == (150,)
    assert drawn.inertia_ <= here.inertia_ * 1.001
    assert drawn.transform(_cut(IRIS)).shape == (150, 3)


def test_mixtures_of_collections():
    options = {"random_state": 0, "n_init": 2, "tol": 1e-10}
    here, there = es.GaussianMixture(2, **options).fit(IRIS), es.GaussianMixture(2, **options).fit(_cut(IRIS))
    np.testing.assert_allclose(there.lower_bound_, here.lower_bound_, rtol=1e-9)
    np.testing.assert_allclose(there.means_, here.means_, rtol=1e-6)
    found = there.score_samples(_cut(IRIS)).compute()
    np.testing.assert_allclose(found, here.score_samples(IRIS), rtol=1e-6)
    assert there.converged_


def test_estimators_without_additive_statistics_say_so():
    with pytest.raises(TypeError, match=r"in memory for NeighboursClassifier.*compute"):
        es.NeighboursClassifier().fit(_cut(IRIS), _cut(SPECIES))
    with pytest.raises(ValueError, match="'auto' or 'newton' on Dask input"):
        es.LogisticClassifier(solver="lbfgs").fit(_cut(IRIS), _cut(SPECIES))
    with pytest.raises(TypeError, match="must be a Dask array"):
        es.LogisticClassifier().fit(_cut(IRIS), SPECIES)
    with pytest.raises(ValueError, match="`y` must be given"):
        es.LinearRegressor().fit(_cut(IRIS), None)


def test_a_fit_in_memory_after_one_of_a_frame_forgets_the_names():
    table = pd.DataFrame(IRIS, columns=["a", "b", "c", "d"])
    made = es.PCA(1).fit(dd.from_pandas(table, npartitions=2))
    assert made.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    made.fit(_cut(IRIS))
    assert not hasattr(made, "feature_names_in_")
