"""Layer 10: every model family as a scikit-learn estimator, with distributions as predictions."""

from tractable._lazy import attach

__all__ = attach(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
