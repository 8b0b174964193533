"""Layer 9: many machines: whatever has additive statistics, fitted where the rows are."""

from tractable.scale.fit import fit as fit
from tractable.scale.rows import DistributedRows as DistributedRows
