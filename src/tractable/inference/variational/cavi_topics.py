r"""The local updates of latent Dirichlet allocation: which topics one document uses.

Model.       $\theta \sim \mathrm{Dir}(\alpha)$, each word $z \sim \theta$, $w \mid z = k \sim \beta_k$;
             $q(\theta)\prod q(z) = \mathrm{Dir}(\gamma)\prod\phi$.
Updates.     $\phi_{vk} \propto \exp\{\psi(\gamma_k) + E\log\beta_{kv}\}$, $\gamma_k = \alpha_k + \sum_v
             n_v\phi_{vk}$, until the bound settles.
Bound.       $\sum_v n_v\log\sum_k\exp\{E\log\theta_k + E\log\beta_{kv}\} - \mathrm{KL}(\mathrm{Dir}(\gamma)
             \| \mathrm{Dir}(\alpha))$ at the best $\phi$; with `log_topics` $= \log\beta$ it bounds $\log
             p(w)$.
Statistics.  $n_v\phi_{vk}$ adds over documents: the posterior of topic $k$ is $\mathrm{Dir}(\eta + \sum)$.
Cost.        $O(vk)$ per update.
References.  Blei, Ng and Jordan (2003); Hoffman, Blei and Bach (2010).
"""

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import digamma

from tractable.core.checks import as_float, check, check_count, check_shape, is_concrete
from tractable.core.iterate import run_until
from tractable.core.module import Module
from tractable.core.numerics import logsumexp, softmax
from tractable.core.programs import program
from tractable.core.types import Array, ArrayLike, Float, Int, Scalar
from tractable.distributions.divergence import kl
from tractable.distributions.multivariate import Dirichlet
from tractable.inference.variational.cavi import never_falls

__all__ = ["TopicShares", "expected_log_topics", "topic_shares"]


class TopicShares(Module):
    """What one document says: its topics, the topic of each of its words, and the bound."""

    proportions: Dirichlet
    assignments: Float[Array, "v k"]
    statistics: Float[Array, "k v"]  # expected counts of words by topic: they add over documents
    bound: Scalar
    trace: Float[Array, " n"]
    num_steps: Int[Array, ""]
    code: Int[Array, ""]


def topic_shares(
    counts: ArrayLike,
    log_topics: ArrayLike,
    concentration: ArrayLike,
    *,
    max_steps: int = 200,
    tol: float = 1e-10,
) -> TopicShares:
    r"""The local posterior of one document with word `counts`, given $E\log\beta$ = `log_topics` (k by v).

    Documents are independent: use `jax.vmap` over the counts for many.
    """
    n, logs, alpha = as_float("counts", counts), as_float("log_topics", log_topics), concentration
    check(logs.ndim == 2, "log_topics", "a matrix, one row per topic", f"shape {logs.shape}")
    check_shape("counts", n, (logs.shape[1],), "One count per word, as `log_topics` has columns.")
    if is_concrete(n):
        ok = bool((np.asarray(n) >= 0).all() and np.isfinite(np.asarray(n)).all())
        check(ok, "counts", "zero or positive", np.asarray(n).min())
    alpha = jnp.broadcast_to(as_float("concentration", alpha), logs.shape[:1])
    return _topic_shares(n, logs, alpha, check_count("max_steps", max_steps), jnp.asarray(tol))


def expected_log_topics(concentration: Float[Array, "k v"]) -> Float[Array, "k v"]:
    r"""$E\log\beta_{kv} = \psi(\lambda_{kv}) - \psi(\sum_v\lambda_{kv})$ for topics $\beta_k \sim
    \mathrm{Dir}(\lambda_k)$."""
    return digamma(concentration) - digamma(concentration.sum(-1, keepdims=True))


@program
def _topic_shares(n: Array, logs: Array, alpha: Array, max_steps: int, tol: Array) -> TopicShares:
    def joint(gamma: Array) -> Array:
        return expected_log_topics(gamma[None])[0][None] + logs.T

    def bound(gamma: Array) -> Scalar:
        words = logsumexp(joint(gamma), axis=1)
        present = n > 0  # a word that does not occur may be impossible in every topic
        return jnp.where(present, n * jnp.where(present, words, 0.0), 0.0).sum() - kl(
            Dirichlet(gamma), Dirichlet(alpha)
        )

    def weigh(gamma: Array) -> Array:
        return jnp.where(n[:, None] > 0, softmax(joint(gamma)), 0.0)

    def step(gamma: Array) -> tuple[Array, Scalar]:
        gamma = alpha + (n[:, None] * weigh(gamma)).sum(0)
        return gamma, bound(gamma)

    start = alpha + n.sum() / alpha.shape[0]
    found = run_until(step, start, max_steps=max_steps, tol=tol)
    shares = weigh(found.state)
    code = never_falls(found.trace, found.code)
    statistics = (n[:, None] * shares).T
    final = bound(found.state)
    return TopicShares(Dirichlet(found.state), shares, statistics, final, found.trace, found.num_steps, code)
