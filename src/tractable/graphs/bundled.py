"""Networks that come with the package, by name: what `datasets.network` and `tractable query asia` find.

The names are here without the tables, so that the command line can look at them before it loads anything.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tractable.graphs.bayes_net import BayesNet

__all__ = ["NETWORKS", "network"]

NETWORKS = {
    "asia": "chest_clinic",
    "cancer": "lung_cancer",
    "earthquake": "earthquake",
    "sprinkler": "sprinkler",
    "student": "student",
    "survey": "survey",
}


def network(name: str) -> "BayesNet":
    """A small published network: `asia`, `cancer`, `earthquake`, `sprinkler`, `student` or `survey`.

    >>> network("earthquake").names
    ('burglary', 'earthquake', 'alarm', 'john_calls', 'mary_calls')
    """
    from tractable.core.checks import check_option

    check_option("name", name, tuple(NETWORKS))
    return getattr(importlib.import_module("tractable.graphs.example_networks"), NETWORKS[name])()
