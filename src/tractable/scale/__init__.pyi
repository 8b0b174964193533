"""Layer 9: many machines: whatever has additive statistics, fitted where the rows are."""
