r"""Posterior predictions: what the draws of a posterior say will be seen, and checks of what was.

Identity.    $p(\tilde y \mid D) = \int p(\tilde y \mid \theta)\,p(\theta \mid D)\,d\theta$: one draw of
             $\tilde y$ for each draw of $\theta$.
Check.       $P(T(\tilde y) \ge T(y) \mid D)$ of a statistic $T$: near 0 or 1, the model does not make rows
             like those observed.
Cost.        One evaluation per draw, in one program.
References.  Gelman, Meng and Stern (1996), "Posterior predictive assessment of model fitness".
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import check
from tractable.core.estimate import Estimate
from tractable.core.module import Module
from tractable.core.types import Array, Key, PyTree
from tractable.core.verdict import Verdict
from tractable.distributions.base import Distribution
from tractable.inference.joint import Pointwise
from tractable.inference.posterior import Posterior, each_draw

__all__ = ["Predicted", "predict"]


class Predicted(Posterior):
    """Draws `(chains, draws, ...)` of what is predicted, with the verdict of the posterior behind them."""

    draws: PyTree
    judgement: Verdict  # of the posterior behind them
    observed: Any = None
    _shown = ("mean", "std")

    def _chains(self) -> PyTree:
        return self.draws

    @property
    def verdict(self) -> Verdict:
        """How far to trust the posterior behind the predictions."""
        return self.judgement

    @property
    def log_evidence(self) -> Estimate:
        fix = "Ask the posterior that they were made of."
        check(False, "log_evidence", "asked of a posterior of parameters", "predictions", fix, TypeError)
        raise AssertionError

    @property
    def mean(self) -> PyTree:
        """The mean of each prediction."""
        return jax.tree.map(lambda leaf: leaf.mean((0, 1)), self.draws)

    @property
    def variance(self) -> PyTree:
        """The variance of each prediction: of the noise and of the parameters together."""
        return jax.tree.map(lambda leaf: leaf.var((0, 1), ddof=1), self.draws)

    @property
    def std(self) -> PyTree:
        """The standard deviation of each prediction."""
        return jax.tree.map(np.sqrt, self.variance)

    def interval(self, mass: float = 0.9) -> tuple[PyTree, PyTree]:
        """The central interval of each prediction that holds `mass` of its draws."""
        check(0 < mass < 1, "mass", "between 0 and 1", mass)
        low, high = (1 - mass) / 2, (1 + mass) / 2
        ends = [jax.tree.map(lambda leaf, p=p: np.quantile(leaf, p, (0, 1)), self.draws) for p in (low, high)]
        return ends[0], ends[1]

    def check(self, statistic: Callable[[Any], Any]) -> Estimate:
        """The share of replicated rows whose `statistic` is at least that of the observed ones."""
        check(self.observed is not None, "observed", "known: predictions of the rows of the run", None)
        seen = float(statistic(self.observed))
        return self.expectation(lambda rows: jnp.asarray(statistic(rows) >= seen, float))


def predict(post: Posterior, model: Any, args: tuple, key: Key | None) -> Predicted:
    """See `Posterior.predict`."""
    observed, rule = None, _Outcome(model, key is not None)
    if model is None:
        pointwise, data = post._pointwise("model")
        fix = "Give `predict` a function that returns what is to be predicted."
        check(pointwise.observes, "model", "given, for a likelihood of numbers", "none", fix)
        observed, rule = None if args else data[-1], _Rows(pointwise)
        # rows of other arguments have nothing observed: only the number of rows of a constant model is asked
        args = (*args, jnp.zeros(jnp.shape(jax.tree.leaves(args)[0])[:1])) if args else data
        check(key is not None, "key", "given: rows are drawn", None, "Pass `key=jax.random.key(0)`.")
    draws = post._drawn()
    shape = np.shape(jax.tree.leaves(draws)[0])[:2]
    keys = jr.split(jr.key(0) if key is None else key, shape)
    return Predicted(each_draw(rule, (draws, keys), args), post.verdict, observed)


class _Rows(Module):
    """New rows by the likelihood of a run."""

    pointwise: Pointwise

    def __call__(self, pair: tuple[PyTree, Key], *args: Any) -> Array:
        return self.pointwise.sample(pair[1], pair[0], *args)


class _Outcome(Module):
    """A function of a draw; where it is a distribution, a draw of that."""

    model: Any
    has_key: bool

    def __call__(self, pair: tuple[PyTree, Key], *args: Any) -> PyTree:
        found = self.model(pair[0], *args)
        if not isinstance(found, Distribution):
            return found
        check(
            self.has_key, "key", "given: a distribution is drawn from", None, "Pass `key=jax.random.key(0)`."
        )
        return found.sample(pair[1])
