r"""Labels that may be permuted: what a mixture's draws say whatever its components are called.

Symmetry.    A model that treats its $K$ components alike has $K!$ equivalent solutions, and
             $P(z_n = k) = 1/K$ for every row under its exact posterior. A chain that shows other shares has
             not visited all of them: its marginals by component describe one labelling, or a blend of some.
Invariant.   The co-clustering matrix $P(z_i = z_j)$ does not depend on labels.
Matching.    Two sets of components are compared after the permutation that brings them closest, found by
             linear assignment. Draws are relabelled each to one reference.
Cost.        $O(n^2 K)$ per draw for co-clustering, $O(K^3)$ per draw for matching.
References.  Stephens (2000), "Dealing with label switching in mixture models"; Kuhn (1955).
"""

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from tractable.core.blocks import run_in_blocks
from tractable.core.checks import check, check_count, check_entries, check_finite
from tractable.core.iterate import Status
from tractable.core.module import Module, field
from tractable.core.verdict import Verdict
from tractable.inference.trust.diagnostics import as_chains
from tractable.inference.trust.effective_size import effective_size

__all__ = [
    "LabelSymmetry", "Relabelled", "co_clustering", "equivalent_solutions", "label_symmetry",
    "match_components", "matched_distance", "relabel",
]  # fmt: skip

_SWITCHES = 20  # labellings that a share must be worth to say anything
_PASSES = 50  # over all draws, until no order changes
_MOST = 8  # components whose solutions are listed: 8! = 40320


class LabelSymmetry(Module):
    """The share of draws in which each row has each label, against $1/K$."""

    shares: np.ndarray  # (rows, labels)
    z: np.ndarray  # the same less 1/K, in standard errors
    worth: np.ndarray  # how many independent labellings each share is worth
    limit: float = field(static=True)

    @property
    def verdict(self) -> Verdict:
        """Whether the chains visit all labellings again and again: every share is within `limit` errors of
        $1/K$ and worth twenty labellings."""
        largest, worth = float(np.abs(self.z).max()), float(self.worth.min())
        fair = largest <= self.limit
        if fair and worth >= _SWITCHES:
            sentence = "Labels switch freely ({}): use label-invariant summaries, or relabel."
        elif fair:
            sentence = "Labels hardly switch ({}): each chain describes some of the equivalent solutions."
        else:
            sentence = (
                "Labels do not switch freely ({}): the draws describe some of the equivalent solutions."
            )
        said = f"largest |z| {largest:.3g}, worth {worth:.0f} labellings"
        return Verdict(fair and worth >= _SWITCHES, sentence.format(said), {"z": largest, "worth": worth})


class Relabelled(Module):
    """Draws whose components were permuted to match a reference, and the permutation of each draw."""

    draws: dict[str, np.ndarray]
    permutations: np.ndarray  # (chains, draws, components): new component k was old component permutations[k]
    labels: np.ndarray | None = None


def co_clustering(labels: Any) -> np.ndarray:
    """The share of draws in which rows i and j have one label, from whole numbers `(..., rows)`.

    >>> co_clustering(np.array([[0, 0, 1], [1, 1, 1]])).tolist()
    [[1.0, 1.0, 0.5], [1.0, 1.0, 0.5], [0.5, 0.5, 1.0]]
    """
    values = _as_labels(labels)
    flat = values.reshape(-1, values.shape[-1])
    together = np.zeros((flat.shape[1], flat.shape[1]))
    for label in np.unique(flat):
        has = (flat == label).astype(float)
        together += has.T @ has
    return together / len(flat)


def match_components(reference: Any, components: Any) -> np.ndarray:
    """The permutation `p` that makes the rows `components[p]` closest to the rows of `reference`.

    Squared distances are added over components and minimised over all K! permutations.

    >>> match_components([[0.0], [5.0]], [[4.0], [1.0]]).tolist()
    [1, 0]
    """
    a, b = (_as_rows(name, rows) for name, rows in (("reference", reference), ("components", components)))
    check(a.shape == b.shape, "components", f"of the shape of `reference` {a.shape}", f"shape {b.shape}")
    cost = np.stack([((row - b) ** 2).sum(-1) for row in a])  # row by row: K times the size is no room
    return linear_sum_assignment(cost)[1]


def matched_distance(reference: Any, components: Any) -> float:
    """The root mean square distance between two sets of components that does not depend on their order."""
    a, b = _as_rows("reference", reference), _as_rows("components", components)
    return float(np.sqrt(((a - b[match_components(a, b)]) ** 2).sum(1).mean()))


def equivalent_solutions(components: Any) -> np.ndarray:
    """All K! orders of the rows of `components`, each of which a symmetric model thinks as probable.

    >>> equivalent_solutions([[0.0], [5.0]])[..., 0].tolist()
    [[0.0, 5.0], [5.0, 0.0]]
    """
    rows = _as_rows("components", components)
    count = len(rows)
    fix = f"There would be {math.factorial(count)}."
    check(count <= _MOST, "components", f"at most {_MOST} to list their orders", count, fix)
    return rows[np.array(list(itertools.permutations(range(count))))]


