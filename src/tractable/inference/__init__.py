"""Layer 5: inference. Algorithms act on whatever has the small protocol they need; they import no model."""

from tractable._lazy import attach

__all__ = attach(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
