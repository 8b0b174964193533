"""Rows as numbers: the two forms against scikit-learn, new rows, no leak from targets, likeness, files."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import tractable as tr
from tractable.tables import TableEncoder, WrongTable, describe_table, read_table
from tractable.tables.impact import FOLDS, Impact, variance_ratio

N = 200
FORMS = pytest.mark.parametrize("form", ["linear", "trees"])


def _frame(n=N, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "x": rng.normal(5, 2, n), "k": rng.poisson(3, n).astype(float),
        "colour": rng.choice(["red", "blue", "grey"], n),
        "grade": rng.choice(["low", "medium", "high"], n), "flag": rng.choice([True, False], n),
        "when": pd.date_range("2021-03-01", periods=n, freq="7h").strftime("%Y-%m-%d %H:%M"),
        "town": [f"t{t}" for t in rng.integers(0, 60, n)],
        "story": [" ".join(rng.choice(["old", "new", "near", "far", "sea", "hill"], 6)) for _ in range(n)],
    })  # fmt: skip
    frame.loc[::7, "x"] = np.nan
    frame.loc[::11, "colour"] = None
    frame["y"] = rng.normal(size=n)
    return frame


@pytest.fixture(scope="module")
def fitted():
    frame = _frame()
    found = describe_table(frame, target="y")
    return frame, {
        form: TableEncoder(found, form=form).fit(frame, frame["y"]) for form in ("linear", "trees")
    }


def test_linear_form_is_that_of_scikit_learn():
    frame = pd.DataFrame({"x": [1.0, 2.0, 4.0, 9.0], "c": ["a", "b", "c", "a"]})
    wanted = np.hstack([
        StandardScaler().fit_transform(frame[["x"]]),
        OneHotEncoder(sparse_output=False).fit_transform(frame[["c"]]),
    ])  # fmt: skip
    np.testing.assert_allclose(TableEncoder({"c": "category"}).fit_transform(frame), wanted, rtol=1e-12)


@FORMS
def test_every_column_has_a_name_and_a_source(fitted, form):
    frame, encoders = fitted
    encoder = encoders[form]
    table = encoder.transform(frame)
    assert table.dtype == np.float64
    assert table.shape == (N, len(encoder.feature_names_))
    assert len(set(encoder.feature_names_)) == table.shape[1]
    assert set(encoder.groups_.values()) == set(encoder.columns_) == set(frame.columns) - {"y"}
    assert list(encoder.get_feature_names_out()) == list(encoder.groups_)
    gaps = np.isnan(table).any(1)
    assert gaps.any() == (form == "trees")


def test_gaps_are_medians_with_a_sign_or_stay(fitted):
    frame, encoders = fitted
    linear, trees = encoders["linear"], encoders["trees"]
    column = linear.transform(frame)[:, linear.feature_names_.index("x missing")]
    np.testing.assert_array_equal(column, frame["x"].isna())
    kept = trees.transform(frame)[:, trees.feature_names_.index("x")]
    np.testing.assert_array_equal(kept, frame["x"])
    x = linear.transform(frame)[:, linear.feature_names_.index("x")]
    filled = frame["x"].fillna(frame["x"].median())
    np.testing.assert_allclose(x, (filled - filled.mean()) / filled.std(ddof=0), rtol=1e-10)


def test_skewed_sizes_have_their_logarithms_too():
    rng = np.random.default_rng(7)
    sizes = pd.DataFrame({"size": np.exp(rng.normal(size=300)), "plain": rng.normal(size=300)})
    sizes.loc[0, "size"] = 0.0
    encoder = TableEncoder().fit(sizes)
    assert encoder.feature_names_ == ("size", "plain", "log size")
    assert encoder.groups_["log size"] == "size"
    logs = np.log(np.maximum(sizes["size"], sizes["size"][1:].min() / 2)).to_numpy()
    np.testing.assert_allclose(encoder.transform(sizes)[:, 2], (logs - logs.mean()) / logs.std(), rtol=1e-9)
    assert TableEncoder(form="trees").fit(sizes).feature_names_ == ("size", "plain")


@FORMS
def test_new_rows_in_any_order_with_levels_never_seen(fitted, form):
    frame, encoders = fitted
    encoder = encoders[form]
    whole = encoder.transform(frame)
    np.testing.assert_array_equal(encoder.transform(frame[frame.columns[::-1]]), whole)
    np.testing.assert_array_equal(encoder.transform(frame.iloc[[3, 1]]), whole[[3, 1]])  # rows by themselves
    new = frame.iloc[:2].assign(colour="mauve", town="nowhere", other=1.0)
    coded = encoder.transform(new)
    names = list(encoder.feature_names_)
    if form == "trees":
        assert np.isnan(coded[:, names.index("colour")]).all()
    else:
        assert not coded[:, [names.index(n) for n in names if n.startswith("colour")]].any()
        assert coded[:, names.index("town other")].all()
    with pytest.raises(WrongTable, match="there must be a column 'x'"):
        encoder.transform(frame.drop(columns="x"))
    with pytest.raises(WrongTable, match="'x' must hold numbers; got 'much' in row 2"):
        encoder.transform(frame.astype({"x": object}).assign(x=[1.5, "much"] + [2] * (N - 2)))
    with pytest.raises(WrongTable, match="must be fitted"):
        TableEncoder().transform(frame)


def test_levels_are_the_same_whatever_type_they_come_in():
    encoder = TableEncoder({"c": "category"}).fit(pd.DataFrame({"c": [1, 2, 3, 1]}))
    wanted = encoder.transform(pd.DataFrame({"c": [1, 2]}))
    for cells in (
        [1.0, 2.0],
        ["1", "2"],
        ["1.0", "2.0"],
        [" 1 ", "2"],
        pd.Categorical([1, 2]),
        pd.array([1, 2], "Int64"),
    ):
        np.testing.assert_array_equal(encoder.transform(pd.DataFrame({"c": cells})), wanted)


def test_dates_become_trend_season_week_and_day():
    days = pd.date_range("2020-01-01", periods=800, freq="D")
    linear = TableEncoder().fit(pd.DataFrame({"d": days}))
    table = pd.DataFrame(linear.transform(pd.DataFrame({"d": days})), columns=linear.feature_names_)
    np.testing.assert_array_equal(table["d Monday"], days.day_of_week == 0)
    np.testing.assert_allclose(
        table["d year sin1"], np.sin(2 * np.pi * (days.day_of_year - 1) / 365.2425), atol=1e-9
    )
    assert not any("day sin" in name for name in table.columns)  # there are no times of day
    trees = TableEncoder(form="trees").fit(pd.DataFrame({"d": days.strftime("%d.%m.%Y")}))
    parts = pd.DataFrame(trees.transform(pd.DataFrame({"d": ["05.02.2021"]})), columns=trees.feature_names_)
    wanted = {"d year": 2021, "d month": 2, "d day": 5, "d day of year": 36, "d weekday": 4}
    assert {name: parts[name].item() for name in wanted} == wanted


def test_rare_levels_are_pooled_and_ordered_ones_have_a_place():
    cells = ["a"] * 60 + ["b"] * 30 + list("cdefghijkl")
    encoder = TableEncoder({"c": "category"}).fit(pd.DataFrame({"c": cells}))
    assert encoder.feature_names_ == ("c=a", "c=b", "c other")
    assert encoder.transform(pd.DataFrame({"c": ["a", "e", "never"]})).tolist() == [
        [1, 0, 0],
        [0, 0, 1],
        [0, 0, 1],
    ]
    grades = pd.DataFrame({"g": ["low", "high", "medium", "low"]})
    ordered = TableEncoder({"g": "ordered"}).fit(grades)
    place = ordered.transform(grades)[:, ordered.feature_names_.index("g order")]
    np.testing.assert_allclose(place, StandardScaler().fit_transform([[0], [2], [1], [0]])[:, 0])


def test_shrinkage_is_that_of_the_analysis_of_variance():
    rng = np.random.default_rng(1)
    levels, size, tau, sigma = 400, 10, 2.0, 3.0
    codes = np.repeat(np.arange(levels), size)
    t = tau * rng.normal(size=levels)[codes] + sigma * rng.normal(size=len(codes))
    t -= t.mean()
    ratio = variance_ratio(np.bincount(codes).astype(float), np.bincount(codes, t), t @ t)
    assert ratio == pytest.approx(sigma**2 / tau**2, rel=4 * np.sqrt(2 / levels + 2 / len(codes)))
    folds = rng.integers(0, FOLDS, len(codes))
    found = Impact("c").fit(codes, folds, t[:, None], levels).transform(codes, folds)[:, 0]
    row = 37
    others = (codes == codes[row]) & (folds != folds[row])
    assert found[row] == pytest.approx(t[others].sum() / (others.sum() + ratio) / t.std(), rel=1e-9)


@FORMS
def test_many_levels_are_coded_without_a_leak(form):
    """Levels that say nothing do not explain the rows that they were coded from; others explain new rows."""
    rng = np.random.default_rng(2)
    n, levels = 4_000, 1_000
    frame = pd.DataFrame({"town": [f"t{t}" for t in rng.integers(0, levels, n)], "x": rng.normal(size=n)})
    noise, effect = rng.normal(size=n), rng.normal(size=levels)
    codes = frame["town"].str[1:].astype(int)
    for target, least, most in ((noise, -0.01, 0.02), (2 * effect[codes] + noise, 0.5, 0.8)):
        encoder = TableEncoder({"town": "category"}, form=form).fit(frame, target)
        column = [j for j, name in enumerate(encoder.feature_names_) if "impact" in name]
        table = encoder.transform(frame)[:, column] if column else np.zeros((n, 1))
        assert least < LinearRegression().fit(table, target).score(table, target) < most
    new = pd.DataFrame({"town": [f"t{t}" for t in rng.integers(0, levels, n)], "x": rng.normal(size=n)})
    fresh = 2 * effect[new["town"].str[1:].astype(int)] + rng.normal(size=n)
    model = LinearRegression().fit(table, target)
    assert model.score(encoder.transform(new)[:, column], fresh) == pytest.approx(
        model.score(table, target), abs=0.05
    )


def test_classes_and_gaps_in_the_target_are_coded():
    frame = _frame(400)
    for y in (
        np.where(frame["x"] > 5, "a", "b"),
        frame["grade"],
        frame["y"].where(frame["k"] > 2),
        frame["colour"],
    ):
        table = TableEncoder().fit(frame.drop(columns="y"), y).transform(frame)
        assert np.isfinite(table).all()
    with pytest.raises(WrongTable, match="a value for each of the 400 rows; got 3"):
        TableEncoder().fit(frame, [1.0, 2.0, 4.5])


@FORMS
def test_state_is_plain_and_gives_the_same_bits(fitted, form, tmp_path):
    encoders = fitted[1]
    tr.save(tmp_path / "encoder.tractable", encoders[form].state())
    again = TableEncoder.from_state(tr.load(tmp_path / "encoder.tractable"))
    new = _frame(50, seed=3)
    assert again.transform(new).tobytes() == encoders[form].transform(new).tobytes()
    assert again.unlike(new).tolist() == encoders[form].unlike(new).tolist()
    assert (again.feature_names_, again.groups_) == (encoders[form].feature_names_, encoders[form].groups_)


def test_rows_that_went_through_files_are_the_same_rows(tmp_path):
    rng = np.random.default_rng(8)
    frame = pd.DataFrame({
        "two": rng.choice([1.0, 2.0, np.nan], N), "zip": rng.integers(10_000, 10_060, N),
        "flag": rng.choice([True, False], N), "bit": rng.integers(0, 2, N), "x": rng.normal(size=N),
        "when": pd.date_range("2020-01-01", periods=N),
    })  # fmt: skip
    frame["flag"] = frame["flag"].astype(object).where(frame["bit"] == 0)
    path = tmp_path / "rows.csv"
    frame.to_csv(path, index=False)
    table = read_table(path)
    encoder = TableEncoder(form="trees").fit(table, frame["x"])
    wanted = encoder.transform(table)
    assert {"two": "category", "zip": "category", "flag": "boolean"}.items() <= encoder.kinds_.items()
    np.testing.assert_array_equal(encoder.transform(frame), wanted)
    for rows in (1, 20):
        table.iloc[:rows].to_csv(path, index=False)
        np.testing.assert_array_equal(
            encoder.transform(read_table(path, kinds=encoder.kinds_)), wanted[:rows]
        )


def test_in_pipelines_of_scikit_learn():
    frame = _frame()
    pipeline = make_pipeline(clone(TableEncoder(form="linear")), LinearRegression())
    assert pipeline.fit(frame.drop(columns="y"), frame["y"]).predict(frame).shape == (N,)
    with pytest.raises(ValueError, match="`form` must be one of 'linear', 'trees'"):
        TableEncoder(form="forest").fit(frame)


def test_rows_unlike_the_training_rows_are_marked_and_others_are_not():
    rng = np.random.default_rng(4)
    z = rng.normal(size=(3_000, 2))

    def made(z):
        return pd.DataFrame({"a": z[:, 0], "b": z[:, 0] + z[:, 1] / 10, "c": np.where(z[:, 1] > 0, "u", "v")})

    encoder = TableEncoder().fit(made(z[:1_000]))
    assert encoder.unlike(made(z[1_000:])).mean() < 0.01
    odd = pd.DataFrame(
        {"a": [9.0, 1.0, 0.0, 1.5, np.nan], "b": [9.0, 1.0, 0.0, -1.5, 0.0], "c": list("uuwuu")}
    )
    assert encoder.unlike(odd).tolist() == [
        True,
        False,
        True,
        True,
        False,
    ]  # far, plain, new level, together, gap
    towns = pd.DataFrame({"t": [f"t{k}" for k in range(300)] * 2 + [f"u{k}" for k in range(100)], "x": 0.5})
    open_ended = TableEncoder({"t": "category"}).fit(towns)
    assert not open_ended.unlike(
        pd.DataFrame({"t": ["new"], "x": [0.5]})
    ).any()  # new levels were to be expected


@pytest.mark.cheap
@pytest.mark.parametrize("tail", ["uniform", "normal", "student", "lognormal"])
def test_false_alarms_are_one_in_a_hundred_whatever_the_tails(tail):
    rng = np.random.default_rng(6)
    shape = (6_000, 20)
    draws = {
        "uniform": rng.uniform(size=shape), "normal": rng.normal(size=shape),
        "student": rng.standard_t(2, shape), "lognormal": np.exp(1.5 * rng.normal(size=shape)),
    }  # fmt: skip
    frame = pd.DataFrame(draws[tail], columns=[f"x{j}" for j in range(20)])
    encoder = TableEncoder().fit(frame.iloc[:400])
    rate = encoder.unlike(frame.iloc[400:]).mean()
    assert rate < 0.02
    far = frame.iloc[400:500].assign(x3=frame["x3"].abs().max() * 50)
    assert encoder.unlike(far).all()


def test_drift_of_a_table_is_named():
    frame = _frame(400).drop(columns="y")
    encoder = TableEncoder().fit(frame)
    assert encoder.drift(_frame(300, seed=5)) == ()
    moved = _frame(300, seed=6).assign(k=lambda f: f["k"] + 5, colour="mauve")
    moved.loc[:200, "x"] = np.nan
    assert {(note.code, note.column) for note in encoder.drift(moved)} == {
        ("drift_mean", "k"), ("drift_levels", "colour"), ("drift_missing", "x")
    }  # fmt: skip


def test_degenerate_tables():
    one = pd.DataFrame({"x": [1.5], "c": ["a"]})
    kinds = {"x": "number", "c": "category"}
    assert np.isfinite(TableEncoder(kinds).fit(one).transform(one)).all()
    same = pd.DataFrame({"x": [2.0, 2.0], "big": [1e300, 1.0], "inf": [np.inf, 1.0]})
    coded = TableEncoder({"x": "number", "inf": "number", "big": "number"}).fit(same).transform(same)
    assert np.isfinite(coded).all()
    assert not coded[:, 0].any()
    none = TableEncoder().fit(pd.DataFrame({"x": [1, 1]}))
    assert none.transform(pd.DataFrame({"x": [1, 1]})).shape == (2, 0)


def test_numbers_whose_squares_are_none_are_gaps_and_their_rows_unlike():
    seen = pd.DataFrame({"x": np.linspace(0, 1, 50)})
    new = pd.DataFrame({"x": [0.5, 1e300, -np.inf, np.nan]})
    for form in ("linear", "trees"):
        encoder = TableEncoder({"x": "number"}, form=form).fit(seen)
        middle, *others = encoder.transform(new)[:, 0]
        np.testing.assert_array_equal(others, [others[2]] * 3)
        assert middle == (0.5 if form == "trees" else 0.0)
        assert encoder.unlike(new).tolist() == [False, True, True, False]
    assert describe_table(new.assign(x=[1.0, 2.0, 3.5, 1e300])).notes[0].code == "infinite"
