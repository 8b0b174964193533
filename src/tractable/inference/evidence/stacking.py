r"""Weights for predictions of several models: stacking and pseudo-Bayesian averages, and the table of models.

Stacking.    $\max_w \frac1n\sum_i \log\sum_k w_k\,p_k(y_i \mid y_{-i})$ over the simplex: concave.
Fixed point. $w_k \leftarrow w_k\,g_k$, $g_k = \frac1n\sum_i p_{ik}/\sum_j w_j p_{ij}$: EM for a mixture's
             weights. It climbs, stays on the simplex, and has a certificate: the optimum is at most
             $\log\max_k g_k$ above the current value.
Pseudo-BMA.  $w_k \propto e^{\mathrm{elpd}_k}$, averaged over Bayesian bootstraps of the rows, which takes the
             uncertainty of the elpd into account.
Cost.        $O(nK)$ per step.
References.  Yao, Vehtari, Simpson and Gelman (2018); Vardi and Lee (1993).
"""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from tractable.core.checks import as_float, check, check_count, is_concrete
from tractable.core.chunks import bucket_size, pad_rows
from tractable.core.estimate import Estimate
from tractable.core.host_random import generator
from tractable.core.iterate import Run, run_until
from tractable.core.module import Module, field
from tractable.core.numerics import log_softmax, logsumexp, safe_log
from tractable.core.types import Array, ArrayLike, Float, Key, Scalar
from tractable.core.verdict import Verdict
from tractable.inference.evidence.cross_validation import PredictiveFit, loo
from tractable.inference.posterior import Posterior
from tractable.inference.trust.evidence import check_comparable

__all__ = ["Comparison", "Stacked", "compare", "pseudo_bma", "stack"]

_AT_ONCE = 50  # bootstraps


class Stacked(Run):
    """The weights as `state`, and how far at most the objective is from its largest value: `gap`."""

    gap: Scalar
    _shown = ("weights", "gap", "num_steps")

    @property
    def weights(self) -> Array:
        return self.state


class Comparison(Module):
    """Models by predictive accuracy, the best first, each with its distance to the best."""

    names: tuple[str, ...] = field(static=True)
    fits: tuple[PredictiveFit, ...] = field()
    differences: Estimate = field()  # to the best, paired over the rows
    weights: Float[Array, " m"] = field()

    @property
    def verdict(self) -> Verdict:
        """Whether the best is clearly the best."""
        suspects = sum(len(fit.suspects) for fit in self.fits)
        warning = f" {suspects} influential rows: see each model's verdict." if suspects else ""
        if len(self.names) < 2:
            return Verdict(False, f"One model: there is nothing to compare.{warning}")
        gap, error = float(self.differences.value[1]), float(self.differences.standard_error[1])
        clear = -gap >= 4 and -gap >= 2 * error
        said = f"{self.names[0]} and {self.names[1]} predict about equally well.{warning}"
        said = f"{self.names[0]} predicts better than all others.{warning}" if clear else said
        numbers = {"difference": gap, "error": error, "suspects": suspects}
        return Verdict(clear and not suspects, said, numbers)

    def _columns(self) -> dict[str, Any]:
        return {
            "model": self.names,
            "elpd": [float(fit.elpd.value) for fit in self.fits],
            "error": [float(fit.elpd.standard_error) for fit in self.fits],
            "difference": np.asarray(self.differences.value),
            "its error": np.asarray(self.differences.standard_error),
            "parameters": [float(fit.num_effective) for fit in self.fits],
            "weight": np.asarray(self.weights),
        }


def stack(
    pointwise: ArrayLike | Mapping[str, PredictiveFit], *, row_weights: ArrayLike | None = None,
    max_steps: int = 20_000, tol: float = 1e-8,
) -> Stacked:  # fmt: skip
    r"""Weights that maximise the mean log-density of the rows under the mixture of the models' predictions.

    `pointwise` holds $\log p_k(y_i \mid y_{-i})$ of shape `(rows, models)`, or the fits of `loo` by name; a
    row of `row_weights` two counts twice. Stops when the objective is within `tol` of its largest possible
    value, by the certificate above.
    """
    logs = _as_pointwise(pointwise)
    models = logs.shape[1]
    if not is_concrete(logs):
        amounts = jnp.ones(logs.shape[0], logs.dtype) if row_weights is None else jnp.asarray(row_weights)
        return _stack(logs, amounts, jnp.asarray(tol), max_steps)
    # rows of no weight and models of no density, so that few sizes are compiled
    wide = np.full((logs.shape[0], bucket_size(models)), -np.inf, logs.dtype)
    wide[:, :models] = logs
    padded, amounts = pad_rows(wide, row_weights)
    found = _stack(padded, amounts, jnp.asarray(tol), max_steps)
    return eqx.tree_at(lambda run: run.state, found, found.state[:models])


