r"""Which elements of the latents each element of a program's outputs may depend on.

Cost.        `depends_on` is linear in the equations, nothing traced or compiled.
"""

from collections.abc import Sequence

from jax.extend.core import ClosedJaxpr

from tractable.programs.tape import reached, record

__all__ = ["depends_on"]


def depends_on(closed_jaxpr: ClosedJaxpr, moving: Sequence[bool]) -> list[set[int]]:
    """The places of the `moving` inputs that each output may depend on at all.

    >>> import jax
    >>> depends_on(jax.make_jaxpr(lambda x, y, z: (x + y, 2 * z))(1.0, 1.0, 1.0), [True, False, True])
    [{0}, {2}]
    """
    tape = record(closed_jaxpr)
    masks = reached(tape, [1 << place if mark else 0 for place, mark in enumerate(moving)])
    return [{place for place in range(len(moving)) if masks[slot] >> place & 1} for slot in tape.outputs]
