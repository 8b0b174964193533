"""Layer 6: Gaussian processes: exact, sparse, iterative, state-space; regression and classification."""

from tractable._lazy import attach

__all__ = attach(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
