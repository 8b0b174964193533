r"""Components of structural series: level, trend, seasons, cycle, Matern process, regression, ARIMA.

Blocks.      A component is a small system $(A, Q, C, P)$ of its parameters; components add, so that their
             systems stand side by side in block-diagonal form. States without a stationary law start flat.
Trend.       $\mu_{t+1} = \mu_t + \phi\nu_t + \xi_t$, $\nu_{t+1} = \phi\nu_t + \zeta_t$ ($\phi = 1$ unless
             damped, then between 0.8 and 1: a slope that dies at once is none).
Season.      Dummies: $\gamma_{t+1} = -\sum_{j < s} \gamma_{t+1-j} + \omega_t$. Trigonometric: one rotation
             by $2\pi j/s$ for each harmonic $j \le s/2$, all with one variance.
Cycle.       $\psi_{t+1} = \rho R(2\pi/p)\psi_t + \kappa_t$, stationary with variance $\sigma^2/(1 - \rho^2)$.
Matern       process of order $p + \frac12$ about a constant: `kernels.matern_states`.
ARIMA        of order $(p, d, q)$ in Harvey's form; coefficients from partial autocorrelations in $(-1, 1)$,
             so that it is stationary after $d$ differences, and invertible.
Analytic.    Blocks are analytic in their parameters, so that a complex step gives exact derivatives.
Cost.        $O(d^2)$; the stationary law of an ARMA of $r$ states $O(r^6)$.
References.  Harvey (1989); Durbin and Koopman (2012) chapter 3; Monahan (1984).
"""

from typing import Any, NamedTuple

import numpy as np

from tractable.core.checks import check, check_count, check_option
from tractable.core.module import Module, field
from tractable.kernels.matern_states import STATIONARY, matern_transition

__all__ = [
    "ARIMA", "Block", "Constant", "Cycle", "Level", "Matern", "Regression", "Seasonal", "Trend",
]  # fmt: skip


class Block(NamedTuple):
    """The system of a component: one row `C`, or one for each time."""

    A: Any
    Q: Any
    C: Any
    P: Any


class Level(Module):
    """A random walk."""

    def kinds(self) -> tuple[tuple[str, str], ...]:
        """Names and kinds of the parameters."""
        return (("level", "variance"),)

    def flat(self) -> np.ndarray:
        """Which states start flat."""
        return np.ones(1, bool)

    def block(self, values: list[Any], times: int) -> Block:
        """The system at these parameters."""
        return Block(np.eye(1), np.eye(1) * values[0], np.ones(1), np.zeros((1, 1)))


class Trend(Module):
    """A level with a slope that changes; a damped slope dies away in forecasts. `smooth` fixes the noise of
    the level at zero."""

    damped: bool = field(static=True, default=False)
    smooth: bool = field(static=True, default=False)

    def kinds(self) -> tuple[tuple[str, str], ...]:
        """Names and kinds of the parameters."""
        level = () if self.smooth else (("level", "variance"),)
        return (*level, ("slope", "variance"), *((("damping", "damping"),) if self.damped else ()))

    def flat(self) -> np.ndarray:
        """Which states start flat."""
        return np.ones(2, bool)

    def block(self, values: list[Any], times: int) -> Block:
        """The system at these parameters."""
        level = 0.0 if self.smooth else values[0]
        slope = values[0 if self.smooth else 1]
        phi = values[-1] if self.damped else 1.0
        A = np.array([[1.0, phi], [0.0, phi]])
        return Block(A, np.array([[level, 0.0], [0.0, slope]]), np.array([1.0, 0.0]), np.zeros((2, 2)))


