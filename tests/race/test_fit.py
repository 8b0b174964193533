"""`fit_table`: what is planted is found, nothing leaks, files give the same bits, faults are one sentence."""

import functools

import numpy as np
import pandas as pd
import pytest

from tractable.race import cross_fit as cross
from tractable.race import fit as race
from tractable.race.auto import AutoClassifier, AutoRegressor
from tractable.race.base_rate import BaseRate
from tractable.race.candidates import CANDIDATES, Size, candidates_for
from tractable.race.composed import ClassLaws
from tractable.race.cross_fit import Clock, Entry, cross_fit, within_budget
from tractable.race.folds import fold_pairs, put_aside
from tractable.race.members import Refused, associated
from tractable.race.predictions import predictions
from tractable.race.question import Question, question_of
from tractable.race.result import TableFit
from tractable.race.weighing import MIXTURE, choose
from tractable.tables.files import WrongTable

fit_table = functools.partial(race.fit_table, examine=False)  # the study has tests of its own
CHEAP = ("Bayesian linear", "robust linear", "logistic", "linear discriminant")


def _table(count=240, seed=0):
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(2, count))
    colour = rng.choice(["red", "blue"], count)
    y = 2 * x + (colour == "red") + rng.normal(size=count)
    frame = pd.DataFrame({"x": x, "z": z, "colour": colour, "y": y, "group": np.arange(count) // 6})
    frame["label"] = np.where(y + 0.3 * rng.normal(size=count) > 0.5, "high", "low")
    frame.loc[::12, "z"] = np.nan
    return frame


@pytest.fixture(scope="module")
def table():
    return _table()


@pytest.fixture(scope="module")
def numbers(table):
    return fit_table(table, "y", drop=["label", "group"], candidates=CHEAP, seed=1)


@pytest.fixture(scope="module")
def classes(table):
    return fit_table(table, "label", drop=["y", "group"], candidates=CHEAP, seed=1)


def test_a_linear_table_is_told_by_linear_models(numbers):
    standing = {each.name: each for each in numbers.standings}
    best = max(each.log_score for each in numbers.standings)
    assert numbers.task == "number"
    assert numbers.verdict.ok
    assert numbers.untouched
    # the entropy of unit noise is 1.419
    assert best == pytest.approx(-1.419, abs=0.12)
    assert standing["base rate"].log_score < best - 0.5
    assert sum(numbers.weights.values()) == pytest.approx(1)
    assert 0.78 <= numbers.metrics["coverage_90"] <= 1
    assert numbers.metrics["rows"] == 48


def test_the_model_of_all_rows_predicts_in_any_order_of_columns_and_with_new_levels(numbers, table):
    new = table.head(5)[["colour", "z", "x"]].assign(more=1.0)
    new.loc[0, "colour"] = "green"
    laws = numbers.predict_dist(new)
    low, high = numbers.predict_interval(new)
    assert (low < laws.median).all()
    assert (laws.median < high).all()
    np.testing.assert_allclose(laws.mean, numbers.predict(new))
    with pytest.raises(WrongTable, match="'x'"):
        numbers.predict(new.drop(columns="x"))


def test_a_file_predicts_the_same_bits(numbers, classes, table, tmp_path):
    for fit in (numbers, classes):
        path = tmp_path / "model.tractable"
        fit.save(path)
        again = TableFit.load(path)
        assert again.winner == fit.winner
        assert again.verdict.sentence == fit.verdict.sentence
        first, second = (each.predict_dist(table) for each in (fit, again))
        if isinstance(first, ClassLaws):
            assert (first.shares == second.shares).all()
        else:
            assert (first.log_density(table["y"]) == second.log_density(table["y"])).all()
        one = path.read_bytes()
        again.save(path)
        assert path.read_bytes() == one
        path.write_bytes(one[:-1] + bytes([one[-1] ^ 1]))
        with pytest.raises(ValueError, match="damaged"):
            TableFit.load(path)


@pytest.mark.thorough
def test_the_same_seed_writes_the_same_bytes(table, numbers, tmp_path):
    again = fit_table(table, "y", drop=["label", "group"], candidates=CHEAP, seed=1)
    paths = tmp_path / "one", tmp_path / "two"
    for fit, path in zip((numbers, again), paths):
        fit.save(path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_classes_have_probabilities_that_were_measured(classes, table):
    shares = classes.predict_proba(table)
    np.testing.assert_allclose(shares.sum(1), 1)
    assert classes.model.classes == ("high", "low")
    assert classes.task == "binary"
    assert classes.metrics["accuracy"] > 0.75
    assert classes.metrics["ece"] < 0.2
    assert set(classes.predict(table)) == {"high", "low"}


def test_as_dict_has_what_the_command_prints(numbers, classes):
    for fit, names in (
        (numbers, ("coverage_90", "width_90", "crps", "rmse")),
        (classes, ("accuracy", "ece")),
    ):
        found = fit.as_dict()
        assert {"task", "target", "winner", "metrics", "models"} <= set(found)
        assert {"log_score", *names} <= set(found["metrics"])
        assert all({"name", "log_score", "error", "seconds", "weight"} <= set(m) for m in found["models"])


def test_deferred_rows_are_the_least_sure(classes, table):
    found = predictions(classes.model, table, defer=0.25)
    assert found.table["deferred"].sum() == 60
    assert found.kept_metrics["accuracy"] > found.metrics["accuracy"]
    sure = found.table[["probability[high]", "probability[low]"]].max(axis=1)
    assert sure[found.table["deferred"]].max() <= sure[~found.table["deferred"]].min()
    assert list(found.table)[:3] == ["prediction", "probability[high]", "probability[low]"]
    assert found.table["log_density"].notna().all()


def test_tables_that_have_moved_and_targets_that_are_not_known_are_warned_of(numbers, classes, table):
    assert predictions(numbers.model, _table(seed=9), measured=numbers.metrics).warnings == ()
    moved = table.assign(x=table["x"] + 3, z=np.nan, colour="green")
    said = " ".join(predictions(numbers.model, moved, measured=numbers.metrics).warnings)
    for part in ("'x' has moved by", "'z' is missing in 100%", "'colour' has a level", "fit it again"):
        assert part in said
    unknown = table.assign(label=["odd"] * 7 + list(table["label"][7:]))
    found = predictions(classes.model, unknown)
    assert any("7 rows are of a class that was never seen (odd)" in each for each in found.warnings)
    assert found.metrics is not None
    assert found.metrics["rows"] == len(table) - 7


def test_where_nothing_is_to_be_known_the_base_rate_wins():
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"x": rng.normal(size=200), "y": rng.normal(size=200)})
    found = fit_table(frame, "y", candidates=("Bayesian linear",))
    assert found.winner == "base rate"
    assert not found.verdict.ok
    assert "Nothing beats" in found.verdict.sentence
    low, high = found.predict_interval(frame)
    assert 0.85 < np.mean((low <= frame["y"]) & (frame["y"] <= high)) < 0.95


def test_few_rows_are_measured_by_those_held_out():
    rng = np.random.default_rng(2)
    x = rng.normal(size=30)
    found = fit_table({"x": x, "y": x + 0.1 * rng.normal(size=30)}, "y", candidates=("Bayesian linear",))
    assert not found.untouched
    assert found.metrics["rows"] == 30


@pytest.mark.cheap
@pytest.mark.parametrize(
    ("frame", "said"),
    [
        ({"x": range(20), "y": [1.0] * 20}, "two values"),
        ({"x": range(5), "y": range(5)}, "at least 10 rows"),
        ({"x": range(20), "z": range(20)}, "'y'"),
        ({"x": range(20), "y": [None] * 20}, "y"),
    ],
)
def test_tables_that_cannot_be_used_are_one_sentence(frame, said):
    with pytest.raises(WrongTable, match=said) as caught:
        fit_table(frame, "y")
    assert "\n" not in str(caught.value)


def _question(count=60, **beside):
    return Question("number", "y", np.arange(count, dtype=float), **beside)


def test_groups_stay_together_and_the_future_is_not_learnt_from():
    groups = np.repeat(np.arange(20), 3)
    asked = _question(groups=groups)
    kept, last = put_aside(asked, 0)
    assert not set(groups[kept]) & set(groups[last])
    for seen, held in fold_pairs(asked.take(kept), 0):
        assert not set(groups[kept][seen]) & set(groups[kept][held])
    times = np.random.default_rng(0).permutation(60)
    asked = _question(times=times)
    kept, last = put_aside(asked, 0)
    assert times[kept].max() < times[last].min()
    for seen, held in fold_pairs(asked.take(kept), 0):
        assert times[kept][seen].max() < times[kept][held].min()


def test_every_row_is_held_out_once_and_classes_in_equal_shares():
    y = np.repeat([0, 1], [45, 15])
    asked = Question("binary", "y", y, ("a", "b"))
    folds = fold_pairs(asked, 3)
    assert sorted(np.concatenate([held for _, held in folds]).tolist()) == list(range(60))
    shares = [y[held].mean() for _, held in folds]
    assert max(shares) - min(shares) < 0.2


def test_nothing_of_a_held_out_row_reaches_its_fit():
    asked = question_of(np.random.default_rng(0).normal(size=40), "number", "y")
    folds, seen_by = fold_pairs(asked, 0), []
    columns = np.random.default_rng(1).normal(size=(40, 1))

    def encoded(form, seen, held):
        assert not set(seen.tolist()) & set(held.tolist())
        seen_by.append(len(seen))
        return columns[seen], columns[held]

    candidate = candidates_for("number", ("Bayesian linear",))
    entries, judged = cross_fit(list(candidate), asked, folds, encoded, 0, Clock(None))
    assert len(seen_by) == len(folds) == len(judged)
    assert all(len(each.scores) == len(folds) for each in entries)


def test_levels_that_were_coded_by_the_target_do_not_help_where_they_say_nothing():
    rng = np.random.default_rng(3)
    # two rows of each level: coded by the targets of all rows, a level would tell half of its row's
    frame = pd.DataFrame({"level": [f"k{k}" for k in rng.permutation(np.arange(300) // 2)]})
    found = fit_table(frame.assign(y=rng.normal(size=300)), "y", kinds={"level": "category"},
                      candidates=("Bayesian linear",))  # fmt: skip
    score = {each.name: each.log_score for each in found.standings}
    assert score["Bayesian linear"] < score["base rate"] + 0.02
    assert found.winner == "base rate"


def test_budgets_are_of_predicted_work_and_name_what_is_left_out():
    size = Size(200_000, 30, 1)
    kept, left_out = within_budget(candidates_for("number"), size, 60.0, 3)
    spent = sum(each.start + 5 * each.seconds(size) for each in kept)
    assert spent <= 60
    assert "Gaussian process" in left_out
    few, gone = within_budget(candidates_for("number"), size, 0.1, 3)
    assert not few
    assert len(gone) == len(candidates_for("number"))
    assert len({(each.name, each.tasks) for each in CANDIDATES}) == len(CANDIDATES)


def test_of_many_columns_the_rows_of_a_fit_choose_those_that_it_looks_at(monkeypatch, tmp_path):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(200, 60))
    frame = pd.DataFrame(X.round(3), columns=[f"x{j}" for j in range(60)])
    few = candidates_for("number", ("Bayesian linear",))[0]._replace(most_columns=8)
    monkeypatch.setattr(race, "candidates_for", lambda task, names: (few,))
    found = fit_table(frame.assign(y=2 * X[:, 41] + rng.normal(size=200)), "y")
    (member,) = [each for each in found.model.members if not isinstance(each, BaseRate)]
    assert len(member.columns) == 8
    assert 41 in member.columns
    assert found.metrics["rmse"] < 1.4
    found.save(tmp_path / "model")
    again = TableFit.load(tmp_path / "model")
    assert (again.predict(frame) == found.predict(frame)).all()
    noise = rng.normal(size=200)
    chosen = associated(X, Question("number", "y", noise), 8)  # by all rows: they look better than they are
    scores = [
        {each.name: each.log_score for each in fit_table(part.assign(y=noise), "y").standings}
        for part in (frame, frame.iloc[:, chosen])
    ]
    assert scores[0]["Bayesian linear"] < scores[1]["Bayesian linear"] - 0.03


def test_wide_tables_are_learnt_from_as_many_columns_as_the_budget_holds():
    size = Size(240, 5000, 1)
    kept, _ = within_budget(candidates_for("number"), size, 60.0, 5)
    columns = {each.name: each.most_columns for each in kept}
    assert columns["boosted trees"] >= 1000  # trees cost little more for many columns than for some
    assert columns["Bayesian linear"] >= 200
    assert sum(each.start + 7 * each.seconds(size) for each in kept) <= 60


def test_a_limit_in_seconds_ends_the_order_and_says_so(table):
    found = fit_table(table, "y", drop=["label", "group"], candidates=CHEAP, seconds=1e-6)
    assert found.winner == "base rate"
    assert found.provenance["cut_short"]


def _entry(name, scores, laws):
    entry = Entry(None)
    entry.name, entry.scores, entry.laws = name, scores, laws
    return entry


def test_a_mixture_wins_where_each_model_knows_half():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, 400)
    half = np.arange(400) % 2 == 0
    sure = np.where(codes[:, None] == np.arange(2), 0.9, 0.1)
    even = np.full((400, 2), 0.5)
    shares = {"base rate": even, "one": np.where(half[:, None], sure, even),
              "two": np.where(half[:, None], even, sure)}  # fmt: skip
    asked = Question("binary", "y", codes, ("a", "b"))
    judged = [np.arange(0, 200), np.arange(200, 400)]
    entries = []
    for name, table in shares.items():
        laws = [ClassLaws(table[rows]) for rows in judged]
        entries.append(
            _entry(name, [each.log_density(codes[rows]) for each, rows in zip(laws, judged)], laws)
        )
    found = choose(entries, judged, asked)
    assert found.winner == MIXTURE
    assert found.weights["one"] == pytest.approx(0.5, abs=0.1)


@pytest.mark.cheap
@pytest.mark.parametrize(("rows", "gain", "winner"), [(100, 0.025, "base rate"), (100, 0.06, "one")])
def test_the_base_rate_is_beaten_by_so_many_nats_in_all(rows, gain, winner):
    # log((1 model + the base rate) / 0.1) is 3.0: 2.5 nats are chance, six are not
    codes = np.arange(rows) % 2
    found = choose(*_told_apart(codes, gain), Question("binary", "y", codes, ("a", "b")))
    assert found.winner == winner


def _told_apart(codes, gain):
    """The base rate, and a model that is ahead of it by `gain` nats in every row."""
    shares = {"base rate": 0.5, "one": 0.5 * np.exp(gain)}
    judged, entries = [np.arange(0, len(codes) // 2), np.arange(len(codes) // 2, len(codes))], []
    for name, share in shares.items():
        laws = [ClassLaws(np.where(codes[rows, None] == [0, 1], share, 1 - share)) for rows in judged]
        scores = [each.log_density(codes[rows]) for each, rows in zip(laws, judged)]
        entries.append(_entry(name, scores, laws))
    return entries, judged


def test_a_limit_that_leaves_models_unjudged_is_no_verdict_on_the_columns():
    codes = np.arange(40) % 2
    entries, judged = _told_apart(codes, 0.0)
    entries.append(_entry("late", [], []))
    said = choose(entries, judged, Question("binary", "y", codes, ("a", "b"))).verdict.sentence
    assert "no time for late" in said


def test_intervals_of_counts_are_judged_by_what_they_promise():
    rng = np.random.default_rng(3)
    x = rng.normal(size=400)
    frame = {"x": x, "y": rng.poisson(np.exp(0.3 + 0.3 * x))}
    found = fit_table(frame, "y", candidates=("Poisson regression",), effort="low")
    promised, held = found.metrics["promised_90"], found.metrics["coverage_90"]
    assert promised > 0.95  # few whole numbers hold more than nine tenths
    assert found.verdict.ok == (abs(held - promised) <= 0.04 + 2.6 * np.sqrt(0.09 / 80))
    assert found.verdict.ok


@pytest.mark.parametrize(
    ("target", "options", "said"),
    [
        (pd.date_range("2020", periods=40), {}, "got dates"),
        ([*map(str, range(38)), "broken", "off"], {}, "got numbers and 'broken', 'off'"),
        (np.arange(40.0) - 5, {"task": "positive"}, "must be positive"),
        (np.arange(40.0) / 2, {"task": "count"}, "whole numbers"),
        (np.arange(40.0), {"task": "proportion"}, "between 0 and 1"),
        (np.arange(40.0), {"task": "numbers"}, "`task`"),
        (np.arange(40.0), {"candidates": ("forests",)}, "`candidates`"),
        (np.arange(40.0), {"candidates": ("naive Bayes",)}, "of the task 'count'"),
        (np.arange(40.0), {"drop": ("y",)}, "must not be left out"),
    ],
)
@pytest.mark.cheap
def test_slips_about_the_target_are_told(target, options, said):
    with pytest.raises(ValueError, match=said):
        fit_table({"x": np.arange(40.0), "y": target}, "y", **options)


def test_a_column_may_have_the_name_that_the_target_would_have():
    x = np.random.default_rng(4).normal(size=60)
    X = pd.DataFrame({"target": x, "row weight": 0.0})
    model = AutoRegressor(candidates=["Bayesian linear"], random_state=0).fit(X, 3 * x, np.ones(60))
    assert model.predict(pd.DataFrame({"target": [1.0], "row weight": 0.0})) == pytest.approx(3, abs=0.1)


@pytest.mark.thorough
def test_the_faces_of_scikit_learn(table):
    X = table[["x", "z", "colour"]]
    model = AutoRegressor(candidates=["Bayesian linear"], random_state=0).fit(X, table["y"])
    low, high = model.predict_interval(X)
    assert np.mean((low <= table["y"]) & (table["y"] <= high)) > 0.8
    assert model.score(X, table["y"]) > 0.6
    assert np.isfinite(model.log_score(X, table["y"]))
    assert model.sample_y(X.head(3), 4, random_state=0).shape == (3, 4)
    classifier = AutoClassifier(candidates=["logistic"], random_state=0).fit(X, table["label"])
    assert classifier.score(X, table["label"]) > 0.75
    assert classifier.predict_proba(X).shape == (240, 2)


def test_an_interrupt_ends_with_the_best_so_far(table):
    told = []

    def tell(said):
        told.append(said)
        if len(told) == 3:
            raise KeyboardInterrupt

    found = fit_table(table, "y", drop=["label", "group"], candidates=CHEAP, tell=tell)
    assert found.interrupted
    assert found.winner != "base rate"
    assert len(told) == 3


def test_where_every_model_is_refused_the_columns_are_not_blamed(table, monkeypatch):
    def refusing(*_):
        raise Refused("there is no factor.")

    monkeypatch.setattr(cross, "fit_member", refusing)
    found = fit_table(table, "y", candidates=("Bayesian linear",))
    assert found.winner == "base rate"
    assert found.verdict.sentence.startswith("No model could be fitted. Bayesian linear: there is no factor.")
