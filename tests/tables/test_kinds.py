"""What columns are, what is told of a table, and what a target asks for."""

import time

import numpy as np
import pandas as pd
import pytest

from tractable.tables import WrongTable, describe_table, target_task
from tractable.tables.cells import moments_of
from tractable.tables.dialect import own_names
from tractable.tables.scales import in_order
from tractable.tables.suspects import chatterjee

N = 120


def _frame():
    """A column of each kind, and columns with faults."""
    rng = np.random.default_rng(0)
    words = np.array(["cheap", "flat", "near", "the", "river", "sunny", "quiet", "old", "town", "large"])
    frame = pd.DataFrame({
        "number": rng.normal(size=N), "count": rng.poisson(4, N),
        "colour": rng.choice(["red", "blue", "grey"], N), "grade": rng.choice(["low", "medium", "high"], N),
        "age": rng.choice(["<18", "18-30", "31-60", "61+"], N),
        "flag": rng.choice(["yes", "no"], N), "bit": rng.integers(0, 2, N),
        "when": pd.date_range("2020-01-01", periods=N).strftime("%d/%m/%Y"),
        "story": [" ".join(rng.choice(words, 8)) for _ in range(N)], "id": np.arange(N) + 7,
        "key": [f"k{hash_:x}" for hash_ in rng.permutation(10**6)[:N]], "same": 3.5, "empty": np.nan,
        "zip": [f"Z{z}" for z in rng.integers(0, 90, N)],
    })  # fmt: skip
    frame["y"] = frame["number"] + rng.normal(size=N)
    return frame


KINDS = {
    "number": "number", "count": "count", "colour": "category", "grade": "ordered", "age": "ordered",
    "flag": "boolean", "bit": "boolean", "when": "datetime", "story": "text", "id": "identifier",
    "key": "identifier", "same": "constant", "empty": "constant", "zip": "category", "y": "number",
}  # fmt: skip


def test_each_kind_is_found_and_shown():
    found = describe_table(_frame(), target="y")
    assert found.kinds == KINDS
    assert found.column("grade").levels == ("low", "medium", "high")
    assert found.column("age").levels == ("<18", "18-30", "31-60", "61+")
    assert found.column("same").note == "one value, 3.5"
    aside = ("id", "key", "same", "empty", "y")
    assert found.features == tuple(name for name in KINDS if name not in aside)
    text = repr(found)
    assert all(name in text for name in KINDS)
    assert "120 rows, 15 columns; * is the target." in text
    assert "ordered" in found._repr_html_()


def test_kinds_can_be_given_and_columns_dropped():
    kinds = {"bit": "category", "id": "number", "count": "ordered"}
    found = describe_table(_frame(), target="y", kinds=kinds, drop=["story"])
    assert {name: found.kinds[name] for name in kinds} == kinds
    assert found.column("count").levels[:3] == ("0", "1", "2")
    assert "story" not in found.features
    assert "id" in found.features
    for options, message in (
        ({"target": "x"}, "there must be a column 'x'"), ({"drop": ["numbr"]}, "Did you mean number"),
        ({"kinds": {"zip": "word"}}, "the kind of 'zip' must be one of number, count"),
        ({"kinds": {"zop": "text"}}, "there must be a column 'zop'"),
    ):  # fmt: skip
        with pytest.raises(WrongTable, match=message):
            describe_table(_frame(), **options)


def test_pandas_types_are_taken_at_their_word():
    frame = pd.DataFrame({
        "order": pd.Categorical(["b", "a", "b"], ["b", "a"], ordered=True),
        "set": pd.Categorical(list("aba")), "stamp": pd.date_range("2020", periods=3, tz="Europe/Berlin"),
        "whole": pd.array([1, None, 9], "Int64"),
        "truth": pd.array([True, None, False], "boolean"), "span": pd.to_timedelta([1.5, 2.0, 4.7001], "s"),
        "mixed": [1, "a", "a"], "lists": [[1], [2], [1]],
    })  # fmt: skip
    found = describe_table(frame)
    wanted = ("ordered", "category", "datetime", "category", "boolean", "number", "category", "category")
    assert tuple(found.kinds.values()) == wanted
    assert found.column("order").levels == ("b", "a")
    assert found.column("whole").missing == 1


