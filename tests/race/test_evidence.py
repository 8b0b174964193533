"""Evidences beside log-scores: by quadrature, with the Jacobian of a logarithm, and refused where they have
no grounds."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from tractable.estimators import BayesianLinearRegressor
from tractable.race import fit_table
from tractable.race.candidates import candidates_for
from tractable.race.evidence import evidences, stated
from tractable.race.members import fit_member
from tractable.race.question import Question

RNG = np.random.default_rng(4)
X = RNG.normal(size=(14, 1))
Z = (X - X.mean()) / X.std()


def _stated(name, task, y, columns=X, **beside):
    (candidate,) = candidates_for(task, (name,))
    asked = Question(task, "y", y, **beside)
    return stated(candidate, fit_member(candidate, columns, asked, 0), asked)


def _axis(low, high, count):
    """Nodes and the logarithm of their spacing."""
    nodes = np.linspace(low, high, count)
    return nodes, np.log(nodes[1] - nodes[0])


def _by_quadrature(log_density, level, slope, noise, priors):
    """log of the integral of rows' densities over intercept, slope and `noise`, with `priors` of the last
    two."""
    (b, db), (w, dw), (s, ds) = level, slope, noise
    total = stats.norm(0, 10).logpdf(b)[:, None, None] + priors(w, s)[None]
    for row, target in zip(Z[:, 0], log_density):
        total = total + target(b[:, None, None] + w[None, :, None] * row, s[None, None])
    return float(logsumexp(total)) + db + dw + ds


def _slope_prior(w, log_density_of_deviation):
    """The density of a slope whose normal prior's deviation has a prior of its own."""
    t, dt = _axis(-9, 7, 1200)
    logs = stats.norm.logpdf(w[:, None], scale=np.exp(t)) + log_density_of_deviation(np.exp(t)) + t
    return logsumexp(logs, axis=1) + dt


def test_a_model_of_the_logarithm_states_its_density_of_the_target():
    y = np.exp(1.5 + 0.7 * X[:, 0] + 0.4 * RNG.normal(size=14))
    rows = [lambda m, s, v=v: stats.lognorm.logpdf(v, np.exp(s), scale=np.exp(m)) for v in y]

    def priors(w, s):
        noise = stats.halfcauchy.logpdf(np.exp(s)) + s
        return _slope_prior(w, stats.halfcauchy.logpdf)[:, None] + noise[None]

    middle = np.log(y).mean()
    axes = _axis(middle - 1.5, middle + 1.5, 90), _axis(-0.8, 2.2, 90), _axis(-2.2, 1.0, 70)
    found = _stated("Bayesian linear of the logarithm", "positive", y)
    assert found.value * 14 == pytest.approx(_by_quadrature(rows, *axes, priors), abs=1e-3)
    assert found.grounds.basis == "proper"


def test_the_intercept_of_counts_has_a_prior_without_the_rows():
    y = RNG.poisson(np.exp(1.6 + 0.5 * X[:, 0])).astype(float)
    rows = [lambda m, s, v=v: stats.poisson.logpmf(v, np.exp(m)) + 0 * s for v in y]
    priors = lambda w, s: _slope_prior(w, lambda d: stats.expon.logpdf(d, scale=1 / 2.3))[:, None] + 0 * s  # noqa: E731
    middle = np.log(y.mean())
    axes = _axis(middle - 2, middle + 2, 160), _axis(-1.5, 2.5, 160), (np.zeros(1), 0.0)
    found = _stated("Poisson regression", "count", y)
    assert found.value * 14 == pytest.approx(_by_quadrature(rows, *axes, priors), abs=0.02)
    assert found.grounds.measure == "mass"


def test_of_nested_linear_models_the_one_that_explains_the_rows_has_the_larger_evidence():
    z = RNG.normal(size=(60, 3))
    y = np.exp(z[:, 0] + 0.5 * RNG.normal(size=60))
    parts = {str(k): [_stated("Bayesian linear of the logarithm", "positive", y, z[:, :k])] for k in (1, 3)}
    parts["other"] = [_stated("Bayesian linear of the logarithm", "positive", y, z[:, 1:])]
    found, refused = evidences(parts, "density")
    assert found["1"] > found["3"] > found["other"] + 0.5
    assert not refused


def test_a_row_of_weight_two_is_the_row_twice():
    y = np.exp(X[:, 0] + RNG.normal(size=14))
    twice = np.repeat(np.arange(14), 2)
    one = _stated("Bayesian linear of the logarithm", "positive", y, weights=np.full(14, 2.0))
    two = _stated("Bayesian linear of the logarithm", "positive", y[twice], X[twice])
    assert one.value == pytest.approx(two.value, rel=1e-9)


def test_what_has_no_grounds_is_refused_by_name():
    y = X[:, 0] + RNG.normal(size=14)
    flat = _stated("Bayesian linear", "number", y)
    made = _stated("heteroscedastic linear", "number", y)
    count = _stated("Bayesian linear", "count", np.round(np.abs(y) * 5))
    (candidate,) = candidates_for("count", ("Poisson regression",))
    asked = Question("count", "y", np.round(np.abs(y) * 5))
    part = candidate._replace(enough_rows=10)
    some = stated(part, fit_member(part, X, asked, 0), asked)
    assert "improper" in evidences({"flat": [flat]}, "density")[1]["flat"]
    assert "made of the data" in evidences({"made": [made]}, "density")[1]["made"]
    found, refused = evidences({"count": [count], "some": [some], "trees": [None]}, "mass")
    assert not found
    assert "where others state a mass" in refused["count"]
    assert "part of the rows" in refused["some"]
    assert BayesianLinearRegressor().fit(X, y).log_evidence_ == pytest.approx(flat.value * 14)


def test_counts_with_too_much_spread_are_told_by_both_currencies():
    rng = np.random.default_rng(2)
    x = rng.normal(size=190)  # five folds
    y = rng.negative_binomial(1.5, 1.5 / (1.5 + np.exp(1.5 + 0.3 * x)))
    names = ("Poisson regression", "negative binomial regression", "Bayesian linear")
    found = fit_table({"x": x, "y": y}, "y", task="count", candidates=names, examine=False)
    line = {each.name: each for each in found.standings}
    assert line[names[1]].evidence > line[names[0]].evidence + 0.5
    # the evidence a row is the mean of scores from few rows to many, so it is near the score and below it
    assert line[names[1]].evidence == pytest.approx(line[names[1]].log_score, abs=0.15)
    assert "negative binomial regression leads" in found.evidence_sentence
    assert "Bayesian linear (a density" in found.evidence_sentence
    told = {each["name"]: each["evidence"] for each in found.as_dict()["models"]}
    assert told["Bayesian linear"] is None
    assert told[names[1]] == pytest.approx(line[names[1]].evidence)
    assert "evidence a row" in repr(found)
