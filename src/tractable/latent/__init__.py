"""Layer 6: latent structure: clusters, mixtures, factors, embeddings and topics."""

from tractable._lazy import attach

__all__ = attach(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
