"""Layer 6: models of sequences: Markov chains, hidden Markov models, Kalman filters, linear systems."""

from tractable._lazy import attach

__all__ = attach(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
