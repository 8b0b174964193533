"""State-space models that are not linear or not Gaussian: filters by moments, particles, modes and grids."""
