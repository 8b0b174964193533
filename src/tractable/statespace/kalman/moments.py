r"""Expectation-maximisation of linear-Gaussian systems: statistics that add over series.

E-step.      With smoothed means and covariances and regressors $z = (x, u, 1)$, inputs $u$ known: $\sum
             E[x_{t+1} x_{t+1}^\top]$, $\sum E[x_{t+1} z_t^\top]$ and $\sum E[z_t z_t^\top]$ over the steps
             before the last reading of each series; the same for readings, and the moments of $x_1$.
Gaps.        A time without readings tells nothing of $C$, $D$ and $R$ and is left out. Of a partly missing
             reading the rest is latent too: $y_m \mid x, y_o \sim N(U x + h, R_{m \mid o})$, $U = C_m -
             R_{mo} R_{oo}^{-1} C_o$; its expected products enter.
M-step.      One regression on $z$ for each of state and reading: with $W = (A, B, b)$, the columns that are
             learnt are $(S_{10} - W_H S_{H})\,S_{LL}^{-1}$ about those that are held, and $Q = (S_{11} - W
             S_{10}^\top - S_{10} W^\top + W S_{00} W^\top)/n$.
Cost.        One smoothing pass; $O((d + k)^3)$ for $k$ inputs.
References.  Shumway and Stoffer (1982); Ghahramani and Hinton (1996).
"""

from dataclasses import replace
from typing import Any

import numpy as np

from tractable.core.checks import check
from tractable.messages.gaussian_back import adjoint, smoothed_covariances, smoothed_means
from tractable.statespace.kalman.passes import parts, passed

__all__ = ["expected", "maximised"]


def expected(system: Any, rows: Any, weights: Any) -> tuple[dict[str, Any], Any]:
    """Statistics and log-evidence of series `(series, times, m)` (or `(series, times)` for one reading); with
    inputs, of the pair of series and inputs `(series, times, k)`."""
    table, inputs = _tables(system, rows)
    _check_learnt(system)
    weights = np.asarray(weights, float)
    total, evidence = None, 0.0
    lengths = _lengths(table)
    for length in np.unique(lengths):  # behind the last reading nothing is told
        here = np.flatnonzero((lengths == length) & (weights > 0))
        if length == 0 or not len(here):
            continue
        ys = np.swapaxes(table[here, :length], 0, 1)
        driven = None if inputs is None else np.swapaxes(inputs[here, :length], 0, 1)
        for members, chain, group in parts(system, ys, driven):
            own = np.empty((length, len(members), 0)) if driven is None else driven[:, members]
            stats, value = _of_group(chain, group, own, weights[here][members])
            total = stats if total is None else {k: total[k] + stats[k] for k in stats}
            evidence += value
    return (_zeros(system) if total is None else total), np.asarray(evidence)


def maximised(system: Any, stats: dict[str, Any]) -> Any:
    """The best system given the statistics."""
    made = {}
    S = {name: np.asarray(leaf, float) for name, leaf in stats.items()}
    steps = ("transition", S["steps"], S["next"], S["step"], S["state"])
    looks = ("observation", S["looks"], S["reading"], S["look"], S["seen"])
    for name, count, square, cross, past in (steps, looks):
        if count > 0:
            made |= _regressed(system, name, count, square, cross, past)
    if S["series"] > 0:
        mean = (
            S["first"] / S["series"] if "initial_mean" in system.learnt else np.asarray(system.initial_mean)
        )
        around = S["first_square"] / S["series"]
        centre = np.outer(S["first"], mean) / S["series"]
        made["initial_mean"] = mean
        if "initial_cov" in system.learnt:
            made["initial_cov"] = _positive(around - centre - centre.T + np.outer(mean, mean))
    return replace(system, **made)


def _regressed(
    system: Any, name: str, count: Any, square: Any, cross: Any, past: Any
) -> dict[str, np.ndarray]:
    """Map and noise of the regression on $z = (x, u, 1)$; columns that are not learnt are held."""
    d, k = system.state_size, _num_inputs(system)
    if max(np.ndim(getattr(system, name)), np.ndim(getattr(system, f"{name}_cov"))) == 3:
        return {}  # what varies in time is held
    places = {name: slice(0, d), f"{name}_input": slice(d, d + k), f"{name}_offset": slice(d + k, None)}
    weights, free = np.zeros((len(square), d + k + 1)), np.zeros(d + k + 1, bool)
    for part, place in places.items():
        value = getattr(system, part)
        if value is not None:
            weights[:, place] = np.asarray(value, float).reshape(len(square), -1)
        free[place] = part in system.learnt and (value is not None or part.endswith("offset"))
    if free.any():
        about = cross[:, free] - weights[:, ~free] @ past[np.ix_(~free, free)]
        weights[:, free] = np.linalg.lstsq(past[np.ix_(free, free)], about.T, rcond=1e-13)[0].T
    learnt = {part: weights[:, place] for part, place in places.items() if free[place].any()}
    if f"{name}_offset" in learnt:
        learnt[f"{name}_offset"] = weights[:, -1]
    if f"{name}_cov" in system.learnt:
        half = weights @ cross.T
        learnt[f"{name}_cov"] = _positive((square - half - half.T + weights @ past @ weights.T) / count)
    return learnt


