"""A row of weight two is the row twice, one of weight zero is absent: in everything that takes weights."""

import importlib

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.gp.classification import ClassificationProcess
from tractable.gp.multi_output import MultiOutputProcess
from tractable.gp.regression import GaussianProcess
from tractable.gp.sites import METHODS
from tractable.gp.sparse import SparseProcess
from tractable.graphs.scores import SCORES as GRAPH_SCORES
from tractable.kernels.stationary import RBF

RNG = np.random.default_rng(0)
X, NEW = np.round(RNG.normal(size=(24, 2)), 1), RNG.normal(size=(5, 2))
NUMBERS = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.2 * RNG.normal(size=24)
BITS = (X[:, 0] + 0.8 * RNG.normal(size=24) > 0).astype(int)
CLASSES = np.argsort(np.argsort(X[:, 1] + RNG.normal(size=24))) // 8
SIGNS, SCORES = 2 * BITS - 1, np.round(RNG.normal(size=24) + BITS, 1)
FRAME = np.column_stack([BITS, CLASSES, RNG.integers(0, 2, 24)])
NUMERIC = {"a": X[:, 0], "b": X[:, 1], "c": NUMBERS}
COUNTS = np.resize([2, 0, 1, 3, 1, 1], 24)
COPIES = np.repeat(np.arange(24), COUNTS)
GAUSSIAN = RBF(jnp.asarray(1.0))
OUTPUTS = MultiOutputProcess(GAUSSIAN, np.array([[1.0, 0.4], [0.4, 0.8]]), np.array([0.1, 0.2]))
GRAPH = {"x0": [], "x1": ["x0"], "x2": ["x1"]}


def named(path):
    """What a dotted name in the library stands for."""
    parts = path.split(".")
    depth = next(i for i in range(len(parts), 0, -1) if not parts[i - 1][0].isupper() and i < len(parts))
    found = importlib.import_module(".".join(["tractable", *parts[:depth]]))
    for name in parts[depth:]:
        found = getattr(found, name)
    return found


def model(path, y, *parts, ask="predict", **options):
    """The answer of `path(X, y, *parts, weights=...)` at new rows."""

    def answer(index, weights):
        fitted = named(path)(X[index], y[index], *parts, weights=weights, **options)
        return getattr(fitted, ask)(NEW)

    return answer


def values(path, *columns, ask=lambda found: found, **options):
    """A result of `path(*columns, weights=...)` itself."""
    return lambda index, weights: ask(named(path)(*(c[index] for c in columns), weights=weights, **options))


def process(made, y, ask=lambda post: post.latent(NEW).variance, **options):
    """The evidence of a process, and what its posterior says."""

    def answer(index, weights):
        post = made.posterior(X[index], y[index], weights, **options)
        return np.append(np.ravel(ask(post)), np.ravel(post.log_evidence))

    return answer


def statistics(path):
    gather = named("supervised.bayes_linear.statistics.regression_statistics")
    return lambda index, weights: named(path)(gather(X[index], NUMBERS[index], weights)).model.predict(NEW)


def student(index, weights):
    fit = named("gp.student.student_posterior")
    post = fit(GaussianProcess(GAUSSIAN), X[index], NUMBERS[index], weights)
    return np.append(post.latent(NEW).variance, [post.bound, post.scale])


def network(path, ask, frame=FRAME, **options):
    return lambda index, weights: ask(named(path)(frame[index], weights=weights, **options))


def gaussian_network(index, weights):
    rows = {name: column[index] for name, column in NUMERIC.items()}
    fit = named("graphs.learning_gaussian.fit_gaussian_network")
    return fit(rows, {"a": [], "b": ["a"], "c": ["a", "b"]}, weights=weights).joint.cov


