r"""Laplace's method for functions behind labels, of two classes or several: the mode and the evidence.

Sites.       $e^{\nu^\top f - f^\top W f/2}$ stands for the likelihood at a value of the functions: its
             quadratic there. With $S = K + W^{-1}$ the posterior mean is $K a$, $a = \nu - S^{-1} K\nu$.
Mode.        Newton's method on $\ell(f) - \frac12\sum_c f_c^\top K^{-1} f_c$ in the dual weights
             $a_c = K^{-1} f_c$, by `optim.minimise`; nothing needs $K^{-1}$.
Evidence.    $\ell(f) - \frac12 a^\top f - \frac12\log|I + K W|$ at the mode.
Cost.        One factor of $S$ per step: about six steps, or two from the sites of hyperparameters close by.
References.  Rasmussen and Williams (2006) sections 3.4 and 3.5, algorithms 3.1 and 3.3.
"""

from abc import abstractmethod
from typing import Any

import jax
import jax.numpy as jnp

from tractable.core.iterate import Run
from tractable.core.module import Module
from tractable.core.types import Array, Float, Scalar
from tractable.optim.minimise import minimise
from tractable.optim.newton import Newton

__all__ = ["Likelihood", "Sites", "dual_weights", "evidence_at", "find_mode"]


class Sites(Module):
    r"""$e^{\nu f - \tau f^2/2}$ for each row (and class), in $f$ less its prior mean; a softmax couples the
    precisions of the classes of a row.
    """

    precision: Float[Array, "*c n"]
    shift: Float[Array, "*c n"]


class Likelihood(Module):
    """The labels of the rows, as functions of the values of the functions there."""

    @abstractmethod
    def log_prob(self, value: Float[Array, "*c n"]) -> Scalar:
        """The log-probability of all labels."""

    @abstractmethod
    def sites(self, value: Float[Array, "*c n"]) -> Sites:
        """The sites of the quadratic at a value."""

    @abstractmethod
    def factor(self, gram: Float[Array, "n n"], precision: Float[Array, "*c n"]) -> Any:
        r"""The factor of $K + W^{-1}$; its `log_det` is $\log|I + K W|$."""


def dual_weights(gram: Float[Array, "n n"], factor: Any, shift: Float[Array, "*c n"]) -> Float[Array, "*c n"]:
    r"""$a = \nu - S^{-1} K\nu$: the posterior mean that the sites make is $K a$."""
    return shift - factor.solve(shift @ gram)


def find_mode(gram: Float[Array, "n n"], labels: Likelihood, start: Sites, *, max_steps: int = 100,
              tol: float) -> Run:  # fmt: skip
    """The dual weights at the mode, from no functions; the first quadratic is that of `start`, where its
    precisions are not zero.
    """
    data, options = (gram, labels, start), {"max_steps": max_steps, "tol": tol, "stop": "step"}
    options["curvature"] = False  # the posterior has one mode
    found = minimise(_depth, jnp.zeros_like(start.shift), _NEWTON, args=data, **options)
    return Run(found.state, found.trace, found.num_steps, found.code)


def evidence_at(
    gram: Float[Array, "n n"], labels: Likelihood, dual: Float[Array, "*c n"]
) -> tuple[Scalar, Any]:
    """The approximate log-evidence, and the factor of the curvature, at the dual weights of a mode."""
    value = dual @ gram
    factor = labels.factor(gram, labels.sites(value).precision)
    return labels.log_prob(value) - 0.5 * (dual * value).sum() - 0.5 * factor.log_det(), factor


def _depth(dual: Array, gram: Array, labels: Likelihood, start: Sites) -> Scalar:
    """Minus the log-posterior density of the functions $K a$."""
    value = dual @ gram
    return 0.5 * (dual * value).sum() - labels.log_prob(value)


def _step(dual: Array, gram: Array, labels: Likelihood, start: Sites) -> Array:
    begin = ~jnp.any(dual != 0) & jnp.any(start.precision > 0)
    sites = jax.tree.map(lambda a, b: jnp.where(begin, a, b), start, labels.sites(dual @ gram))
    return dual_weights(gram, labels.factor(gram, sites.precision), sites.shift) - dual


_NEWTON = Newton(direction=_step)
