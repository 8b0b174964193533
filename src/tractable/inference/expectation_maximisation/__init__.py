"""Expectation-maximisation and its variants."""
