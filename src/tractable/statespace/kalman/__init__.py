"""Linear-Gaussian state-space models: filters, smoothers, fits, forecasts and structural series."""