def test_identifiers_constants_and_gaps_are_named():
    codes = describe_table(_frame(), target="y").codes()
    assert codes["identifier"] == ["id", "key"]
    assert codes["constant"] == ["same", "empty"]
    assert codes["many_levels"] == ["zip"]
    assert "leak" not in codes
    frame = _frame()
    frame.loc[: N // 2 + 10, "number"] = np.nan
    frame.loc[3:8, "y"] = np.nan
    codes = describe_table(frame, target="y").codes()
    assert codes["mostly_missing"] == ["number"]
    assert codes["target_missing"] == ["y"]


def test_leaks_of_any_shape_are_suspected_and_good_columns_are_not():
    rng = np.random.default_rng(1)
    x = rng.normal(size=400)
    frame = pd.DataFrame({"good": x, "noise": rng.normal(size=400)})
    frame["y"] = x + 0.3 * rng.normal(size=400)
    frame["scaled"] = 3 - 2 * frame["y"]
    frame["bent"] = np.exp(frame["y"])
    frame["rounded"] = frame["y"].round(2)
    assert describe_table(frame, target="y").codes()["leak"] == ["scaled", "bent", "rounded"]
    label = np.where(frame.pop("y") > 0, "won", "lost")
    told = pd.DataFrame({"good": x, "verdict": np.where(label == "won", "A", rng.choice(["B", "C"], 400))})
    told["paid_on"] = np.where(label == "won", "2020-01-02", None)
    told["label"] = label
    notes = describe_table(told, target="label").notes
    assert {note.column for note in notes if note.code == "leak"} == {"verdict", "paid_on"}
    assert any("by its gaps" in note.sentence for note in notes)


def test_chatterjee_against_its_definition():
    rng = np.random.default_rng(2)
    x, y = rng.permutation(50).astype(float), rng.integers(0, 9, 50).astype(float)
    order = y[np.argsort(x)]
    ranks = [(order <= value).sum() for value in order]
    least = [(order >= value).sum() for value in order]
    wanted = 1 - 50 * sum(abs(np.diff(ranks))) / (2 * sum(v * (50 - v) for v in least))
    assert chatterjee(x[:, None], y)[0] == pytest.approx(wanted, rel=1e-12)


def test_copies_and_repeated_rows_are_named():
    frame = _frame()
    frame["again"], frame["fahrenheit"] = frame["number"], 32 + 1.8 * frame["number"]
    frame["couleur"] = frame["colour"].map({"red": "rouge", "blue": "bleu", "grey": "gris"})
    frame = pd.concat([frame, frame.iloc[:5]])
    notes = describe_table(frame, target="y").notes
    assert [note.column for note in notes if note.code == "copy"] == ["again", "couleur", "fahrenheit"]
    assert [note.sentence[:6] for note in notes if note.code == "repeated_rows"] == ["5 rows"]


@pytest.mark.cheap
@pytest.mark.parametrize(
    ("y", "task"),
    [
        ([1.5, -2.0, 0.3], "number"), ([25, 340, 151, 75], "number"), ([3.0, 3.0], "number"),
        ([0.5, 1.0, 2.0, 90.5], "positive"), ([0.1, 0.0, 0.8], "proportion"), ([0, 4, 1, 2], "count"),
        ([1, 3, 2, 9], "count"), (["a", "b", "a"], "binary"), ([True, False], "binary"),
        ([0, 1, 1], "binary"),
        ([2, 1, 2], "binary"), (["a", "b", "c"], "classes"), (["low", "high", "medium"], "ordered"),
        (pd.Categorical(list("ab"), ordered=True), "ordered"), ([None, 1.5, -0.5, 2.5], "number"),
        (pd.Series(["a", None, "b"]), "binary"), ([0, 1, 2] * 20, "classes"), ([1, 2, 3, 4] * 20, "classes"),
        ([0] * 40 + [1] * 20 + [2] * 9 + [3], "count"), ([2, 3, 4] * 20, "count"),
    ],
)  # fmt: skip
def test_tasks(y, task):
    assert target_task(y) == task
    assert target_task(y, event=[1]) == "censored"


def test_codes_of_classes_are_categories_where_they_are_the_target():
    frame = pd.DataFrame({"x": np.arange(60) % 7 / 3, "y": np.arange(60) % 3, "k": np.arange(60) % 3})
    found = describe_table(frame, target="y")
    assert (found.kinds["y"], found.kinds["k"]) == ("category", "count")
    assert found.column("y").levels == ("0", "1", "2")
    assert describe_table(frame, target="y", kinds={"y": "count"}).kinds["y"] == "count"


def test_a_target_without_values_is_refused():
    for y, message in (([None, np.nan], "a value in at least one row"), (np.zeros((2, 2)), "one column")):
        with pytest.raises(WrongTable, match=message):
            target_task(y)


def test_orders_are_not_invented():
    assert in_order(["1 - low", "2 - fair", "10 - best"]) == ["1 - low", "2 - fair", "10 - best"]
    assert in_order(["5 stars", "3 stars", "4 stars"]) == ["3 stars", "4 stars", "5 stars"]
    assert in_order(["stage 2", "stage 10", "stage 1"]) == ["stage 1", "stage 2", "stage 10"]
    assert in_order(["over 100", "10 to 50", "up to 10"]) == ["up to 10", "10 to 50", "over 100"]
    for words in (["red", "blue", "green"], ["a1", "b2", "c3"], ["low", "high"], ["low", "medium", "red"],
                  ["k0", "k1", "k2"], ["group 1", "group 3", "group 2"]):  # fmt: skip
        assert in_order(words) is None


def test_numbers_may_be_dates_or_names_of_places():
    days = pd.Series(pd.date_range("2024-01-01", periods=40))
    frame = pd.DataFrame({
        "day": days.dt.strftime("%Y%m%d").astype(int), "zip_code": np.arange(40) % 7 + 10_000,
        "year": days.dt.day + 1990, "seconds": days.astype("int64").astype(float),
    })  # fmt: skip
    found = describe_table(frame, kinds={"year": "datetime"})
    assert tuple(found.kinds.values()) == ("datetime", "category", "datetime", "count")
    wanted = days.to_numpy("datetime64[s]").astype(float)
    np.testing.assert_array_equal(moments_of(frame["day"]), wanted)
    assert moments_of(pd.Series([1970, 1971])).tolist() == [0, 365 * 86_400]
    np.testing.assert_array_equal(moments_of(pd.Series(wanted)), wanted)
    np.testing.assert_array_equal(moments_of(pd.Series(1000 * wanted)), wanted)


def test_names_made_up_do_not_meet_names_that_are_there():
    assert own_names(["a", "a", "a.1", "a"])[0] == ("a", "a.2", "a.1", "a.3")


@pytest.mark.thorough
def test_large_tables_are_described_at_once():
    rng = np.random.default_rng(3)
    tall = pd.DataFrame(rng.normal(size=(200_000, 28)), columns=[f"x{j}" for j in range(28)])
    tall["word"] = rng.choice(["a", "b", "c"], len(tall))
    tall["y"] = rng.normal(size=len(tall))
    wide = pd.DataFrame(rng.normal(size=(300, 5_000)), columns=[f"x{j}" for j in range(5_000)])
    for frame in (tall, wide):
        started = time.process_time()
        describe_table(frame, target=str(frame.columns[-1]))
        assert time.process_time() - started < 4  # two on a machine that is not shared
