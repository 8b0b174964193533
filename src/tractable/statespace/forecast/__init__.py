"""Forecasts of series: candidates compared at rolling origins, stacked, with intervals of measured coverage."""
