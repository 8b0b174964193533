r"""A jaxpr as one flat list of steps between numbered slots: what every analysis of a program walks along.

Form.        Calls (`jit`, custom derivatives, rematerialisation, linear solves) are written out in place, so that
             step $k$ reads slots $i_1, \dots, i_m$ and fills $o_1, \dots, o_n$; branches and loops stay whole.
Cost.        Linear in the equations; nothing is traced. `evaluate` compiles one program for all that it is asked.
"""

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

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
    """Steps in order; `types[i]` is the shape and dtype of slot `i`, `constants` the slots known from the start."""

    steps: tuple[Step, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    types: tuple[Any, ...]
    constants: Mapping[int, Any]


_TAPES: weakref.WeakKeyDictionary[ClosedJaxpr, Tape] = weakref.WeakKeyDictionary()


def record(closed: ClosedJaxpr) -> Tape:
    """The tape of a closed jaxpr.

    >>> tape = record(jax.make_jaxpr(jax.jit(lambda x: 2 * x + 1))(1.0))
    >>> [step.name for step in tape.steps]
    ['mul', 'add']
    """
    if closed not in _TAPES:
        _TAPES[closed] = _Recorder().tape(closed)
    return _TAPES[closed]


class _Recorder:
    """Slots are handed out in the order in which they are filled."""

    def __init__(self):
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
            called = _called(equation, operands)
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


def runner(tape: Tape, wanted: Sequence[int]) -> Callable[[Mapping[int, Any]], list[Any]]:
    """A function from the values of some slots to those `wanted`, by the steps that matter and no others."""
    needed, steps = set(wanted), []
    for step in reversed(tape.steps):
        if not needed.isdisjoint(step.outputs):
            steps.append(step)
            needed.update(step.inputs)

    def run(given: Mapping[int, Any]) -> list[Any]:
        slots = {**tape.constants, **given}
        for step in reversed(steps):
            equation = step.equation
            options = equation.primitive.get_bind_params(equation.params)
            with equation.ctx.manager:
                found = equation.primitive.bind(*(slots[slot] for slot in step.inputs), **options)
            slots.update(zip(step.outputs, found if equation.primitive.multiple_results else [found]))
        return [slots[slot] for slot in wanted]

    return run


def evaluate(tape: Tape, wanted: Iterable[int], values: Sequence[Any]) -> dict[int, np.ndarray]:
    """The values of the slots `wanted` at the inputs `values`, by one small program."""
    inputs = {slot: value for slot, value in zip(tape.inputs, values) if value is not None}
    wanted = set(wanted)
    known = {slot: each[slot] for each in (tape.constants, inputs) for slot in wanted & set(each)}
    asked = sorted(wanted - set(known))
    if asked:
        known.update(zip(asked, jax.jit(runner(tape, asked))(inputs)))
    return {slot: np.asarray(value) for slot, value in known.items()}
