r"""Linear-Gaussian systems: filter, smoother, likelihood, draws, forecasts and the steady state.

Model.       $x_1 \sim N(m, P)$; $x_{t+1} = A_t x_t + b_t + B u_t + w_t$, $w_t \sim N(0, Q_t)$; $y_t = C_t x_t
             + c_t + D u_t + v_t$, $v_t \sim N(0, R_t)$; $\mathrm{Cov}[w_t, v_t] = N$. Each of $A, Q, C, R, b,
             c$ is one for all times, or has a leading axis of $T - 1$ (steps) or $T$ (readings).
Ways.        "host" (NumPy; many series share one pass of covariances; nothing compiled), "scan" and
             "parallel" (compiled, `messages.gaussian_chain`), there by "covariance", "joseph", "square-root"
             or "information". They agree to rounding where the problem is well conditioned.
Errors.      Readings without a density, infinities and shapes are named with their time.
Cost.        $O(T_0 d^3 + N T d^2)$ for $N$ series with the same gaps, of $T_0$ times before covariances
             settle.
References.  Kalman (1960); Durbin and Koopman (2012); Sarkka (2013).
"""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from tractable.core.checks import as_float, check, check_count, check_option, has_values
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.support import psd, real
from tractable.core.types import ArrayLike, Key, Values
from tractable.messages.gaussian_chain import GaussianChain
from tractable.statespace.kalman import moments, passes
from tractable.statespace.kalman.results import FilteredStates, Forecast, SmoothedStates, SteadyState
from tractable.statespace.kalman.series import padded, readings
from tractable.statespace.kalman.steady import steady_state

__all__ = ["INPUTS", "LEARNT", "OFFSETS", "LinearGaussianSystem"]

LEARNT = (
    "transition", "transition_cov", "observation", "observation_cov", "initial_mean", "initial_cov",
)  # fmt: skip
INPUTS = ("transition_input", "observation_input")
OFFSETS = ("transition_offset", "observation_offset")
METHODS = ("host", "scan", "parallel")


