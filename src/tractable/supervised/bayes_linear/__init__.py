"""Bayesian linear regression: conjugate, by evidence, variational and by full Bayes."""
