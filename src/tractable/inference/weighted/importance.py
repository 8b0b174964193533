r"""Importance sampling: draws from one distribution, weighted to speak for another.

Identities.  $E_p[f] = E_q[f\,p/q] \approx \frac1n\sum_i w_i f(x_i)$ with $x_i \sim q$, $w_i = p(x_i)/q(x_i)$,
             unbiased; for $p = \tilde p/Z$ known up to $Z$, $\sum_i w_i f(x_i) / \sum_i w_i$, consistent, and
             $Z \approx \frac1n\sum_i w_i$, unbiased. The best proposal for $f$ is $q^* \propto |f|\,p$.
Trust.       The effective sample size and the Pareto shape $\hat k$ of the weights, with a sentence.
Cost.        One evaluation of target and proposal per draw; one compiled program per function and shapes.
References.  Owen (2013) chapter 9; Robert and Casella (2004) section 3.3; Vehtari et al. (2024).
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import check, check_count, is_concrete, offender
from tractable.core.estimate import Estimate
from tractable.core.keys import takes_key
from tractable.core.module import field
from tractable.core.numerics import safe_log
from tractable.core.programs import as_data, program
from tractable.core.types import Array, ArrayLike, Float, Key, Scalar
from tractable.core.user_code import call_user
from tractable.core.verdict import Verdict
from tractable.distributions.base import Distribution, Univariate
from tractable.distributions.inverse import Tabulated, tabulate
from tractable.distributions.panels import expectation_rule
from tractable.inference.posterior import Posterior, as_one_chain
from tractable.inference.trust.chain_report import ChainReport
from tractable.inference.weighted.pareto import k_verdict, smooth
from tractable.inference.weighted.weights import (
    as_log_weights,
    effective_sample_size,
    log_mean_weight,
    mean_estimate,
    resample,
    weighted_mean,
)

__all__ = [
    "Proposal", "Weighted", "as_log_density", "flattened", "importance", "monte_carlo", "optimal_proposal",
    "relative_variance",
]  # fmt: skip


@runtime_checkable
class Proposal(Protocol):
    """What draws, and knows the density of what it draws: every `Distribution`, and its likes."""

    def sample(self, key: Any, shape: Any) -> Any: ...

    def log_prob(self, x: Any) -> Any: ...


class Weighted(Posterior):
    r"""Draws with weights: expectations, evidence and draws of the target, each with how far to trust it.

    `log_weights` are $\log\tilde p(x_i) - \log q(x_i)$. If the target is `normalised`, expectations are the
    unbiased $\frac1n\sum_i w_i f(x_i)$, otherwise $\sum_i w_i f(x_i)/\sum_i w_i$.
    """

    draws: Any
    log_weights: Float[Array, " n"]
    k_hat: Scalar
    normalised: bool = field(static=True, default=False)
    _shown = ("num_draws", "ess", "k_hat", "log_evidence")

    def _chains(self) -> Any:
        return as_one_chain(self.resample(jr.key(0)))

    def _examined(self, probs: Any) -> ChainReport:
        """Quantiles of resampled draws; means with the errors of the weighted ones."""
        found = super()._examined(probs)
        mean = self.expectation(flattened)
        return dataclasses.replace(found, mean=np.asarray(mean.value), mcse=np.asarray(mean.standard_error))

    @staticmethod
    def of(draws: Any, log_weights: ArrayLike, *, normalised: bool = False) -> "Weighted":
        """Draws (arrays with one leading axis) and their log-weights; the tail is fitted here."""
        logs = as_log_weights(log_weights)
        return Weighted(draws, logs, smooth(logs).k_hat, normalised)

    @property
    def num_draws(self) -> int:
        return self.log_weights.shape[0]

    @property
    def ess(self) -> Scalar:
        r"""$(\sum_i w_i)^2/\sum_i w_i^2$: how many equally weighted draws these are worth."""
        return effective_sample_size(self.log_weights)

    @property
    def log_evidence(self) -> Estimate:
        r"""$\log Z \approx \log\frac1n\sum_i w_i$ with its standard error (0 in truth, if normalised)."""
        return log_mean_weight(self.log_weights)

    def expectation(self, function: Callable[[Any], Any], *, normalised: bool | None = None) -> Estimate:
        """The mean of `function` (of one draw) under the target, with its standard error.

        The unbiased form if the target is normalised, the self-normalised one otherwise, or by `normalised`.
        """
        plain = self.normalised if normalised is None else normalised
        return _expectation(function, self.draws, self.log_weights, plain)

    def k_hat_of(self, function: Callable[[Any], Any]) -> Scalar:
        r"""The Pareto shape of $w_i\,|f(x_i)|$: the verdict on the expectation of one function of a draw.

        For a rare event it can be good where that of all weights is bad: only those in the event count.
        """
        return smooth(_log_terms(function, self.draws, self.log_weights)).k_hat

    def smoothed(self) -> "Weighted":
        """The same draws with Pareto-smoothed weights: a little bias for much less variance."""
        return Weighted(self.draws, smooth(self.log_weights).log_weights, self.k_hat, self.normalised)

    def resample(self, key: Key, num_draws: int | None = None, *, method: str = "systematic") -> Any:
        """Equally weighted draws of the target, chosen from these by their weights."""
        chosen = resample(key, self.log_weights, num_draws, method=method)
        return jax.tree.map(lambda leaf: leaf[chosen], self.draws)

    @property
    def verdict(self) -> Verdict:
        """How far to trust these weights, in a sentence."""
        return k_verdict(float(self.k_hat), self.num_draws)


def flattened(draw: Any) -> Array:
    """All numbers of a draw in one vector."""
    return jnp.concatenate([_as_numbers(leaf).reshape(-1) for leaf in jax.tree.leaves(draw)])


@takes_key
def monte_carlo(
    function: Callable[[Any], Any], distribution: Proposal, *, key: Key, num_draws: int
) -> Estimate:
    r"""$E_p[f] \approx \frac1n\sum_i f(x_i)$ for $x_i \sim p$, with standard error $\mathrm{sd}(f)/\sqrt n$.

    >>> import jax.random as jr
    >>> from tractable.distributions.continuous import Normal
    >>> found = monte_carlo(lambda x: x**2, Normal(0.0, 2.0), key=jr.key(0), num_draws=10_000)
    >>> bool(abs(found.value - 4) < 5 * found.standard_error)
    True
    """
    return _monte_carlo(function, distribution, key, check_count("num_draws", num_draws, least=2))


@takes_key
def importance(
    log_density: Callable[..., Any] | Distribution,
    proposal: Proposal,
    *,
    key: Key,
    num_draws: int,
    args: tuple = (),
    normalised: bool | None = None,
) -> Weighted:
    r"""Draws of `proposal` weighted towards $\tilde p$ = `exp(log_density(x, *args))` of one point.

    A distribution as `log_density` is normalised; a function is taken to be known up to a factor, unless
    `normalised` says otherwise. Data in `args` may change without compiling again.

    >>> import jax.random as jr
    >>> from tractable.distributions.continuous import StudentT
    >>> post = importance(lambda x: -0.5 * x**2, StudentT(5.0, 0.0, 1.0), key=jr.key(0), num_draws=4000)
    >>> low, high = post.log_evidence.interval(5)  # the truth is log sqrt(2 pi)
    >>> bool(low < 0.5 * np.log(2 * np.pi) < high)
    True
    """
    check_count("num_draws", num_draws, least=2)
    known = isinstance(log_density, Distribution) if normalised is None else normalised
    draws, logs = _weigh(as_log_density(log_density), proposal, key, num_draws, as_data(args))
    fix = "The density must be a number or minus infinity at every draw of the proposal."
    if is_concrete(logs):
        ok = ~np.isnan(np.asarray(logs))
        if not ok.all():
            check(False, "log_density", "not NaN", f"log-weight {offender(logs, ok)}", fix)
    return Weighted.of(draws, logs, normalised=known)


def relative_variance(
    function: Callable[[Array], Array], target: Univariate, proposal: Univariate | None = None
) -> Scalar:
    r"""$\mathrm{Var}_q[f\,p/q] / E_p[f]^2$ of one draw, by quadrature, for numbers; plain Monte Carlo if
    there is no `proposal`.

    The number of draws for a relative error $\epsilon$ is this over $\epsilon^2$. Infinite where the
    proposal's tails are too light. Exact for smooth functions; a jump costs a few per cent.
    """
    scalar = target.shape == () and (proposal is None or proposal.shape == ())
    check(scalar, "target", "of one number, as `proposal`", f"shape {target.shape}")
    return _relative_variance(function, target, target if proposal is None else proposal)


def optimal_proposal(
    function: Callable[[Array], Array],
    log_density: Callable[[Array], Array] | Distribution,
    points: ArrayLike,
) -> Tabulated:
    r"""$q^* \propto |f|\,p$ on the line, constant on each cell between `points`.

    For $f \ge 0$ the weights times $f$ are then constant up to the cells: almost no variance is left.
    """
    log_p = as_log_density(log_density)

    def density(x: Array) -> Array:
        flat = x.reshape(-1)
        return (jnp.abs(jax.vmap(function)(flat)) * jnp.exp(jax.vmap(log_p)(flat))).reshape(x.shape)

    return tabulate(density, points)


def as_log_density(target: Callable[..., Any] | Distribution) -> Callable[..., Any]:
    """The log-density of one point: `target.log_prob` of a distribution, or the function itself."""
    if isinstance(target, Distribution):
        return target.log_prob
    check(callable(target), "log_density", "a function of one point, or a distribution", repr(target))
    return target


def _as_numbers(values: Any) -> Array:
    values = jnp.asarray(values)
    return values if jnp.issubdtype(values.dtype, jnp.floating) else values.astype(jnp.result_type(float))


@program
def _monte_carlo(function: Callable, distribution: Proposal, key: Key, num_draws: int) -> Estimate:
    return mean_estimate(_as_numbers(jax.vmap(function)(distribution.sample(key, (num_draws,)))))


@program
def _weigh(
    log_density: Callable, proposal: Proposal, key: Key, num_draws: int, args: tuple
) -> tuple[Any, Array]:
    draws = proposal.sample(key, (num_draws,))
    log_p = jax.vmap(lambda x: _as_numbers(call_user("log_density", log_density, x, *args)))(draws)
    check(log_p.shape == (num_draws,), "log_density", "one number per point", f"shape {log_p.shape[1:]}")
    return draws, log_p - jax.vmap(proposal.log_prob)(draws)


@program
def _expectation(function: Callable, draws: Any, logs: Array, plain: bool) -> Estimate:
    values = _as_numbers(jax.vmap(function)(draws))
    if not plain:
        return weighted_mean(values, logs)
    w = jnp.exp(logs).reshape((-1,) + (1,) * (values.ndim - 1))
    return mean_estimate(jnp.where(w > 0, w * jnp.where(w > 0, values, 0.0), 0.0))


@program
def _log_terms(function: Callable, draws: Any, logs: Array) -> Array:
    values = _as_numbers(jax.vmap(function)(draws))
    check(values.ndim == 1, "function", "one number per draw", f"shape {values.shape[1:]}")
    return jnp.where(logs == -jnp.inf, -jnp.inf, logs + safe_log(jnp.abs(values)))


@program
def _relative_variance(function: Callable, target: Univariate, proposal: Univariate) -> Scalar:
    x, mass = expectation_rule(target)
    f = _as_numbers(jax.vmap(function)(x))
    ratio = jnp.exp(jax.vmap(target.log_prob)(x) - jax.vmap(proposal.log_prob)(x))
    used = mass > 0
    second = jnp.where(used, mass * jnp.where(used, ratio * f**2, 0.0), 0.0).sum()
    return second / jnp.where(used, mass * f, 0.0).sum() ** 2 - 1
