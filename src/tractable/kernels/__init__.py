"""Layer 3: covariance functions and other kernels: stationary, dot-product, structured; strings, graphs."""

from tractable._lazy import attach

__all__ = attach(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
