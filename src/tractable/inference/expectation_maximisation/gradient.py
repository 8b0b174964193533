r"""Climbing the evidence by gradients instead of EM, in the free coordinates of the model.

Identity.    $\nabla_\theta \log p(X \mid \theta) = \nabla_\theta Q(\theta, \theta')$ at $\theta' = \theta$;
             for mixture weights $\theta_k = e^{\lambda_k}/\sum_j e^{\lambda_j}$ it is
             $\sum_n p(z = k \mid x_n) - N\theta_k$.
Cost.        One pass over the rows per value and gradient. Near a maximum, L-BFGS converges faster than EM
             where much of the information about the labels is missing.
References.  Salakhutdinov, Roweis and Ghahramani (2003).
"""

from typing import Any

import jax.numpy as jnp

from tractable.bijections.support import unconstrain
from tractable.core.checks import check
from tractable.core.chunks import pad_rows
from tractable.core.interfaces import HasEM
from tractable.core.iterate import Run
from tractable.core.module import Module, field
from tractable.core.types import Array, ArrayLike, Scalar
from tractable.inference.expectation_maximisation.em import log_prior
from tractable.optim.minimise import minimise
from tractable.optim.objective import Method
from tractable.optim.quasi_newton import LBFGS

__all__ = ["EvidenceAscent"]


class EvidenceAscent(Module):
    """Options of gradient ascent on the log-evidence; `fit` runs it like `EM`.

    `method` is any minimiser of `optim`; constraints hold at every step, since the steps are in free
    coordinates.
    """

    method: Method = LBFGS()
    tol: float = 1e-8
    max_steps: int = field(static=True, default=500)

    def fit(self, model: Any, data: Any, *, weights: ArrayLike | None = None) -> Run:
        """The fitted model as `run.state`, with the objective of each step as `run.trace`."""
        check(isinstance(model, HasEM), "model", "one with `e_step` and `m_step`", type(model).__name__)
        rows, weights = pad_rows(jnp.asarray(data), weights)
        real, rebuild = unconstrain(model)
        args = (rebuild, rows, weights)
        found = minimise(
            _loss, real, self.method, args=args, max_steps=self.max_steps, tol=self.tol, curvature=False
        )
        return Run(rebuild(found.state)[0], -found.trace * weights.sum(), found.num_steps, found.code)


def _loss(real: Array, rebuild: Any, rows: Any, weights: Array) -> Scalar:
    """The negative objective per unit of weight, so that the tolerance does not depend on the number of
    rows."""
    model = rebuild(real)[0]
    return -(model.e_step(rows, weights)[1] + log_prior(model)) / weights.sum()
