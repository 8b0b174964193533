r"""Sequential Monte Carlo: particles taken from the prior to the posterior through temperatures.

Path.        $p_\beta(\theta) \propto p(\theta)\,p(D \mid \theta)^\beta$ for
             $0 = \beta_0 < \dots < \beta_K = 1$.
Stage.       Weigh the particles by $p(D \mid \theta)^{\beta_k - \beta_{k-1}}$, resample them, and move them
             by a sampler that leaves $p_{\beta_k}$ invariant, in coordinates in which the particles'
             covariance is the identity. The next temperature is where the effective sample size of the
             weights falls to `ess_target` of the particles, found by bisection; the particles have equal
             weights before, so this is also the conditional effective sample size.
Waste-free.  Few particles are resampled, each starts a chain, and all states of the chains are the next
             particles: no move is thrown away.
Evidence.    $Z = \prod_k \frac1n\sum_i p(D \mid \theta_i)^{\beta_k - \beta_{k-1}}$ is unbiased for a fixed
             ladder and a fixed kernel; adapting either adds a bias of order $1/N$.
Error.       The particles form groups that are weighed and resampled apart and share only the temperatures
             and the tuning: independent estimates of the evidence and of every mean, whose scatter is an
             honest error for waste-free and adaptive runs alike.
Cost.        One move per particle and stage (waste-free), or `num_moves`; one likelihood more per particle.
References.  Del Moral, Doucet and Jasra (2006); Jasra, Stephens, Doucet and Tsagaris (2011); Dau and Chopin
             (2022), "Waste-free sequential Monte Carlo".
"""

import os
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.blocks import run_in_blocks
from tractable.core.checks import check, check_count, check_finite, check_option
from tractable.core.estimate import Estimate
from tractable.core.iterate import Ended, Run, Status
from tractable.core.keys import takes_key
from tractable.core.module import field
from tractable.core.programs import as_data, program
from tractable.core.types import Array, ArrayLike, Float, Int, Key
from tractable.core.verdict import Verdict
from tractable.inference.joint import as_prior, state
from tractable.inference.particles.replicates import evidence_of_replicates, mean_of_replicates
from tractable.inference.particles.stages import Cloud, Plan, Stage, TemperedTarget, first_cloud
from tractable.inference.posterior import with_target
from tractable.inference.samplers.metropolis import RandomWalkMetropolis
from tractable.inference.samplers.sampler import Sampler
from tractable.inference.target import FlatTarget, rebuilt
from tractable.inference.trust.evidence import Evidence
from tractable.inference.weighted.annealed import Annealed, as_ladder
from tractable.inference.weighted.weights import effective_sample_size, resampling_schemes

__all__ = ["TemperedParticles", "smc"]

_STUCK = 0.05  # the share of accepted moves below which particles are little more than copies
_THIN = 0.1  # the share of particles that the weights of a stage must leave


class TemperedParticles(Ended, Annealed):
    """Weighted particles of the posterior, the evidence, and how the stages went."""

    stage_ess: Float[Array, " stages"] = field(kw_only=True)  # as a share of the particles
    step_sizes: Float[Array, " stages"] = field(kw_only=True)
    num_ancestors: Int[Array, " stages"] = field(kw_only=True)  # draws of the prior from which all descend
    group_log_evidences: Float[Array, " groups"] = field(kw_only=True)
    num_evaluations: int = field(kw_only=True)  # of the density by the moves, with gradient where they use it
    code: Int[Array, ""] = field(kw_only=True)

    @property
    def log_evidence(self) -> Evidence:
        """The logarithm of the mean of the groups' evidences, with an error from their scatter."""
        found = evidence_of_replicates(self.group_log_evidences, "sequential Monte Carlo")
        code = found.code if self.status.ok else self.code
        return self._evidence(found.value, found.standard_error, found.method, code)

    def expectation(self, function: Callable[[Any], Any], *, normalised: bool | None = None) -> Estimate:
        """The mean of `function` (of one draw) under the posterior; the error is the groups' scatter."""
        if normalised:
            return super().expectation(function, normalised=True)
        return mean_of_replicates(
            _group_means(function, self.draws, self.group_log_evidences.size), self.group_log_evidences
        )

    @property
    def verdict(self) -> Verdict:
        """How far to trust the particles."""
        return _verdict(self)


