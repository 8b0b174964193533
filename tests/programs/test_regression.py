"""Formulas: against dense algebra, quadrature, statsmodels and scikit-learn; names, predictions, faults."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.linalg import cholesky, solve_triangular
from scipy.special import logsumexp
from scipy.stats import halfnorm

import tractable as tr
from tractable.programs.formula import read_formula
from tractable.programs.regression_families import FAMILIES as FAMILIES_OF

RNG = np.random.default_rng(5)
N, G = 60, 6
GROUP = np.arange(N) % G
EFFECTS = np.array([1.5, -1.0, 0.3, -0.8, 0.9, -0.4])


def _table() -> pd.DataFrame:
    x = RNG.normal(3.0, 2.0, N)
    frame = pd.DataFrame({"x": x, "kind": np.array(["a", "b", "c"])[np.arange(N) % 3]})
    frame["group"] = [f"g{i}" for i in GROUP]
    frame["y"] = 1.0 + 0.5 * x + RNG.normal(0, 0.7, N)
    frame["z"] = frame["y"] + EFFECTS[GROUP]
    frame["count"] = RNG.poisson(np.exp(0.3 + 0.2 * x))
    frame["hit"] = RNG.uniform(size=N) < 1 / (1 + np.exp(1.5 - 0.5 * x))
    return frame


TABLE = _table()


@pytest.fixture(scope="module")
def plain():
    return tr.regression("y ~ x + kind", TABLE, key=0)


@pytest.fixture(scope="module")
def grouped():
    return tr.regression("z ~ x + (1 | group)", TABLE, key=0)


def _dense(columns: np.ndarray, y: np.ndarray, cov: np.ndarray, mean: float, nodes: np.ndarray, prior, extra):
    """Log-evidence and posterior mean of the coefficients by a sum over scales, each a dense normal."""
    logs, means = [], []
    for node, height in zip(nodes, prior):
        noise, more = extra(node)
        total = noise + columns @ cov @ columns.T
        root = cholesky(total, lower=True)
        white = solve_triangular(root, y - mean, lower=True)
        dense = -0.5 * white @ white - np.log(np.diag(root)).sum() - 0.5 * len(y) * np.log(2 * np.pi)
        logs.append(height + dense)
        means.append(cov @ columns.T @ solve_triangular(root, white, lower=True, trans=1) + more)
    return logsumexp(logs), np.exp(logs - logsumexp(logs)) @ np.array(means)


def _standardised(frame: pd.DataFrame, names: list[str]) -> tuple[np.ndarray, np.ndarray]:
    raw = pd.get_dummies(frame[names], drop_first=True).to_numpy(float)
    return np.column_stack([np.ones(len(raw)), (raw - raw.mean(0)) / raw.std(0)]), raw


def test_gaussian_coefficients_and_evidence_are_those_of_a_dense_integral(plain):
    y = TABLE["y"].to_numpy()
    columns, raw = _standardised(TABLE, ["x", "kind"])
    scale = 2.5 * y.std()
    step = 0.002
    sigmas = np.arange(0.3, 1.6, step)
    heights = halfnorm.logpdf(sigmas, scale=scale) + np.log(step)
    cov = scale**2 * np.eye(4)
    evidence, mean = _dense(
        columns, y, cov, y.mean(), sigmas, heights, lambda s: (s**2 * np.eye(N), np.zeros(4))
    )
    np.testing.assert_allclose(float(plain.log_evidence.value), evidence, atol=1e-6)
    slopes = mean[1:] / raw.std(0)
    for name, value in zip(["x", "kind[b]", "kind[c]"], slopes):
        assert abs(plain[name].mean() - value) < 4 * plain[name].std() / np.sqrt(4000)
    assert plain.explain().after == 1
    assert plain.verdict.ok


def test_wide_priors_give_least_squares():
    post = tr.regression("y ~ x + kind", TABLE, key=0, prior_scale=1e4)
    raw = np.column_stack([np.ones(N), pd.get_dummies(TABLE[["x", "kind"]], drop_first=True).to_numpy(float)])
    best, rest, *_ = np.linalg.lstsq(raw, TABLE["y"].to_numpy())
    errors = np.sqrt(rest[0] / (N - 4) * np.diag(np.linalg.inv(raw.T @ raw)))
    for name, value, error in zip(["Intercept", "x", "kind[b]", "kind[c]"], best, errors):
        assert abs(post[name].mean() - value) < 4 * error / np.sqrt(4000)
        assert abs(post[name].std() / error - 1) < 0.1


def test_random_intercepts_are_those_of_a_dense_integral(grouped):
    """A grid over both spreads, with the effects integrated in the marginal covariance of the rows."""
    y = TABLE["z"].to_numpy()
    columns, raw = _standardised(TABLE, ["x"])
    scale, design = 2.5 * y.std(), np.eye(G)[GROUP]
    steps = 0.04, 0.1
    nodes = [(s, t) for s in np.arange(0.4, 1.3, steps[0]) for t in np.arange(0.05, 12.0, steps[1])]
    both = halfnorm.logpdf(np.array(nodes), scale=scale).sum(1) + np.log(steps[0] * steps[1])

    def noise(node):
        return node[0] ** 2 * np.eye(N) + node[1] ** 2 * design @ design.T, np.zeros(2)

    evidence, mean = _dense(columns, y, scale**2 * np.eye(2), y.mean(), nodes, both, noise)
    np.testing.assert_allclose(float(grouped.log_evidence.value), evidence, atol=0.01)
    slope = grouped["x"]
    assert abs(slope.mean() - mean[1] / raw.std()) < 4 * slope.std() / np.sqrt(4000)
    assert grouped.explain().after == 2


def test_random_intercepts_are_near_those_of_a_mixed_model(grouped):
    mixed = pytest.importorskip("statsmodels.formula.api").mixedlm
    found = mixed("z ~ x", TABLE, groups=TABLE["group"]).fit()
    assert abs(grouped["x"].mean() - found.params["x"]) < 0.1 * found.bse["x"] + 4e-3
    for place in range(G):
        ours = grouped[f"1|group[g{place}]"].mean()
        assert abs(ours - float(found.random_effects[f"g{place}"].iloc[0])) < 0.15


@pytest.mark.thorough
def test_poisson_is_near_the_mode_of_its_likelihood():
    from sklearn.linear_model import PoissonRegressor

    post = tr.regression("count ~ x", TABLE, family="poisson", key=1, num_draws=500, progress=False)
    mode = PoissonRegressor(alpha=0, tol=1e-8).fit(TABLE[["x"]].to_numpy(), TABLE["count"])
    assert abs(post["x"].mean() - mode.coef_[0]) < 0.2 * post["x"].std()
    assert abs(post["Intercept"].mean() - mode.intercept_) < 0.2 * post["Intercept"].std()
    again = post.predict(key=2)
    assert abs(again.draws["count"].mean() - TABLE["count"].mean()) < 0.3


def test_names_and_priors_are_those_of_the_formula(grouped, plain):
    rows = list(grouped.summary().index)
    assert rows[:4] == ["Intercept", "x", "sd(1|group)", "sigma"]
    assert rows[4:] == [f"1|group[g{i}]" for i in range(G)]
    assert list(grouped.summary(["1|group"]).index) == rows[4:]
    assert grouped["1|group"].shape == (1, 4000, G)
    assert list(plain.summary().index)[2:4] == ["kind[b]", "kind[c]"]
    wide = 2.5 * TABLE["z"].std(ddof=0)
    assert f"Normal(0, {wide / TABLE['x'].std(ddof=0):.4g})" in repr(grouped.priors)
    assert "noise(group)[group] ~ Normal" in repr(grouped.statement)
    assert grouped.to_frame().shape == (4000, len(rows))
    with pytest.raises(ValueError, match=r"must be one of Intercept, x.*got 'x1'"):
        grouped["x1"]


def test_predictions_know_old_groups_and_spread_for_new_ones(grouped):
    new = pd.DataFrame({"x": [2.0, 2.0, 2.0], "group": ["g0", "other", "g1"]})
    found = grouped.predict(new, key=3)
    draws = found.draws["expected"][0]
    known = grouped["Intercept"][0] + 2 * grouped["x"][0] + grouped["1|group[g0]"][0]
    np.testing.assert_allclose(draws[:, 0], known, rtol=1e-9)
    assert draws[:, 1].std() > 2 * draws[:, 0].std()
    spread = np.sqrt((grouped["sd(1|group)"] ** 2).mean() + (grouped["Intercept"] + 2 * grouped["x"]).var())
    assert abs(draws[:, 1].std() / spread - 1) < 0.1
    assert abs(found.std["z"][0] ** 2 - draws[:, 0].var() - (grouped["sigma"] ** 2).mean()) < 0.05


def test_the_same_words_are_the_same_program():
    """Other numbers of the same shapes compile nothing anew."""
    from tractable.programs.regression_program import LinearProgram

    parts = ("gaussian", "y", ("x",), True, ())
    assert LinearProgram(*parts) == LinearProgram(*parts)
    assert hash(LinearProgram(*parts)) == hash(LinearProgram(*parts))


@pytest.mark.thorough
def test_correlated_slopes_are_found():
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(20), 8)
    cov = np.array([[1.0, 0.6 * 0.7], [0.6 * 0.7, 0.49]])
    effects = rng.multivariate_normal(np.zeros(2), cov, 20)
    x = rng.normal(size=groups.size)
    y = 2.0 - x + effects[groups, 0] + effects[groups, 1] * x + rng.normal(0, 0.5, x.size)
    frame = {"y": y, "x": x, "g": groups.astype(str)}
    post = tr.regression("y ~ x + (1 + x | g)", frame, key=0, num_draws=500, progress=False)
    kept = {name for name, _, _, what in post.explain().rows if what.startswith("stays")}
    assert kept == {"sd(1|g)", "sd(x|g)", "correlation(g)", "sigma"}
    assert post.verdict.ok
    for name, value in (("cor(1, x|g)", 0.6), ("sd(1|g)", 1.0), ("sd(x|g)", 0.7), ("sigma", 0.5)):
        assert abs(post[name].mean() - value) < 3 * post[name].std()
    new = post.predict({"x": [0.0, 0.0, 1.0], "g": ["0", "new", "new"]}, key=1).draws["expected"]
    assert new[..., 1].std() > 2 * new[..., 0].std()


FAMILIES = [
    ("student", "y ~ x", "x", 0.5),
    ("negative_binomial", "count ~ x", "x", 0.2),
    ("bernoulli", "hit ~ x", "x", 0.5),
    ("gamma", "np.exp(y) ~ x", "x", 0.5),
    ("binomial", "prop(hits, tries) ~ x", "x", 0.5),
]


LAWS = [
    ("student", {"degrees": 3.0, "sigma": 0.7}, stats.t(3.0, 0.4, 0.7), 0.4),
    ("poisson", {}, stats.poisson(np.exp(0.4)), np.exp(0.4)),
    ("negative_binomial", {"overdispersion": 0.5}, stats.nbinom(4.0, 4 / (4 + np.exp(0.4))), np.exp(0.4)),
    ("bernoulli", {}, stats.bernoulli(1 / (1 + np.exp(-0.4))), 1 / (1 + np.exp(-0.4))),
    ("binomial", {}, stats.binom(5, 1 / (1 + np.exp(-0.4))), 5 / (1 + np.exp(-0.4))),
    ("gamma", {"variation": 0.5}, stats.gamma(4.0, scale=np.exp(0.4) / 4), np.exp(0.4)),
]


@pytest.mark.cheap
@pytest.mark.parametrize(("family", "own", "oracle", "mean"), LAWS)
def test_every_family_has_its_law(family, own, oracle, mean):
    law = FAMILIES_OF[family].law(
        np.asarray(0.4), {n: np.asarray(v) for n, v in own.items()}, np.asarray(5.0)
    )
    log_prob = getattr(oracle, "logpdf", None) if family in ("student", "gamma") else oracle.logpmf
    np.testing.assert_allclose(float(law.log_prob(1)), log_prob(1), rtol=1e-6)
    np.testing.assert_allclose(float(law.mean), mean, rtol=1e-6)
    np.testing.assert_allclose(float(law.variance), oracle.var(), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "formula", "name", "value"), FAMILIES)
def test_every_family_finds_its_slope(family, formula, name, value):
    rng = np.random.default_rng(2)
    frame = TABLE.assign(tries=8)
    frame["hits"] = rng.binomial(8, 1 / (1 + np.exp(1.5 - 0.5 * frame["x"])))
    post = tr.regression(formula, frame, family=family, key=0, method="laplace")
    assert abs(post[name].mean() - value) < 4 * post[name].std()
    assert np.isfinite(post.predict(frame.iloc[:3], key=1).mean["expected"]).all()


@pytest.mark.thorough
def test_groups_of_counts():
    rng = np.random.default_rng(4)
    groups = np.repeat(np.arange(15), 10)
    effects, x = rng.normal(0, 0.8, 15), rng.normal(size=150)
    frame = {"k": rng.poisson(np.exp(1 + 0.3 * x + effects[groups])), "x": x, "g": groups.astype(str)}
    post = tr.regression("k ~ x + (1 | g)", frame, family="poisson", key=0, num_draws=500, progress=False)
    assert post.verdict.ok
    assert abs(post["sd(1|g)"].mean() - 0.8) < 3 * post["sd(1|g)"].std()
    assert abs(post["x"].mean() - 0.3) < 4 * post["x"].std()


def test_offsets_and_columns_without_an_intercept():
    frame = TABLE.assign(time=np.exp(0.1 * np.arange(N) / N))
    read = read_formula("count ~ 0 + kind + offset(np.log(time))", frame, None)
    assert read.labels == ("kind[a]", "kind[b]", "kind[c]")
    assert not read.has_intercept
    np.testing.assert_allclose(read.columns.offset, np.log(frame["time"]))


FAULTS = [
    ("y ~ x9", {}, r"`frame` must be a table with the column 'x9'; got x, kind.*mean x\?"),
    ("y ~", {}, r"`formula` must be like 'y ~ x .*got 'y ~'"),
    ("x", {}, r"`formula` must be one with a response"),
    ("y ~ gap", {}, r"`frame\['gap'\]` must be without missing values; got 2 gaps, the first in row 3"),
    ("y ~ x + same", {}, r"`same` must be a column that varies; got 7 in all rows\. .*intercept"),
    ("same ~ x", {}, r"`same` must be of values that differ"),
    ("y ~ np.log(x - 100)", {}, r"finite in every row"),
    ("y ~ x", {"family": "poisson"}, r"`y` must be counts: 0, 1, 2, .*got .*family is 'poisson'"),
    ("kind ~ x", {"family": "bernoulli"}, r"`kind` must be numbers, or words of two kinds; got 3 kinds"),
    ("kind ~ x", {}, r"kind"),
    ("count ~ x", {"family": "binomial"}, r"`count` must be successes and trials.*prop\("),
    ("y ~ x", {"family": "normal"}, r"`family` must be one of"),
    ("sigma ~ x", {}, r"`formula` must be free of names.*'sigma'.*rename"),
]


@pytest.mark.cheap
@pytest.mark.parametrize(("formula", "options", "words"), FAULTS)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_faults_are_named(formula, options, words):
    frame = TABLE.assign(same=7.0, gap=TABLE["x"], sigma=TABLE["y"])
    frame.loc[[3, 5], "gap"] = np.nan
    with pytest.raises(ValueError, match=words):
        tr.regression(formula, frame, key=0, **options)


@pytest.mark.thorough
def test_a_perfect_fit_is_refused():
    frame = {"y": np.tile([1.0, 2.0, 4.0], 4), "g": np.tile(["a", "b", "c"], 4)}
    with pytest.raises(ValueError, match=r"`y` must be of values that the formula does not explain"):
        tr.regression("y ~ (1 | g)", frame, key=0)


def test_a_posterior_can_be_kept(grouped, tmp_path):
    grouped.save(tmp_path / "post.safetensors")
    again = tr.load(tmp_path / "post.safetensors")
    assert repr(again.summary()) == repr(grouped.summary())
    assert repr(again.priors) == repr(grouped.priors)
    with pytest.raises(ValueError, match=r"read from a file"):
        again.predict({"x": [1.0], "group": ["g0"]}, key=0)


def test_new_tables_are_checked(plain):
    with pytest.raises(
        ValueError, match=r"`row 1` must have a category that was fitted \(a, b, c\).*got 'd'"
    ):
        plain.predict({"x": [1.0, 2.0], "kind": ["a", "d"]}, key=0)
    with pytest.raises(ValueError, match=r"`new_frame` must be a table with the column 'kind'"):
        plain.predict({"x": [1.0, 2.0]}, key=0)
    with pytest.raises(TypeError, match=r"`frame` must be a table of pandas"):
        tr.regression("y ~ x", np.zeros(3), key=0)
