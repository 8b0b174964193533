r"""The Rao-Blackwellised particle filter of switching systems: modes are drawn, states stay exact.

Particle.    A path of modes with the Gaussian belief that is exact given that path.
Step.        All $K$ next modes are tried: mode $k$ predicts the reading with density $g_k$; the particle's
             weight grows by $\sum_k \Pi_{zk}\,g_k = p(y_t \mid z_{0:t-1}, y_{<t})$, and it draws $k \propto
             \Pi_{zk}\,g_k$: the proposal of least variance. The evidence is unbiased.
Averages.    $p(z_t = k \mid y_{\le t})$ and $E[x_t \mid y_{\le t}]$ over all $K$ modes before one is drawn.
Cost.        $O(T N K d^3)$ per replicate.
References.  Doucet, Gordon and Krishnamurthy (2001); Chen and Liu (2000).
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import jax.random as jr

from tractable.core.checks import check
from tractable.core.estimate import Estimate
from tractable.core.module import Module, field
from tractable.core.numerics import logsumexp
from tractable.core.types import Array, Float, Int, Key, Scalar
from tractable.core.verdict import Verdict
from tractable.inference.particles.filter import Filtered, particle_filter
from tractable.inference.particles.replicates import mean_of_replicates
from tractable.inference.trust.evidence import Evidence
from tractable.messages.gaussian_steps import Belief
from tractable.statespace.nonlinear.switching_passes import Modes, learnt, merge, stepped

__all__ = ["SwitchingParticles", "filter_by_modes"]


class Tracked(Module):
    """One particle: the mode that was drawn with its belief, and averages over all modes before the draw."""

    mode: Int[Array, "*n"]
    belief: Belief
    modes: Float[Array, "*n k"]
    mean: Float[Array, "*n d"]
    second: Float[Array, "*n d d"]  # E[x x']
    log_density: Float[Array, "*n"]


class SwitchingParticles(Module):
    """Modes and states from the readings so far, by particles, with errors from replicates."""

    found: Filtered = field(show=False)
    _shown = ("modes", "log_likelihood")

    @property
    def modes(self) -> Estimate:
        r"""$p(z_t = k \mid y_{0:t})$, shape (times, modes)."""
        return mean_of_replicates(self.found.means.modes)

    @property
    def mean(self) -> Estimate:
        r"""$E[x_t \mid y_{0:t}]$."""
        return mean_of_replicates(self.found.means.mean)

    @property
    def cov(self) -> Estimate:
        r"""$\mathrm{Cov}[x_t \mid y_{0:t}]$."""
        means = self.found.means
        return mean_of_replicates(means.second - means.mean[..., :, None] * means.mean[..., None, :])

    @property
    def log_likelihood(self) -> Evidence:
        r"""$\log p(y)$, the logarithm of unbiased estimates."""
        return self.found.log_evidence

    @property
    def verdict(self) -> Verdict:
        """That of the particle filter."""
        return self.found.verdict


class _First(Module):
    modes: Modes
    y: Float[Array, " m"]

    def __call__(self, key: Key) -> Tracked:
        beliefs, densities = jax.vmap(lambda look: learnt(look, self.modes.start, self.y))(self.modes.looks)
        return _drawn(key, self.modes.log_initial + densities, beliefs)


class _Next(Module):
    modes: Modes
    ys: Float[Array, "t m"]

    def __call__(self, x: Tracked, t: Array) -> Callable[[Key], Tracked]:
        def one(move, look):
            return stepped(move, look, x.belief, self.ys[t])

        beliefs, densities = jax.vmap(one)(self.modes.moves, self.modes.looks)
        logs = self.modes.log_transition[x.mode] + densities
        return lambda key: _drawn(key, logs, beliefs)


def filter_by_modes(modes: Modes, ys: Array, key: Key, options: dict) -> SwitchingParticles:
    """`particle_filter` over modes, with the states summed out."""
    taken = {"num_particles", "num_replicates", "resampling", "ess_threshold", "history"}
    unknown = sorted(set(options) - taken)
    check(not unknown, "options", f"among {sorted(taken)}", unknown, error=TypeError)
    options = {"history": False, "num_particles": 200} | options
    times = jnp.zeros(len(ys), ys.dtype)  # the readings are learnt as the particles move
    found = particle_filter(_First(modes, ys[0]), _Next(modes, ys), _weight, times, key=key, **options)
    return SwitchingParticles(found)


def _weight(x: Tracked, y: Array, t: Array) -> Scalar:
    return x.log_density


def _drawn(key: Key, logs: Array, beliefs: Belief) -> Tracked:
    """A mode by its posterior weight, and what all of them say together."""
    total = logsumexp(logs)
    weights = jnp.where(total > -jnp.inf, logs - jnp.where(total > -jnp.inf, total, 0.0), -jnp.log(logs.size))
    mode = jr.categorical(key, weights)
    whole, _ = merge(weights, beliefs)
    second = whole.spread + jnp.outer(whole.mean, whole.mean)
    chosen = jax.tree.map(lambda leaf: leaf[mode], beliefs)
    return Tracked(mode, chosen, jnp.exp(weights), whole.mean, second, total)
