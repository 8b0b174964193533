r"""The contract of every bijection: the value and the log-determinant always travel together.

Contract.    For one point $x$ (an array of any shape the map accepts), `forward_and_log_det(x)` returns
             $y = f(x)$ and the scalar $\log|\det \partial f/\partial x|$; `inverse_and_log_det(y)` returns $x = f^{-1}(y)$ and the log-determinant
             of the inverse. Batches are `vmap` at the edge.
Used by.     distributions.transformed, bijections.unconstrain, generative flows.
"""

from abc import abstractmethod

from tractable.core.module import Module
from tractable.core.types import Array, Scalar

__all__ = ["Bijection"]


class Bijection(Module):
    """An invertible differentiable map."""

    @abstractmethod
    def forward_and_log_det(self, x: Array) -> tuple[Array, Scalar]:
        r"""$f(x)$ and $\log|\det \partial f/\partial x|$."""

    @abstractmethod
    def inverse_and_log_det(self, y: Array) -> tuple[Array, Scalar]:
        r"""$f^{-1}(y)$ and $\log|\det \partial f^{-1}/\partial y|$."""

    def forward(self, x: Array) -> Array:
        r"""$f(x)$."""
        return self.forward_and_log_det(x)[0]

    def inverse(self, y: Array) -> Array:
        r"""$f^{-1}(y)$."""
        return self.inverse_and_log_det(y)[0]
