"""`plot`: the one door into the pictures, for any result, model or estimator.

Rule.        The class of the result (or the nearest of its bases) says which pictures there are; the first is
             the default, and `kind` names another. Results import no pictures: they are looked up here by the
             names of their classes, and only the picture that is drawn is imported.
Cost.        The import of Matplotlib.
"""

import importlib
from typing import Any

from tractable.core.checks import check, check_option

__all__ = ["KINDS", "kinds_of", "plot"]

# class -> kind -> function (or class method) of `tractable.plots`; the first kind is the default
KINDS: dict[str, dict[str, str]] = {
    "inference.chains.posterior:ChainPosterior": {
        "trace": "chains:plot_trace",
        "ranks": "chains:plot_ranks",
        "autocorrelation": "chains:plot_autocorrelation",
        "running_mean": "chains:plot_running_mean",
        "effective_size": "chains:plot_effective_size",
        "energy": "chains:plot_energy",
    },
    "programs.posterior:ProgramPosterior": {
        "marginal": "chains:plot_marginal",
        "intervals": "programs:plot_forest",
        "graph": "programs:draw",
        "checks": "programs:plot_checks",
        "trace": "chains:plot_trace",
        "ranks": "chains:plot_ranks",
    },
    "programs.trace:Program": {"graph": "programs:draw"},
    "inference.predicted:Predicted": {"intervals": "predictive:plot_predictions"},
    "inference.posterior:Posterior": {"marginal": "chains:plot_marginal", "pair": "chains:plot_pair"},
    "inference.particles.smc:TemperedParticles": {
        "marginal": "chains:plot_marginal",
        "temperatures": "particles:plot_temperatures",
    },
    "inference.weighted.importance:Weighted": {
        "marginal": "chains:plot_marginal",
        "weights": "evidence:plot_weights",
    },
    "inference.variational.vi:VariationalPosterior": {
        "marginal": "chains:plot_marginal",
        "bound": "variational:plot_bound",
    },
    "inference.variational.gradients:Race": {"race": "variational:plot_race"},
    "inference.particles.filter:Filtered": {"filter": "particles:plot_filter", "ess": "particles:plot_ess"},
    "inference.evidence.cross_validation:PredictiveFit": {"k_hat": "evidence:plot_k_hat"},
    "inference.evidence.stacking:Comparison": {"comparison": "evidence:plot_comparison"},
    "inference.evidence.comparison:ModelPosterior": {"probabilities": "evidence:plot_probabilities"},
    "inference.trust.calibration:Reliability": {"reliability": "evidence:plot_reliability"},
    "inference.trust.uncertainty:RiskCoverage": {"risk_coverage": "evidence:plot_risk_coverage"},
    "distributions.base:Univariate": {"density": "distributions:plot_density"},
    "distributions.gaussian:Gaussian": {"ellipse": "distributions:plot_ellipse"},
    "messages.junction:JunctionTree": {"junction_tree": "graphs:plot_junction_tree"},
    "graphs.dag:DAG": {"dag": "graphs:plot_dag"},
    "graphs.bayes_net:BayesNet": {"dag": "graphs:plot_dag"},
    "graphs.undirected:UndirectedGraph": {"undirected": "graphs:plot_undirected"},
    "graphs.markov_field:MarkovField": {"undirected": "graphs:plot_undirected"},
    "graphs.factor_graph:FactorGraph": {"factor_graph": "graphs:plot_factor_graph"},
    "gp.regression:GaussianProcess": {"process": "gaussian_process:ProcessDisplay.from_model"},
    "gp.exact:ExactPosterior": {"process": "gaussian_process:ProcessDisplay.from_model"},
    "gp.sparse:InducingPosterior": {"process": "gaussian_process:ProcessDisplay.from_model"},
    "statespace.hmm.results:Filtered": {"states": "hidden_markov:plot_states"},
    "statespace.hmm.results:Smoothed": {"states": "hidden_markov:plot_states"},
    "statespace.hmm.model:HiddenMarkov": {"transitions": "hidden_markov:plot_transitions"},
    "kernels.base:Kernel": {"kernel": "kernels:KernelDisplay.from_kernel"},
    "latent.topics.lda:LatentDirichletAllocation": {
        "topics": "topics:plot_topics",
        "shares": "topics:plot_shares",
    },
    "latent.topics.plsa:ProbabilisticLSA": {
        "topics": "topics:plot_topics",
        "shares": "topics:plot_shares",
    },
    "latent.topics.gibbs:TopicChain": {
        "topics": "topics:plot_topics",
        "shares": "topics:plot_shares",
        "trace": "topics:plot_topic_trace",
    },
    "estimators.topics:LatentDirichletAllocation": {
        "topics": "topics:plot_topics",
        "shares": "topics:plot_shares",
    },
    "optim.rates:DescentReport": {"rate": "optim:plot_rate"},
    "optim.stochastic:BatchRun": {"losses": "optim:plot_losses"},
    "optim.autodiff.differences:StepStudy": {"steps": "optim:plot_step_study"},
    "latent.factor.principal:PrincipalComponents": {
        "scree": "factor:plot_scree",
        "loadings": "factor:plot_loadings",
        "biplot": "factor:plot_biplot",
        "axes": "factor:plot_axes",
        "reconstruction": "factor:plot_reconstruction",
    },
    "latent.factor.sparse:SparseComponents": {
        "loadings": "factor:plot_loadings",
        "scree": "factor:plot_scree",
    },
    "latent.factor.linear_factors:LinearFactors": {
        "loadings": "factor:plot_loadings",
        "biplot": "factor:plot_biplot",
        "reconstruction": "factor:plot_reconstruction",
    },
    "latent.factor.fits:FactorFit": {
        "loadings": "factor:plot_loadings",
        "biplot": "factor:plot_biplot",
        "reconstruction": "factor:plot_reconstruction",
    },
    "latent.factor.dimension:DimensionEvidence": {"dimension": "factor:plot_dimension"},
    "estimators.factor:PCA": {
        "scree": "factor:plot_scree",
        "loadings": "factor:plot_loadings",
        "biplot": "factor:plot_biplot",
        "axes": "factor:plot_axes",
        "reconstruction": "factor:plot_reconstruction",
    },
    "estimators.factor:FactorAnalysis": {
        "loadings": "factor:plot_loadings",
        "biplot": "factor:plot_biplot",
        "reconstruction": "factor:plot_reconstruction",
    },
    "supervised.trees.tree:Tree": {"tree": "trees:TreeDisplay.from_model"},
    "supervised.svm.study:BandwidthStudy": {"bandwidths": "margins:BandwidthDisplay.from_model"},
    "latent.mixtures.gaussian:GaussianMixture": {"mixture": "mixtures:plot_mixture"},
    "latent.mixtures.fitting:MixtureFit": {
        "mixture": "mixtures:plot_mixture",
        "climb": "mixtures:plot_climb",
    },
    "latent.mixtures.fitting:ComponentChoice": {"choice": "mixtures:plot_choice"},
    "estimators.mixtures:GaussianMixture": {"mixture": "mixtures:plot_mixture"},
    "latent.hierarchical.tree:ClusteringTree": {
        "dendrogram": "hierarchical:plot_dendrogram",
        "heatmap": "hierarchical:plot_clustered_heatmap",
    },
    "latent.manifold.classical:ClassicalEmbedding": {
        "embedding": "embeddings:plot_embedding",
        "shepard": "embeddings:plot_shepard",
    },
    "latent.manifold.smacof:StressEmbedding": {
        "embedding": "embeddings:plot_embedding",
        "shepard": "embeddings:plot_shepard",
    },
    "latent.manifold.graph:GeodesicEmbedding": {"embedding": "embeddings:plot_embedding"},
    "latent.manifold.graph:Eigenmaps": {"embedding": "embeddings:plot_embedding"},
    "latent.manifold.lle:LinearPatches": {"embedding": "embeddings:plot_embedding"},
    "estimators.hierarchical:AgglomerativeClustering": {
        "dendrogram": "hierarchical:plot_dendrogram",
        "heatmap": "hierarchical:plot_clustered_heatmap",
    },
    "estimators.manifold:_Embedding": {
        "embedding": "embeddings:plot_embedding",
        "shepard": "embeddings:plot_shepard",
    },
    "latent.kmeans.model:Clustering": {"cells": "kmeans:plot_cells", "cost": "kmeans:plot_cost"},
    "latent.kmeans.model:KMeans": {"cells": "kmeans:plot_cells"},
    "latent.kmeans.choice:ClusterNumbers": {"numbers": "kmeans:plot_cluster_numbers"},
    "estimators.kmeans:_Centred": {"cells": "kmeans:plot_cells", "cost": "kmeans:plot_cost"},
    "statespace.markov_chain.chain:MarkovChain": {
        "graph": "markov_chain:plot_chain",
        "distance": "markov_chain:plot_distance",
    },
    "statespace.markov_chain.autoregression:AutoRegressionForecast": {
        "forecast": "markov_chain:plot_forecast"
    },
    "statespace.kalman.results:FilteredStates": {"states": "state_space:plot_smoothed"},
    "statespace.kalman.results:SmoothedStates": {"states": "state_space:plot_smoothed"},
    "statespace.kalman.results:Forecast": {"forecast": "state_space:plot_forecast"},
    "statespace.kalman.structural:StructuralFit": {
        "forecast": "state_space:plot_forecast",
        "decomposition": "state_space:plot_decomposition",
    },
    "statespace.kalman.structural:Decomposition": {"decomposition": "state_space:plot_decomposition"},
    "statespace.linear_systems.system:Response": {"response": "state_space:plot_response"},
    "statespace.pagerank:PageRank": {"scores": "markov_chain:plot_scores"},
    "statespace.forecast.forecast:SeriesForecast": {
        "fan": "forecast:plot_fan",
        "decomposition": "forecast:plot_decomposition",
    },
    "estimators.forecaster:Forecaster": {
        "fan": "forecast:plot_fan",
        "decomposition": "forecast:plot_decomposition",
    },
    "race.result:TableFit": {
        "leaderboard": "race:plot_leaderboard",
        "coverage": "race:plot_levels",
        "groups": "race:plot_groups",
        "calibration": "race:plot_calibration",
        "risk": "race:plot_risk",
        "importance": "race:plot_importance",
        "effects": "race:plot_effects",
        "outcomes": "race:plot_outcomes",
        "residuals": "race:plot_residuals",
    },
    "estimators.gaussian_process:GaussianProcessRegressor": {
        "process": "gaussian_process:ProcessDisplay.from_model"
    },
    "estimators.sparse_gaussian_process:SparseGaussianProcessRegressor": {
        "process": "gaussian_process:ProcessDisplay.from_model"
    },
    "estimators.trees:TreeClassifier": {"tree": "trees:TreeDisplay.from_estimator"},
    "estimators.trees:TreeRegressor": {"tree": "trees:TreeDisplay.from_estimator"},
    "estimators.trees:Grown": {"importance": "trees:ImportanceDisplay.from_estimator"},
    "estimators.base:Regressor": {"band": "regression:PredictiveBandDisplay.from_estimator"},
    "estimators.base:Classifier": {
        "calibration": "classification:CalibrationDisplay.from_estimator",
        "regions": "classification:DecisionRegionDisplay.from_estimator",
        "risk_coverage": "classification:RiskCoverageDisplay.from_estimator",
    },
}


