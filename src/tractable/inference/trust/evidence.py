r"""Log-evidence as a result: its error, how it was computed, and what it rests on.

Identity.    $\log p(D) = \log\int p(D \mid \theta)\,p(\theta)\,d\theta$.
Grounds.     Two evidences say which model is better only if both have proper priors that were chosen without
             the data, and both speak of the same rows in the same measure: a density of $\log y$ is not one
             of $y$, and a mass is not a density. An evidence carries what is known of this, and
             `model_posterior` and `bayes_factor` refuse what does not belong together. Of a bare log-density
             nothing is known: its evidence is refused too, unless the caller vouches for it.
Cost.        Nothing beyond the computation.
References.  Kass and Raftery (1995).
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from jax.core import Tracer

from tractable.core.checks import check
from tractable.core.estimate import Estimate
from tractable.core.iterate import Ended
from tractable.core.module import Module, field
from tractable.core.types import Array, Int
from tractable.core.verdict import Verdict

__all__ = ["Evidence", "Grounds", "check_comparable", "digest_of"]

_BASES = {
    "improper": "an improper prior, whose evidence has no scale",
    "data-dependent": "a prior that was made of the data, which counts them twice",
}
_UNKNOWN = "unknown grounds: it is the mass of a log-density, of which no prior and no rows are known"


class Grounds(Module):
    """What an evidence rests on; empty where it is not known."""

    basis: str = field(static=True, default="")  # "proper", "improper", "data-dependent" or "unknown"
    num_rows: int | None = field(static=True, default=None)
    rows: str = field(static=True, default="")  # a digest of what was observed
    measure: str = field(static=True, default="")  # "mass" or "density"

    @property
    def objection(self) -> str:
        """What speaks against comparing an evidence with any other; empty where nothing does."""
        return _UNKNOWN if self.basis == "unknown" else _BASES.get(self.basis, "")


class Evidence(Ended, Estimate):
    """A log-evidence with its standard error, the method, how the computation ended, and its grounds."""

    code: Int[Array, ""]
    grounds: Grounds = field(default=Grounds(), kw_only=True)

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
        if self.grounds.basis in _BASES:
            said = f"Not to be compared with others: it has {_BASES[self.grounds.basis]}. {said}"
        return Verdict(self.status.ok and error <= 1, said, {"standard_error": error})

    def __repr__(self) -> str:
        if isinstance(self.value, Tracer):
            return f"Evidence({self.method})"
        return f"log evidence {super().__repr__()} by {self.method}. {self.verdict}"


def check_comparable(named: Mapping[str, Any], argument: str, unknown_grounds: bool = False) -> None:
    """Refuse, by name, evidences (or other results with `grounds`) that do not belong together; those of bare
    log-densities too, unless `unknown_grounds` are accepted."""
    known = {name: getattr(value, "grounds", Grounds()) for name, value in named.items()}
    for name, grounds in known.items():
        fix = (
            "State the model by `prior` and `likelihood`; or pass `unknown_grounds=True` where you know that "
            "priors are proper, and rows and measure the same."
        )
        fits = grounds.basis != "unknown" or unknown_grounds
        check(fits, argument, "comparable", f"{name}, with {_UNKNOWN}", fix)
    for name, grounds in known.items():
        fix = "Give every model a proper prior that does not look at the data."
        got = f"{name}, with {_BASES.get(grounds.basis, '')}"
        check(grounds.basis not in _BASES, argument, "comparable", got, fix)
    for what, words in (("num_rows", "rows"), ("rows", "observed rows"), ("measure", "measure")):
        seen = {name: getattr(grounds, what) for name, grounds in known.items() if getattr(grounds, what)}
        fix = "Fit every model to the same rows, with one observed column, on one scale."
        shown = seen if what != "rows" else list(seen)
        check(len(set(seen.values())) <= 1, argument, f"of the same {words}", f"{shown}", fix)


def digest_of(values: Any) -> str:
    """A digest of numbers, the same for the same values and shape whatever their type."""
    array = np.ascontiguousarray(np.asarray(values, float))
    return hashlib.sha256(f"{array.shape}".encode() + array.tobytes()).hexdigest()[:16]
