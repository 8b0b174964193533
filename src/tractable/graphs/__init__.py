"""Layer 6: graphical models: directed, undirected and factor graphs, their queries, files and learning."""

from tractable._lazy import attach

__all__ = attach(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
