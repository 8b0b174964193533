r"""The accept-reject rule: keep a proposal with probability $\min(1, r)$, from the logarithm of $r$.

Identity.    $P(\log u \le \log r) = \min(1, r)$ for $u$ uniform on $(0, 1]$. With
             $r = \tilde p(x')\,q(x \mid x') / (\tilde p(x)\,q(x' \mid x))$ it is the rule of Metropolis and
             Hastings, with $r = \tilde p(x)/(M q(x))$ that of rejection sampling.
Cost.        One random number per ratio.
References.  von Neumann (1951); Metropolis et al. (1953); Hastings (1970).
"""

import jax.numpy as jnp
import jax.random as jr

from tractable.core.checks import as_float
from tractable.core.types import Array, ArrayLike, Bool, Float, Key

__all__ = ["accept"]


def accept(key: Key, log_ratio: ArrayLike) -> tuple[Bool[Array, "..."], Float[Array, "..."]]:
    r"""Whether $\log u \le \log r$ for $u$ uniform on $(0, 1]$, and the probability $\min(1, r)$ of that.

    A ratio of 1 or more is always accepted, a ratio of 0 never; a ratio that is not a number is never
    accepted and has probability 0. An array of ratios gets independent draws.

    >>> accepted, probability = accept(jr.key(0), 800.0)
    >>> bool(accepted), float(probability)
    (True, 1.0)
    """
    log_ratio = as_float("log_ratio", log_ratio)
    # minus an exponential is log(1 - u) with u in [0, 1): at most 0, and never minus infinity, so that in
    # single precision u = 0 (one draw in eight million) does not accept a point that is nearly impossible
    log_uniform = -jr.exponential(key, log_ratio.shape, log_ratio.dtype)
    probability = jnp.where(jnp.isnan(log_ratio), 0.0, jnp.exp(jnp.minimum(log_ratio, 0.0)))
    return log_uniform <= log_ratio, probability
