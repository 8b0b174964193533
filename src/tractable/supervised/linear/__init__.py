"""Least squares: ordinary, weighted, generalised, ridge, lasso, robust and recursive."""
