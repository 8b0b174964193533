"""Predictive laws on the host: one number for each row, everything in NumPy, so that a new number of rows
compiles nothing. They are distributions with values, and do not pass through `jit`.

A law has `num_rows`, `rows` (the law of some of them), `row_log_probs`, `cdf`, `survival`, `icdf`, `mean`,
`variance` and `sample`; the rest is here.
"""

from typing import Any

import numpy as np

from tractable.core.checks import check
from tractable.core.module import HostResult
from tractable.core.types import Key
from tractable.distributions.base import Distribution

__all__ = ["RowLaw"]


class RowLaw(HostResult, Distribution):
    """What the laws of rows share."""

    @property
    def num_rows(self) -> int:
        """How many rows it is of."""
        raise NotImplementedError

    @property
    def unit_shape(self) -> tuple[int, ...]:
        return ()

    @property
    def shape(self) -> tuple[int, ...]:
        """One number for each row."""
        return (self.num_rows,)

    def row_log_probs(self, x: Any) -> np.ndarray:
        """The log-density of each row, of shape `x.shape`: `log_prob` before its sum."""
        raise NotImplementedError

    def log_prob(self, x: Any) -> Any:
        """Log-density at each point, the sum over rows."""
        return self.row_log_probs(self._broadcast("x", x, whole=True)).sum(-1)

    @property
    def std(self) -> Any:
        """The standard deviation of each row."""
        return np.sqrt(self.variance)

    def _log_prob(self, x: Any) -> Any:
        raise self._missing("density under `jit`")

    def _sample(self, key: Key, n: int) -> Any:
        raise self._missing("draw under `jit`")

    def _broadcast(self, name: str, x: Any, whole: bool = False) -> np.ndarray:
        """`x` with one number for each row along its last axis; one number alone is for all, unless whole."""
        x = np.asarray(x, float)
        x = np.full(self.shape, x) if x.ndim == 0 and not whole else x
        ok = x.ndim > 0 and x.shape[-1] == self.num_rows
        check(ok, name, f"an array whose last axis has length {self.num_rows}", f"shape {x.shape}")
        return x
