"""Topics of counts as a scikit-learn estimator; the mathematics is in `latent.topics`.

Rows.        Documents, sparse or dense: how often each word stands in each. Weights count documents.
Fits.        "batch" (variational EM), "online" (natural-gradient steps over batches) or "gibbs" (collapsed).
"""

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from tractable.core.checks import check
from tractable.core.verdict import Verdict
from tractable.estimators.base import Transformer, key_from
from tractable.inference.expectation_maximisation.em import EM
from tractable.latent.topics.corpus import Corpus, as_corpus
from tractable.latent.topics.gibbs import collapsed_gibbs
from tractable.latent.topics.lda import LatentDirichletAllocation as Model
from tractable.latent.topics.online import OnlineTopics, natural_step

__all__ = ["LatentDirichletAllocation"]

_COUNT = [Interval(Integral, 1, None, closed="left")]
_POSITIVE = [Interval(Real, 0, None, closed="neither")]


class LatentDirichletAllocation(Transformer):
    """Topics by variational EM, online steps or collapsed Gibbs sampling.

    Parameters
    ----------
    n_components : number of topics.
    doc_topic_prior, topic_word_prior : concentrations; by default 1 / n_components and 0.01.
    learning_method : "batch", "online" or "gibbs".
    learn_priors : "nothing", "documents", "words", "both"; with "gibbs" also "hierarchical".
    max_iter : steps of EM, passes over the batches, or sweeps of the sampler.
    tol : change of the bound, relative to it, at which EM stops.
    batch_size, learning_decay, learning_offset, total_samples : of the online steps, and of `partial_fit`.

    Examples
    --------
    >>> X = np.array([[4, 3, 0, 0], [3, 5, 0, 0], [0, 0, 4, 4], [0, 0, 2, 5]])
    >>> found = LatentDirichletAllocation(2, random_state=0).fit(X)
    >>> found.transform(X).argmax(1)[[0, 2]].tolist() in ([0, 1], [1, 0])
    True
    """

    model_: Model
    verdict_: Verdict
    components_: np.ndarray
    n_batch_iter_: int
    _parameter_constraints: ClassVar[dict] = {
        "n_components": _COUNT, "doc_topic_prior": [*_POSITIVE, "array-like", None],
        "topic_word_prior": [*_POSITIVE, "array-like", None],
        "learning_method": [StrOptions({"batch", "online", "gibbs"})],
        "learn_priors": [StrOptions({"nothing", "documents", "words", "both", "hierarchical"})],
        "max_iter": _COUNT, "tol": [Interval(Real, 0, None, closed="left")], "batch_size": _COUNT,
        "learning_decay": [Interval(Real, 0.5, 1, closed="right")],
        "learning_offset": [Interval(Real, 1, None, closed="left")], "total_samples": _POSITIVE,
        "random_state": ["random_state"],
    }  # fmt: skip

    def __init__(self, n_components=10, *, doc_topic_prior=None, topic_word_prior=None,
                 learning_method="batch", learn_priors="nothing", max_iter=100, tol=1e-5, batch_size=128,
                 learning_decay=0.7, learning_offset=10.0, total_samples=1e6, random_state=None):  # fmt: skip
        self.n_components, self.doc_topic_prior = n_components, doc_topic_prior
        self.topic_word_prior, self.learning_method = topic_word_prior, learning_method
        self.learn_priors, self.max_iter, self.tol, self.batch_size = learn_priors, max_iter, tol, batch_size
        self.learning_decay, self.learning_offset = learning_decay, learning_offset
        self.total_samples, self.random_state = total_samples, random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only, tags.input_tags.sparse = True, True
        return tags

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def fit(self, X, y=None, sample_weight=None) -> "LatentDirichletAllocation":
        """Find the topics of the documents."""
        corpus, weights = self._documents(X, sample_weight)
        if self.learning_method == "gibbs":
            return self._sample(corpus, weights)
        learn = self.learn_priors
        check(
            learn != "hierarchical",
            "learn_priors",
            "'hierarchical' with learning_method='gibbs' alone",
            learn,
        )
        start = self._start(corpus)
        if self.learning_method == "online":
            steps = OnlineTopics(self.learning_decay, self.learning_offset, self.max_iter)
            run = steps.fit(start, corpus.rows, chunk=self.batch_size, weights=weights)
        else:
            run = EM(self.tol, self.max_iter).fit(start, corpus.rows, weights=weights)
        numbers = {"bound": float(run.values[-1])}
        return self._keep(run.state, int(run.num_steps), Verdict(run.status.ok, run.status.sentence, numbers))

    def partial_fit(self, X, y=None, sample_weight=None) -> "LatentDirichletAllocation":
        """One natural-gradient step with a batch out of `total_samples` documents."""
        first = not hasattr(self, "model_")
        corpus, weights = self._documents(X, sample_weight, reset=first)
        model = self._start(corpus) if first else self.model_
        seen = 0 if first else self.n_batch_iter_
        stats, _ = model.e_step(corpus.rows, weights)
        rate = (seen + self.learning_offset) ** -self.learning_decay
        said = f"{seen + 1} batches seen; nothing was tested for convergence."
        return self._keep(natural_step(model, stats, self.total_samples, rate), seen + 1, Verdict(True, said))

    def transform(self, X) -> np.ndarray:
        """The expected share of each topic in each document."""
        return self.model_.shares(self._new_documents(X))

    def score(self, X, y=None) -> float:
        """A lower bound of the log-evidence of the documents, given what is known of the topics."""
        return float(self.model_.infer(self._new_documents(X)).bounds.sum())

    def perplexity(self, X) -> float:
        """The exponential of less the score per word; `latent.topics.held_out` has it for words not seen."""
        corpus = self._new_documents(X)
        check(corpus.total > 0, "X", "documents with at least one word", "none")
        return float(np.exp(-self.model_.infer(corpus).bounds.sum() / corpus.total))

    def _start(self, corpus: Corpus) -> Model:
        learn = "nothing" if self.learn_priors == "hierarchical" else self.learn_priors
        return Model.random(
            self.n_components, corpus.num_words, key=key_from(self.random_state), learn=learn,
            document_prior=self.doc_topic_prior, word_prior=self.topic_word_prior,
        )  # fmt: skip

    def _sample(self, corpus: Corpus, weights: np.ndarray) -> "LatentDirichletAllocation":
        whole = weights == np.round(weights)
        check(bool(whole.all()), "sample_weight", "whole numbers, to sample each word's topic", weights.min())
        chain = collapsed_gibbs(
            corpus.take(np.repeat(np.arange(len(weights)), weights.astype(int))), self.n_components,
            key=key_from(self.random_state), num_sweeps=self.max_iter, learn=self.learn_priors,
            document_prior=self.doc_topic_prior, word_prior=self.topic_word_prior,
        )  # fmt: skip
        self.chain_ = chain
        return self._keep(chain.model, len(chain.trace), chain.verdict)

    def _keep(self, model: Model, steps: int, verdict: Verdict) -> "LatentDirichletAllocation":
        self.model_, self.n_iter_, self.verdict_, self.n_batch_iter_ = model, steps, verdict, steps
        self.components_ = np.asarray(model.topic_counts)
        if not verdict.ok:
            warnings.warn(verdict.sentence, ConvergenceWarning, stacklevel=3)
        return self

    def _documents(self, X: Any, sample_weight: Any, reset: bool = True) -> tuple[Corpus, np.ndarray]:
        if sp.issparse(X):
            self._validate_params()
            X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=reset)
            weights = np.ones(X.shape[0]) if sample_weight is None else np.asarray(sample_weight, float)
        else:
            rows = self._features(X, sample_weight, reset=reset)
            X, weights = rows.X, rows.weights
        return self._corpus(X), np.ones(X.shape[0]) if weights is None else np.asarray(weights)

    def _new_documents(self, X: Any) -> Corpus:
        check_is_fitted(self)
        if sp.issparse(X):
            return self._corpus(validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False))
        return self._corpus(self._new_table(X).X)

    def _corpus(self, X: Any) -> Corpus:
        least = X.data.min(initial=0) if sp.issparse(X) else X.min(initial=0)
        must = "counts of words (Negative values in data passed to LatentDirichletAllocation are none)"
        check(least >= 0, "X", must, least)
        return as_corpus(X)
