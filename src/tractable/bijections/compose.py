r"""Maps made of maps: one after another, backwards, side by side, over independent members, and
rearrangements.

Identity.    Maps of separate parts have a block-diagonal Jacobian, so their log-determinants add, as those of
             a chain do. Rearrangements keep volume.
Cost.        That of the parts.
"""

import math
from collections.abc import Sequence
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from tractable.bijections.base import Bijection, Chain, Inverse
from tractable.core.checks import check, check_shape
from tractable.core.module import field
from tractable.core.support import Real, Support, real
from tractable.core.types import Array, ArrayLike, Shape

__all__ = ["Chain", "Concatenate", "Inverse", "Members", "Parts", "Permute", "Reshape"]


class Parts(Support):
    """Vectors whose consecutive parts, of the given `sizes`, lie each in a set of its own."""

    supports: tuple[Support, ...]
    sizes: Shape = field(static=True)

    ndim: ClassVar[int] = 1

    @property
    def words(self) -> str:
        return "a vector whose parts are: " + "; ".join(
            f"{n} x {s.words}" for s, n in zip(self.supports, self.sizes)
        )

    def contains(self, x: ArrayLike) -> Array:
        x = jnp.asarray(x)
        parts = jnp.split(x, np.cumsum(self.sizes)[:-1], axis=-1)
        inside = [_each_vector(s.contains(part), s.ndim) for s, part in zip(self.supports, parts)]
        return jnp.stack(inside).all(0)

    def interior(self, like: ArrayLike) -> Array:
        parts = jnp.split(jnp.asarray(like), np.cumsum(self.sizes)[:-1], axis=-1)
        return jnp.concatenate([s.interior(part) for s, part in zip(self.supports, parts)], -1)


class Concatenate(Bijection):
    """A vector cut into parts of the given `sizes`, each with its own map, and put together again; a part may
    change its length."""

    bijections: tuple[Bijection, ...]
    sizes: Shape = field(static=True)

    ranks: ClassVar[tuple[int | None, int | None]] = (1, 1)

    def __init__(self, bijections: Sequence[Bijection], sizes: Sequence[int]):
        must = f"one length for each of {len(bijections)} maps"
        check(len(bijections) == len(sizes) > 0, "sizes", must, list(sizes))
        self.bijections, self.sizes = tuple(bijections), tuple(int(n) for n in sizes)

    def _forward(self, x):
        check_shape("x", x, (sum(self.sizes),))
        parts = jnp.split(x, np.cumsum(self.sizes)[:-1])
        return _joined([b.forward_and_log_det(part) for b, part in zip(self.bijections, parts)])

    def _inverse(self, y):
        sizes = [_image_shape(b, (n,), y)[0] for b, n in zip(self.bijections, self.sizes)]
        check_shape("y", y, (sum(sizes),))
        parts = jnp.split(y, np.cumsum(sizes)[:-1])
        return _joined([b.inverse_and_log_det(part) for b, part in zip(self.bijections, parts)])

    @property
    def domain(self) -> Support:
        return _parts([b.domain for b in self.bijections], list(self.sizes))

    @property
    def codomain(self) -> Support:
        sizes = [_image_shape(b, (n,), jnp.zeros(0))[0] for b, n in zip(self.bijections, self.sizes)]
        return _parts([b.codomain for b in self.bijections], sizes)

    @property
    def is_affine(self) -> bool:
        return all(b.is_affine for b in self.bijections)

    @property
    def has_affine_log_det(self) -> bool:
        return all(b.has_affine_log_det for b in self.bijections)


class Members(Bijection):
    """One map for each of the independent members along the leading axes; the log-determinants are summed."""

    bijection: Bijection

    def _forward(self, x):
        return _over_members(self.bijection.forward_and_log_det, x, self.bijection.ranks[0] or 0)

    def _inverse(self, y):
        return _over_members(self.bijection.inverse_and_log_det, y, self.bijection.ranks[1] or 0)

    @property
    def domain(self) -> Support:
        return self.bijection.domain

    @property
    def codomain(self) -> Support:
        return self.bijection.codomain

    @property
    def is_affine(self) -> bool:
        return self.bijection.is_affine

    @property
    def has_affine_log_det(self) -> bool:
        return self.bijection.has_affine_log_det


class _Rearrangement(Bijection):
    """The same entries in other places: volume is kept, and so is a set that holds each entry by itself."""

    @property
    def is_affine(self) -> bool:
        return True

    def image(self, support: Support) -> Support:
        return support if _is_one_set(support) else super().image(support)

    def preimage(self, support: Support) -> Support:
        return support if _is_one_set(support) else super().preimage(support)


class Permute(_Rearrangement):
    """Entry `order[i]` of the argument becomes entry i along the first axis."""

    order: Shape = field(static=True)

    def __init__(self, order: Sequence[int]):
        self.order = tuple(int(i) for i in order)
        ok = sorted(self.order) == list(range(len(self.order)))
        check(ok and self.order != (), "order", "each of 0 .. n - 1 once", list(self.order))

    def _forward(self, x):
        check_shape("x", x, (len(self.order), *x.shape[1:]))
        return x[np.asarray(self.order)], jnp.zeros((), x.dtype)

    def _inverse(self, y):
        check_shape("y", y, (len(self.order), *y.shape[1:]))
        return y[np.argsort(self.order)], jnp.zeros((), y.dtype)


class Reshape(_Rearrangement):
    """The same entries, in the same order, in another shape."""

    before: Shape = field(static=True)
    after: Shape = field(static=True)

    def __check_init__(self) -> None:
        ok = math.prod(self.before) == math.prod(self.after)
        check(ok, "after", f"a shape with as many entries as {self.before}", self.after)

    def _forward(self, x):
        check_shape("x", x, self.before)
        return x.reshape(self.after), jnp.zeros((), x.dtype)

    def _inverse(self, y):
        check_shape("y", y, self.after)
        return y.reshape(self.before), jnp.zeros((), y.dtype)


def _is_one_set(support: Support) -> bool:
    """Whether each entry lies in the same set, whatever its place."""
    return support.ndim == 0 and all(jnp.shape(end) == () for end in jax.tree.leaves(support))


def _parts(supports: list[Support], sizes: list[int]) -> Support:
    return real if all(type(s) is Real for s in supports) else Parts(tuple(supports), tuple(sizes))


def _each_vector(inside: ArrayLike, ndim: int) -> Array:
    return jnp.asarray(inside) if ndim else jnp.asarray(inside).all(-1)


def _total(results: list[tuple[Array, Array]]) -> Array:
    return jnp.stack([log_det for _, log_det in results]).sum()


def _joined(results: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    return jnp.concatenate([value for value, _ in results]), _total(results)


def _image_shape(bijection: Bijection, shape: Shape, like: Array) -> Shape:
    return jax.eval_shape(bijection.forward, jax.ShapeDtypeStruct(shape, like.dtype)).shape


def _over_members(function, x: Array, rank: int) -> tuple[Array, Array]:
    check(x.ndim >= rank, "x", f"an array with at least {rank} axes", f"shape {x.shape}")
    lead, member = x.shape[: x.ndim - rank], x.shape[x.ndim - rank :]
    values, log_dets = jax.vmap(function)(x.reshape((math.prod(lead), *member)))
    return values.reshape(lead + values.shape[1:]), log_dets.sum()
