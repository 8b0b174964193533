"""Choosing and judging models: splits, validation, losses, bias and variance, uncertainty."""
