"""Layer 9: many machines: whatever has additive statistics, fitted where the rows are."""

from tractable._lazy import attach

__all__ = attach(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
