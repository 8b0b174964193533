"""Smaller networks: fewer neurons, fewer weights, fewer bits for each."""
