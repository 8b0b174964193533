"""Layer 4: optimisers, line searches, projections, constrained and convex problems, rates,
differentiation."""

from tractable._lazy import attach

__all__ = attach(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
