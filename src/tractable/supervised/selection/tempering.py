r"""Class probabilities that keep their promises: between the base rate and what a classifier says.

Problem.     Shares of leaves, votes of neighbours and plug-in densities promise more than they hold, or less:
             nothing in them knows how they do on rows that they have not seen.
Family.      $q_{a\varepsilon}(c \mid x) \propto \pi_c\,(r_c/\pi_c)^a$ with
             $r = (1 - \varepsilon)\,p(\cdot \mid x) + \varepsilon\pi$: the base rate at $a = 0$, the
             classifier at $a = 1$, sharper above; $\varepsilon$ lifts what was called impossible.
             $\pi_c = (N_c + 1)/(N + K)$ by Laplace's rule of succession.
Average.     Half of the prior says that the classifier knows nothing ($a = 0$), half is even over a grid of
             $\log a$ and $\log\varepsilon$. Rows that were held out weigh the members,
             $w_m \propto w_m^0\prod_i q_m(y_i \mid x_i)^{w_i}$, and predictions are averaged: few rows leave
             much to the base rate, many choose one member.
Statistics.  The log-likelihoods of the members add over rows (`add`).
Cost.        $O(nKM)$ for $M = 53$ members; predictions leave out members of no weight in double precision.
References.  Platt (1999); Guo et al. (2017); van Houwelingen and le Cessie (1990).
"""

from typing import Any

import numpy as np

from tractable.core.checks import check, namespace
from tractable.core.module import Module, field
from tractable.core.rows import Rows, points
from tractable.core.types import ArrayLike, Float, Values
from tractable.core.verdict import Verdict

__all__ = ["TemperedShares"]

_POWERS = np.geomspace(1 / 16, 4, 13)
_LIFTS = 4  # values of the lift, from one row among all to a half
_BLOCK = 4096  # rows whose members fit into the cache


class TemperedShares(Module):
    """Probabilities of a classifier, averaged over how far to believe them.

    >>> held_out = [[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.3, 0.7]] * 5
    >>> wrong, right = ([1, 0, 1, 0] * 5, [0, 0, 1, 1] * 5)
    >>> blank = TemperedShares.of([10, 10])
    >>> blank.add(held_out, wrong)([[0.9, 0.1]]).round(2).tolist()
    [[0.53, 0.47]]
    >>> blank.add(held_out, right)([[0.9, 0.1]]).round(2).tolist()
    [[0.99, 0.01]]
    """

    base: Float[Values, " k"] = field(about="the probability of each class before a row is seen")
    total: Float[Values, ""] = field(about="the weight of all rows")
    log_likelihood: Float[Values, " m"] = field(show=False)  # of each member, over the rows held out so far

    @classmethod
    def of(cls, counts: ArrayLike) -> "TemperedShares":
        """What is known before any row is held out: the weight of the rows of each class."""
        counted = np.asarray(counts, float)
        ok = counted.ndim == 1 and bool((counted >= 0).all()) and counted.sum() > 0
        check(ok, "counts", "weights of classes, one of them positive", counts)
        total = counted.sum()
        base = (counted + 1) / (total + len(counted))
        return cls(base, np.asarray(total), np.zeros(1 + len(_POWERS) * _LIFTS))

    def add(self, probs: ArrayLike, codes: ArrayLike, weights: ArrayLike | None = None) -> "TemperedShares":
        """The same with more rows: probabilities that did not see their row, and its class."""
        rows = Rows.of(probs, codes, weights, target="class", num_classes=len(self.base))
        found = np.zeros(len(self.log_likelihood))
        for start in range(0, rows.num_rows, _BLOCK):
            part = rows.take(slice(start, start + _BLOCK))
            own = np.arange(part.num_rows), part.y
            logs = (self._log_member(part.X, m)[own] for m in range(len(found)))
            found += [float(part.weights @ log) for log in logs]
        return TemperedShares(self.base, self.total, self.log_likelihood + found)

    @property
    def weights(self) -> Float[Values, " m"]:
        """The posterior probability of each member; the first is the base rate."""
        xp = namespace(self)
        count = len(self.log_likelihood) - 1
        prior = xp.asarray(np.log(np.concatenate([[0.5], np.full(count, 0.5 / count)])))
        heights = xp.asarray(self.log_likelihood) + prior
        found = xp.exp(heights - heights.max())
        return found / found.sum()

    def __call__(self, probs: ArrayLike) -> Float[Values, "n k"]:
        """Calibrated probabilities of rows for which the classifier says `probs`."""
        table = points(probs, len(self.base), name="probs")
        xp, weights = namespace(self, table), self.weights
        used = range(len(weights)) if xp is not np else np.flatnonzero(weights > np.finfo(float).eps)
        found: Any = sum(weights[m] * xp.exp(self._log_member(table, int(m))) for m in used)
        return found / found.sum(1, keepdims=True)

    @property
    def belief(self) -> float:
        """The probability that the classifier says more than the base rate does."""
        return float(1 - self.weights[0])

    @property
    def verdict(self) -> Verdict:
        """What the rows that were held out say of the classifier."""
        weights = np.asarray(self.weights)
        powers = np.concatenate([[0.0], np.repeat(_POWERS, _LIFTS)])
        said = f"Better than the base rate with probability {self.belief:.3g}; power {weights @ powers:.2g}."
        return Verdict(True, said, {"belief": self.belief, "power": float(weights @ powers)})

    def _log_member(self, probs: Any, member: int) -> Any:
        xp = namespace(self, probs)
        log_base = xp.log(xp.asarray(self.base))[None]
        if member == 0:
            return log_base + xp.zeros((len(probs), 1))
        power, step = _POWERS[(member - 1) // _LIFTS], (member - 1) % _LIFTS
        least = 1.0 / (self.total + 1)
        lift = least * (0.5 / least) ** (step / (_LIFTS - 1))  # geometric, from one row among all to a half
        scores = log_base + power * (
            xp.log((1 - lift) * probs + lift * xp.asarray(self.base)[None]) - log_base
        )
        scores = scores - scores.max(1, keepdims=True)
        return scores - xp.log(xp.exp(scores).sum(1, keepdims=True))
