r"""What a kernel is for, and what its width does: two studies on small data.

Rings.       No line separates them, nor XOR; a Gaussian or quadratic kernel does.
Width.       $k = e^{-\|x - z\|^2/2\ell^2}$: as $\ell \to 0$ distances grow in its units, $K \to I$, and every
             row becomes a support vector: no training errors, and nothing learnt. As $\ell \to \infty$ all
             rows look alike.
Cost.        One machine per width.
"""

import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check
from tractable.core.host_random import generator
from tractable.core.module import Module
from tractable.core.types import ArrayLike
from tractable.kernels.stationary import RBF
from tractable.supervised.svm.gram import as_rows, signs_of
from tractable.supervised.svm.machine import SupportVectorMachine

__all__ = ["BandwidthStudy", "bandwidth_study", "rings", "xor"]


class BandwidthStudy(Module):
    """Errors and support vectors of machines with Gaussian kernels of several length scales."""

    length_scales: np.ndarray
    train_error: np.ndarray
    test_error: np.ndarray
    support_share: np.ndarray

    @property
    def best(self) -> float:
        """The length scale with the least test error, the largest of equals."""
        errors = np.asarray(self.test_error)
        return float(np.asarray(self.length_scales)[np.flatnonzero(errors == errors.min())[-1]])

    def __repr__(self) -> str:
        columns = (self.length_scales, self.train_error, self.test_error, self.support_share)
        lines = [f"  {l:>12.4g} {a:>8.3f} {b:>8.3f} {c:>8.3f}" for l, a, b, c in zip(*columns)]
        return "\n".join([f"  {'length scale':>12} {'train':>8} {'test':>8} {'support':>8}", *lines])


def rings(num_rows: int, *, seed: int = 0, noise: float = 0.15) -> tuple[np.ndarray, np.ndarray]:
    """Rows around circles of radius one (label -1) and two (label +1), in turn."""
    numbers = generator(seed)
    signs = np.where(np.arange(num_rows) % 2 == 0, -1.0, 1.0)
    angles = numbers.uniform(0, 2 * np.pi, num_rows)
    radius = 1.5 + 0.5 * signs + noise * numbers.normal(size=num_rows)
    return np.column_stack([radius * np.cos(angles), radius * np.sin(angles)]), signs


def xor(num_rows: int, *, seed: int = 0, noise: float = 0.2) -> tuple[np.ndarray, np.ndarray]:
    """Rows around the corners of a square; opposite corners have the same label."""
    numbers = generator(seed)
    corners = np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]])[np.arange(num_rows) % 4]
    return corners + noise * numbers.normal(size=(num_rows, 2)), np.where(corners.prod(1) > 0, 1.0, -1.0)


def bandwidth_study(
    X: ArrayLike,
    y: ArrayLike,
    X_test: ArrayLike,
    y_test: ArrayLike,
    length_scales: ArrayLike,
    *,
    C: float = 1.0,
) -> BandwidthStudy:
    """Fit a machine with each length scale, and count errors and support vectors."""
    rows, signs, scales = as_rows("X", X), signs_of(y), np.asarray(length_scales, float)
    check(scales.ndim == 1 and scales.size > 0, "length_scales", "a vector", f"shape {scales.shape}")
    records = []
    for scale in scales:
        machine = SupportVectorMachine.fit(rows, signs, RBF(jnp.asarray(scale)), C)
        errors = [(machine.predict(x) != t).mean() for x, t in ((rows, signs), (X_test, signs_of(y_test)))]
        records.append([*errors, len(machine.support) / len(signs)])
    return BandwidthStudy(scales, *np.array(records).T)