def pseudo_bma(
    pointwise: ArrayLike | Mapping[str, PredictiveFit], *, row_weights: ArrayLike | None = None,
    key: Key | None = None, num_bootstraps: int = 1000,
) -> Array:  # fmt: skip
    r"""$w_k \propto e^{\mathrm{elpd}_k}$; with a `key`, averaged over Bayesian bootstraps of the rows: about
    the probability that model $k$ predicts best. A row of `row_weights` two counts twice."""
    logs = np.asarray(_as_pointwise(pointwise))
    amounts = np.ones(len(logs)) if row_weights is None else np.asarray(row_weights, float)
    logs, amounts = logs[amounts > 0], amounts[amounts > 0]
    if key is None:
        return jnp.exp(log_softmax(jnp.asarray(amounts @ logs)))
    return jnp.asarray(_bootstrapped(logs, amounts, key, check_count("num_bootstraps", num_bootstraps)))


def compare(fits: "Mapping[str, PredictiveFit | Posterior]") -> Comparison:
    """The table of models, the best first: differences are paired over the rows, weights are stacked.

    A posterior stands for its `loo`; fits of other rows, or in another measure, are refused by name.
    """
    check(len(fits) > 0, "fits", "at least one model", "none")
    fits = {name: loo(fit) if isinstance(fit, Posterior) else fit for name, fit in fits.items()}
    check_comparable(fits, "fits")
    logs = _as_pointwise(fits)
    order = np.argsort(-np.asarray(logs.sum(0)), kind="stable")
    names, sorted_logs = tuple(np.asarray(list(fits))[order].tolist()), logs[:, order]
    gaps = sorted_logs - sorted_logs[:, :1]
    errors = jnp.sqrt(gaps.shape[0] * gaps.var(0, ddof=1))
    weights = stack(sorted_logs).weights
    return Comparison(names, tuple(fits[name] for name in names), Estimate(gaps.sum(0), errors), weights)


def _as_pointwise(pointwise: Any) -> Array:
    if isinstance(pointwise, Mapping):
        lengths = {name: fit.pointwise.shape[0] for name, fit in pointwise.items()}
        check(len(set(lengths.values())) == 1, "fits", "of the same rows", f"{lengths}")
        pointwise = jnp.stack([fit.pointwise for fit in pointwise.values()], 1)
    logs = as_float("pointwise", pointwise)
    must = "of shape (rows, models), two rows or more"
    check(
        logs.ndim == 2 and logs.shape[0] > 1 and logs.shape[1] > 0, "pointwise", must, f"shape {logs.shape}"
    )
    if is_concrete(logs):
        values = np.asarray(logs)
        check(
            not np.isnan(values).any() and bool((values < np.inf).all()), "pointwise", "numbers", "NaN or inf"
        )
        possible = (values > -np.inf).any(1)
        row = f"row {np.argmin(possible)}"
        check(bool(possible.all()), "pointwise", "possible under at least one model", f"{row} that is not")
    return logs


def _gains(log_weights: Array, logs: Array, amounts: Array) -> tuple[Array, Scalar]:
    r"""$\log g_k$ and the objective at the weights."""
    mixture = logsumexp(log_weights[None] + logs, axis=1)
    total = amounts.sum()
    gains = logsumexp(logs - mixture[:, None] + safe_log(amounts)[:, None], axis=0) - jnp.log(total)
    return gains, (amounts * mixture).sum() / total


def _stack_loop(logs: Array, amounts: Array, tol: Scalar, max_steps: int) -> Stacked:
    def step(state):
        log_weights, _ = state
        gains, value = _gains(log_weights, logs, amounts)
        return (log_softmax(log_weights + gains), gains.max()), value

    known = (logs > -jnp.inf).any(0)
    start = (
        jnp.where(known, -jnp.log(known.sum(dtype=logs.dtype)), -jnp.inf),
        jnp.asarray(jnp.inf, logs.dtype),
    )
    found = run_until(
        step, start, max_steps=max_steps, tol=tol, settled=lambda state, value, before: state[1] <= tol
    )
    weights = jnp.exp(found.state[0])
    return Stacked(
        weights, found.trace, found.num_steps, found.code, _gains(found.state[0], logs, amounts)[0].max()
    )


_stack = jax.jit(_stack_loop, static_argnums=3)


def _bootstrapped(logs: np.ndarray, amounts: np.ndarray, key: Key, count: int) -> np.ndarray:
    """On the host, some bootstraps at a time: a new number of rows compiles nothing."""
    random, total = generator(key), np.zeros(logs.shape[1])
    for size in (min(_AT_ONCE, count - first) for first in range(0, count, _AT_ONCE)):
        shares = random.standard_gamma(amounts, (size, len(logs)))  # over their sum: Dirichlet
        sums = amounts.sum() * (shares / shares.sum(1, keepdims=True)) @ logs
        total += special.softmax(sums, axis=1).sum(0)
    return total / count
