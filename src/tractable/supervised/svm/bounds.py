r"""Leave-one-out of support vector machines without refitting: spans, counts of vectors, radius and margin.

Count.       Removing a row that is no support vector changes nothing: the leave-one-out errors are at most
             the support vectors.
Span.        $y_p f^{(-p)}(x_p) = y_p f(x_p) - \alpha_p S_p^2$ while the sets on the margin and at the bound
             stay as they are; with $H = \begin{pmatrix}K_{FF} & 1\\1^\top & 0\end{pmatrix}$ over the margin
             vectors, $S_p^2 = 1/(H^{-1})_{pp}$ on the margin and $k(x_p, x_p) - v^\top H^{-1}v$,
             $v = (k(x_F, x_p), 1)$, at the bound. $S_p^2 \le k(x_p, x_p)$ without a bias gives the bound of
             Jaakkola and Haussler.
Radius.      For hard margins through the origin $L \le D^2/\rho^2 = D^2\|w\|^2$, $D = \max\|\phi(x_i)\|$;
             with a bias $D$ is the diameter of the smallest ball around the rows:
             $R^2 = \max_\beta\sum_i\beta_i k_{ii} - \beta^\top K\beta$, $\beta \ge 0$, $\sum\beta = 1$.
Cost.        One factorisation with as many unknowns as vectors on the margin.
References.  Vapnik and Chapelle (2000); Jaakkola and Haussler (1999); Vapnik (1998) chapter 10.
"""

import numpy as np
import scipy.linalg as sl

from tractable.core.module import Module
from tractable.core.rows import Rows, points
from tractable.core.types import ArrayLike
from tractable.kernels.base import Kernel
from tractable.supervised.svm.gram import kernel_diagonal, kernel_matrix
from tractable.supervised.svm.machine import SupportVectorMachine
from tractable.supervised.svm.smo import solve_dual

__all__ = [
    "LeaveOneOutBounds", "enclosing_radius", "leave_one_out_bounds",
    "leave_one_out_changes", "span_squares",
]  # fmt: skip

_PSEUDO = 500  # vectors on the margin up to which a singular system costs nothing to solve
_SINGULAR = 1e-8  # least pivot of a factor, relative to the diagonal


class LeaveOneOutBounds(Module):
    """Shares of rows that leave-one-out can get wrong: bounds, and the estimate of the span rule."""

    support_vectors: float
    dual: float  # Jaakkola and Haussler: rows with alpha k(x, x) >= y f(x)
    span: float
    radius_margin: float  # of hard margins; may be above one, and then says nothing


def span_squares(table: np.ndarray, free: np.ndarray, *, bias: bool = True) -> np.ndarray:
    """$S_p^2$ of each support vector, given their kernel matrix and which of them are on the margin."""
    everyone = np.arange(len(table))
    inside = np.flatnonzero(free)
    if len(inside) == 0:
        return np.array(np.diagonal(table), float)
    return _spans(table[np.ix_(inside, inside)], inside, table[inside], np.diagonal(table), everyone, bias)


def leave_one_out_changes(
    kernel: Kernel,
    X: np.ndarray,
    coefficients: np.ndarray,
    free: np.ndarray,
    chosen: np.ndarray,
    *,
    bias: bool = True,
    gram: np.ndarray | None = None,
) -> np.ndarray:
    """$f(x_p) - f^{(-p)}(x_p) = \\beta_p S_p^2$ of the chosen rows by the span rule.

    All margin vectors enter the system; vectors at the bound only where they are chosen.
    """
    change, held = np.zeros(len(chosen)), np.flatnonzero(coefficients[chosen])
    wanted, inside = chosen[held], np.flatnonzero(free)
    if len(held) == 0:
        return change
    own = kernel_diagonal(kernel, X[wanted]) if gram is None else np.diagonal(gram)[wanted]
    if len(inside) == 0:
        change[held] = coefficients[wanted] * own
        return change
    among = kernel_matrix(kernel, X[inside]) if gram is None else gram[np.ix_(inside, inside)]
    cross = kernel_matrix(kernel, X[inside], X[wanted]) if gram is None else gram[np.ix_(inside, wanted)]
    change[held] = coefficients[wanted] * _spans(among, inside, cross, own, wanted, bias)
    return change


