"""Markov chains: the model, its fit by counts, higher orders, and what follows from a transition matrix."""