@takes_key
def smc(
    likelihood: Callable[..., Any],
    prior: Any,
    *,
    key: Key,
    num_particles: int = 1000,
    kernel: Sampler | None = None,
    ess_target: float | int = 0.5,
    temperatures: int | ArrayLike | None = None,
    waste_free: bool = True,
    num_moves: int = 5,
    num_groups: int = 10,
    tune: bool = True,
    resampling: str = "systematic",
    args: tuple = (),
    observed: Any = None,
    supports: Any = None,
    max_stages: int = 200,
    progress: bool = True,
    checkpoint: str | os.PathLike | None = None,
) -> TemperedParticles:
    r"""Particles of the posterior $\propto p(\theta)\,\exp\sum$`likelihood(theta, *args)`, and $\log p(D)$.

    - `likelihood` is a function of the parameters and `args`: the log-likelihood, one number per row (or
      their sum); with `observed`, the distribution of the rows.
    - `prior` is a distribution, a pytree of distributions (`{"mu": Normal(0, 1), "tau": HalfNormal(1)}`), or
      anything with `sample(key, shape)` and `log_prob`, for which `supports` names constraints as in
      `bijections.unconstrain`. Moves are made on free numbers.
    - `kernel` is any sampler in real space (default `RandomWalkMetropolis`). With `tune` it works in
      coordinates scaled by the particles' covariance, and its `step_size` follows its `target_acceptance`.
    - `temperatures` fixes the ladder, as an array from 0 to 1 or a number of steps of $(k/K)^4$; with
      `tune=False` as well, the estimate of the evidence is unbiased.
    - `num_moves` is the length of the chains if `waste_free`, else the number of moves of each particle.
    - Ctrl-C ends with the particles of the last whole stage; `checkpoint` as in `core.blocks.run_in_blocks`.

    >>> from tractable.distributions.continuous import Normal
    >>> post = smc(lambda m, y: Normal(m, 1.0).log_prob(y), Normal(0.0, 2.0), key=jr.key(0), args=(3.0,))
    >>> low, high = post.log_evidence.interval(5)
    >>> bool(low < Normal(0.0, 5.0**0.5).log_prob(3.0) < high)
    True
    """
    sampler = _as_kernel(kernel)
    plan = _as_plan(num_particles, num_groups, num_moves, waste_free, temperatures is None, tune, resampling)
    check(0 < ess_target < 1, "ess_target", "a share between 0 and 1", ess_target)
    source, found_supports = as_prior(prior, supports)
    args = as_data(args)
    statement, _, args, _ = state(None, (), source, likelihood, args, observed, found_supports)
    pointwise = statement.pointwise
    key_start, key_run = jr.split(key)
    cloud, target = first_cloud(pointwise, source, found_supports, args, sampler, plan, key_start)
    _check_start(cloud, target)
    stage = Stage(target, sampler, jnp.asarray(ess_target, cloud.points.dtype), plan)
    steps = _steps(temperatures, check_count("max_stages", max_stages), cloud.points.dtype)
    finished = run_in_blocks(
        stage, cloud, (jr.split(key_run, len(steps)), steps), block=1, judge=_judge, report=_report,
        label="Tempering", progress=progress, checkpoint=checkpoint,
    )  # fmt: skip
    carried = FlatTarget(statement, None, target.rebuild, args)
    return with_target(_result(finished, target), carried)


def _as_kernel(kernel: Sampler | None) -> Sampler:
    """The sampler with its step size as data, and learning nothing by itself."""
    sampler = RandomWalkMetropolis() if kernel is None else kernel
    fits = isinstance(sampler, Sampler) and sampler.space == "real" and not sampler.ensemble
    fix = "Random walks, Langevin, HMC, NUTS and slice sampling all work."
    check(fits, "kernel", "a sampler of one chain in real space", type(sampler).__name__, fix, TypeError)
    if hasattr(sampler, "adapting"):
        sampler = eqx.tree_at(lambda s: s.adapting, sampler, jnp.asarray(False))
    return sampler.with_step_size(jnp.asarray(getattr(sampler, "step_size", 1.0), jnp.result_type(float)))


