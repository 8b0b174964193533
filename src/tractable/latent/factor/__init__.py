"""Linear factors: principal components, factor analysis and their relatives."""
