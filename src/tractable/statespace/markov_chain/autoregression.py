r"""Gaussian autoregressions: the next number from the last $k$, with noise; a Markov chain on the line.

Model.       $x_t = c + \sum_{i=1}^k\phi_ix_{t-i} + \sigma z_t$ with $z_t \sim N(0, 1)$.
Stationary.  If all eigenvalues of the companion matrix are inside the unit circle. Then the mean is
             $\mu = c/(1 - \sum_i\phi_i)$ and the covariances $\gamma_h$ of distance $h$ solve the equations
             of Yule and Walker, $\gamma_h = \sum_i\phi_i\gamma_{|h-i|} + \sigma^2[h = 0]$.
Likelihood.  Conditional: given the first $k$ values, least squares. Exact: they are
             $N(\mu, \Gamma_k)$; $\phi$ is searched for by its partial autocorrelations
             $r_i = \tanh(\theta_i)$, every choice of which is stationary; given $\phi$ the mean and the
             variance that maximise are closed.
Forecast.    $\hat x_{T+h}$ by the recursion, with variance $\sigma^2\sum_{j<h}\psi_j^2$, where $\psi$ is the
             response to one unit of noise.
Cost.        $O(nk^2)$ for the fit by least squares; the exact fit repeats $O(nk + k^3)$.
References.  Brockwell and Davis (1991) chapters 3, 5 and 8; Barndorff-Nielsen and Schou (1973).
"""

from typing import Any

import numpy as np

from tractable.core.checks import check, check_count, check_entries, check_option
from tractable.core.host_random import generator
from tractable.core.keys import takes_key
from tractable.core.module import HostResult, Module, field
from tractable.core.types import Key
from tractable.core.verdict import Verdict

__all__ = ["AutoRegression", "AutoRegressionForecast", "from_partial_autocorrelations"]

_LOG_2PI = float(np.log(2 * np.pi))


class AutoRegressionForecast(HostResult):
    """Means, variances and central intervals of the values to come, one for each step ahead."""

    mean: np.ndarray
    variance: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    level: float = field(static=True)


