r"""Log-evidence as a result with its error, and the two cheap stand-ins for it: BIC and AIC.

Identities.  $\log p(D) = \log\int p(D \mid \theta)\,p(\theta)\,d\theta$. BIC, its leading terms:
             $\log p(D \mid \hat\theta) - \frac M2\log N$; AIC, an estimate of the predictive fit:
             $\log p(D \mid \hat\theta) - M$. Times $-2$ they are the usual deviance forms.
Routes.      Exact in conjugate models (`distributions.conjugate`); `laplace`; `importance`, `annealed`;
             `bridge_evidence`; `thermodynamic_evidence`; `grid_posterior` in few dimensions.
Cost.        Nothing beyond the fit.
References.  Schwarz (1978); Akaike (1974); Kass and Raftery (1995).
"""

import numpy as np
from jax.core import Tracer

from tractable.core.checks import as_float, check_count
from tractable.core.estimate import Estimate
from tractable.core.iterate import Ended
from tractable.core.types import Array, ArrayLike, Int
from tractable.core.verdict import Verdict

__all__ = ["Evidence", "aic", "bic"]


class Evidence(Ended, Estimate):
    """A log-evidence with its standard error, the method, and how the computation ended."""

    code: Int[Array, ""]

    @property
    def verdict(self) -> Verdict:
        """How far to trust the number."""
        error = float(self.standard_error)
        if not self.status.ok or not np.isfinite(error):
            said = f"Do not use: {self.status.sentence}"
        elif error > 1:
            said = "Unreliable: the evidence is uncertain by more than a factor e. Take more or better draws."
        elif error > 0.1:
            said = "Rough: enough to tell very different models apart."
        else:
            said = "Good: the error is small beside any difference between models that matters."
        return Verdict(self.status.ok and error <= 1, said, {"standard_error": error})

    def __repr__(self) -> str:
        if isinstance(self.value, Tracer):
            return f"Evidence({self.method})"
        return f"log evidence {super().__repr__()} by {self.method}. {self.verdict}"


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
