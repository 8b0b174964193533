"""Layer 6: models of sequences: Markov chains, hidden Markov models, Kalman filters, linear systems."""

from tractable.statespace.forecast.forecast import forecast_series as forecast_series
from tractable.statespace.hmm.gaussian_emissions import Gaussians as Gaussians
from tractable.statespace.hmm.model import HiddenMarkov as HiddenMarkov
from tractable.statespace.kalman.likelihood import fit_likelihood as fit_likelihood
from tractable.statespace.kalman.structural import Structural as Structural
from tractable.statespace.kalman.system import LinearGaussianSystem as LinearGaussianSystem
from tractable.statespace.linear_systems.discretise import discretise as discretise
from tractable.statespace.linear_systems.discretise import sampled_system as sampled_system
from tractable.statespace.linear_systems.system import LinearSystem as LinearSystem
from tractable.statespace.markov_chain.autoregression import AutoRegression as AutoRegression
from tractable.statespace.markov_chain.chain import MarkovChain as MarkovChain
from tractable.statespace.markov_chain.orders import choose_order as choose_order
from tractable.statespace.nonlinear.grid import grid_filter as grid_filter
from tractable.statespace.nonlinear.particle_chains import particle_gibbs as particle_gibbs
from tractable.statespace.nonlinear.particle_chains import particle_metropolis as particle_metropolis
from tractable.statespace.nonlinear.switching import SwitchingLinearSystem as SwitchingLinearSystem
from tractable.statespace.nonlinear.system import NonlinearSystem as NonlinearSystem
from tractable.statespace.pagerank import pagerank as pagerank
from tractable.statespace.pagerank import simulate_surfer as simulate_surfer
