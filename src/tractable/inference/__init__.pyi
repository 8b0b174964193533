"""Layer 5: inference. Algorithms act on whatever has the small protocol they need; they import no model."""

from tractable.inference.adapters import NumpyroDensity, from_numpyro, from_stan
from tractable.inference.adaptive_importance import Adapted, RareEvent, adaptive_importance, rare_event
from tractable.inference.adaptive_metropolis import AdaptiveMetropolis, AdaptiveState
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
from tractable.inference.chain_report import ChainReport, examine
from tractable.inference.chees import ChEES
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
from tractable.inference.diagnostics import (
    ChainVariances,
    chain_variances,
    classic_rhat,
    faults_of,
    nested_rhat,
    rhat,
    split_chains,
    split_rhat,
)
from tractable.inference.discrete_gradients import (
    discrete_expectation,
    discrete_expectation_gradient,
    discrete_race,
    gumbel_expectation,
    reinforce_gradient,
    relaxed_gradient,
)
from tractable.inference.dual_averaging import DualAveraging
from tractable.inference.effective_size import (
    bulk_effective_size,
    effective_size,
    energy_information,
    mcse_mean,
    mcse_quantile,
    mcse_sd,
    quantile_effective_size,
    tail_effective_size,
    variogram,
    variogram_effective_size,
)
from tractable.inference.elbo import (
    ElboReport,
    discrete_elbo,
    elbo_estimate,
    gaussian_elbo,
    importance_weighted_bound,
    renyi_bound,
)
from tractable.inference.elliptical import EllipticalSlice
from tractable.inference.em import EM, best_of, em, expected_statistics, objective
from tractable.inference.em_gradient import EvidenceAscent
from tractable.inference.em_labels import HardEM, LabelTrace, MonteCarloEM, StochasticEM, emptied_components
from tractable.inference.em_prior import Partial, WithPrior
from tractable.inference.em_report import Decomposition, HalfSteps, decompose, half_steps
from tractable.inference.em_streams import IncrementalEM, OnlineEM
from tractable.inference.evidence import Evidence, aic, bic
from tractable.inference.families import make_family
from tractable.inference.finite_chains import (
    KernelReport,
    check_kernel,
    detailed_balance_error,
    gibbs_kernel,
    gibbs_matrix,
    is_aperiodic,
    is_irreducible,
    metropolis_matrix,
    mixing_time,
    period,
    return_times,
    stationary,
    stationary_error,
    total_variation_path,
)
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
from tractable.inference.gibbs import (
    ExactDraw,
    FromConditional,
    Gibbs,
    GibbsState,
    RejectionWithinGibbs,
    WithinGibbs,
    gibbs_log_ratio,
)
from tractable.inference.gibbs_factors import FactorDraws, FactorGibbs, factor_gibbs
from tractable.inference.gibbs_mixture import (
    CollapsedMixtureGibbs,
    MixtureGibbs,
    MixtureState,
    label_predictive,
)
from tractable.inference.gibbs_noisy_or import NoisyOrGibbs, NoisyOrNetwork, noisy_or_network
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
from tractable.inference.hmc import HMC
from tractable.inference.importance import (
    Proposal,
    Weighted,
    importance,
    monte_carlo,
    optimal_proposal,
    relative_variance,
)
from tractable.inference.kronecker import KroneckerPrecision, dense_network, kronecker_curvature
from tractable.inference.labels import (
    LabelSymmetry,
    Relabelled,
    co_clustering,
    equivalent_solutions,
    label_symmetry,
    match_components,
    matched_distance,
    relabel,
)
from tractable.inference.langevin import (
    MALA,
    ULA,
    LangevinDraws,
    annealed_langevin,
    langevin,
    unadjusted_variance,
)
from tractable.inference.laplace import laplace
from tractable.inference.laplace_posterior import LaplacePosterior
from tractable.inference.leapfrog import Mass, Phase, euler, leapfrog
from tractable.inference.mams import MAMS, EnsembleMAMS
from tractable.inference.mcmc import mcmc, resume
from tractable.inference.mean_field import (
    inclusive_mean_field,
    inclusive_mean_field_table,
    kl_directions,
    mean_field_gaussian,
    mean_field_path,
)
from tractable.inference.metropolis import (
    IndependenceMetropolis,
    Metropolis,
    MultiplicativeWalk,
    RandomWalkMetropolis,
    accept,
)
from tractable.inference.nuts import NUTS
from tractable.inference.pareto import Smoothed, fit_generalised_pareto, k_threshold, k_verdict, smooth
from tractable.inference.particle_filter import Filtered, History, particle_filter
from tractable.inference.particle_smoothing import Smoothed, backward_sample, lineages
from tractable.inference.pathfinder import InverseHessian, PathfinderPosterior, pathfinder
from tractable.inference.posterior import Posterior
from tractable.inference.recommend import Recommendation, recommend_vi
from tractable.inference.rejection import Envelope, Rejection, find_envelope, gaussian_log_bound, rejection
from tractable.inference.replicates import evidence_of_replicates, mean_of_replicates
from tractable.inference.sampler import ChainState, Info, Sampler
from tractable.inference.scale_sweep import ScaleSweep, scale_sweep
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
from tractable.inference.simulation_checks import (
    Calibration,
    JointTest,
    geweke,
    simulation_based_calibration,
    transition_of,
)
from tractable.inference.slice import SliceSampler
from tractable.inference.smc import TemperedParticles, smc
from tractable.inference.smoothness import Jump, find_jump
from tractable.inference.stacking import Comparison, Stacked, compare, pseudo_bma, stack
from tractable.inference.stopping import (
    Enough,
    Plateau,
    drop_burn_in,
    enough,
    over_dispersed_starts,
    plateau,
    protocol_sequences,
    scalar_summaries,
)
from tractable.inference.swendsen_wang import SwendsenWang, grid_edges
from tractable.inference.tempering import ParallelTempering, TemperingState, temperatures_up_to
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
from tractable.inference.verdict import Fault, Verdict, judge, movement, where_diverging
from tractable.inference.vi import VariationalPosterior, vi
from tractable.inference.warmup import WarmUp
from tractable.inference.weights import effective_sample_size, log_mean_weight, normalise, resample
from tractable.inference.whitening import DenseWhitening, DiagonalWhitening, LowRankWhitening, Whitening

