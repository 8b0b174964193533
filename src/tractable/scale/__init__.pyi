"""Layer 9: many machines: whatever has additive statistics, fitted where the rows are."""

from tractable.scale.fit import fit as fit
from tractable.scale.rows import DistributedRows as DistributedRows
from tractable.scale.tasks import best_of as best_of
from tractable.scale.tasks import cross_validate as cross_validate
from tractable.scale.tasks import map_tasks as map_tasks
