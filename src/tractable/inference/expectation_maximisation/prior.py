r"""Models that change EM's M-step: with a conjugate prior (posterior mode), or only climbing (generalised
EM).

Prior.       A conjugate prior is worth the statistics of imaginary rows; adding them gives the posterior mode
             of $\log p(X \mid \theta) + E[\log p(\text{imaginary rows} \mid \theta)]$.
Partial.     Any $\theta$ with $Q(\theta, \theta') \ge Q(\theta', \theta')$ raises the evidence too.
Cost.        That of the model's own steps; a partial M-step costs a few gradients of `expected_log_joint`.
References.  Dempster, Laird and Rubin (1977); Diaconis and Ylvisaker (1979).
"""

from typing import Any

import jax
import jax.numpy as jnp

from tractable.bijections.support import unconstrain
from tractable.core.iterate import run
from tractable.core.module import Module, field
from tractable.core.types import Array, Scalar, Values
from tractable.optim.objective import Objective
from tractable.optim.quasi_newton import LBFGS

__all__ = ["Partial", "WithPrior"]


class WithPrior(Module):
    r"""A model whose M-step gives the posterior mode; `pseudo` holds the statistics of imaginary rows.

    The log-prior is, up to a constant, `model.expected_log_joint(pseudo)`: a Dirichlet with concentrations
    $a$ on the weights of a mixture is worth $a - 1$ imaginary rows in each component.
    """

    model: Any
    pseudo: Any

    @property
    def on_host(self) -> bool:
        """Whether the model's own steps are ordinary Python."""
        return getattr(self.model, "on_host", False)

    @property
    def gathered(self) -> Any:
        """How the model's own data are held, where it says so."""
        return getattr(self.model, "gathered", None)

    def e_step(self, rows: Any, weights: Values) -> Any:
        """The model's own."""
        return self.model.e_step(rows, weights)

    def m_step(self, stats: Any) -> "WithPrior":
        """The model of highest posterior density."""
        return WithPrior(self.model.m_step(jax.tree.map(jnp.add, stats, self.pseudo)), self.pseudo)

    def log_prior(self) -> Scalar:
        """What the imaginary rows say of the parameters."""
        return self.model.expected_log_joint(self.pseudo)


class Partial(Module):
    """A model whose M-step takes a few L-BFGS steps on the expected log-joint, in free coordinates."""

    model: Any
    num_steps: int = field(static=True, default=3)

    def e_step(self, rows: Any, weights: Values) -> Any:
        """The model's own."""
        return self.model.e_step(rows, weights)

    def m_step(self, stats: Any) -> "Partial":
        """A model of higher expected log-joint."""
        real, rebuild = unconstrain(self.model)
        objective = Objective(_negative_expected_log_joint, lambda x: x, (rebuild, stats))
        method = LBFGS()

        def climb(iterate, _):
            return method.step(objective, iterate), None

        reached = run(climb, method.init(objective, real), num_steps=self.num_steps).state
        return Partial(rebuild(reached.point)[0], self.num_steps)


def _negative_expected_log_joint(x: Array, rebuild: Any, stats: Any) -> Scalar:
    return -rebuild(x)[0].expected_log_joint(stats)
