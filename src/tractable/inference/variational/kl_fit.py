r"""Fitting one distribution to another by either Kullback-Leibler divergence.

Forward.     $\arg\min_\theta \mathrm{KL}(p \| q_\theta) = \arg\max_\theta E_p[\log q_\theta]$: needs draws or
             moments of $p$; on samples it is maximum likelihood, in an exponential family it matches
             $E[t(x)]$. It covers all mass of $p$ (zero avoiding).
Reverse.     $\arg\min_\theta \mathrm{KL}(q_\theta \| p) = \arg\max_\theta E_{q_\theta}[\log \tilde p] +
             H(q_\theta)$: needs only an evaluable, possibly unnormalised $\tilde p$. It avoids where $p$ is
             small (zero forcing, mode seeking) and has as many local optima as $p$ has modes worth sitting
             on; $-\,$objective is a lower bound on $\log \int \tilde p$.
Empirical.   $\mathrm{KL}(p_{\mathrm{emp}} \| q) = -\frac1N \sum_n \log q(x_n) - H(p_{\mathrm{emp}})$.
Cost.        One pass over points in an exponential family; else a quasi-Newton search, each step one value
             and gradient.
References.  Bishop (2006) section 10.1.2; Minka (2005), "Divergence measures and message passing".
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.bijections.support import unconstrain
from tractable.core.checks import as_float, check, check_count
from tractable.core.factors import psd_root
from tractable.core.iterate import Ended, Status
from tractable.core.keys import takes_key
from tractable.core.module import Module
from tractable.core.programs import program
from tractable.core.types import Array, ArrayLike, Int, Key, Scalar
from tractable.distributions.base import Distribution
from tractable.distributions.continuous import Normal
from tractable.distributions.expfam import ExponentialFamily, maximum_likelihood, row_weights, weigh
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.integrals import tabulate
from tractable.distributions.panels import expectation_rule
from tractable.optim.host import minimise_on_host

__all__ = ["KLFit", "ReverseKLFit", "forward_kl_fit", "reverse_kl_fit"]


class KLFit(Ended, Module):
    r"""A fitted distribution with what was minimised and how the search ended.

    `objective` is the cross-entropy $-E_p[\log q]$ of a forward fit, and $E_q[\log q - \log\tilde p]$ of a
    reverse fit (the divergence itself if the target is normalised).
    """

    distribution: Any
    objective: Scalar
    num_steps: Int[Array, ""]
    code: Int[Array, ""]


class ReverseKLFit(Module):
    """The distinct local optima that the starts led to, the lowest objective first."""

    optima: tuple[KLFit, ...]

    @property
    def best(self) -> KLFit:
        return self.optima[0]

    @property
    def distribution(self) -> Any:
        return self.best.distribution

    @property
    def status(self) -> Status:
        return self.best.status


@takes_key
def forward_kl_fit(
    family: Distribution,
    target: Distribution | ArrayLike,
    weights: ArrayLike | None = None,
    *,
    key: Key | None = None,
    num_samples: int = 10_000,
    max_steps: int = 500,
) -> KLFit:
    r"""The member of a family nearest to `target` in $\mathrm{KL}(p \| q)$; `family` is any member, and the
    start of a search.

    `target` is a sample (first axis: rows, with optional `weights`), or a distribution: of one number
    (integrated), with a known mean and covariance if the family is Gaussian (matched), or any other with a
    `key` (drawn). Exponential families are fitted by their mean statistics, others by a search over
    unconstrained parameters.

    >>> from tractable.distributions.mixture import Mixture
    >>> two = Mixture(jnp.array([0.5, 0.5]), Normal(jnp.array([-3.0, 3.0]), 1.0))
    >>> fit = forward_kl_fit(Normal(0.0, 1.0), two).distribution
    >>> round(float(fit.loc), 6) + 0.0, round(float(fit.variance), 6)
    (0.0, 10.0)
    """
    if isinstance(target, Distribution) and isinstance(family, Gaussian) and _has_moments(target):
        return _matched_moments(target)
    rows, row_weight = _points(family, target, weights, key, num_samples)
    objective = partial(_cross_entropy, rows, row_weight)
    if isinstance(family, ExponentialFamily):
        fitted = maximum_likelihood(family, rows, row_weight)
        return KLFit(fitted, objective(fitted), jnp.asarray(1), jnp.asarray(int(Status.converged)))
    return _search(_value_and_slope(objective), family, max_steps)


@takes_key
def reverse_kl_fit(
    log_target: Distribution | Callable[[Array], Array],
    starts: Distribution | Sequence[Distribution],
    *,
    key: Key | None = None,
    num_samples: int = 1000,
    max_steps: int = 500,
) -> ReverseKLFit:
    r"""Every local optimum of $\mathrm{KL}(q_\theta \| p)$ that searches from `starts` (members of one
    family) find.

    `log_target` is a distribution or a function of one point that returns $\log\tilde p(x)$, up to a
    constant. Densities of one number are integrated, Gaussians (and independent normals) of at most three
    dimensions too; others use `num_samples` draws with fixed noise from `key`, which the draws of the family
    must carry gradients through.
    """
    members = [starts] if isinstance(starts, Distribution) else list(starts)
    check(len(members) > 0, "starts", "at least one distribution", "none")
    kinds = {type(member).__name__ for member in members}
    check(len(kinds) == 1, "starts", "distributions of one class", ", ".join(sorted(kinds)))
    check(not members[0].discrete, "starts", "densities", f"{type(members[0]).__name__}, which has masses")
    at = log_target.log_prob if isinstance(log_target, Distribution) else jax.vmap(log_target)
    objective = _reverse_objective(at, members[0], key, check_count("num_samples", num_samples, 2))
    compiled = _value_and_slope(objective)
    fits = [_search(compiled, member, max_steps) for member in members]
    return ReverseKLFit(_distinct(sorted(fits, key=_order)))


def _has_moments(target: Distribution) -> bool:
    return len(target.shape) == 1 and any(hasattr(target, name) for name in ("cov", "covariance"))


def _matched_moments(target: Any) -> KLFit:
    cov = target.cov if hasattr(target, "cov") else target.covariance
    fitted = Gaussian(target.mean, cov)
    return KLFit(fitted, fitted.entropy(), jnp.asarray(1), jnp.asarray(int(Status.converged)))


def _points(
    family: Distribution, target: Any, weights: ArrayLike | None, key: Any, num_samples: int
) -> tuple[Array, Array]:
    """Rows and weights whose weighted averages are expectations under the target."""
    if not isinstance(target, Distribution):
        rows = as_float("target", target)
        return rows, row_weights(rows, weights)
    check(weights is None, "weights", "left out when `target` is a distribution", "weights")
    must = f"over draws of shape {family.shape}, like `family`"
    check(target.shape == family.shape, "target", must, target.shape)
    if target.shape == () and key is None:
        return tabulate(target) if target.discrete else program(expectation_rule)(target)
    fix = "Only distributions of one number are summed or integrated."
    must = f"given to draw from {type(target).__name__} of shape {target.shape}"
    check(key is not None, "key", must, key, fix)
    rows = target.sample(key, (check_count("num_samples", num_samples, 2),)).astype(float)
    return rows, row_weights(rows, None)


def _cross_entropy(rows: Array, weights: Array, q: Distribution) -> Scalar:
    return -weigh(weights, q.log_prob(rows)) / weights.sum()


def _reverse_objective(
    at: Callable, member: Distribution, key: Any, num_samples: int
) -> Callable[[Any], Scalar]:
    d = member.shape[0] if len(member.shape) == 1 else 0
    if key is None and member.shape == ():
        nodes = expectation_rule
    elif key is None and isinstance(member, Normal | Gaussian) and 0 < d <= 3:
        nodes = partial(_hermite_nodes, *_hermite_grid(d))
    else:
        fix = "Only densities of one number and Gaussians of at most three dimensions are integrated."
        check(key is not None, "key", f"given for {type(member).__name__} of shape {member.shape}", key, fix)
        given: Any = key
        data = jax.random.key_data(given)  # the same noise at every step makes the objective a fixed function
        nodes = partial(_draws, data, num_samples)

    def objective(q):
        x, weights = nodes(q)
        ratio = q.log_prob(x) - at(x)
        return (jnp.where(weights > 0, ratio, 0.0) * weights).sum()

    return objective


def _draws(data: Array, n: int, q: Distribution) -> tuple[Array, Array]:
    return q.sample(jax.random.wrap_key_data(data), (n,)), jnp.full(n, 1.0 / n)


def _hermite_grid(d: int) -> tuple[Array, Array]:
    """Nodes and weights of the standard normal in `d` dimensions: a product of 20-point Gauss-Hermite
    rules."""
    z, w = np.polynomial.hermite_e.hermegauss(20)
    grid = np.stack(np.meshgrid(*[z] * d, indexing="ij"), -1).reshape(-1, d)
    weights = np.prod(np.stack(np.meshgrid(*[w / w.sum()] * d, indexing="ij"), -1), -1).reshape(-1)
    return jnp.asarray(grid), jnp.asarray(weights)


def _hermite_nodes(grid: Array, weights: Array, q: Any) -> tuple[Array, Array]:
    if isinstance(q, Normal):
        q = q.expand(q.shape)
        return q.loc[None] + q.scale[None] * grid, weights
    return q.mean[None] + grid @ psd_root(q.cov).T, weights


def _value_and_slope(objective: Callable[[Any], Scalar]) -> Callable[[Array, Any], tuple[Array, Array]]:
    """The objective and its gradient in the free numbers of a member, compiled once for all starts."""
    return jax.jit(jax.value_and_grad(lambda free, rebuild: objective(rebuild(free)[0])))


def _search(value_and_slope: Callable, start: Distribution, max_steps: int) -> KLFit:
    """A quasi-Newton search over the unconstrained parameters, begun again where it ended on a saddle."""
    free, rebuild = unconstrain(start)

    def host(vector):
        return value_and_slope(jnp.asarray(vector, free.dtype), rebuild)

    point, steps = np.asarray(free), 0
    for _ in range(4):
        found = minimise_on_host(host, point, max_steps=max_steps, tol=1e-9)
        steps += int(found.num_steps)
        downhill = _downhill(host, np.asarray(found.state))
        if downhill is None:
            break
        point = np.asarray(found.state) + 0.1 * downhill  # such as midway between two equal modes
    # what rounding stopped is as good as converged where the gradient is small
    flat = float(found.gradient_norm) <= 1e-6 * (1 + abs(float(found.value))) and downhill is None
    code = Status.converged if flat else Status.exhausted if found.status.ok else found.status
    return KLFit(rebuild(found.state)[0], found.value, jnp.asarray(steps), jnp.asarray(int(code)))


def _downhill(host: Callable, x: np.ndarray) -> np.ndarray | None:
    """A direction in which the objective curves downwards at `x`, by differences of its gradient; else
    None."""
    steps = 1e-4 * np.eye(x.size)
    curvature = np.stack([(host(x + step)[1] - host(x - step)[1]) / 2e-4 for step in steps])
    if not np.isfinite(curvature).all():
        return None
    values, vectors = np.linalg.eigh((curvature + curvature.T) / 2)
    return vectors[:, 0] if values[0] < -1e-4 * max(1.0, np.abs(values).max()) else None


def _order(fit: KLFit) -> tuple[bool, float]:
    """Usable fits first, then the lower objective; NaN counts as infinite."""
    value = float(fit.objective)
    return not fit.status.ok, value if np.isfinite(value) else np.inf


def _distinct(fits: list[KLFit]) -> tuple[KLFit, ...]:
    kept: list[KLFit] = []
    for fit in fits:
        leaves = jax.tree.leaves(fit.distribution)
        pairs = [zip(leaves, jax.tree.leaves(other.distribution)) for other in kept]
        if not any(all(np.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in pair) for pair in pairs):
            kept.append(fit)
    return tuple(kept)
