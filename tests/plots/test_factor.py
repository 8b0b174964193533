"""Pictures of factors draw the numbers of the fit."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import tractable as tr
from tractable.estimators import PCA, FactorAnalysis
from tractable.latent.factor.dimension import dimension_evidence
from tractable.latent.factor.principal import PrincipalComponents
from tractable.latent.factor.probabilistic import ProbabilisticPCA

X = np.random.default_rng(0).normal(size=(40, 4)) * [3.0, 2.0, 1.0, 1.0]
FOUND = PrincipalComponents.fit(X, 3)


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def test_scree_has_each_share_and_their_sums():
    ax = tr.plot(FOUND)
    np.testing.assert_allclose([bar.get_height() for bar in ax.patches], FOUND.explained_ratio)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), np.cumsum(FOUND.explained_ratio))
    assert tr.plot(PCA(3).fit(X)).get_xlabel() == "component"


def test_loadings_and_biplots_name_columns():
    frame = pd.DataFrame(X, columns=list("abcd"))
    fitted = FactorAnalysis(2).fit(frame)
    ax = tr.plot(fitted)
    np.testing.assert_allclose(ax.images[0].get_array(), fitted.components_.T)
    assert [t.get_text() for t in ax.get_yticklabels()] == list("abcd")
    ax = tr.plot(fitted, X, kind="biplot")
    np.testing.assert_allclose(ax.lines[0].get_xdata(), fitted.transform(frame)[:, 0])
    assert {t.get_text() for t in ax.texts} >= set("abcd")
    ax = tr.plot(ProbabilisticPCA.fit(X, 2), X, kind="biplot", names=["p", "q", "r", "s"])
    assert {t.get_text() for t in ax.texts} >= set("pqrs")


def test_axes_reconstruction_and_dimension():
    two = PrincipalComponents.fit(X[:, :2])
    ax = tr.plot(two, X[:, :2], kind="axes")
    assert len(ax.texts) == 2
    with pytest.raises(ValueError, match="rows of two columns"):
        tr.plot(FOUND, X, kind="axes")
    ax = tr.plot(FOUND, X, kind="reconstruction", row=3)
    np.testing.assert_allclose(ax.lines[1].get_ydata(), FOUND.reconstruct(X[3:4])[0])
    evidence = dimension_evidence(X)
    ax = tr.plot(evidence)
    assert ax.lines[0].get_ydata().max() == 0
    assert ax.lines[2].get_xdata()[0] == evidence.best
