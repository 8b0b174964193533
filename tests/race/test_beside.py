"""Columns beside the question are read as what they are, and refused in one sentence where they cannot be."""

import numpy as np
import pandas as pd
import pytest

from tractable.race.beside import beside_of
from tractable.race.fit import fit_table
from tractable.race.folds import put_aside
from tractable.race.question import Question, question_of
from tractable.tables.files import WrongTable


def _one(use, values, **more):
    return beside_of(pd.DataFrame({"c": values, "y": 0.0}), "y", {use: "c"})[use]


def test_dates_are_in_the_order_of_time_however_they_are_written():
    days = pd.date_range("2020-01-30", periods=4)
    ways = days, days.strftime("%d.%m.%Y"), days.strftime("%Y-%m-%d"), days.strftime("%Y%m%d").astype(int)
    for way in ways:
        assert np.argsort(_one("times", way)).tolist() == [0, 1, 2, 3]
    assert _one("times", [1999.75, 1999.5]).tolist() == [1999.75, 1999.5]  # numbers stay as they are


def test_the_end_was_seen_where_a_word_says_yes():
    assert _one("events", ["yes", "no", "yes"]).tolist() == [True, False, True]
    assert _one("events", ["Y", "y"]).tolist() == [True, True]
    assert _one("events", ["alive", "dead"]).tolist() == [False, True]
    assert _one("events", [1.0, 0.0]).tolist() == [True, False]


@pytest.mark.cheap
@pytest.mark.parametrize(
    ("use", "values", "said"),
    [
        ("times", ["2020-01-01", None], "an empty cell in 1"),
        ("times", ["2020-01-01", "soon"], "'soon'"),
        ("times", [pd.Timestamp("2020-01-01"), pd.NaT], "an empty cell"),
        ("weights", ["many", "few"], "'many' in 2"),
        ("weights", [1.0, -2.0], "not be negative; got -2"),
        ("weights", [1.0, 1e308], "at most 1e"),
        ("weights", [0.0, 0.0], "positive in some rows"),
        ("groups", ["a", None], "a group in every row"),
        ("events", ["no", "no"], "their end was seen"),
        ("events", ["a", "b", "c"], "two values"),
    ],
)
def test_gaps_and_words_are_refused_by_name(use, values, said):
    with pytest.raises(WrongTable, match=said) as caught:
        _one(use, values)
    assert "'c'" in str(caught.value)


def test_the_target_is_no_column_beside_itself():
    with pytest.raises(WrongTable, match="another column than the target"):
        beside_of(pd.DataFrame({"y": [1.0]}), "y", {"weights": "y"})


def _frame(**more):
    rng = np.random.default_rng(0)
    return pd.DataFrame({"x": rng.normal(size=40), "y": rng.normal(size=40), **more})


def test_rows_of_weight_zero_are_not_there():
    frame = _frame(w=np.arange(40) % 2)
    options = {"candidates": (), "examine": False}
    found = fit_table(frame, "y", weights="w", **options)
    assert found.provenance["rows"] == 20
    few = fit_table(frame[frame["w"] == 1], "y", **options)
    assert found.metrics["log_score"] == pytest.approx(few.metrics["log_score"])


@pytest.mark.cheap
@pytest.mark.parametrize(
    ("more", "options", "said"),
    [
        ({"e": [0, 1] * 20}, {"event": "e"}, "must be positive"),
        ({"y": [1e308, 1.0] * 20}, {"task": "number"}, "whose square"),
        ({"y": [1e-200, 2e-200] * 20}, {"task": "number"}, "whose square"),
        ({"g": 1, "t": 1}, {"group": "g", "time": "t"}, "not both"),
        ({"y": ["a", "b"] * 20}, {"task": "number"}, "must be numbers for the task"),
        ({"w": [1.0] * 9 + [0.0] * 31}, {"weights": "w"}, "at least 10 rows"),
    ],
)
def test_questions_that_cannot_be_asked_are_one_sentence(more, options, said):
    with pytest.raises(WrongTable, match=said):
        fit_table(_frame(**more), "y", **options)


def test_numbers_that_are_names_of_rows_are_no_classes():
    with pytest.raises(WrongTable, match="must repeat its classes to be learnt; got 40 in 40 rows"):
        question_of(np.array([str(k) for k in range(40)], object), "classes", "y")


def test_two_groups_are_for_the_folds():
    asked = Question("number", "y", np.arange(60.0), groups=np.array(["a", "b"] * 30, dtype=object))
    assert len(put_aside(asked, 0)[1]) == 0
