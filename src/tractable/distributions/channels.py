r"""Discrete channels: the variational lower bound on the information they carry, and their capacity.

Bound.       $I(C; X) \ge H(C) + E[\log q(c \mid x)]$, with equality at the posterior $q = p(c \mid x)$.
Capacity.    $C = \max_{p(x)} I(X; Y)$, by $p(x) \leftarrow p(x)\,e^{D_x} / \sum_{x'} p(x')\,e^{D_{x'}}$ with
             $D_x = \mathrm{KL}(p(\cdot \mid x)\,\|\,p(y))$.
Cost.        Linear in the cells of the channel, per step.
References.  Barber and Agakov (2003); Blahut (1972); Arimoto (1972).
"""

import jax
import jax.numpy as jnp
import numpy as np

from tractable.core.checks import as_float, check, check_entries, is_concrete
from tractable.core.iterate import Run, run_until
from tractable.core.module import Module
from tractable.core.numerics import logsumexp, safe_log, softmax
from tractable.core.support import simplex
from tractable.core.types import Array, Float, Scalar
from tractable.distributions.divergence import kl_probs
from tractable.distributions.information import Base, Numbers, as_probabilities, entropy, in_base

__all__ = ["Capacity", "channel_capacity", "mutual_information_lower_bound"]


class Capacity(Module):
    r"""A lower and an upper bound on $\max_{p(x)} I(X; Y)$ in nats, and the input that attains the lower."""

    lower: Scalar
    upper: Scalar
    probs: Float[Array, " inputs"]


def mutual_information_lower_bound(
    prior: Numbers, channel: Numbers, decoder: Numbers, base: Base = None
) -> Scalar:
    r"""$H(C) + \sum_{c, x} p(c)\,p(x \mid c) \log q(c \mid x) \le I(C; X)$, equal at the posterior.

    `prior[c]`, `channel[c, x]` = $p(x \mid c)$, `decoder[x, c]` = $q(c \mid x)$. It is $-\infty$ where
    `decoder` excludes a pair that occurs.
    """
    p, p_x, q = (
        as_probabilities("prior", prior),
        _conditional("channel", channel),
        _conditional("decoder", decoder),
    )
    fits = p_x.shape[0] == p.size and q.shape == p_x.shape[::-1]
    must = f"one row per column of `channel` {p_x.shape}, one column per `prior`"
    check(fits, "decoder", must, f"shape {q.shape}")
    joint = p[:, None] * p_x
    log_q = jnp.where(joint == 0, 0.0, safe_log(q).T)
    return in_base(entropy(p) + (joint * log_q).sum(), base)


def channel_capacity(channel: Numbers, *, max_steps: int = 10_000, tol: float = 1e-12) -> Run[Capacity]:
    r"""$\max_{p(x)} I(X; Y)$ for `channel[x, y]` = $p(y \mid x)$ by alternating maximisation, in nats.

    With $D_x = \mathrm{KL}(p(\cdot \mid x)\,\|\,p(y))$: $\log \sum_x p(x) e^{D_x} \le C \le \max_x D_x$ at
    every step, so the result carries its own certificate; `trace` is the lower bound, which never falls.
    """
    rows = _conditional("channel", channel)
    num_inputs = rows.shape[0]
    start = Capacity(jnp.zeros(()), jnp.full((), jnp.log(num_inputs)), jnp.full(num_inputs, 1 / num_inputs))

    def step(state: Capacity) -> tuple[Capacity, Scalar]:
        divergence = jax.vmap(kl_probs, (0, None))(rows, state.probs @ rows)
        log_weights = safe_log(state.probs) + divergence
        lower = logsumexp(log_weights)
        return Capacity(lower, divergence.max(), softmax(log_weights)), lower

    return run_until(step, start, max_steps=max_steps, tol=tol)


def _conditional(name: str, value: Numbers) -> Float[Array, "given outcomes"]:
    """A matrix whose rows are probabilities."""
    rows = as_float(name, value)
    check(
        rows.ndim == 2, name, "a matrix with one row of probabilities per given value", f"shape {rows.shape}"
    )
    if is_concrete(rows):
        values = np.asarray(rows, float)
        check_entries(name, values, simplex.contains, f"rows of {simplex.words}")
    return rows
