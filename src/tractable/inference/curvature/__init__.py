"""Gaussian approximations from the curvature at a mode: Laplace's method."""
