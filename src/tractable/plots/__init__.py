"""Layer 10: pictures. Functions that take a result and return the Matplotlib axes that they drew on."""

from tractable._lazy import attach

__all__ = attach(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
