r"""Predictive accuracy from log-likelihoods of posterior draws: PSIS-LOO, WAIC, K-fold.

LOO.         $\mathrm{elpd} = \sum_i \log p(y_i \mid y_{-i})$, the posterior without a row reached from
             the full one by weights $1/p(y_i \mid \theta_s)$, Pareto-smoothed; $\hat k_i$ says where not.
             Draws of an approximation with weights $w_s$ (Laplace, variational, Pathfinder) count $w_s/p(y_i
             \mid \theta_s)$: what the approximation gets wrong is corrected, or shows in $\hat k_i$.
WAIC.        $\sum_i \log\frac1S\sum_s p(y_i \mid \theta_s) - \mathrm{Var}_s[\log p(y_i \mid \theta_s)]$.
K-fold.      Refitted without each fold in turn: no approximation, $K$ fits.
Error.       $\sqrt{n\,\mathrm{Var}_i[\mathrm{elpd}_i]}$: over the rows, not over the draws.
Cost.        $O(nS)$ and a sort of $S$ numbers per row for LOO.
References.  Vehtari, Gelman and Gabry (2017); Watanabe (2010); Vehtari et al. (2024).
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.core.checks import as_float, check, check_count, check_entries
from tractable.core.estimate import Estimate
from tractable.core.keys import takes_key
from tractable.core.module import Module, field
from tractable.core.numerics import log_mean_exp, log_softmax, logsumexp
from tractable.core.progress import track
from tractable.core.types import Array, ArrayLike, Float, Key, Scalar
from tractable.core.verdict import Verdict
from tractable.inference.posterior import Posterior, as_one_chain
from tractable.inference.trust.autocorrelation import autocorrelation_time
from tractable.inference.trust.evidence import Grounds
from tractable.inference.weighted.pareto import k_threshold, smooth, tail_length

__all__ = ["PredictiveFit", "k_fold", "loo", "waic"]

_FEWEST = 25  # draws, below which no tail of weights can be judged


class PredictiveFit(Module):
    """The expected log predictive density of new rows, row by row, and how far to trust it."""

    pointwise: Float[Array, " n"]
    log_predictive: Float[Array, " n"]  # of the rows themselves, seen in the fit: always too good
    k_hat: Float[Array, " n"] | None
    num_draws: int = field(static=True)
    method: str = field(static=True)
    grounds: Grounds = field(default=Grounds(), show=False)
    doubt: str = field(static=True, default="", show=False)  # what is wrong with the posterior it is made of
    _shown = ("method", "elpd", "num_effective", "k_hat")

    @property
    def elpd(self) -> Estimate:
        r"""$\sum_i \mathrm{elpd}_i$ with its standard error over the rows."""
        n = self.pointwise.shape[0]
        return Estimate(self.pointwise.sum(), jnp.sqrt(n * self.pointwise.var(ddof=1)))

    @property
    def num_effective(self) -> Scalar:
        """How much the rows gain from having been seen: the effective number of parameters."""
        return (self.log_predictive - self.pointwise).sum()

    @property
    def suspects(self) -> np.ndarray:
        """The rows whose estimate is not to be trusted."""
        if self.k_hat is not None:
            return np.flatnonzero(~(np.asarray(self.k_hat) <= k_threshold(self.num_draws)))
        if self.method == "WAIC":
            return np.flatnonzero(np.asarray(self.log_predictive - self.pointwise) > 0.4)
        return np.empty(0, int)

    @property
    def verdict(self) -> Verdict:
        """How many rows cannot be trusted."""
        rows, count = self.suspects, self.pointwise.shape[0]
        if self.doubt and not len(rows):
            said = f"Not certified: every row can be trusted if the posterior can. {self.doubt}"
            return Verdict(False, said, {"suspects": 0, "rows": count})
        shown = ", ".join(map(str, rows[:5])) + (", ..." if len(rows) > 5 else "")
        advice = "refit without them (`k_fold`)" if self.k_hat is not None else "use `loo`"
        said = f"{len(rows)} of {count} rows are too influential ({shown}): {advice}."
        said = said if len(rows) else "Good: every row can be trusted."
        return Verdict(len(rows) == 0, said, {"suspects": len(rows), "rows": count})


def loo(
    log_likelihoods: "ArrayLike | Posterior",
    *,
    relative_efficiency: float | int | None = None,
    likelihood: Callable[..., Any] | None = None,
    args: tuple = (),
) -> PredictiveFit:
    r"""Leave-one-out predictive accuracy by Pareto-smoothed importance sampling.

    Of a posterior that was stated by its likelihood (or with a `likelihood(x, *args)` of each row); or
    `log_likelihoods` are $\log p(y_i \mid \theta_s)$ of shape `(draws, rows)` or `(chains, draws, rows)`.
    `relative_efficiency` is the worth of a draw ($n_{\mathrm{eff}}/n$): a longer tail is fitted for dependent
    draws. By default it is measured for chains, and 1 for draws without chains. Of an approximation the
    importance weights of its draws count, and the verdict is at most as good as that of the approximation.
    """
    if isinstance(log_likelihoods, Posterior):
        weighted = log_likelihoods._weighted_draws()
        if weighted is not None:
            return _weighted_loo(log_likelihoods, *weighted, likelihood, args)
    values, grounds = _of_posterior(log_likelihoods, likelihood, args)
    logs = _as_log_likelihoods(values)
    if relative_efficiency is None:
        relative_efficiency = _efficiency(logs) if jnp.ndim(values) == 3 else 1.0
    flat = logs.reshape((-1, logs.shape[-1])).T
    tail = tail_length(flat.shape[1], relative_efficiency)
    pointwise, k_hat = _loo(flat, min(tail, flat.shape[1] - 1))
    return PredictiveFit(pointwise, log_mean_exp(flat, axis=1), k_hat, flat.shape[1], "PSIS-LOO", grounds)


def _weighted_loo(
    post: Posterior, draws: Any, log_weights: Array, likelihood: Any, args: tuple
) -> PredictiveFit:
    """Of draws that stand for the posterior by their weights."""
    values = post._rows_of(as_one_chain(draws), likelihood, args)
    flat = _as_log_likelihoods(values)[0].T
    count = flat.shape[1]
    pointwise, predictive, k_hat = _loo_of_weighted(flat, log_weights, tail_length(count))
    grounds = dataclasses.replace(post.grounds if likelihood is None else Grounds(), basis="")
    doubt = "" if post.verdict.ok else post.verdict.sentence
    return PredictiveFit(pointwise, predictive, k_hat, count, "PSIS-LOO", grounds, doubt)


def waic(
    log_likelihoods: "ArrayLike | Posterior",
    *,
    likelihood: Callable[..., Any] | None = None,
    args: tuple = (),
) -> PredictiveFit:
    r"""The widely applicable information criterion, on the scale of `loo`: an elpd, larger is better.

    Rows with a variance above 0.4 are not to be trusted; `loo` says more about them.
    """
    values, grounds = _of_posterior(log_likelihoods, likelihood, args)
    logs = _as_log_likelihoods(values)
    flat = logs.reshape((-1, logs.shape[-1])).T
    pointwise, predictive = _waic(flat)
    return PredictiveFit(pointwise, predictive, None, flat.shape[1], "WAIC", grounds)


@takes_key
def k_fold(
    score: Callable[[Any, Any], ArrayLike], data: Any, *, key: Key, num_folds: int = 10
) -> PredictiveFit:
    """Predictive accuracy with each fold left out in turn.

    `score(rest, fold)` fits to the rows `rest` and returns the log predictive density of each row of `fold`;
    `data` is an array, or a pytree of arrays with one leading axis. Rows are dealt to the folds at random.
    """
    leaves = jax.tree.leaves(data)
    count = leaves[0].shape[0] if leaves else 0
    same = all(jnp.shape(leaf)[:1] == (count,) for leaf in leaves) and count > 0
    check(same, "data", "arrays with one common leading axis", [jnp.shape(leaf) for leaf in leaves])
    num_folds = check_count("num_folds", num_folds, least=2, most=count)
    folds = np.array_split(np.asarray(jr.permutation(key, count)), num_folds)
    found = np.empty(count)
    for fold in track(folds, label="Folds"):
        rest = np.setdiff1d(np.arange(count), fold)
        rows = [jax.tree.map(lambda leaf, index=index: leaf[index], data) for index in (rest, np.sort(fold))]
        values = np.asarray(score(*rows))
        check(values.shape == fold.shape, "score", f"one per row of the fold {fold.shape}", f"{values.shape}")
        found[np.sort(fold)] = values
    check_entries("score", found, lambda v: ~np.isnan(v), "not NaN")
    everything = jnp.asarray(score(data, data))
    return PredictiveFit(jnp.asarray(found), everything, None, num_folds, f"{num_folds}-fold")


def _of_posterior(given: Any, likelihood: Any, args: tuple) -> tuple[Any, Grounds]:
    """The log-likelihoods of a posterior, and of what rows they are."""
    if isinstance(given, Posterior):
        known = given.grounds if likelihood is None else Grounds()
        return given.log_likelihoods(likelihood, *args), dataclasses.replace(known, basis="")
    check(likelihood is None, "likelihood", "left out beside an array of log-likelihoods", "both")
    return given, Grounds()


def _as_log_likelihoods(values: ArrayLike) -> Array:
    logs = as_float("log_likelihoods", values)
    must = "of shape (draws, rows) or (chains, draws, rows)"
    check(logs.ndim in (2, 3) and logs.size > 0, "log_likelihoods", must, f"shape {logs.shape}")
    check(logs.shape[-2] > 1 and logs.shape[-1] > 1, "log_likelihoods", "two draws and rows", logs.shape)
    few = logs.ndim == 2 and logs.shape[0] < _FEWEST <= logs.shape[1]
    must = f"one number per row, shape (draws, rows) with {_FEWEST} draws or more, or (chains, draws, rows)"
    fix = "Sums over the rows, of shape (chains, draws), do not do: give the terms of the sum."
    check(not few, "log_likelihoods", must, f"shape {logs.shape}", fix)
    fix = "A row that a posterior draw makes impossible cannot be left out by weights."
    check_entries("log_likelihoods", logs, np.isfinite, "finite", fix)
    return logs


@jax.jit
def _mean_time(logs: Array) -> Scalar:
    shifted = jnp.exp(logs - logs.max((0, 1), keepdims=True))
    return jax.vmap(autocorrelation_time, in_axes=-1)(shifted).mean()


def _efficiency(logs: Array) -> float:
    """The mean over rows of what one draw of the likelihood is worth."""
    return float(1 / _mean_time(logs))


def _loo_row(logs: Array, tail: int) -> tuple[Array, Array]:
    smoothed = smooth(-logs, tail=tail)
    return logsumexp(log_softmax(smoothed.log_weights) + logs), smoothed.k_hat


@partial(jax.jit, static_argnums=1)
def _loo(flat: Array, tail: int) -> tuple[Array, Array]:
    return jax.vmap(lambda row: _loo_row(row, tail))(flat)


@partial(jax.jit, static_argnums=2)
def _loo_of_weighted(flat: Array, log_weights: Array, tail: int) -> tuple[Array, Array, Array]:
    def row(logs):
        smoothed = smooth(log_weights - logs, tail=tail)
        return logsumexp(log_softmax(smoothed.log_weights) + logs), smoothed.k_hat

    pointwise, k_hat = jax.vmap(row)(flat)
    return pointwise, logsumexp(log_softmax(log_weights)[None] + flat, axis=1), k_hat


@jax.jit
def _waic(flat: Array) -> tuple[Array, Array]:
    predictive = log_mean_exp(flat, axis=1)
    return predictive - flat.var(1, ddof=1), predictive
