"""Layer 6: models of sequences: Markov chains, hidden Markov models, Kalman filters, linear systems."""

from tractable.statespace.hmm.gaussian_emissions import Gaussians as Gaussians
from tractable.statespace.hmm.model import HiddenMarkov as HiddenMarkov
from tractable.statespace.kalman.system import LinearGaussianSystem as LinearGaussianSystem
from tractable.statespace.nonlinear.system import NonlinearSystem as NonlinearSystem
