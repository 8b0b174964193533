"""Pictures of clusters: what is drawn is what was fitted."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import tractable as tr
from tractable.estimators import KMeans as Estimator
from tractable.latent import KMeans, choose_num_clusters


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def test_cells_cost_and_numbers():
    numbers = np.random.default_rng(0)
    X = np.concatenate([numbers.normal(8 * j, 1, size=(30, 2)) for j in range(3)])
    fitted = KMeans.fit(X, 3, key=0)
    ax = tr.plot(fitted, X)
    np.testing.assert_allclose(ax.collections[1].get_offsets(), fitted.model.centres)
    assert len(ax.images) == 1
    curve = tr.plot(fitted, kind="cost").lines[0].get_ydata()
    np.testing.assert_allclose(curve, fitted.trace)
    wide = np.column_stack([X, X])
    estimator = Estimator(3, random_state=0).fit(wide)
    assert len(tr.plot(estimator, wide, columns=(1, 2)).images) == 0
    assert len(tr.plot(estimator, kind="cost").lines) == 1
    found = choose_num_clusters(X, range(1, 5), key=0, num_references=2, num_starts=1)
    ax = tr.plot(found)
    assert [text.get_text() for text in ax.get_legend().get_texts()][1] == "silhouette: 3"
    with pytest.raises(ValueError, match="`X` must be a table with at least two columns"):
        tr.plot(fitted, X[:, 0])
