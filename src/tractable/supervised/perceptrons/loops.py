"""The loops of the perceptron, compiled: each row sees the plane that the rows before it left."""

from typing import no_type_check

import numba
import numpy as np

__all__ = ["epoch", "kernel_epoch"]


@numba.njit(nogil=True, cache=True)
@no_type_check
def epoch(rows, signs, steps, order, w, late, before):
    """Mistakes in one epoch of the rule, which moves `w`; the sum over rows of the weights is kept as the
    difference `late`, in an epoch that follows `before` rows."""
    mistakes = 0
    for place, n in enumerate(order):
        if signs[n] * np.dot(rows[n], w) <= 0:
            w += signs[n] * steps[n] * rows[n]
            late += (before + place) * signs[n] * steps[n] * rows[n]
            mistakes += 1
    return mistakes


@numba.njit(nogil=True, cache=True)
@no_type_check
def kernel_epoch(table, signs, steps, order, counts, decisions):
    """The same in dual form: decisions of all rows are kept, and moved by one row of the kernel per
    mistake."""
    mistakes = 0
    for n in order:
        if signs[n] * decisions[n] <= 0:
            counts[n] += steps[n]
            decisions += signs[n] * steps[n] * table[n]
            mistakes += 1
    return mistakes
