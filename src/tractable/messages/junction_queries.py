r"""A calibrated junction tree and what can be asked of it.

Marginals.   Summed from the smallest bag or separator that holds the variable.
Joints.      Inside a bag by summing; across bags from $\beta_{\mathrm{top}} \prod_b P(r_b \mid s_b)$ over the
             smallest subtree that holds the variables, whose other variables are summed out.
Maximum.     $\max$ instead of $\sum$ on the way up, then states from the roots down: consistent under ties.
Draws.       Each bag's own variables given its separator, from the roots down: exact and independent.
Cost.        The pass down is made when first needed, and once; a maximum is another pass up in log space.
References.  Koller and Friedman (2009) sections 10.3 and 13.3; Dawid (1992).
"""

import threading
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import jax.random as jr
import numpy as np

from tractable.core.checks import check, check_count, is_key
from tractable.core.description import Described
from tractable.messages import junction_passes as passes
from tractable.messages.evidence import Evidence
from tractable.messages.junction_layout import Layout
from tractable.messages.junction_potentials import Potentials
from tractable.messages.variable_elimination import sum_out

__all__ = ["Calibrated"]


class Calibrated(Described):
    """The answers of a junction tree for one set of factors and evidence; all queries are exact.

    `log_total` is the log of the sum over all assignments that agree with the evidence: of the partition
    function, or of the probability of the evidence of a network; minus infinity if it is impossible, and then
    the probabilities are NaN.
    """

    _shown = ("log_total", "is_linear")

    def __init__(self, layout: Layout, potentials: Potentials, evidence: Evidence):
        self.layout, self.potentials, self.sizes = layout, potentials, layout.plan.sizes
        self._clamped = {v: state for v, state in evidence.hard.items() if layout.sizes[v] == 1}
        self._rows = dict(evidence.soft)
        for v in evidence.hard.keys() - self._clamped:
            self._rows[v] = np.zeros(self.sizes[v])
            self._rows[v][evidence.hard[v]] = 1.0
        self._tables = passes.empty_tables(layout)
        self._lock, self._down, self._flat = threading.Lock(), False, None
        peaks = {v: row.max() or 1.0 for v, row in evidence.soft.items()}
        rows = self._rows | {v: row / peaks[v] for v, row in evidence.soft.items()}
        total = passes.collect(layout, potentials, rows, self._clamped, self._tables)
        self.is_linear = total is not None
        if total is None:  # a product of non-zero numbers might underflow: once more, in log space
            total = passes.collect_logs(layout, potentials, self._log_rows, self._clamped, self._tables)
        else:
            total += potentials.log_peaks + float(np.log(list(peaks.values())).sum())
        self.log_total: float = total + potentials.constant

    def marginal(self, variable: int) -> np.ndarray:
        """The probabilities of the states of one variable."""
        check_count("variable", variable, 0, self.sizes.size - 1)
        flat, start = self._marginals()
        return flat[start[variable] : start[variable + 1]].copy()

    def marginals(self) -> list[np.ndarray]:
        """The probabilities of the states of every variable."""
        flat, start = self._marginals()
        flat = flat.copy()
        return [flat[low:high] for low, high in pairwise(start)]

    def joint(self, variables: Sequence[int]) -> np.ndarray:
        """The joint probabilities of some variables, in any bags; one axis each, in the given order."""
        distinct = len(set(variables)) == len(variables)
        check(distinct, "variables", "distinct", tuple(variables))
        for v in variables:
            check_count("variables", v, 0, self.sizes.size - 1)
        table = np.zeros([int(self.sizes[v]) for v in variables])
        if self.log_total == -np.inf:
            table[...] = np.nan
            return table
        free = [int(v) for v in variables if self.layout.sizes[v] > 1]
        place = tuple(self._clamped.get(int(v), slice(None)) for v in variables)
        table[place] = self._joint_of_free(free).reshape(table[place].shape)
        return table

    def most_probable(self) -> tuple[np.ndarray, float]:
        """An assignment of largest value that agrees with the evidence, and the log of that value.

        If the evidence is impossible the value is minus infinity, as it is for every assignment.
        """
        tables = passes.empty_tables(self.layout)
        value = passes.collect_maxima(self.layout, self.potentials, self._log_rows, self._clamped, tables)
        states = self._states if value == -np.inf else passes.trace_back(self.layout, tables) + self._states
        return states, value + self.potentials.constant

    def sample(self, key: Any, num: int) -> np.ndarray:
        """`num` independent exact draws of all variables given the evidence: one row of states each."""
        num = check_count("num", num, 0)
        possible = self.log_total > -np.inf
        check(possible, "evidence", "possible to draw from the posterior", "probability zero")
        self._distribute()
        shape = (num, len(self.layout.live))
        if isinstance(key, np.random.Generator):
            uniforms = key.random(shape)
        else:
            fix = "Use jr.key(0)."
            check(is_key(key), "key", "a random key or a NumPy generator", type(key).__name__, fix)
            uniforms = np.asarray(jr.uniform(key, shape, dtype=float))
        out = np.zeros((num, self.sizes.size), np.int64)
        passes.draw(self.layout, self._tables, uniforms, out)
        return out + self._states

    def bag_table(self, bag: int) -> np.ndarray:
        """The joint probabilities of a bag, axes as in `JunctionTree.bags`.

        Variables that evidence has clamped have length one where the tree was laid out without them.
        """
        check_count("bag", bag, 0, len(self.layout.live) - 1)
        self._distribute()
        return self._tables.cells[self.layout.cells[bag]].reshape(self.layout.sizes[self._variables(bag)])

    @property
    def _states(self) -> np.ndarray:
        """The clamped states by variable, zero elsewhere."""
        states = np.zeros(self.sizes.size, np.int64)
        states[list(self._clamped)] = list(self._clamped.values())
        return states

    @property
    def _log_rows(self) -> dict[int, np.ndarray]:
        with np.errstate(divide="ignore"):
            return {v: np.log(row) for v, row in self._rows.items()}

    def _distribute(self) -> None:
        with self._lock:
            if not self._down and self.log_total == -np.inf:
                self._tables.cells[:] = np.nan  # no probabilities
            elif not self._down:
                passes.distribute(self.layout, self._tables)
            self._down = True

    def _marginals(self) -> tuple[np.ndarray, list[int]]:
        ends = self.layout.state_ends
        if self._flat is None:
            self._distribute()
            if self.log_total == -np.inf:
                self._flat = np.full(ends[-1], np.nan)
            else:
                flat = passes.marginals(self.layout, self._tables)
                for v in self.layout.single:
                    flat[ends[v] + self._clamped.get(v, 0)] = 1.0
                self._flat = flat
        return self._flat, ends

    def _variables(self, bag: int) -> list[int]:
        return self.layout.plan.bags[bag]

    def _joint_of_free(self, free: list[int]) -> np.ndarray:
        """The joint table of variables that have more than one state."""
        if not free:
            return np.ones(())
        sizes, wanted = self.layout.sizes, set(free)
        holders = [b for b, bag in enumerate(self.layout.live) if wanted <= set(bag)]
        if holders:
            smallest = min(holders, key=lambda b: self.layout.cells[b].stop - self.layout.cells[b].start)
            variables = self._variables(smallest)
            table = self.bag_table(smallest)
            summed = table.sum(axis=tuple(k for k, v in enumerate(variables) if v not in wanted))
            left = [v for v in variables if v in wanted]
            return summed.transpose([left.index(v) for v in free])
        scopes, tables = self._subtree_factors(free)
        used = sorted({v for scope in scopes for v in scope})
        rename = {v: k for k, v in enumerate(used)}
        local = [tuple(rename[v] for v in scope) for scope in scopes]
        return sum_out(local, tables, [int(sizes[v]) for v in used], [rename[v] for v in free]).probs

    def _subtree_factors(self, free: list[int]) -> tuple[list[tuple[int, ...]], list[np.ndarray]]:
        """Log-tables whose product is the joint of the bags between the variables: top bags, conditionals."""
        plan, wanted, num = self.layout.plan, set(free), len(self.layout.live)
        inside = [0] * num  # how many of the variables leave in each subtree
        for b, parent in enumerate(plan.parents):
            inside[b] += len(wanted & set(plan.bags[b][plan.num_shared[b] :]))
            if parent >= 0:
                inside[parent] += inside[b]
        children: list[list[int]] = [[] for _ in range(num)]
        for b, parent in enumerate(plan.parents):
            if parent >= 0 and inside[b]:
                children[parent].append(b)
        scopes, tables = [], []
        total_of = {}
        for b in range(num - 1, -1, -1):
            parent = plan.parents[b]
            total_of[b] = inside[b] if parent < 0 else total_of[parent]
            if not inside[b]:
                continue
            own = wanted & set(plan.bags[b][plan.num_shared[b] :])
            shared = plan.num_shared[b]
            if inside[b] == total_of[b]:  # nothing wanted outside: everything above is summed out
                if not own and len(children[b]) == 1:
                    continue  # on the way only
                shared = 0
            scopes.append(tuple(plan.bags[b]))
            tables.append(_log_conditional(self.bag_table(b), shared))
        return scopes, tables


def _log_conditional(table: np.ndarray, num_given: int) -> np.ndarray:
    """The log of a table divided by its sums over all but the leading axes; zero where those are zero."""
    total = table.sum(axis=tuple(range(num_given, table.ndim)), keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(np.where(total > 0, table / total, 0.0))
