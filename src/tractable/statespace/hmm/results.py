"""Answers of hidden Markov models about sequences: filtered, smoothed, decoded, forecast.

Shape.       For one sequence the fields are its arrays; for several, lists with one array each.
Cost.        None of their own; pair marginals are computed when asked for.
"""

from typing import Any

import numpy as np

from tractable.core.module import HostResult, field
from tractable.messages.chain_rows import pair_rows

__all__ = ["Filtered", "Forecast", "Smoothed"]


class Filtered(HostResult):
    r"""$p(z_t \mid x_{1:t})$ as `probabilities` (n, k), and $\log p(x)$."""

    probabilities: Any = field(about="of each state at each time, given the rows so far")
    log_likelihood: Any


class Smoothed(HostResult):
    r"""$p(z_t \mid x_{1:T})$ as `marginals` (n, k), $\log p(x)$, and expected counts over all sequences:
    `transitions` (k, k) and `visits` (k,)."""

    marginals: Any = field(about="of each state at each time, given all rows")
    log_likelihood: Any
    transitions: Any = field(about="expected number of moves from state to state")
    visits: Any = field(about="expected number of rows in each state")
    rows: Any = field(show=False)

    @property
    def pair_marginals(self) -> Any:
        r"""$p(z_{t-1}, z_t \mid x)$ for $t \ge 2$: (n - 1, k, k) for each sequence."""
        starts = np.asarray(self.rows.starts)
        parts = [part[1:] for part in np.split(pair_rows(self.rows), starts[1:-1])]
        return parts if isinstance(self.marginals, list) else parts[0]

    @property
    def path(self) -> Any:
        """The most probable state of each time by itself (posterior decoding)."""
        if isinstance(self.marginals, list):
            return [part.argmax(1) for part in self.marginals]
        return self.marginals.argmax(1)


class Forecast(HostResult):
    r"""What comes after a sequence: `states` (steps, k), and `mean` and `variance` of the rows, (steps, ...).

    For symbols `symbols` (steps, v) holds their probabilities.
    """

    states: Any
    mean: Any
    variance: Any
    symbols: Any = None
