r"""The engine of all generalised linear models: modes, Laplace evidences, and an integral over what is left.

Mode.        $\hat\beta(\varphi)$ minimises a loss plus $\tfrac12\beta^\top P\beta$ by
             damped Newton steps, for given hyperparameters $\varphi$: log-precisions of the prior, and shape
             numbers. That is a convex problem, where all together would not be one: with as many columns as
             rows, the highest density is at a dispersion of zero.
Evidence.    $E(\varphi) = \log p(y, \hat\beta \mid \varphi) + \tfrac p2\log 2\pi - \tfrac12\log|H + P|
             + \log p(\varphi)$.
Integral.    About the highest $E$, with $C = -\nabla^2E$ by differences, nodes $\varphi_k = \hat\varphi +
             C^{-1/2}z_k$ of Gauss and Hermite with weights $\propto \omega_ke^{E(\varphi_k) + z_k^2/2}$; the
             sum is the evidence of the model. With many rows one node is enough.
Cost.        Each evaluation of $E$ two to four passes over the rows; 15 of them for one hyperparameter, 50
             for two. Tables of more than 30,000 rows are searched on a part of the rows.
References.  Tierney and Kadane (1986); Rue, Martino and Chopin (2009); Simpson et al. (2017) for the prior
             of deviations.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg as sl

from tractable.core.checks import check, namespace
from tractable.core.iterate import Status
from tractable.optim.linesearch import falls_enough
from tractable.optim.newton import newton_direction

__all__ = [
    "Hyper", "Mode", "Nodes", "axes_of", "given_precision", "laplace_evidence", "mode_of", "nodes_of",
]  # fmt: skip

Sweep = Callable[[np.ndarray], tuple[float, np.ndarray, np.ndarray]]

_DECREMENT = 1e-14  # of the objective per row: half the square of 1e-7 standard deviations
_LAST = 1e-3  # the longest step that may be taken unseen
_STEP = 0.3  # of hyperparameters, for differences
_WIDEST = 3.0  # prior deviations that a node may be from the peak
_LOG_2PI = float(np.log(2 * np.pi))


class Mode(NamedTuple):
    """The highest density, the objective there (loss and prior), its Hessian, the steps, how it ended."""

    beta: np.ndarray
    value: float
    hessian: np.ndarray
    num_steps: int
    status: Status


class Hyper(NamedTuple):
    r"""The prior of the hyperparameters that are searched, and where the search starts.

    A log-precision has a positive number in `rates`: the deviation $\alpha^{-1/2}$ that it stands for is
    exponential with that rate, so that effects need not be there, and absurd ones are not believed. The
    others are normal, with `mean` and `spread` (which for log-precisions only frame the search).
    """

    mean: np.ndarray
    spread: np.ndarray
    start: np.ndarray
    rates: np.ndarray

    def log_prior(self, phi: Any) -> Any:
        xp = namespace(self, phi)
        u = (phi - self.mean) / self.spread
        normal = -0.5 * u**2 - xp.log(self.spread) - 0.5 * _LOG_2PI
        rates = xp.where(self.rates > 0, self.rates, 1.0)
        with np.errstate(over="ignore"):
            tailed = xp.log(rates / 2) - 0.5 * phi - rates * xp.exp(-0.5 * phi)
        return xp.where(self.rates > 0, tailed, normal).sum()


class Nodes(NamedTuple):
    """Hyperparameters with weights that add to one, and the logarithm of the integral."""

    phi: np.ndarray
    weights: np.ndarray
    log_total: float


def given_precision(name: str, value: Any) -> float | None:
    """A precision that was given, or None for "evidence".

    >>> given_precision("prior_precision", 2), given_precision("prior_precision", "evidence")
    (2.0, None)
    """
    if isinstance(value, str):
        check(value == "evidence", name, "'evidence', or positive and finite", repr(value))
        return None
    check(bool(np.isfinite(value)) and value > 0, name, "'evidence', or positive and finite", value)
    return float(value)


def mode_of(
    sweep: Sweep, start: np.ndarray, prior: np.ndarray, total: float, *, tol: float = _DECREMENT,
    max_steps: int = 100,
) -> Mode:  # fmt: skip
    """Minimise `sweep` (loss, gradient, Hessian) plus half the quadratic of the diagonal `prior`.

    It ends where a step would lower the objective by less than `tol` for each of the `total` rows.

    >>> found = mode_of(lambda b: (float(((b - 2) ** 2).sum()), 2 * (b - 2), 2 * np.eye(1)), np.zeros(1),
    ...                 np.array([2.0]), 1.0)
    >>> found.beta.tolist(), found.status.name
    ([1.0], 'converged')
    """

    def look(beta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        with np.errstate(all="ignore"):
            loss, gradient, hessian = sweep(beta)
        pull = prior * beta
        return loss + 0.5 * float(beta @ pull), gradient + pull, hessian + np.diag(prior)

    beta, looks, count = start, 0, 0
    value, gradient, hessian = look(beta)
    if not np.isfinite(value):  # the answer for other hyperparameters may be beyond a wall of these
        beta = np.zeros_like(start)
        value, gradient, hessian = look(beta)
    if not (np.isfinite(value) and np.isfinite(gradient).all()):
        return Mode(beta, np.inf, np.diag(prior), 0, Status.not_finite)
    for count in range(1, max_steps + 1):
        move = newton_direction(hessian, gradient)
        slope = float(gradient @ move)
        small = -slope <= tol * max(total, 1.0) and np.abs(move).max(initial=0.0) <= _LAST
        if small:  # the last step is taken unseen, which squares the error
            return Mode(beta + move, value + 0.5 * slope, hessian, count, Status.converged)
        size, found = 1.0, None
        for _ in range(30):
            looks += 1
            found = look(beta + size * move)
            finite = np.isfinite(found[0]) and np.isfinite(found[1]).all()
            rounding = 8 * np.finfo(float).eps * (abs(value) + total)
            steep = float(found[1] @ move) * size if finite else np.inf
            if finite and falls_enough(found[0] - value, size * slope, steep, rounding):
                break
            size *= 0.3 if finite else 0.1
        else:
            return Mode(beta, value, hessian, count, Status.stalled)
        if looks > 2 * max_steps:
            break
        beta = beta + size * move
        value, gradient, hessian = found
    return Mode(beta, value, hessian, count, Status.exhausted)


def laplace_evidence(mode: Mode, prior: np.ndarray) -> tuple[float, np.ndarray]:
    """Laplace's evidence at a mode under a diagonal `prior` precision, and the posterior covariance."""
    unit = 1 / np.sqrt(prior)
    scaled = mode.hessian * np.outer(unit, unit)
    try:
        root = np.linalg.cholesky(scaled)
        half = sl.solve_triangular(root, np.diag(unit), lower=True, check_finite=False)
        size = 2 * np.log(np.diag(root)).sum()
    except np.linalg.LinAlgError:  # rows that say far more than the prior: no eigenvalue is below the prior's
        values, vectors = np.linalg.eigh(scaled)
        values = np.maximum(values, 1.0)
        half = (vectors / np.sqrt(values)).T * unit
        size = np.log(values).sum()
    return float(-0.5 * size - mode.value), half.T @ half


