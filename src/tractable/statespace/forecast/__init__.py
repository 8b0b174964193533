"""Forecasts of series: candidates at rolling origins, stacked, with intervals of measured coverage."""
