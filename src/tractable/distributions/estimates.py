r"""Three answers to "what are the probabilities?": maximum likelihood, most probable, and predictive.

Estimators.  With counts $c$ of sum $N$ and a Dirichlet prior $\alpha$ of sum $A$: maximum likelihood $c_k/N$,
             MAP $(c_k + \alpha_k - 1)/(N + A - K)$ and Bayes $(c_k + \alpha_k)/(N + A)$.
             MAP at $\alpha = 1$ is maximum likelihood; MAP at $\alpha = 2$ is Bayes at $\alpha = 1$.
Cost.        $O(K)$ for each data set and prior.
References.  MacKay (2003) chapter 3; Bishop (2006) section 2.2.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.special import xlogy

from tractable.core.checks import check, check_nonnegative
from tractable.core.module import HostResult
from tractable.core.types import ArrayLike
from tractable.distributions.conjugate_registry import add_statistics
from tractable.distributions.multivariate import Dirichlet

__all__ = ["EstimateTable", "compare_estimates"]


class EstimateTable(HostResult):
    """One row per data set and prior; an estimate that does not exist is NaN, an impossible row costs inf."""

    totals: np.ndarray  # (rows,) the number of observations
    concentrations: np.ndarray  # (rows, k)
    mle: np.ndarray  # (rows, k)
    map: np.ndarray  # (rows, k)
    bayes: np.ndarray  # (rows, k)
    log_loss: dict[str, np.ndarray] | None  # per estimator (rows,), in nats per held-out observation

    def rows(self) -> list[dict[str, Any]]:
        """The table as a list of records."""
        records = []
        for i, total in enumerate(self.totals):
            record = {"n": float(total), "concentration": self.concentrations[i].tolist()}
            for name in ("mle", "map", "bayes"):
                record[name] = getattr(self, name)[i].tolist()
                if self.log_loss is not None:
                    record[f"{name}_log_loss"] = float(self.log_loss[name][i])
            records.append(record)
        return records

    def to_pandas(self) -> Any:
        """The table as a `pandas.DataFrame`."""
        import pandas as pd

        return pd.DataFrame(self.rows())

    def _columns(self) -> dict[str, Any]:
        columns = {"n": [f"{n:g}" for n in self.totals], "concentration": map(_short, self.concentrations)}
        columns |= {name: map(_short, getattr(self, name)) for name in ("mle", "map", "bayes")}
        losses = self.log_loss or {}
        return columns | {f"log-loss {name}": [f"{x:.4f}" for x in loss] for name, loss in losses.items()}


def compare_estimates(
    counts: ArrayLike, concentration: ArrayLike, held_out: ArrayLike | None = None
) -> EstimateTable:
    """Maximum likelihood, MAP and Bayes side by side for category counts under Dirichlet priors.

    `counts` is one data set $(k,)$ or several $(m, k)$, such as growing samples; `concentration` a number,
    one prior $(k,)$ or several $(s, k)$, such as growing strengths: the table has a row for each combination.
    With `held_out` counts it also has each estimator's loss $-\\log p$ per held-out observation.

    >>> compare_estimates(np.array([3, 1]), 2.0)
    n  concentration           mle               map           bayes
    4         (2, 2)  (0.75, 0.25)  (0.6667, 0.3333)  (0.625, 0.375)
    """
    data = np.atleast_2d(_counts("counts", counts))
    k = data.shape[1]
    alphas = np.asarray(concentration, float)
    alphas = np.full((1, k), alphas) if alphas.ndim == 0 else np.atleast_2d(alphas)
    must = f"a number, or one per category ({k})"
    check(
        alphas.ndim == 2 and alphas.shape[1] == k, "concentration", must, f"shape {np.shape(concentration)}"
    )
    c, alpha = np.repeat(data, len(alphas), 0), np.tile(alphas, (len(data), 1))
    after = add_statistics(Dirichlet(jnp.asarray(alpha)), (c,))
    totals = c.sum(1)
    with np.errstate(invalid="ignore"):
        mle = c / totals[:, None]  # no data, no estimate: 0/0 is NaN
    estimates = {"mle": mle, "map": np.asarray(after.mode), "bayes": np.asarray(after.mean)}
    losses = None if held_out is None else {name: _log_loss(p, held_out) for name, p in estimates.items()}
    return EstimateTable(totals, alpha, **estimates, log_loss=losses)


def _counts(name: str, counts: ArrayLike) -> np.ndarray:
    values = np.asarray(counts, float)
    must = "counts of two or more categories"
    check(values.ndim in (1, 2) and values.shape[-1] > 1, name, must, f"shape {values.shape}")
    check_nonnegative(name, values)
    return values


def _log_loss(probs: np.ndarray, held_out: ArrayLike) -> np.ndarray:
    seen = _counts("held_out", held_out)
    must = f"one count per category ({probs.shape[1]})"
    check(seen.shape == probs.shape[1:], "held_out", must, f"shape {seen.shape}")
    check(seen.sum() > 0, "held_out", "at least one observation", "no observations")
    return -xlogy(seen[None] / seen.sum(), probs).sum(1)


def _short(values: Any) -> str:
    return "(" + ", ".join(f"{value:.4g}" for value in values) + ")"