class AutoRegression(Module):
    r"""$x_t = c + \sum_i\phi_ix_{t-i} + N(0, \sigma^2)$.

    $\phi$ = `coefficients`, that of the last value first, $c$ = `intercept`, $\sigma^2$ = `noise`.

    >>> model = AutoRegression([0.5], 1.0, 3.0)
    >>> float(model.mean), model.autocovariances(1).round(6).tolist()
    (2.0, [4.0, 2.0])
    """

    coefficients: np.ndarray
    intercept: float
    noise: float

    def __init__(self, coefficients: Any, intercept: Any = 0.0, noise: Any = 1.0):
        self.coefficients = np.atleast_1d(np.asarray(coefficients, float))
        self.intercept, self.noise = float(intercept), float(noise)
        check(self.coefficients.ndim == 1, "coefficients", "a vector", f"shape {self.coefficients.shape}")
        check_entries("coefficients", self.coefficients, np.isfinite, "finite")
        check(np.isfinite(self.intercept), "intercept", "finite", intercept)
        check(0 <= self.noise < np.inf, "noise", "a variance, zero or positive", noise)

    @classmethod
    def fit(
        cls, series: Any, order: int = 1, *, method: str = "conditional", weights: Any = None
    ) -> "AutoRegression":
        """Maximum likelihood from one series or a list of them, each with its weight.

        `method` is "conditional" (least squares given the first `order` values, any coefficients) or "exact"
        (they have the stationary distribution; the fit is stationary).

        >>> AutoRegression.fit([1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.5], 1).coefficients.round(6).tolist()
        [-0.833333]
        """
        check_option("method", method, ("conditional", "exact"))
        parts, counts = _series(series, weights)
        order = check_count("order", order, 0)
        fitted = _least_squares(parts, counts, order)
        return fitted if method == "conditional" or order == 0 else _exact(parts, counts, order, fitted)

    @property
    def order(self) -> int:
        return len(self.coefficients)

    @property
    def companion(self) -> np.ndarray:
        """The matrix that moves the last $k$ values on by one step."""
        k = self.order
        return np.concatenate([self.coefficients[None], np.eye(k - 1, k)]) if k else np.zeros((0, 0))

    @property
    def is_stationary(self) -> bool:
        """Whether all eigenvalues of the companion matrix are inside the unit circle."""
        return bool((np.abs(np.linalg.eigvals(self.companion)) < 1).all())

    @property
    def verdict(self) -> Verdict:
        """Whether there is an equilibrium to which forecasts return."""
        radius = float(np.abs(np.linalg.eigvals(self.companion)).max(initial=0.0))
        if radius < 1:
            said = f"Stationary: shocks fade by {radius:.4g} per step in the long run."
            return Verdict(True, said, {"radius": radius})
        said = f"Not stationary: an eigenvalue has modulus {radius:.4g}; forecasts spread without end."
        return Verdict(False, said, {"radius": radius})

    @property
    def mean(self) -> float:
        """The stationary mean."""
        self._check_stationary()
        return self.intercept / (1 - float(self.coefficients.sum()))

    def autocovariances(self, max_lag: int) -> np.ndarray:
        r"""$\gamma_0, \dots, \gamma_h$ in equilibrium."""
        self._check_stationary()
        k, phi = self.order, self.coefficients
        equations = np.eye(k + 1)
        for h in range(k + 1):
            np.subtract.at(equations[h], np.abs(h - np.arange(1, k + 1)), phi)
        found = np.zeros(max(max_lag, k) + 1)
        found[: k + 1] = np.linalg.solve(equations, self.noise * np.eye(1, k + 1)[0])
        for h in range(k + 1, len(found)):
            found[h] = phi @ found[h - 1 : h - k - 1 : -1] if k else 0.0
        return found[: max_lag + 1]

    def log_likelihood(self, series: Any, *, method: str = "exact", weights: Any = None) -> float:
        """Log-density of a series: the "exact" one, or the "conditional" given its first values."""
        check_option("method", method, ("conditional", "exact"))
        parts, counts = _series(series, weights)
        first = _initial_root(self.coefficients) if method == "exact" and self.order else None
        if method == "exact":
            self._check_stationary()
        total = 0.0
        for part, count in zip(parts, counts):
            centred = part - (self.mean if method == "exact" else 0.0)
            shift = 0.0 if method == "exact" else self.intercept
            errors, log_det = _whitened(centred, self.coefficients, first)
            errors = errors - shift
            size = len(errors)
            total -= (
                count
                * 0.5
                * (size * (_LOG_2PI + np.log(self.noise)) + 2 * log_det + (errors @ errors) / self.noise)
            )
        return float(total)

    @takes_key
    def sample(self, key: Key, num_steps: int, num_paths: int | None = None, start: Any = None) -> np.ndarray:
        """Paths of `num_steps` values: after the values `start`, or else in equilibrium from the first."""
        from scipy.signal import lfilter

        many, k = 1 if num_paths is None else check_count("num_paths", num_paths), self.order
        rng, steps = generator(key), check_count("num_steps", num_steps)
        if start is None:
            level, before = self.mean, np.zeros((many, k))
            if k:
                before = (
                    rng.normal(size=(many, k)) @ (np.sqrt(self.noise) * _initial_root(self.coefficients)).T
                )
        else:
            given = np.asarray(start, float)
            check(
                given.shape == (k,),
                "start",
                f"the {k} values before, the last one last",
                f"shape {given.shape}",
            )
            level, before = 0.0, np.broadcast_to(given, (many, k))
        shift = self.intercept if start is not None else 0.0
        noise = shift + np.sqrt(self.noise) * rng.normal(size=(many, steps))
        # values before enter as the state of the filter
        state = np.stack([before[:, j:][:, ::-1] @ self.coefficients[j:] for j in range(k)], 1) if k else None
        taps = np.concatenate([[1.0], -self.coefficients])
        found = lfilter([1.0], taps, noise, axis=1, zi=state)[0] if k else noise
        return (found + level)[0] if num_paths is None else found + level

    def forecast(self, series: Any, num_steps: int, level: float = 0.9) -> AutoRegressionForecast:
        """The next `num_steps` values after a series of at least `order`, with intervals of this level.

        Parameters are taken as known: intervals of a fit to few values are a little too narrow.
        """
        from scipy.special import ndtri

        check(0 < level < 1, "level", "between 0 and 1", level)
        (values,), _ = _series(series, None)
        k, steps = self.order, check_count("num_steps", num_steps)
        check(len(values) >= k, "series", f"at least {k} values", len(values))
        mean = _continued(values[len(values) - k :], self.coefficients, self.intercept, steps)
        response = np.append(1.0, _continued(np.eye(1, k, k - 1)[0], self.coefficients, 0.0, steps - 1))
        variance = self.noise * np.cumsum(response**2)
        half = float(ndtri(0.5 + level / 2)) * np.sqrt(variance)
        return AutoRegressionForecast(mean, variance, mean - half, mean + half, level)

    def _check_stationary(self) -> None:
        radius = float(np.abs(np.linalg.eigvals(self.companion)).max(initial=0.0))
        fix = "Such a model has no equilibrium; use the conditional likelihood and give `start`."
        check(radius < 1, "coefficients", "stationary", f"an eigenvalue of modulus {radius:.6g}", fix)


def from_partial_autocorrelations(partial: Any) -> np.ndarray:
    r"""Coefficients $\phi$ from partial autocorrelations in $(-1, 1)$: all stationary ones, each once.

    >>> from_partial_autocorrelations([0.5, -0.2]).round(6).tolist()
    [0.6, -0.2]
    """
    phi = np.zeros(0)
    for r in np.asarray(partial, float):
        phi = np.append(phi - r * phi[::-1], r)
    return phi


def _continued(values: np.ndarray, phi: np.ndarray, intercept: float, num_steps: int) -> np.ndarray:
    """The next values without noise."""
    k = len(phi)
    found = np.concatenate([values, np.zeros(num_steps)])
    for t in range(k, len(found)):
        found[t] = intercept + phi @ found[t - k : t][::-1]
    return found[k:]


