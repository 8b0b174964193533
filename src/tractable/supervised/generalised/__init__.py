"""Generalised linear models with predictive distributions: counts, positive numbers, proportions, classes in
order, times that may be censored, noise that grows."""
