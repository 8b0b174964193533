r"""The contract of every bijection, closed under inversion and composition: the value and its log-determinant
travel together.

Contract.    For one point $x$, `forward_and_log_det(x)` returns $y = f(x)$ and the scalar $\log|\det \partial
             f/\partial x|$; `inverse_and_log_det(y)` returns $x = f^{-1}(y)$ and the log-determinant of the
             inverse. Batches are `vmap` at the edge.
Identity.    $(f_n \circ \dots \circ f_1)$ has the log-determinant $\sum_i \log|\det \partial f_i/\partial
             x_{i-1}|$ with $x_i = f_i(x_{i-1})$; the inverse has minus the log-determinant, taken at $x$.
Cost.        That of the maps; the point is visited once in each direction.
References.  Papamakarios et al. (2021), "Normalizing flows for probabilistic modeling and inference", section
             2.
"""

import math
from abc import abstractmethod
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from tractable.core.checks import as_float, check
from tractable.core.module import Module, field
from tractable.core.support import Real, Support, real
from tractable.core.types import Array, ArrayLike, Scalar

__all__ = ["Bijection", "Chain", "Image", "Inverse"]


class Bijection(Module):
    """An invertible differentiable map. A subclass states `_forward` and `_inverse`, each for one point, each
    with its log-determinant."""

    ranks: ClassVar[tuple[int | None, int | None]] = (None, None)  # of one point and of its image; None: any

    @abstractmethod
    def _forward(self, x: Array) -> tuple[Array, Scalar]:
        r"""$f(x)$ and $\log|\det \partial f/\partial x|$."""

    @abstractmethod
    def _inverse(self, y: Array) -> tuple[Array, Scalar]:
        r"""$f^{-1}(y)$ and $\log|\det \partial f^{-1}/\partial y|$."""

    @property
    def domain(self) -> Support:
        """Where the map is defined (for each member of the argument)."""
        return real

    @property
    def codomain(self) -> Support:
        """The set that it reaches from all of its domain."""
        return real

    @property
    def increasing(self) -> Any:
        """For a map of each entry by itself: whether it increases (a truth value or an array of them); else
        `None`."""
        return None

    @property
    def is_affine(self) -> bool:
        r"""Whether $f(x) = Ax + b$: expectations pass through and the log-determinant is constant."""
        return False

    @property
    def has_affine_log_det(self) -> bool:
        r"""Whether $E[\log|\det \partial f/\partial x|]$ is the log-determinant at $E[x]$."""
        return self.is_affine

    def forward_and_log_det(self, x: ArrayLike) -> tuple[Array, Scalar]:
        r"""$f(x)$ and $\log|\det \partial f/\partial x|$."""
        return self._forward(self._point("x", x, self.ranks[0]))

    def inverse_and_log_det(self, y: ArrayLike) -> tuple[Array, Scalar]:
        r"""$f^{-1}(y)$ and $\log|\det \partial f^{-1}/\partial y|$."""
        return self._inverse(self._point("y", y, self.ranks[1]))

    def forward(self, x: ArrayLike) -> Array:
        r"""$f(x)$."""
        return self.forward_and_log_det(x)[0]

    def inverse(self, y: ArrayLike) -> Array:
        r"""$f^{-1}(y)$."""
        return self.inverse_and_log_det(y)[0]

    def image(self, support: Support) -> Support:
        """The set of $f(x)$ for $x$ in `support`."""
        if type(support) is Real and type(self.domain) is Real:
            return self.codomain
        return Image(support, self, support.ndim if self.ranks[1] is None else self.ranks[1])

    def preimage(self, support: Support) -> Support:
        """The set of $x$ whose $f(x)$ lies in `support`."""
        if not jax.tree.leaves(support) and eqx.tree_equal(support, self.codomain) is True:
            return self.domain
        return Image(support, Inverse(self), support.ndim if self.ranks[0] is None else self.ranks[0])

    @property
    def inverted(self) -> "Bijection":
        """The same map read backwards."""
        return Inverse(self)

    def __rshift__(self, after: "Bijection") -> "Chain":
        """`f >> g` applies `f`, then `g`."""
        return Chain(self, after)

    def _point(self, name: str, x: ArrayLike, rank: int | None) -> Array:
        x = as_float(name, x)
        fix = "A bijection takes one point; use `jax.vmap` for many."
        check(rank is None or x.ndim == rank, name, f"one point of rank {rank}", f"shape {x.shape}", fix)
        return x


