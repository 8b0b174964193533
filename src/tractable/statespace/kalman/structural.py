r"""Structural series: components that add, fitted by the exact diffuse likelihood, decomposed and forecast.

Model.       $y_t = \sum_k C^k_t x^k_t + \epsilon_t$, $\epsilon_t \sim N(0, \sigma^2)$, with each component
             $x^k$ a system of its own (`components`). States without a stationary law start flat
             (`diffuse`).
Fit.         Parameters in free coordinates: logarithms of variances in units of the series, logits of shares,
             $\mathrm{artanh}$ of partial autocorrelations. Value and exact score by one pass forward and one
             backward; derivatives of matrices by a complex step. Errors from the observed information, by
             differences of the score.
Verdict.     A variance at zero is said so: its component is fixed, and has no standard error.
Cost.        $O(T d^3)$ per evaluation before gains settle; nothing is compiled, so a new length costs
             nothing.
References.  Harvey (1989); Durbin and Koopman (2012).
"""

from typing import Any

import numpy as np

from tractable.core.checks import check, check_count
from tractable.core.module import HostResult, Module, field
from tractable.core.types import Values
from tractable.core.verdict import Verdict
from tractable.messages.gaussian_host import HostChain
from tractable.optim.host import minimise_on_host
from tractable.statespace.kalman.components import block_diagonal
from tractable.statespace.kalman.diffuse import ahead, diffuse_score, one_step, smoothed, started
from tractable.statespace.kalman.results import Forecast

__all__ = ["Decomposition", "Structural", "StructuralFit"]

_SMALL = -6.0  # log of a variance in units of the series: below, zero is tried
_COST = 1e-3  # of log-likelihood that a variance of zero may cost
_EDGE = 6.0  # of a logit: the likelihood is flat there
_STEP = 1e-20  # of the complex step: there is no difference that could cancel


class Structural(Module):
    """A series as a sum of components and noise (`noise=False` for readings without any).

    >>> from tractable.statespace.kalman.components import Level
    >>> fitted = Structural((Level(),)).fit([1120.0, 1160, 963, 1210, 1160, 1160, 813, 1230, 1370, 1140])
    >>> fitted.forecast(2).mean.shape
    (2, 1)
    """

    components: tuple[Any, ...]
    noise: bool = field(static=True, default=True)

    def __check_init__(self) -> None:
        check(len(self.components) > 0, "components", "at least one component", "none")

    @property
    def kinds(self) -> tuple[tuple[str, str], ...]:
        """Names and kinds of all parameters."""
        own = (("noise", "variance"),) if self.noise else ()
        return (*own, *(kind for part in self.components for kind in part.kinds()))

    def chain(self, values: Any, times: int, unit: float = 1.0) -> HostChain:
        """The system at natural parameters, over so many times."""
        counts = [len(part.kinds()) for part in self.components]
        return _chain(self.components, counts, self.flat, self.noise, values, times, unit)

    @property
    def flat(self) -> np.ndarray:
        """Which states start flat."""
        return np.concatenate([part.flat() for part in self.components])

    def log_likelihood(self, y: Any, values: Any) -> float:
        """The diffuse log-likelihood at natural parameters, in the order of `kinds`."""
        series = _series(y)
        return started(
            self.chain(np.asarray(values), len(series), _unit(series)), self.flat, series
        ).log_likelihood

    def fit(self, y: Any, *, max_steps: int = 200, tol: float = 1e-7, start: Any = None) -> "StructuralFit":
        """Maximise the diffuse likelihood of a series (gaps are NaN), from the `theta` of another fit."""
        series = _series(y)
        search = _Search(self, series)
        least = int(search.flat.sum()) + 1
        count = int((~np.isnan(series)).sum())
        check(count >= least, "y", f"at least {least} readings for these components", f"{count} readings")

        def down(theta: np.ndarray) -> tuple[float, np.ndarray]:
            if np.abs(theta).max(initial=0.0) > 40:
                return np.inf, np.zeros_like(theta)
            value, slope = search.value_and_score(theta)
            return -value / count, -slope / count

        usual = np.array([_START[kind] for _, kind in search.kinds])
        first = usual if start is None else np.clip(np.asarray(start, float), _SMALL, _EDGE)
        check(first.shape == usual.shape, "start", f"{len(usual)} numbers", f"shape {first.shape}")
        found = minimise_on_host(
            down, first, max_steps=check_count("max_steps", max_steps), tol=tol, stop="value"
        )
        theta = search.without_dead(np.asarray(found.state, float))
        values, names = search.natural(theta), tuple(name for name, _ in search.kinds)
        return StructuralFit(
            self, series, values, theta, search.unit, search.value(theta), names, found.status
        )


