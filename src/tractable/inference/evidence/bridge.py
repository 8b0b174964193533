r"""Bridge sampling: the evidence from posterior draws and draws of a Gaussian fitted to them.

Identity.    For every $h$, $Z = E_g[\tilde p\,h] / E_p[g\,h]$. The best is
             $h \propto 1/(s_1 \tilde p/Z + s_2 g)$ with the shares $s$ of the draws; it contains $Z$: iterate
             $Z \leftarrow \frac{\mathrm{mean}_g\{l/(s_1 l + s_2 Z)\}}
             {\mathrm{mean}_p\{1/(s_1 l + s_2 Z)\}}$, $l = \tilde p/g$.
Error.       $\frac{\mathrm{Var}_g f_1}{n_2 (E f_1)^2} + \tau\frac{\mathrm{Var}_p f_2}{n_1 (E f_2)^2}$, the
             squared relative error, with $\tau$ the autocorrelation time of the posterior draws' terms.
Halves.      $g$ is fitted to the first half of the draws, the identity uses the second: none is used twice.
Cost.        One density per draw of the second half and per proposal; the iteration is scalar.
References.  Meng and Wong (1996); Fruhwirth-Schnatter (2004); Gronau et al. (2017).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tractable.bijections.support import Rebuild
from tractable.core.checks import as_float, check, check_count, check_entries, check_finite
from tractable.core.iterate import run_until
from tractable.core.keys import takes_key
from tractable.core.numerics import log_mean_exp
from tractable.core.programs import as_data, program
from tractable.core.types import Array, ArrayLike, Key, Scalar
from tractable.distributions.gaussian import Gaussian
from tractable.inference.posterior import Posterior
from tractable.inference.target import FlatTarget, freed
from tractable.inference.trust.autocorrelation import autocorrelation_time
from tractable.inference.trust.evidence import Evidence, Grounds
from tractable.inference.weighted.importance import Proposal

__all__ = ["bridge_evidence"]


@takes_key
def bridge_evidence(
    log_density: Callable[..., Any],
    draws: "ArrayLike | Posterior",
    *,
    key: Key,
    proposal: Proposal | None = None,
    num_proposals: int | None = None,
    args: tuple = (),
    max_steps: int = 1000,
    tol: float = 1e-10,
) -> Evidence:
    r"""$\log\int\tilde p$ for $\tilde p$ = `exp(log_density(x, *args))`, from draws of $\tilde p/Z$ in order.

    `draws` is a posterior of `mcmc`, whose density is that of its variables as they are; or an array of shape
    `(n, d)` or `(chains, n, d)` of free real numbers: for constrained parameters, those of
    `bijections.unconstrain`, with the log-determinant in `log_density`. The `proposal`
    (default: the Gaussian with the moments of the first halves) gives as many draws as the second halves
    have.

    >>> import jax.random as jr
    >>> draws = jr.normal(jr.key(0), (4000, 1))
    >>> found = bridge_evidence(lambda x: -0.5 * x @ x, draws, key=jr.key(1))  # log sqrt(2 pi) = 0.918939
    >>> bool(abs(found.value - 0.918939) < 5 * found.standard_error)
    True
    """
    if isinstance(draws, Posterior):
        if not isinstance(log_density, FlatTarget):
            log_density = FlatTarget(log_density, None, _map_of(draws), tuple(args))
        draws, args = _freed_draws(log_density.rebuild, draws._drawn()), ()
    chains = as_float("draws", draws)
    check(chains.ndim in (2, 3), "draws", "of shape (n, d) or (chains, n, d)", f"shape {chains.shape}")
    check_finite("draws", chains)
    chains = chains if chains.ndim == 3 else chains[None]
    half, d = chains.shape[1] // 2, chains.shape[2]
    enough = chains.shape[0] * half > d + 1 and half >= 4
    check(enough, "draws", f"more than {2 * (d + 2)} draws, eight or more per chain", f"shape {chains.shape}")
    first, second = chains[:, :half].reshape((-1, d)), chains[:, half:]
    fitted = Gaussian.fit(first, ddof=1) if proposal is None else proposal
    count = second.shape[0] * second.shape[1]
    num = count if num_proposals is None else check_count("num_proposals", num_proposals, least=2)
    ours, theirs = _log_ratios(log_density, second, fitted, key, num, as_data(args))
    must = "finite at every draw of the posterior"
    check_entries("log_density", ours, np.isfinite, must, got="a log-ratio of {}")
    check(not bool(jnp.isnan(theirs).any()), "log_density", "not NaN at draws of the proposal", "NaN")
    return _bridge(ours, theirs, jnp.asarray(tol), max_steps)


def _map_of(post: Any) -> Rebuild:
    fix = "Give the draws of a run of `mcmc`, or an array of free real numbers."
    check(hasattr(post, "_rebuild"), "draws", "a posterior of chains", type(post).__name__, fix, TypeError)
    return post._rebuild()


@program
def _freed_draws(rebuild: Rebuild, draws: Any) -> Array:
    return jax.vmap(jax.vmap(lambda x: freed(rebuild, x)))(draws)


@program
def _log_ratios(
    log_density: Callable, draws: Array, proposal: Any, key: Key, num: int, args: tuple
) -> tuple[Array, Array]:
    def ratio(x):
        return jnp.asarray(log_density(x, *args), draws.dtype) - proposal.log_prob(x)

    return jax.vmap(jax.vmap(ratio))(draws), jax.vmap(ratio)(proposal.sample(key, (num,)))


@program
def _bridge(ours: Array, theirs: Array, tol: Scalar, max_steps: int) -> Evidence:
    # dependent draws are worth less: the shares count what they are worth
    worth = ours.size / autocorrelation_time(ours)
    share = worth / (worth + theirs.size)
    log_own, log_other = jnp.log(share), jnp.log1p(-share)
    flat = ours.reshape(-1)

    def denominator(logs, value):
        return jnp.logaddexp(log_own + logs, log_other + value)

    def step(value):
        above = log_mean_exp(theirs - denominator(theirs, value))
        return above - log_mean_exp(-denominator(flat, value)), value

    found = run_until(step, jnp.median(flat), max_steps=max_steps, tol=tol)
    value = found.state
    f_one = jnp.exp(theirs - denominator(theirs, value))
    f_two = jnp.exp(value - denominator(ours, value))
    spread = f_one.var(ddof=1) / (theirs.size * f_one.mean() ** 2)
    own = autocorrelation_time(f_two) * f_two.var(ddof=1) / (flat.size * f_two.mean() ** 2)
    error, unknown = jnp.sqrt(spread + own), Grounds("unknown")
    return Evidence(value, error, found.code, method="bridge sampling", grounds=unknown)