def _of_group(chain: Any, ys: np.ndarray, inputs: np.ndarray, weights: np.ndarray) -> tuple[dict, float]:
    """The statistics of series of one length, with inputs `(T, n, k)`."""
    one, seen = passed(chain, ys), ~np.isnan(ys)
    back = adjoint(chain, one, seen)
    x = smoothed_means(one, back)
    cov, cross = smoothed_covariances(chain, one, back)
    shared, total, T = cov.ndim == 3, float(weights.sum()), len(ys)

    def add(means: np.ndarray, covs: np.ndarray) -> np.ndarray:
        """Outer products of means and their covariances, added over times and series."""
        return means + (total * covs.sum(0) if shared else np.einsum("n,tnij->ij", weights, covs))

    def product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        flat = (left * weights[None, :, None]).reshape(-1, left.shape[-1])
        return flat.T @ right.reshape(-1, right.shape[-1])

    z = np.concatenate([x, inputs, np.ones((*x.shape[:2], 1))], 2)
    known = (0, inputs.shape[2] + 1)  # entries of z that are no states
    pad = ((0, 0),) * (cov.ndim - 2) + (known, known)
    around = total * cov[0] if shared else np.einsum("n,nij->ij", weights, cov[0])
    stats = {
        "steps": np.asarray(total * (T - 1)),
        "next": add(product(x[1:], x[1:]), cov[1:]),
        "step": add(product(x[1:], z[:-1]), np.pad(cross, ((0, 0),) * (cross.ndim - 1) + (known,))),
        "state": add(product(z[:-1], z[:-1]), np.pad(cov[:-1], pad)),
        "series": np.asarray(total),
        "first": weights @ x[0],
        "first_square": (x[0] * weights[:, None]).T @ x[0] + around,
    }
    return stats | _looks(chain, ys, seen, z, np.pad(cov, pad), weights), float(
        weights @ one.log_densities.sum(0)
    )


def _looks(
    chain: Any, ys: np.ndarray, seen: np.ndarray, z: np.ndarray, cov: np.ndarray, weights: np.ndarray
) -> dict:
    """The statistics of readings; patterns of gaps one by one."""
    T, N, m = ys.shape
    k = z.shape[2]
    stats = {"looks": 0.0, "reading": np.zeros((m, m)), "look": np.zeros((m, k)), "seen": np.zeros((k, k))}
    marks = seen.reshape(-1, m)
    patterns, which = np.unique(marks, axis=0, return_inverse=True)
    which = which.reshape(-1)
    flat_y, flat_z, w = ys.reshape(-1, m), z.reshape(-1, k), np.tile(weights, T)
    wide = np.broadcast_to(cov if cov.ndim == 4 else cov[:, None], (T, N, k, k))
    shifts = np.broadcast_to(chain.c, (T, N, m))
    for number, pattern in enumerate(patterns):
        here = np.flatnonzero(which == number)
        if not pattern.any():
            continue
        own, count = w[here], float(w[here].sum())
        zz = (flat_z[here] * own[:, None]).T @ flat_z[here]
        times, series = np.divmod(here, N)
        if cov.ndim == 3:
            zz = zz + np.tensordot(np.bincount(times, own, T), cov, 1)
        else:
            zz = zz + np.einsum("i,ijk->jk", own, wide[times, series])
        U, left, h = _completed(chain, pattern, flat_y[here], shifts[times, series], k)
        hz, hh = (h * own[:, None]).T @ flat_z[here], (h * own[:, None]).T @ h
        stats["looks"] += count
        stats["look"] += U @ zz + hz
        stats["seen"] += zz
        stats["reading"] += U @ zz @ U.T + U @ hz.T + hz @ U.T + hh + count * left
    return {name: np.asarray(value) for name, value in stats.items()}


