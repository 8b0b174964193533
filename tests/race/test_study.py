"""The study of a raced model: failures are named, shares and ranks agree with slow oracles, worth and effects
with closed forms; the page of a file is that of the fit, byte for byte."""

import copy
import re
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import tractable as tr
from tractable.plots.door import kinds_of
from tractable.race.composed import ClassLaws
from tractable.race.families import FamilyLaws
from tractable.race.fit import fit_table
from tractable.race.laws import NormalLaws
from tractable.race.model import TableModel
from tractable.race.question import Question
from tractable.race.result import TableFit
from tractable.race.study import answers, study
from tractable.race.study_columns import _MOST_COLUMNS, effects, importance
from tractable.race.study_coverage import coverage, hits

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


class _Line(TableModel):
    """A model of encoded columns that is known: $y = X b + N(0, 1)$."""

    def __init__(self, slopes, classes=()):
        self.slopes, self.classes, self.target = np.asarray(slopes, float), classes, "y"
        names = tuple(f"x{j}" for j in range(len(slopes)))
        groups = {name: name for name in names}
        encoder = SimpleNamespace(feature_names_=names, groups_=groups, columns_=names)
        self.encoders, self.weights, self.members = {"linear": encoder}, [1.0], [SimpleNamespace(log=True)]

    def encoded(self, frame):
        return {"linear": frame[list(self.columns)].to_numpy(float)}

    def laws_of(self, tables, count):
        mean = tables["linear"] @ self.slopes
        if self.classes:
            p = 1 / (1 + np.exp(-mean))
            return ClassLaws(np.stack([1 - p, p], 1))
        return NormalLaws(1.0, mean, np.ones(count))

    def members_of(self, tables, count):
        return [self.laws_of(tables, count)]

    def unlike(self, frame):
        return np.zeros(len(frame), bool)


def _described(frame):
    return SimpleNamespace(kinds=dict.fromkeys(frame, "number"), features=tuple(frame.columns))


