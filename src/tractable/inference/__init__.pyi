"""Layer 5: inference. Algorithms act on whatever has the small protocol they need; they import no model."""

from tractable.inference.adaptive_importance import Adapted, RareEvent, adaptive_importance, rare_event
from tractable.inference.adaptive_rejection import AdaptiveRejection, adaptive_rejection
from tractable.inference.ancestral import WeightedStates, ancestral, likelihood_weighting, logic_sampling
from tractable.inference.annealed import Annealed, RandomWalk, annealed_importance, temperature_ladder
from tractable.inference.asymptotics import NormalLimit, beta_bernoulli_limit, posterior_limit
from tractable.inference.autocorrelation import autocorrelation_time, autocovariance
from tractable.inference.bridge import bridge_evidence
from tractable.inference.calibration import (
    Coverage,
    Reliability,
    Uniformity,
    coverage_curve,
    interval_coverage,
    pit,
    reliability,
    uniformity,
)
from tractable.inference.cavi import MeanFieldRun, discrete_cavi, factor_cavi
from tractable.inference.cavi_mixture import BayesianMixture, bayesian_mixture, prune
from tractable.inference.cavi_regression import VariationalRegression, variational_regression
from tractable.inference.cavi_topics import TopicShares, expected_log_topics, topic_shares
from tractable.inference.comparison import (
    BayesFactor,
    ModelPosterior,
    average_log_prob,
    average_predictive,
    bayes_factor,
    expected_log_bayes_factor,
    model_posterior,
    polynomial_evidences,
)
from tractable.inference.contrastive import (
    DensityRatio,
    NoiseContrastiveFit,
    density_ratio,
    improper_objective,
    nce_gradient,
    nce_gradient_variance,
    nce_logit,
    nce_objective,
    nce_objective_exact,
    nce_posterior,
    negative_sampling_objective,
    noise_contrastive_fit,
    optimal_ratio,
    softmax_gradient,
)
from tractable.inference.contrastive_noise import (
    AliasNoise,
    ContrastiveSet,
    check_noise_support,
    contrastive_set,
    frequency_noise,
)
from tractable.inference.cross_validation import PredictiveFit, k_fold, loo, waic
from tractable.inference.curvature import DensePrecision, DiagonalPrecision, LowRankPrecision, Precision
from tractable.inference.discrete_gradients import (
    discrete_expectation,
    discrete_expectation_gradient,
    discrete_race,
    gumbel_expectation,
    reinforce_gradient,
    relaxed_gradient,
)
from tractable.inference.elbo import (
    ElboReport,
    discrete_elbo,
    elbo_estimate,
    gaussian_elbo,
    importance_weighted_bound,
    renyi_bound,
)
from tractable.inference.em import EM, best_of, em, expected_statistics, objective
from tractable.inference.em_gradient import EvidenceAscent
from tractable.inference.em_labels import HardEM, LabelTrace, MonteCarloEM, StochasticEM, emptied_components
from tractable.inference.em_prior import Partial, WithPrior
from tractable.inference.em_report import Decomposition, HalfSteps, decompose, half_steps
from tractable.inference.em_streams import IncrementalEM, OnlineEM
from tractable.inference.evidence import Evidence, aic, bic
from tractable.inference.families import make_family
from tractable.inference.fit import fit
from tractable.inference.flow_families import Flow
from tractable.inference.gauss_newton import ggn, ggn_curvature
from tractable.inference.gaussian_families import (
    FullRank,
    GaussianFamily,
    LowRank,
    MeanField,
    Structured,
    VariationalFamily,
)
from tractable.inference.gradients import (
    GradientEstimate,
    Race,
    descents,
    leave_one_out,
    pathwise_gradient,
    race,
    score_gradient,
    scores,
)
from tractable.inference.grid import GridPosterior, grid_posterior
from tractable.inference.importance import (
    Proposal,
    Weighted,
    importance,
    monte_carlo,
    optimal_proposal,
    relative_variance,
)
from tractable.inference.kronecker import KroneckerPrecision, dense_network, kronecker_curvature
from tractable.inference.laplace import laplace
from tractable.inference.laplace_posterior import LaplacePosterior
from tractable.inference.mean_field import (
    inclusive_mean_field,
    inclusive_mean_field_table,
    kl_directions,
    mean_field_gaussian,
    mean_field_path,
)
from tractable.inference.pareto import Smoothed, fit_generalised_pareto, k_threshold, k_verdict, smooth
from tractable.inference.pathfinder import InverseHessian, PathfinderPosterior, pathfinder
from tractable.inference.recommend import Recommendation, recommend_vi
from tractable.inference.rejection import Envelope, Rejection, find_envelope, gaussian_log_bound, rejection
from tractable.inference.scorematching import (
    denoising_loss,
    denoising_score_matching,
    fit_score,
    implicit_loss,
    implicit_score_matching,
    noise_from_score,
    perturb,
    score_from_noise,
    sliced_loss,
    sliced_score_matching,
    stein_score,
)
from tractable.inference.stacking import Comparison, Stacked, compare, pseudo_bma, stack
from tractable.inference.thermodynamic import (
    Thermodynamic,
    power_log_likelihoods,
    stepping_stone_evidence,
    thermodynamic_evidence,
)
from tractable.inference.uncertainty import (
    RiskCoverage,
    UncertaintySplit,
    risk_coverage,
    split_entropy,
    split_variance,
)
from tractable.inference.variance_reduction import (
    control_variate,
    mean_field_gradient,
    rao_blackwell,
    score_coefficients,
)
from tractable.inference.vi import VariationalPosterior, vi
from tractable.inference.weights import effective_sample_size, log_mean_weight, normalise, resample

