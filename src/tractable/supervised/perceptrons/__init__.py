"""Perceptrons, and when classes can be separated by a plane."""
