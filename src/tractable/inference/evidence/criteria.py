r"""Two cheap stand-ins for a log-evidence: BIC and AIC.

Identities.  $\log p(D) = \log\int p(D \mid \theta)\,p(\theta)\,d\theta$. BIC, its leading terms:
             $\log p(D \mid \hat\theta) - \frac M2\log N$; AIC, an estimate of the predictive fit:
             $\log p(D \mid \hat\theta) - M$. Times $-2$ they are the usual deviance forms.
Routes.      Exact in conjugate models (`distributions.conjugate`); `laplace`; `importance`, `annealed`;
             `bridge_evidence`; `thermodynamic_evidence`; `grid_posterior` in few dimensions.
Cost.        Nothing beyond the fit.
References.  Schwarz (1978); Akaike (1974); Kass and Raftery (1995).
"""

import numpy as np

from tractable.core.checks import as_float, check_count
from tractable.core.types import Array, ArrayLike

__all__ = ["aic", "bic"]


def bic(log_likelihood: ArrayLike, num_parameters: int, num_rows: int) -> Array:
    r"""$\log p(D \mid \hat\theta) - \frac M2\log N$, on the scale of a log-evidence: larger is better.

    `log_likelihood` is at the maximum (or at the MAP); $M$ = `num_parameters`, $N$ = `num_rows`.

    >>> round(float(bic(-100.0, 2, 50)), 6)
    -103.912023
    """
    value = as_float("log_likelihood", log_likelihood)
    count, rows = check_count("num_parameters", num_parameters, least=0), check_count("num_rows", num_rows)
    return value - 0.5 * count * float(np.log(rows))


def aic(log_likelihood: ArrayLike, num_parameters: int) -> Array:
    r"""$\log p(D \mid \hat\theta) - M$: larger is better.

    >>> float(aic(-100.0, 2))
    -102.0
    """
    value = as_float("log_likelihood", log_likelihood)
    return value - check_count("num_parameters", num_parameters, least=0)
