r"""Particle filters: what is known of a hidden state as observations arrive, for any state-space model.

Model.       $x_0 \sim p(x_0)$, $x_t \sim p(x_t \mid x_{t-1})$, $y_t \sim p(y_t \mid x_t)$ for
             $t = 0 \dots T - 1$.
Filter.      Particles move by $q(x_t \mid x_{t-1}, y_t)$ and are weighted by
             $p(y_t \mid x_t)\,p(x_t \mid x_{t-1})/q(x_t \mid x_{t-1}, y_t)$; the bootstrap filter has $q$ the
             transition. They are resampled where their effective size has fallen below a share of their
             number. The auxiliary filter chooses parents by how well they predict $y_t$.
Evidence.    $\hat Z = \prod_t \sum_i \tilde w^i_{t-1} w^i_t$ is unbiased for $p(y_{0:T-1})$. Errors come from
             independent replicates of the filter, run side by side: a variance from the genealogy of one
             filter says nothing once all its particles descend from one, which long series always reach.
Cost.        $O(TN)$ per replicate; one compiled scan per model and shapes; observations and `args` are data.
References.  Gordon, Salmond and Smith (1993); Doucet, Godsill and Andrieu (2000); Chopin and Papaspiliopoulos
             (2020) chapters 10 and 12.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import (
    as_float,
    check,
    check_count,
    check_option,
    has_values,
    is_concrete,
    namespace,
    to_device,
)
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.programs import as_data, light, program
from tractable.core.types import Array, ArrayLike, Bool, Float, Key, PyTree
from tractable.core.verdict import Verdict
from tractable.inference.particles.replicates import evidence_of_replicates, mean_of_replicates
from tractable.inference.particles.steps import History, StateSpace, one_filter
from tractable.inference.trust.evidence import Evidence
from tractable.inference.weighted.weights import resampling_schemes

__all__ = ["Filtered", "History", "as_observations", "particle_filter"]

_SMALL = 0.01  # the share of the particles below which a weighted cloud says little


class Filtered(Module):
    """The filtering distributions by particles, the evidence, and how far to trust both."""

    means: PyTree  # of the state given the observations so far, (replicates, times, ...)
    variances: PyTree
    ess: Float[Array, "replicates times"]  # of the weights, before resampling
    increments: Float[Array, "replicates times"]  # log p(y_t | observations before); 0 where y_t is missing
    resampled: Bool[Array, "replicates times"]  # whether the particles were resampled on the way to t
    history: History | None
    num_particles: int = field(static=True)

    @property
    def mean(self) -> PyTree:
        r"""$E[x_t \mid y_{0:t}]$: an `Estimate` with leading axis `times` for each array of the state."""
        return jax.tree.map(mean_of_replicates, self.means)

    @property
    def variance(self) -> PyTree:
        r"""$\mathrm{Var}[x_t \mid y_{0:t}]$ of each entry of the state, as `Estimate`s."""
        return jax.tree.map(mean_of_replicates, self.variances)

    @property
    def log_evidence(self) -> Evidence:
        r"""$\log p(y_{0:T-1})$: the logarithm of the mean of the unbiased estimates of the replicates."""
        totals = np.asarray(self.increments).sum(1)
        return evidence_of_replicates(to_device(totals), f"{self.ess.shape[0]} particle filters")

    def quantile(self, probs: ArrayLike) -> PyTree:
        """Quantiles of each entry of the state at each time, shape (probs, times, ...), replicates pooled."""
        history = self.full_history()
        levels = jnp.atleast_1d(as_float("probs", probs))
        inside = not is_concrete(levels) or bool(((levels >= 0) & (levels <= 1)).all())
        check(inside, "probs", "from 0 to 1", f"{levels}")
        return jax.tree.map(lambda leaf: _quantiles(leaf, history.log_weights, levels), history.particles)

    def full_history(self) -> History:
        """The particles of all times, refused by name where they were not kept."""
        if self.history is None:
            raise ValueError("`history` must be kept for this; got None. Filter with `history=True`.")
        return self.history

    @property
    def verdict(self) -> Verdict:
        """How far to trust the filter."""
        return _verdict(self)


@takes_key
def particle_filter(
    initial: Any,
    transition: Callable[..., Any],
    observation_log_density: Callable[..., Any],
    observations: ArrayLike,
    *,
    key: Key,
    num_particles: int = 1000,
    num_replicates: int = 8,
    resampling: str = "systematic",
    ess_threshold: float | int = 0.5,
    proposal: Callable[..., Any] | None = None,
    lookahead: Callable[..., Any] | None = None,
    history: bool = True,
    args: tuple = (),
) -> Filtered:
    r"""Filter `observations`, shape (times, ...), with `num_replicates` filters of `num_particles` each.

    - `initial` is the distribution of $x_0$, or a function of a key that draws it.
    - `transition(x, t, *args)` is the distribution of $x_t$ given $x_{t-1} = x$, or again a function of a
      key: a simulator is enough. A state is any pytree; a "distribution" has `sample(key)` and, for guided
      proposals and smoothing, `log_prob`.
    - `observation_log_density(x, y, t, *args)` is $\log p(y_t = y \mid x_t = x)$, one number.
    - `proposal(x, y, t, *args)` is a distribution of $x_t$ that has seen $y_t$; the first state is drawn from
      `initial` in any case.
    - `lookahead(x, y, t, *args)` is a guess of $\log p(y_t = y \mid x_{t-1} = x)$, by which parents are
      chosen before they move (the auxiliary filter). The evidence is unbiased whatever the guess.

    A row of `observations` that is all NaN is missing: the particles move on and keep their weights. They
    are resampled where the effective sample size is at most `ess_threshold` times `num_particles`. The
    particles of all times take (replicates x times x particles) states of memory; `history=False` keeps means
    and variances alone.

    >>> from tractable.distributions.continuous import Normal
    >>> def walk(x, t):
    ...     return Normal(0.9 * x, 1.0)
    >>> def noise(x, y, t):
    ...     return Normal(x, 1.0).log_prob(y)
    >>> found = particle_filter(Normal(0.0, 1.0), walk, noise, jnp.array([0.5, -1.0, 2.0]), key=jr.key(0))
    >>> bool(abs(found.mean.value[0] - 0.25) < 5 * found.mean.standard_error[0])  # exact: 0.5 / 2
    True
    """
    sizes = check_count("num_particles", num_particles, 2), check_count("num_replicates", num_replicates)
    check_option("resampling", resampling, resampling_schemes)
    check(0 <= ess_threshold <= 1, "ess_threshold", "a share from 0 to 1", ess_threshold)
    ys, missing = as_observations(observations)
    args = as_data(args)
    model = StateSpace(initial, transition, observation_log_density, proposal, args, lookahead)
    plan = (*sizes, resampling, history)
    if has_values(missing) and not np.asarray(missing).any():
        missing = None  # a program without the ways around a reading that is not there
    return _replicate(model, ys, missing, as_float("ess_threshold", ess_threshold), key, plan)


def as_observations(observations: ArrayLike) -> tuple[Array, Array]:
    """The rows with zeros for those that are missing, and which these are."""
    ys = as_float("observations", observations)
    check(ys.ndim > 0 and ys.shape[0] > 0, "observations", "one row per time", f"shape {ys.shape}")
    xp = namespace(ys)  # on the host nothing is compiled for it
    rows, axes = xp.asarray(ys), tuple(range(1, ys.ndim))
    unknown = xp.isnan(rows)
    missing = unknown.all(axes)
    if xp is np:
        partly = unknown.any(axes) & ~missing
        fix = "Leave unseen entries out inside `observation_log_density`, marked by another number."
        row = f"NaN in part of row {int(partly.argmax())}"
        check(not partly.any(), "observations", "seen or missing (NaN) by whole rows", row, fix)
    seen = xp.where(missing.reshape((-1,) + (1,) * len(axes)), xp.zeros((), rows.dtype), rows)
    return (to_device(seen), to_device(missing)) if xp is np else (seen, missing)


@program
@light
def _replicate(
    model: StateSpace,
    ys: Array,
    missing: Array | None,
    threshold: Array,
    key: Key,
    plan: tuple[int, int, str, bool],
) -> Filtered:
    num_particles, num_replicates, scheme, keep = plan

    keys = jr.split(key, (len(ys), num_replicates))
    found = one_filter(model, ys, missing, threshold, keys, (num_particles, scheme, keep))
    by_replicate = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), found)
    means, variances, ess, increments, resampled, history = by_replicate
    return Filtered(means, variances, ess, increments, resampled, history, num_particles)


@jax.jit
def _quantiles(particles: Array, log_weights: Array, levels: Array) -> Array:
    """Of (replicates, times, n, ...) particles: the smallest value below which lies the share `level`."""
    replicates, times, n = log_weights.shape
    rows = jnp.moveaxis(particles, 0, 1).reshape((times, replicates * n, -1))
    weights = jnp.exp(jnp.moveaxis(log_weights, 0, 1)).reshape((times, replicates * n)) / replicates

    def one(values, weights):
        order = jnp.argsort(values)
        cumulative = jnp.cumsum(weights[order])
        found = jnp.searchsorted(cumulative, levels * cumulative[-1])
        return values[order][jnp.minimum(found, values.size - 1)]

    entries = jax.vmap(jax.vmap(one, (1, None), 1))(rows, weights)  # (times, levels, entries)
    return jnp.moveaxis(entries, 1, 0).reshape((levels.size, times, *particles.shape[3:]))


def _verdict(found: Filtered) -> Verdict:
    increments, ess = np.asarray(found.increments), np.asarray(found.ess)
    if np.isnan(increments).any():
        t = int(np.isnan(increments).any(0).argmax())
        return Verdict(False, f"Do not use: the density of the observation is not a number at time {t}.")
    lost = np.isneginf(increments)
    if lost.any():
        t, count = int(lost.any(0).argmax()), int(lost.any(1).sum())
        return Verdict(
            False,
            f"Do not use: {count} of {len(lost)} filters lost the observations, the first at time {t}, where "
            "no particle makes them possible. Take more particles, or a proposal that looks at them.",
        )
    share, t = ess.mean(0).min() / found.num_particles, int(ess.mean(0).argmin())
    if share < _SMALL:
        return Verdict(
            False,
            f"Weak: at time {t} the particles are worth {share:.2%} of their number. Take more of them, or a "
            "proposal that looks at the observation.",
        )
    if len(ess) < 2:
        return Verdict(False, "Unknown: one filter has no standard error. Take several replicates.")
    evidence = found.log_evidence.verdict
    ok = float(found.log_evidence.standard_error) <= 1
    return Verdict(ok, evidence.sentence, {"ess": float(np.asarray(found.ess).mean(0).min())})
