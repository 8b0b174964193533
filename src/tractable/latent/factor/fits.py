"""What a fit of a factor model returns: the model, the evidence, and how far to trust it.

Cost.        None: a record.
"""

from typing import Any

import numpy as np

from tractable.core.iterate import Ended
from tractable.core.module import Module, field
from tractable.core.types import Values
from tractable.core.verdict import Verdict

__all__ = ["FactorFit"]


class FactorFit(Ended, Module):
    """A fitted factor model; `heywood` are columns whose noise is at its least, `constant` those without
    variance, of which a factor model says nothing."""

    model: Any
    log_evidence: Any = field(about="log-likelihood of all rows")
    count: Any = field(about="rows, by weight")
    num_steps: Any
    code: Any = field(show=False)
    trace: Values | None = field(show=False, default=None)
    heywood: tuple[Any, ...] = field(static=True, default=())
    constant: tuple[Any, ...] = field(static=True, default=())

    @property
    def bic(self) -> float:
        r"""$-2\log p(X) + m\log n$ with $m$ free parameters: smaller is better."""
        return float(-2 * self.log_evidence + self.model.num_parameters * np.log(self.count))

    @property
    def verdict(self) -> Verdict:
        """How the fit ended, and which columns it says little of."""
        numbers = {"log_evidence": float(self.log_evidence), "heywood": len(self.heywood)}
        said = [self.status.sentence]
        if self.heywood:
            said.append(
                f"Heywood case: the noise of column {_listed(self.heywood)} is at its least, as if "
                "the factors told it exactly. Take fewer factors, or drop the column."
            )
        if self.constant:
            said.append(f"Column {_listed(self.constant)} is constant; its noise of 1 stands for nothing.")
        return Verdict(self.status.ok and not self.heywood, " ".join(said), numbers)


def _listed(columns: tuple[Any, ...]) -> str:
    return ", ".join(map(repr, columns[:5])) + (", ..." if len(columns) > 5 else "")
