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
             Of $G$ groups with unequal evidences only $g = (\sum Z)^2/\sum Z^2$ count: errors are widened so
             that four of them are as rare as four of a normal law, given a $t$ distribution with $g - 1$
             degrees of freedom. An error is never less than that of as many independent draws: groups that
             agree by chance say nothing else.
Verdict.     Particles are trusted if a last, longer stage leaves all means where they were
             (`particles.stages`), if the weights of no stage have a tail so heavy that their variance may not
             exist, and if the groups agree.
Cost.        `thin` moves per particle and stage (waste-free), or `thin` times `num_moves`; one likelihood
             more per particle. The steps between kept states follow from how fast the particles forget.
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
from tractable.inference.particles.replicates import evidence_of_replicates, mean_of_replicates, widening
from tractable.inference.particles.settled import verdict_of
from tractable.inference.particles.stages import Cloud, Plan, Stage, TemperedTarget, first_cloud
from tractable.inference.posterior import with_target
from tractable.inference.samplers.metropolis import RandomWalkMetropolis
from tractable.inference.samplers.sampler import Sampler
from tractable.inference.target import FlatTarget, rebuilt
from tractable.inference.trust.evidence import Evidence
from tractable.inference.weighted.annealed import Annealed, as_ladder
from tractable.inference.weighted.pareto import tail_shape
from tractable.inference.weighted.weights import effective_sample_size, resampling_schemes

__all__ = ["TemperedParticles", "smc"]

_GROUPS = 20


class TemperedParticles(Ended, Annealed):
    """Weighted particles of the posterior, the evidence, and how the stages went."""

    stage_ess: Float[Array, " stages"] = field(kw_only=True)  # as a share of the particles
    step_sizes: Float[Array, " stages"] = field(kw_only=True)
    num_ancestors: Int[Array, " stages"] = field(kw_only=True)  # draws of the prior from which all descend
    group_log_evidences: Float[Array, " groups"] = field(kw_only=True)
    thin: Int[Array, " stages"] = field(kw_only=True)  # steps from one kept state to the next
    memory: Float[Array, " stages"] = field(kw_only=True)  # correlation of the ends of the chains
    drift: Float[Array, " stages"] = field(kw_only=True)  # of means along the chains, in errors
    tails: Float[Array, " stages"] = field(kw_only=True)  # shapes of the tails of the weights
    num_evaluations: int = field(kw_only=True)  # of the density by the moves, with gradient where they use it
    code: Int[Array, ""] = field(kw_only=True)

    @property
    def log_evidence(self) -> Evidence:
        """The logarithm of the mean of the groups' evidences, with an error from their scatter."""
        found = evidence_of_replicates(self.group_log_evidences, "sequential Monte Carlo")
        code = found.code if self.status.ok else self.code
        error = found.standard_error * widening(self.group_log_evidences.size)
        return self._evidence(found.value, error, found.method, code)

    def expectation(self, function: Callable[[Any], Any], *, normalised: bool | None = None) -> Estimate:
        """The mean of `function` (of one draw) under the posterior; the error is the groups' scatter."""
        if normalised:
            return super().expectation(function, normalised=True)
        groups = self.group_log_evidences
        means, squares = _group_moments(function, self.draws, groups.size)
        found, second = mean_of_replicates(means, groups), mean_of_replicates(squares, groups)
        count = float(effective_sample_size(groups))
        spread = jnp.sqrt(jnp.maximum(second.value - found.value**2, 0.0))
        least = spread / np.sqrt(count * self.log_weights.size / groups.size)
        return Estimate(found.value, jnp.maximum(found.standard_error * widening(count), least))

    @property
    def verdict(self) -> Verdict:
        """How far to trust the particles."""
        return verdict_of(self)


