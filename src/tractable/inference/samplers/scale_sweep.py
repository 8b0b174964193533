r"""How the length of its steps decides what a random walk is worth: many lengths at once.

Trade-off.   Short steps are accepted and go nowhere; long ones are rejected. In between, near an acceptance
             of 0.44 in one dimension and 0.234 in many, $n$ draws are worth the most, $n/\tau$.
Cost.        One compiled program for all step sizes and chains.
References.  Roberts, Gelman and Gilks (1997); Roberts and Rosenthal (2001).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import as_float, check, check_count, is_concrete
from tractable.core.iterate import run
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.programs import as_data, program
from tractable.core.types import Array, ArrayLike, Bool, Float, Key, Scalar
from tractable.core.verdict import Verdict
from tractable.inference.samplers.metropolis import RandomWalkMetropolis
from tractable.inference.samplers.sampler import Sampler
from tractable.inference.trust.autocorrelation import autocorrelation_time

__all__ = ["ScaleSweep", "scale_sweep"]


class ScaleSweep(Module):
    """How the length of the steps matters: acceptance and effective sample size for each of them."""

    step_sizes: Float[Array, " s"]
    acceptance: Float[Array, " s"]
    effective_sample_size: Float[Array, " s"]  # of the worst coordinate; 0 where no chain moved
    squared_jump: Float[Array, " s"]  # mean squared length of a move, rejections counted as 0
    undefined: Bool[Array, " s"]
    num_draws: int = field(static=True)  # of all chains together

    @property
    def best(self) -> Scalar:
        """The step size with the most effective draws."""
        return self.step_sizes[jnp.argmax(self.effective_sample_size)]

    @property
    def verdict(self) -> Verdict:
        """Which step size to take, and how far to trust that."""
        if bool(self.undefined.any()):
            return Verdict(
                False, "The density is not a number at some points that were proposed: look at it."
            )
        at = int(jnp.argmax(self.effective_sample_size))
        best, worth = float(self.best), float(self.effective_sample_size[at])
        said = f"Best: step_size {best:.3g}, {worth:.0f} effective of {self.num_draws} draws."
        at_end = at in (0, self.step_sizes.size - 1) and self.step_sizes.size > 1
        if worth < 100:
            said += " Too few to compare by: draw more."
        elif at_end:
            said += " It is at an end of the sweep: go on there."
        numbers = {"step_size": best, "effective_sample_size": worth}
        return Verdict(worth >= 100 and not at_end, said, numbers)


@takes_key
def scale_sweep(
    log_density: Callable[..., Any],
    start: ArrayLike,
    step_sizes: ArrayLike,
    *,
    key: Key,
    sampler: Sampler | None = None,
    num_draws: int = 1000,
    num_warmup: int = 200,
    num_chains: int = 4,
    args: tuple = (),
) -> ScaleSweep:
    """Chains at each of `step_sizes`, all at once: too small a step explores slowly, too large is rejected.

    `sampler` is any sampler in real space with a `step_size` (by default a `RandomWalkMetropolis`). All
    chains begin at `start`, a vector; the first `num_warmup` steps are not counted. One mode is all that a
    chain can speak of: whether there are others, the sweep cannot see.
    """
    sizes = as_float("step_sizes", step_sizes)
    check(sizes.ndim == 1 and sizes.size > 0, "step_sizes", "a vector of numbers", f"shape {sizes.shape}")
    if is_concrete(sizes):
        ok = bool((np.asarray(sizes) > 0).all()) and bool(np.isfinite(np.asarray(sizes)).all())
        check(ok, "step_sizes", "positive and finite", np.asarray(sizes).tolist())
    sampler = RandomWalkMetropolis() if sampler is None else sampler
    check(hasattr(sampler, "step_size"), "sampler", "a sampler with a `step_size`", type(sampler).__name__)
    counts = check_count("num_draws", num_draws, 4), check_count("num_warmup", num_warmup, 0)
    num_chains = check_count("num_chains", num_chains)
    found = _sweep(
        log_density, sampler, as_float("start", start), sizes, key, (*counts, num_chains), as_data(args)
    )
    return ScaleSweep(sizes, *found, num_draws=num_chains * counts[0])


@program
def _sweep(
    log_density: Callable,
    sampler: Any,
    start: Float[Array, " d"],
    step_sizes: Float[Array, " s"],
    key: Key,
    counts: tuple[int, int, int],
    args: tuple,
) -> tuple[Array, Array, Array, Array]:
    num_draws, num_warmup, num_chains = counts
    shape = step_sizes.size, num_chains
    sizes = jnp.broadcast_to(step_sizes[:, None], shape).ravel()

    def target(x):
        return log_density(x, *args)

    def one(step_size, state, key):
        state, info = sampler.with_step_size(step_size).step(target, state, key)
        return state, (state.position, info.acceptance, info.undefined)

    # all chains inside the loop over steps, and not the loop once per chain: one call per step
    key_start, key_steps = jr.split(key)
    begin = jax.vmap(lambda step_size, key: sampler.with_step_size(step_size).init(target, start, key))
    states = begin(sizes, jr.split(key_start, sizes.size))
    keys = jr.split(key_steps, (num_warmup + num_draws, sizes.size))
    trace = run(lambda states, keys: jax.vmap(one)(sizes, states, keys), states, keys).trace
    trace = jax.tree.map(lambda leaf: leaf.reshape((leaf.shape[0], *shape, *leaf.shape[2:])), trace)
    return jax.vmap(lambda xs, a, u: _worth(xs[num_warmup:], a[num_warmup:], u), 1)(*trace)


def _worth(
    xs: Float[Array, "n chains d"], acceptance: Array, undefined: Array
) -> tuple[Array, Array, Array, Array]:
    """Acceptance, effective sample size, squared jump, and whether the density was ever not a number."""
    times = jax.vmap(autocorrelation_time, 2)(xs.swapaxes(0, 1))
    moved = (xs != xs[:1]).any((0, 1))  # a coordinate that never changes has a time of one
    worth = jnp.where(moved, xs.shape[0] * xs.shape[1] / times, 0.0).min()
    jump = (jnp.diff(xs, axis=0) ** 2).sum(-1).mean()
    return acceptance.mean(), worth, jump, undefined.any()
