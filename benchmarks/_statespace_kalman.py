"""Linear-Gaussian systems beside statsmodels, simdkalman and filterpy: one long series, many short ones."""

from typing import Any

import numpy as np

from benchmarks._children import Workload


def system(size: int) -> tuple[np.ndarray, ...]:
    """A stable system of this many states, of which one mixture is read."""
    rng = np.random.default_rng(0)
    move = rng.normal(size=(size, size))
    move *= 0.9 / np.abs(np.linalg.eigvals(move)).max()
    return move, 0.1 * np.eye(size), rng.normal(size=(1, size)), np.eye(1)


def one(size: int, times: int = 100_000) -> Any:
    """A long series."""
    return lambda: (*system(size), np.random.default_rng(1).normal(size=(times, 1)))


def many(size: int, num: int = 10_000, times: int = 100) -> Any:
    """Many short series."""
    return lambda: (*system(size), np.random.default_rng(1).normal(size=(num, times, 1)))


def tractable(what: str) -> Any:
    """The likelihood, the filter or the smoother, by the host."""

    def load() -> Any:
        from tractable.statespace import LinearGaussianSystem

        def fit(data: Any) -> float:
            A, Q, C, R, y = data
            model = LinearGaussianSystem(A, Q, C, R, np.zeros(len(A)), np.eye(len(A)))
            found = getattr(model, what)(y)
            return float(np.sum(found if what == "log_likelihood" else found.log_likelihood))

        return fit

    return load


def statsmodels(what: str) -> Any:
    """Its compiled filter, series by series."""

    def load() -> Any:
        from statsmodels.tsa.statespace.kalman_smoother import KalmanSmoother

        def fit(data: Any) -> float:
            A, Q, C, R, y = data
            size, total = len(A), 0.0
            model = KalmanSmoother(
                k_endog=1,
                k_states=size,
                design=C,
                obs_cov=R,
                transition=A,
                selection=np.eye(size),
                state_cov=Q,
            )
            model.initialize_known(np.zeros(size), np.eye(size))
            for series in y if y.ndim == 3 else y[None]:
                model.bind(np.asfortranarray(series))
                found = model.loglike() if what == "log_likelihood" else getattr(model, what)().llf
                total += float(found)
            return total

        return fit

    return load


def simdkalman(smoothed: bool) -> Any:
    """Its filter over all series at once."""

    def load() -> Any:
        import simdkalman

        def fit(data: Any) -> float:
            A, Q, C, R, y = data
            size = len(A)
            found = simdkalman.KalmanFilter(A, Q, C, R).compute(
                y[..., 0] if y.ndim == 3 else y[None, :, 0],
                0,
                initial_value=np.zeros(size),
                initial_covariance=np.eye(size),
                filtered=True,
                smoothed=smoothed,
                log_likelihood=True,
            )
            return float(np.sum(found.log_likelihood)) - 0.5 * y.size * np.log(2 * np.pi)  # its constant

        return fit

    return load


def filterpy() -> Any:
    """Its filter, step by step in Python."""
    from filterpy.kalman import KalmanFilter

    def fit(data: Any) -> float:
        A, Q, C, R, y = data
        total = 0.0
        for series in y if y.ndim == 3 else y[None]:
            model = KalmanFilter(len(A), 1)
            model.F, model.Q, model.H, model.R = A, Q, C, R
            for t, reading in enumerate(series):
                if t:
                    model.predict()
                model.update(reading)
                total += model.log_likelihood
        return total

    return fit


WORKLOADS = {}
for _size in (2, 5, 20):
    for _what in ("log_likelihood", "smooth"):
        _short = "likelihood" if _what == "log_likelihood" else "smoother"
        _fits = {"tractable": tractable(_what), "statsmodels": statsmodels(_what)}
        if _what == "log_likelihood":
            _fits["filterpy"] = filterpy
        WORKLOADS[f"kalman {_short}, one series of 100000, {_size} states"] = Workload(
            one(_size), _fits, "log-likelihood", slow=("filterpy",)
        )
        _fits = {
            "tractable": tractable(_what),
            "simdkalman": simdkalman(_what == "smooth"),
            "statsmodels": statsmodels(_what),
        }
        WORKLOADS[f"kalman {_short}, 10000 series of 100, {_size} states"] = Workload(
            many(_size), _fits, "log-likelihood", slow=("statsmodels",)
        )
