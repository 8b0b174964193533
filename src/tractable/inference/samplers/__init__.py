"""Transition kernels of Markov chains on continuous spaces."""
