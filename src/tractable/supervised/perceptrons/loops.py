"""The loops of the perceptron, compiled: each row sees the plane that the rows before it left."""

from typing import no_type_check

import numba
import numpy as np

__all__ = ["epochs", "kernel_epochs"]


@numba.njit(nogil=True, cache=True)
@no_type_check
def epochs(rows, signs, steps, w, present, max_epochs, seed):
    """Epochs of the rule until one has no mistakes; the sum over rows of the weights is kept as a
    difference."""
    mistakes, order = np.zeros(max_epochs, np.int64), present.copy()
    late, count = np.zeros(w.size), 0
    if seed >= 0:
        np.random.seed(seed)  # noqa: NPY002
    for epoch in range(max_epochs):
        if seed >= 0:
            np.random.shuffle(order)  # noqa: NPY002
        for n in order:
            if signs[n] * np.dot(rows[n], w) <= 0:
                w += signs[n] * steps[n] * rows[n]
                late += count * signs[n] * steps[n] * rows[n]
                mistakes[epoch] += 1
            count += 1
        if mistakes[epoch] == 0:
            return w, w - late / count, mistakes[: epoch + 1]
    return w, w - late / count, mistakes


@numba.njit(nogil=True, cache=True)
@no_type_check
def kernel_epochs(table, signs, steps, present, max_epochs, seed):
    """The same in dual form: decisions of all rows are kept, and moved by one row of the kernel per
    mistake."""
    counts, decisions = np.zeros(signs.size), np.zeros(signs.size)
    mistakes, order = np.zeros(max_epochs, np.int64), present.copy()
    if seed >= 0:
        np.random.seed(seed)  # noqa: NPY002
    for epoch in range(max_epochs):
        if seed >= 0:
            np.random.shuffle(order)  # noqa: NPY002
        for n in order:
            if signs[n] * decisions[n] <= 0:
                counts[n] += steps[n]
                decisions += signs[n] * steps[n] * table[n]
                mistakes[epoch] += 1
        if mistakes[epoch] == 0:
            return counts, mistakes[: epoch + 1]
    return counts, mistakes
