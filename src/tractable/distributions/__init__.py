"""Layer 3: distributions, Gaussian algebra, conjugacy, divergences, information, tables."""

from tractable.distributions.atoms import Empirical, Finite, PointMass
from tractable.distributions.base import Distribution, Univariate
from tractable.distributions.bayes_rule import bayes
from tractable.distributions.bounded import Beta, Uniform
from tractable.distributions.categorical import (
    Categorical,
    CategoricalFit,
    categorical_mle,
    grouped_log_likelihood,
)
from tractable.distributions.channels import Capacity, channel_capacity, mutual_information_lower_bound
from tractable.distributions.circular import VonMises
from tractable.distributions.conjugate import (
    ConjugatePair,
    Predictive,
    add_statistics,
    find_pair,
    known_pairs,
    log_evidence,
    posterior,
    predictive,
    register_conjugate,
)
from tractable.distributions.continuous import Cauchy, Gumbel, Laplace, Logistic, Normal, StudentT
from tractable.distributions.counts import BetaBinomial, Binomial, Geometric, NegativeBinomial, Poisson
from tractable.distributions.density import DensityCheck, check_density
from tractable.distributions.density_entropy import differential_entropy
from tractable.distributions.discrepancy import (
    PermutationTest,
    energy_distance,
    energy_test,
    fisher_divergence,
    gaussian_kernel,
    kernel_test,
    median_bandwidth,
    squared_mmd,
)
from tractable.distributions.discrete import Bernoulli, DiscreteUniform
from tractable.distributions.divergence import (
    Estimate,
    kl,
    kl_estimate,
    kl_probs,
    register_kl,
    reverse_kl,
    symmetrised_kl,
)
from tractable.distributions.dpp import DPP
from tractable.distributions.dpp_applications import (
    compare_minibatches,
    diverse_documents,
    diverse_minibatches,
)
from tractable.distributions.dpp_determinants import squared_volume
from tractable.distributions.dpp_kernels import loewner_leq
from tractable.distributions.dpp_sampling import subset_chain
from tractable.distributions.estimates import EstimateTable, compare_estimates
from tractable.distributions.expfam import (
    ExponentialFamily,
    Statistics,
    expfam_entropy,
    expfam_kl,
    expfam_log_prob,
    fisher_information,
    log_likelihood,
    maximum_likelihood,
    mean_stats,
    weighted_stats,
)
from tractable.distributions.f_divergence import (
    f_divergence,
    f_divergence_estimate,
    jensen_shannon,
    l1_distance,
    optimal_critic,
    pinsker_gap,
    total_variation,
    variational_bound,
)
from tractable.distributions.f_generators import GENERATORS, Generator, alpha_generator
from tractable.distributions.gamma import ChiSquared, Gamma, InverseGamma
from tractable.distributions.gaussian import Gaussian, condition, condition_observed
from tractable.distributions.gaussian_forms import (
    GaussianInformation,
    GaussianPrecision,
    to_covariance,
    to_information,
    to_precision,
)
from tractable.distributions.gumbel import gumbel_max, gumbel_top_k, maximum_of_gumbels, top_k_log_prob
from tractable.distributions.huffman import HuffmanCode, huffman, kraft_sum
from tractable.distributions.information import (
    conditional_entropy,
    cross_entropy,
    entropy,
    entropy_rate,
    perplexity,
    self_information,
)
from tractable.distributions.information_estimates import (
    neighbour_mutual_information,
    plug_in_mutual_information,
)
from tractable.distributions.inverse import Tabulated, inverse_transform, invert_cdf, tabulate
from tractable.distributions.kdpp import KDPP
from tractable.distributions.kl_fit import KLFit, ReverseKLFit, empirical_kl, forward_kl_fit, reverse_kl_fit
from tractable.distributions.linear_gaussian import LinearGaussian, joint, product
from tractable.distributions.matrix import LKJCholesky, MatrixNormal
from tractable.distributions.mixture import Mixture, stack
from tractable.distributions.moments import (
    Groups,
    TotalVariance,
    covariance,
    expectation,
    group_moments,
    jensen_gap,
    total_expectation,
    total_variance,
    variance,
)
from tractable.distributions.multinomial import DirichletMultinomial, Multinomial
from tractable.distributions.multivariate import Dirichlet, MultivariateStudentT
from tractable.distributions.mutual_information import (
    gaussian_mutual_information,
    mutual_information,
    pointwise_mutual_information,
)
from tractable.distributions.normal_mixture import NormalMixture
from tractable.distributions.normal_priors import NormalGamma, NormalInverseWishart
from tractable.distributions.positive import HalfCauchy, HalfNormal, LogNormal
from tractable.distributions.regression_conjugate import (
    RegressionPrior,
    linear_regression_log_evidence,
    linear_regression_posterior,
    linear_regression_predictive,
)
from tractable.distributions.relaxed import (
    BinaryConcrete,
    Concrete,
    RelaxationStudy,
    annealed_temperature,
    relaxation_study,
    straight_through,
)
from tractable.distributions.renyi import bhattacharyya, hellinger, renyi
from tractable.distributions.sinkhorn import SinkhornPlan, sinkhorn, sinkhorn_divergence
from tractable.distributions.table_statistics import Independence
from tractable.distributions.tables import ConditionalTable, JointTable
from tractable.distributions.transformed import Transformed
from tractable.distributions.transport import (
    TransportPlan,
    optimal_transport,
    wasserstein,
    wasserstein_gaussian,
    wasserstein_samples,
)
from tractable.distributions.truncated import Truncated
from tractable.distributions.truncated_normal import TruncatedNormal
from tractable.distributions.waiting import Exponential, Pareto, Weibull
from tractable.distributions.wishart import InverseWishart, Wishart