def kinds_of(result: Any) -> dict[str, str]:
    """The pictures of a result by kind, the default first: those of its class, then those of its bases."""
    found: dict[str, str] = {}
    for base in type(result).__mro__:
        place = f"{base.__module__.removeprefix('tractable.')}:{base.__qualname__}"
        found = found | {kind: door for kind, door in KINDS.get(place, {}).items() if kind not in found}
    return found


def plot(result: Any, *data: Any, kind: str | None = None, **options: Any) -> Any:
    """The picture of a result, a model or an estimator: the axes that it was drawn on (a list, for several).

    `data` are those that the picture needs, such as the rows of an estimator: `plot(model, X, y)`. `kind` is
    one of the kinds of pictures that the class has, its first one by default; `options` go to the picture.

    >>> from tractable.distributions import Normal
    >>> plot(Normal(0.0, 1.0)).get_xlabel()
    'x'
    """
    known = kinds_of(result)
    must = "a result, model or estimator that has a picture"
    fix = "Posteriors, networks, processes, kernels, distributions, trees and fitted estimators do."
    check(bool(known), "result", must, type(result).__name__, fix, TypeError)
    chosen = next(iter(known)) if kind is None else kind
    check_option("kind", chosen, tuple(known))
    module, _, path = known[chosen].partition(":")
    draw: Any = importlib.import_module(f"tractable.plots.{module}")
    for name in path.split("."):
        draw = getattr(draw, name)
    drawn = draw(result, *data, **options)
    if not hasattr(drawn, "plot") or hasattr(drawn, "get_figure"):
        return drawn
    return drawn.ax_ if hasattr(drawn, "ax_") else drawn.plot().ax_
