"""Layer 2: invertible maps with their log-determinants, and any model as real numbers."""

from tractable._lazy import attach

__all__ = attach(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
