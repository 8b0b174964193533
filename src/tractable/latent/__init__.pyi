"""Layer 6: latent structure: clusters, mixtures, factors, embeddings and topics."""

from tractable.latent.mixtures.discrete import DiscreteMixture as DiscreteMixture
from tractable.latent.mixtures.fitting import choose_components as choose_components
from tractable.latent.mixtures.fitting import gaussian_mixture as gaussian_mixture
from tractable.latent.mixtures.gaussian import GaussianMixture as GaussianMixture
from tractable.latent.mixtures.guard import with_prior as with_prior
from tractable.latent.mixtures.regressions import MixtureOfExperts as MixtureOfExperts
from tractable.latent.mixtures.split_merge import SplitMergeEM as SplitMergeEM
from tractable.latent.mixtures.student import StudentMixture as StudentMixture
from tractable.latent.topics.corpus import Corpus as Corpus
from tractable.latent.topics.corpus import as_corpus as as_corpus
from tractable.latent.topics.lda import LatentDirichletAllocation as LatentDirichletAllocation
from tractable.latent.topics.simulate import simulate_corpus as simulate_corpus
