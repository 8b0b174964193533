r"""How to run several chains and when to stop: starts, burn-in, halves, plateaus, enough draws.

Protocol.    From $m/2$ over-dispersed starts run $4n$ steps, drop the first half, cut the rest in two: $m$
             sequences of $n$ draws. Scalar summaries are taken on the real line (logarithms of positive
             variables), where variances exist.
Burn-in.     A finite number $B$ of draws after which the chain has its stationary law nearly enough. The
             log-density climbs with dips, then stays on a plateau: $B$ is the first cut after which
             $z = (\bar f_{\mathrm{first}} - \bar f_{\mathrm{last}})/\mathrm{se}$ of the first tenth against
             the last half is small, with errors from the last half alone. A chain may still jump later: a
             plateau is no proof.
Stopping.    Enough: effective sizes at their target and R-hat below its limit, in every variable.
Cost.        A few Fourier transforms.
References.  Gelman et al. (2013) section 11.4; Geweke (1992), "Evaluating the accuracy of sampling-based
             approaches to the calculation of posterior moments".
"""

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.bijections.support import bijection_onto
from tractable.core.checks import as_float, check, check_count
from tractable.core.module import Module, field
from tractable.core.support import Support
from tractable.core.types import Array, Key, PyTree
from tractable.core.verdict import Verdict
from tractable.inference.trust.chain_report import examine, named_leaves
from tractable.inference.trust.diagnostics import as_chains, split_chains
from tractable.inference.trust.effective_size import mcse_mean

__all__ = [
    "Plateau", "drop_burn_in", "enough", "over_dispersed_starts", "plateau", "protocol_sequences",
    "scalar_summaries",
]  # fmt: skip

_CUTS = 10  # candidates for the burn-in: tenths of the first half of the run


class Plateau(Module):
    """Where the log-density stops climbing: `burn_in` draws are to be dropped; `z` compares what is left."""

    z: np.ndarray  # of each chain, after the burn-in
    settled: bool = field(static=True)
    burn_in: int = field(static=True)

    @property
    def verdict(self) -> Verdict:
        """Whether the chains have settled."""
        largest = float(np.abs(self.z).max())
        sentence = f"No plateau: the second half still moves (|z| {largest:.2f}); run longer."
        if self.settled:
            sentence = f"Plateau after {self.burn_in} draws (largest |z| {largest:.2f})."
        return Verdict(self.settled, sentence, {"burn_in": self.burn_in, "z": largest})


def over_dispersed_starts(
    key: Key, centre: PyTree, scale: PyTree, num_chains: int, factor: float | int = 2.0
) -> PyTree:
    """`num_chains` starts around `centre`, spread `factor` times as wide as the posterior's guessed `scale`.

    Two pytrees of one structure, over the real line; the starts have a leading axis.
    """
    num_chains = check_count("num_chains", num_chains)
    check(factor > 1, "factor", "above 1, for starts wider than the posterior", factor)
    centres, structure = jax.tree.flatten(jax.tree.map(lambda leaf: as_float("centre", leaf), centre))
    scales = [as_float("scale", leaf) for leaf in structure.flatten_up_to(scale)]
    keys = jr.split(key, len(centres))
    starts = [_spread(*each, num_chains, factor) for each in zip(keys, centres, scales)]
    return jax.tree.unflatten(structure, starts)


def drop_burn_in(chains: Any, num: int) -> np.ndarray:
    """The chains without their first `num` draws, which is finite and leaves some."""
    values = as_chains("chains", chains)
    return values[:, check_count("num", num, 0, values.shape[1] - 1) :]


