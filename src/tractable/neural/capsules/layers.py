r"""Layers of matrix capsules: poses from an image, votes by learned matrices, and a classifier.

Votes.       $V_{ij} = M_iW_{ij}$ for lower poses $M_i$ ($r \times d$) and learned $W_{ij}$ ($d \times d$). If
             the whole is turned by $T$, $M_i \to TM_i$, its votes turn alike, and agree as before: what the
             layer has learned from one viewpoint holds for the others. A pose of the plane is $2 \times 3$,
             two axes and a place; the row (0, 0, 1) of an affine map says nothing, and is left out.
Coordinates. A capsule found at a place $x$ of an image adds $x$ to the last column of its votes, so that
             $W_{ij}$, one for all places, learns where the whole lies relative to the part.
Cost.        $O(nmd^3)$ for the votes, and the routing.
References.  Hinton, Sabour and Frosst (2018), "Matrix capsules with EM routing".
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from tractable.core.checks import check, check_count, check_shape
from tractable.core.keys import takes_key
from tractable.core.types import Array, Float, Key
from tractable.neural.capsules.routing import Routing, em_routing, inverse_temperatures

__all__ = ["CapsuleClassifier", "CapsuleLayer", "PrimaryCapsules"]


class PrimaryCapsules(eqx.Module):
    """Capsules of `num_types` kinds at each place of an image: two convolutions, whose last gives poses and
    activations; called with an image (channels, height, width)."""

    features: eqx.nn.Conv2d
    capsules: eqx.nn.Conv2d
    num_types: int = eqx.field(static=True)
    dim: int = eqx.field(static=True)

    @takes_key
    def __init__(
        self, channels: int, num_types: int, dim: int = 3, *, key: Key, width: int = 16, kernel: int = 5,
        stride: int = 2, dtype=jnp.float32,
    ):  # fmt: skip
        first, second = jr.split(key)
        self.num_types, self.dim = check_count("num_types", num_types), check_count("dim", dim)
        out = self.num_types * (self.dim * (self.dim - 1) + 1)
        self.features = eqx.nn.Conv2d(channels, width, kernel, stride=stride, dtype=dtype, key=first)
        self.capsules = eqx.nn.Conv2d(width, out, 1, dtype=dtype, key=second)

    def __call__(
        self, image: Float[Array, "channels height width"]
    ) -> tuple[Float[Array, "n r d"], Float[Array, " n"], Float[Array, "n 2"]]:
        """Poses, activations and places of the capsules, those of one place after each other."""
        found = self.capsules(jax.nn.relu(self.features(image)))
        _, rows, columns = found.shape
        each = jnp.moveaxis(found, 0, -1).reshape(rows * columns * self.num_types, -1)
        poses = each[:, :-1].reshape(-1, self.dim - 1, self.dim)
        axes = [jnp.linspace(-1.0, 1.0, size, dtype=found.dtype) for size in (columns, rows)]
        x, y = jnp.meshgrid(*axes)
        places = jnp.repeat(jnp.stack([x.ravel(), y.ravel()], 1), self.num_types, 0)
        return poses, jax.nn.sigmoid(each[:, -1]), places


class CapsuleLayer(eqx.Module):
    r"""Votes of `num_lower` kinds of capsules for `num_upper` capsules with $d \times d$ poses, routed by EM.

    Lower capsules come in groups of `num_lower`, one group for each place; all places share the matrices.

    >>> layer = CapsuleLayer(4, 2, key=jr.key(0))
    >>> layer(jnp.ones((4, 3, 3), jnp.float32), jnp.ones(4, jnp.float32)).poses.shape
    (2, 9)
    """

    weight: Float[Array, "lower upper d d"]
    offset: Float[Array, " upper"]
    threshold: Float[Array, " upper"]
    inverse_temperatures: tuple[float, ...] = eqx.field(static=True)
    floor: float = eqx.field(static=True)

    @takes_key
    def __init__(
        self, num_lower: int, num_upper: int, dim: int = 3, *, key: Key, num_steps: int = 3,
        largest: float = 0.3, floor: float = 1e-4, dtype=jnp.float32,
    ):  # fmt: skip
        shape = (check_count("num_lower", num_lower), check_count("num_upper", num_upper))
        noise = 0.5 * jr.normal(key, (*shape, dim, dim), dtype)
        self.weight = jnp.eye(dim, dtype=dtype)[None, None] + noise
        self.offset = jnp.zeros(shape[1], dtype)
        self.threshold = jnp.zeros(shape[1], dtype)
        self.inverse_temperatures = inverse_temperatures(num_steps, largest, 0.5)
        self.floor = floor

    def __call__(
        self,
        poses: Float[Array, "n r d"],
        activations: Float[Array, " n"],
        places: Float[Array, "n 2"] | None = None,
    ) -> Routing:
        votes = self.votes(poses, places)
        share = votes.shape[1] / votes.shape[0]  # costs count lower capsules: in units of a mean share
        return em_routing(
            votes,
            activations,
            offset=self.offset,
            threshold=self.threshold / share,
            inverse_temperatures=tuple(share * value for value in self.inverse_temperatures),
            floor=self.floor,
        )

    def votes(
        self, poses: Float[Array, "n r d"], places: Float[Array, "n 2"] | None = None
    ) -> Float[Array, "n upper h"]:
        """$M_iW_{ij}$ as vectors, with the places added to the first entries of the last column."""
        lower, upper, dim, _ = self.weight.shape
        check_shape("poses", poses, (None, None, dim))
        n, rows, _ = poses.shape
        check(n % lower == 0, "poses", f"a multiple of {lower} capsules, the kinds of the layer", n)
        groups = poses.reshape(-1, lower, rows, dim)
        votes = jnp.einsum("gtij,tujk->gtuik", groups, self.weight).reshape(n, upper, rows, dim)
        if places is not None:
            check_shape("places", places, (n, 2))
            votes = votes.at[:, :, :2, -1].add(places[:, None, :])
        return votes.reshape(n, upper, rows * dim)


class CapsuleClassifier(eqx.Module):
    """Classes as capsules: the network of an image gives the activation of each class, for the spread loss.

    >>> network = CapsuleClassifier(1, 4, key=jr.key(0))
    >>> network(jnp.zeros((1, 16, 16), jnp.float32)).shape
    (4,)
    """

    primary: PrimaryCapsules
    classes: CapsuleLayer

    @takes_key
    def __init__(
        self,
        channels: int,
        num_classes: int,
        *,
        key: Key,
        num_types: int = 6,
        dim: int = 3,
        dtype=jnp.float32,
    ):
        first, second = jr.split(key)
        self.primary = PrimaryCapsules(channels, num_types, dim, key=first, dtype=dtype)
        self.classes = CapsuleLayer(num_types, num_classes, dim, key=second, dtype=dtype)

    def route(self, image: Float[Array, "channels height width"]) -> Routing:
        """The capsules of the classes, with their poses and the shares of the lower ones."""
        return self.classes(*self.primary(image))

    def __call__(self, image: Float[Array, "channels height width"]) -> Float[Array, " classes"]:
        return self.route(image).activations