LINEAR, LOGISTIC, BAYES = "supervised.linear", "supervised.logistic", "supervised.bayes_linear"
SVM, TREES, CURVE = "supervised.svm", "supervised.trees", np.linspace(-2, 2, 9)
CRITERIA = {"classes": (CLASSES, "gini"), "numbers": (np.round(NUMBERS), "variance")}
CASES = {
    "least squares": model(f"{LINEAR}.least_squares.ordinary_least_squares", NUMBERS),
    "ridge": model(f"{LINEAR}.ridge.ridge", NUMBERS, penalty=0.5),
    **{f"penalty by {name}": values(f"{LINEAR}.ridge.choose_penalty", X, NUMBERS, criterion=name)
       for name in ("loo", "gcv", "evidence")},
    "lasso": model(f"{LINEAR}.lasso.lasso", NUMBERS, 0.5),
    **{f"{loss} loss": model(f"{LINEAR}.robust.robust_regression", NUMBERS, loss=loss)
       for loss in ("huber", "absolute", "student")},
    "kernel ridge": model(f"{LINEAR}.kernel_ridge.KernelRidge.fit", NUMBERS, GAUSSIAN, 0.3, ask="variance"),
    "logistic": model(f"{LOGISTIC}.binary.fit_logistic", BITS, penalty=1.0, ask="predict_proba"),
    "probit": model(f"{LOGISTIC}.probit.fit_probit", BITS, penalty=1.0, ask="predict_proba"),
    "softmax": model(f"{LOGISTIC}.softmax.fit_softmax", CLASSES, penalty=1.0, ask="predict_proba"),
    "Laplace": model(f"{LOGISTIC}.bayes.laplace_logistic", BITS, ask="predict_proba"),
    "Bayesian softmax": model(f"{LOGISTIC}.bayes_softmax.fit_bayes_softmax", CLASSES, ask="predict_proba"),
    "Bayesian linear": model(f"{BAYES}.posterior.bayesian_linear", NUMBERS, 0.3, 1.7),
    "evidence": statistics(f"{BAYES}.evidence.maximise_evidence"),
    "relevance": statistics(f"{BAYES}.relevance.relevance_regression"),
    "discriminant": model("supervised.generative.discriminant.fit_gaussian_discriminant", CLASSES,
                          ask="posterior"),
    "naive Bayes": model("supervised.generative.naive_bayes.fit_naive_bayes", CLASSES, ask="posterior"),
    "neighbours": model("supervised.neighbours.search.NearestNeighbours.fit", NUMBERS, 4, ask="regression"),
    "tree": model(f"{TREES}.growth.fit_tree", CLASSES, min_samples_leaf=3, ask="values"),
    **{f"{fit} of {kind}": model(f"{TREES}.{fit}", y, key=jr.key(0), num_trees=5, criterion=criterion,
                                 ask="values")
       for fit in ("forests.fit_forest", "rotation.fit_rotation_forest")
       for kind, (y, criterion) in CRITERIA.items()},
    "boosting": model(f"{TREES}.boosting.fit_adaboost", BITS, num_rounds=5, ask="probabilities"),
    "margin": model(f"{SVM}.machine.SupportVectorMachine.fit", SIGNS, GAUSSIAN, tol=1e-9, ask="decision"),
    "tube": model(f"{SVM}.regression.SupportVectorRegression.fit", NUMBERS, GAUSSIAN, tol=1e-9),
    "share of errors": model(f"{SVM}.regression.fit_nu_classes", SIGNS, GAUSSIAN, 0.3, tol=1e-9,
                             ask="decision"),
    "share outside": model(f"{SVM}.regression.fit_nu_regression", NUMBERS, GAUSSIAN, 0.4, 2.0, tol=1e-9),
    "squared margin": model(f"{SVM}.least_squares.LeastSquaresMachine.fit", NUMBERS, GAUSSIAN, 2.0),
    **{name: values(f"{SVM}.calibration.{name}", SCORES, SIGNS, ask=lambda curve: curve(CURVE))
       for name in ("fit_platt", "fit_isotonic", "fit_two_sided")},
    "ROC": values("supervised.selection.losses.roc_curve", BITS, SCORES, ask=lambda curve: curve.area),
    "confusion": values("supervised.selection.losses.confusion_matrix", CLASSES, BITS, num_classes=3),
    "process": process(GaussianProcess(GAUSSIAN, noise=0.1), NUMBERS),
    "sparse process": process(SparseProcess(GAUSSIAN, NEW, 0.1), NUMBERS),
    "outputs": process(OUTPUTS, np.column_stack([NUMBERS, BITS])),
    **{f"labels by {name}": process(ClassificationProcess(GAUSSIAN), BITS, lambda post: post.probability(NEW),
                                    method=name)
       for name in METHODS},
    "Student process": student,
    "network": network("graphs.learning.fit_network", lambda net: net.tables["x2"].probs, structure=GRAPH),
    "structure": network("graphs.structure.learn_structure", lambda found: found.score),
    **{f"score {name}": network("graphs.scores.score_structure", float, structure=GRAPH, score=name)
       for name in GRAPH_SCORES},
    "Gaussian network": gaussian_network,
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_weights_count_rows(name):
    weighted, repeated = CASES[name](np.arange(24), COUNTS.astype(float)), CASES[name](COPIES, None)
    np.testing.assert_allclose(np.asarray(weighted), np.asarray(repeated), rtol=1e-6, atol=1e-7)
