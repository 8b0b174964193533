r"""The models that a forecast chooses among, and structural models seen from every origin in one pass.

Members.     Walks without a fit (`naive`); level, trend, damped trend, level with an autoregression and a
             Matern process about a constant, each with the seasons that are there; the level without them
             too. Each search starts where a kindred one ended.
Origins.     Parameters from the readings before the first origin; then one pass of the filter, which holds
             the state $p(x_o \mid y_{<o})$ of every later origin $o$, and $h$ steps of the system from all of
             them at once.
Tails.       Student laws where one-step errors are heavy: degrees of freedom by likelihood on a grid, two
             nats asked.
Cost.        A fit, a pass, and $O(OHd^3)$ for $O$ origins and $H$ steps.
References.  Harvey (1989); Durbin and Koopman (2012).
"""

from typing import Any, NamedTuple

import numpy as np

from tractable.messages.gaussian_host import HostChain
from tractable.statespace.forecast.laws import Law
from tractable.statespace.forecast.naive import Naive
from tractable.statespace.kalman.components import (
    ARIMA,
    Constant,
    Level,
    Matern,
    Regression,
    Seasonal,
    Trend,
)
from tractable.statespace.kalman.diffuse import ahead, started
from tractable.statespace.kalman.passes import passed
from tractable.statespace.kalman.structural import Structural, StructuralFit

__all__ = ["StructuralMember", "candidates"]

_DUMMIES = 13  # longer seasons are told by a few harmonics
_HARMONICS = 4
_DEGREES = (np.inf, 12.0, 8.0, 6.0, 4.5)
_SMALL_START = {"variance": -4.0, "share": 1.0, "damping": 1.0, "partial": 0.1}
_STEPS = 60  # of a search; it is compared on held-out readings, so that a rough optimum will do


class StructuralMember(NamedTuple):
    """A structural model by name; `columns` are known at all times, those of forecasts included."""

    name: str
    model: Structural

    @property
    def least(self) -> int:
        """Readings that a fit needs."""
        return int(self.model.flat.sum()) + len(self.model.kinds) + 4

    def fit(self, z: np.ndarray, near: Any = None) -> "StructuralMemberFit":
        """Parameters by the diffuse likelihood, from those of `near`, and the weight of the tails."""
        start = None if near is None else _start(self.model, near.fit)
        found = StructuralMemberFit(self.name, self.model.fit(z, max_steps=_STEPS, tol=1e-4, start=start))
        return found._replace(df=found.degrees(z))


