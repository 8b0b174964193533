r"""Protocols that models meet and algorithms ask for; supervised tasks; errors on seen and unseen data.

Models.      Explicit models know $\log p(x)$ (`HasLogProb`); implicit ones can only draw (`HasSample`).
             Discriminative models give $p(y \mid x)$ (`Conditional`, `Predictor`); generative ones $p(x, y)$
             (`Generative`), from which $p(y \mid x) \propto p(x, y)$ follows (`class_log_probs`).
             Data generation $p(x \mid y)$ is a `Conditional` from labels, whose distributions are drawn from.
Use.         Inference asks a model for marginals and conditionals (`HasQueries`); estimation asks for the
             model of highest likelihood (`HasEM`, `Predictor.fit`) or for a distribution over models
             (`HasPosterior`).
Membership.  By methods, at run time: `isinstance(model, HasLogProb)`. No base class, nothing to register.
Cost.        None: names only.
"""

import enum
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax.numpy as jnp
import numpy as np

from tractable.core.checks import as_float, check, check_length
from tractable.core.numerics import log_softmax
from tractable.core.types import Array

__all__ = [
    "Conditional", "Errors", "Generative", "HasEM", "HasLogJoint", "HasLogProb", "HasMarginals",
    "HasPosterior", "HasPotentials", "HasPredictions", "HasQueries", "HasSample", "HasTotals", "Predictor",
    "Task", "class_log_probs", "errors", "is_implicit", "task_of",
]  # fmt: skip


@runtime_checkable
class HasLogProb(Protocol):
    r"""An explicit model: the log-density of each point, $\log p(x)$."""

    def log_prob(self, x: Any) -> Any: ...


@runtime_checkable
class HasSample(Protocol):
    """A model that can be drawn from: `sample(key, shape)`."""

    def sample(self, key: Any, shape: Any = ()) -> Any: ...


@runtime_checkable
class HasLogJoint(Protocol):
    r"""A model with parts that are not observed: $\log p(x, z)$, up to a constant where it says so."""

    def log_joint(self, *parts: Any) -> Any: ...


@runtime_checkable
class HasEM(Protocol):
    """A model with additive statistics: `e_step(rows, weights) -> (stats, log_evidence)`, `m_step(stats) ->
    model`."""

    def e_step(self, rows: Any, weights: Any) -> Any: ...

    def m_step(self, stats: Any) -> Any: ...


@runtime_checkable
class HasTotals(Protocol):
    """Rows, wherever they are: `total(function)` adds `function(rows, weights)` over all of them, once for
    each call where they are `reiterable`."""

    reiterable: bool

    def total(self, function: Callable[[Any, Any], Any]) -> Any: ...


@runtime_checkable
class HasPotentials(Protocol):
    """A model that is a product of factors: `potentials()` gives them."""

    def potentials(self) -> Any: ...


@runtime_checkable
class HasPosterior(Protocol):
    """A model with an exact distribution over its unknowns given data: `posterior(data)`."""

    def posterior(self, data: Any) -> Any: ...


@runtime_checkable
class HasMarginals(Protocol):
    """A joint distribution of named variables: `marginals(evidence)` gives that of each of the others."""

    def marginals(self, evidence: Any = None) -> Any: ...


@runtime_checkable
class HasPredictions(Protocol):
    """A fitted model: `predict_dist(features)` gives the distribution of each target."""

    def predict_dist(self, features: Any) -> Any: ...


@runtime_checkable
class HasQueries(Protocol):
    """A joint distribution that answers: `marginal(names)`, `condition(evidence)`."""

    def marginal(self, names: Any) -> Any: ...

    def condition(self, evidence: Any = None) -> Any: ...


@runtime_checkable
class Conditional(Protocol):
    r"""$p(y \mid x)$: called with one $x$, it returns a distribution. Every callable passes the check."""

    def __call__(self, x: Any) -> Any: ...


@runtime_checkable
class Generative(Protocol):
    r"""$p(x, y)$: `log_joint(x, y)` for one pair, and `sample(key, shape)` of pairs."""

    def log_joint(self, x: Any, y: Any) -> Any: ...

    def sample(self, key: Any, shape: Any = ()) -> Any: ...


@runtime_checkable
class Predictor(Protocol):
    """A supervised estimator: `fit(features, targets)`, then `predict` values or `predict_dist`
    distributions."""

    def fit(self, features: Any, targets: Any) -> Any: ...

    def predict(self, features: Any) -> Any: ...

    def predict_dist(self, features: Any) -> Any: ...


class Task(enum.Enum):
    """What is learnt from features: numbers, categories, or the distribution of the features alone."""

    regression = "regression"
    classification = "classification"
    unsupervised = "unsupervised"


