"""Layer 10b: models of a table raced against each other on rows they have not seen, and the winner kept."""

from tractable._lazy import attach

__all__ = attach(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
