"""Layer 6: models of sequences: Markov chains, hidden Markov models, Kalman filters, linear systems."""

from tractable.statespace.kalman.system import LinearGaussianSystem as LinearGaussianSystem
