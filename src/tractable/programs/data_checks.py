r"""What the data alone decide in a program, looked at before anything is compiled: parameters and indices.

Parameters.  A parameter of a law that no latent moves (the known errors of measurements, a table of
             probabilities) must lie in its support. Under a trace its constructor cannot see it.
Indices.     `effect[group]` with a group beyond the last effect is an error in NumPy; JAX takes the last one
             in its place. A known index beyond its array is refused, with the line.
Cost.        NumPy on the host; what would need a compiled program is left to the method.
"""

import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jax.extend.core import JaxprEqn

from tractable.core.checks import check, check_entries
from tractable.core.module import supports
from tractable.distributions.base import Distribution
from tractable.programs.run import Site
from tractable.programs.tape import Step, Tape, evaluate

__all__ = ["check_indices", "check_parameters", "parameters"]

_MOST = 200  # rows of a matrix that is looked at: its eigenvalues are sought
_PLACES = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib"))
_OWN = str(Path(__file__).parents[1])


def parameters(site: Site) -> dict[str, Any]:
    """The parameters of the law of a site, by field."""
    law = site.distribution
    if not isinstance(law, Distribution) or site.kind not in ("latent", "observed"):
        return {}
    return {
        name: getattr(law, name) for name, each in law.__dataclass_fields__.items() if "rank" in each.metadata
    }


def check_parameters(site: Site, known: Mapping[str, Any]) -> None:
    """Refuse a value outside its support; `known` has `Ellipsis` where none is known."""
    own = supports(site.distribution) if known else {}
    for name, value in known.items():
        support = own[name]
        if value is ... or (support.ndim == 2 and np.shape(value)[-1] > _MOST):
            continue
        law = type(site.distribution).__name__
        must = f"given a `{name}` of its {law} that is {support.words}"
        check_entries(
            site.name, value, lambda v, s=support: np.asarray(s.contains(v)), must, f"At {site.line}."
        )


def check_indices(tape: Tape, equations: list[JaxprEqn], masks: list[int], values: list) -> None:
    """Refuse a known index that lies beyond its array, in the `equations` that the user's own lines made."""
    own = {id(equation) for equation in equations if equation.primitive.name in ("gather", "dynamic_slice")}
    steps = [step for step in tape.steps if id(step.equation) in own and _is_exact(step)]
    slots = {slot for step in steps for slot in step.inputs[1:] if masks[slot] == 0}
    known = evaluate(tape, slots, values, compiled=False)
    for step in steps:
        if all(slot in known for slot in step.inputs[1:]):
            _check_index(tape, step, [known[slot] for slot in step.inputs[1:]])


def _is_exact(step: Step) -> bool:
    """Whether the index was meant to lie within: other modes say what is taken beyond."""
    return step.name == "dynamic_slice" or "PROMISE" in str(step.params["mode"])


def _check_index(tape: Tape, step: Step, indices: list[np.ndarray]) -> None:
    shape, sizes = tape.types[step.inputs[0]].shape, step.params["slice_sizes"]
    if step.name == "gather":
        axes = step.params["dimension_numbers"].start_index_map
        starts = [indices[0][..., column] for column in range(len(axes))]
    else:
        axes, starts = range(len(shape)), indices
    for axis, start in zip(axes, starts):
        wrong = start[(start < 0) | (start > shape[axis] - sizes[axis])]
        if wrong.size:
            line = _user_line(step.equation)
            count = shape[axis]
            # a negative one has had the length added
            got = int(wrong[0]) if wrong[0] >= 0 else int(wrong[0]) - count
            fix = "Numbers of groups begin at 0: `np.unique(groups, return_inverse=True)[1]` makes them."
            check(
                line is None, "index", f"from 0 to {count - 1} (an axis of {count})", f"{got} at {line}", fix
            )


def _user_line(equation: JaxprEqn) -> str | None:
    """The line of the user's code that made an equation; None if the library's own code did."""
    trace = equation.source_info.traceback
    for frame in () if trace is None else trace.frames:
        if frame.file_name.startswith(_OWN):
            return None
        if not frame.file_name.startswith((*_PLACES, "<")):
            return f"{frame.file_name}:{frame.line_num}"
    return None