class Inverse(Bijection):
    """`original` read backwards."""

    original: Bijection

    def _forward(self, x):
        return self.original.inverse_and_log_det(x)

    def _inverse(self, y):
        return self.original.forward_and_log_det(y)

    @property
    def domain(self) -> Support:
        return self.original.codomain

    @property
    def codomain(self) -> Support:
        return self.original.domain

    @property
    def increasing(self) -> Any:
        return self.original.increasing

    @property
    def is_affine(self) -> bool:
        return self.original.is_affine

    @property
    def inverted(self) -> Bijection:
        return self.original

    def image(self, support: Support) -> Support:
        return self.original.preimage(support)

    def preimage(self, support: Support) -> Support:
        return self.original.image(support)


class Chain(Bijection):
    """The maps one after another, the first named applied first.

    >>> from tractable.bijections.elementwise import Affine, Exp
    >>> value, log_det = Chain(Affine(1.0, 2.0), Exp()).forward_and_log_det(0.0)
    >>> round(float(value), 4), round(float(log_det), 4)  # exp(1), and log 2 + 1
    (2.7183, 1.6931)
    """

    bijections: tuple[Bijection, ...]

    def __init__(self, *bijections: Bijection):
        fix = "Use `Identity()` for the empty chain."
        check(len(bijections) > 0, "bijections", "at least one map", "none", fix)
        self.bijections = bijections

    def _forward(self, x):
        total = jnp.zeros((), x.dtype)
        for bijection in self.bijections:
            x, log_det = bijection.forward_and_log_det(x)
            total = total + log_det
        return x, total

    def _inverse(self, y):
        total = jnp.zeros((), y.dtype)
        for bijection in reversed(self.bijections):
            y, log_det = bijection.inverse_and_log_det(y)
            total = total + log_det
        return y, total

    @property
    def domain(self) -> Support:
        return self.bijections[0].domain

    @property
    def codomain(self) -> Support:
        return self.image(self.domain)

    @property
    def increasing(self) -> Any:
        directions = [bijection.increasing for bijection in self.bijections]
        if any(direction is None for direction in directions):
            return None
        together = True
        for direction in directions:
            together = direction == together  # two falls make a rise
        return together

    @property
    def is_affine(self) -> bool:
        return all(bijection.is_affine for bijection in self.bijections)

    @property
    def has_affine_log_det(self) -> bool:
        affine_so_far = True
        for bijection in self.bijections:
            if not (bijection.is_affine or (affine_so_far and bijection.has_affine_log_det)):
                return False
            affine_so_far = affine_so_far and bijection.is_affine
        return True

    def image(self, support: Support) -> Support:
        for bijection in self.bijections:
            support = bijection.image(support)
        return support

    def preimage(self, support: Support) -> Support:
        for bijection in reversed(self.bijections):
            support = bijection.preimage(support)
        return support


class Image(Support):
    r"""$\{f(x) : x \in S\}$, judged by going back: $y$ belongs where $f^{-1}(y) \in S$."""

    original: Support
    bijection: Bijection
    ndim: int = field(static=True)  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, original: Support, bijection: Bijection, ndim: int = 0):
        self.original, self.bijection, self.ndim = original, bijection, ndim

    @property
    def words(self) -> str:
        return f"the image under {type(self.bijection).__name__} of a point that is {self.original.words}"

    def contains(self, x: ArrayLike) -> Array:
        x = jnp.asarray(x)
        lead = x.shape[: x.ndim - self.ndim]
        flat = x.reshape((math.prod(lead), *x.shape[x.ndim - self.ndim :]))
        return jax.vmap(self._holds)(flat).reshape(lead)

    def interior(self, like: ArrayLike) -> Array:
        like = jnp.asarray(like)
        member = jax.eval_shape(
            self.bijection.inverse, jax.ShapeDtypeStruct(like.shape[like.ndim - self.ndim :], like.dtype)
        )
        safe = self.bijection.forward(self.original.interior(jnp.zeros(member.shape, like.dtype)))
        return jnp.broadcast_to(safe, like.shape)

    def _holds(self, y: Array) -> Array:
        back = jnp.all(self.original.contains(self.bijection.inverse(y)))
        return back & jnp.all(self.bijection.codomain.contains(y)) & jnp.isfinite(y).all()