class StructuralMemberFit(NamedTuple):
    """A fitted structural model that looks ahead from any origin."""

    name: str
    fit: StructuralFit
    df: float = np.inf

    def origins(self, z: np.ndarray, at: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
        """Means and deviations of the `steps` readings from each place of `at` on, given those before it."""
        chain, mean, cov = self._states(z, np.asarray(at), steps)
        A, Q, R = chain.A[0], chain.Q[0], chain.R[0, 0, 0]
        means, variances = np.empty((len(at), steps)), np.empty((len(at), steps))
        for h in range(steps):
            C = np.broadcast_to(chain.C[:, 0], (len(z) + steps, mean.shape[1]))[np.asarray(at) + h]
            means[:, h] = (C * mean).sum(1)
            variances[:, h] = np.einsum("ti,tij,tj->t", C, cov, C) + R
            mean, cov = mean @ A.T, A @ cov @ A.T + Q
        return means, np.sqrt(variances)

    def _states(self, z: np.ndarray, at: np.ndarray, steps: int) -> tuple[HostChain, np.ndarray, np.ndarray]:
        """The system, and the states at each place before its reading."""
        first, last = int(at.min()), int(at.max())
        whole = self.fit.model.chain(self.fit.values, len(z) + steps, self.fit.unit)
        before = np.append(z[:first], np.nan)[:, None]
        mean, cov = ahead(started(_between(whole, 0, first + 1), self.fit.model.flat, before))
        rest = _between(whole, first, last + 1)._replace(mean=mean[-1:], cov=cov[-1])
        found = passed(rest, np.append(z[first:last], np.nan)[:, None, None])
        covs = found.covariances.predicted[found.covariances.slot]
        return whole, found.predicted[at - first, 0], covs[at - first]

    def paths(self, rng: np.random.Generator, z: np.ndarray, steps: int, count: int) -> np.ndarray:
        """Joint draws of the next readings `(count, steps)`."""
        chain, mean, cov = self._states(z, np.array([len(z)]), steps)
        A, noise, R = chain.A[0], _root(chain.Q[0]), float(chain.R[0, 0, 0])
        C = np.broadcast_to(chain.C[:, 0], (len(z) + steps, len(A)))[len(z) :]
        states = mean + rng.standard_normal((count, len(A))) @ _root(cov[0]).T
        drawn = np.empty((count, steps))
        for h in range(steps):
            drawn[:, h] = states @ C[h] + np.sqrt(R) * rng.standard_normal(count)
            states = states @ A.T + rng.standard_normal(states.shape) @ noise.T
        return drawn

    def degrees(self, z: np.ndarray) -> float:
        """The degrees of freedom of one-step errors; infinite unless heavy tails are worth two nats."""
        told = int(np.flatnonzero(np.cumsum(~np.isnan(z)) >= self.fit.model.flat.sum() + 2)[0]) + 1
        for first in (told, len(z) // 2, 3 * len(z) // 4):
            at = np.arange(first, len(z))[~np.isnan(z[first:])]
            if len(at) < 20:
                return np.inf
            try:
                means, sds = self.origins(z, at, 1)
                break
            except ValueError:  # a column (a holiday) of which the readings before say nothing yet
                continue
        else:
            return np.inf
        law = Law(
            np.repeat(means, len(_DEGREES), 1),
            np.repeat(sds, len(_DEGREES), 1),
            np.array(_DEGREES),
            np.ones(1),
        )
        totals = law.log_densities(z[at]).sum(0)
        best = int(np.argmax(totals))
        return _DEGREES[best] if totals[best] > totals[0] + 2 else np.inf


def _start(model: Structural, near: StructuralFit) -> Any:
    """Parameters that two models share, by name, and small ones for the others; None where kinds differ."""
    known = dict(zip(near.names, np.asarray(near.theta)))
    strange = [
        name for name, kind in model.kinds if name not in known and (kind == "partial" or "season" in name)
    ]
    if not strange:
        return np.array(
            [known.get(n, 0.0 if "matern" in n else _SMALL_START[kind]) for n, kind in model.kinds]
        )
    return None


def candidates(seasons: tuple[int, ...], columns: Any = None) -> list[Any]:
    """The models for a series with these seasons; `columns` of known regressors enter the structural ones."""
    extra = () if columns is None else (Regression(columns),)
    waves = tuple(_seasonal(m) for m in seasons)
    label = "".join(f" + season {m}" for m in seasons)
    made: list[Any] = [Naive(), Naive(drift=True)] + [Naive(m) for m in seasons[:1]]
    shapes = [("level", (Level(),), True), ("damped trend", (Trend(damped=True),), True)]
    if waves:  # in case the season is none
        made += [
            StructuralMember(name, Structural((*parts, *extra), noise)) for name, parts, noise in shapes[:1]
        ]
    order = 1 if waves else 2  # with seasons, searches are dear
    echo = (f"level + AR({order})", (Level(), ARIMA(order, 0, 0)), False)
    smooth = ("Matern", (Constant(), Matern()), True)
    shapes = [shapes[0], ("trend", (Trend(),), True), shapes[1], echo, smooth]
    made += [
        StructuralMember(name + label, Structural((*parts, *waves, *extra), noise))
        for name, parts, noise in shapes
    ]
    return made


def _seasonal(period: int) -> Seasonal:
    if period <= _DUMMIES:
        return Seasonal(period)
    return Seasonal(period, "trigonometric", min(_HARMONICS, period // 2))


def _between(chain: HostChain, start: int, stop: int) -> HostChain:
    return chain._replace(C=chain.C[start:stop]) if len(chain.C) > 1 else chain


def _root(cov: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(cov)
    return vectors * np.sqrt(np.maximum(values, 0.0))
