"""Gibbs sampling: blocks, factor graphs, mixtures, noisy-or networks, clusters of spins."""
