"""ID3 on the PlayTennis table, and what it does with empty branches and values never seen."""

import numpy as np
import pandas as pd
import pytest

from tests.supervised.test_trees import TENNIS
from tractable.core.storage import load, save
from tractable.supervised.trees.id3 import fit_id3

NAMES = ["outlook", "temperature", "humidity", "wind"]
ROWS, LABELS = [row[:4] for row in TENNIS], [row[4] for row in TENNIS]


def test_play_tennis_has_the_known_tree():
    tree = fit_id3(ROWS, LABELS, names=NAMES)
    assert tree.names[tree.attribute[0]] == "outlook"
    assert tree.rules() == [
        "if outlook = overcast: yes",
        "if outlook = rain and wind = strong: no",
        "if outlook = rain and wind = weak: yes",
        "if outlook = sunny and humidity = high: no",
        "if outlook = sunny and humidity = normal: yes",
    ]
    assert tree.predict(ROWS) == LABELS
    assert tree.predict([["sunny", "cool", "high", "strong"]]) == ["no"]
    assert repr(tree).endswith("5 leaves, root outlook, training error 0.")
    assert tree.text().splitlines()[:3] == [
        "all rows",
        "|-- outlook = overcast  -> yes",
        "|-- outlook = rain",
    ]


def test_values_never_seen_get_the_majority_of_their_node():
    tree = fit_id3(ROWS, LABELS, names=NAMES)
    assert tree.predict([["snow", "hot", "high", "weak"], ["sunny", "hot", None, "weak"]]) == ["yes", "no"]
    np.testing.assert_allclose(tree.probabilities([["snow", "hot", "high", "weak"]]), [[5 / 14, 9 / 14]])
    np.testing.assert_allclose(tree.probabilities([["sunny", "hot", None, "weak"]]), [[3 / 5, 2 / 5]])


def test_an_empty_branch_takes_the_majority():
    # within a = 0 the value b = 2 has no row; within a = 1 it has
    rows = [[0, 0], [0, 0], [0, 1], [1, 2], [1, 2], [1, 2], [1, 2]]
    tree = fit_id3(rows, ["x", "x", "y", "z", "z", "z", "z"])
    assert tree.predict([[0, 2]]) == tree.predict([[0, 5]]) == ["z" if tree.attribute[0] == 1 else "x"]
    table = [[0, 0], [0, 0], [0, 1], [1, 0], [1, 1], [1, 2], [1, 1]]
    tree = fit_id3(table, ["x", "x", "y", "z", "z", "z", "z"])
    assert tree.attribute[0] == 0
    assert "if x0 = 0 and x1 = 2: x" in tree.rules()


def test_attributes_that_run_out_leave_the_majority():
    tree = fit_id3([["a"], ["a"], ["a"], ["b"]], [1, 1, 0, 0])
    assert tree.predict([["a"], ["b"]]) == [1, 0]
    assert "training error 0.25" in repr(tree)
    assert fit_id3([["a"], ["b"]], ["only", "only"]).rules() == ["always: only"]


def test_weights_count_rows_and_frames_are_welcome(tmp_path):
    rng = np.random.default_rng(0)
    table, y, w = rng.integers(0, 3, (40, 3)), rng.integers(0, 2, 40), rng.integers(0, 3, 40)
    weighted = fit_id3(table, y, w)
    assert weighted.rules() == fit_id3(np.repeat(table, w, 0), np.repeat(y, w)).rules()
    frame = pd.DataFrame(ROWS, columns=NAMES)
    assert fit_id3(frame, pd.Series(LABELS)).rules() == fit_id3(ROWS, LABELS, names=NAMES).rules()
    save(tmp_path / "id3.safetensors", weighted)
    assert load(tmp_path / "id3.safetensors").rules() == weighted.rules()


def test_bad_tables_are_named():
    with pytest.raises(ValueError, match="`labels` must be one per row"):
        fit_id3(ROWS, ["yes"])
    with pytest.raises(
        ValueError, match="`weights` must be zero or positive, and finite; got inf at index 0"
    ):
        fit_id3(ROWS, LABELS, np.where(np.arange(len(LABELS)) == 0, np.inf, 1.0))
    with pytest.raises(ValueError, match="`rows` must be of one length; got lengths"):
        fit_id3([["a"], ["a", "b"]], [0, 1])
    with pytest.raises(ValueError, match="`rows` must be of 4 attributes; got 1"):
        fit_id3(ROWS, LABELS).predict([["sunny"]])
