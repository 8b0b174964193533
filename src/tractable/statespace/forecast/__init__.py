"""Forecasts of series: candidates at rolling origins, mixed, with intervals of measured coverage."""