def _studied(scale=1.0, shift=0.0, count=500):
    """The study of a model that says 1 where the noise has another scale, and a shift."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(count, 2))
    y = X @ [2.0, 0.0] + shift + scale * rng.normal(size=count)
    frame, model = pd.DataFrame(X, columns=["x0", "x1"]), _Line([2.0, 0.0])
    pairs = [(model.laws_of(model.encoded(frame), count), Question("number", "y", y))]
    return study(model, frame, pairs, _described(frame), 0)


def test_a_group_whose_promises_fail_is_named_and_no_other():
    group = np.repeat(["a", "b", "c"], 200)
    scale = np.where(group == "b", 2.0, 1.0)
    y = scale * RNG.normal(size=600)
    laws, question = NormalLaws(1.0, np.zeros(600), np.ones(600)), Question("number", "y", y)
    said = answers([(laws, question)])
    frame = pd.DataFrame({"g": group, "z": RNG.normal(size=600)})
    found = coverage(
        said.hits, question.amounts, RNG.normal(size=600), None, frame, {"g": "category", "z": "number"}
    )
    off = {(c, level): int(o) for c, level, o in zip(found["column"], found["level"], found["off"])}
    assert off["g", "b"] == -1
    assert off["g", "a"] == off["g", "c"] == 0
    inside = np.abs(y[group == "b"]) <= 1.6448536
    row = found["level"].index("b")
    assert found["held"][row, 2] == pytest.approx(inside.mean())
    assert found["error"][row, 2] == pytest.approx(np.sqrt(0.09 / 200))
    assert found["rows"][row] == 200


def test_counts_promise_what_their_intervals_have_and_ranks_are_spread_over_jumps():
    rate = RNG.gamma(3.0, size=300)
    y = RNG.poisson(rate).astype(float)
    laws = FamilyLaws("Poisson", (rate,))
    found = hits(laws, Question("count", "y", y))
    low, high = laws.interval(0.9)
    mass = [sum(np.exp(FamilyLaws("Poisson", (rate[i : i + 1],)).log_density([k])[0])
                for k in range(int(low[i]), int(high[i]) + 1)) for i in range(20)]  # fmt: skip
    np.testing.assert_allclose(found.promised[:20, 2], mass, rtol=1e-9)
    assert ((found.held[:, 2] == 1) == ((low <= y) & (y <= high))).all()
    frame, model = pd.DataFrame({"x0": rate}), _Line([1.0])
    ranks = study(model, frame, [(laws, Question("count", "y", y))], _described(frame), 0)["ranks"]
    slow = np.zeros(len(ranks["counts"]))
    for a, b in zip(found.low, found.high):  # each row's jump as a uniform law
        slow += np.clip(np.minimum(b, ranks["edges"][1:]) - np.maximum(a, ranks["edges"][:-1]), 0, None) / (
            b - a
        )
    np.testing.assert_allclose(ranks["counts"], slow)
    assert np.abs(ranks["counts"] - 30).max() < 4 * np.sqrt(30)


def test_an_end_that_was_not_seen_counts_by_the_law_above_it():
    y, ended = np.array([1.0, 1.0]), np.array([True, False])
    laws = FamilyLaws("Gamma", (np.ones(2), np.ones(2)))
    found = hits(laws, Question("censored", "y", y, events=ended))
    rank = 1 - np.exp(-1.0)
    assert found.held[0].tolist() == [1, 1, 1, 1]
    np.testing.assert_allclose(found.held[1], [(0.75 - rank) / (1 - rank), *((m - rank) / (1 - rank) for m in
                                               (0.9, 0.95, 0.975))])  # fmt: skip
    assert found.high.tolist() == [found.low[0], 1.0]


def test_sets_of_classes_are_the_smallest_of_their_mass():
    shares = RNG.dirichlet(np.ones(4), 50)
    codes = RNG.integers(0, 4, 50)
    found = hits(ClassLaws(shares), Question("classes", "y", codes, tuple("abcd")))
    for row, (p, code) in enumerate(zip(shares, codes)):
        order = sorted(range(4), key=lambda k: -p[k])
        assert found.held[row, 0] == (order[0] == code)
        for place, mass in enumerate((0.5, 0.8, 0.9, 0.95), 1):
            size = next(n for n in range(1, 5) if sum(p[order[:n]]) >= mass - 1e-12)
            assert found.held[row, place] == (code in order[:size])
            assert found.promised[row, place] == pytest.approx(sum(p[order[:size]]))


def test_the_worth_of_a_column_is_its_closed_form():
    # shuffled: E[(y - b x')^2 - (y - b x)^2] / 2 = b^2 var(x)
    X = RNG.normal(size=(2000, 3))
    slopes = np.array([1.0, 0.5, 0.0])
    model, y = _Line(slopes), X @ slopes + RNG.normal(size=2000)
    found = importance(model, {"linear": X}, Question("number", "y", y), 0)
    lost = dict(zip(found["column"], zip(found["lost"], found["error"])))
    for j, worth in enumerate(slopes**2):
        value, error = lost[f"x{j}"]
        assert abs(value - worth) <= 4 * error + 1e-12
    assert found["column"] == ["x0", "x1", "x2"]
    assert found["rows"] * found["repeats"] * 3 <= 12_000
    again = importance(model, {"linear": X}, Question("number", "y", y), 0)
    assert (again["lost"] == found["lost"]).all()


def test_of_many_columns_those_that_move_predictions_are_asked():
    slopes = np.zeros(60)
    slopes[[7, 55]] = 1.0, 2.0
    X = RNG.normal(size=(300, 60))
    found = importance(_Line(slopes), {"linear": X}, Question("number", "y", X @ slopes), 1)
    assert found["column"][:2] == ["x55", "x7"]
    assert len(found["column"]) == _MOST_COLUMNS
    assert found["asked"] == 60


def test_effects_of_a_line_are_the_line():
    X = RNG.normal(size=(200, 2))
    frame = pd.DataFrame(X, columns=["x0", "x1"])
    (found,) = effects(_Line([3.0, -1.0]), {"linear": X}, frame, {"x0": "number"}, ["x0"])
    np.testing.assert_allclose(np.diff(found["mean"]), 3 * np.diff(found["values"]))
    assert (found["low"] <= found["mean"]).all()
    assert (found["mean"] <= found["high"]).all()
    classed = effects(_Line([3.0, -1.0], ("no", "yes")), {"linear": X}, frame, {"x0": "number"}, ["x0"])[0]
    assert classed["said"] == "P(yes)"
    assert (np.diff(classed["mean"]) > 0).all()


@pytest.mark.cheap
@pytest.mark.parametrize(
    ("scale", "shift", "said"),
    [(1.0, 0.0, None), (2.0, 0.0, "too narrow"), (0.5, 0.0, "too wide"), (1.0, 1.0, "above the middle")],
)
def test_residuals_say_what_is_wrong_and_nothing_where_nothing_is(scale, shift, said):
    words = _studied(scale, shift)["words"]
    if said is None:
        assert words == {"coverage": [], "residuals": [], "warnings": []}
    else:
        assert any(said in line for line in words["residuals"])
        assert any("90 % intervals hold" in line for line in words["coverage"])


def test_rows_beyond_what_was_learnt_and_columns_that_say_all_are_warned_of():
    X = RNG.normal(size=(200, 2))
    frame, model = pd.DataFrame(X, columns=["x0", "x1"]), _Line([100.0, 0.0])
    laws = model.laws_of({"linear": X}, 200)
    pairs = [(laws, Question("number", "y", X @ [100.0, 0.0]))]
    found = study(model, frame, pairs, _described(frame), 0, frame[frame["x1"] < 0])
    text = " ".join(found["words"]["warnings"])
    assert "beyond x1" in text
    assert "comes from x0" in text
    assert "beyond x0" not in text


def _table():
    rng = np.random.default_rng(1)
    x, count = rng.normal(size=200), 200
    frame = pd.DataFrame({"<i>x</i>": x, "colour": rng.choice(["red", "blue & green"], count)})
    frame["y"] = 2 * x + (frame["colour"] == "red") + rng.normal(size=count)
    frame["label"] = np.where(frame["y"] > 0.5, "high", "low")
    frame.loc[3, "y"] = np.nan
    return frame


@pytest.fixture(scope="module")
def raced():
    return fit_table(_table(), "y", drop=["label"], candidates=("Bayesian linear",), seed=1)


@pytest.fixture(scope="module")
def classed():
    return fit_table(_table(), "label", drop=["y"], candidates=("linear discriminant",), seed=1)


def test_the_page_is_whole_and_asks_no_network(raced, tmp_path):
    raced.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert len(page) < 1_000_000
    images = re.findall(r"<img [^>]*>", page)
    assert len(images) == 9
    assert all(re.search(r"alt='[^']{20,}'", image) for image in images)
    assert page.count("<figcaption>") == len(images)
    assert "<i>x</i>" not in page
    assert "&lt;i&gt;x&lt;/i&gt;" in page
    assert not re.search(r"https?://|<script|<link|url\(", page)
    for title in ("The question", "The models", "Promises kept", "Calibration", "What matters", "Effects",
                  "Residuals", "The worst-predicted rows", "The data", "How to use the model"):  # fmt: skip
        assert f"<h2>{title}" in page


@pytest.mark.thorough
def test_the_page_of_a_file_is_that_of_the_fit(raced, classed, tmp_path):
    for fit in (raced, classed):
        fit.save(tmp_path / "model")
        again = TableFit.load(tmp_path / "model")
        for each, name in ((fit, "one.html"), (again, "two.html")):
            each.report(tmp_path / name)
        assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()
    assert "What was taken for what" in (tmp_path / "two.html").read_text()


def test_worst_rows_have_the_numbers_of_the_table(raced):
    lines = raced.study["worst"]["lines"]
    assert len({line[0] for line in lines}) == len(lines)
    assert all(1 <= int(line[0]) <= 200 and line[0] != "4" for line in lines)
    scores = [float(line[4]) for line in lines]
    assert scores == sorted(scores)


def test_every_picture_of_a_raced_table_is_drawn(raced):
    for kind in kinds_of(raced):
        drawn = tr.plot(raced, kind=kind)
        assert (drawn[0] if isinstance(drawn, list) else drawn).get_figure() is not None
    assert next(iter(kinds_of(raced))) == "leaderboard"


@pytest.mark.thorough
def test_pictures_of_classes_are_drawn_and_those_of_numbers_refused(classed):
    for kind in kinds_of(classed):
        if kind in ("outcomes", "residuals"):
            with pytest.raises(ValueError, match="study of numbers"):
                tr.plot(classed, kind=kind)
        else:
            tr.plot(classed, kind=kind)


def test_a_fit_that_was_not_examined_has_a_page_without_a_study(raced, tmp_path):
    bare = copy.copy(raced)
    bare.study = {}
    bare.report(tmp_path / "bare.html")
    page = (tmp_path / "bare.html").read_text()
    assert "The models" in page
    assert "What matters" not in page
    with pytest.raises(ValueError, match="examine"):
        tr.plot(bare, kind="importance")


@pytest.mark.cheap
@pytest.mark.parametrize(("count", "first"), [(60, 25), (7001, 2500)])  # all rows, and every third
def test_rows_of_several_folds_are_those_of_one(count, first):
    X = RNG.normal(size=(count, 2))
    frame, model = pd.DataFrame(X, columns=["x0", "x1"]), _Line([2.0, 1.0])
    y = X @ [2.0, 1.0] + RNG.normal(size=count)
    laws, question = model.laws_of({"linear": X}, count), Question("number", "y", y, places=np.arange(count))
    parts = [(laws.take(rows), question.take(rows)) for rows in (slice(0, first), slice(first, count))]
    one, two = (study(model, frame, p, _described(frame), 0) for p in ([(laws, question)], parts))
    assert (one["ranks"]["counts"] == two["ranks"]["counts"]).all()
    assert one["worst"] == two["worst"]
    assert (one["coverage"]["held"] == two["coverage"]["held"]).all()
    step = -(-count // 3000)
    wanted = np.argsort(question.take(slice(None, None, step)).y - X[::step] @ [2.0, 1.0])
    assert one["rows"] == len(wanted)
    assert one["worst"]["lines"][0][0] in (str(step * wanted[0]), str(step * wanted[-1]))


@pytest.mark.thorough
def test_few_rows_are_studied_by_those_held_out_and_warned_of():
    rng = np.random.default_rng(2)
    x = rng.normal(size=30)
    found = fit_table({"x": x, "y": x + 0.1 * rng.normal(size=30)}, "y", candidates=("Bayesian linear",))
    assert found.study["rows"] == 30
    assert found.study["ranks"]["counts"].sum() == pytest.approx(30)
    assert any("There are 30 rows" in line for line in found.warnings)
