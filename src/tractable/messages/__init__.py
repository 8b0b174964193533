"""Layer 4: exact contraction. Messages on chains, trees, loops and junction trees, over any semiring."""

from tractable._lazy import attach

__all__ = attach(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