class _Search:
    """The likelihood of one series in free coordinates; a variance at minus infinity is zero."""

    def __init__(self, model: Structural, series: np.ndarray):
        self.components, self.noise, self.kinds = model.components, model.noise, model.kinds
        self.counts = [len(part.kinds()) for part in model.components]
        self.flat, self.series, self.unit = model.flat, series, _unit(series)

    def natural(self, theta: Any) -> np.ndarray:
        return natural(self.kinds, theta, self.unit)

    def chain(self, theta: Any) -> HostChain:
        values, times = self.natural(theta), len(self.series)
        return _chain(self.components, self.counts, self.flat, self.noise, values, times, self.unit)

    def value(self, theta: np.ndarray) -> float:
        return started(self.chain(theta), self.flat, self.series).log_likelihood

    def value_and_score(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """The likelihood and its exact derivative."""
        found = started(self.chain(theta), self.flat, self.series)
        slopes = diffuse_score(found)
        totals = {"A": slopes.A.sum(0), "Q": slopes.Q.sum(0), "R": slopes.R.sum(0), "cov": slopes.cov}
        slope = np.zeros(len(theta))
        for i in np.flatnonzero(np.isfinite(theta)):
            moved = theta + 0j
            moved[i] += 1j * _STEP
            other = self.chain(moved)
            parts = {"A": other.A[0], "Q": other.Q[0], "R": other.R[0], "cov": other.cov}
            slope[i] = sum(float((totals[k] * np.imag(parts[k])).sum()) for k in totals) / _STEP
        return found.log_likelihood, slope

    def without_dead(self, theta: np.ndarray) -> np.ndarray:
        """The parameters with variances of zero where that costs no likelihood."""
        best = self.value(theta)
        for i, (_, kind) in enumerate(self.kinds):
            if kind == "variance" and theta[i] < _SMALL:
                trial = theta.copy()
                trial[i] = -np.inf
                try:
                    value = self.value(trial)
                except ValueError:  # readings have no density then
                    continue
                if value > best - _COST:
                    theta, best = trial, max(best, value)
        return theta

    def errors(self, theta: np.ndarray) -> np.ndarray:
        """Standard errors of the natural parameters from the observed information; NaN where it says
        nothing."""
        edge = [kind != "variance" and abs(at) > _EDGE for (_, kind), at in zip(self.kinds, theta)]
        free = np.flatnonzero(np.isfinite(theta) & ~np.array(edge, bool))
        errors, h, rows = np.full(len(theta), np.nan), 1e-4, []
        for i in free:
            up, down = theta.copy(), theta.copy()
            up[i], down[i] = up[i] + h, down[i] - h
            rows.append((self.value_and_score(down)[1] - self.value_and_score(up)[1])[free] / (2 * h))
        information = np.array(rows).reshape(len(free), len(free))
        information = 0.5 * (information + information.T)
        if not len(free) or not np.linalg.eigvalsh(information)[0] > 0:
            return errors
        sizes = np.sqrt(np.diag(np.linalg.inv(information)))
        for i, size in zip(free, sizes):
            moved = theta + 0j
            moved[i] += 1j * _STEP
            errors[i] = size * abs(np.imag(self.natural(moved)[i]) / _STEP)
        return errors


class Decomposition(HostResult):
    """Each component over time, with its deviation, and the sum of all without noise."""

    names: tuple[str, ...] = field(static=True)
    means: Values
    deviations: Values
    signal: Values
    signal_deviation: Values
    series: Values

    def __getitem__(self, name: str) -> Values:
        check(name in self.names, "name", f"one of {self.names}", repr(name))
        return self.means[self.names.index(name)]


class StructuralFit(HostResult):
    """A fitted structural model with its series: parameters, errors, decomposition, forecasts."""

    model: Structural = field(show=False)
    series: Values = field(show=False)
    values: Values
    theta: Values = field(show=False)
    unit: float = field(show=False)
    log_likelihood: float
    names: tuple[str, ...] = field(static=True)
    status: Any = field(static=True, show=False)

    @property
    def verdict(self) -> Verdict:
        """How the search ended, and which components turned out to be fixed."""
        still = [name for name, value in zip(self.names, self.values) if value == 0]
        said = self.status.sentence + (f" Variances at zero: {', '.join(still)}." if still else "")
        return Verdict(self.status.ok, said, {"log_likelihood": self.log_likelihood, "at_zero": len(still)})

    @property
    def standard_errors(self) -> np.ndarray:
        """Of the natural parameters, from the observed information; NaN for what is at its edge."""
        return _Search(self.model, np.asarray(self.series)).errors(np.asarray(self.theta))

    @property
    def parameters(self) -> dict[str, float]:
        """The natural parameters by name."""
        return {name: float(value) for name, value in zip(self.names, self.values)}

    @property
    def num_parameters(self) -> int:
        """Parameters and unknown starts: what an information criterion counts."""
        return len(self.values) + int(self.model.flat.sum())

    @property
    def aic(self) -> float:
        r"""$-2\ell + 2k$: smaller is better, between models with the same unknown starts."""
        return -2 * self.log_likelihood + 2 * self.num_parameters

    def _started(self, series: np.ndarray, extra: int = 0) -> Any:
        y = np.concatenate([series, np.full((extra, 1), np.nan)])
        chain = self.model.chain(self.values, len(y), self.unit)
        return chain, started(chain, self.model.flat, y)

    def forecast(self, steps: int, y: Any = None) -> Forecast:
        """The readings after the last of the series, or of another series `y` under the same parameters."""
        series = self.series if y is None else _series(y)
        chain, found = self._started(series, check_count("steps", steps))
        mean, cov = (leaf[len(series) :] for leaf in ahead(found))
        C = np.broadcast_to(chain.C, (len(series) + steps, *chain.C.shape[1:]))[len(series) :]
        looks = (C @ mean[..., None])[..., 0]
        return Forecast(looks, C @ cov @ np.swapaxes(C, 1, 2) + chain.R, mean, cov)

    def last_state(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of the state behind the last reading."""
        mean, cov = ahead(self._started(self.series, 1)[1])
        return mean[-1], cov[-1]

    def one_step(self, y: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of each reading given those before it; NaN until the start is told."""
        return one_step(self._started(self.series if y is None else _series(y))[1])

    def log_scores(self, y: Any = None) -> np.ndarray:
        """The log-density of each reading given those before it; NaN where there is none."""
        series = self.series if y is None else _series(y)
        mean, variance = self.one_step(series)
        return -0.5 * ((series[:, 0] - mean) ** 2 / variance + np.log(2 * np.pi * variance))

    def decompose(self) -> Decomposition:
        """The components given the whole series, with bands."""
        chain, found = self._started(self.series)
        mean, cov = smoothed(found)
        C = np.broadcast_to(chain.C, (len(mean), *chain.C.shape[1:]))[:, 0]
        names, means, spreads, at = [], [], [], 0
        for part in self.model.components:
            here = slice(at, at + len(part.flat()))
            names.append(_label(part, names))
            means.append((C[:, here] * mean[:, here]).sum(1))
            spreads.append(np.einsum("ti,tij,tj->t", C[:, here], cov[:, here, here], C[:, here]))
            at = here.stop
        whole = np.einsum("ti,tij,tj->t", C, cov, C)
        deviations = np.sqrt(np.maximum(np.stack(spreads), 0.0))
        signal = (C * mean).sum(1)
        return Decomposition(
            tuple(names),
            np.stack(means),
            deviations,
            signal,
            np.sqrt(np.maximum(whole, 0)),
            self.series[:, 0],
        )


_START = {"variance": -1.0, "share": 1.0, "damping": 1.0, "partial": 0.1}


def natural(kinds: Any, theta: Any, unit: float) -> np.ndarray:
    """Natural parameters of free coordinates; analytic."""
    made = []
    for (_, kind), value in zip(kinds, theta):
        if kind == "variance":
            made.append(unit**2 * np.exp(value))
        elif kind == "partial":
            made.append(np.tanh(value))
        else:
            share = 1 / (1 + np.exp(-value))
            made.append(0.8 + 0.2 * share if kind == "damping" else share)
    return np.array(made)


def _series(y: Any) -> np.ndarray:
    series = np.asarray(y, float)
    series = series[:, None] if series.ndim == 1 else series
    check(series.ndim == 2 and series.shape[1] == 1, "y", "one series of numbers", f"shape {series.shape}")
    bad = np.flatnonzero(np.isinf(series[:, 0]))
    check(not len(bad), "y", "finite, or NaN where it is missing", f"inf at time {bad[0] if len(bad) else 0}")
    return series


def _unit(series: np.ndarray) -> float:
    """The size of changes from one reading to the next, or of the readings."""
    seen = series[~np.isnan(series[:, 0]), 0]
    for sizes in (np.diff(seen), seen - seen.mean() if len(seen) else seen, seen):
        size = float(np.sqrt((sizes**2).mean())) if len(sizes) else 0.0
        if size > 0:
            return size
    return 1.0


def _label(part: Any, taken: list[str]) -> str:
    name = type(part).__name__.lower() if type(part).__name__ != "ARIMA" else "arima"
    name = f"{name} {part.period}" if hasattr(part, "period") else name
    return name if name not in taken else f"{name} {len(taken)}"


def _chain(
    components: Any, counts: Any, flat: Any, noise: bool, values: Any, times: int, unit: float
) -> HostChain:
    blocks, at = [], int(noise)
    for part, count in zip(components, counts):
        blocks.append(part.block(list(values[at : at + count]), times))
        at += count
    looks = [np.atleast_2d(block.C) for block in blocks]
    rows = max(map(len, looks))
    C = np.concatenate([np.broadcast_to(look, (rows, look.shape[1])) for look in looks], 1)
    A, Q, P = (block_diagonal([getattr(block, name) for block in blocks]) for name in ("A", "Q", "P"))
    P = P + np.diag(np.where(flat, unit**2, 0.0))
    R = np.array([[[values[0] if noise else 0.0]]])
    zeros = np.zeros((1, 1, len(A)))
    return HostChain(zeros[0], P, A[None], zeros, Q[None], C[:, None], zeros[..., :1], R)
