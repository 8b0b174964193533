"""How far to trust draws and predictions: diagnostics, verdicts, calibration, checks by simulation."""
