r"""A second look at an approximation: wider and narrower versions of it see what its own draws cannot.

Ladder.      With $c$ the centre of $q$, $q_s$ is $q$ stretched by $s$ about $c$, $q_s(x) = s^{-d}\,q(c + (x -
             c)/s)$. Two thirds of the draws are of $q$, the others of $q_s$ for scales from a sixty-fourth to
             a thousand; all are weighed by the mixture of their laws, $w = \tilde p/m$, $m = \sum_k \pi_k
             q_{s_k}$, which is bounded wherever $\tilde p/q$ is and has far heavier tails.
Evidence.    The intercept of a regression of $w$ on the ratios $q_{s_k}/m$, whose means are one: exact where
             $q$ is, and never much worse than the best of the scales.
Missed.      The share of the mass where $\tilde p/Z > 10\,q$: draws of $q$ hardly ever come there, so that no
             weight of theirs tells.
Modes.       Climbs from the centre and from far (`inference.trust.modes`) count what a ladder cannot reach.
Cost.        One density of the target, and one of $q$ per scale, for each draw; some hundreds of gradients.
References.  Hesterberg (1995), "Weighted average importance sampling and defensive mixture distributions";
             Owen and Zhou (2000), "Safe and effective importance sampling".
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.estimate import Estimate
from tractable.core.host_random import generator
from tractable.core.module import Module
from tractable.core.programs import program
from tractable.core.types import Array, Float, Int, Scalar
from tractable.core.verdict import Verdict
from tractable.inference.trust.modes import find_modes
from tractable.inference.weighted.pareto import k_verdict, tail_shape
from tractable.inference.weighted.weights import effective_sample_size

__all__ = ["SecondLook", "second_look"]

_SCALES = (1 / 64, 1 / 8, 1 / 2, 2**0.5, 2.0, 4.0, 16.0, 128.0, 1024.0)
_NEAR = 4.0  # the scale up to which a density must be a number
_SELDOM = 10.0  # times the approximation: there its draws are too few by as much
_MOST_MISSED = 0.02  # of the mass
_HEAVY = 0.7  # tail shape of the mixture's weights, beyond which even these have no variance
_NOTHING = 50.0  # nats below the largest weight: less than rounding
_NEARLY_EQUAL = 0.95  # the share of the draws that nearly equal weights are worth


class SecondLook(Module):
    """Draws of an approximation and of stretched versions of it, and what their weights say."""

    draws: Float[Array, "n d"]
    log_weights: Float[Array, " n"]  # under the mixture
    own: Float[Array, " m"]  # the log-weights of the first draws, those of the approximation, under it alone
    log_evidence: Estimate
    k_hat: Scalar  # of `own`; NaN where some weight is not a number
    tail: Scalar  # the same of all draws under the mixture
    missed: Scalar
    undefined: Scalar  # the share of the nearer draws at which the target is not a number
    num_modes: Int[Array, ""]

    @property
    def efficiency(self) -> float:
        """The effective sample size of the approximation's own draws as a share of their number."""
        if bool(jnp.isnan(self.k_hat)):
            return math.nan
        return float(effective_sample_size(self.own)) / self.own.shape[0]

    @property
    def verdict(self) -> Verdict:
        """Whether the approximation may be used for the target, as far as one can see from it."""
        names, worth = ("k_hat", "tail", "missed", "num_modes"), self.efficiency
        numbers = {name: getattr(self, name) for name in names} | {"efficiency": worth}
        first = k_verdict(float(self.k_hat), self.own.shape[0])
        doubt = None if math.isnan(float(self.k_hat)) else _doubt(self)
        if doubt is not None:
            return Verdict(False, f"Not certified: {doubt}", numbers)
        if not first.ok and worth >= _NEARLY_EQUAL:
            said = (
                f"Close: the weights are nearly equal (the draws are worth {worth:.1%} of their "
                "number), though the shape of their small tail is heavy."
            )
            return Verdict(True, said, numbers)
        return Verdict(first.ok, first.sentence, numbers | first.numbers)


def _doubt(look: SecondLook) -> str | None:
    """The gravest reason for which the approximation cannot be certified, if there is one."""
    undefined, missed, tail = (float(v) for v in (look.undefined, look.missed, look.tail))
    if undefined > 0:
        return f"the density is not a number at {undefined:.2%} of the draws about the approximation."
    if not missed <= _MOST_MISSED:
        return (
            f"about {missed:.2g} of the mass lies where the approximation hardly ever draws. Take a richer "
            "family or other coordinates, or run `mcmc`."
        )
    if int(look.num_modes) > 1:
        return "there are separate modes, and the approximation has one of them. Use tempering or `smc`."
    if not tail <= _HEAVY:
        return "even wide versions of the approximation have heavy weights: make sure the mass is finite."
    return None


