"""Layer 1: modules and supports, iteration, linear algebra, numerics, chunks, checks, storage, Fourier
analysis."""

from tractable.core.blocks import run_in_blocks
from tractable.core.checks import ImpossibleEvidence
from tractable.core.chunks import chunks, sum_over_chunks
from tractable.core.iterate import Run, Status, run, run_until
from tractable.core.module import Module, field, plates, supports
from tractable.core.progress import track
from tractable.core.rows import Rows
from tractable.core.storage import StorageError, load, save
from tractable.core.support import (
    bounded,
    correlation,
    correlation_cholesky,
    counts,
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
from tractable.core.verdict import Verdict

__all__ = [
    "ImpossibleEvidence",
    "Module",
    "Rows",
    "Run",
    "Status",
    "StorageError",
    "Verdict",
    "bounded",
    "chunks",
    "correlation",
    "correlation_cholesky",
    "counts",
    "field",
    "integer_range",
    "load",
    "log_weights",
    "lower_cholesky",
    "nonnegative",
    "ordered",
    "plates",
    "positive",
    "positive_ordered",
    "psd",
    "real",
    "run",
    "run_in_blocks",
    "run_until",
    "save",
    "simplex",
    "sphere",
    "sum_over_chunks",
    "supports",
    "track",
    "unit_interval",
]
