"""Maximum entropy: feature functions, expectations that match, solvers compared, the primal and its dual."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import null_space
from scipy.special import logsumexp, xlogy

from tractable.core.iterate import Status
from tractable.optim.kkt import kkt_report
from tractable.supervised.logistic.maxent import compare_solvers, feature_gap, feature_table, fit_maxent
from tractable.supervised.logistic.maxent_primal import maximise_entropy
from tractable.supervised.logistic.separation import SeparatedDataError
from tractable.supervised.logistic.softmax import fit_softmax

WORDS = ["nation", "run", "quickly", "motion", "fly", "mention", "sadly", "dog", "station", "jump"]
TAGS = ["Noun", "Verb", "Adverb", "Noun", "Verb", "Verb", "Adverb", "Noun", "Noun", "Verb"]
FEATURES = {
    "f_100": lambda x, y: x.endswith("tion") and y == "Noun",
    "ly and Adverb": lambda x, y: x.endswith("ly") and y == "Adverb",
    "short and Verb": lambda x, y: (len(x) < 5) and y == "Verb",
    "length and Noun": lambda x, y: len(x) / 4 if y == "Noun" else 0,
}
LABELS = ["Noun", "Verb", "Adverb"]


def products(num_rows=40, seed=0):
    """Random three-class data with the features $x_j 1[y = k]$."""
    generator = np.random.default_rng(seed)
    xs, ys = generator.normal(size=(num_rows, 2)), generator.integers(0, 3, num_rows)
    functions = {
        f"x{j} and {k}": (lambda x, y, j=j, k=k: x[j] * (y == k)) for j in range(2) for k in range(3)
    }
    return xs, ys, feature_table(functions, xs, [0, 1, 2])


def test_a_suffix_and_a_tag_make_a_feature():
    table = feature_table(FEATURES, WORDS, LABELS)
    dense = np.asarray(table.matrix().todense()).reshape(len(WORDS), 3, 4)
    for n, word in enumerate(WORDS):
        assert dense[n, 0, 0] == word.endswith("tion")
    assert dense[:, 1:, 0].sum() == 0
    assert dense[0, 0, 3] == 1.5
    assert (np.asarray(table.values) != 0).all()


def test_the_gradient_is_data_minus_model():
    table = feature_table(FEATURES, WORDS, LABELS)
    lam, step = np.array([0.5, -0.2, 0.3, 0.1]), 1e-6
    dense = np.asarray(table.matrix().todense()).reshape(len(WORDS), 3, 4)
    codes = [LABELS.index(tag) for tag in TAGS]

    def likelihood(lam):
        scores = dense @ lam
        return np.mean([s[c] - np.log(np.exp(s).sum()) for s, c in zip(scores, codes)])

    slope = [(likelihood(lam + m) - likelihood(lam - m)) / (2 * step) for m in step * np.eye(4)]
    np.testing.assert_allclose(feature_gap(lam, table, TAGS), slope, atol=1e-9)
    p = np.exp(dense @ lam)
    p /= p.sum(1, keepdims=True)
    data = np.mean([dense[n, c] for n, c in enumerate(codes)], axis=0)
    np.testing.assert_allclose(
        feature_gap(lam, table, TAGS), data - np.einsum("nk,nki->i", p, dense) / 10, atol=1e-13
    )


def test_solvers_agree_and_curvature_saves_steps():
    _, ys, table = products()
    found = compare_solvers(table, ys, penalty=0.5)
    for model in found.values():
        np.testing.assert_allclose(model.weights, found["newton"].weights, atol=1e-6)
        assert model.status is Status.converged
    steps = {name: int(model.num_steps) for name, model in found.items()}
    assert steps["newton"] < steps["lbfgs"] < steps["gradient"]


def test_expectations_match_at_the_maximum_and_the_model_is_softmax_regression():
    xs, ys, table = products()
    model = fit_maxent(table, ys)
    assert float(model.gap) < 1e-8
    np.testing.assert_allclose(feature_gap(model.weights, table, ys), 0, atol=1e-8)
    other = fit_softmax(xs, ys, intercept=False)
    np.testing.assert_allclose(model.predict_proba(table), other.predict_proba(xs), atol=1e-7)
    np.testing.assert_allclose(-model.log_likelihood * 40, other.loss, rtol=1e-9)


def test_primal_and_dual_on_random_three_class_data():
    _, ys, table = products()
    primal, dual = maximise_entropy(table, ys), fit_maxent(table, ys)
    np.testing.assert_allclose(primal.entropy, -dual.log_likelihood, atol=1e-9)
    np.testing.assert_allclose(primal.probs, dual.predict_proba(table), atol=1e-7)
    assert primal.gap < 1e-12
    assert float(primal.mismatch) < 1e-12
    assert primal.status is Status.converged
    scores = (table.matrix() @ np.asarray(primal.multipliers)).reshape(40, 3)
    np.testing.assert_allclose(
        np.exp(scores - 1 - np.asarray(primal.normalisers)[:, None]), primal.probs, atol=1e-9
    )


def test_entropy_is_minus_the_likelihood_where_no_feature_tells_rows_apart():
    """Then both are the entropy of the shares of the labels."""
    table = feature_table({"0": lambda x, y: y == 0, "1": lambda x, y: y == 1}, [0, 0, 0], [0, 1, 2])
    counts = np.array([3.0, 1.0, 2.0])
    primal = maximise_entropy(table, [0, 1, 2], counts)
    dual = fit_maxent(table, [0, 1, 2], counts, solver="scipy")
    shares = counts / counts.sum()
    wanted = -(shares @ np.log(shares))
    np.testing.assert_allclose(primal.entropy, wanted, rtol=1e-9)
    np.testing.assert_allclose(-dual.log_likelihood, wanted, rtol=1e-9)
    np.testing.assert_allclose(primal.probs, np.tile(shares, (3, 1)), atol=1e-9)


def test_the_fitted_model_meets_the_conditions_of_the_primal():
    """Stationarity and feasibility of the conditional maximum-entropy problem, at the fit of the dual."""
    _, ys, table = products(12, 5)
    model, features = fit_maxent(table, ys, solver="newton", tol=1e-12), np.asarray(table.matrix().todense())
    probs, share = model.predict_proba(table), 1 / 12
    rows = jnp.asarray(np.vstack([share * features.T, np.kron(np.eye(12), np.ones(3))]))
    level = jnp.asarray(rows @ np.eye(3)[ys].ravel())
    scores = (features @ np.asarray(model.weights)).reshape(12, 3)
    normalisers = share * (logsumexp(scores, axis=1) - 1)
    report = kkt_report(
        lambda p: share * (p @ jnp.log(p)),
        probs.ravel(),
        equality=lambda p: rows @ p - level,
        inequality=lambda p: -p,
        equality_multipliers=np.concatenate([-np.asarray(model.weights), normalisers]),
        inequality_multipliers=np.zeros(36),
        tol=1e-8,
    )
    assert report.ok, report


def test_the_primal_has_more_entropy_than_any_feasible_neighbour():
    _, ys, table = products(8, 1)
    primal = maximise_entropy(table, ys)
    features = np.asarray(table.matrix().todense())
    free = null_space(np.vstack([features.T, np.kron(np.eye(8), np.ones(3))])).T
    best = np.asarray(primal.probs).ravel()
    np.testing.assert_allclose(free @ (np.log(best) + 1), 0, atol=1e-9)  # stationary, so the largest: concave
    step = 0.1 * best.min()
    for move in np.vstack([step * free, -step * free]):
        assert -xlogy(best + move, best + move).sum() / 8 < float(primal.entropy)
    np.testing.assert_allclose(features.T @ (best - np.eye(3)[ys].ravel()), 0, atol=1e-12)


def test_probabilities_that_must_be_zero_are():
    _, ys, table = products(8, 3)
    with pytest.raises(SeparatedDataError, match="x0 and 1"):
        fit_maxent(table, ys)
    primal = maximise_entropy(table, ys)
    assert primal.status is Status.converged
    assert primal.gap < 1e-9
    assert float(primal.mismatch) < 1e-12
    assert (np.asarray(primal.probs) == 0).any()
    near = fit_maxent(table, ys, penalty=1e-5, solver="scipy", max_steps=20_000)
    np.testing.assert_allclose(primal.probs, near.predict_proba(table), atol=1e-2)


def test_weights_count_rows():
    xs, ys, table = products(12, 5)
    w = np.resize([3.0, 1.0, 2.0], 12)
    repeated = np.repeat(np.arange(12), w.astype(int))
    functions = {
        name: (lambda x, y, j=int(name[1]), k=int(name[-1]): x[j] * (y == k)) for name in table.names
    }
    longer = feature_table(functions, xs[repeated], [0, 1, 2])
    once = fit_maxent(table, ys, w, penalty=1.0, solver="scipy")
    twice = fit_maxent(longer, ys[repeated], penalty=1.0, solver="scipy")
    np.testing.assert_allclose(once.weights, twice.weights, atol=1e-6)
    np.testing.assert_allclose(
        maximise_entropy(table, ys, w).entropy, maximise_entropy(longer, ys[repeated]).entropy, atol=1e-9
    )


def test_features_without_finite_weights_are_named():
    table = feature_table(
        {"always right": lambda x, y: x == y, "noise": lambda x, y: x * 0.1 * y}, [0, 1, 1], [0, 1]
    )
    with pytest.raises(SeparatedDataError, match=r"without finite weights: always right.*penalty"):
        fit_maxent(table, [0, 1, 1])
    assert fit_maxent(table, [0, 1, 1], penalty=1.0, solver="scipy").predict(table) == [0, 1, 1]


def test_bad_input_is_named():
    table = feature_table(FEATURES, WORDS, LABELS)
    with pytest.raises(ValueError, match=r"`targets` must be among the labels .*; got \['Pronoun'\]"):
        fit_maxent(table, ["Pronoun"] * 10)
    with pytest.raises(ValueError, match=r"`targets` must be one per row \(10\); got 2"):
        fit_maxent(table, ["Noun", "Verb"])
    with pytest.raises(
        ValueError, match=r"`weights` must be zero or positive, and finite; got inf at index 3"
    ):
        fit_maxent(table, TAGS, np.where(np.arange(10) == 3, np.inf, 1.0))
    with pytest.raises(ValueError, match=r"`labels` must be at least two, distinct"):
        feature_table(FEATURES, WORDS, ["Noun", "Noun"])
    with pytest.raises(ValueError, match=r"`functions` must be finite; got inf of 'bad'"):
        feature_table({"bad": lambda x, y: np.inf}, WORDS, LABELS)
    with pytest.raises(ValueError, match=r"`solver` must be one of"):
        fit_maxent(table, TAGS, solver="magic")
    with pytest.raises(ValueError, match=r"`table` must be of the same features"):
        fit_maxent(table, TAGS, penalty=1.0, solver="scipy").predict_proba(products()[2])
