r"""Pairwise Markov fields: Ising, Potts and Boltzmann machines, on any graph or on a grid.

Models.      Ising: $p(x) \propto \exp(\sum_{ij} J_{ij} x_i x_j + \sum_i h_i x_i)$, $x_i \in \{-1, 1\}$.
             Potts: $p(x) \propto \exp(\sum_{ij} J_{ij} [x_i = x_j] + \sum_i h_i(x_i))$, $q$ states.
             Boltzmann machine: $p(x) \propto \exp(\frac12 x^\top W x + b^\top x)$, $x_i \in \{0, 1\}$, $W$
             symmetric with zeros on the diagonal; with $x = (1 + s) / 2$ it is an Ising model.
Check.       On a cycle of $n$ spins with one coupling, $Z = (2\cosh J)^n + (2\sinh J)^n$.
Cost.        Construction is linear in the edges; inference is that of graphs.markov_field.
References.  Ising (1925); Potts (1952); Ackley, Hinton and Sejnowski (1985).
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from tractable.core.checks import check, check_count, check_finite
from tractable.core.types import ArrayLike
from tractable.distributions.table_axes import Names, as_names
from tractable.graphs.markov_field import MarkovField

__all__ = ["boltzmann_machine", "grid_edges", "grid_name", "ising_field", "potts_field"]

_SPINS = np.array([-1.0, 1.0])
Edges = Mapping[tuple[str, str], Any] | Iterable[tuple[str, str]]


def ising_field(
    edges: Edges, fields: Mapping[str, Any] | float = 0.0, *, coupling: float = 1.0, names: Names = ()
) -> MarkovField:
    r"""An Ising model: `edges` maps pairs to $J_{ij}$, or lists pairs that all have `coupling`.

    `fields` are the $h_i$, or one number for all variables; `names` come first, and may have no edge.

    >>> ring = ising_field([("a", "b"), ("b", "c"), ("c", "a")])
    >>> round(float(np.exp(ring.log_partition())), 7)
    42.3783505
    """
    couplings, order = _couplings(edges, coupling), as_names(names)
    return _pairwise(couplings, np.outer(_SPINS, _SPINS), _fields(couplings, order, fields, _SPINS), (-1, 1))


def potts_field(
    edges: Edges,
    num_states: int,
    fields: Mapping[str, Any] | None = None,
    *,
    coupling: float = 1.0,
    names: Names = (),
) -> MarkovField:
    r"""A Potts model with states $0, \dots, q - 1$: an edge whose ends agree has weight $e^{J_{ij}}$.

    `fields` maps names to one logarithm $h_i(x_i)$ per state.

    >>> ring = potts_field([("a", "b"), ("b", "c"), ("c", "a")], 3, coupling=np.log(2))
    >>> round(float(np.exp(ring.log_partition())), 6)  # 3 * 8 + 18 * 2 + 6 * 1
    66.0
    """
    size, couplings = check_count("num_states", num_states, least=2), _couplings(edges, coupling)
    known = _order(couplings, as_names(names))
    tables = {name: np.asarray(values, float) for name, values in (fields or {}).items()}
    for name, values in tables.items():
        check(values.shape == (size,), f"fields[{name!r}]", f"{size} numbers, one per state", values.shape)
    units = {name: tables.pop(name, np.zeros(size)) for name in known}
    check(not tables, "fields", f"about variables among {known}", sorted(tables))
    return _pairwise(couplings, np.eye(size), units, tuple(range(size)))


def boltzmann_machine(
    weights: ArrayLike, biases: ArrayLike | None = None, names: Names | None = None
) -> MarkovField:
    r"""A Boltzmann machine of binary units; pairs of weight zero have no edge.

    >>> machine = boltzmann_machine([[0.0, 1.0], [1.0, 0.0]], [0.0, 0.0], ["a", "b"])
    >>> bool(np.isclose(machine.log_partition(), np.log(3 + np.e)))
    True
    """
    matrix = np.asarray(weights, float)
    square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1] and matrix.size > 0
    check(square, "weights", "a square matrix", f"shape {matrix.shape}")
    check_finite("weights", matrix)
    proper = bool((matrix == matrix.T).all() and (np.diag(matrix) == 0).all())
    check(
        proper, "weights", "symmetric, with zeros on the diagonal", "another matrix", "Use `(W + W.T) / 2`."
    )
    n = matrix.shape[0]
    order = tuple(f"x{i}" for i in range(n)) if names is None else as_names(names)
    check(len(order) == n, "names", f"{n} names", len(order))
    values = np.zeros(n) if biases is None else np.asarray(biases, float)
    check(values.shape == (n,), "biases", f"{n} numbers", f"shape {values.shape}")
    pairs = {(order[i], order[j]): matrix[i, j] for i, j in combinations(range(n), 2) if matrix[i, j] != 0}
    fields = dict(zip(order, values))
    return _pairwise(
        pairs, np.outer([0, 1], [0, 1]), _fields(pairs, order, fields, np.array([0.0, 1.0])), (0, 1)
    )


def grid_name(row: int, column: int) -> str:
    """The name of a site of a grid.

    >>> grid_name(0, 2)
    'x0_2'
    """
    return f"x{row}_{column}"


def grid_edges(rows: int, columns: int, periodic: bool = False) -> list[tuple[str, str]]:
    """The edges between sites beside and below each other; `periodic` joins the far ends too.

    >>> len(grid_edges(3, 4)), len(grid_edges(3, 4, periodic=True))
    (17, 24)
    """
    rows, columns = check_count("rows", rows), check_count("columns", columns)
    short = not periodic or min(rows, columns) > 2
    check(short, "periodic", "asked of a grid of at least 3 x 3", f"{rows} x {columns}")
    steps = [(r, c, r + down, c + 1 - down) for r in range(rows) for c in range(columns) for down in (0, 1)]
    inside = [s for s in steps if periodic or (s[2] < rows and s[3] < columns)]
    return [(grid_name(r, c), grid_name(s % rows, t % columns)) for r, c, s, t in inside]


def _couplings(edges: Edges, coupling: float) -> dict[tuple[str, str], float]:
    pairs: dict[tuple[str, str], float]
    pairs = dict(edges) if isinstance(edges, Mapping) else dict.fromkeys(edges, coupling)
    for (a, b), value in pairs.items():
        check(a != b, "edges", "pairs of two different names", (a, b))
        check((b, a) not in pairs, "edges", "each pair once", f"{(a, b)} and {(b, a)}")
        check_finite(f"edges[{(a, b)}]", np.asarray(value, float))
    return pairs


def _order(couplings: Mapping[tuple[str, str], Any], names: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*names, *(name for pair in couplings for name in pair)]))


def _fields(
    couplings: Mapping[tuple[str, str], Any], names: Sequence[str], fields: Any, values: np.ndarray
) -> dict[str, np.ndarray]:
    """The unary logarithms $h_i x_i$ of each variable."""
    order = _order(couplings, names)
    chosen = dict(fields) if isinstance(fields, Mapping) else dict.fromkeys(order, fields)
    unknown = sorted(set(chosen) - set(order))
    check(not unknown, "fields", f"about variables among {order}", unknown)
    for name, value in chosen.items():
        check_finite(f"fields[{name!r}]", np.asarray(value, float))
    return {name: chosen.get(name, 0.0) * values for name in order}


def _pairwise(
    couplings: Mapping[tuple[str, str], Any],
    agreement: np.ndarray,
    units: Mapping[str, np.ndarray],
    states: tuple[int, ...],
) -> MarkovField:
    """One factor per edge and one per variable with a field that is not zero."""
    parts: list[Any] = [(pair, value * agreement) for pair, value in couplings.items()]
    parts += [((name,), logs) for name, logs in units.items() if np.any(logs != 0)]
    return MarkovField(parts, dict.fromkeys(units, states))
