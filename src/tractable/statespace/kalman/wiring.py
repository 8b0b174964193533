r"""From a linear-Gaussian system to chains: shifts from inputs, and noises that are correlated.

Inputs.      $b_t = b + B u_t$ before the step from $t$ to $t + 1$, and $c_t = c + D u_t$ at the reading.
Correlated.  With $\mathrm{Cov}[w_t, v_t] = N$ the noise $w_t - N R^{-1} v_t$ is independent of the reading,
             so $x_{t+1} = (A - N R^{-1} C) x_t + b + N R^{-1}(y_t - c) + w^*_t$ with $\mathrm{Cov}[w^*] = Q
             - N R^{-1} N^\top$: the same model, with readings as inputs. Where entries are missing, $N$, $R$
             and $C$ are those of the entries that were seen.
Cost.        $O(T(d + m)^3)$ for correlated noises with gaps, once without gaps.
References.  Anderson and Moore (1979) section 5.5; Durbin and Koopman (2012) section 6.6.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from tractable.core.checks import check
from tractable.distributions.gaussian import Gaussian
from tractable.distributions.linear_gaussian import LinearGaussian
from tractable.messages.gaussian_chain import GaussianChain
from tractable.messages.gaussian_host import HostChain

__all__ = ["compiled_chain", "host_chain", "uncorrelated"]


def host_chain(system: Any, times: int, inputs: np.ndarray | None = None) -> HostChain:
    """The chain of `times` readings with `inputs` `(T, 1 or N, k)`."""
    A, Q, C, R = (np.asarray(leaf, float) for leaf in system.matrices)
    b, c = (np.asarray(leaf, float) for leaf in system.offsets)
    stacked = [leaf if leaf.ndim == 3 else leaf[None] for leaf in (A, Q, C, R)]
    for name, leaf, short in zip(system.names, stacked, (1, 1, 0, 0)):
        count = len(leaf)
        must = f"as long as the matrices of `{name}` allow ({count + short} times)"
        check(count in (1, times - short) or (times == 1 and short > 0), "y", must, f"{times} times")
    shifts = [(leaf if leaf.ndim == 2 else leaf[None])[:, None] for leaf in (b, c)]
    shifts = [
        leaf[: times - short] if len(leaf) > 1 else leaf for leaf, short in zip(shifts, (1, 0), strict=True)
    ]
    given = system.transition_input is not None or system.observation_input is not None
    check(given == (inputs is not None), "inputs", _must(given), "none" if inputs is None else "some")
    if inputs is not None:
        check(len(inputs) == times, "inputs", f"of {times} times, like `y`", f"{len(inputs)} times")
        if system.transition_input is not None:
            shifts[0] = shifts[0] + inputs[:-1] @ np.asarray(system.transition_input).T
        if system.observation_input is not None:
            shifts[1] = shifts[1] + inputs @ np.asarray(system.observation_input).T
    mean, cov = np.asarray(system.initial_mean, float), np.asarray(system.initial_cov, float)
    A, Q, C, R = stacked
    return HostChain(mean[None], cov, A, shifts[0], Q, C, shifts[1], R)


def uncorrelated(chain: HostChain, noise: np.ndarray, ys: np.ndarray) -> HostChain:
    """The same model with independent noises, for readings `(T, N, m)` with the same gaps in all series."""
    times = len(ys)
    seen = ~np.isnan(ys[:, 0])
    fixed = chain.is_constant and bool(seen[:-1].all())
    count = 1 if fixed else max(times - 1, 1)
    A, Q, gains = [], [], []
    for t in range(count):
        here = np.flatnonzero(seen[t])
        C, R = chain.C[min(t, len(chain.C) - 1)], chain.R[min(t, len(chain.R) - 1)]
        gain = np.zeros((len(noise), len(R)))
        if len(here):
            gain[:, here] = np.linalg.solve(R[np.ix_(here, here)], noise[:, here].T).T
        A.append(chain.A[min(t, len(chain.A) - 1)] - gain @ C)
        left = chain.Q[min(t, len(chain.Q) - 1)] - gain[:, here] @ noise[:, here].T
        Q.append(0.5 * (left + left.T))
        gains.append(gain)
    centred = np.where(np.isnan(ys), 0.0, ys - chain.c)[:-1]  # what is missing moves nothing
    b = chain.b + centred @ np.swapaxes(np.stack(gains), 1, 2)
    return chain._replace(A=np.stack(A), Q=np.stack(Q), b=b)


def compiled_chain(chain: HostChain, series: int) -> GaussianChain:
    """One series of a host chain as the chain that is compiled."""

    def one(leaf: np.ndarray, rank: int) -> Any:
        leaf = leaf[:, min(series, leaf.shape[1] - 1)] if rank == 1 else leaf
        return jnp.asarray(leaf[0] if len(leaf) == 1 else leaf)

    return GaussianChain(
        Gaussian(jnp.asarray(chain.mean[0]), jnp.asarray(chain.cov)),
        LinearGaussian(one(chain.A, 2), one(chain.b, 1), one(chain.Q, 2)),
        LinearGaussian(one(chain.C, 2), one(chain.c, 1), one(chain.R, 2)),
    )


def _must(given: bool) -> str:
    return (
        "given for a system with input matrices" if given else "left out for a system without input matrices"
    )
