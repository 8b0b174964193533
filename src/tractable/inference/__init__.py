"""Layer 5: inference. Algorithms act on whatever has the small protocol they need; they import no model."""

from tractable.inference.em import EM, best_of, em, expected_statistics, objective
from tractable.inference.fit import fit

__all__ = ["EM", "best_of", "em", "expected_statistics", "fit", "objective"]
