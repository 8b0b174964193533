r"""Linear-Gaussian systems fitted by their likelihood, with standard errors.

Objective.   $\sum_n \log p(y_n; \theta)$ over series, in the free coordinates of `unconstrain`; its exact
             score by one pass forward and one backward (`messages.gaussian_back`), pulled back to them.
Errors.      The inverse of the observed information, by differences of the score, carried to the entries of
             the matrices. Where directions of the state are interchangeable (all of $A$, $Q$, $C$ free) the
             information is singular, and there are none: hold enough of the system with `learnt`.
Cost.        Two passes per step and $2p$ for the errors of $p$ free coordinates.
References.  Koopman and Shephard (1992); Harvey (1989) section 3.4.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.bijections.support import unconstrain
from tractable.core.checks import check, check_count
from tractable.core.module import HostResult, field
from tractable.core.programs import program
from tractable.core.types import Array, Values
from tractable.core.verdict import Verdict
from tractable.messages.gaussian_back import adjoint, score
from tractable.optim.host import minimise_on_host
from tractable.statespace.kalman.passes import passed
from tractable.statespace.kalman.series import groups, readings
from tractable.statespace.kalman.system import LEARNT, OFFSETS, LinearGaussianSystem
from tractable.statespace.kalman.wiring import host_chain

__all__ = ["LikelihoodFit", "fit_likelihood"]

_FIELDS = ("A", "Q", "C", "R", "mean", "cov")  # of a score, in the order of `LEARNT`


class LikelihoodFit(HostResult):
    """A system at its highest likelihood; `standard_errors` has an array for each parameter that was
    learnt."""

    system: LinearGaussianSystem = field(show=False)
    log_likelihood: float
    standard_errors: dict[str, Values]
    status: Any = field(static=True, show=False)

    @property
    def verdict(self) -> Verdict:
        """How the search ended."""
        known = all(np.isfinite(leaf).all() for leaf in self.standard_errors.values())
        said = "" if known else " The information is singular: some parameters are not told by the readings."
        numbers = {"log_likelihood": self.log_likelihood}
        return Verdict(self.status.ok and known, self.status.sentence + said, numbers)


def fit_likelihood(
    system: LinearGaussianSystem, y: Any, *, max_steps: int = 300, tol: float = 1e-8
) -> LikelihoodFit:
    """Maximise the likelihood of one series or many over what the system calls `learnt`, from where it is.

    >>> walk = LinearGaussianSystem(
    ...     [[0.5]], [[1.0]], [[1.0]], [[0.1]], [0.0], [[1.0]], learnt=("transition", "transition_cov")
    ... )
    >>> fitted = fit_likelihood(walk, np.sin(np.arange(30.0)))
    >>> fitted.status.ok
    True
    """
    ys = readings(y, system.reading_size).values
    _check_plain(system)
    held = {name: None for name in LEARNT if name not in system.learnt}
    optional = ("transition_offset", "observation_offset")
    held |= {name: None for name in optional if getattr(system, name) is not None}
    free, rebuild = unconstrain(system, supports=held, name="system")
    count = float((~np.isnan(ys)).sum())
    check(count > 0, "y", "at least one reading", "none: all are missing")

    def down(theta: np.ndarray) -> tuple[float, np.ndarray]:
        made, _ = rebuild(jnp.asarray(theta))
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                value, slopes = _value_and_score(made, ys)
                slope = np.asarray(_pulled(rebuild, jnp.asarray(theta), slopes))
        except ValueError:  # too near a singular reading
            return np.inf, np.zeros_like(theta)
        if not (np.isfinite(value) and np.isfinite(slope).all()):  # variances of 1e-307
            return np.inf, np.zeros_like(theta)
        return -value / count, -slope / count

    found = minimise_on_host(
        down, np.asarray(free, float), max_steps=check_count("max_steps", max_steps), tol=tol, stop="value"
    )
    theta = np.asarray(found.state, float)
    best = rebuild(jnp.asarray(theta))[0]
    learnt = tuple(name for name in system.learnt if name in LEARNT)
    errors = _errors(rebuild, theta, lambda x: down(x)[1] * count, learnt)
    return LikelihoodFit(best, -float(down(theta)[0]) * count, errors, found.status)


def _value_and_score(system: Any, ys: np.ndarray) -> tuple[float, tuple]:
    """The likelihood of all series and its derivative with respect to the matrices, in the order of
    `LEARNT`."""
    chain, value = host_chain(system, len(ys)), 0.0
    total: list[Any] = [0.0] * len(_FIELDS)
    for members in groups(~np.isnan(ys), system.state_size, apart=True):
        here = ys[:, members]
        one, seen = passed(chain, here), ~np.isnan(here)
        slopes = score(chain, one, adjoint(chain, one, seen), seen, np.eye(len(members)), float(len(members)))
        parts = [getattr(slopes, name) for name in _FIELDS]
        sums = [*(part.sum(0) for part in parts[:5]), parts[5]]
        total = [a + b for a, b in zip(total, sums)]
        value += float(one.log_densities.sum())
    return value, tuple(jnp.asarray(part) for part in total)


@program
def _pulled(rebuild: Any, theta: Array, slopes: tuple) -> Array:
    """The score in free coordinates."""

    def parts(free: Array) -> tuple:
        made, _ = rebuild(free)
        return tuple(getattr(made, name) for name in LEARNT)

    return jax.vjp(parts, theta)[1](slopes)[0]


@program
def _spread(rebuild: Any, theta: Array) -> tuple:
    """The derivatives of the parameters in free coordinates."""

    def parts(free: Array) -> tuple:
        made, _ = rebuild(free)
        return tuple(getattr(made, name) for name in LEARNT)

    return jax.jacfwd(parts)(theta)


def _errors(rebuild: Any, theta: np.ndarray, slope: Any, learnt: tuple[str, ...]) -> dict[str, np.ndarray]:
    h, rows = 1e-4, []
    for i in range(len(theta)):
        up, down = theta.copy(), theta.copy()
        up[i], down[i] = up[i] + h, down[i] - h
        rows.append((slope(up) - slope(down)) / (2 * h))
    information = 0.5 * (np.array(rows) + np.array(rows).T)
    values = np.linalg.eigvalsh(information) if np.isfinite(information).all() else np.zeros(1)
    regular = values[0] > 1e-8 * max(values[-1], 1e-300)
    cov = np.linalg.inv(information) if regular else np.full_like(information, np.nan)
    slopes: dict[str, Any] = dict(zip(LEARNT, _spread(rebuild, jnp.asarray(theta))))
    return {
        name: np.sqrt(
            np.maximum(
                np.einsum("...i,ij,...j->...", np.asarray(slopes[name]), cov, np.asarray(slopes[name])), 0
            )
        )
        if regular
        else np.full(np.shape(slopes[name])[:-1], np.nan)
        for name in learnt
    }


def _check_plain(system: Any) -> None:
    fixed = max(np.ndim(leaf) for leaf in system.matrices) == 2
    driven = system.transition_input is not None or system.observation_input is not None
    plain = fixed and not driven and system.noise_cov is None
    check(plain, "system", "of constant matrices, without inputs and correlated noises", "one with them")
    shifts = [name for name in system.learnt if name in OFFSETS]
    check(not shifts, "learnt", "without offsets, which `EM` learns", shifts)
    some = any(name in LEARNT for name in system.learnt)
    check(some, "system", "one with something to learn", f"learnt={system.learnt}")
