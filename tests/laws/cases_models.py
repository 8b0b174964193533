"""Small fitted models of `supervised` and `gp`, each with the method that answers at new rows."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.kernels.stationary import RBF

__all__ = ["CASES", "NEW", "ROWS", "ModelCase"]

_RBF = RBF(jnp.asarray(1.0))
_RNG = np.random.default_rng(5)
ROWS, NEW = _RNG.normal(size=(12, 2)), _RNG.normal(size=(3, 2))


@dataclass(frozen=True)
class ModelCase:
    """How a model is fitted (`build(number)`: to one of two targets) and asked (`answer(model, rows)`)."""

    name: str
    build: Callable[[int], Any]
    answer: Callable[[Any, Any], Any]
    rows: Any = None  # new rows, where they are not `NEW`

    def __str__(self) -> str:
        return self.name


def _numbers(number: int) -> np.ndarray:
    return np.sin(ROWS[:, 0]) + 0.3 * ROWS[:, 1] * (1 + number) + 0.1 * np.cos(9 * ROWS[:, 1])


def _classes(number: int) -> np.ndarray:
    order = np.argsort(np.argsort(ROWS[:, number] + 0.5 * np.sin(7 * ROWS[:, 1 - number])))
    return order // 4


def _bits(number: int) -> np.ndarray:
    order = np.argsort(np.argsort(ROWS[:, 0] + 0.8 * np.sin(7 * ROWS[:, 1] + number)))
    return order // 6


def _counts() -> np.ndarray:
    return np.abs(np.round(2 * ROWS)).astype(float)


def _called(path: str, target: Callable[[int], Any] | None, *parts: Any, rows: Any = ROWS, **options: Any):
    """`path(rows, target, ...)`, looked up when the model is fitted."""

    def build(number: int) -> Any:
        module, _, name = path.rpartition(".")
        module, _, owner = module.rpartition(".") if module.split(".")[-1][0].isupper() else (module, "", "")
        found = importlib.import_module(f"tractable.{module}")
        function = getattr(getattr(found, owner) if owner else found, name)
        targets = () if target is None else (target(number),)
        return function(rows, *targets, *parts, **options)

    return build


def _signs(number: int) -> np.ndarray:
    return 2 * _bits(number) - 1


def _case(name: str, build: Callable[[int], Any], method: str = "predict", **options: Any) -> ModelCase:
    return ModelCase(name, build, lambda model, rows: getattr(model, method)(rows), **options)


def _statistics(path: str, *parts: Any, pick: Any = lambda found: found, **options: Any):
    def build(number: int) -> Any:
        statistics = _called("supervised.bayes_linear.statistics.regression_statistics", _numbers)(number)
        module, _, name = path.rpartition(".")
        function = getattr(importlib.import_module(f"tractable.{module}"), name)
        return pick(function(statistics, *parts, **options))

    return build


def _process(make: Callable[[], Any], target: Callable[[int], Any] = _numbers, **options: Any):
    return lambda number: make().posterior(ROWS, target(number), **options)


def _gp(**options: Any) -> Any:
    from tractable.gp.regression import GaussianProcess

    return GaussianProcess(_RBF, noise=0.1, **options)


def _sparse() -> Any:
    from tractable.gp.sparse import SparseProcess

    return SparseProcess(_RBF, ROWS[:4], noise=0.1)


def _student(number: int) -> Any:
    from tractable.gp.student import student_posterior

    return student_posterior(_gp(), ROWS, _numbers(number))


def _multi_output(number: int) -> Any:
    from tractable.gp.multi_output import MultiOutputProcess

    process = MultiOutputProcess(_RBF, np.eye(2), 0.1 * np.ones(2))
    return process.posterior(ROWS, np.column_stack([_numbers(number), ROWS[:, 0]]))


def _classifier() -> Any:
    from tractable.gp.classification import ClassificationProcess

    return ClassificationProcess(_RBF)


def _softmax_process(number: int) -> Any:
    from tractable.gp.multiclass import multiclass_posterior

    return multiclass_posterior(_RBF, ROWS, _classes(number), 3)


def _latent_rows(path: str, *parts: Any, model: bool = False, **options: Any):
    """`path.fit` of rows (of others for another number), of which the model is kept."""

    def build(number: int) -> Any:
        module, name = path.split(".")
        cls = getattr(importlib.import_module(f"tractable.latent.factor.{module}"), name)
        found = cls.fit(ROWS * [1.0, 1.0 + number], *parts, **options)
        return found.model if model else found

    return build


def _mean(model: Any, rows: Any) -> Any:
    return model.predict_dist(rows).mean


def _latent(model: Any, rows: Any) -> Any:
    return model.latent(rows).mean


_LINEAR, _FAMILIES, _TREES = "supervised.linear", "supervised.generative", "supervised.trees"
_LOGISTIC, _SVM, _BAYES = "supervised.logistic", "supervised.svm", "supervised.bayes_linear"
_KEY: dict[str, Any] = {"key": jr.key(3)}

CASES = [
    _case("least squares", _called(f"{_LINEAR}.least_squares.ordinary_least_squares", _numbers)),
    ModelCase("least squares, a new target",
              _called(f"{_LINEAR}.least_squares.ordinary_least_squares", _numbers), _mean),
    _case("ridge", _called(f"{_LINEAR}.ridge.ridge", _numbers, 0.5)),
    _case("lasso", _called(f"{_LINEAR}.lasso.lasso", _numbers, 0.1)),
    ModelCase("lasso, a new target", _called(f"{_LINEAR}.lasso.lasso", _numbers, 0.1), _mean),
    _case("kernel ridge", _called(f"{_LINEAR}.kernel_ridge.KernelRidge.fit", _numbers, _RBF, 0.5)),
    _case("kernel ridge variance",
          _called(f"{_LINEAR}.kernel_ridge.KernelRidge.fit", _numbers, _RBF, 0.5), "variance"),
    ModelCase("ridge path", _called(f"{_LINEAR}.ridge.ridge_path", _numbers),
              lambda path, rows: rows @ path.coefficients(0.7) + path.intercept(0.7)[None]),
    _case("robust", _called(f"{_LINEAR}.robust.robust_regression", _numbers)),
    _case("recursive", lambda number: _called(f"{_LINEAR}.recursive.RecursiveModel.start", None)(0).update(
        ROWS, _numbers(number))),
    _case("naive Bayes", _called(f"{_FAMILIES}.naive_bayes.fit_naive_bayes", _classes), "posterior"),
    _case("naive Bayes of counts",
          _called(f"{_FAMILIES}.naive_bayes.fit_naive_bayes", _classes, "poisson", rows=_counts()),
          "log_posterior", rows=_counts()[:3]),
    _case("naive Bayes of words",
          _called(f"{_FAMILIES}.naive_bayes.fit_naive_bayes", _classes, "multinomial", rows=_counts()),
          "log_posterior", rows=_counts()[:3]),
    _case("naive Bayes of bits",
          _called(f"{_FAMILIES}.naive_bayes.fit_naive_bayes", _classes, "bernoulli", rows=1.0 * (ROWS > 0)),
          "log_posterior", rows=1.0 * (NEW > 0)),
    _case("naive Bayes of categories",
          _called(f"{_FAMILIES}.naive_bayes.fit_naive_bayes", _classes, "categorical", rows=_counts()),
          "log_posterior", rows=_counts()[:3]),
    _case("linear discriminant",
          _called(f"{_FAMILIES}.discriminant.fit_gaussian_discriminant", _classes, tied=True), "posterior"),
    _case("linear discriminant scores",
          _called(f"{_FAMILIES}.discriminant.fit_gaussian_discriminant", _classes, tied=True),
          "discriminant"),
    _case("quadratic discriminant",
          _called(f"{_FAMILIES}.discriminant.fit_gaussian_discriminant", _classes, shrinkage=0.5),
          "posterior"),
    _case("tree", _called(f"{_TREES}.growth.fit_tree", _numbers, criterion="variance"), "values"),
    _case("forest", _called(f"{_TREES}.forests.fit_forest", _classes, num_trees=3, **_KEY), "values"),
    _case("rotation forest",
          _called(f"{_TREES}.rotation.fit_rotation_forest", _classes, num_trees=3, **_KEY), "values"),
    _case("boosted trees", _called(f"{_TREES}.boosting.fit_adaboost", _classes, num_rounds=3),
          "probabilities"),
    _case("support vectors", _called(f"{_SVM}.machine.SupportVectorMachine.fit", _signs, _RBF),
          "decision"),
    _case("pairwise machine",
          lambda number: _called(f"{_SVM}.multiclass.fit_pairwise", _classes, _RBF)(number)[0],
          "decisions"),
    _case("support vector regression",
          _called(f"{_SVM}.regression.SupportVectorRegression.fit", _numbers, _RBF)),
    _case("linear machine", _called(f"{_SVM}.primal.soft_margin", _signs), "decision"),
    _case("least-squares machine",
          _called(f"{_SVM}.least_squares.LeastSquaresMachine.fit", _numbers, _RBF), "decision"),
    _case("two-sided sigmoid",
          lambda number: _called(f"{_SVM}.calibration.fit_two_sided", _signs, rows=ROWS[:, 0])(number),
          "__call__", rows=NEW[:, 0]),
    _case("Platt's sigmoid", _called(f"{_SVM}.calibration.fit_platt", _signs, rows=ROWS[:, 0]), "__call__",
          rows=NEW[:, 0]),
    _case("isotonic curve", _called(f"{_SVM}.calibration.fit_isotonic", _signs, rows=ROWS[:, 0]),
          "__call__", rows=NEW[:, 0]),
    _case("perceptron",
          _called("supervised.perceptrons.perceptron.Perceptron.fit", _signs, max_epochs=5), "decision"),
    _case("kernel perceptron",
          _called("supervised.perceptrons.perceptron.KernelPerceptron.fit", _signs, _RBF, max_epochs=5),
          "decision"),
    _case("nearest neighbours",
          _called("supervised.neighbours.search.NearestNeighbours.fit", _numbers, 3), "regression"),
    _case("logistic", _called(f"{_LOGISTIC}.binary.fit_logistic", _bits, penalty=0.1), "predict_proba"),
    _case("softmax", _called(f"{_LOGISTIC}.softmax.fit_softmax", _classes, penalty=0.1), "predict_proba"),
    _case("probit", _called(f"{_LOGISTIC}.probit.fit_probit", _bits, penalty=0.1), "predict_proba"),
    _case("Bayesian logistic",
          _called(f"{_LOGISTIC}.bayes.fit_bayes_logistic", _bits, prior_precision=1.0), "predict_proba"),
    _case("Bayesian softmax",
          _called(f"{_LOGISTIC}.bayes_softmax.fit_bayes_softmax", _classes), "predict_proba"),
    _case("Bayesian linear", _called(f"{_BAYES}.posterior.bayesian_linear", _numbers)),
    ModelCase("Bayesian linear, a new target",
              _called(f"{_BAYES}.posterior.bayesian_linear", _numbers), _mean),
    _case("evidence", _statistics(f"{_BAYES}.evidence.maximise_evidence", pick=lambda fit: fit.model)),
    _case("unknown noise", _statistics(f"{_BAYES}.noise.conjugate_linear")),
    _case("full Bayes", _statistics(f"{_BAYES}.full.full_bayes_linear", num_ratios=4, num_noises=3)),
    _case("relevance", _statistics(f"{_BAYES}.relevance.relevance_regression", pick=lambda fit: fit.model)),
    _case("exact process", _process(_gp), "mean"),
    ModelCase("exact process, a new target", _process(_gp), _mean),
    _case("iterative process",  # a key for each build
          lambda number: _process(_gp, method="iterative", key=jr.key(3 + number))(number), "mean"),
    _case("sparse process", _process(_sparse), "mean"),
    ModelCase("Student process", _student, _latent),
    ModelCase("several outputs", _multi_output, _latent),
    _case("classification process", _process(_classifier, _bits), "probability"),
    _case("softmax process",
          _softmax_process,
          "probability"),
    _case("principal components", _latent_rows("principal.PrincipalComponents", 1), "transform"),
    _case("principal reconstruction", _latent_rows("principal.PrincipalComponents", 1), "reconstruct"),
    _case("sparse components", _latent_rows("sparse.SparseComponents", 1, penalty=0.1), "transform"),
    _case("probabilistic PCA", _latent_rows("probabilistic.ProbabilisticPCA", 1, model=True), "log_prob"),
    _case("factor analysis", _latent_rows("analysis.FactorAnalysis", 1, model=True), "transform"),
    _case("kernel components",
          _latent_rows("kernel_principal.KernelPrincipalComponents", _RBF, 2), "transform"),
    _case("independent components", _latent_rows("independent.IndependentComponents", **_KEY), "log_prob"),
    _case("canonical correlation", _latent_rows("canonical.CanonicalCorrelation", np.sin(ROWS)), "transform"),
]  # fmt: skip
