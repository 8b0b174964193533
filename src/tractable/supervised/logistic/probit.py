r"""Probit regression: the normal cdf in place of the sigmoid.

Model.       $p(y = 1 \mid x) = \Phi(b + w^\top x)$: $y = 1$ where a hidden $b + w^\top x + \varepsilon$ with
             $\varepsilon \sim N(0, 1)$ is positive.
Loss.        With $q_i = (2y_i - 1)\eta_i$ and $m = \varphi(q)/\Phi(q)$: $-\sum_i w_i\log\Phi(q_i)$, slope
             $-(2y_i - 1)m_i$ and curvature $m_i(m_i + q_i)$ in $\eta_i$: convex.
Scale.       $\sigma(a) \approx \Phi(\sqrt{\pi/8}\,a)$: probit coefficients are about 0.6
             times the logistic ones.
Cost.        $O(nd^2)$ per Newton step.
References.  Bishop (2006) section 4.3.5; McCullagh and Nelder (1989) section 4.3.
"""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm
from scipy.special import ndtr

from tractable.core.checks import namespace
from tractable.core.rows import Rows
from tractable.core.types import ArrayLike, Scalar
from tractable.distributions.special import log_ndtr
from tractable.supervised.logistic.binary import BinaryModel, finished
from tractable.supervised.logistic.newton import binary_rows, newton
from tractable.supervised.logistic.separation import check_options

__all__ = ["ProbitModel", "fit_probit", "probit_loss"]


def probit_loss(
    coefficients: ArrayLike, X: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None
) -> Scalar:
    r"""$-\sum_i w_i\log\Phi((2y_i - 1)x_i^\top\theta)$, finite however wrong a row is."""
    theta, x = jnp.asarray(coefficients, float), jnp.asarray(X, float)
    logs = log_ndtr((2 * jnp.asarray(y, float) - 1) * (x @ theta))
    return -(logs.sum() if weights is None else jnp.asarray(weights, float) @ logs)


class ProbitModel(BinaryModel):
    """The fit of $p(y = 1 \\mid x) = \\Phi(b + w^\\top x)$."""

    def predict_proba(self, X: ArrayLike | Rows) -> Any:
        r"""$\Phi(b + w^\top x)$ of each row."""
        eta = self.predictor(X)
        return ndtr(eta) if namespace(eta) is np else norm.cdf(eta)


def fit_probit(
    X: ArrayLike | Rows,
    y: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    *,
    penalty: float | int = 0.0,
    sizes: ArrayLike | None = None,
    intercept: bool = True,
    separated: str = "raise",
    names: Sequence[str] | None = None,
    max_steps: int = 100,
) -> ProbitModel:
    r"""Minimise $-\sum_i w_i\log p(y_i \mid x_i) + \tfrac\lambda2\|w\|^2$ by Newton steps.

    Without a penalty, separated classes raise an error that names the columns (or, with
    `separated="report"`, the model does).

    >>> found = fit_probit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1])
    >>> round(float(found.loss), 7), found.verdict
    (2.3309435, Converged.)
    """
    check_options(penalty, separated)
    rows = binary_rows(X, y, weights, intercept)
    prior = rows.penalty(float(penalty), sizes)
    found = newton(rows.probit, np.zeros(rows.size), prior, rows.total, max_steps=max_steps)
    return finished(ProbitModel, rows, found, penalty, separated, names)