def protocol_sequences(chains: Any) -> np.ndarray:
    """The second halves of the chains, each cut in two: `(2 * chains, draws // 4, ...)`."""
    values = as_chains("chains", chains)
    check(values.shape[1] >= 4, "chains", "four draws or more per chain", f"shape {values.shape}")
    return split_chains(drop_burn_in(values, values.shape[1] // 2))


def scalar_summaries(draws: PyTree, supports: Mapping[str, Support] | None = None) -> dict[str, np.ndarray]:
    """Each array `(chains, draws, ...)` on the real line: the free numbers of those with a support.

    >>> from tractable.core.support import positive
    >>> scalar_summaries({"tau": np.ones((1, 4))}, {"tau": positive})["tau"].tolist()
    [[0.0, 0.0, 0.0, 0.0]]
    """
    supports = dict(supports or {})
    leaves = dict(named_leaves(draws))
    unknown = [name for name in supports if name not in leaves]
    check(not unknown, "supports", f"keyed by variables ({', '.join(leaves)})", unknown)
    return {name: _freed(leaf, supports.get(name)) for name, leaf in leaves.items()}


def plateau(log_density: Any, limit: float | int = 3.0) -> Plateau:
    """The shortest burn-in, up to half of the run, after which no chain's log-density shows a trend."""
    values = as_chains("log_density", log_density)
    check(values.ndim == 2, "log_density", "of shape (chains, draws)", f"shape {values.shape}")
    check(values.shape[1] >= 80, "log_density", "80 draws or more per chain", f"shape {values.shape}")
    cuts = [values.shape[1] * step // (2 * _CUTS) for step in range(_CUTS + 1)]
    scores = [trend(values[:, cut:]) for cut in cuts]
    largest = [float(np.abs(score).max()) for score in scores]
    place = next((i for i, value in enumerate(largest) if value <= limit), len(cuts) - 1)
    return Plateau(scores[place], largest[place] <= limit, cuts[place])


def enough(draws: PyTree, effective_size: float | int | None = None, rhat: float | int = 1.01) -> Verdict:
    """Whether every variable of `draws` has its effective size, bulk and tail, and an R-hat below the limit.

    The size is by default 100 per chain. Variables that never change are left out; draws that are not finite
    are never enough. The numbers are the least `effective_size`, the largest `rhat`, and how many `more`
    draws per chain should do.
    """
    report = examine(draws)
    chains, length = named_leaves(draws)[0][1].shape[:2]
    wanted = 100.0 * chains if effective_size is None else float(effective_size)
    check(wanted > 0, "effective_size", "positive", wanted)
    check(rhat > 1, "rhat", "above 1", rhat)
    judged = np.array([reason != "constant" for reason in report.reasons])
    sizes, ratios = np.minimum(report.ess_bulk, report.ess_tail)[judged], report.rhat[judged]
    size, ratio = (float(sizes.min()), float(ratios.max())) if judged.any() else (math.nan, math.nan)
    ok = size >= wanted and ratio <= rhat  # NaN is never enough
    factors = [wanted / size, (ratio**2 - 1) / (rhat**2 - 1)]  # R-hat squared less one falls like one over n
    factor = max(factors) if all(map(math.isfinite, factors)) else 2.0
    more = 0 if ok else math.ceil(length * max(factor - 1, 0.1))
    said = f"effective size {size:.0f}, R-hat {ratio:.4g}"
    sentence = f"Enough: {said}." if ok else f"Not enough: {said}; draw {more} more per chain."
    return Verdict(ok, sentence, {"effective_size": size, "rhat": ratio, "more": more})


def trend(chains: np.ndarray) -> np.ndarray:
    """The first tenth of each chain less its last half, in standard errors that know the autocorrelation.

    The errors are those of the last half about its own line: a climb must not pass for slow mixing.
    """
    length = chains.shape[1]
    first, last = chains[:, : length // 10], chains[:, length - length // 2 :]
    time = np.linspace(-1, 1, last.shape[1])
    slope = last @ time / (time @ time)
    error = np.asarray(mcse_mean((last - slope[:, None] * time[None]).T[None]))  # each chain on its own
    error = np.where(np.isnan(error), 0.0, error) * np.sqrt(1 + last.shape[1] / first.shape[1])
    gap = first.mean(1) - last.mean(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(gap == 0, 0.0, gap / error)


def _spread(key: Key, middle: Array, width: Array, num: int, factor: float | int) -> Array:
    noise = jr.normal(key, (num, *middle.shape), middle.dtype)
    return middle[None] + factor * jnp.broadcast_to(width, middle.shape)[None] * noise


def _freed(leaf: np.ndarray, support: Support | None) -> np.ndarray:
    if support is None:
        return leaf
    bijection = bijection_onto(support)
    flat = jnp.asarray(leaf.reshape(-1, *leaf.shape[2:]))
    free = np.asarray(jax.vmap(bijection.inverse)(flat))
    return free.reshape(*leaf.shape[:2], *free.shape[1:])
