"""Layer 7: neural networks: layers, training, sequences, uncertainty, capsules, compression."""

from tractable._lazy import attach

__all__ = attach(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
