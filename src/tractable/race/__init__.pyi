"""Layer 10b: models of a table raced against each other on rows they have not seen, and the winner kept."""

from tractable.race.auto import AutoClassifier as AutoClassifier
from tractable.race.auto import AutoRegressor as AutoRegressor
from tractable.race.comparison import compare_models as compare_models
from tractable.race.fit import fit_table as fit_table
from tractable.race.predictions import predictions as predictions
from tractable.race.result import TableFit as TableFit
