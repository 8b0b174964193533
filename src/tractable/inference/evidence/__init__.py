"""Evidence and the comparison of models."""
