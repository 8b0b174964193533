r"""The Gaussian that Laplace's approximation puts at a mode: draws, densities, predictions, a verdict.

Gaussian.    $N(u_0, A^{-1})$ in free coordinates $u$; a density of the parameters $\theta = T(u)$ by
             $-\log|\det\partial T/\partial u|$.
Evidence.    $\log Z \approx \log f(u_0) + \tfrac d2 \log 2\pi - \tfrac12 \log|A|$.
Predictive.  $g(\theta) \approx N(g(\theta_0), J A^{-1} J^\top)$ with $J = \partial g/\partial u$ at the mode.
Verdict.     $A$ must be positive definite; the remaining gradient is measured in posterior deviations,
             $\sqrt{g^\top A^{-1} g}$; importance weights must say that next to no mass is missed
             (`inference.weighted.second_look`), and agree on $\log Z$. The skewness along each axis of the
             Gaussian is zero for a Gaussian, and the error of $\log Z$ about $5/24$ of its square.
Cost.        One solve with $A$ per output or draw.
References.  MacKay (1992); Tierney and Kadane (1986); Immer, Korzepa and Bauer (2021).
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.flatten_util import ravel_pytree

from tractable.bijections.support import Rebuild, unconstrain
from tractable.core.checks import check, is_concrete
from tractable.core.iterate import Ended
from tractable.core.keys import takes_key
from tractable.core.linalg import symmetrise
from tractable.core.numerics import logsumexp
from tractable.core.programs import program
from tractable.core.types import Array, Float, Int, Key, PyTree, Scalar, Shape
from tractable.core.verdict import Verdict
from tractable.distributions.gaussian import Gaussian
from tractable.inference.curvature.precision import Precision
from tractable.inference.posterior import Posterior, as_one_chain
from tractable.inference.target import rebuilt
from tractable.inference.trust.evidence import Evidence
from tractable.inference.weighted.second_look import SecondLook

__all__ = ["NEAR", "LaplacePosterior"]

NEAR = 1e-3  # posterior deviations from the exact mode that still count as being there
_FAR_OFF = 0.1  # of the log-evidence, by importance weights
_SKEWED = 0.5  # at this skewness the log-evidence is off by about 0.05
_DRAWS = 4000  # that stand for the Gaussian where draws are asked for
_LOG_2PI = float(np.log(2 * np.pi))
_FIX = (
    "Reparametrise or add a prior, give other starts, or take `curvature='diagonal'` or a Gauss-Newton one."
)


class LaplacePosterior(Ended, Posterior):
    """The Gaussian at a mode, in free coordinates, with its evidence and its verdict.

    `others` holds the usable approximations at separate, smaller modes that other starts led to.
    `status` is `converged` wherever the mode is met within rounding.
    """

    centre: Float[Array, " d"]
    precision: Precision
    log_height: Scalar
    offset: Scalar
    skewness: Float[Array, " k"]
    rebuild: Rebuild
    supports: Any
    code: Int[Array, ""]
    others: tuple["LaplacePosterior", ...] = ()
    look: SecondLook | None = None
    _shown = ("mode", "log_evidence")

    @property
    def ok(self) -> bool:
        """Whether there is a Gaussian at all: a mode was found and the curvature is positive definite."""
        return bool(_facts(self)[0]) and float(self.offset) <= NEAR

    @property
    def skewed(self) -> bool:
        """Whether the density leans so far along some axis that the evidence is in doubt."""
        return self._worst > _SKEWED

    @property
    def verdict(self) -> Verdict:
        """What a person should know before using the result."""
        numbers = {"offset": self.offset, "log_height": self.log_height}
        if not self.ok or self.look is None:
            return Verdict(False, self._sentence(), numbers)
        found, error = self.look.verdict, float(self.log_evidence.standard_error)
        numbers |= found.numbers | {"log_evidence_error": error}
        return Verdict(found.ok and error <= _FAR_OFF, self._sentence(), numbers)

    def _sentence(self) -> str:
        if not np.isfinite(float(self.log_height)):
            return f"No mode: {self.status.sentence}"
        if not bool(_facts(self)[0]):
            return (
                f"Not positive definite: the smallest curvature at the end of the search is "
                f"{float(_facts(self)[1]):.3g} (a saddle, a flat direction or a boundary). {_FIX}"
            )
        if not float(self.offset) <= NEAR:
            return (
                f"Not at the mode: {float(self.offset):.3g} posterior deviations away. {self.status.sentence}"
            )
        lines = ["Mode found and curvature positive definite."]
        if self.skewed:
            worst = self._worst
            error = f"may be off by about {5 / 24 * worst**2:.2g}" if worst < 2 else "is not to be trusted"
            lines.append(
                f"Skewed: {worst:.2g} along one axis, so that the log-evidence {error}; "
                "check it with importance sampling, or change coordinates."
            )
        lines.append(self._certificate())
        if self.others:
            share = 1 - np.exp(float(_facts(self)[2]) - float(self.total_log_evidence))
            lines.append(f"{len(self.others)} separate mode(s) besides, with {share:.3g} of the mass found.")
        return " ".join(lines)

    def _certificate(self) -> str:
        if self.look is None:
            return "Not certified: no importance weights were taken (`num_eval`)."
        error = float(self.log_evidence.standard_error)
        if self.look.verdict.ok and error > _FAR_OFF:
            return f"Not certified: by importance weights the log-evidence is off by about {error:.2g}."
        return self.look.verdict.sentence

    def _chains(self) -> PyTree:
        return as_one_chain(self.sample(jr.key(0), (_DRAWS,)))

    def _weighted_draws(self) -> tuple[PyTree, Any] | None:
        return None if self.look is None else (rebuilt(self.rebuild, self.look.draws), self.look.log_weights)

    @property
    def log_evidence(self) -> Evidence:
        r"""$\log f(u_0) + \tfrac d2 \log 2\pi - \tfrac12\log|A|$ of this mode alone.

        Its error is the distance to the importance estimate, with the error of that; where there is none, an
        estimate of the first term that is left out, $\tfrac5{24}$ of the squared skewness.
        """
        self._require("log_evidence")
        value, error = _facts(self)[2], 5 / 24 * self._worst**2
        if self.look is not None:
            better = self.look.log_evidence
            error = jnp.hypot(value - better.value, better.standard_error)
        return self._evidence(value, error, "Laplace's approximation", self.code)

    @property
    def total_log_evidence(self) -> Scalar:
        """The log of the sum of the evidences of all separate modes that were found."""
        return logsumexp(jnp.stack([_facts(mode)[2] for mode in (self, *self.others)]))

    @property
    def mode(self) -> PyTree:
        """The mode, in the shape of the start."""
        return self.rebuild(self.centre)[0]

    @property
    def gaussian(self) -> Gaussian:
        """The Gaussian in free coordinates, with a dense covariance; `rebuild.names` names the entries."""
        self._require("gaussian")
        return Gaussian(self.centre, _covariance(self.precision))

    @takes_key
    def sample(self, key: Key, shape: Shape = ()) -> PyTree:
        """Draws in the shape of the start, with leading axes `shape`."""
        self._require("sample")
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        return _sample(self, key, shape)

    def log_prob(self, x: PyTree) -> Array:
        """The log-density of the approximation at points shaped like the start, leading axes welcome."""
        self._require("log_prob")
        inner = [jnp.ndim(leaf) for leaf in jax.tree.leaves(self.mode)]
        outer = [jnp.ndim(leaf) for leaf in jax.tree.leaves(x)]
        lead = {b - a for a, b in zip(inner, outer)}
        same = len(inner) == len(outer) and len(lead) == 1 and min(lead) >= 0
        check(same, "x", "shaped like the start, with the same leading axes on all leaves", outer)
        return _log_prob(self, x, lead.pop())

    def predictive(self, function: Callable[..., Any], *args: Any) -> Gaussian:
        r"""The linearised predictive $N(g, J A^{-1} J^\top)$ of `function(parameters, *args)`, outputs flat.

        For a stack of inputs, `jax.vmap` this method over `args`.
        """
        self._require("predictive")
        return _linearised(self, function, args)

    @property
    def _worst(self) -> float:
        return float(np.abs(np.asarray(self.skewness)).max(initial=0.0))

    def _require(self, what: str) -> None:
        if is_concrete(self.centre) and not self.ok:
            check(False, what, "asked of a result that is `ok`", self.verdict)


@program
def _facts(post: LaplacePosterior) -> tuple[Array, Array, Scalar]:
    """Whether the precision is positive definite, its smallest eigenvalue, and the log of the mass."""
    precision = post.precision
    log_mass = post.log_height + 0.5 * (post.centre.size * _LOG_2PI - precision.log_det())
    return precision.positive, precision.smallest, log_mass


@program
def _covariance(precision: Precision) -> Array:
    return precision.covariance()


@program
def _sample(post: LaplacePosterior, key: Key, shape: Shape) -> PyTree:
    def draw(z):
        return post.rebuild(post.centre + post.precision.root(z))[0]

    for _ in shape:
        draw = eqx.filter_vmap(draw)
    return draw(jr.normal(key, (*shape, post.centre.size), post.centre.dtype))


@program
def _log_prob(post: LaplacePosterior, x: PyTree, lead: int) -> Array:
    def one(x):
        u, rebuild = unconstrain(x, post.supports)
        gap = post.precision.quadratic(u - post.centre)
        log_normal = 0.5 * (post.precision.log_det() - post.centre.size * _LOG_2PI - gap)
        return log_normal - rebuild(u)[1]

    for _ in range(lead):
        one = eqx.filter_vmap(one)
    return one(x)


@program
def _linearised(post: LaplacePosterior, function: Callable[..., Any], args: tuple) -> Gaussian:
    def outputs(u):
        return ravel_pytree(function(post.rebuild(u)[0], *args))[0]

    mean, pull = jax.vjp(outputs, post.centre)
    rows = jax.vmap(lambda e: pull(e)[0])(jnp.eye(mean.size, dtype=mean.dtype))
    return Gaussian(mean, symmetrise(rows @ jax.vmap(post.precision.solve)(rows).T))
