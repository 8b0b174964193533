"""Layer 10: every model family as a scikit-learn estimator, with distributions as predictions."""

from tractable.estimators.discriminant import LinearDiscriminantClassifier as LinearDiscriminantClassifier
from tractable.estimators.discriminant import (
    QuadraticDiscriminantClassifier as QuadraticDiscriminantClassifier,
)
from tractable.estimators.naive_bayes import BernoulliNaiveBayesClassifier as BernoulliNaiveBayesClassifier
from tractable.estimators.naive_bayes import (
    CategoricalNaiveBayesClassifier as CategoricalNaiveBayesClassifier,
)
from tractable.estimators.naive_bayes import GaussianNaiveBayesClassifier as GaussianNaiveBayesClassifier
from tractable.estimators.naive_bayes import (
    MultinomialNaiveBayesClassifier as MultinomialNaiveBayesClassifier,
)
from tractable.estimators.naive_bayes import NaiveBayesClassifier as NaiveBayesClassifier
from tractable.estimators.neighbours import NeighboursClassifier as NeighboursClassifier
from tractable.estimators.neighbours import NeighboursRegressor as NeighboursRegressor
from tractable.estimators.registry import all_estimators as all_estimators