__all__ = [
    "Adapted", "AdaptiveMetropolis", "AdaptiveRejection", "AdaptiveState", "AliasNoise", "Annealed",
    "BayesFactor", "BayesianMixture", "Calibration", "ChEES", "ChainReport", "ChainState", "ChainVariances",
    "CollapsedMixtureGibbs", "Comparison", "ContrastiveSet", "Coverage", "Decomposition", "DensePrecision",
    "DenseWhitening", "DensityRatio", "DiagonalPrecision", "DiagonalWhitening", "DualAveraging", "EM",
    "ElboReport", "EllipticalSlice", "Enough", "EnsembleMAMS", "Envelope", "Evidence", "EvidenceAscent",
    "ExactDraw", "FactorDraws", "FactorGibbs", "Fault", "Filtered", "Flow", "FromConditional", "FullRank",
    "GaussianFamily", "Gibbs", "GibbsState", "GradientEstimate", "GridPosterior", "HMC", "HalfSteps",
    "HardEM", "History", "IncrementalEM", "IndependenceMetropolis", "Info", "InverseHessian", "JointTest",
    "Jump", "KernelReport", "KroneckerPrecision", "LabelSymmetry", "LabelTrace", "LangevinDraws",
    "LaplacePosterior", "LowRank", "LowRankPrecision", "LowRankWhitening", "MALA", "MAMS", "Mass",
    "MeanField", "MeanFieldRun", "Metropolis", "MixtureGibbs", "MixtureState", "ModelPosterior",
    "MonteCarloEM", "MultiplicativeWalk", "NUTS", "NoiseContrastiveFit", "NoisyOrGibbs", "NoisyOrNetwork",
    "NormalLimit", "NumpyroDensity", "OnlineEM", "ParallelTempering", "Partial", "PathfinderPosterior",
    "Phase", "Plateau", "Posterior", "Precision", "PredictiveFit", "Proposal", "Race", "RandomWalk",
    "RandomWalkMetropolis", "RareEvent", "Recommendation", "Rejection", "RejectionWithinGibbs",
    "Relabelled", "Reliability", "RiskCoverage", "Sampler", "ScaleSweep", "SliceSampler", "Smoothed",
    "Stacked", "StochasticEM", "Structured", "SwendsenWang", "TemperedParticles", "TemperingState",
    "Thermodynamic", "TopicShares", "ULA", "UncertaintySplit", "Uniformity", "VariationalFamily",
    "VariationalPosterior", "VariationalRegression", "Verdict", "WarmUp", "Weighted", "WeightedStates",
    "Whitening", "WithPrior", "WithinGibbs", "accept", "adaptive_importance", "adaptive_rejection", "aic",
    "ancestral", "annealed_importance", "annealed_langevin", "autocorrelation_time", "autocovariance",
    "average_log_prob", "average_predictive", "backward_sample", "bayes_factor", "bayesian_mixture",
    "best_of", "beta_bernoulli_limit", "bic", "bridge_evidence", "bulk_effective_size", "chain_variances",
    "check_kernel", "check_noise_support", "classic_rhat", "co_clustering", "compare", "contrastive_set",
    "control_variate", "coverage_curve", "decompose", "denoising_loss", "denoising_score_matching",
    "dense_network", "density_ratio", "descents", "detailed_balance_error", "discrete_cavi",
    "discrete_elbo", "discrete_expectation", "discrete_expectation_gradient", "discrete_race",
    "drop_burn_in", "effective_sample_size", "effective_size", "elbo_estimate", "em", "emptied_components",
    "energy_information", "enough", "equivalent_solutions", "euler", "evidence_of_replicates", "examine",
    "expected_log_bayes_factor", "expected_log_topics", "expected_statistics", "factor_cavi",
    "factor_gibbs", "faults_of", "find_envelope", "find_jump", "fit", "fit_generalised_pareto", "fit_score",
    "frequency_noise", "from_numpyro", "from_stan", "gaussian_elbo", "gaussian_log_bound", "geweke", "ggn",
    "ggn_curvature", "gibbs_kernel", "gibbs_log_ratio", "gibbs_matrix", "grid_edges", "grid_posterior",
    "gumbel_expectation", "half_steps", "implicit_loss", "implicit_score_matching", "importance",
    "importance_weighted_bound", "improper_objective", "inclusive_mean_field", "inclusive_mean_field_table",
    "interval_coverage", "is_aperiodic", "is_irreducible", "judge", "k_fold", "k_threshold", "k_verdict",
    "kl_directions", "kronecker_curvature", "label_predictive", "label_symmetry", "langevin", "laplace",
    "leapfrog", "leave_one_out", "likelihood_weighting", "lineages", "log_mean_weight", "logic_sampling",
    "loo", "make_family", "match_components", "matched_distance", "mcmc", "mcse_mean", "mcse_quantile",
    "mcse_sd", "mean_field_gaussian", "mean_field_gradient", "mean_field_path", "mean_of_replicates",
    "metropolis_matrix", "mixing_time", "model_posterior", "monte_carlo", "movement", "nce_gradient",
    "nce_gradient_variance", "nce_logit", "nce_objective", "nce_objective_exact", "nce_posterior",
    "negative_sampling_objective", "nested_rhat", "noise_contrastive_fit", "noise_from_score",
    "noisy_or_network", "normalise", "objective", "optimal_proposal", "optimal_ratio",
    "over_dispersed_starts", "particle_filter", "pathfinder", "pathwise_gradient", "period", "perturb",
    "pit", "plateau", "polynomial_evidences", "posterior_limit", "power_log_likelihoods",
    "protocol_sequences", "prune", "pseudo_bma", "quantile_effective_size", "race", "rao_blackwell",
    "rare_event", "recommend_vi", "reinforce_gradient", "rejection", "relabel", "relative_variance",
    "relaxed_gradient", "reliability", "renyi_bound", "resample", "resume", "return_times", "rhat",
    "risk_coverage", "scalar_summaries", "scale_sweep", "score_coefficients", "score_from_noise",
    "score_gradient", "scores", "simulation_based_calibration", "sliced_loss", "sliced_score_matching",
    "smc", "smooth", "softmax_gradient", "split_chains", "split_entropy", "split_rhat", "split_variance",
    "stack", "stationary", "stationary_error", "stein_score", "stepping_stone_evidence",
    "tail_effective_size", "temperature_ladder", "temperatures_up_to", "thermodynamic_evidence",
    "topic_shares", "total_variation_path", "transition_of", "unadjusted_variance", "uniformity",
    "variational_regression", "variogram", "variogram_effective_size", "vi", "waic", "where_diverging",
]  # fmt: skip
