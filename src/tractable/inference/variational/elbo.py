r"""The evidence lower bound and its relatives: identities where they can be computed, estimates elsewhere.

Identities.  $\log p(x) = \mathcal L(q) + \mathrm{KL}(q \,\|\, p(z \mid x))$ with $\mathcal L(q) = E_q[\log
             p(x, z)] + H[q]$ (energy and entropy) $= E_q[\log p(x \mid z)] - \mathrm{KL}(q \,\|\, p(z))$
             (reconstruction and prior divergence). Tight if and only if $q$ is the posterior.
Weights.     From $w_k = p(x, z_k)/q(z_k)$: $\mathcal L_\alpha = \frac{1}{1-\alpha}\log\frac1K\sum_k
             w_k^{1-\alpha}$, falling in $\alpha$; $\alpha \to 1$ is the ELBO, $\alpha = 0$ the
             importance-weighted bound, which rises with $K$ to $\log p(x)$.
Cost.        One pass over the table; a few Cholesky factors; $K$ log-densities.
References.  Jordan et al. (1999); Burda, Grosse and Salakhutdinov (2016); Li and Turner (2016).
"""

import jax
import jax.numpy as jnp

from tractable.core.checks import as_float, check, check_shape
from tractable.core.linalg import psd_factor
from tractable.core.module import Module
from tractable.core.numerics import log_mean_exp, logsumexp, xlogy
from tractable.core.types import Array, ArrayLike, Scalar
from tractable.distributions.divergence import kl, kl_probs
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.information import as_probabilities
from tractable.distributions.linear_gaussian import LinearGaussian

__all__ = [
    "ElboReport", "discrete_elbo", "expected_log_joint", "gaussian_elbo",
    "importance_weighted_bound", "renyi_bound",
]  # fmt: skip


class ElboReport(Module):
    r"""The pieces of $\log p(x) = E_q[\log p(x, z)] + H[q] + \mathrm{KL}(q \,\|\, p(z \mid x))$.

    `reconstruction` and `prior_kl` are NaN where the joint was given as a whole.
    """

    energy: Scalar
    entropy: Scalar
    kl: Scalar
    log_evidence: Scalar
    reconstruction: Scalar
    prior_kl: Scalar
    _shown = ("elbo", "energy", "entropy", "log_evidence", "kl")

    @property
    def elbo(self) -> Scalar:
        r"""$E_q[\log p(x, z)] + H[q]$."""
        return self.energy + self.entropy

    @property
    def gap(self) -> Scalar:
        r"""$\log p(x) - \mathcal L(q)$, which is `kl` by the identity."""
        return self.log_evidence - self.elbo


def discrete_elbo(log_joint: ArrayLike, q: ArrayLike, log_prior: ArrayLike | None = None) -> ElboReport:
    r"""The identities for a latent variable with finitely many values (a table of any shape).

    `log_joint` holds $\log p(x, z)$ for the observed $x$ and every $z$, `q` the probabilities $q(z)$, and
    `log_prior`, where given, $\log p(z)$.

    >>> report = discrete_elbo(jnp.log(jnp.array([0.1, 0.3])), jnp.array([0.25, 0.75]))
    >>> round(float(report.elbo), 6), abs(float(report.kl)) < 1e-12     # the exact posterior is tight
    (-0.916291, True)
    """
    joint, q = as_float("log_joint", log_joint), as_probabilities("q", q)
    check_shape("q", q, joint.shape, "One probability for each entry of `log_joint`.")
    if log_prior is None:
        return _discrete_elbo(joint.reshape(-1), q.reshape(-1), None)
    prior = as_float("log_prior", log_prior)
    check_shape("log_prior", prior, joint.shape)
    return _discrete_elbo(joint.reshape(-1), q.reshape(-1), prior.reshape(-1))


def expected_log_joint(log_joint: Array, q: Array) -> Scalar:
    r"""$\sum_z q(z)\log p(x, z)$ with $0\cdot(-\infty) = 0$: what $q$ excludes does not count."""
    return jnp.where(q > 0, q * jnp.where(q > 0, log_joint, 0.0), 0.0).sum()


def gaussian_elbo(prior: Gaussian, likelihood: LinearGaussian, y: ArrayLike, q: Gaussian) -> ElboReport:
    r"""The identities in closed form for $z \sim N(m, P)$, $y \mid z \sim N(Hz + c, R)$, a Gaussian $q$."""
    y = as_float("y", y)
    check_shape("y", y, likelihood.bias.shape)
    check(q.shape == prior.shape, "q", f"of shape {prior.shape}, like `prior`", f"shape {q.shape}")
    posterior, predicted = likelihood.posterior(prior, y), likelihood.marginal(prior)[0]
    spread = likelihood.weights @ q.cov @ likelihood.weights.T
    reconstruction = _expected_log_density(likelihood(q.mean), y, spread)
    energy = reconstruction + _expected_log_density(prior, q.mean, q.cov)
    evidence = predicted.log_prob(y)
    return ElboReport(energy, q.entropy(), kl(q, posterior), evidence, reconstruction, kl(q, prior))


def renyi_bound(log_weights: ArrayLike, alpha: float | int) -> Array:
    r"""$\frac{1}{1-\alpha}\log\frac1K\sum_k w_k^{1-\alpha}$ along the last axis; at $\alpha = 1$ the ELBO.

    A lower bound on $\log p(x)$ in expectation for $\alpha \ge 0$. Below zero it bounds from above, but only
    as the number of weights grows.

    >>> [round(float(renyi_bound([0.0, 1.0], a)), 4) for a in (1.0, 0.5, 0.0)]
    [0.5, 0.5619, 0.6201]
    """
    logs = as_float("log_weights", log_weights)
    check(logs.ndim > 0, "log_weights", "at least a vector", f"shape {logs.shape}")
    if alpha == 1:
        return logs.mean(-1)
    return log_mean_exp((1 - alpha) * logs, axis=-1) / (1 - alpha)


def importance_weighted_bound(log_weights: ArrayLike) -> Array:
    r"""$\log\frac1K\sum_k w_k$ along the last axis: between the ELBO ($K = 1$) and $\log p(x)$ on average."""
    return renyi_bound(log_weights, 0.0)


@jax.jit
def _discrete_elbo(joint: Array, q: Array, prior: Array | None) -> ElboReport:
    evidence = logsumexp(joint)
    divergence = kl_probs(q, jnp.exp(joint - evidence))
    energy, entropy = expected_log_joint(joint, q), -xlogy(q, q).sum()
    if prior is None:
        nothing = jnp.full((), jnp.nan)
        return ElboReport(energy, entropy, divergence, evidence, nothing, nothing)
    excluded = prior == -jnp.inf
    likelihood = jnp.where(excluded, -jnp.inf, joint - jnp.where(excluded, 0.0, prior))
    reconstruction = expected_log_joint(likelihood, q)
    return ElboReport(energy, entropy, divergence, evidence, reconstruction, kl_probs(q, jnp.exp(prior)))


def _expected_log_density(gaussian: Gaussian, at: Array, spread: Array) -> Scalar:
    r"""$E[\log N(x; m, S)]$ for $x$ with mean `at` and covariance `spread`."""
    return gaussian.log_prob(at) - 0.5 * jnp.trace(psd_factor(gaussian.cov).solve(spread))
