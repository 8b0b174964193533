"""Linear systems without noise: states, discretisation, stability, responses."""
