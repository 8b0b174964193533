"""Layer 3: distributions, Gaussian algebra, conjugacy, divergences, information, tables."""

from tractable._lazy import attach

__all__ = attach(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
