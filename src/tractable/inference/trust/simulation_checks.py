r"""Whether a sampler and a model belong together: the joint-distribution test, and ranks of true values.

Joint test.  Two ways to draw $(\theta, y)$ from $p(\theta)\,p(y \mid \theta)$: independently; or in turns,
             $y \sim p(y \mid \theta)$ and $\theta \to \theta'$ by a transition that leaves
             $p(\theta \mid y)$ invariant. Their means agree, $z = (\bar g - \bar g')/\sqrt{s^2 + s'^2}$.
Error.       The chains of the second way begin in the prior, so they are stationary from the first step, and
             independent of each other: $s'$ is the spread of their means, whatever their autocorrelation.
Ranks.       With $\theta \sim p(\theta)$, $y \sim p(y \mid \theta)$ and $L$ draws from $p(\theta \mid y)$,
             the rank of $\theta$ among the draws is uniform on $0 \dots L$.
Cost.        One compiled program each; all chains and simulations at once under `vmap`.
References.  Geweke (2004), "Getting it right"; Talts, Betancourt, Simpson, Vehtari and Gelman (2018),
             "Validating Bayesian inference algorithms with simulation-based calibration".
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from scipy.special import ndtr

from tractable.bijections.support import unconstrain
from tractable.core.checks import check, check_count
from tractable.core.iterate import run
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.programs import program
from tractable.core.types import Array, Float, Key, PyTree
from tractable.core.verdict import Verdict
from tractable.inference.trust.calibration import pit, uniformity

__all__ = ["Calibration", "JointTest", "geweke", "simulation_based_calibration", "transition_of"]

_SURPRISE = 0.01  # the chance that a right sampler is called wrong, over all quantities together


class JointTest(Module):
    """Means of each quantity by the two ways of drawing, their errors, and the gaps in standard errors."""

    independent_means: Float[Array, " k"]
    independent_errors: Float[Array, " k"]
    chain_means: Float[Array, " k"]
    chain_errors: Float[Array, " k"]
    names: tuple[str, ...] = field(static=True)

    @property
    def z_scores(self) -> Array:
        """The gap of the means in units of its standard error."""
        gap = self.chain_means - self.independent_means
        return gap / jnp.hypot(self.independent_errors, self.chain_errors)

    @property
    def p_value(self) -> float:
        """How surprising the largest gap is, as the largest of as many (Bonferroni)."""
        z = np.abs(np.asarray(self.z_scores))
        return float(min(1.0, z.size * 2 * ndtr(-z.max()))) if np.isfinite(z).all() else 0.0

    @property
    def verdict(self) -> Verdict:
        """Whether the two ways of drawing agree as far as these draws can tell."""
        z, p_value = np.asarray(self.z_scores), self.p_value
        worst = int(np.abs(z).argmax())
        if not np.isfinite(z).all():
            worst = int(np.argmin(np.isfinite(z)))
            sentence = f"No verdict: `{self.names[worst]}` is not finite or never changes."
        elif p_value >= _SURPRISE:
            sentence = "The transition leaves the posterior invariant as far as these draws can tell."
        else:
            sentence = (
                "The transition does not leave the posterior invariant, or `simulate` and the density are "
                f"not of one model: `{self.names[worst]}` is off by {z[worst]:+.1f} standard errors."
            )
        return Verdict(p_value >= _SURPRISE, sentence, {"p_value": p_value, "z": float(z[worst])})

    def _columns(self) -> dict[str, Any]:
        parts = {"independent": self.independent_means, "chain": self.chain_means, "z": self.z_scores}
        return {"": self.names} | {name: np.asarray(values) for name, values in parts.items()}


class Calibration(Module):
    """The rank of each true value among the draws, in [0, 1], and the test that they are uniform."""

    ranks: Float[Array, "k n"]
    names: tuple[str, ...] = field(static=True)

    @property
    def tests(self) -> dict[str, Verdict]:
        """The test of each quantity."""
        return {name: uniformity(ranks) for name, ranks in zip(self.names, np.asarray(self.ranks))}

    @property
    def p_value(self) -> float:
        """How surprising the least uniform ranks are, as the least of as many (Bonferroni)."""
        return min(1.0, len(self.names) * min(test.numbers["p_value"] for test in self.tests.values()))

    @property
    def verdict(self) -> Verdict:
        """Whether all ranks are uniform as far as these simulations can tell."""
        tests, p_value = self.tests, self.p_value
        sentence = "The ranks are uniform: calibrated as far as these simulations can tell."
        if p_value < _SURPRISE:
            worst = min(tests, key=lambda name: tests[name].numbers["p_value"])
            ranks = np.asarray(self.ranks)[self.names.index(worst)]
            sentence = f"The draws are not from the posterior: `{worst}` {_shape_of(ranks)}."
        return Verdict(p_value >= _SURPRISE, sentence, {"p_value": p_value})

    def _columns(self) -> dict[str, Any]:
        found = [test.numbers for test in self.tests.values()]
        return {"": self.names} | {name: [one[name] for one in found] for name in ("distance", "p_value")}


@takes_key
def geweke(
    prior_sample: Callable[[Key], PyTree],
    simulate: Callable[[Key, PyTree], PyTree],
    transition: Callable[[Key, PyTree, PyTree], PyTree],
    *,
    key: Key,
    num_steps: int = 100,
    num_chains: int = 200,
    quantities: Callable[[PyTree, PyTree], dict[str, Any]] | None = None,
) -> JointTest:
    """The joint-distribution test of `transition(key, x, data) -> x` for a model stated by its simulators.

    `quantities(x, data)` names the numbers whose means are compared; by default each number of `x` and its
    square. A transition of a sampler: `transition_of(sampler, log_joint)`.

    >>> prior = lambda key: {"m": jr.normal(key)}
    >>> data = lambda key, x: x["m"] + jr.normal(key)
    >>> exact = lambda key, x, y: {"m": y / 2 + jr.normal(key) / jnp.sqrt(2.0)}
    >>> geweke(prior, data, exact, key=jr.key(0)).verdict.ok
    True
    """
    check_count("num_steps", num_steps, least=2)
    check_count("num_chains", num_chains, least=20)
    named = _numbers_and_squares if quantities is None else quantities
    first, second, third = jr.split(key, 3)
    independent = _independent(prior_sample, simulate, named, jr.split(first, num_steps * num_chains))
    starts, steps = jr.split(second, num_chains), jr.split(third, (num_steps, num_chains))
    chains = _in_turns(prior_sample, simulate, transition, named, starts, steps)
    names, alone = _table(independent)
    _, turns = _table(chains)
    return JointTest(*_mean_and_error(alone), *_mean_and_error(turns), names)


@takes_key
def simulation_based_calibration(
    prior_sample: Callable[[Key], PyTree],
    simulate: Callable[[Key, PyTree], PyTree],
    draw_posterior: Callable[[Key, PyTree], PyTree],
    *,
    key: Key,
    num_simulations: int = 200,
    quantities: Callable[[PyTree], dict[str, Any]] | None = None,
) -> Calibration:
    """The ranks of true values among draws of `draw_posterior(key, data)`, whose leaves lead with the draws.

    The draws should be nearly independent: thin a chain first. Ties are broken at random, so counts and
    labels may be ranked too. `quantities(x)` names what is ranked; by default each number of `x`.

    >>> prior = lambda key: jr.normal(key)
    >>> data = lambda key, x: x + jr.normal(key)
    >>> narrow = lambda key, y: y / 2 + 0.3 * jr.normal(key, (99,))
    >>> found = simulation_based_calibration(prior, data, narrow, key=jr.key(0))
    >>> print(found.verdict)
    The draws are not from the posterior: `x` falls at the ends too often: the draws are too narrow.
    """
    check_count("num_simulations", num_simulations, least=20)
    named = _numbers if quantities is None else quantities
    first, second = jr.split(key)
    keys = jr.split(first, num_simulations)
    truths, draws = _simulations(prior_sample, simulate, draw_posterior, named, keys)
    names, values = _table(truths)
    _, found = _table(draws, leading=2)
    ranks = [
        pit(values[i], found[i].T, key=k) for i, k in zip(range(len(names)), jr.split(second, len(names)))
    ]
    return Calibration(jnp.stack(ranks), names)


def transition_of(
    sampler: Any,
    log_joint: Callable[[PyTree, PyTree], Any],
    *,
    supports: Any = None,
    num_steps: int = 1,
) -> Callable[[Key, PyTree, PyTree], PyTree]:
    """`num_steps` steps of a sampler on $p(x \\mid y) \\propto$ `exp(log_joint(x, y))`, from `x`."""
    check(not sampler.ensemble, "sampler", "one that moves a single chain", type(sampler).__name__)
    num_steps = check_count("num_steps", num_steps)

    def transition(key: Key, x: PyTree, data: PyTree) -> PyTree:
        real = sampler.space == "real"
        start, rebuild = unconstrain(x, supports) if real else (x, None)

        def log_density(position):
            value, log_det = rebuild(position) if rebuild is not None else (position, 0.0)
            return log_joint(value, data) + log_det

        begin, rest = jr.split(key)
        state = sampler.init(log_density, start, begin)
        # keys that `run` hands out one by one would count as used twice under `vmap`
        moved = run(
            lambda state, i: (sampler.step(log_density, state, jr.fold_in(rest, i))[0], None),
            state,
            jnp.arange(num_steps),
        )
        position = moved.state.position
        return rebuild(position)[0] if rebuild is not None else position

    return transition


@program
def _independent(prior_sample, simulate, quantities, keys):
    """Quantities of independent draws of the joint, one per key."""

    def one(key):
        first, second = jr.split(key)
        x = prior_sample(first)
        return quantities(x, simulate(second, x))

    return jax.vmap(one)(keys)


@program
def _in_turns(prior_sample, simulate, transition, quantities, start_keys, step_keys):
    """Means of the quantities over chains that draw data and parameters in turns, all chains side by side."""

    def move(x, key):
        first, second = jr.split(key)
        data = simulate(first, x)
        return transition(second, x, data), quantities(x, data)

    starts = jax.vmap(prior_sample)(start_keys)
    found = run(jax.vmap(move), starts, step_keys).trace
    return jax.tree.map(lambda leaf: leaf.mean(0), found)


@program
def _simulations(prior_sample, simulate, draw_posterior, quantities, keys):
    def one(key):
        first, second, third = jr.split(key, 3)
        x = prior_sample(first)
        draws = draw_posterior(third, simulate(second, x))
        return quantities(x), jax.vmap(quantities)(draws)

    return jax.vmap(one)(keys)


def _numbers(x: PyTree) -> dict[str, Array]:
    """Each leaf by its path."""
    leaves = jax.tree_util.tree_flatten_with_path(x)[0]
    return {
        jax.tree_util.keystr(path, simple=True, separator=".") or "x": jnp.asarray(leaf, float)
        for path, leaf in leaves
    }


def _numbers_and_squares(x: PyTree, data: PyTree) -> dict[str, Array]:
    numbers = _numbers(x)
    return {**numbers, **{f"{name}^2": value**2 for name, value in numbers.items()}}


def _table(quantities: dict[str, Any], leading: int = 1) -> tuple[tuple[str, ...], np.ndarray]:
    """Names and values of the single numbers, which come before the leading axes."""
    check(len(quantities) > 0, "quantities", "a dict with at least one number", "none")
    names, values = [], []
    for name, leaf in quantities.items():
        array = np.asarray(leaf, float)
        flat = array.reshape((*array.shape[:leading], -1))
        single = array.ndim == leading
        names += [name] if single else [f"{name}[{i}]" for i in range(flat.shape[-1])]
        values.append(np.moveaxis(flat, -1, 0))
    return tuple(names), np.concatenate(values)


def _mean_and_error(values: np.ndarray) -> tuple[Array, Array]:
    error = values.std(1, ddof=1) / np.sqrt(values.shape[1])
    return jnp.asarray(values.mean(1)), jnp.asarray(error)


def _shape_of(ranks: np.ndarray) -> str:
    """In which way ranks in [0, 1] are not uniform."""
    n = ranks.size
    shift = (ranks.mean() - 0.5) * np.sqrt(12 * n)
    spread = (((ranks - 0.5) ** 2).mean() - 1 / 12) * np.sqrt(180 * n)
    if abs(spread) >= abs(shift):
        ends = "falls at the ends too often: the draws are too narrow"
        return ends if spread > 0 else "falls in the middle too often: the draws are too wide"
    low, high = "falls low too often: the draws are too high", "falls high too often: the draws are too low"
    return high if shift > 0 else low
