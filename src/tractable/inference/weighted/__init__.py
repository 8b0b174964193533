"""Draws with weights, or accepted and refused: importance and rejection sampling."""