@takes_key
def smc(
    likelihood: Callable[..., Any],
    prior: Any,
    *,
    key: Key,
    num_particles: int = 2000,
    kernel: Sampler | None = None,
    ess_target: float | int = 0.5,
    temperatures: int | ArrayLike | None = None,
    waste_free: bool = True,
    num_moves: int = 5,
    thin: int | None = None,
    num_groups: int | None = None,
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
    - `num_moves` is the number of kept states of a chain if `waste_free`, else of moves of each particle;
      each is `thin` steps from the one before. By itself `thin` is so large that the particles are refreshed.
    - `num_groups` is 20, or 10 where there are too few particles.
    - Ctrl-C ends with the particles of the last whole stage; `checkpoint` as in `core.blocks.run_in_blocks`.

    >>> from tractable.distributions.continuous import Normal
    >>> post = smc(lambda m, y: Normal(m, 1.0).log_prob(y), Normal(0.0, 2.0), key=jr.key(0), args=(3.0,))
    >>> low, high = post.log_evidence.interval(5)
    >>> bool(low < Normal(0.0, 5.0**0.5).log_prob(3.0) < high)
    True
    """
    sampler = _as_kernel(kernel)
    sizes = (num_particles, num_groups, num_moves, thin)
    plan = _as_plan(*sizes, waste_free, temperatures is None, tune, resampling)
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
        stage, cloud, (jr.split(key_run, len(steps)), steps), block=1,
        judge=_judge if plan.adaptive else _judge_ladder, report=_report, label="Tempering",
        progress=progress, checkpoint=checkpoint,
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
    num_groups: int | None,
    num_moves: int,
    thin: int | None,
    waste_free: bool,
    adaptive: bool,
    tune: bool,
    scheme: str,
) -> Plan:
    check_option("resampling", scheme, resampling_schemes)
    particles, moves = check_count("num_particles", num_particles, 2), check_count("num_moves", num_moves)
    each = moves if waste_free else 1
    if num_groups is None:
        num_groups = _GROUPS if particles % (_GROUPS * each) == 0 and particles >= 2 * _GROUPS * each else 10
    groups = check_count("num_groups", num_groups)
    unit = groups * each
    parts = "`num_groups` times `num_moves`" if waste_free else "`num_groups`"
    whole = particles % unit == 0 and particles // unit >= 2
    fix = "Each group resamples two particles or more, and all groups are alike."
    check(whole, "num_particles", f"a multiple of {parts} = {unit}, at least {2 * unit}", particles, fix)
    return Plan(groups, particles // groups, moves, waste_free, adaptive, tune, scheme, _as_thin(thin))


def _as_thin(thin: int | None) -> int | None:
    return None if thin is None else check_count("thin", thin)


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


def _judge(cloud: Cloud, records: Any) -> Status | None:
    """At temperature 1 there is one stage more, which tempers no more: all its weights are equal."""
    totals = np.asarray(cloud.totals)
    if np.isnan(totals).any() or np.isneginf(totals).all():
        return Status.not_finite
    tempered = float(np.asarray(records.ess)[-1]) < 1 - 1e-9
    return None if float(cloud.temperature) < 1 or tempered else Status.converged


def _judge_ladder(cloud: Cloud, records: Any) -> Status | None:
    """A ladder that was given ends where it ends."""
    found = _judge(cloud, records)
    return Status.converged if found is None and float(cloud.temperature) >= 1 else found


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
        thin=jnp.asarray(trace.thin),
        memory=jnp.asarray(trace.memory),
        drift=jnp.asarray(trace.drift),
        tails=jnp.asarray([tail_shape(np.ravel(logs)) for logs in np.asarray(trace.log_weights)]),
        code=code,
    )  # fmt: skip


@program
def _group_moments(function: Callable, draws: Any, groups: int) -> tuple[Array, Array]:
    """The mean and the mean square of each group."""
    values = jnp.asarray(jax.vmap(function)(draws), float)
    each = values.reshape((groups, -1, *values.shape[1:]))
    return each.mean(1), (each**2).mean(1)
