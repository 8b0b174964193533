r"""Scores of network structures: sums over families, each a difference of terms of sets of variables.

Likelihood.  $\log L(x_i \mid P) = T(P \cup i) - T(P)$ with $T(S) = \sum_{x_S} N(x_S) \log N(x_S)$.
             BIC subtracts $\tfrac12 (k_i - 1) q_P \log N$, AIC $(k_i - 1) q_P$; $q_P = \prod_{j \in P} k_j$.
Evidence.    With Dirichlet rows, $T_\alpha(S) = \sum_{x_S} \log\Gamma(N(x_S) + \alpha) - \log\Gamma(\alpha)$.
             BDeu: $\alpha = s / q_S$ for both terms; K2: 1 for the cells of the family, $k_i$ for its rows.
Equivalence. A term depends on a set, not on directions: a DAG's sum telescopes to the same number for every
             DAG with the same skeleton and v-structures (BIC, AIC, BDeu; K2's second term names the child).
Cost.        One count of packed codes per set of variables, cached; $2^n$ of them serve all families.
References.  Schwarz (1978); Cooper and Herskovits (1992); Heckerman, Geiger and Chickering (1995).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import gammaln, xlogy

from tractable.core.checks import check, check_option
from tractable.core.progress import track
from tractable.core.types import Float
from tractable.graphs.coded_rows import CodedRows, coded_rows
from tractable.graphs.dag import DAG

__all__ = ["SCORES", "FamilyScores", "as_dag", "dirichlet_term", "score_structure"]

SCORES = ("bic", "aic", "bdeu", "k2", "log_likelihood")


class FamilyScores:
    """Scores of families on one set of rows; sets of variables are bit masks over `names`.

    >>> scores = FamilyScores({"a": [0, 0, 1, 1], "b": [0, 0, 1, 1]}, "log_likelihood")
    >>> scores.family("b", ["a"]), round(scores.family("b", []), 6)
    (0.0, -2.772589)
    """

    def __init__(
        self,
        frame: Any,
        score: str = "bic",
        *,
        equivalent_sample_size: float | int = 10.0,
        states: Mapping[str, Sequence[Any]] | None = None,
        weights: Any = None,
    ):
        """`equivalent_sample_size` is that of BDeu: imaginary rows spread evenly over all joint states."""
        check_option("score", score, SCORES)
        size = float(equivalent_sample_size)
        check(size > 0 and math.isfinite(size), "equivalent_sample_size", "positive", equivalent_sample_size)
        self.rows: CodedRows = coded_rows(frame, states, weights).complete().distinct()
        self.score, self.equivalent_sample_size = score, size
        self._terms: dict[tuple[int, float], float] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return self.rows.names

    def family(self, child: str, parents: Sequence[str]) -> float:
        """The score of one variable with its parents."""
        position = self.rows.axes.position
        return self.of_mask(position(child), sum(1 << position(parent) for parent in parents))

    def network(self, structure: Any) -> float:
        """The score of a whole structure: the sum over its families."""
        dag = as_dag(structure)
        same = sorted(dag.names) == sorted(self.names)
        check(same, "structure", f"over the columns {self.names}", f"{dag.names}")
        return math.fsum(self.family(name, dag.parents(name)) for name in dag.names)

    def of_mask(self, child: int, parents: int) -> float:
        """`family` by the position of the child and the bit mask of the parents."""
        check(not parents >> child & 1, "parents", f"without {self.names[child]!r} itself", "it among them")
        num_rows, size = self.num_states(parents), self.rows.sizes[child]
        cells = self.term(parents | 1 << child, self._concentration(num_rows * size, 1))
        rows = self.term(parents, self._concentration(num_rows, size))
        return cells - rows - self._price * (size - 1) * num_rows

    def family_tables(self, max_parents: int | None = None) -> Float[np.ndarray, "variables masks"]:
        r"""The scores of every family: variables by masks of parents.

        $-\infty$ for sets that hold the variable itself or more than `max_parents`.
        """
        most = len(self.names) if max_parents is None else max_parents
        masks = np.arange(1 << len(self.names))
        sizes, few = self.rows.sizes, np.bitwise_count(masks) <= most
        states = np.array([self.num_states(mask) for mask in masks.tolist()], float)

        def terms(size: int) -> np.ndarray:
            wanted = masks[np.bitwise_count(masks) <= most + 1].tolist()
            found = np.zeros(len(masks))
            found[wanted] = [
                self.term(m, self._concentration(self.num_states(m), size))
                for m in track(wanted, label="Scoring families")
            ]
            return found

        of_cells = terms(1)
        of_rows = {size: terms(size) for size in set(sizes)} if self.score == "k2" else {}
        tables = np.full((len(sizes), len(masks)), -math.inf)
        for child, size in enumerate(sizes):
            free = masks[few & (masks >> child & 1 == 0)]
            fit = of_cells[free | 1 << child] - of_rows.get(size, of_cells)[free]
            tables[child, free] = fit - self._price * (size - 1) * states[free]
        return tables

    def term(self, mask: int, concentration: float = 0.0) -> float:
        r"""$T_\alpha(S)$ of a set of variables; at $\alpha = 0$, $\sum N \log N$."""
        key = (mask, concentration)
        if key not in self._terms:
            counts = self.rows.cell_counts(_bits(mask))
            plain = concentration == 0
            self._terms[key] = (
                float(xlogy(counts, counts).sum()) if plain else dirichlet_term(counts, concentration)
            )
        return self._terms[key]

    def information(self, x: int, y: int, given: int = 0) -> float:
        r"""$N\,I(x; y \mid z) = T(xyz) + T(z) - T(xz) - T(yz)$ in nats: half of $G^2$."""
        return self.term(x | y | given) + self.term(given) - self.term(x | given) - self.term(y | given)

    def num_states(self, mask: int) -> int:
        """The number of joint states of a set of variables."""
        return math.prod(self.rows.sizes[i] for i in _bits(mask))

    def most_parents(self) -> int:
        r"""A number of parents that an optimum need not exceed.

        $q$ rows cost $c (k_i - 1) q$, and the likelihood gains at most $N \log k_i$ over no parents, so that
        $2^{|P|} \le q_P \le 1 + N \log k_i / (c (k_i - 1))$. Scores without a price have no such bound.
        """
        others = len(self.names) - 1
        price = self._price
        if price == 0:
            return others
        gain = max(self.rows.total * math.log(size) / max(size - 1, 1) for size in self.rows.sizes)
        return min(others, math.floor(math.log2(1 + gain / price)))

    def _concentration(self, num_states: int, size: int) -> float:
        """Of each of the `num_states` cells of a term, one per row of a variable with `size` states."""
        if self.score == "bdeu":
            return self.equivalent_sample_size / num_states
        return float(size) if self.score == "k2" else 0.0

    @property
    def _price(self) -> float:
        """What one free parameter costs."""
        return {"bic": 0.5 * math.log(self.rows.total), "aic": 1.0}.get(self.score, 0.0)


def score_structure(frame: Any, structure: Any, score: str = "bic", **options: Any) -> float:
    """The score of a structure (a DAG, a mapping from names to parents or a network) on complete rows.

    >>> rows = {"a": [0, 0, 1, 1], "b": [0, 1, 1, 1]}
    >>> forth, back = (score_structure(rows, s) for s in ({"a": [], "b": ["a"]}, {"a": ["b"], "b": []}))
    >>> abs(forth - back) < 1e-12
    True
    """
    return FamilyScores(frame, score, **options).network(structure)


def as_dag(structure: Any) -> DAG:
    """The graph of a DAG, a network, a learned structure or a mapping from names to parents."""
    if isinstance(structure, DAG):
        return structure
    if isinstance(structure, Mapping):
        return DAG(structure)
    dag = getattr(structure, "dag", None)
    must = "a DAG, a network, a learned structure or a mapping from names to parents"
    check(isinstance(dag, DAG), "structure", must, type(structure).__name__, error=TypeError)
    assert isinstance(dag, DAG)
    return dag


def dirichlet_term(counts: np.ndarray | np.floating, concentration: np.ndarray | float) -> float:
    r"""$\sum \log\Gamma(N + \alpha) - \log\Gamma(\alpha)$; cells minus rows are the evidence."""
    return float((gammaln(counts + concentration) - gammaln(concentration)).sum())


def _bits(mask: int) -> list[int]:
    """The positions of the ones of a mask, ascending."""
    return [i for i in range(mask.bit_length()) if mask >> i & 1]