class LinearGaussianSystem(Module):
    """A linear system with Gaussian noises, of which some entries are read at each time.

    `noise_cov` is the covariance of the noise of a step with that of the reading before it. `learnt` names
    what `fit` with `EM` may change: all matrices, also those of inputs, unless it says otherwise; offsets
    only where it names them.

    >>> system = LinearGaussianSystem([[1.0]], [[0.1]], [[1.0]], [[0.2]], [0.0], [[1.0]])
    >>> system.filter([1.0, float("nan"), 2.0]).mean[:, 0].round(6).tolist()
    [0.833333, 0.833333, 1.588235]
    """

    on_host: ClassVar[bool] = True
    names: ClassVar[tuple[str, ...]] = ("transition", "transition_cov", "observation", "observation_cov")

    transition: Values = field(support=real, rank=2)
    transition_cov: Values = field(support=psd)
    observation: Values = field(support=real, rank=2)
    observation_cov: Values = field(support=psd)
    initial_mean: Values = field(support=real, rank=1)
    initial_cov: Values = field(support=psd)
    transition_offset: Any = None
    observation_offset: Any = None
    transition_input: Any = None
    observation_input: Any = None
    noise_cov: Any = None
    learnt: tuple[str, ...] = field(static=True, default=LEARNT + INPUTS, show=False)

    def __check_init__(self) -> None:
        d, m = self.initial_mean.shape[-1], self.observation.shape[-2]
        shapes = {
            "transition": (d, d), "transition_cov": (d, d), "observation": (m, d), "observation_cov": (m, m),
            "initial_cov": (d, d), "noise_cov": (d, m),
        }  # fmt: skip
        for name, shape in shapes.items():
            leaf = getattr(self, name)
            got = np.shape(leaf)
            ok = leaf is None or (
                got[-2:] == shape and len(got) <= (2 if name in ("initial_cov", "noise_cov") else 3)
            )
            check(ok, name, f"of shape {shape}, or with a leading axis for times", f"shape {got}")
        for name, size in (("transition_offset", d), ("observation_offset", m)):
            got = np.shape(getattr(self, name))
            ok = getattr(self, name) is None or (len(got) in (1, 2) and got[-1] == size)
            check(ok, name, f"of shape ({size},), or (times, {size})", f"shape {got}")
        for name, size in (("transition_input", d), ("observation_input", m)):
            got = np.shape(getattr(self, name))
            check(getattr(self, name) is None or (len(got) == 2 and got[0] == size), name,
                  f"of shape ({size}, inputs)", f"shape {got}")  # fmt: skip
        unknown = [name for name in self.learnt if name not in LEARNT + INPUTS + OFFSETS]
        check(not unknown, "learnt", f"names among {LEARNT + INPUTS + OFFSETS}", unknown)

    @property
    def state_size(self) -> int:
        """The number of entries of the state."""
        return self.initial_mean.shape[-1]

    @property
    def reading_size(self) -> int:
        """The number of entries of a reading."""
        return self.observation.shape[-2]

    @property
    def matrices(self) -> tuple[Any, ...]:
        """$A$, $Q$, $C$ and $R$."""
        return self.transition, self.transition_cov, self.observation, self.observation_cov

    @property
    def offsets(self) -> tuple[Any, Any]:
        """$b$ and $c$, zero where none was given."""
        b, c = self.transition_offset, self.observation_offset
        return (
            np.zeros(self.state_size) if b is None else b,
            np.zeros(self.reading_size) if c is None else c,
        )

    def log_likelihood(
        self, y: Any, inputs: ArrayLike | None = None, *, method: str = "host", form: str | None = None
    ) -> Any:
        """The log-density of the readings that were seen; one number, or one for each series. A system of
        tracers (under `jit` or `grad`) answers for one series without inputs."""
        if not has_values((self, y)):
            return self._chain().log_evidence(as_float("y", y).reshape(-1, self.reading_size))
        if method == "host" and form in (None, "joseph"):
            return passes.log_likelihoods(self, readings(y, self.reading_size), _driven(inputs))
        return self._filtered(y, inputs, method, form).log_likelihood

    def filter(
        self, y: Any, inputs: ArrayLike | None = None, *, method: str = "host", form: str | None = None
    ) -> FilteredStates:
        """The state at each time, from the readings up to it."""
        return self._filtered(y, inputs, method, form)

    def smooth(
        self, y: Any, inputs: ArrayLike | None = None, *, method: str = "host", form: str | None = None
    ) -> SmoothedStates:
        """The state at each time, from all readings."""
        return self._way(method, form)[1](self, readings(y, self.reading_size), _driven(inputs))

    def forecast(self, y: Any, steps: int, inputs: ArrayLike | None = None) -> Forecast:
        """Readings at the `steps` times after the last one of `y`; `inputs` reach over these too, and so do
        matrices that vary in time."""
        steps = check_count("steps", steps)
        return passes.forecast(self, readings(y, self.reading_size), steps, _driven(inputs))

    @takes_key
    def sample(
        self, key: Key, n: int, num_paths: int | None = None, inputs: ArrayLike | None = None
    ) -> tuple[Values, Values]:
        """States and readings at `n` times: of one path, or of `num_paths`."""
        many = check_count("num_paths", 1 if num_paths is None else num_paths)
        states, looks = passes.simulated(self, key, check_count("n", n), many, _driven(inputs))
        return (states[0], looks[0]) if num_paths is None else (states, looks)

    @takes_key
    def sample_paths(self, key: Key, y: Any, num_paths: int = 1, inputs: ArrayLike | None = None) -> Values:
        """Independent paths of the states given the readings of one series, `(paths, times, d)`."""
        count = check_count("num_paths", num_paths)
        return passes.drawn(self, key, readings(y, self.reading_size), count, _driven(inputs))

    def steady_state(self) -> SteadyState:
        """The covariances and the gain to which the filter settles; an error names the mode that has none."""
        A, Q, C, R = (np.asarray(leaf) for leaf in self.matrices)
        fixed = max(leaf.ndim for leaf in (A, Q, C, R)) == 2
        check(fixed, "transition", "constant for a steady state", "matrices that vary in time")
        if self.noise_cov is not None:
            N = np.asarray(self.noise_cov)
            A, Q = A - N @ np.linalg.solve(R, C), Q - N @ np.linalg.solve(R, N.T)
        return steady_state(A, Q, C, R)

    def rows(self, series: Any) -> np.ndarray:
        """Series of any lengths as rows for `fit`: `(series, times, m)`, gaps behind their ends."""
        found = readings(series, self.reading_size)
        return np.swapaxes(found.values, 0, 1) if found.single else padded(series, self.reading_size)

    def e_step(self, rows: Any, weights: Any) -> tuple[Any, Any]:
        """Expected statistics of series `(series, times, m)`, which add over series, and log-evidence; with
        input matrices, of the pair of series and inputs `(series, times, k)`."""
        return moments.expected(self, rows, weights)

    def m_step(self, stats: Any) -> "LinearGaussianSystem":
        """The system of these statistics; what is not `learnt` stays."""
        return moments.maximised(self, stats)

    def _filtered(self, y: Any, inputs: Any, method: str, form: str | None) -> FilteredStates:
        return self._way(method, form)[0](self, readings(y, self.reading_size), _driven(inputs))

    def _way(self, method: str, form: str | None) -> tuple[Callable, Callable]:
        check_option("method", method, METHODS)
        if method == "host" and form in (None, "joseph"):
            return passes.filtered, passes.smoothed
        method, form = ("scan" if method == "host" else method), form or "covariance"
        return passes.compiled(method, form)

    def _chain(self) -> GaussianChain:
        """The compiled chain of a system without inputs or correlated noises, traced or not."""
        from tractable.distributions.gaussian import Gaussian
        from tractable.distributions.linear_gaussian import LinearGaussian

        plain = self.noise_cov is None and self.transition_input is None and self.observation_input is None
        check(plain, "self", "without inputs and correlated noises under `jit`", "a system with them")
        b, c = (as_float("offset", leaf) for leaf in self.offsets)
        return GaussianChain(
            Gaussian(self.initial_mean, self.initial_cov),
            LinearGaussian(self.transition, b, self.transition_cov),
            LinearGaussian(self.observation, c, self.observation_cov),
        )


def _driven(inputs: Any) -> np.ndarray | None:
    """Inputs as `(T, 1 or N, k)`."""
    if inputs is None:
        return None
    table = np.asarray(inputs, float)
    table = table[:, None] if table.ndim == 1 else table
    check(np.isfinite(table).all(), "inputs", "finite", "NaN or infinite entries")
    return table[:, None] if table.ndim == 2 else np.swapaxes(table, 0, 1)
