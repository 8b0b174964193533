r"""Which elements of the latents each element of a program's outputs may depend on.

Pattern.     Output element $i$ may depend on latent element $j$: a boolean matrix for each output. It never
             misses a dependence; it is exact for what moves entries about, for entry-by-entry operations,
             sums, contractions, indexing and choices that no latent decides, and for scans.
Values.      The pattern rests on the values of indices and predicates; `rests_on` says which inputs these
             come from. New values of any other input leave the pattern as it is.
Cost.        `depends_on` is linear in the equations. `dependence` is linear in the elements of all arrays
             that depend on a latent, and in the entries of the pattern; at most one small program is
             compiled for the values, and one for each loop that looks at some.
References.  Griewank and Walther (2008), chapter 7, on sparsity by propagation of index sets.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax.extend.core import ClosedJaxpr
from scipy.sparse import csr_array

from tractable.core.checks import check
from tractable.programs import dependence_indexing, dependence_loops, dependence_rules
from tractable.programs.dependence_walk import follow, looked_at
from tractable.programs.element_sets import ElementSets
from tractable.programs.tape import reached, record

__all__ = ["Pattern", "dependence", "depends_on", "patterns", "rests_on"]

dependence_rules.RULES.update({**dependence_indexing.RULES, **dependence_loops.RULES})

MAX_ENTRIES = 2**28


@dataclass(frozen=True)
class Pattern:
    """The dependence of one output: entry `i` depends on the elements of row `numbers[i]` of `sets`.

    Entries with the same dependence share a row, so that a dense pattern is small too.
    """

    numbers: np.ndarray
    sets: csr_array

    @property
    def num_entries(self) -> int:
        """How many entries the matrix of all elements has."""
        return int(np.diff(self.sets.indptr)[self.numbers].sum())

    def to_csr(self) -> csr_array:
        """One row per element of the output."""
        count = self.num_entries
        must = f"sparse enough to be written out (at most {MAX_ENTRIES} entries)"
        fix = "Use `patterns`, where elements with equal dependence share a row."
        check(count <= MAX_ENTRIES, "closed_jaxpr", must, f"a pattern of {count} entries", fix, ValueError)
        return csr_array(self.sets[self.numbers.ravel()])


def dependence(
    closed_jaxpr: ClosedJaxpr, moving: Sequence[bool], values: Sequence[Any]
) -> list[csr_array | None]:
    """For each output a boolean matrix: its elements by those of all `moving` inputs, one after the other.

    `values` are those of all inputs, of moving ones only examples. None is an output without dependence.

    >>> import jax, jax.numpy as jnp
    >>> closed = jax.make_jaxpr(lambda alpha, beta: alpha[jnp.array([0, 1, 1])] + beta)(jnp.ones(2), 1.0)
    >>> dependence(closed, [True, True], [jnp.ones(2), 1.0])[0].toarray().astype(int).tolist()
    [[1, 0, 1], [0, 1, 1], [0, 1, 1]]
    """
    found = patterns(closed_jaxpr, moving, values)
    return [None if each is None else each.to_csr() for each in found]


def patterns(
    closed_jaxpr: ClosedJaxpr, moving: Sequence[bool], values: Sequence[Any]
) -> list[Pattern | None]:
    """The same as `dependence`, with one row for all elements that depend on the same."""
    tape = record(closed_jaxpr)
    count = len(tape.inputs)
    check(len(moving) == count, "moving", f"one mark for each of the {count} inputs", len(moving))
    check(len(values) == count, "values", f"one for each of the {count} inputs", len(values))
    shapes = [tuple(tape.types[slot].shape) for slot in tape.inputs]
    sizes = [int(np.prod(shape)) if mark else 0 for shape, mark in zip(shapes, moving)]
    starts = np.cumsum([0, *sizes])
    sets = ElementSets(int(starts[-1]))
    given = [sets.singles(int(a), s) if mark else None for a, s, mark in zip(starts, shapes, moving)]
    return [_pattern(sets, each) for each in follow(tape, sets, given, values)]


def _pattern(sets: ElementSets, numbers: np.ndarray | None) -> Pattern | None:
    if numbers is None:
        return None
    distinct, which = np.unique(numbers, return_inverse=True)
    return Pattern(which.reshape(numbers.shape), sets.rows(distinct))


def depends_on(closed_jaxpr: ClosedJaxpr, moving: Sequence[bool]) -> list[set[int]]:
    """The places of the `moving` inputs that each output may depend on at all.

    >>> import jax
    >>> depends_on(jax.make_jaxpr(lambda x, y, z: (x + y, 2 * z))(1.0, 1.0, 1.0), [True, False, True])
    [{0}, {2}]
    """
    tape = record(closed_jaxpr)
    masks = reached(tape, [1 << place if mark else 0 for place, mark in enumerate(moving)])
    return [{place for place in range(len(moving)) if masks[slot] >> place & 1} for slot in tape.outputs]


def rests_on(closed_jaxpr: ClosedJaxpr, moving: Sequence[bool]) -> set[int]:
    """The places of the inputs at whose values `dependence` looks: other values there may change the pattern.

    >>> import jax, jax.numpy as jnp
    >>> closed = jax.make_jaxpr(lambda x, i, y: x[i] + y)(jnp.ones(3), 0, 1.0)
    >>> rests_on(closed, [True, False, False])
    {1}
    """
    tape = record(closed_jaxpr)
    given = [True if mark else None for mark in moving]
    masks = reached(tape, [1 << place for place in range(len(moving))])
    looked = looked_at(tape, given, [True] * len(given))
    total = 0
    for slot in looked:
        total |= masks[slot]
    return {place for place in range(len(moving)) if total >> place & 1 and not moving[place]}
