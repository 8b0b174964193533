"""Layer 6: models of sequences: Markov chains, hidden Markov models, Kalman filters, linear systems."""
