"""Variational inference: bounds, families, coordinate and stochastic ascent."""