def second_look(target: Any, whole: Any, points: Array, centre: Array, best: Any = None) -> SecondLook:
    """Judge an approximation by `points` drawn from it, of which a third are stretched about the `centre`.

    `whole` has the `log_prob` of the law of the points. Where that is a mixture of several approximations of
    which only one is to be used, `best` is that one: what it misses is told by its own `log_prob`.
    """
    num_own = points.shape[0] - points.shape[0] // 3
    found = _weigh(target, whole, whole if best is None else best, points, centre)
    draws, values, laws, chosen = (np.asarray(part) for part in found)
    own = values[:num_own] - laws[:num_own, 0]
    known = np.where(np.isnan(values) | (values == np.inf), -np.inf, values)
    near = _scale_of_each(points.shape[0]) <= _NEAR
    undefined = (known != values)[near].mean()
    if not ((own < np.inf).all() and (own > -np.inf).any()):  # NaN compares false
        nan = jnp.full((), jnp.nan, values.dtype)
        parts = (jnp.asarray(draws), jnp.asarray(known - laws[:, 0]), jnp.asarray(own))
        return SecondLook(*parts, Estimate(nan, nan), nan, nan, nan, jnp.asarray(undefined), jnp.asarray(0))
    logs, evidence, missed = _findings(known, laws, chosen)
    # what weighs nothing is put at the centre, where every function has a value, and weighs nothing there
    counts = logs > logs.max() - _NOTHING
    draws = np.where(counts[:, None], draws, np.asarray(centre)[None])
    tails = tail_shape(own), tail_shape(np.sort(logs)[-num_own:])  # of one length: one program
    widths = np.asarray(points[:num_own]).std(0)
    modes = _count_modes(target, np.asarray(centre), widths)
    parts = (draws, np.where(counts, logs, -np.inf), own, *evidence, *tails, missed, undefined, modes)
    draws, logs, own, value, error, *numbers = (jnp.asarray(part) for part in parts)
    return SecondLook(draws, logs, own, Estimate(value, error), *numbers)


def _scale_of_each(num_draws: int) -> np.ndarray:
    stretched = num_draws // 3
    return np.concatenate([np.ones(num_draws - stretched), np.resize(np.asarray(_SCALES), stretched)])


def _count_modes(target: Any, centre: np.ndarray, widths: np.ndarray) -> int:
    if not (np.isfinite(widths).all() and (widths > 0).all()):
        return 1

    def look(z: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = _value_and_slope(target, widths * z)
        return float(value), np.asarray(slope) * widths

    return len(find_modes(look, centre / widths, generator(0)))


@program
def _value_and_slope(target: Any, x: Any) -> tuple[Array, Array]:
    return jax.value_and_grad(target)(x)


@program
def _weigh(
    target: Any, whole: Any, best: Any, points: Array, centre: Array
) -> tuple[Array, Array, Array, Array]:
    """The draws, the log-density of the target there, that of each scale, and that of `best`."""
    ladder = jnp.asarray((1.0, *_SCALES), points.dtype)

    def weigh(inputs: tuple[Array, Array]) -> tuple[Array, Array, Array, Array]:
        point, scale = inputs
        # as it is where nothing is stretched: rounding would move it
        x = jnp.where(scale == 1, point, centre + scale * (point - centre))

        def law(s: Array) -> Scalar:
            shrunk = jnp.where(s == 1, x, centre + (x - centre) / s)
            return whole.log_prob(shrunk) - centre.size * jnp.log(s)

        return x, target(x), jax.vmap(law)(ladder), best.log_prob(x)

    scales = jnp.asarray(_scale_of_each(points.shape[0]), points.dtype)
    return jax.lax.map(weigh, (points, scales), batch_size=min(points.shape[0], 100))


def _findings(
    values: np.ndarray, laws: np.ndarray, chosen: np.ndarray
) -> tuple[np.ndarray, tuple[float, float], float]:
    """Log-weights under the mixture, the log-evidence with its error, and the share of the mass that `chosen`
    misses."""
    count = values.size
    each = _scale_of_each(count)
    shares = np.asarray([(each == scale).mean() for scale in (1.0, *_SCALES)])
    highest = laws.max(1)
    mixture = highest + np.log(np.exp(laws - highest[:, None]) @ shares)
    logs = values - mixture
    top = logs.max()
    w = np.exp(logs - top)
    ratios = np.exp(laws - mixture[:, None]) - 1
    columns = np.concatenate([np.ones((count, 1)), ratios[:, :-1]], axis=1)
    fitted = np.linalg.lstsq(columns, w, rcond=None)[0]
    spread = np.sqrt(((w - columns @ fitted) ** 2).sum() / (count - columns.shape[1]) / count)
    mean, error = fitted[0], spread
    if not mean > 0.1 * w.mean():  # a regression may fall below zero where a few weights have it all
        mean, error = w.mean(), w.std() / np.sqrt(count)
    value = top + np.log(mean)
    with np.errstate(invalid="ignore"):  # where neither has any mass, none is missed
        seldom = values - chosen - value > np.log(_SELDOM)
    return logs, (value, error / mean), w[seldom].sum() / w.sum()
