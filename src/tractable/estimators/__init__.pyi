"""Layer 10: every model family as a scikit-learn estimator, with distributions as predictions."""

from tractable.estimators.bagging import BaggingClassifier as BaggingClassifier
from tractable.estimators.bagging import BaggingRegressor as BaggingRegressor
from tractable.estimators.bayes_linear import BayesianLinearRegressor as BayesianLinearRegressor
from tractable.estimators.bayes_linear import RelevanceRegressor as RelevanceRegressor
from tractable.estimators.bayesian_neural import BayesianNeuralClassifier as BayesianNeuralClassifier
from tractable.estimators.bayesian_neural import BayesianNeuralRegressor as BayesianNeuralRegressor
from tractable.estimators.boosting import BoostingClassifier as BoostingClassifier
from tractable.estimators.boosting import DistributionBoostingRegressor as DistributionBoostingRegressor
from tractable.estimators.conformal import CalibratedClassifier as CalibratedClassifier
from tractable.estimators.conformal import CalibratedRegressor as CalibratedRegressor
from tractable.estimators.discriminant import LinearDiscriminantClassifier as LinearDiscriminantClassifier
from tractable.estimators.discriminant import (
    QuadraticDiscriminantClassifier as QuadraticDiscriminantClassifier,
)
from tractable.estimators.factor import PCA as PCA
from tractable.estimators.factor import FactorAnalysis as FactorAnalysis
from tractable.estimators.factor_relatives import IndependentComponents as IndependentComponents
from tractable.estimators.factor_relatives import KernelPCA as KernelPCA
from tractable.estimators.forecaster import Forecaster as Forecaster
from tractable.estimators.forests import AdaBoostClassifier as AdaBoostClassifier
from tractable.estimators.forests import ForestClassifier as ForestClassifier
from tractable.estimators.forests import ForestRegressor as ForestRegressor
from tractable.estimators.forests import RotationForestClassifier as RotationForestClassifier
from tractable.estimators.gaussian_process import GaussianProcessRegressor as GaussianProcessRegressor
from tractable.estimators.gaussian_process_classifier import (
    GaussianProcessClassifier as GaussianProcessClassifier,
)
from tractable.estimators.generalised import BetaRegressor as BetaRegressor
from tractable.estimators.generalised import GammaRegressor as GammaRegressor
from tractable.estimators.generalised import NegativeBinomialRegressor as NegativeBinomialRegressor
from tractable.estimators.generalised import PoissonRegressor as PoissonRegressor
from tractable.estimators.generalised import SurvivalRegressor as SurvivalRegressor
from tractable.estimators.heteroscedastic import HeteroscedasticRegressor as HeteroscedasticRegressor
from tractable.estimators.hidden_markov import CategoricalHMM as CategoricalHMM
from tractable.estimators.hidden_markov import GaussianHMM as GaussianHMM
from tractable.estimators.hierarchical import AgglomerativeClustering as AgglomerativeClustering
from tractable.estimators.kernel_ridge import KernelRidgeRegressor as KernelRidgeRegressor
from tractable.estimators.kmeans import KMeans as KMeans
from tractable.estimators.kmeans import KMedoids as KMedoids
from tractable.estimators.kmeans import MiniBatchKMeans as MiniBatchKMeans
from tractable.estimators.linear import LassoRegressor as LassoRegressor
from tractable.estimators.linear import LinearRegressor as LinearRegressor
from tractable.estimators.linear import RecursiveRegressor as RecursiveRegressor
from tractable.estimators.linear import RidgeRegressor as RidgeRegressor
from tractable.estimators.linear import RobustRegressor as RobustRegressor
from tractable.estimators.linear_gaussian import LinearGaussianStateSpace as LinearGaussianStateSpace
from tractable.estimators.logistic import BayesianLogisticClassifier as BayesianLogisticClassifier
from tractable.estimators.logistic import LogisticClassifier as LogisticClassifier
from tractable.estimators.logistic import ProbitClassifier as ProbitClassifier
from tractable.estimators.manifold import ClassicalMDS as ClassicalMDS
from tractable.estimators.manifold import Isomap as Isomap
from tractable.estimators.manifold import LaplacianEigenmaps as LaplacianEigenmaps
from tractable.estimators.manifold import LocallyLinearEmbedding as LocallyLinearEmbedding
from tractable.estimators.manifold import MetricMDS as MetricMDS
from tractable.estimators.mixtures import BayesianGaussianMixture as BayesianGaussianMixture
from tractable.estimators.mixtures import GaussianMixture as GaussianMixture
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
from tractable.estimators.neural import NeuralClassifier as NeuralClassifier
from tractable.estimators.neural import NeuralRegressor as NeuralRegressor
from tractable.estimators.ordinal import OrdinalClassifier as OrdinalClassifier
from tractable.estimators.perceptron import PerceptronClassifier as PerceptronClassifier
from tractable.estimators.quantile import QuantileRegressor as QuantileRegressor
from tractable.estimators.registry import all_estimators as all_estimators
from tractable.estimators.sequences import SequenceClassifier as SequenceClassifier
from tractable.estimators.sparse_gaussian_process import (
    SparseGaussianProcessRegressor as SparseGaussianProcessRegressor,
)
from tractable.estimators.svm import (
    LeastSquaresSupportVectorClassifier as LeastSquaresSupportVectorClassifier,
)
from tractable.estimators.svm import LeastSquaresSupportVectorRegressor as LeastSquaresSupportVectorRegressor
from tractable.estimators.svm import LinearSupportVectorClassifier as LinearSupportVectorClassifier
from tractable.estimators.svm import SupportVectorClassifier as SupportVectorClassifier
from tractable.estimators.svm import SupportVectorRegressor as SupportVectorRegressor
from tractable.estimators.through import log_score as log_score
from tractable.estimators.through import predict_dist as predict_dist
from tractable.estimators.through import predict_interval as predict_interval
from tractable.estimators.topics import LatentDirichletAllocation as LatentDirichletAllocation
from tractable.estimators.trees import TreeClassifier as TreeClassifier
from tractable.estimators.trees import TreeRegressor as TreeRegressor
from tractable.race.auto import AutoClassifier as AutoClassifier
from tractable.race.auto import AutoRegressor as AutoRegressor
