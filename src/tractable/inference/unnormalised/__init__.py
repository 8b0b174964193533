"""Models known up to a constant: contrastive estimation and score matching."""