class Seasonal(Module):
    """A pattern that repeats every `period` times and changes slowly; "dummy" or "trigonometric" with the
    first `harmonics` (all of them if None)."""

    period: int = field(static=True)
    form: str = field(static=True, default="dummy")
    harmonics: int | None = field(static=True, default=None)

    def __check_init__(self) -> None:
        check_count("period", self.period, 2)
        check_option("form", self.form, ("dummy", "trigonometric"))
        if self.harmonics is not None:
            check(self.form == "trigonometric", "harmonics", "left out of dummies", self.harmonics)
            check_count("harmonics", self.harmonics, 1, self.period // 2)

    def kinds(self) -> tuple[tuple[str, str], ...]:
        """Names and kinds of the parameters."""
        return ((f"season {self.period}", "variance"),)

    def flat(self) -> np.ndarray:
        """Which states start flat."""
        return np.ones(len(self.block([1.0], 1).A), bool)

    def block(self, values: list[Any], times: int) -> Block:
        """The system at these parameters."""
        size = self.period - 1
        if self.form == "dummy":
            A = np.eye(size, k=-1)
            A[0] = -1.0
            Q = np.zeros((size, size)) * values[0]
            Q[0, 0] = values[0]
            return Block(A, Q, np.eye(1, size)[0], np.zeros((size, size)))
        turns, look = [], []
        for j in range(1, (self.harmonics or self.period // 2) + 1):
            angle = 2 * np.pi * j / self.period
            whole = 2 * j == self.period
            turns.append(-np.eye(1) if whole else _rotation(angle))
            look += [1.0] if whole else [1.0, 0.0]
        A = block_diagonal(turns)
        return Block(A, np.eye(len(A)) * values[0], np.array(look), np.zeros(A.shape))


class Cycle(Module):
    """A stochastic wave whose period lies between `shortest` and `longest`."""

    shortest: float = field(static=True, default=2.0)
    longest: float = field(static=True, default=100.0)

    def __check_init__(self) -> None:
        check(
            2 <= self.shortest < self.longest,
            "longest",
            f"above `shortest` = {self.shortest} >= 2",
            self.longest,
        )

    def kinds(self) -> tuple[tuple[str, str], ...]:
        """Names and kinds of the parameters."""
        return (("cycle", "variance"), ("cycle period", "share"), ("cycle damping", "share"))

    def flat(self) -> np.ndarray:
        """Which states start flat."""
        return np.zeros(2, bool)

    def block(self, values: list[Any], times: int) -> Block:
        """The system at these parameters."""
        variance, share, rho = values
        period = np.exp(np.log(self.shortest) * (1 - share) + np.log(self.longest) * share)
        A = rho * _rotation(2 * np.pi / period)
        return Block(A, np.eye(2) * variance, np.array([1.0, 0.0]), np.eye(2) * variance / (1 - rho**2))


class Constant(Module):
    """A mean that never changes, about which stationary components vary."""

    def kinds(self) -> tuple[tuple[str, str], ...]:
        """There are none: the mean is a state."""
        return ()

    def flat(self) -> np.ndarray:
        """Which states start flat."""
        return np.ones(1, bool)

    def block(self, values: list[Any], times: int) -> Block:
        """The system."""
        return Block(np.eye(1), np.zeros((1, 1)), np.ones(1), np.zeros((1, 1)))


class Matern(Module):
    """A Matern process of order `order` + 1/2 (0: rough, 1, 2: smooth) with a length between `shortest` and
    `longest` times."""

    order: int = field(static=True, default=1)
    shortest: float = field(static=True, default=0.5)
    longest: float = field(static=True, default=100.0)

    def __check_init__(self) -> None:
        check_count("order", self.order, 0, 2)
        fine = 0 < self.shortest < self.longest
        check(fine, "longest", f"above `shortest` = {self.shortest} > 0", self.longest)

    def kinds(self) -> tuple[tuple[str, str], ...]:
        """Names and kinds of the parameters."""
        return (("matern", "variance"), ("matern length", "share"))

    def flat(self) -> np.ndarray:
        """Which states start flat."""
        return np.zeros(self.order + 1, bool)

    def block(self, values: list[Any], times: int) -> Block:
        """The system at these parameters."""
        variance, share = values
        length = np.exp(np.log(self.shortest) * (1 - share) + np.log(self.longest) * share)
        A, Q = matern_transition(self.order, np.asarray(np.sqrt(2 * self.order + 1) / length))
        return Block(A, variance * Q, np.eye(1, self.order + 1)[0], variance * STATIONARY[self.order])


class Regression(Module):
    """Constant coefficients of known columns `(times, k)`, which reach over the times of forecasts too."""

    columns: Any

    def kinds(self) -> tuple[tuple[str, str], ...]:
        """There are none: coefficients are states."""
        return ()

    def flat(self) -> np.ndarray:
        """Which states start flat."""
        return np.ones(self._table().shape[1], bool)

    def block(self, values: list[Any], times: int) -> Block:
        """The system over so many times."""
        table = self._table()
        k = table.shape[1]
        fix = "Give rows for the times of a forecast too."
        check(len(table) >= times, "columns", f"of at least {times} times", f"{len(table)} times", fix)
        return Block(np.eye(k), np.zeros((k, k)), table[:times], np.zeros((k, k)))

    def _table(self) -> np.ndarray:
        table = np.asarray(self.columns, float)
        table = table[:, None] if table.ndim == 1 else table
        check(
            table.ndim == 2 and np.isfinite(table).all(), "columns", "a finite table", f"shape {table.shape}"
        )
        return table


class ARIMA(Module):
    """An autoregression of order `p` with moving average of order `q`, after `d` differences."""

    p: int = field(static=True, default=1)
    d: int = field(static=True, default=0)
    q: int = field(static=True, default=0)

    def __check_init__(self) -> None:
        for name in ("p", "q"):
            check_count(name, getattr(self, name), 0, 12)
        check_count("d", self.d, 0, 2)

    def kinds(self) -> tuple[tuple[str, str], ...]:
        """Names and kinds of the parameters."""
        ar = tuple((f"ar {i + 1}", "partial") for i in range(self.p))
        ma = tuple((f"ma {i + 1}", "partial") for i in range(self.q))
        return (("shock", "variance"), *ar, *ma)

    def flat(self) -> np.ndarray:
        """Which states start flat."""
        return np.arange(self.d + max(self.p, self.q + 1)) < self.d

    def block(self, values: list[Any], times: int) -> Block:
        """The system at these parameters."""
        variance, r, d = values[0], max(self.p, self.q + 1), self.d
        ar, ma = levinson(values[1 : 1 + self.p]), levinson([-v for v in values[1 + self.p :]])
        kind = complex if np.iscomplexobj(np.asarray(values)) else float
        T, shock = np.eye(r, k=1, dtype=kind), np.zeros(r, kind)
        T[: self.p, 0] = ar
        shock[0], shock[1 : 1 + self.q] = 1.0, [-v for v in ma]
        noise = np.outer(shock, shock) * variance
        whole = np.kron(T, T)
        law = np.linalg.solve(np.eye(r * r) - whole, noise.reshape(-1)).reshape(r, r)
        A, Q, P = (np.zeros((d + r, d + r), kind) for _ in range(3))
        A[d:, d:], Q[d:, d:], P[d:, d:] = T, noise, 0.5 * (law + law.T)
        A[:d, :d], A[:d, d] = np.triu(np.ones((d, d))), 1.0
        look = np.concatenate([np.ones(d + 1), np.zeros(r - 1)])
        return Block(A, Q, look, P)


def levinson(partials: Any) -> Any:
    """The coefficients of a stationary autoregression with these partial autocorrelations."""
    found: list[Any] = []
    for value in partials:
        found = [a - value * b for a, b in zip(found, found[::-1])] + [value]
    return found


def block_diagonal(blocks: Any) -> Any:
    """Square blocks along a diagonal."""
    sizes = [len(block) for block in blocks]
    whole = np.zeros((sum(sizes),) * 2, np.result_type(float, *blocks))
    at = 0
    for block, size in zip(blocks, sizes):
        whole[at : at + size, at : at + size] = block
        at += size
    return whole


def _rotation(angle: Any) -> Any:
    return np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
