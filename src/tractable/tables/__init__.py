"""Layer 1b: tables of real life: files and frames read, columns described, rows encoded for models."""

from tractable._lazy import attach

__all__ = attach(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
