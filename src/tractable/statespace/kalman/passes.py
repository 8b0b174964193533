r"""The passes of a linear-Gaussian system over one series or many, and what is read from them.

Host.        `messages.gaussian_host` and `gaussian_back`, group by group of series with the same gaps.
Forecast.    Times without readings behind the last one: the filter of a longer series.
Draws.       Given readings: a path $x^+$ and its readings $y^+$ from the model, then $x^+ + E[x \mid y] - E[x
             \mid y^+]$: means of more series, under the covariances of the first.
Cost.        That of `messages.gaussian_host`.
References.  Durbin and Koopman (2002), draws by mean corrections.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tractable.core.blas import one_blas_thread
from tractable.core.checks import check, check_option
from tractable.core.host_random import generator
from tractable.core.types import Key
from tractable.messages.gaussian_back import adjoint, smoothed_covariances, smoothed_means
from tractable.messages.gaussian_host import HostChain, Passed, SingularReading, forward, log_densities
from tractable.messages.gaussian_steps import FORMS
from tractable.statespace.kalman.results import FilteredStates, Forecast, SmoothedStates
from tractable.statespace.kalman.series import Readings, groups
from tractable.statespace.kalman.wiring import compiled_chain, host_chain, uncorrelated

__all__ = [
    "check_densities", "compiled", "drawn", "filtered", "forecast", "log_likelihoods", "parts", "passed",
    "simulated", "smoothed",
]  # fmt: skip


def parts(system: Any, ys: np.ndarray, inputs: np.ndarray | None) -> Any:
    """For each group of series its indices, chain and readings `(T, n, m)`."""
    whole = host_chain(system, len(ys), inputs)
    noise = None if system.noise_cov is None else np.asarray(system.noise_cov, float)
    for members in groups(~np.isnan(ys), system.state_size, apart=noise is not None):
        here = ys[:, members]
        chain = whole._replace(b=_of(whole.b, members), c=_of(whole.c, members))
        yield members, chain if noise is None else uncorrelated(chain, noise, here), here


def passed(chain: HostChain, ys: np.ndarray) -> Passed:
    """The pass forward; readings without a density are an error that names their time."""
    return _named_where_singular(forward, chain, ys)


def _named_where_singular(way: Callable, chain: HostChain, ys: np.ndarray) -> Any:
    try:
        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
            return way(chain, ys)
    except SingularReading as error:
        if error.grown:
            raise ValueError(
                "`transition` must leave covariances within the range of numbers; got one beyond it at time "
                f"{error.time}. Its modes grow without readings that hold them: give fewer times, or others."
            ) from None
        raise ValueError(
            "`observation_cov` must leave every reading uncertain given those before it; got singular "
            f"innovations at time {error.time}. Add noise to the readings, or drop what repeats."
        ) from None


def log_likelihoods(system: Any, y: Readings, inputs: np.ndarray | None) -> Any:
    """The log-density of each series, or of the one."""
    totals = np.empty(y.values.shape[1])
    for members, chain, ys in parts(system, y.values, inputs):
        densities = _named_where_singular(log_densities, chain, ys)
        totals[members] = densities.sum(0) if len(members) > 1 else densities[:, 0].sum()
    return totals[0] if y.single else totals


def filtered(system: Any, y: Readings, inputs: np.ndarray | None) -> FilteredStates:
    """The states from the readings up to each time."""
    found = [(members, passed(chain, ys)) for members, chain, ys in parts(system, y.values, inputs)]
    return FilteredStates(
        y.shaped(_joined([(i, one.predicted) for i, one in found], y)),
        y.shaped(_joined([(i, _spread(one, "predicted", len(i))) for i, one in found], y)),
        y.shaped(_joined([(i, one.filtered) for i, one in found], y)),
        y.shaped(_joined([(i, _spread(one, "filtered", len(i))) for i, one in found], y)),
        y.shaped(_joined([(i, one.log_densities) for i, one in found], y)),
    )


def smoothed(system: Any, y: Readings, inputs: np.ndarray | None) -> SmoothedStates:
    """The states from all readings."""
    means, covs, crosses, totals = [], [], [], []
    for members, chain, ys in parts(system, y.values, inputs):
        one = passed(chain, ys)
        back = adjoint(chain, one, ~np.isnan(ys))
        cov, cross = smoothed_covariances(chain, one, back)
        means.append((members, smoothed_means(one, back)))
        covs.append((members, _wide(cov, len(members))))
        crosses.append((members, _wide(np.swapaxes(cross, -1, -2), len(members))))
        totals.append((members, one.log_densities))
    answers = [y.shaped(_joined(kind, y)) for kind in (means, covs, crosses, totals)]
    mean, cov, cross, densities = answers
    return SmoothedStates(mean, cov, cross, densities.sum(-1))


def compiled(method: str, form: str) -> tuple[Callable, Callable]:
    """Filter and smoother by the compiled chain, series by series."""
    check_option("form", form, tuple(FORMS))
    return partial(_compiled_filter, method, form), partial(_compiled_smooth, method, form)


def forecast(system: Any, y: Readings, steps: int, inputs: np.ndarray | None) -> Forecast:
    """The readings after the last; series of different lengths are forecast from their own ends."""
    same = bool((y.lengths == len(y.values)).all())
    check(same or inputs is None, "inputs", "left out for series of different lengths", "some")
    behind = np.full((steps, *y.values.shape[1:]), np.nan)
    ys = np.concatenate([y.values, behind])
    reach = steps + int(y.lengths.min()) - len(y.values)
    check(same or reach <= steps, "steps", "positive", steps)
    found = filtered(system, Readings(ys, y.lengths, False), inputs)
    places = y.lengths[:, None] + np.arange(steps)
    rows = np.arange(len(places))[:, None]
    mean, cov = found.predicted_mean[rows, places], found.predicted_cov[rows, places]
    chain = host_chain(system, len(ys), inputs)
    C, R, c = (_ahead(leaf, places) for leaf in (chain.C, chain.R, chain.c[:, 0]))
    if chain.c.shape[1] > 1:
        c = np.swapaxes(chain.c, 0, 1)[rows, places]
    looks = (C @ mean[..., None])[..., 0] + c
    spread = C @ cov @ np.swapaxes(C, -1, -2) + R
    answers = looks, spread, mean, cov
    return Forecast(*(leaf[0] if y.single else leaf for leaf in answers))


def simulated(system: Any, key: Key, times: int, num: int, inputs: np.ndarray | None) -> tuple:
    """States and readings of independent paths, paths first."""
    chain = host_chain(system, times, inputs)
    noise = None if system.noise_cov is None else np.asarray(system.noise_cov, float)
    return tuple(np.swapaxes(leaf, 0, 1) for leaf in _simulated(chain, noise, key, times, num))


def drawn(system: Any, key: Key, y: Readings, num: int, inputs: np.ndarray | None) -> np.ndarray:
    """Paths of the states given the readings of one series."""
    check(y.values.shape[1] == 1, "y", "one series", f"{y.values.shape[1]} series")
    chain = host_chain(system, len(y.values), inputs)
    noise = None if system.noise_cov is None else np.asarray(system.noise_cov, float)
    states, looks = _simulated(chain, noise, key, len(y.values), num)
    ys = np.concatenate([y.values, np.where(np.isnan(y.values), np.nan, looks)], 1)
    independent = chain if noise is None else uncorrelated(chain, noise, ys)
    one = passed(independent, ys)
    means = smoothed_means(one, adjoint(independent, one, ~np.isnan(ys), matrices=False))
    return np.swapaxes(states + means[:, :1] - means[:, 1:], 0, 1)


def _simulated(chain: HostChain, noise: Any, key: Key, times: int, num: int) -> tuple[np.ndarray, np.ndarray]:
    rng = generator(key)
    d, m = chain.mean.shape[1], chain.R.shape[-1]
    draws = rng.standard_normal((times, num, d + m))
    roots = [_joint_root(chain, noise, t) for t in range(1 if chain.is_constant else times)]
    shocks = np.stack([draws[t] @ roots[min(t, len(roots) - 1)].T for t in range(times)])
    states = np.empty((times, num, d))
    states[0] = chain.mean + rng.standard_normal((num, d)) @ _root(chain.cov).T
    for t in range(times - 1):
        A, b = chain.A[min(t, len(chain.A) - 1)], chain.b[min(t, len(chain.b) - 1)]
        states[t + 1] = states[t] @ A.T + b + shocks[t, :, :d]
    looks = states @ np.swapaxes(chain.C, 1, 2) + chain.c + shocks[..., d:]
    return states, looks


def _joint_root(chain: HostChain, noise: Any, t: int) -> np.ndarray:
    Q, R = chain.Q[min(t, len(chain.Q) - 1)], chain.R[min(t, len(chain.R) - 1)]
    cross = np.zeros((len(Q), len(R))) if noise is None else noise
    return _root(np.block([[Q, cross], [cross.T, R]]))


def _root(cov: np.ndarray) -> np.ndarray:
    """A root of a covariance that may be singular."""
    values, vectors = np.linalg.eigh(cov)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def _of(shift: np.ndarray, members: np.ndarray) -> np.ndarray:
    return shift if shift.shape[1] == 1 else shift[:, members]


def _ahead(leaf: np.ndarray, places: np.ndarray) -> np.ndarray:
    return leaf[np.minimum(places, len(leaf) - 1)]


def _wide(matrices: np.ndarray, num: int) -> np.ndarray:
    """Matrices of each time and series; those that series share are views."""
    if matrices.ndim == 4:
        return matrices
    return np.broadcast_to(matrices[:, None], (len(matrices), num, *matrices.shape[1:]))


def _spread(one: Passed, name: str, num: int) -> np.ndarray:
    return _wide(getattr(one.covariances, name)[one.covariances.slot], num)


def _joined(found: list[tuple[np.ndarray, np.ndarray]], y: Readings) -> np.ndarray:
    """The answers of all groups in the order of the series."""
    if len(found) == 1:
        return found[0][1]
    first = found[0][1]
    whole = np.empty((len(first), y.values.shape[1], *first.shape[2:]))
    for members, leaf in found:
        whole[:, members] = leaf
    return whole


def _by_series(system: Any, y: Readings, inputs: np.ndarray | None, ask: Callable) -> list:
    answers: list = [None] * y.values.shape[1]
    for members, chain, ys in parts(system, y.values, inputs):
        for place, i in enumerate(members):
            answers[i] = ask(compiled_chain(chain, place), ys[:, place])
    return answers


def _stacked(answers: list, y: Readings) -> Any:
    rows = [[np.asarray(leaf) for leaf in one] for one in answers]
    return [kind[0] if y.single else np.stack(kind) for kind in zip(*rows)]


def _compiled_filter(method: str, form: str, system: Any, y: Readings, inputs: Any) -> FilteredStates:
    def ask(chain: Any, ys: np.ndarray) -> tuple:
        found = chain.filter(ys, method=method, form=form)
        check_densities(found.log_densities)
        return (found.predicted.mean, found.predicted.cov, found.filtered.mean, found.filtered.cov,
                found.log_densities)  # fmt: skip

    return FilteredStates(*_stacked(_by_series(system, y, inputs, ask), y))


def _compiled_smooth(method: str, form: str, system: Any, y: Readings, inputs: Any) -> SmoothedStates:
    def ask(chain: Any, ys: np.ndarray) -> tuple:
        found = chain.smooth(ys, method=method, form=form)
        check_densities(found.filter.log_densities)
        return found.marginals.mean, found.marginals.cov, found.cross, found.log_evidence

    return SmoothedStates(*_stacked(_by_series(system, y, inputs, ask), y))


def check_densities(densities: Any, name: str = "observation_cov") -> None:
    """Refuse readings without a density, by the first time of one."""
    bad = np.isnan(np.asarray(densities))
    if bad.any():
        kind = "singular innovations" if name == "observation_cov" else "NaN"
        got = f"{kind} at time {int(bad.argmax())}"
        fix = "Add noise where readings repeat what is known; functions must give numbers where beliefs are."
        check(False, name, "such that every reading has a density", got, fix)
