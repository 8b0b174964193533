r"""Weight, mean and scatter of many rows in one pass, to full precision, wherever the rows are.

Statistics.  $n = \sum_i w_i$, $\bar x = \frac1n\sum_i w_i x_i$ and
             $S = \sum_i w_i (x_i - \bar x)(x_i - \bar x)^\top$.
Adding.      Those of two sets of rows add: $S = S_1 + S_2 + \frac{n_1 n_2}{n_1 + n_2}
             (\bar x_2 - \bar x_1)(\bar x_2 - \bar x_1)^\top$. Every block is centred about its own mean, so
             that neither a mean of $10^{12}$ spreads nor a drift along the rows costs digits.
Threads.     Stretches of one fixed length, each with one thread of BLAS: those of a BLAS wait for each other
             in every product (`core.blas`); the length does not depend on the machine, so no digit does.
Cost.        $O(n d^2)$ in one pass; memory for a block in the cache and for two or three scatters.
References.  Chan, Golub and LeVeque (1983), algorithms for computing the sample variance.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from tractable.core.blas import one_blas_thread
from tractable.core.checks import check, namespace
from tractable.core.interrupts import in_threads
from tractable.core.linalg import symmetrise
from tractable.core.module import Module, field
from tractable.core.progress import track
from tractable.core.sources import give_back
from tractable.core.types import Array, Values

__all__ = [
    "ColumnMoments", "Moments", "column_moments", "moments_of", "moments_of_chunks", "shifted_products",
]  # fmt: skip

_STRETCH = 1 << 15  # rows of one piece of work
_CACHE = 1 << 16  # numbers of a block that stays in the cache
_NEAR = 8.0  # standard deviations from zero: within, sums about zero lose two digits of sixteen


class Moments(Module):
    """Weight, mean and scatter (sums of products about the mean) of rows; `+` joins those of two sets.

    >>> both = moments_of(np.array([[1.0], [2.0]])) + moments_of(np.array([[6.0]]))
    >>> float(both.count), both.mean.tolist(), both.scatter.tolist()
    (3.0, [3.0], [[14.0]])
    """

    count: Any
    mean: Values = field(show=False)
    scatter: Values = field(show=False)

    def __add__(self, other: "Moments") -> "Moments":
        xp = namespace(self, other)
        count = self.count + other.count
        share = other.count / xp.where(count > 0, count, 1.0)
        gap = other.mean - self.mean
        between = (self.count * share) * gap[:, None] * gap[None]
        return Moments(count, self.mean + share * gap, self.scatter + other.scatter + between)

    @property
    def dim(self) -> int:
        return self.mean.shape[-1]

    @property
    def squares(self) -> Values:
        """Sums of squares about the mean, column by column."""
        return self.scatter.diagonal()

    def cov(self, ddof: float | int = 0) -> Values:
        r"""$S/(n - \mathrm{ddof})$: maximum likelihood by default."""
        return self.scatter / (self.count - ddof)


class ColumnMoments(NamedTuple):
    """Weight, mean and sums of squares about the mean, column by column."""

    count: Any
    mean: np.ndarray
    squares: np.ndarray


def column_moments(rows: np.ndarray, weights: np.ndarray | None = None) -> ColumnMoments:
    """As `moments_of`, without products of two columns: for tables of very many of them.

    >>> column_moments(np.array([[1.0], [3.0]])).squares.tolist()
    [2.0]
    """
    w = np.ones(len(rows)) if weights is None else weights
    size = max(64, _CACHE // rows.shape[1])
    cuts = [slice(low, low + size) for low in range(0, len(rows), size)]
    shift = sum(w[cut] @ (rows[cut] - rows[0]) for cut in cuts) / w.sum()
    squares = sum(w[cut] @ ((rows[cut] - rows[0]) - shift) ** 2 for cut in cuts)
    return ColumnMoments(w.sum(), rows[0] + shift, np.asarray(squares))


def moments_of(rows: np.ndarray, weights: np.ndarray | None = None) -> Moments:
    """The moments of finite rows (n, d) on the host; a weight of two is the row twice.

    A memory map is read block by block, and what was read is given back to the system.
    """
    starts = range(0, len(rows), _STRETCH)
    some = rows[:1024]
    with np.errstate(all="ignore"):  # what is not finite is far
        near = weights is None and bool((np.abs(some.mean(0)) < 0.5 * _NEAR * some.std(0)).all())

    def part(low: int) -> Moments:
        cut = slice(low, low + _STRETCH)
        found = _about_zero(rows[cut]) if near else None
        return found or _stretch(rows[cut], None if weights is None else weights[cut], rows[0])

    if len(starts) == 1:
        return part(0)
    total = None
    with one_blas_thread():
        for low in range(0, len(starts), 16):  # what is read of a file goes before more is read
            for found in in_threads(part, starts[low : low + 16]):
                total = found if total is None else total + found
            give_back(rows)
    assert total is not None
    return total


def moments_of_chunks(parts: Iterable[tuple[Any, Any]], *, progress: bool = True) -> Moments:
    """The moments of rows that arrive as `core.chunks.Chunks`: memory for one chunk.

    A chunk with an entry that is not finite is refused, with the column and the row.
    """
    total, start = None, 0
    for rows, weights in track(parts, label="Adding moments", progress=progress):
        rows, weights = np.asarray(rows, np.float64), np.asarray(weights, np.float64)
        check(rows.ndim == 2, "source", "rows of shape (n, d)", f"chunks of shape {rows.shape}")
        used = weights > 0
        if used.any():
            kept, counts = (rows, weights) if used.all() else (rows[used], weights[used])
            found = moments_of(kept, None if (counts == 1).all() else counts)
            if not np.isfinite(np.diag(found.scatter)).all():
                _refuse(rows, used, start)
            total = found if total is None else total + found
        start += len(rows)
    check(total is not None, "source", "rows of positive weight", "none")
    assert total is not None
    return total


def shifted_products(rows: Values, weights: Values, shift: Values) -> tuple[Array, Array, Array]:
    r"""$\sum w$, $\sum w(x - c)$ and $\sum w(x - c)(x - c)^\top$ about a fixed $c$: leaf by leaf, they add.

    What compiled programs and clusters add up; digits are lost where $c$ is far from the mean.
    """
    rest = jnp.where(weights[:, None] > 0, rows - shift[None], 0.0)
    weighted = rest * weights[:, None]
    return weights.sum(), weighted.sum(0), symmetrise(weighted.T @ rest)


def _about_zero(rows: np.ndarray) -> Moments | None:
    """Without a copy of the rows, where no mean is far from zero; None where one is."""
    num_rows, d = rows.shape
    sums, products, ones = np.zeros(d), np.zeros((d, d)), np.ones(2048)
    with np.errstate(all="ignore"):  # what is not finite is seen in the scatter
        for low in range(0, num_rows, 2048):
            block = rows[low : low + 2048]
            products += block.T @ block
            sums += ones[: len(block)] @ block
        mean = sums / num_rows
        scatter = products - num_rows * np.outer(mean, mean)
        near = (mean**2 * num_rows <= _NEAR**2 * np.diag(scatter)).all()
    return Moments(np.float64(num_rows), mean, scatter) if near else None


def _stretch(rows: np.ndarray, weights: np.ndarray | None, origin: np.ndarray) -> Moments:
    """Blocks, each about its own mean; a column that is constant has no scatter, not even of rounding."""
    num_rows, d = rows.shape
    size = min(num_rows, max(64, _CACHE // d))
    counts, means, scatter = [], [], np.zeros((d, d))
    buffer = np.empty((size, d))
    with np.errstate(all="ignore"):  # what is not finite is seen in the scatter
        for low in range(0, num_rows, size):
            block = rows[low : low + size]
            rest = np.subtract(block, origin, out=buffer[: len(block)])
            w = np.ones(len(block)) if weights is None else weights[low : low + size]
            count = w.sum()
            mean = w @ rest / (count if count > 0 else 1.0)
            rest -= mean
            if weights is not None:
                rest *= np.sqrt(w)[:, None]
            scatter += rest.T @ rest
            counts.append(count)
            means.append(mean)
        n, levels = np.array(counts), np.array(means)
        total = n.sum()
        mean = n @ levels / (total if total > 0 else 1.0)
        apart = (levels - mean) * np.sqrt(n)[:, None]
        return Moments(total, origin + mean, scatter + apart.T @ apart)


def _refuse(rows: np.ndarray, used: np.ndarray, start: int) -> None:
    bad = ~np.isfinite(rows) & used[:, None]
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        what = f"{rows[row, column]} in column {column}, row {start + row}"
        check(False, "source", "finite", what, "Impute or drop it, or fit a model with missing entries.")
    check(False, "source", "numbers whose squares have a sum", "larger ones", "Give them in other units.")
