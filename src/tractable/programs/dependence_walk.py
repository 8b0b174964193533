r"""The walk along a tape that turns the numbers of its inputs into those of its outputs.

Values.      Rules look at few values: indices, predicates of choices, and what loops that look at some start
             from. They are listed first and computed together, without the steps that do not matter for them.
"""

from collections.abc import Sequence
from typing import Any

from tractable.programs.dependence_rules import RULES, Call, Numbers, unknown
from tractable.programs.element_sets import ElementSets
from tractable.programs.tape import Step, Tape, evaluate, reached, record

__all__ = ["follow", "looked_at"]

MOVING, UNKNOWN = 1, 2


def follow(tape: Tape, sets: ElementSets, given: Sequence[Numbers], values: Sequence[Any]) -> list[Numbers]:
    """The numbers of the outputs, from those `given` of the inputs; a value that is not known is None."""
    known = evaluate(tape, looked_at(tape, given, values), values)
    slots: list[Numbers] = [None] * len(tape.types)
    for slot, numbers in zip(tape.inputs, given):
        slots[slot] = numbers
    for step in tape.steps:
        numbers = [slots[slot] for slot in step.inputs]
        if all(each is None for each in numbers):
            continue
        call = Call(tape, step, sets, numbers, [known.get(slot) for slot in step.inputs])
        found = RULES.get(step.name, unknown)(call)
        for slot, each in zip(step.outputs, found):
            slots[slot] = each if each is not None and each.any() else None
    return [slots[slot] for slot in tape.outputs]


def looked_at(tape: Tape, given: Sequence[Any], values: Sequence[Any]) -> set[int]:
    """The slots whose values the rules look at, among those that can be known."""
    marks = [
        (MOVING if numbers is not None else 0) | (UNKNOWN if value is None else 0)
        for numbers, value in zip(given, values)
    ]
    masks = reached(tape, marks)
    wanted: set[int] = set()
    for step in tape.steps:
        if not any(masks[slot] & MOVING for slot in step.inputs):
            continue
        # of a moving index some columns may be fixed all the same; other moving values say nothing
        excluded = UNKNOWN if step.name.startswith(("gather", "scatter")) else UNKNOWN | MOVING
        wanted.update(slot for slot in _candidates(step) if not masks[slot] & excluded)
    return wanted


def _candidates(step: Step) -> tuple[int, ...]:
    """The operands at whose values the rule of a step looks."""
    name, params, inputs = step.name, step.params, step.inputs
    if name.startswith(("gather", "scatter")):
        return inputs[1:2]
    if name == "select_n":
        return inputs[:1]
    if name == "dynamic_slice":
        return inputs[1:]
    if name == "dynamic_update_slice":
        return inputs[2:]
    if name == "cond":
        within = any(map(looks, params["branches"]))
        return inputs if within else inputs[:1]
    return inputs if name == "scan" and looks(params["jaxpr"]) else ()


def looks(closed: Any) -> bool:
    """Whether a rule within a branch or a loop's body may look at values."""
    return any(_candidates(step) for step in record(closed).steps)
