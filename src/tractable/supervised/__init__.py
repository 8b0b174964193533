"""Layer 6: regression and classification: linear, Bayesian, kernel and tree models, selection, trust."""

from tractable._lazy import attach

__all__ = attach(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
