r"""The perceptron: learn from mistakes only; the same as stochastic descent on a convex loss.

Rule.        $t = \mathrm{sign}(w^\top x)$ with $\mathrm{sign}(0) = 0$, a mistake for either label. On a
             mistake $w \leftarrow w + y x$. A bias is a last column of ones.
Loss.        $f(w) = \frac1N\sum_k[-y_k w^\top x_k]_+$, convex; $-y_k x_k$ is a subgradient wherever
             $y_k w^\top x_k \le 0$. (With $<$ instead, descent would never leave $w = 0$.) A step of one on
             rows in turn is the rule itself.
Bound.       Separable by a unit $u$ with margin $\delta$ and radius $R$: after $k$ mistakes
             $k\delta \le u^\top w$ and $\|w\|^2 \le kR^2$, so $k \le (R/\delta)^2$.
Kernel.      $w = \sum_n a_n y_n\phi(x_n)$, $a_n \leftarrow a_n + 1$ on a mistake.
Cost.        $O(nd)$ per epoch; $O(n^2)$ per epoch for a kernel.
References.  Rosenblatt (1958); Novikoff (1962); Freund and Schapire (1999).
"""

from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Any

import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check, check_count, namespace
from tractable.core.host_random import generator
from tractable.core.iterate import Ended, Status, run
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.progress import track
from tractable.core.rows import Rows, points
from tractable.core.types import Array, ArrayLike, Key, Values
from tractable.core.verdict import Verdict
from tractable.kernels.base import Kernel
from tractable.kernels.stationary import RBF
from tractable.supervised.perceptrons.separability import augmented, margin, radius
from tractable.supervised.svm.gram import expand_kernel, kernel_matrix

__all__ = [
    "KernelPerceptron", "Perceptron", "linear_sign", "minimise_zero_one", "mistake_trace", "perceptron_loss",
    "subgradient_path",
]  # fmt: skip


class Perceptron(Ended, Module):
    """A plane found from mistakes, their number in all and in each epoch."""

    weights: np.ndarray
    bias: float
    average: np.ndarray  # mean of (w, b) over all rows gone through: what to use where no plane separates
    num_updates: int
    mistakes: np.ndarray  # in each epoch
    code: int = field(static=True)

    @classmethod
    @takes_key
    def fit(
        cls,
        X: ArrayLike | Rows,
        y: ArrayLike | None = None,
        *,
        bias: bool = True,
        max_epochs: int = 1000,
        weights: ArrayLike | None = None,
        start: ArrayLike | None = None,
        key: Key | None = None,
    ) -> "Perceptron":
        """Epochs over the rows until one has no mistakes, in their own order or, with a `key`, a new one
        each.

        A row of weight two moves the plane twice as far; one of weight zero is absent.

        >>> Perceptron.fit([[2.0, 1.0], [-1.0, -2.0]], [1, -1]).mistakes.tolist()
        [1, 0]
        """
        rows = Rows.of(X, y, weights, target="sign", absent="keep")
        table = augmented(rows) if bias else rows.X
        w = np.zeros(table.shape[1]) if start is None else np.array(start, float)
        check(w.shape == table.shape[1:], "start", f"a vector of length {table.shape[1]}", f"shape {w.shape}")
        from tractable.supervised.perceptrons.loops import epoch  # numba, then what it compiles

        late, orders, signs, weighed = (
            np.zeros(w.size),
            _orders(rows, max_epochs, key),
            rows.signs,
            rows.weights,
        )
        each = (epoch(table, signs, weighed, order, w, late, before) for order, before in orders)
        mistakes = _until_none(each)
        mean = w - late / (len(mistakes) * np.count_nonzero(rows.weights))
        plane, offset = (w[:-1], float(w[-1])) if bias else (w, 0.0)
        mean = mean if bias else np.append(mean, 0.0)
        return cls(plane, offset, mean, int(mistakes.sum()), mistakes, int(_status(mistakes)))

    def decision(self, X: ArrayLike | Rows) -> Values:
        """$w^\\top x + b$."""
        xp = namespace(self, X)
        return points(X, self.weights.shape[0]) @ xp.asarray(self.weights) + self.bias

    def averaged_decision(self, X: ArrayLike | Rows) -> Values:
        """The decision of the averaged plane, which mistakes late in a run hardly move."""
        xp = namespace(self, X)
        average = xp.asarray(self.average)
        return points(X, len(average) - 1) @ average[:-1] + average[-1]

    def predict(self, X: ArrayLike | Rows) -> Values:
        """The sign of the decision: -1, 0 or 1."""
        return namespace(self, X).sign(self.decision(X)).astype(int)

    @property
    def verdict(self) -> Verdict:
        """Whether the last epoch had no mistakes."""
        return _verdict(self)


