"""Layer 2: invertible maps with their log-determinants, and the way from constrained parameters to real numbers."""

from tractable.bijections.base import Bijection

__all__ = ["Bijection"]
