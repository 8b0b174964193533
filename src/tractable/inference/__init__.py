"""Layer 5: inference. Algorithms act on whatever has the small protocol they need; they import no model."""

from tractable.inference.em import EM, best_of, em, expected_statistics, objective
from tractable.inference.em_gradient import EvidenceAscent
from tractable.inference.em_labels import HardEM, LabelTrace, MonteCarloEM, StochasticEM, emptied_components
from tractable.inference.em_prior import Partial, WithPrior
from tractable.inference.em_report import Decomposition, HalfSteps, decompose, half_steps
from tractable.inference.em_streams import IncrementalEM, OnlineEM
from tractable.inference.fit import fit

__all__ = [
    "EM", "Decomposition", "EvidenceAscent", "HalfSteps", "HardEM", "IncrementalEM", "LabelTrace", "MonteCarloEM",
    "OnlineEM", "Partial", "StochasticEM", "WithPrior", "best_of", "decompose", "em", "emptied_components",
    "expected_statistics", "fit", "half_steps", "objective",
]  # fmt: skip