class KernelPerceptron(Ended, Module):
    """A kernel expansion found from mistakes: `counts` of them on each training row."""

    kernel: Kernel
    rows: np.ndarray
    coefficients: np.ndarray
    mistakes: np.ndarray
    code: int = field(static=True)

    @classmethod
    @takes_key
    def fit(
        cls,
        X: ArrayLike | Rows,
        y: ArrayLike | None = None,
        kernel: Kernel | None = None,
        *,
        max_epochs: int = 1000,
        weights: ArrayLike | None = None,
        key: Key | None = None,
    ) -> "KernelPerceptron":
        """As `Perceptron.fit` among the features of a kernel; add a constant to the kernel for a bias."""
        rows = Rows.of(X, y, weights, target="sign", absent="keep")
        kernel = RBF() if kernel is None else kernel
        from tractable.supervised.perceptrons.loops import kernel_epoch  # numba, then what it compiles

        table, (counts, decisions) = kernel_matrix(kernel, rows.X), np.zeros((2, rows.num_rows))
        orders, signs, weighed = _orders(rows, max_epochs, key), rows.signs, rows.weights
        mistakes = _until_none(
            kernel_epoch(table, signs, weighed, order, counts, decisions) for order, _ in orders
        )
        return cls(kernel, rows.X, counts * signs, mistakes, int(_status(mistakes)))

    @property
    def counts(self) -> Values:
        """$a_n$: how often each row was mistaken (times its weight)."""
        return np.abs(np.asarray(self.coefficients))

    def decision(self, X: ArrayLike | Rows) -> Values:
        """$\\sum_n a_n y_n k(x_n, x)$."""
        return expand_kernel(self.kernel, points(X, self.rows.shape[1]), self.rows, self.coefficients)

    def predict(self, X: ArrayLike | Rows) -> Values:
        """The sign of the decision: -1, 0 or 1."""
        return namespace(self, X).sign(self.decision(X)).astype(int)

    @property
    def verdict(self) -> Verdict:
        """Whether the last epoch had no mistakes."""
        return _verdict(self)


def linear_sign(weights: ArrayLike, X: ArrayLike, bias: float = 0.0) -> np.ndarray:
    """$\\mathrm{sign}(w^\\top x + b)$ in {-1, 0, 1}, zero on the plane."""
    return np.sign(points(X) @ np.asarray(weights, float) + bias).astype(int)


def perceptron_loss(weights: ArrayLike, rows: ArrayLike, signs: ArrayLike) -> Array:
    """$\\frac1N\\sum_k[-y_k w^\\top x_k]_+$."""
    decisions = jnp.asarray(rows, float) @ jnp.asarray(weights, float)
    return jnp.maximum(-jnp.asarray(signs, float) * decisions, 0.0).mean()


def subgradient_path(
    X: ArrayLike | Rows,
    y: ArrayLike | None = None,
    *,
    step: float = 1.0,
    num_steps: int = 100,
    batch: bool = True,
    order: ArrayLike | None = None,
    start: ArrayLike | None = None,
) -> np.ndarray:
    """The weights after each subgradient step on the perceptron loss: of all rows, or of one row at a time.

    Single rows are taken in turn, or in the given `order`; a step of one in turn is the perceptron.
    """
    rows = Rows.of(X, y, target="sign")
    first = jnp.zeros(rows.num_columns) if start is None else jnp.asarray(start, float)
    turns = np.arange(num_steps) % rows.num_rows if order is None else np.asarray(order)
    table, signs, places = jnp.asarray(rows.X), jnp.asarray(rows.signs), jnp.asarray(turns)
    return np.asarray(_path(table, signs, first, places, jnp.asarray(float(step)), batch))