def relabel(
    draws: Mapping[str, Any], reference: Mapping[str, Any] | None = None, labels: Any = None
) -> Relabelled:
    """Each draw with its components in the order that is closest to the reference.

    Every array is `(chains, draws, components, ...)`. Variables count in units of their standard deviation.
    `reference` has arrays `(components, ...)`. Without one, the first is the last draw of the first chain,
    and each further one the mean of the draws so relabelled, in units of the spread inside components, until
    nothing changes. `labels` of shape `(chains, draws, rows)` are renamed along.
    """
    values = {name: as_chains(name, leaf) for name, leaf in draws.items()}
    shapes = {name: leaf.shape for name, leaf in values.items()}
    check(all(leaf.ndim > 2 for leaf in values.values()), "draws", "(chains, draws, components, ...)", shapes)
    check(
        len({leaf.shape[:3] for leaf in values.values()}) == 1, "draws", "of one number of components", shapes
    )
    points = _joined(values, 3)
    flat = points.reshape(-1, *points.shape[2:])
    scale = flat.std((0, 1))
    if reference is None:
        orders = _settled_orders(flat, _orders(flat, flat[points.shape[1] - 1], scale))
    else:
        orders = _orders(flat, _joined({name: np.asarray(reference[name]) for name in values}, 1), scale)
    orders = orders.reshape(points.shape[:3])
    moved = {name: _permuted(leaf, orders) for name, leaf in values.items()}
    return Relabelled(moved, orders, None if labels is None else _renamed(labels, orders))


def label_symmetry(labels: Any, num_components: int, limit: float | int = 5.0) -> LabelSymmetry:
    r"""The shares $\hat P(z_n = k)$ of labels $0 \dots K - 1$ in `(chains, draws, rows)`, with z-scores.

    Errors are those of $1/K$ at the effective size of the indicator; one that never changes in any chain
    counts as one draw per chain.
    """
    values = _as_labels(labels)
    check(values.ndim == 3, "labels", "of shape (chains, draws, rows)", f"shape {values.shape}")
    count = check_count("num_components", num_components, 2)
    check_entries("labels", values, lambda v: (v >= 0) & (v < count), f"from 0 to {count - 1}")
    has = (values[..., None] == np.arange(count)).astype(float)
    shares, worth = has.mean((0, 1)), np.asarray(effective_size(has))
    worth = np.where(np.isnan(worth), values.shape[0], worth)
    error = np.sqrt((count - 1) / (count**2 * worth))
    return LabelSymmetry(shares, (shares - 1 / count) / error, worth, float(limit))


def _as_labels(labels: Any) -> np.ndarray:
    values = np.asarray(labels)
    whole = values.dtype.kind in "iub"
    check(whole, "labels", "an array of whole numbers", f"dtype {values.dtype}", error=TypeError)
    check(values.ndim >= 1 and values.size > 0, "labels", "at least one draw", f"shape {values.shape}")
    return values


def _as_rows(name: str, rows: Any) -> np.ndarray:
    values = np.asarray(rows, float)
    check(values.ndim == 2 and len(values) > 0, name, "one row per component", f"shape {values.shape}")
    check_finite(name, values)
    return values


def _joined(values: Mapping[str, np.ndarray], axes: int) -> np.ndarray:
    """All variables side by side behind the component axis."""
    return np.concatenate([leaf.reshape(*leaf.shape[:axes], -1) for leaf in values.values()], -1)


def _orders(points: np.ndarray, pivot: np.ndarray, scale: np.ndarray) -> np.ndarray:
    unit = np.where(scale > 0, scale, 1.0)
    return np.array([match_components(pivot / unit, point / unit) for point in points])


def _settled_orders(points: np.ndarray, orders: np.ndarray) -> np.ndarray:
    def step(orders: Any, _: Any) -> tuple[Any, Any]:
        matched = np.take_along_axis(points, np.asarray(orders)[..., None], 1)
        better = _orders(points, matched.mean(0), matched.std(0).mean(0))
        return better, np.asarray((better != np.asarray(orders)).mean())

    def judge(_: Any, changed: Any) -> Status | None:
        return Status.converged if changed[-1] == 0 else None

    found = run_in_blocks(step, orders, num_steps=_PASSES, judge=judge, compiled=False, partial=False)
    return np.asarray(found.state)


def _permuted(leaf: np.ndarray, orders: np.ndarray) -> np.ndarray:
    index = orders.reshape(*orders.shape, *(1 for _ in leaf.shape[3:]))
    return np.take_along_axis(leaf, index, 2)


def _renamed(labels: Any, orders: np.ndarray) -> np.ndarray:
    """Old component `orders[k]` is now k, so an old label is replaced by its place in the order."""
    values = _as_labels(labels)
    want = f"(chains, draws, rows) with {orders.shape[:2]} first"
    check(values.ndim == 3 and values.shape[:2] == orders.shape[:2], "labels", want, f"shape {values.shape}")
    must = f"from 0 to {orders.shape[2] - 1}"
    check_entries("labels", values, lambda v: (v >= 0) & (v < orders.shape[2]), must)
    return np.take_along_axis(np.argsort(orders, -1), values.astype(int), 2)