def _series(series: Any, weights: Any) -> tuple[list[np.ndarray], np.ndarray]:
    many = isinstance(series, list | tuple) and len(series) > 0 and np.ndim(series[0]) == 1
    parts = [np.asarray(part, float) for part in (series if many else [series])]
    for place, part in enumerate(parts):
        name = f"series[{place}]" if many else "series"
        check(part.ndim == 1 and part.size > 0, name, "a vector of numbers", f"shape {part.shape}")
        check_entries(name, part, np.isfinite, "finite", "Cut the series in two where a value is missing.")
    counts = np.ones(len(parts)) if weights is None else np.asarray(weights, float)
    check(counts.shape == (len(parts),), "weights", f"one for each of {len(parts)} series", counts.shape)
    check_entries("weights", counts, lambda w: (w >= 0) & np.isfinite(w), "zero or positive")
    return parts, counts


def _least_squares(parts: list[np.ndarray], counts: np.ndarray, order: int) -> AutoRegression:
    """Sums of products add over series; rows are centred first, so that a large level costs no digits."""
    level = float(np.concatenate(parts).mean())
    roots = [
        np.sqrt(count)
        * np.column_stack([np.ones(len(part) - order), _lagged(part - level, order), (part - level)[order:]])
        for part, count in zip(parts, counts)
        if len(part) > order and count > 0
    ]
    rows = np.concatenate(roots) if roots else np.zeros((0, order + 2))
    total = float(sum(count * (len(part) - order) for part, count in zip(parts, counts) if len(part) > order))
    check(len(rows) > order, "series", f"more than {2 * order} values long", f"{len(rows)} steps to fit")
    solved, _, rank, _ = np.linalg.lstsq(rows[:, :-1], rows[:, -1], rcond=None)
    fix = "Lower `order`; the series is constant or repeats itself exactly."
    check(
        rank == order + 1,
        "series",
        f"varied enough for {order} coefficients",
        f"rank {rank} of {order + 1}",
        fix,
    )
    errors = rows[:, -1] - rows[:, :-1] @ solved
    phi = solved[1:]
    return AutoRegression(phi, solved[0] + level * (1 - phi.sum()), float(errors @ errors) / total)


def _exact(parts: list[np.ndarray], counts: np.ndarray, order: int, first: AutoRegression) -> AutoRegression:
    from scipy.optimize import minimize

    scale = float(np.concatenate(parts).std())
    check(scale > 0, "series", "varied", "a constant")
    used = [(part, count) for part, count in zip(parts, counts) if count > 0]

    def profile(theta: np.ndarray) -> tuple[float, float, float]:
        phi = from_partial_autocorrelations(np.tanh(theta))
        root = _initial_root(phi)
        sums, size, log_det = np.zeros(3), 0.0, 0.0
        for part, count in used:
            y, half = _whitened(part / scale, phi, root)
            ones, _ = _whitened(np.ones(len(part)), phi, root)
            sums += count * np.array([y @ y, y @ ones, ones @ ones])
            size, log_det = size + count * len(part), log_det + count * half
        mean = sums[1] / sums[2]
        noise = (sums[0] - mean * sums[1]) / size
        return 0.5 * size * np.log(noise) + log_det, mean, noise

    start = np.arctanh(np.clip(_partial(first.coefficients), -0.95, 0.95))
    best = minimize(lambda theta: profile(theta)[0], start, method="BFGS", options={"gtol": 1e-7})
    _, mean, noise = profile(best.x)
    phi = from_partial_autocorrelations(np.tanh(best.x))
    return AutoRegression(phi, scale * mean * (1 - phi.sum()), scale**2 * noise)


def _partial(phi: np.ndarray) -> np.ndarray:
    """Partial autocorrelations of coefficients, by the recursion of Levinson and Durbin backwards."""
    found = np.zeros(len(phi))
    for k in range(len(phi) - 1, -1, -1):
        found[k] = r = float(np.clip(phi[k], -0.99, 0.99))
        phi = (phi[:k] + r * phi[:k][::-1]) / (1 - r * r)
    return found


def _initial_root(phi: np.ndarray) -> np.ndarray:
    """A root of the covariance of $k$ values in equilibrium, for unit noise."""
    from scipy.linalg import toeplitz

    return np.linalg.cholesky(toeplitz(AutoRegression(phi).autocovariances(len(phi) - 1)))


def _whitened(values: np.ndarray, phi: np.ndarray, root: np.ndarray | None) -> tuple[np.ndarray, float]:
    """Errors of one-step predictions in units of the noise, and the log-determinant of their map."""
    k = len(phi)
    errors = values[k:] - _lagged(values, k) @ phi
    if root is None:
        return errors, 0.0
    short = root[: len(values), : len(values)]  # a series that is shorter than the order
    start = np.linalg.solve(short, values[:k])
    return np.concatenate([start, errors]), float(np.log(np.diag(short)).sum())


def _lagged(values: np.ndarray, order: int) -> np.ndarray:
    """The `order` values before each that has them, the last one first."""
    size = max(len(values) - order, 0)
    columns = [values[order - i : order - i + size] for i in range(1, order + 1)]
    return np.stack(columns, 1) if order else np.zeros((size, 0))
