"""Layer 5: inference. Algorithms act on whatever has the small protocol they need; they import no model."""

from tractable.inference.adaptive_importance import Adapted, RareEvent, adaptive_importance, rare_event
from tractable.inference.adaptive_rejection import AdaptiveRejection, adaptive_rejection
from tractable.inference.ancestral import WeightedStates, ancestral, likelihood_weighting, logic_sampling
from tractable.inference.annealed import Annealed, RandomWalk, annealed_importance, temperature_ladder
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
from tractable.inference.cross_validation import PredictiveFit, k_fold, loo, waic
from tractable.inference.em import EM, best_of, em, expected_statistics, objective
from tractable.inference.em_gradient import EvidenceAscent
from tractable.inference.em_labels import HardEM, LabelTrace, MonteCarloEM, StochasticEM, emptied_components
from tractable.inference.em_prior import Partial, WithPrior
from tractable.inference.em_report import Decomposition, HalfSteps, decompose, half_steps
from tractable.inference.em_streams import IncrementalEM, OnlineEM
from tractable.inference.evidence import Evidence, aic, bic
from tractable.inference.fit import fit
from tractable.inference.grid import GridPosterior, grid_posterior
from tractable.inference.importance import (
    Proposal,
    Weighted,
    importance,
    monte_carlo,
    optimal_proposal,
    relative_variance,
)
from tractable.inference.pareto import Smoothed, fit_generalised_pareto, k_threshold, k_verdict, smooth
from tractable.inference.rejection import Envelope, Rejection, find_envelope, gaussian_log_bound, rejection
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
from tractable.inference.weights import effective_sample_size, log_mean_weight, normalise, resample

__all__ = [
    "EM",
    "Adapted",
    "AdaptiveRejection",
    "Annealed",
    "BayesFactor",
    "Comparison",
    "Coverage",
    "Decomposition",
    "Envelope",
    "Evidence",
    "EvidenceAscent",
    "GridPosterior",
    "HalfSteps",
    "HardEM",
    "IncrementalEM",
    "LabelTrace",
    "ModelPosterior",
    "MonteCarloEM",
    "OnlineEM",
    "Partial",
    "PredictiveFit",
    "Proposal",
    "RandomWalk",
    "RareEvent",
    "Rejection",
    "Reliability",
    "RiskCoverage",
    "Smoothed",
    "Stacked",
    "StochasticEM",
    "Thermodynamic",
    "UncertaintySplit",
    "Uniformity",
    "Weighted",
    "WeightedStates",
    "WithPrior",
    "adaptive_importance",
    "adaptive_rejection",
    "aic",
    "ancestral",
    "annealed_importance",
    "autocorrelation_time",
    "autocovariance",
    "average_log_prob",
    "average_predictive",
    "bayes_factor",
    "best_of",
    "bic",
    "bridge_evidence",
    "compare",
    "coverage_curve",
    "decompose",
    "effective_sample_size",
    "em",
    "emptied_components",
    "expected_log_bayes_factor",
    "expected_statistics",
    "find_envelope",
    "fit",
    "fit_generalised_pareto",
    "gaussian_log_bound",
    "grid_posterior",
    "half_steps",
    "importance",
    "interval_coverage",
    "k_fold",
    "k_threshold",
    "k_verdict",
    "likelihood_weighting",
    "log_mean_weight",
    "logic_sampling",
    "loo",
    "model_posterior",
    "monte_carlo",
    "normalise",
    "objective",
    "optimal_proposal",
    "pit",
    "polynomial_evidences",
    "power_log_likelihoods",
    "pseudo_bma",
    "rare_event",
    "rejection",
    "relative_variance",
    "reliability",
    "resample",
    "risk_coverage",
    "smooth",
    "split_entropy",
    "split_variance",
    "stack",
    "stepping_stone_evidence",
    "temperature_ladder",
    "thermodynamic_evidence",
    "uniformity",
    "waic",
]