def _as_plan(
    num_particles: int,
    num_groups: int,
    num_moves: int,
    waste_free: bool,
    adaptive: bool,
    tune: bool,
    scheme: str,
) -> Plan:
    groups, moves = check_count("num_groups", num_groups), check_count("num_moves", num_moves)
    check_option("resampling", scheme, resampling_schemes)
    unit = groups * moves if waste_free else groups
    particles = check_count("num_particles", num_particles, 2)
    parts = "`num_groups` times `num_moves`" if waste_free else "`num_groups`"
    whole = particles % unit == 0 and particles // unit >= 2
    fix = "Each group resamples two particles or more, and all groups are alike."
    check(whole, "num_particles", f"a multiple of {parts} = {unit}, at least {2 * unit}", particles, fix)
    return Plan(groups, particles // groups, moves, waste_free, adaptive, tune, scheme)


def _steps(temperatures: int | ArrayLike | None, max_stages: int, dtype: Any) -> np.ndarray:
    """The temperature of each stage; NaN where it is to be found."""
    if temperatures is None:
        return np.full(max_stages, np.nan, dtype)
    return np.asarray(as_ladder(temperatures), dtype)[1:]


def _check_start(cloud: Cloud, target: TemperedTarget) -> None:
    fix = "Whole numbers cannot be tempered: sum them out."
    check(not target.rebuild.kept, "prior", "continuous in every part", "a discrete part", fix, TypeError)
    check_finite("draws of the prior, as free numbers", cloud.points)
    defined = ~np.isnan(np.asarray(cloud.log_likelihoods))
    check(bool(defined.all()), "likelihood", "a number or minus infinity at draws of the prior", "NaN")
    possible = bool((np.asarray(cloud.log_likelihoods) > -np.inf).any())
    fix = "Take more particles, or a prior that reaches the data."
    check(possible, "likelihood", "above minus infinity at some draw of the prior", "none", fix)


def _judge(cloud: Cloud, _: Any) -> Status | None:
    totals = np.asarray(cloud.totals)
    if np.isnan(totals).any() or np.isneginf(totals).all():
        return Status.not_finite
    return Status.converged if float(cloud.temperature) >= 1 else None


def _report(cloud: Cloud, records: Any) -> dict[str, float]:
    return {"temperature": float(cloud.temperature), "accepted": float(records.acceptance[-1])}


def _result(finished: Run, target: TemperedTarget) -> TemperedParticles:
    cloud, trace = finished.state, finished.trace
    size = cloud.points.shape[-1]
    logs = jnp.repeat(cloud.totals, cloud.points.shape[1])
    draws = rebuilt(target.rebuild, cloud.points.reshape((-1, size)))
    code = finished.code
    if finished.status is Status.completed:
        code = jnp.asarray(int(Status.exhausted))
    return TemperedParticles(
        draws, logs, jnp.full((), jnp.nan), False,  # equal weights in a group have no tail
        jnp.concatenate([jnp.zeros(1), jnp.asarray(trace.temperature)]),
        jnp.asarray(trace.acceptance),
        stage_ess=jnp.asarray(trace.ess),
        step_sizes=jnp.asarray(trace.step_size),
        num_ancestors=jnp.asarray(trace.num_ancestors),
        group_log_evidences=cloud.totals,
        num_evaluations=int(np.sum(trace.num_evaluations)),
        code=code,
    )  # fmt: skip


@program
def _group_means(function: Callable, draws: Any, groups: int) -> Array:
    values = jax.vmap(function)(draws)
    return values.reshape((groups, -1, *values.shape[1:])).mean(1)


def _least(values: Any) -> float:
    return float(np.min(np.asarray(values), initial=np.inf))


def _verdict(found: TemperedParticles) -> Verdict:
    if not found.status.ok:
        return Verdict(
            False, f"Do not use: the last temperature was {_last(found):.3g}. {found.status.sentence}"
        )
    groups = found.group_log_evidences
    if groups.size < 2:
        return Verdict(False, "Unknown: one group has no standard error. Take several groups.")
    rates = np.asarray(found.acceptance)
    if rates.min() < _STUCK:
        beta = float(np.asarray(found.temperatures)[1 + rates.argmin()])
        return Verdict(
            False,
            f"Doubtful: at temperature {beta:.3g} only {rates.min():.1%} of the moves were accepted, and the "
            "particles are mostly copies. Give more moves, or another kernel.",
        )
    if _least(found.stage_ess) < _THIN:
        return Verdict(
            False, "Doubtful: the temperatures are too far apart. Leave them to be found, or give more."
        )
    share = float(effective_sample_size(groups)) / groups.size
    if share < 0.5:
        return Verdict(
            False, "Doubtful: the groups disagree on the evidence. Take more particles, or more moves."
        )
    if int(found.num_ancestors[-1]) < 2 * groups.size:
        return Verdict(
            True,
            f"Fair: all particles descend from {int(found.num_ancestors[-1])} draws of the prior, and only "
            "the moves could find what those missed. Take more particles to be sure.",
        )
    evidence = found.log_evidence.verdict
    ok = float(found.log_evidence.standard_error) <= 1
    return Verdict(
        ok,
        evidence.sentence,
        {"ess": _least(found.stage_ess), "acceptance": _least(found.acceptance)},
    )


def _last(found: TemperedParticles) -> float:
    return float(np.asarray(found.temperatures)[-1])
