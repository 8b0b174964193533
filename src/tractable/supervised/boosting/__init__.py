"""Boosting of the parameters of laws: gradients, rounds, calibration."""
