r"""What rows that a tree did not see say of its variances.

Problem.     A grown tree has fitted the noise of its rows: the variances of its leaves promise too little, on
             pure noise by half at any number of rows.
Held out.    Trees are grown without each of five folds. The ratio
             $c = \sum_i w_i (y_i - m(x_i))^2/v(x_i)\,/\sum_i w_i$ over held-out rows makes $c\,v(x)$ the
             variance of new rows, and is known as well as the number of distinct rows allows.
Folds.       Those of `supervised.selection.held_out`: a row of weight two is the row twice.
Cost.        Five more trees.
References.  Breiman et al. (1984) section 3.4; Stone (1974).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tractable.core.rows import Rows
from tractable.supervised.selection.held_out import row_folds

__all__ = ["held_out_ratio"]

_FOLDS = 5


def held_out_ratio(rows: Rows, grow: Callable[[Rows], Any]) -> tuple[float, float]:
    """The mean squared error of held-out rows over the variances that trees promise them, and its degrees of
    freedom; (1, 0) where there is nothing to hold out."""
    fold = row_folds(rows, _FOLDS)
    ratios, weights = [], []
    for test in (fold == f for f in np.unique(fold)):
        if test.all():
            return 1.0, 0.0
        tree, held = grow(rows.take(~test)), rows.take(test)
        squares, variances = (held.y - tree.predict(held)) ** 2, tree.variances(held)
        known = variances > 0  # a fold may leave equal targets alone
        ratios.append(squares[known] / variances[known])
        weights.append(held.weights[known])
    ratio, weight = np.concatenate(ratios), np.concatenate(weights)
    return (float(np.average(ratio, weights=weight)), float(len(ratio) - 1)) if len(ratio) > 1 else (1.0, 0.0)
