"""Measurements beside peers: `python -m benchmarks NAME`. Never part of the tests."""
