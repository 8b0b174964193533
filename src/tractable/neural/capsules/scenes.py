r"""Generated scenes for capsules: the same parts in different arrangements, seen from different viewpoints.

Scene.       Class $c$ fixes a pose $G_{ci}$ for each part $i$; a viewpoint is a similarity $T$ (turn, size,
             shift), and part $i$ is seen at $T G_{ci}$, in homogeneous coordinates of the plane. Every class
             has the same parts: only their poses relative to each other tell the classes apart.
Image.       A part is three spots of different brightness, at fixed places in its own coordinates.
Cost.        $O(N(p + s^2))$ for $N$ scenes of $p$ parts on images of $s \times s$ pixels.
"""

import numpy as np

from tractable.core.checks import check, check_count
from tractable.core.host_random import generator
from tractable.core.module import HostResult
from tractable.core.types import Float, Int

__all__ = ["Scenes", "posed_scenes"]

_SPOTS = np.array([[-0.6, 0.0, 1.0], [0.3, 0.0, 1.0], [0.3, 0.6, 1.0]])
_BRIGHTNESS = np.array([1.0, 0.8, 0.6])


class Scenes(HostResult):
    """The poses of the parts of each scene, its image (one channel), and the class that it shows."""

    poses: Float[np.ndarray, "scenes parts 2 3"]
    images: Float[np.ndarray, "scenes 1 size size"]
    labels: Int[np.ndarray, " scenes"]


def posed_scenes(
    num_scenes: int,
    *,
    turns: tuple[float, float] = (-0.3, 0.3),
    shifts: tuple[float, float] = (-0.1, 0.1),
    num_classes: int = 4,
    num_parts: int = 4,
    size: int = 16,
    noise: float = 0.02,
    seed: int = 0,
) -> Scenes:
    """Scenes from viewpoints drawn uniformly: `turns` in radians, `shifts` along both axes, where the image
    spans -1 to 1. The arrangements are the same for every `seed`.

    >>> scenes = posed_scenes(6, turns=(0.0, 0.0), shifts=(0.0, 0.0))
    >>> scenes.poses.shape, scenes.images.shape, scenes.labels.tolist()
    ((6, 4, 2, 3), (6, 1, 16, 16), [0, 1, 2, 3, 0, 1])
    """
    check(noise >= 0, "noise", "zero or positive", noise)
    count, k = check_count("num_scenes", num_scenes), check_count("num_classes", num_classes)
    numbers, parts = generator(seed), check_count("num_parts", num_parts)
    own = generator(0)  # of the arrangements
    arrangement = _similarities(
        own.uniform(-np.pi, np.pi, (k, parts)),
        np.full((k, parts), 0.25),
        own.uniform(-0.4, 0.4, (k, parts, 2)),
    )
    labels = np.arange(count) % k
    view = _similarities(
        numbers.uniform(*turns, count), numbers.uniform(0.9, 1.1, count), numbers.uniform(*shifts, (count, 2))
    )
    exact = (view[:, None] @ arrangement[labels])[:, :, :2]  # the last row is (0, 0, 1)
    poses = exact + noise * numbers.normal(size=exact.shape)
    images = _images(poses, check_count("size", size))
    return Scenes(poses, images + noise * numbers.normal(size=images.shape), labels)


def _similarities(turn: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Matrices of similarities of the plane in homogeneous coordinates."""
    found = np.zeros((*turn.shape, 3, 3))
    cosine, sine = scale * np.cos(turn), scale * np.sin(turn)
    found[..., 0, 0], found[..., 0, 1], found[..., 1, 0], found[..., 1, 1] = cosine, -sine, sine, cosine
    found[..., :2, 2], found[..., 2, 2] = shift, 1.0
    return found


def _images(poses: np.ndarray, size: int) -> np.ndarray:
    """Spots of light at the places where the poses put them, a pixel wide."""
    places = np.einsum("npij,sj->npsi", poses, _SPOTS)
    axis = np.linspace(-1, 1, size)
    width = 2 / (size - 1)
    lit = np.exp(-0.5 * ((axis - places[..., None]) / width) ** 2)  # (scenes, parts, spots, axes, size)
    return np.einsum("s,npsx,npsy->nyx", _BRIGHTNESS, lit[..., 0, :], lit[..., 1, :])[:, None]