def leave_one_out_bounds(
    machine: SupportVectorMachine, X: ArrayLike | Rows, y: ArrayLike | None = None
) -> LeaveOneOutBounds:
    """The bounds and the estimate for a fitted machine and its training rows."""
    table = Rows.of(X, y, target="sign")
    rows, signs = table.X, table.signs
    beta = np.zeros(len(signs))
    beta[np.asarray(machine.support)] = np.asarray(machine.coefficients)
    free = np.zeros(len(signs), bool)
    free[np.asarray(machine.support)] = np.abs(np.asarray(machine.coefficients)) < np.asarray(machine.bounds)
    margins = signs * machine.decision(table)
    own = np.abs(beta) * kernel_diagonal(machine.kernel, rows)
    change = leave_one_out_changes(
        machine.kernel, rows, beta, free, np.arange(len(signs)), bias=machine.has_bias
    )
    if machine.has_bias:
        reach = 2 * enclosing_radius(machine.kernel, rows)
    else:
        reach = float(np.sqrt(kernel_diagonal(machine.kernel, rows).max()))
    count = len(signs)
    return LeaveOneOutBounds(
        float((beta != 0).mean()),
        float((own >= margins).mean()),
        float((margins <= signs * change).mean()),
        (reach * machine.norm) ** 2 / count,
    )


def enclosing_radius(kernel: Kernel, X: ArrayLike) -> float:
    """The radius of the smallest ball around the rows among the features of the kernel.

    >>> from tractable.kernels.nonstationary import Linear
    >>> round(enclosing_radius(Linear(), [[0.0, 0.0], [2.0, 0.0], [1.0, 0.5]]), 6)
    1.0
    """
    rows = points(X)
    diagonal = kernel_diagonal(kernel, rows)
    scale = float(diagonal.max()) or 1.0
    start = np.full(len(rows), 1.0 / len(rows))
    found = solve_dual(
        kernel, rows, 0.5 * diagonal, np.zeros(len(rows)), np.ones(len(rows)), start=start, tol=1e-6 * scale
    )
    return float(np.sqrt(max(-2.0 * found.objective, 0.0)))


def _spans(
    among: np.ndarray, inside: np.ndarray, cross: np.ndarray, own: np.ndarray, wanted: np.ndarray, bias: bool
) -> np.ndarray:
    """Spans with one Cholesky factor of the margin vectors, and a column for each wanted span.

    With $u = A^{-1}1$, $s = 1^\\top u$: $(H^{-1})_{pp} = (A^{-1})_{pp} - u_p^2/s$ and $v^\\top H^{-1}v =
    k^\\top A^{-1}k - (u^\\top k - 1)^2/s$. A matrix next to singular takes the pseudo-inverse, or, where that
    would cost too much, leaves $k(x_p, x_p)$.
    """
    factorise, solve = sl.get_lapack_funcs(("potrf", "trtrs"), (among,))
    lower, failed = factorise(among, lower=1, clean=1)
    few = len(inside) <= _PSEUDO
    if few and (failed or np.diagonal(lower).min() ** 2 <= _SINGULAR * np.diagonal(among).max()):
        return _spans_by_inverse(among, inside, cross, own, wanted, bias)
    if failed:
        return np.array(own, float)
    place, on_margin = _places(inside, wanted)
    columns = cross.copy()
    columns[:, on_margin] = np.arange(len(inside))[:, None] == place[None, on_margin]
    halves = solve(lower, np.column_stack([columns, np.ones(len(inside))]), lower=1)[0]
    squares, half = (halves[:, :-1] ** 2).sum(0), halves[:, -1]
    shares = squares.copy()
    if bias:
        shares -= (half @ halves[:, :-1] - ~on_margin) ** 2 / (half @ half)
    alone = on_margin & (shares <= 1e-12 * squares)  # nothing can take this vector's place: no finite span
    inverses = 1.0 / np.where(on_margin & ~alone, shares, 1.0)
    return np.where(alone, own, np.where(on_margin, inverses, np.maximum(own - shares, 0.0)))  # a distance


def _spans_by_inverse(
    among: np.ndarray, inside: np.ndarray, cross: np.ndarray, own: np.ndarray, wanted: np.ndarray, bias: bool
) -> np.ndarray:
    """Spans from the pseudo-inverse of the bordered matrix: repeated rows do no harm."""
    border = np.ones((len(inside), int(bias)))
    corner = np.zeros((int(bias), int(bias)))
    inverse = np.asarray(sl.pinvh(np.block([[among, border], [border.T, corner]])))
    diagonal = np.diagonal(inverse)[: len(inside)]
    spans = np.array(own, float)
    place, on_margin = _places(inside, wanted)
    v = np.vstack([cross[:, ~on_margin], np.ones((int(bias), int((~on_margin).sum())))])
    spans[~on_margin] = np.maximum(spans[~on_margin] - (v * (inverse @ v)).sum(0), 0.0)  # a distance
    share = diagonal[place[on_margin]]
    alone = share <= 1e-12 * np.abs(diagonal).max()  # nothing can take this vector's place: no finite span
    spans[on_margin] = np.where(alone, spans[on_margin], 1.0 / np.where(alone, 1.0, share))
    return spans


def _places(inside: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each wanted vector stands among those on the margin, and whether it is one of them."""
    place = np.minimum(np.searchsorted(inside, wanted), len(inside) - 1)
    return place, inside[place] == wanted
