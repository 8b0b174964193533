r"""EM with labels that are chosen or drawn: hard, stochastic and Monte Carlo EM.

E-step.      The posterior of each row's label is replaced by its mode (hard), by one draw (stochastic) or by
             the shares of many draws (Monte Carlo, which tends to EM as their number grows).
Contract.    A model with `log_joint(rows)`, of one column per label, and `labelled_stats(rows, shares)`; or,
             for hard EM, one with `hard_e_step(rows, weights)`, such as a hidden Markov model.
Cost.        One pass over the rows per step, in one compiled program.
References.  Celeux and Govaert (1992); Celeux and Diebolt (1985); Wei and Tanner (1990).
"""

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import check, check_count
from tractable.core.chunks import pad_rows
from tractable.core.iterate import Run, run, run_until
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.numerics import logsumexp, one_hot
from tractable.core.programs import program
from tractable.core.types import Array, ArrayLike, Float, Key, Scalar
from tractable.inference.expectation_maximisation.em import EM

__all__ = ["HardEM", "LabelTrace", "MonteCarloEM", "StochasticEM", "emptied_components"]


class LabelTrace(NamedTuple):
    """What sampled EM records at each step: the log-evidence, and the weight of rows in each component."""

    log_evidence: Float[Array, " steps"]
    counts: Float[Array, "steps k"]


class HardEM(Module):
    r"""Each row belongs wholly to its most probable component: climbs $\sum_n \max_k \log p(x_n, z_n = k)$.

    With Gaussians of one fixed spherical covariance and equal weights this is k-means.
    """

    max_steps: int = field(static=True, default=200)
    tol: float = 1e-12

    def fit(self, model: Any, data: Any, *, weights: ArrayLike | None = None) -> Run:
        """The fitted model as `run.state`, with the classification log-likelihood of each step."""
        if hasattr(model, "hard_e_step"):
            climbed = EM(self.tol, self.max_steps).fit(_Chosen(model), data, weights=weights)
            return Run(climbed.state.model, climbed.trace, climbed.num_steps, climbed.code)
        rows, weights = _rows(model, data, weights)
        return _hard(model, rows, weights, jnp.asarray(self.tol), check_count("max_steps", self.max_steps))


class _Chosen(Module):
    """A model whose E-step takes the best configuration of what is hidden: of a sequence, its best path."""

    model: Any
    on_host: ClassVar[bool] = True

    @property
    def gathered(self) -> Any:
        return getattr(self.model, "gathered", None)

    def e_step(self, rows: Any, weights: Any) -> Any:
        return self.model.hard_e_step(rows, weights)

    def m_step(self, stats: Any) -> "_Chosen":
        return _Chosen(self.model.m_step(stats))


class StochasticEM(Module):
    """Each row goes to one component, drawn from its posterior; the evidence wanders about a maximum.

    A component left without rows gets weight zero and never comes back: see `emptied_components`.
    """

    num_steps: int = field(static=True, default=200)

    @takes_key
    def fit(self, model: Any, data: Any, *, key: Key, weights: ArrayLike | None = None) -> Run:
        """The last model as `run.state`, with a `LabelTrace`."""
        rows, weights = _rows(model, data, weights)
        return _sampled(self, model, rows, weights, key)

    def _shares(self, key: Key, joint: Float[Array, "n k"]) -> Float[Array, "n k"]:
        return one_hot(jr.categorical(key, joint), joint.shape[-1])


class MonteCarloEM(StochasticEM):
    """The average over `num_draws` drawn labellings: EM itself, with noise of order one over their root."""

    num_draws: int = field(static=True, default=32)

    def _shares(self, key, joint):
        draws = jr.categorical(key, joint, shape=(self.num_draws, joint.shape[0]))
        return one_hot(draws, joint.shape[-1]).mean(0)


def emptied_components(run: Run) -> list[int]:
    """The components that sampled EM has left without rows, which nothing brings back."""
    counts = np.asarray(run.trace.counts)
    return np.flatnonzero(counts[-1] == 0).tolist()


def _rows(model: Any, data: Any, weights: Any) -> tuple[Array, Array]:
    labelled = hasattr(model, "log_joint") and hasattr(model, "labelled_stats")
    check(labelled, "model", "one with `log_joint` and `labelled_stats`", type(model).__name__)
    return pad_rows(jnp.asarray(data), weights)


@program
def _hard(model: Any, rows: Array, weights: Array, tol: Scalar, max_steps: int) -> Run:
    dynamic, static = eqx.partition(model, eqx.is_array)

    def step(dynamic):
        model = eqx.combine(dynamic, static)
        joint = model.log_joint(rows)
        shares = weights[:, None] * one_hot(joint.argmax(-1), joint.shape[-1])
        better = model.m_step(model.labelled_stats(rows, shares))
        return eqx.filter(better, eqx.is_array), weights @ jnp.where(weights > 0, joint.max(-1), 0.0)

    found = run_until(step, dynamic, max_steps=max_steps, tol=tol)
    return Run(eqx.combine(found.state, static), found.trace, found.num_steps, found.code)


@program
def _sampled(algorithm: StochasticEM, model: Any, rows: Array, weights: Array, key: Key) -> Run:
    dynamic, static = eqx.partition(model, eqx.is_array)

    def step(dynamic, key):
        model = eqx.combine(dynamic, static)
        joint = model.log_joint(rows)
        shares = weights[:, None] * algorithm._shares(key, joint)
        evidence = weights @ jnp.where(weights > 0, logsumexp(joint, axis=-1), 0.0)
        better = model.m_step(model.labelled_stats(rows, shares))
        return eqx.filter(better, eqx.is_array), LabelTrace(evidence, shares.sum(0))

    found = run(step, dynamic, jr.split(key, algorithm.num_steps))
    return Run(eqx.combine(found.state, static), found.trace, found.num_steps, found.code)