def mistake_trace(X: ArrayLike, y: ArrayLike, direction: ArrayLike, *, max_epochs: int = 1000) -> np.ndarray:
    """The proof of the bound, one line per mistake: $k$, $k\\delta$, $u^\\top w$, $\\|w\\|^2$, $kR^2$.

    In each line the second is at most the third, and the fourth at most the fifth.
    """
    rows = Rows.of(X, y, target="sign")
    unit = np.asarray(direction, float) / np.linalg.norm(np.asarray(direction, float))
    delta, largest = margin(rows, None, unit), radius(rows) ** 2
    check(delta > 0, "direction", "one that separates the classes", f"margin {delta:.4g}")
    fitted = Perceptron.fit(rows, bias=False, max_epochs=max_epochs)
    path = subgradient_path(rows, num_steps=rows.num_rows * len(fitted.mistakes), batch=False)
    moved = np.flatnonzero((np.diff(path, axis=0, prepend=np.zeros((1, rows.num_columns))) != 0).any(1))
    k = np.arange(1, len(moved) + 1)
    return np.column_stack([k, k * delta, path[moved] @ unit, (path[moved] ** 2).sum(1), k * largest])


def minimise_zero_one(X: ArrayLike, y: ArrayLike) -> tuple[int, np.ndarray, float]:
    """The fewest errors of any line in the plane, with that line: (errors, normal, bias), by trying all.

    Every split of the points by a line is that of a line through two of them, turned or moved by a little;
    so $O(n^3)$, for small data only: with many columns no quick method is known (it is NP-hard).

    >>> minimise_zero_one([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]], [1, 1, -1, -1])[0]
    1
    """
    table = Rows.of(X, y, target="sign")
    rows, signs = table.X, table.signs
    check(rows.shape[1] == 2, "X", "rows of two columns", f"{rows.shape[1]} columns")
    best: tuple[int, np.ndarray, float] = (len(signs) + 1, np.zeros(2), 0.0)
    for normal, bias in _lines(rows):
        errors = int((np.sign(rows @ normal + bias) != signs).sum())
        if errors < best[0]:
            best = (errors, normal, bias)
    return best


def _lines(rows: np.ndarray) -> Any:
    """Lines near each line through two points, that pass each of its points on either side; and far ones."""
    spread = max(float(np.abs(rows - rows.mean(0)).max()), 1e-300)
    for sign in (1.0, -1.0):
        yield np.array([sign, 0.0]), sign * (10 * spread - rows[:, 0].mean())
    for a, b in combinations(range(len(rows)), 2):
        along = rows[b] - rows[a]
        length = float(np.linalg.norm(along))
        if length == 0:
            continue
        normal = np.array([-along[1], along[0]]) / length
        heights = np.abs((rows - rows[a]) @ normal)
        gap = heights[heights > 1e-9 * spread].min(initial=spread)
        middle = (rows[a] + rows[b]) / 2
        reach = max(float(np.abs((rows - middle) @ along).max()) / length, length)
        turn = 0.25 * gap / reach
        for angle, shift in ((0.0, 0.25 * gap), (0.0, -0.25 * gap), (turn, 0.0), (-turn, 0.0)):
            tilted = normal + angle * along / length
            for sign in (1.0, -1.0):
                yield sign * tilted, -sign * (tilted @ middle + shift)


def _orders(rows: Rows, max_epochs: int, key: Key | None) -> Iterator[tuple[np.ndarray, int]]:
    """The rows that are present in the order of each epoch, and how many rows came before it."""
    present = np.flatnonzero(rows.weights > 0)
    numbers = None if key is None else generator(key)
    for number in track(range(check_count("max_epochs", max_epochs)), label="Epochs"):
        yield present if numbers is None else numbers.permutation(present), number * len(present)


def _until_none(mistakes: Iterable[int]) -> np.ndarray:
    """The numbers up to the first that is zero."""
    found = []
    for count in mistakes:
        found.append(count)
        if count == 0:
            break
    return np.array(found)


def _verdict(plane: Perceptron | KernelPerceptron) -> Verdict:
    ended = "separates the rows" if plane.status.ok else "still errs: not separable, or too few epochs"
    count, epochs = int(np.sum(plane.mistakes)), len(plane.mistakes)
    return Verdict(plane.status.ok, f"{count} mistakes in {epochs} epochs; {ended}.", {"mistakes": count})


def _status(mistakes: np.ndarray) -> Status:
    return Status.converged if mistakes[-1] == 0 else Status.exhausted


@program
def _path(rows: Array, signs: Array, start: Array, turns: Array, step: Array, batch: bool) -> Array:
    def advance(w, turn):
        wrong = signs * (rows @ w) <= 0
        chosen = wrong if batch else wrong & (jnp.arange(len(signs)) == turn)
        slope = -((chosen * signs) @ rows) / (len(signs) if batch else 1)
        return w - step * slope, w - step * slope

    return run(advance, start, turns).trace
