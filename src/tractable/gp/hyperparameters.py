r"""Hyperparameters of a Gaussian process: by evidence or a-posteriori maximum, with restarts; surfaces.

Objective.   $\log p(y \mid X, \theta) + \log p(\theta)$ over the free numbers of the process (the logarithm
             of what is positive); the evidence balances fit against complexity by itself, and has several
             maxima.
Priors.      Distributions of the *free* numbers, one per leaf: `Normal(0, 1)` for a length scale is
             log-normal.
Starts.      The process as given, and points scattered about it. Above 1024 rows they are first followed on
             512 of them (one half spread out, one half close together, so that long and short ranges are both
             seen); only the best goes on to all rows, in coordinates in which the curvature that it met is
             one.
Cost.        One factor, one inverse and one pull-back through the kernel per evaluation: $O(n^3)$.
References.  Rasmussen and Williams (2006) section 5.4; MacKay (1999).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.bijections.support import Rebuild, unconstrain
from tractable.core.checks import as_float, check, check_count
from tractable.core.estimate import Estimate
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.rows import Rows
from tractable.core.types import Array, ArrayLike, Float, Key, Scalar
from tractable.core.verdict import Verdict
from tractable.distributions.base import Distribution
from tractable.distributions.gaussian import Gaussian
from tractable.gp.conjugate_gradients import Iterative
from tractable.gp.iterative import iterative_evidence
from tractable.gp.means import BasisMean
from tractable.gp.noise import ConstantNoise, RowNoise
from tractable.gp.points import Observed, Table, observe
from tractable.gp.regression import MANY, GaussianProcess, evidence_of
from tractable.kernels.stationary import RBF
from tractable.optim.host import minimise_on_host, whitening
from tractable.optim.minimise import Minimum

__all__ = [
    "EvidenceSurface", "FreePrior", "HyperparameterFit", "default_process", "evaluated",
    "evidence_surface", "fit_hyperparameters", "free_process",
]  # fmt: skip

_SUBSET, _LARGE = 512, 1024
_ROUGH = Iterative(tol=1e-3)  # an error of the evidence of its square: far below that of the probes
_SCATTER = 2.0  # standard deviation of the starts, in free numbers


class FreePrior(Module):
    """Independent priors of the free numbers of some leaves."""

    parts: tuple[Distribution, ...] = ()
    spans: tuple[tuple[int, int], ...] = field(static=True, default=())

    def log_prob(self, free: Float[Array, " p"]) -> Scalar:
        """The log-density of the free numbers."""
        total = jnp.zeros((), free.dtype)
        for part, (start, stop) in zip(self.parts, self.spans, strict=True):
            values = free[start:stop]
            # one prior for all numbers of a leaf, or one for each
            total = total + (part.log_prob(values) if part.shape else jax.vmap(part.log_prob)(values).sum())
        return total


class HyperparameterFit(Module):
    """The process with the hyperparameters found, and how the search went."""

    process: GaussianProcess
    log_evidence: Scalar
    standard_error: Scalar = field(about="of the log-evidence, from probes; zero where it is exact")
    run: Minimum = field(show=False)  # on all rows; its value is minus the objective
    reached: Float[Array, " starts"] = field(about="the objective at the end of each start")
    num_subset: int = field(static=True, about="rows on which the starts were followed; zero: all")

    @property
    def verdict(self) -> Verdict:
        """How the search on all rows ended, and how many starts agree."""
        status, reached = self.run.status, np.asarray(self.reached)
        best = int((reached > reached.max() - 0.1).sum())
        said = f"{status.sentence} {best} of {reached.size} starts reached the best."
        return Verdict(status.ok, said, {"evaluations": self.run.evaluations, "starts_at_best": best})


class EvidenceSurface(Module):
    """The log-evidence over a grid of two hyperparameters, the others held; `values[i, j]` is at
    `first[i]`, `second[j]`."""

    first: Float[Array, " a"]
    second: Float[Array, " b"]
    values: Float[Array, "a b"]
    names: tuple[str, str] = field(static=True)


def default_process(X: Table, y: Any = None, weights: Any = None) -> GaussianProcess:
    r"""$s^2\,\mathrm{RBF}$ with a length scale per column and noise, at the scale of the data: a start.

    The length scale is $\sqrt d$ standard deviations of its column, the noise a tenth of the variance of `y`.
    """
    rows, targets, counts = Rows.of(X, y, weights, target="number")
    spread = np.sqrt(_variance(rows, counts))
    level = np.abs(rows).max(0)
    length = np.where(spread > 1e-12 * level, spread, np.where(level > 0, level, 1.0)) * rows.shape[1] ** 0.5
    variance = float(_variance(targets, counts))
    variance = variance if variance > 0 else 1.0
    return GaussianProcess(variance * RBF(length), noise=0.1 * variance)


@takes_key
def fit_hyperparameters(
    process: GaussianProcess,
    X: Table,
    y: Any = None,
    weights: Any = None,
    *,
    priors: Mapping[str, Distribution] | None = None,
    fixed: Sequence[str] = (),
    num_restarts: int = 0,
    key: Key | None = None,
    max_steps: int = 150,
    tol: float = 1e-4,
) -> HyperparameterFit:
    """The process whose hyperparameters maximise the evidence (times `priors`), from its own values and from
    `num_restarts` scattered starts.

    `fixed` and `priors` name leaves (`"length_scale"`) or dotted paths (`"kernel.kernel.length_scale"`).
    Noise that is zero, or known for each row, stays as it is. `X` may be rows that `gp.points.observe`
    prepared. Above 6000 rows the evidence is that of `gp.iterative`, with one set of probes drawn from `key`.
    `max_steps` counts evaluations.
    """
    free, rebuild, prior = free_process(process, fixed, priors)
    check_count("num_restarts", num_restarts, least=0)
    check(num_restarts == 0 or key is not None, "key", "given where there are `num_restarts`", None)
    starts = [free] + ([] if key is None else list(_scattered(key, free, num_restarts)))
    observed = observe(X, y, weights)
    small = _subset(observed) if observed.num_rows > _LARGE else None
    probes = _probes(observed, key)
    few = observed if small is None else small

    def at(free: Any) -> tuple[Scalar, Array]:
        return evaluated(jnp.asarray(free), rebuild, few, prior, probes if small is None else None)

    stop = "gradient" if probes is None else "value"  # an estimate is rough in the small
    rough = tol if small is None else max(tol, 1e-3)
    runs = [minimise_on_host(at, start, max_steps=max_steps, tol=rough) for start in starts]
    best = min(runs, key=lambda run: float(run.value))
    if small is not None:
        spread = whitening(at, best.state, observed.num_rows / small.num_rows)
        best = minimise_on_host(
            lambda free: evaluated(jnp.asarray(free), rebuild, observed, prior, probes),
            best.state, spread, max_steps=max_steps, tol=100 * tol, stop=stop,  # of a posterior deviation
        )  # fmt: skip
    found, evidence = _finished(best.state, best.value, rebuild, observed, prior, probes)
    reached = jnp.stack([-run.value for run in runs])
    num_subset = 0 if small is None else small.num_rows
    return HyperparameterFit(found, evidence.value, evidence.standard_error, best, reached, num_subset)


def evidence_surface(
    process: GaussianProcess,
    X: Table,
    y: Any,
    first: tuple[str, ArrayLike],
    second: tuple[str, ArrayLike],
    weights: Any = None,
) -> EvidenceSurface:
    """The log-evidence for all pairs of values of two hyperparameters, each `(name, values)`."""
    free, rebuild, _ = free_process(process)
    names, grids, places = [], [], []
    for name, values in (first, second):
        index = [i for i, found in enumerate(rebuild.names) if found == name or found.endswith(f".{name}")]
        must = f"one of the free numbers {', '.join(rebuild.names)}"
        check(len(index) == 1, "name", must, repr(name))
        names.append(rebuild.names[index[0]])
        places.append(index[0])
        grids.append(as_float("values", values))
    slots = [k for k, slot in enumerate(rebuild.slots) for _ in range(slot.size)]
    coordinates = [
        jax.vmap(rebuild.bijections[slots[place]].inverse)(grid)
        for place, grid in zip(places, grids, strict=True)
    ]
    values = _surface(
        free, (places[0], places[1]), coordinates[0], coordinates[1], rebuild, observe(X, y, weights)
    )
    return EvidenceSurface(grids[0], grids[1], values, (names[0], names[1]))


def free_process(
    process: GaussianProcess, fixed: Sequence[str] = (), priors: Mapping[str, Distribution] | None = None
) -> tuple[Float[Array, " p"], Rebuild, FreePrior]:
    """The free numbers of a process, the way back, and the priors that were given for them."""
    held: dict[str, Any] = dict.fromkeys(fixed)
    if isinstance(process.noise, RowNoise):
        held["noise.known"] = None
    if isinstance(process.noise, ConstantNoise) and float(process.noise.variance) == 0:
        held["noise.variance"] = None
    if isinstance(process.mean, BasisMean) and isinstance(process.mean.coefficients, Gaussian):
        held["mean.coefficients"] = None
    free, rebuild = unconstrain(process, held)
    check(rebuild.size > 0, "process", "one with hyperparameters that are not fixed", "none")
    return free, rebuild, _prior(rebuild, priors or {})


def objective(
    free: Array, rebuild: Rebuild, observed: Observed, prior: FreePrior, probes: Array | None = None
) -> Scalar:
    """The log-evidence plus the log-prior of the free numbers, pure."""
    return _estimated(rebuild(free)[0], observed, probes).value + prior.log_prob(free)


def _estimated(process: GaussianProcess, observed: Observed, probes: Array | None) -> Estimate:
    """The log-evidence: exact, or estimated with the probes of one key, the same at each evaluation."""
    if probes is None:
        total = evidence_of(process, observed).total
        return Estimate(total, jnp.zeros_like(total), method="closed_form")
    return iterative_evidence(process, observed, jr.wrap_key_data(probes), _ROUGH)


def _probes(observed: Observed, key: Key | None) -> Array | None:
    """The words of a key for probes, where there are too many rows for an exact evidence."""
    if observed.num_rows <= MANY:
        return None
    check(key is not None, "key", f"given above {MANY} rows: the evidence is estimated", None)
    return jr.key_data(jr.fold_in(key, 1))  # pyright: ignore[reportArgumentType]


def _prior(rebuild: Rebuild, priors: Mapping[str, Distribution]) -> FreePrior:
    parts, spans, used, start = [], [], set(), 0
    for slot in rebuild.slots:
        for name, prior in priors.items():
            if slot.path == name or slot.path.endswith(f".{name}"):
                parts.append(prior)
                spans.append((start, start + slot.size))
                used.add(name)
        start += slot.size
    unknown = sorted(set(priors) - used)
    must = f"keyed by free leaves ({', '.join(slot.path for slot in rebuild.slots)})"
    check(not unknown, "priors", must, ", ".join(map(repr, unknown)))
    return FreePrior(tuple(parts), tuple(spans))


@program
def evaluated(
    free: Array, rebuild: Rebuild, observed: Observed, prior: FreePrior, probes: Array | None
) -> tuple[Scalar, Array]:
    """Minus the objective and its gradient: the one program of a search."""
    return jax.value_and_grad(lambda point: -objective(point, rebuild, observed, prior, probes))(free)


@program
def _finished(
    free: Array, value: Scalar, rebuild: Rebuild, observed: Observed, prior: FreePrior, probes: Array | None
) -> tuple[GaussianProcess, Estimate]:
    """The process found and its log-evidence, which the exact objective has given already."""
    found = rebuild(free)[0]
    if probes is not None:
        return found, _estimated(found, observed, probes)
    return found, Estimate(-value - prior.log_prob(free), jnp.zeros_like(value), method="closed_form")


def _variance(values: np.ndarray, counts: np.ndarray) -> Any:
    return np.average((values - np.average(values, 0, counts)) ** 2, 0, counts)


def _scattered(key: Key, free: Array, restarts: int) -> np.ndarray:
    return np.asarray(free) + _SCATTER * np.asarray(jr.normal(key, (restarts, free.size), free.dtype))


def _subset(observed: Observed) -> Observed:
    """Half the rows of the subset at even steps, half the nearest neighbours of the row in the middle."""
    rows = np.asarray(observed.X)[: observed.num_rows]
    present = np.flatnonzero(np.asarray(observed.present)[: observed.num_rows])
    spread = rows[present].std(0)
    scaled = (rows[present] - np.median(rows[present], 0)) / np.where(spread > 0, spread, 1.0)
    even = np.linspace(0, len(present) - 1, _SUBSET // 2).astype(int)
    close = np.argsort((scaled**2).sum(1), kind="stable")
    rest = close[~np.isin(close, even)][: _SUBSET // 2]
    chosen = present[np.sort(np.concatenate([even, rest]))]
    return observed.take(chosen)


@program
def _surface(
    free: Array, places: tuple[int, int], first: Array, second: Array, rebuild: Rebuild, observed: Observed
) -> Array:
    def at(pair: tuple[Array, Array]) -> Array:
        point = free.at[places[0]].set(pair[0]).at[places[1]].set(pair[1])
        return evidence_of(rebuild(point)[0], observed).total

    a, b = jnp.meshgrid(first, second, indexing="ij")
    return jax.lax.map(at, (a.reshape(-1), b.reshape(-1))).reshape(a.shape)