def _completed(
    chain: Any, pattern: np.ndarray, ys: np.ndarray, c: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A reading with gaps as $U z + h + e$: what was seen is $h$, the rest follows from state and noise."""
    C, R = chain.C[0], chain.R[0]
    m, d = C.shape
    o, g = np.flatnonzero(pattern), np.flatnonzero(~pattern)
    U, left, h = np.zeros((m, size)), np.zeros((m, m)), np.where(pattern, ys, 0.0)
    if len(g):
        gain = np.linalg.solve(R[np.ix_(o, o)], R[np.ix_(o, g)]).T
        U[g, :d] = C[g] - gain @ C[o]
        h[:, g] = c[:, g] + (ys[:, o] - c[:, o]) @ gain.T
        left[np.ix_(g, g)] = R[np.ix_(g, g)] - gain @ R[np.ix_(o, g)]
    return U, left, h


def _tables(system: Any, rows: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Series and inputs as arrays with series first."""
    given, k = isinstance(rows, tuple), _num_inputs(system)
    must = "a pair of series and inputs" if k else "series alone"
    check(given == (k > 0), "series", f"{must} for this system", "a pair" if given else "no inputs")
    table = np.asarray(rows[0] if given else rows, float)
    table = table[..., None] if table.ndim == 2 and system.reading_size == 1 else table
    must = f"of shape (series, times, {system.reading_size})"
    fits = table.ndim == 3 and table.shape[2] == system.reading_size
    check(fits, "series", must, f"shape {table.shape}", "`system.rows(series)` makes it of any series.")
    if not given:
        return table, None
    inputs = np.asarray(rows[1], float)
    inputs = inputs[..., None] if inputs.ndim == 2 and k == 1 else inputs
    wanted = (*table.shape[:2], k)
    check(inputs.shape == wanted, "inputs", f"of shape {wanted}", f"shape {inputs.shape}")
    used = np.arange(table.shape[1])[None] < _lengths(table)[:, None]
    fix = "They must be known at every time up to the last reading."
    check(bool(np.isfinite(inputs[used]).all()), "inputs", "finite", "NaN or infinite entries", fix)
    return table, inputs


def _lengths(table: np.ndarray) -> np.ndarray:
    """The number of times up to the last reading of each series."""
    any_seen = np.asarray(~np.isnan(table).all(2))
    return np.where(any_seen.any(1), table.shape[1] - any_seen[:, ::-1].argmax(1), 0)


def _zeros(system: Any) -> dict[str, np.ndarray]:
    d, m = system.state_size, system.reading_size
    z = d + _num_inputs(system) + 1
    shapes = {"steps": (), "next": (d, d), "step": (d, z), "state": (z, z), "series": (), "first": (d,),
              "first_square": (d, d), "looks": (), "reading": (m, m), "look": (m, z),
              "seen": (z, z)}  # fmt: skip
    return {name: np.zeros(shape) for name, shape in shapes.items()}


def _positive(cov: np.ndarray) -> np.ndarray:
    """A covariance from a difference: symmetric, and eigenvalues that rounding put below zero are zero."""
    cov = 0.5 * (cov + cov.T)
    values, vectors = np.linalg.eigh(cov)
    if values[0] >= 0:
        return cov
    fixed = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return 0.5 * (fixed + fixed.T)


def _num_inputs(system: Any) -> int:
    """How many inputs each time has: zero without input matrices."""
    sizes = {np.shape(part)[1] for part in (system.transition_input, system.observation_input)
             if part is not None}  # fmt: skip
    check(len(sizes) < 2, "observation_input", "of as many inputs as `transition_input`", sorted(sizes))
    return sizes.pop() if sizes else 0


def _check_learnt(system: Any) -> None:
    """Regressions need one map and one noise for all times; where one varies, both must be held."""
    group = ("transition", "transition_cov", "transition_input", "transition_offset")
    varies = max(np.ndim(system.transition), np.ndim(system.transition_cov)) == 3
    wrong = [name for name in group if varies and name in system.learnt and getattr(system, name) is not None]
    must, fix = "parameters of a step that is the same at all times", f"Leave them out of `learnt`: {wrong}."
    check(not wrong, "learnt", must, f"{wrong} beside matrices that vary", fix)
    varied = any(np.ndim(offset) == 2 for offset in system.offsets)
    plain = not varied and system.noise_cov is None and system.observation.ndim == 2
    plain = plain and system.observation_cov.ndim == 2
    must = "without correlated noises and readings that vary in time for EM"
    check(plain, "system", must, "one with them", "Fit by likelihood instead.")
