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
from itertools import count, pairwise
from types import ModuleType
from typing import Any

import jax.random as jr
import numpy as np

from tractable.core.checks import check, check_count, is_key
from tractable.messages import junction_arrays as arrays
from tractable.messages.junction_layout import Layout
from tractable.messages.junction_potentials import Evidence, Potentials
from tractable.messages.variable_elimination import sum_out

__all__ = ["Calibrated"]

# By this many calibrations of small trees NumPy has cost what compiling takes; later ones are compiled, and
# take a fifth of the time.
PATIENCE = 20_000
_num_small = count()


class Calibrated:
    """The answers of a junction tree for one set of factors and evidence; all queries are exact.

    `log_total` is the log of the sum over all assignments that agree with the evidence: of the partition
    function, or of the probability of the evidence of a network; minus infinity if it is impossible, and then
    the probabilities are NaN.
    """

    def __init__(self, layout: Layout, potentials: Potentials, evidence: Evidence):
        self.layout, self.potentials, self.evidence = layout, potentials, evidence
        self.plan = plan = layout.plan
        self._passes = _passes(layout)
        self._table_at, self._message_at = layout.offsets
        self._tables, self._messages = np.empty(self._table_at[-1]), np.empty(self._message_at[-1])
        self._scales = np.empty(plan.parent.size)
        self._lock, self._down, self._flat = threading.Lock(), False, None
        log_total, self.is_linear = self._collect(arrays.LINEAR, self._tables, self._messages)
        if self.is_linear:
            log_total += potentials.log_peaks + evidence.log_peaks
        else:  # a product of non-zero numbers might underflow: once more, in log space
            log_total, _ = self._collect(arrays.LOG, self._tables, self._messages)
        self.log_total: float = log_total + potentials.constant

    def __repr__(self) -> str:
        space = "linear" if self.is_linear else "log"
        return (
            f"Calibrated(log_total={self.log_total:.6g}, {self.plan.parent.size} bags, "
            f"{self._tables.size} cells in {space} space)"
        )

    def marginal(self, variable: int) -> np.ndarray:
        """The probabilities of the states of one variable."""
        check_count("variable", variable, 0, self.plan.sizes.size - 1)
        flat, start = self._marginals()
        return flat[start[variable] : start[variable + 1]].copy()

    def marginals(self) -> list[np.ndarray]:
        """The probabilities of the states of every variable."""
        flat, start = self._marginals()
        flat, ends = flat.copy(), start.tolist()
        return [flat[low:high] for low, high in pairwise(ends)]

    def joint(self, variables: Sequence[int]) -> np.ndarray:
        """The joint probabilities of some variables, in any bags; one axis each, in the given order."""
        distinct = len(set(variables)) == len(variables)
        check(distinct, "variables", "distinct", tuple(variables))
        for v in variables:
            check_count("variables", v, 0, self.plan.sizes.size - 1)
        table = np.zeros([int(self.plan.sizes[v]) for v in variables])
        if self.log_total == -np.inf:
            table[...] = np.nan
            return table
        free = [int(v) for v in variables if self.evidence.sizes[v] > 1]
        clamped = self.evidence.sizes[list(variables)] < self.plan.sizes[list(variables)]
        place = tuple(
            int(self.evidence.states[v]) if fixed else slice(None) for v, fixed in zip(variables, clamped)
        )
        table[place] = self._joint_of_free(free).reshape(table[place].shape)
        return table

    def most_probable(self) -> tuple[np.ndarray, float]:
        """An assignment of largest value that agrees with the evidence, and the log of that value.

        If the evidence is impossible the value is minus infinity, as it is for every assignment.
        """
        tables, messages = np.empty_like(self._tables), np.empty_like(self._messages)
        value, _ = self._collect(arrays.MAX, tables, messages)
        if value == -np.inf:
            return self.evidence.states.copy(), value
        states = self._passes.trace_back(self.layout, tables)
        return states + self.evidence.states, value + self.potentials.constant

    def sample(self, key: Any, num: int) -> np.ndarray:
        """`num` independent exact draws of all variables given the evidence: one row of states each."""
        num = check_count("num", num, 0)
        possible = self.log_total > -np.inf
        check(possible, "evidence", "possible to draw from the posterior", "probability zero")
        self._distribute()
        shape = (num, self.plan.parent.size)
        if isinstance(key, np.random.Generator):
            uniforms = key.random(shape)
        else:
            check(
                is_key(key), "key", "a random key or a NumPy generator", type(key).__name__, "Use jr.key(0)."
            )
            uniforms = np.asarray(jr.uniform(key, shape, dtype=float))
        out = np.zeros((num, self.plan.sizes.size), np.int64)
        self._passes.draw(self.layout, self._tables, uniforms, out)
        return out + self.evidence.states

    def bag_table(self, bag: int) -> np.ndarray:
        """The joint probabilities of a bag, axes as in `JunctionTree.bags`; clamped ones have length one."""
        check_count("bag", bag, 0, self.plan.parent.size - 1)
        self._distribute()
        cells = self._tables[self._table_at[bag] : self._table_at[bag + 1]]
        return cells.reshape(self.evidence.sizes[self._variables(bag)])

    def _collect(self, mode: int, tables: np.ndarray, messages: np.ndarray) -> tuple[float, bool]:
        factors, evidence = self.potentials, self.evidence
        linear = mode == arrays.LINEAR
        numbers = (factors.linear if linear else factors.logs, factors.start, factors.spread)
        soft_numbers = evidence.soft_linear if linear else evidence.soft_logs
        soft = (soft_numbers, evidence.soft_start, evidence.soft_spread)
        scales = self._scales.copy() if mode == arrays.MAX else self._scales
        return self._passes.collect(
            mode, self.layout, evidence.states, numbers, soft, tables, messages, scales
        )

    def _distribute(self) -> None:
        with self._lock:
            if not self._down and self.log_total == -np.inf:
                self._tables[:] = np.nan  # no probabilities: the pass up was left where it became impossible
            elif not self._down:
                self._passes.distribute(self.layout, self._tables, self._messages, self._scales)
            self._down = True

    def _marginals(self) -> tuple[np.ndarray, np.ndarray]:
        start = np.zeros(self.plan.sizes.size + 1, np.int64)
        np.cumsum(self.plan.sizes, out=start[1:])
        if self._flat is None:
            self._distribute()
            flat = np.zeros(start[-1])
            if self.log_total == -np.inf:
                flat[:] = np.nan
            else:
                at = start[:-1] + self.evidence.states
                self._passes.marginals(self.layout, self._tables, self._messages, flat, at)
            self._flat = flat
        return self._flat, start

    def _variables(self, bag: int) -> np.ndarray:
        return self.plan.bag_variables[self.plan.bag_start[bag] : self.plan.bag_start[bag + 1]]

    def _joint_of_free(self, free: list[int]) -> np.ndarray:
        """The joint table of variables that have more than one state."""
        if not free:
            return np.ones(())
        sizes, plan = self.evidence.sizes, self.plan
        wanted = set(free)
        holders = [b for b in range(plan.parent.size) if wanted <= set(self._variables(b).tolist())]
        if holders:
            smallest = min(holders, key=lambda b: self._table_at[b + 1] - self._table_at[b])
            variables = self._variables(smallest).tolist()
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
        plan, wanted = self.plan, set(free)
        inside = np.zeros(plan.parent.size, np.int64)  # how many of the variables leave in each subtree
        for b in range(plan.parent.size):
            inside[b] += len(wanted & set(self._variables(b)[plan.separator[b] :].tolist()))
            if plan.parent[b] >= 0:
                inside[plan.parent[b]] += inside[b]
        scopes, tables = [], []
        total_of = {}
        for b in range(plan.parent.size - 1, -1, -1):
            p = plan.parent[b]
            total_of[b] = inside[b] if p < 0 else total_of[p]
            if not inside[b]:
                continue
            variables, table = self._variables(b), self.bag_table(b)
            lower = [c for c in plan.children[plan.child_start[b] : plan.child_start[b + 1]] if inside[c]]
            own = wanted & set(variables[plan.separator[b] :].tolist())
            if inside[b] == total_of[b]:  # nothing wanted outside: everything above is summed out
                only_path = not own and len(lower) == 1
                if only_path:
                    continue
                shared = 0
            else:
                shared = int(plan.separator[b])
            scopes.append(tuple(variables.tolist()))
            tables.append(_log_conditional(table, shared))
        return scopes, tables


def _passes(layout: Layout) -> ModuleType:
    """What runs the passes: NumPy for a small tree, compiled loops for a large one or after many of them."""
    if layout.is_small and next(_num_small) < PATIENCE:
        return arrays
    from tractable.messages import junction_loops  # numba: half a second, then what it compiles

    return junction_loops


def _log_conditional(table: np.ndarray, num_given: int) -> np.ndarray:
    """The log of a table divided by its sums over all but the leading axes; zero where those are zero."""
    total = table.sum(axis=tuple(range(num_given, table.ndim)), keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(np.where(total > 0, table / total, 0.0))
