"""Pictures of trees say what the trees say."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from tractable.estimators.forests import ForestClassifier
from tractable.estimators.trees import TreeClassifier, TreeRegressor
from tractable.plots.trees import ImportanceDisplay, TreeDisplay

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(120, 3))
LABELS = np.where(ROWS[:, 1] > 0.5, "high", "low")


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def test_every_node_is_drawn_with_its_question():
    found = TreeClassifier().fit([[0.0], [1.0], [2.0], [3.0]], ["a", "b", "b", "a"])
    shown = TreeDisplay.from_estimator(found, feature_names=["size"])
    words = {text.get_gid(): text.get_text() for text in shown.ax_.texts}
    assert len(words) == len(found.model_.left) == 5
    assert words["node 0"] == f"size <= {found.model_.threshold[0]:.4g}\na 50%\n4 rows"
    boxes = {text.get_gid(): text.get_position() for text in shown.ax_.texts}
    left, right = f"node {found.model_.left[0]}", f"node {found.model_.right[0]}"
    assert boxes[left][0] < boxes["node 0"][0] < boxes[right][0]
    assert shown.figure_ is shown.ax_.figure


def test_deep_branches_end_in_dots_and_numbers_have_means():
    found = TreeRegressor().fit(ROWS, ROWS[:, 0])
    ax = plt.subplots()[1]
    shown = TreeDisplay.from_model(found.model_, max_depth=1, ax=ax)
    assert shown.ax_ is ax
    assert sum(text.get_text().endswith("...") for text in ax.texts) == 2
    assert "mean" in ax.texts[0].get_text()


def test_importance_is_in_order():
    forest = ForestClassifier(10, random_state=0).fit(ROWS, LABELS)
    shown = ImportanceDisplay.from_estimator(forest)
    widths = [bar.get_width() for bar in shown.ax_.patches]
    np.testing.assert_allclose(widths, np.sort(forest.feature_importances_))
    assert shown.ax_.get_yticklabels()[-1].get_text() == "x1"
    with pytest.raises(ValueError, match="`names` must be as many as columns"):
        ImportanceDisplay(np.ones(3), names=["a"])