class Errors(NamedTuple):
    """Mean losses on the rows that a model was fitted to and on rows that it has not seen, with standard
    errors."""

    train: float
    test: float
    train_standard_error: float
    test_standard_error: float

    @property
    def gap(self) -> float:
        """How much worse the model does on unseen rows."""
        return self.test - self.train

    @property
    def gap_standard_error(self) -> float:
        """The standard error of the gap for independent rows."""
        return float(np.hypot(self.train_standard_error, self.test_standard_error))


def is_implicit(model: Any) -> bool:
    """Whether a model can be drawn from but has no density."""
    return isinstance(model, HasSample) and not isinstance(model, HasLogProb)


def class_log_probs(model: HasLogJoint, x: Any, labels: Sequence[Any] | Array) -> Array:
    r"""$\log p(y \mid x) = \log p(x, y) - \log \sum_{y'} p(x, y')$ over `labels`: a generative model as a
    classifier."""
    return log_softmax(jnp.stack([model.log_joint(x, label) for label in labels]))


def task_of(targets: Any, *, task: Task | str | None = None, max_classes: int = 20) -> Task:
    """The task that targets ask for; `task` overrides the rule.

    1. No targets: unsupervised. 2. Text, booleans, categorical columns and other objects: classification. 3.
    Floats: regression, even where all are whole; labels stored as floats need `task` or a cast. 4. Whole
    numbers are ambiguous, labels or counts. They are labels if there are at most `max_classes` distinct ones
    and on average each occurs twice or more; otherwise they are numbers.

    >>> task_of(["spam", "ham"]).value, task_of(np.array([0.5, 1.5])).value, task_of(np.arange(100)).value
    ('classification', 'regression', 'regression')
    """
    if task is not None:
        names = [member.value for member in Task]
        check(isinstance(task, Task) or task in names, "task", f"one of {names}", repr(task))
        return Task(task)
    if targets is None:
        return Task.unsupervised
    values = _as_targets(targets)
    kind = values.dtype.kind
    if hasattr(targets, "cat") or kind in "USOTb":
        return Task.classification
    must = "numbers, text, booleans or categories"
    check(kind in "fiu", "targets", must, values.dtype, error=TypeError)
    if kind == "f":
        return Task.regression
    distinct = len(np.unique(values))
    few = distinct <= max_classes and 2 * distinct <= values.size
    return Task.classification if few else Task.regression


def errors(
    predict: Callable[[Any], Any],
    train: tuple[Any, Any],
    test: tuple[Any, Any],
    loss: Callable[[Any, Any], Any] | None = None,
) -> Errors:
    """The training error and the test error of `predict`, from pairs (features, targets).

    `loss(targets, predictions)` gives one number per row; by default squared error for numbers and 0 or 1 for
    categories, by the task of the training targets.
    """
    if loss is None:
        loss = _wrong if task_of(train[1]) is Task.classification else _squared
    seen, unseen = _row_losses("train", predict, train, loss), _row_losses("test", predict, test, loss)
    return Errors(seen.mean().item(), unseen.mean().item(), _standard_error(seen), _standard_error(unseen))


def _as_targets(targets: Any) -> np.ndarray:
    """Targets as an array without missing values; objects that are all numbers become numbers."""
    values = np.asarray(targets)
    check(values.size > 0, "targets", "at least one value", f"shape {values.shape}")
    if values.dtype.kind == "O":
        missing = np.array([value is None for value in values.flat])
    else:
        missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(1, bool)
    if hasattr(targets, "isna"):
        missing = np.asarray(targets.isna())
    check(not missing.any(), "targets", "without missing values", "some", "Drop those rows, or impute them.")
    return np.array(values.tolist()) if values.dtype.kind == "O" else values


def _row_losses(name: str, predict: Callable, data: tuple[Any, Any], loss: Callable) -> np.ndarray:
    features, targets = data
    predictions = predict(features)
    check_length(f"predict({name})", np.asarray(predictions), f"targets of {name}", np.asarray(targets))
    losses = np.asarray(loss(targets, predictions), float)
    one_each = losses.shape == np.shape(targets)[:1] and losses.size > 0
    check(
        one_each, "loss", f"one number for each of the {np.shape(targets)[:1]} rows", f"shape {losses.shape}"
    )
    return losses


def _squared(targets: Any, predictions: Any) -> np.ndarray:
    difference = np.asarray(as_float("targets", targets)) - np.asarray(as_float("predictions", predictions))
    return np.square(difference).reshape(len(difference), -1).sum(1)


def _wrong(targets: Any, predictions: Any) -> np.ndarray:
    return (np.asarray(targets) != np.asarray(predictions)).astype(float)


def _standard_error(losses: np.ndarray) -> float:
    """The standard error of a mean; NaN for one row, which says nothing about spread."""
    return float(losses.std(ddof=1) / np.sqrt(losses.size)) if losses.size > 1 else float("nan")