def nodes_of(evidence: Callable[[np.ndarray], float], hyper: Hyper, *, many: bool) -> Nodes:
    """Nodes and weights of the integral over the hyperparameters; one at the peak unless `many`.

    `evidence` is without the prior of the hyperparameters.

    >>> hyper = Hyper(np.zeros(1), np.ones(1), np.zeros(1), np.zeros(1))
    >>> found = nodes_of(lambda phi: float(-0.5 * phi @ phi), hyper, many=True)
    >>> round(found.log_total, 9), len(found.weights)  # half of log 1/2
    (-0.34657359, 5)
    """
    size = len(hyper.mean)
    if size == 0:
        phi = np.zeros((1, 0))
        return Nodes(phi, np.ones(1), evidence(phi[0]))
    seen: dict[bytes, float] = {}

    def value(phi: np.ndarray) -> float:
        phi = np.asarray(phi, float)
        if (key := phi.tobytes()) not in seen:
            found = evidence(phi)
            seen[key] = found + hyper.log_prior(phi) if np.isfinite(found) else -np.inf
        return seen[key]

    peak = _peak(value, hyper)
    axes = axes_of(value, peak, hyper)
    points, shares = np.polynomial.hermite_e.hermegauss((5 if size == 1 else 3) if many else 1)
    grid = np.stack(np.meshgrid(*[points] * size, indexing="ij"), -1).reshape(-1, size)
    shares = np.prod(np.meshgrid(*[shares / shares.sum()] * size, indexing="ij"), 0).reshape(-1)
    phi = peak + grid @ axes.T
    logs = np.array([value(p) for p in phi]) + 0.5 * (grid**2).sum(1) + np.log(shares)
    top = logs.max()
    parts = np.exp(logs - top)
    log_total = top + np.log(parts.sum()) + np.linalg.slogdet(axes)[1] + 0.5 * size * _LOG_2PI
    keep = parts > 1e-6 * parts.max()
    return Nodes(phi[keep], parts[keep] / parts[keep].sum(), float(log_total))


def _peak(value: Callable[[np.ndarray], float], hyper: Hyper) -> np.ndarray:
    """Where the evidence is highest, to a tenth or so: the integral mends the rest."""
    from scipy.optimize import minimize, minimize_scalar

    reach = 5 * hyper.spread
    if len(hyper.mean) == 1:
        low, high = float(hyper.mean[0] - reach[0]), float(hyper.mean[0] + reach[0])
        options: Any = {"bounds": (low, high), "method": "bounded", "options": {"xatol": 0.1}}
        found: Any = minimize_scalar(lambda a: -value(np.array([a])), **options)
        return np.array([found.x])
    simplex = np.vstack([hyper.start, hyper.start + np.eye(len(hyper.start))])
    options = {"initial_simplex": simplex, "xatol": 0.15, "fatol": 0.03, "maxfev": 80}
    found = minimize(lambda phi: -value(phi), hyper.start, method="Nelder-Mead", options=options)
    return np.asarray(found.x)


def axes_of(value: Callable[[np.ndarray], float], peak: np.ndarray, hyper: Hyper) -> np.ndarray:
    r"""$C^{-1/2}$ in columns; a direction about which the rows say nothing has the size of the prior."""
    size = len(peak)
    steps = _STEP * np.eye(size)
    top, up, down = value(peak), *([value(peak + sign * h) for h in steps] for sign in (1, -1))
    curvature = np.diag([2 * top - a - b for a, b in zip(up, down)])
    for i in range(size):
        for j in range(i):
            both = value(peak + steps[i] + steps[j]) + value(peak - steps[i] - steps[j])
            cross = 0.5 * (both - up[i] - up[j] + 2 * top - down[i] - down[j])
            curvature[i, j] = curvature[j, i] = -cross
    scaled = curvature / _STEP**2 * np.outer(hyper.spread, hyper.spread)
    scaled = np.where(np.isfinite(scaled), scaled, 0.0)
    values, vectors = np.linalg.eigh(scaled)
    values = np.maximum(values, 1.0)  # the prior's own curvature is one
    return hyper.spread[:, None] * (vectors / np.sqrt(values))
