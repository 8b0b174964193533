"""Layer 7: probabilistic programs: the model language, structure found in it, and one `infer`."""

from tractable._lazy import attach

__all__ = attach(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
