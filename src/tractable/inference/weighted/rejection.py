r"""Rejection sampling: exact draws under an envelope, the envelope itself, and the evidence from acceptance.

Identity.    With $\tilde p \le M q$ everywhere, $x \sim q$ kept with probability $\tilde p(x)/(M q(x))$ is a
             draw of $p = \tilde p/Z$, and $P(\text{keep}) = Z/M$: the accepted share gives $Z$.
Envelope.    $\log M = \max_x \log\tilde p(x) - \log q(x)$: searched from the best of many draws, and
             checked at every proposal; a violation is reported, since the draws are then not exact.
Dimension.   $N(0, \sigma_p^2 I)$ under $N(0, \sigma_q^2 I)$ needs $M = (\sigma_q/\sigma_p)^d$: hopeless for
             large $d$.
Cost.        $M/Z$ proposals per draw, in blocks, up to a stated number.
References.  von Neumann (1951); Robert and Casella (2004) section 2.3.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr

from tractable.core.accept import accept
from tractable.core.checks import as_float, check, check_count
from tractable.core.estimate import Estimate
from tractable.core.iterate import Ended, Status, run_until
from tractable.core.keys import takes_key
from tractable.core.module import Module
from tractable.core.programs import as_data, program
from tractable.core.types import Array, ArrayLike, Int, Key, Scalar
from tractable.core.user_code import call_user
from tractable.core.verdict import Verdict
from tractable.distributions.base import Distribution
from tractable.inference.weighted.importance import Proposal, as_log_density
from tractable.inference.weighted.weights import share_estimate
from tractable.optim.minimise import minimise

__all__ = ["Envelope", "Rejection", "find_envelope", "gaussian_log_bound", "rejection"]

# log-ratios above the bound by no more than this are rounding of two log-densities
_ROUNDING = 1e-9


class Rejection(Ended, Module):
    """Accepted draws, how they were come by, and whether the envelope held."""

    draws: Array
    num_filled: Int[Array, ""]
    num_accepted: Int[Array, ""]
    num_proposed: Int[Array, ""]
    log_bound: Scalar
    excess: Scalar  # the largest log-ratio seen, minus the bound: at most zero under a true envelope
    code: Int[Array, ""]
    _shown = ("num_filled", "num_proposed", "acceptance", "log_evidence")

    @property
    def acceptance(self) -> Estimate:
        """The accepted share of all proposals."""
        return share_estimate(self.num_accepted, self.num_proposed)

    @property
    def log_evidence(self) -> Estimate:
        r"""$\log Z = \log M + \log P(\text{keep})$; $-\infty$ with an infinite error if nothing was kept."""
        rate = self.acceptance
        return Estimate(self.log_bound + jnp.log(rate.value), rate.standard_error / rate.value)

    @property
    def verdict(self) -> Verdict:
        """Whether the draws are exact."""
        excess, filled = float(self.excess), int(self.num_filled)
        if excess > _ROUNDING:
            factor = f"{math.exp(excess):.3g}"
            said = f"The envelope was violated (by a factor {factor}): not draws of the target. Raise it."
        elif not self.status.ok:
            got = f"{filled} of {self.draws.shape[0]} draws"
            said = f"Stopped at the limit of proposals with {got}; the rest is NaN. Find a closer proposal."
        else:
            said = "Exact draws, if the envelope holds everywhere; it held at every proposal."
        ok = excess <= _ROUNDING and self.status.ok
        return Verdict(ok, said, {"excess": excess, "num_filled": filled})


class Envelope(Ended, Module):
    """The largest log-ratio of target to proposal that was found, where, and how the search ended."""

    log_bound: Scalar
    at: Array
    code: Int[Array, ""]

    @property
    def verdict(self) -> Verdict:
        """How the search ended; where rounding stopped it, there is nothing left to gain."""
        if self.status is Status.stalled:
            return Verdict(True, "Converged to rounding.")
        return Verdict(self.status.ok, self.status.sentence)


@takes_key
def rejection(
    log_density: Callable[..., Any] | Distribution,
    proposal: Proposal,
    log_bound: ArrayLike | Envelope,
    *,
    key: Key,
    num_draws: int,
    max_proposals: int = 1_000_000,
    block: int = 4096,
    args: tuple = (),
) -> Rejection:
    r"""Draws of $\tilde p$ = `exp(log_density(x, *args))` by proposals under $M q$, $\log M$ = `log_bound`.

    Stops at `num_draws` accepted, or past `max_proposals` (then the draws that are missing are NaN). The
    acceptance counts every proposal of every block.
    """
    num_draws, block = check_count("num_draws", num_draws), check_count("block", block)
    if isinstance(log_bound, Envelope):
        found = log_bound.status in (Status.converged, Status.stalled)
        fix = "The proposal's tails may be too light for any envelope."
        check(found, "log_bound", "an envelope that was found", repr(log_bound), fix)
        log_bound = log_bound.log_bound
    bound = as_float("log_bound", log_bound)
    check(bound.ndim == 0, "log_bound", "one number, log M", f"shape {bound.shape}")
    blocks = -(-check_count("max_proposals", max_proposals) // block)
    return _reject(
        as_log_density(log_density), proposal, bound, key, (num_draws, block, blocks), as_data(args)
    )


def find_envelope(
    log_density: Callable[..., Any] | Distribution,
    proposal: Proposal,
    *,
    key: Key,
    num_draws: int = 1000,
    num_starts: int = 3,
    max_steps: int = 200,
    args: tuple = (),
) -> Envelope:
    r"""$\log M = \max_x \log\tilde p(x) - \log q(x)$, from the best `num_starts` of `num_draws` draws.

    The bound is a local maximum, the best of a few: add a margin to `log_bound` if the density is rugged. A
    ratio without a maximum (the proposal's tails are too light) ends with a status that is not `converged`.
    """
    check_count("num_starts", num_starts, most=check_count("num_draws", num_draws))
    ratio = _LogRatio(as_log_density(log_density), proposal)
    args = as_data(args)
    points, values = _scan(ratio, key, num_draws, args)
    best = jnp.argsort(-values)[:num_starts]
    runs = [
        minimise(
            _negative_ratio, points[i], args=(ratio, args), max_steps=max_steps, tol=1e-9, curvature=False
        )
        for i in best
    ]
    top = min(runs, key=lambda found: float(found.value))
    return Envelope(-top.value, top.state, top.code)


def gaussian_log_bound(target_scale: ArrayLike, proposal_scale: ArrayLike, dim: int) -> Scalar:
    r"""$d\,\log(\sigma_q/\sigma_p)$: the log of the least $M$, the proposals per draw, in $d$ dimensions.

    >>> round(float(jnp.exp(gaussian_log_bound(1.0, 1.01, 1000))))
    20959
    """
    narrow, wide = as_float("target_scale", target_scale), as_float("proposal_scale", proposal_scale)
    wider = bool((wide >= narrow).all())
    check(wider, "proposal_scale", "at least `target_scale`, or no envelope exists", proposal_scale)
    return check_count("dim", dim) * (jnp.log(wide) - jnp.log(narrow))


class _LogRatio(Module):
    """The log-ratio of target to proposal at one point."""

    log_density: Callable
    proposal: Any

    def __call__(self, x: Array, args: tuple) -> Scalar:
        log_q = self.proposal.log_prob(x)
        return jnp.asarray(call_user("log_density", self.log_density, x, *args), log_q.dtype) - log_q


def _negative_ratio(x: Array, ratio: _LogRatio, args: tuple) -> Scalar:
    return -ratio(x, args)


@program
def _scan(ratio: _LogRatio, key: Key, num_draws: int, args: tuple) -> tuple[Array, Array]:
    points = ratio.proposal.sample(key, (num_draws,))
    return points, jax.vmap(lambda x: ratio(x, args))(points)


@program
def _reject(
    log_density: Callable,
    proposal: Proposal,
    bound: Array,
    key: Key,
    sizes: tuple[int, int, int],
    args: tuple,
) -> Rejection:
    num_draws, block, blocks = sizes
    ratio = _LogRatio(log_density, proposal)

    def step(state):
        draws, filled, proposed, excess, key = state
        key, key_draw, key_accept = jr.split(key, 3)
        points = proposal.sample(key_draw, (block,))
        logs = jax.vmap(lambda x: ratio(x, args))(points) - bound
        keep, _ = accept(key_accept, logs)
        # accepted points go to the next free places; those past the end, and rejected ones, go nowhere
        places = jnp.where(keep, filled + jnp.cumsum(keep) - 1, num_draws)
        draws = draws.at[places].set(points, mode="drop")
        filled, proposed = filled + keep.sum(), proposed + block
        return (draws, filled, proposed, jnp.maximum(excess, logs.max()), key), filled / proposed

    kind = jax.eval_shape(lambda k: proposal.sample(k, (num_draws,)), key)
    whole = not jnp.issubdtype(kind.dtype, jnp.floating)
    empty = jnp.full(kind.shape, jnp.nan, jnp.result_type(float) if whole else kind.dtype)
    zero = jnp.asarray(0)
    start = empty, zero, zero, jnp.asarray(-jnp.inf, bound.dtype), key
    found = run_until(
        step, start, max_steps=blocks, tol=0.0, settled=lambda state, value, before: state[1] >= num_draws
    )
    draws, filled, proposed, excess, _ = found.state
    return Rejection(draws, jnp.minimum(filled, num_draws), filled, proposed, bound, excess, found.code)
