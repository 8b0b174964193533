"""Particles: sequential Monte Carlo, filters and smoothers."""
