"""Layer 1: modules and supports, iteration, linear algebra, numerics, chunks of rows, checks, progress, storage, Fourier analysis."""

from tractable.core.iterate import Run, Status, run, run_until
from tractable.core.module import Module, field, plates, supports
from tractable.core.support import (
    Support,
    bounded,
    correlation,
    correlation_cholesky,
    counts,
    extended_real,
    integer_range,
    log_weights,
    lower_cholesky,
    nonnegative,
    ordered,
    positive,
    positive_ordered,
    psd,
    real,
    simplex,
    sphere,
    unit_interval,
)

__all__ = [
    "Module", "Run", "Status", "Support", "bounded", "correlation", "correlation_cholesky", "counts", "extended_real", "field", "integer_range", "log_weights",
    "lower_cholesky", "nonnegative", "ordered", "plates", "positive", "positive_ordered", "psd", "real", "run", "run_until",
    "simplex", "sphere", "supports", "unit_interval",
]  # fmt: skip
