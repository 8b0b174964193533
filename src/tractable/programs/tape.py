r"""A jaxpr as one flat list of steps between numbered slots: what every analysis of a program walks along.

Form.        Calls (`jit`, custom derivatives, rematerialisation, linear solves) are written out in place:
             step $k$ reads slots $i_1, \dots, i_m$ and fills $o_1, \dots, o_n$. Branches and loops stay
             whole.
Cost.        Linear in the equations. `evaluate` compiles at most one program for all that it is asked.
"""

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

from tractable.core.numerics import logit, safe_log
from tractable.programs.host_values import HOST

__all__ = ["Step", "Tape", "evaluate", "reached", "record", "runner", "settled_masks"]

# primitives that only call a jaxpr, and the parameter that holds it
CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "closed_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
    "composite": "jaxpr",
}


@dataclass(frozen=True)
class Step:
    """One equation: its primitive reads the slots `inputs` and fills the slots `outputs`."""

    equation: JaxprEqn
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def name(self) -> str:
        return self.equation.primitive.name

    @property
    def params(self) -> dict[str, Any]:
        return self.equation.params


@dataclass(frozen=True, eq=False)
class Tape:
    """Steps in order; `types[i]` is the shape and dtype of slot `i`, `constants` the slots known before."""

    steps: tuple[Step, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    types: tuple[Any, ...]
    constants: Mapping[int, Any]


_TAPES: tuple[weakref.WeakKeyDictionary[ClosedJaxpr, Tape], ...] = (
    weakref.WeakKeyDictionary(),
    weakref.WeakKeyDictionary(),
)


def record(closed: ClosedJaxpr, *, whole: bool = False) -> Tape:
    """The tape of a closed jaxpr; with `whole`, calls of the library's `logit` and `safe_log` are one step.

    >>> tape = record(jax.make_jaxpr(jax.jit(lambda x: 2 * x + 1))(1.0))
    >>> [step.name for step in tape.steps]
    ['mul', 'add']
    """
    tapes = _TAPES[whole]
    if closed not in tapes:
        tapes[closed] = _Recorder(whole).tape(closed)
    return tapes[closed]


class _Recorder:
    """Slots are handed out in the order in which they are filled."""

    def __init__(self, whole: bool):
        self.whole = whole
        self.steps: list[Step] = []
        self.types: list[Any] = []
        self.constants: dict[int, Any] = {}

    def tape(self, closed: ClosedJaxpr) -> Tape:
        inputs = tuple(self.slot(variable.aval) for variable in closed.jaxpr.invars)
        outputs = self.inline(closed.jaxpr, closed.consts, inputs)
        return Tape(tuple(self.steps), inputs, outputs, tuple(self.types), self.constants)

    def slot(self, aval: Any) -> int:
        self.types.append(aval)
        return len(self.types) - 1

    def constant(self, aval: Any, value: Any) -> int:
        slot = self.slot(aval)
        self.constants[slot] = value
        return slot

    def inline(self, jaxpr: Jaxpr, consts: Sequence[Any], inputs: Sequence[int]) -> tuple[int, ...]:
        place = dict(zip(jaxpr.invars, inputs))
        place.update({v: self.constant(v.aval, value) for v, value in zip(jaxpr.constvars, consts)})

        def read(atom: Any) -> int:
            return self.constant(atom.aval, atom.val) if isinstance(atom, Literal) else place[atom]

        for equation in jaxpr.eqns:
            operands = tuple(map(read, equation.invars))
            kept = self.whole and _is_library(equation)
            called = None if kept else _called(equation, operands)
            if called is None:
                outputs = tuple(self.slot(variable.aval) for variable in equation.outvars)
                self.steps.append(Step(equation, operands, outputs))
            else:
                outputs = self.inline(*called)
            place.update(zip(equation.outvars, outputs))
        return tuple(map(read, jaxpr.outvars))


def _called(
    equation: JaxprEqn, operands: tuple[int, ...]
) -> tuple[Jaxpr, Sequence[Any], Sequence[int]] | None:
    """The jaxpr, constants and operands of a call; None for any other equation."""
    name, params = equation.primitive.name, equation.params
    if name == "custom_linear_solve":
        # the value is what the solver computes; the other three functions serve derivatives
        lengths, solver = params["const_lengths"], params["jaxprs"].solve
        before = lengths.matvec + lengths.vecmat
        held = operands[before : before + lengths.solve]
        return solver.jaxpr, solver.consts, (*held, *operands[sum(lengths) :])
    if name not in CALLS:
        return None
    body = params[CALLS[name]]
    return (body.jaxpr, body.consts, operands) if isinstance(body, ClosedJaxpr) else (body, (), operands)


_WHOLE = {"logit": logit, "safe_log": safe_log}


def _is_library(equation: JaxprEqn) -> bool:
    """Whether an equation calls one of these functions: by its name, and then by all that it does."""
    is_call = equation.primitive.name in ("jit", "pjit")
    function = _WHOLE.get(str(equation.params.get("name"))) if is_call else None
    if function is None or len(equation.invars) != 1:
        return False
    aval: Any = equation.invars[0].aval
    like = jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)
    own = jax.make_jaxpr(function)(like).jaxpr.eqns[0].params["jaxpr"]
    return str(own) == str(equation.params["jaxpr"])