__all__ = [
    "EM", "Adapted", "AdaptiveRejection", "AliasNoise", "Annealed", "BayesFactor", "BayesianMixture",
    "Comparison", "ContrastiveSet", "Coverage", "Decomposition", "DensePrecision", "DensityRatio",
    "DiagonalPrecision", "ElboReport", "Envelope", "Evidence", "EvidenceAscent", "Flow", "FullRank",
    "GaussianFamily", "GradientEstimate", "GridPosterior", "HalfSteps", "HardEM", "IncrementalEM",
    "InverseHessian", "KroneckerPrecision", "LabelTrace", "LaplacePosterior", "LowRank", "LowRankPrecision",
    "MeanField", "MeanFieldRun", "ModelPosterior", "MonteCarloEM", "NoiseContrastiveFit", "NormalLimit",
    "OnlineEM", "Partial", "PathfinderPosterior", "Precision", "PredictiveFit", "Proposal", "Race",
    "RandomWalk", "RareEvent", "Recommendation", "Rejection", "Reliability", "RiskCoverage", "Smoothed",
    "Stacked", "StochasticEM", "Structured", "Thermodynamic", "TopicShares", "UncertaintySplit", "Uniformity",
    "VariationalFamily", "VariationalPosterior", "VariationalRegression", "Weighted", "WeightedStates",
    "WithPrior", "adaptive_importance", "adaptive_rejection", "aic", "ancestral", "annealed_importance",
    "autocorrelation_time", "autocovariance", "average_log_prob", "average_predictive", "bayes_factor",
    "bayesian_mixture", "best_of", "beta_bernoulli_limit", "bic", "bridge_evidence", "check_noise_support",
    "compare", "contrastive_set", "control_variate", "coverage_curve", "decompose", "denoising_loss",
    "denoising_score_matching", "dense_network", "density_ratio", "descents", "discrete_cavi",
    "discrete_elbo", "discrete_expectation", "discrete_expectation_gradient", "discrete_race",
    "effective_sample_size", "elbo_estimate", "em", "emptied_components", "expected_log_bayes_factor",
    "expected_log_topics", "expected_statistics", "factor_cavi", "find_envelope", "fit",
    "fit_generalised_pareto", "fit_score", "frequency_noise", "gaussian_elbo", "gaussian_log_bound", "ggn",
    "ggn_curvature", "grid_posterior", "gumbel_expectation", "half_steps", "implicit_loss",
    "implicit_score_matching", "importance", "importance_weighted_bound", "improper_objective",
    "inclusive_mean_field", "inclusive_mean_field_table", "interval_coverage", "k_fold", "k_threshold",
    "k_verdict", "kl_directions", "kronecker_curvature", "laplace", "leave_one_out", "likelihood_weighting",
    "log_mean_weight", "logic_sampling", "loo", "make_family", "mean_field_gaussian", "mean_field_gradient",
    "mean_field_path", "model_posterior", "monte_carlo", "nce_gradient", "nce_gradient_variance", "nce_logit",
    "nce_objective", "nce_objective_exact", "nce_posterior", "negative_sampling_objective",
    "noise_contrastive_fit", "noise_from_score", "normalise", "objective", "optimal_proposal",
    "optimal_ratio", "pathfinder", "pathwise_gradient", "perturb", "pit", "polynomial_evidences",
    "posterior_limit", "power_log_likelihoods", "prune", "pseudo_bma", "race", "rao_blackwell", "rare_event",
    "recommend_vi", "reinforce_gradient", "rejection", "relative_variance", "relaxed_gradient", "reliability",
    "renyi_bound", "resample", "risk_coverage", "score_coefficients", "score_from_noise", "score_gradient",
    "scores", "sliced_loss", "sliced_score_matching", "smooth", "softmax_gradient", "split_entropy",
    "split_variance", "stack", "stein_score", "stepping_stone_evidence", "temperature_ladder",
    "thermodynamic_evidence", "topic_shares", "uniformity", "variational_regression", "vi", "waic",
]  # fmt: skip
