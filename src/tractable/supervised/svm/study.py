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
from tractable.core.rows import Rows
from tractable.core.types import ArrayLike
from tractable.kernels.stationary import RBF
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
    train, test = Rows.of(X, y, target="sign"), Rows.of(X_test, y_test, target="sign")
    scales = np.asarray(length_scales, float)
    check(scales.ndim == 1 and scales.size > 0, "length_scales", "a vector", f"shape {scales.shape}")
    records = []
    for scale in scales:
        machine = SupportVectorMachine.fit(train, kernel=RBF(jnp.asarray(scale)), C=C)
        errors = [(machine.predict(rows) != rows.signs).mean() for rows in (train, test)]
        records.append([*errors, len(machine.support) / train.num_rows])
    return BandwidthStudy(scales, *np.array(records).T)