def reached(tape: Tape, inputs: Sequence[int]) -> list[int]:
    """For each slot the union (bitwise or) of the masks of the inputs that it may depend on."""
    masks = [0] * len(tape.types)
    for slot, mask in zip(tape.inputs, inputs):
        masks[slot] |= mask
    for step in tape.steps:
        found = _masks(step, [masks[slot] for slot in step.inputs])
        for slot, mask in zip(step.outputs, found):
            masks[slot] = mask
    return masks


def _masks(step: Step, masks: list[int]) -> list[int]:
    if not any(masks):
        return [0] * len(step.outputs)
    if step.name == "cond":
        branches = [_outputs(branch, masks[1:]) for branch in step.params["branches"]]
        return [masks[0] | _joined(found) for found in zip(*branches)]
    if step.name == "scan":
        return settled_masks(step, masks)
    if step.name == "while":
        return _while_masks(step, masks)
    return [_joined(masks)] * len(step.outputs)


def settled_masks(step: Step, masks: list[int]) -> list[int]:
    """The masks of the carries and outputs of a scan, once the carries no longer grow."""
    held, count = step.params["num_consts"], step.params["num_carry"]
    carry = masks[held : held + count]
    while True:
        found = _outputs(step.params["jaxpr"], [*masks[:held], *carry, *masks[held + count :]])
        grown = [old | new for old, new in zip(carry, found[:count])]
        if grown == carry:
            return [*carry, *found[count:]]
        carry = grown


def _while_masks(step: Step, masks: list[int]) -> list[int]:
    tests, held = step.params["cond_nconsts"], step.params["body_nconsts"]
    carry = masks[tests + held :]
    while True:
        found = _outputs(step.params["body_jaxpr"], [*masks[tests : tests + held], *carry])
        stop = _joined(_outputs(step.params["cond_jaxpr"], [*masks[:tests], *carry]))
        grown = [old | new | stop for old, new in zip(carry, found)]
        if grown == carry:
            return carry
        carry = grown


def _outputs(closed: ClosedJaxpr, masks: Sequence[int]) -> list[int]:
    tape = record(closed)
    found = reached(tape, masks)
    return [found[slot] for slot in tape.outputs]


def _joined(masks: Iterable[int]) -> int:
    total = 0
    for mask in masks:
        total |= mask
    return total


def _relevant(tape: Tape, wanted: Iterable[int]) -> list[Step]:
    """The steps on the way to the slots `wanted`, in order."""
    needed, steps = set(wanted), []
    for step in reversed(tape.steps):
        if not needed.isdisjoint(step.outputs):
            steps.append(step)
            needed.update(step.inputs)
    return steps[::-1]


def runner(tape: Tape, wanted: Sequence[int]) -> Callable[[Mapping[int, Any]], list[Any]]:
    """A function from the values of some slots to those `wanted`, by the steps that matter and no others."""
    steps = _relevant(tape, wanted)

    def run(given: Mapping[int, Any]) -> list[Any]:
        slots = {**tape.constants, **given}
        for step in steps:
            equation = step.equation
            options = equation.primitive.get_bind_params(equation.params)
            with equation.ctx.manager:
                found = equation.primitive.bind(*(slots[slot] for slot in step.inputs), **options)
            slots.update(zip(step.outputs, found if equation.primitive.multiple_results else [found]))
        return [slots[slot] for slot in wanted]

    return run


def evaluate(
    tape: Tape, wanted: Iterable[int], values: Sequence[Any], *, compiled: bool = True
) -> dict[int, np.ndarray]:
    """The values of the slots `wanted` at the inputs `values`: on the host, the rest by one small program,
    or not at all."""
    known = {slot: value for slot, value in zip(tape.inputs, values) if value is not None}
    wanted = set(wanted)
    steps = _relevant(tape, wanted)
    read = {slot for step in steps for slot in step.inputs} | wanted
    known = {slot: each[slot] for each in (tape.constants, known) for slot in read & set(each)}
    host = {slot: np.asarray(value) for slot, value in known.items() if _is_plain(tape.types[slot])}
    for step in steps:
        if step.name in HOST and all(slot in host for slot in step.inputs):
            with np.errstate(all="ignore"):
                found = HOST[step.name](step.params, *(host[each] for each in step.inputs))
            if found is not None:
                host[step.outputs[0]] = np.asarray(found, tape.types[step.outputs[0]].dtype)
    asked = sorted(wanted - set(host))
    if asked and compiled:
        # a loop takes all its inputs, though what is asked of it may not depend on those without a value
        known |= {slot: _any(tape.types[slot]) for slot in read & set(tape.inputs) - set(known)}
        host.update(zip(asked, map(np.asarray, jax.jit(runner(tape, asked))(known))))
    return {slot: host[slot] for slot in wanted if slot in host}


def _any(kind: Any) -> Any:
    """Some value of this type."""
    if _is_plain(kind):
        return np.zeros(kind.shape, kind.dtype)
    return jax.random.split(jax.random.key(0), kind.shape) if kind.shape else jax.random.key(0)


def _is_plain(kind: Any) -> bool:
    """Whether NumPy has this kind of number; keys of random generators are no numbers."""
    return isinstance(kind.dtype, np.dtype)