__all__ = [
    "DPP",
    "GENERATORS",
    "KDPP",
    "Bernoulli",
    "Beta",
    "BetaBinomial",
    "BinaryConcrete",
    "Binomial",
    "Capacity",
    "Categorical",
    "CategoricalFit",
    "Cauchy",
    "ChiSquared",
    "Concrete",
    "ConditionalTable",
    "ConjugatePair",
    "DensityCheck",
    "Dirichlet",
    "DirichletMultinomial",
    "DiscreteUniform",
    "Distribution",
    "Empirical",
    "Estimate",
    "EstimateTable",
    "Exponential",
    "ExponentialFamily",
    "Finite",
    "Gamma",
    "Gaussian",
    "GaussianInformation",
    "GaussianPrecision",
    "Generator",
    "Geometric",
    "Groups",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "HuffmanCode",
    "Independence",
    "InverseGamma",
    "InverseWishart",
    "JointTable",
    "KLFit",
    "LKJCholesky",
    "Laplace",
    "LinearGaussian",
    "LogNormal",
    "Logistic",
    "MatrixNormal",
    "Mixture",
    "Multinomial",
    "MultivariateStudentT",
    "NegativeBinomial",
    "Normal",
    "NormalGamma",
    "NormalInverseWishart",
    "NormalMixture",
    "Pareto",
    "PermutationTest",
    "PointMass",
    "Poisson",
    "Predictive",
    "RegressionPrior",
    "RelaxationStudy",
    "ReverseKLFit",
    "SinkhornPlan",
    "Statistics",
    "StudentT",
    "Tabulated",
    "TotalVariance",
    "Transformed",
    "TransportPlan",
    "Truncated",
    "TruncatedNormal",
    "Uniform",
    "Univariate",
    "VonMises",
    "Weibull",
    "Wishart",
    "add_statistics",
    "alpha_generator",
    "annealed_temperature",
    "bayes",
    "bhattacharyya",
    "categorical_mle",
    "channel_capacity",
    "check_density",
    "compare_estimates",
    "compare_minibatches",
    "condition",
    "condition_observed",
    "conditional_entropy",
    "covariance",
    "cross_entropy",
    "differential_entropy",
    "diverse_documents",
    "diverse_minibatches",
    "empirical_kl",
    "energy_distance",
    "energy_test",
    "entropy",
    "entropy_rate",
    "expectation",
    "expfam_entropy",
    "expfam_kl",
    "expfam_log_prob",
    "f_divergence",
    "f_divergence_estimate",
    "find_pair",
    "fisher_divergence",
    "fisher_information",
    "forward_kl_fit",
    "gaussian_kernel",
    "gaussian_mutual_information",
    "group_moments",
    "grouped_log_likelihood",
    "gumbel_max",
    "gumbel_top_k",
    "hellinger",
    "huffman",
    "inverse_transform",
    "invert_cdf",
    "jensen_gap",
    "jensen_shannon",
    "joint",
    "kernel_test",
    "kl",
    "kl_estimate",
    "kl_probs",
    "known_pairs",
    "kraft_sum",
    "l1_distance",
    "linear_regression_log_evidence",
    "linear_regression_posterior",
    "linear_regression_predictive",
    "loewner_leq",
    "log_evidence",
    "log_likelihood",
    "maximum_likelihood",
    "maximum_of_gumbels",
    "mean_stats",
    "median_bandwidth",
    "mutual_information",
    "mutual_information_lower_bound",
    "neighbour_mutual_information",
    "optimal_critic",
    "optimal_transport",
    "perplexity",
    "pinsker_gap",
    "plug_in_mutual_information",
    "pointwise_mutual_information",
    "posterior",
    "predictive",
    "product",
    "register_conjugate",
    "register_kl",
    "relaxation_study",
    "renyi",
    "reverse_kl",
    "reverse_kl_fit",
    "self_information",
    "sinkhorn",
    "sinkhorn_divergence",
    "squared_mmd",
    "squared_volume",
    "stack",
    "straight_through",
    "subset_chain",
    "symmetrised_kl",
    "tabulate",
    "to_covariance",
    "to_information",
    "to_precision",
    "top_k_log_prob",
    "total_expectation",
    "total_variance",
    "total_variation",
    "variance",
    "variational_bound",
    "wasserstein",
    "wasserstein_gaussian",
    "wasserstein_samples",
    "weighted_stats",
]
