r"""The rule of each primitive for the forms of `forms`.

Rules.       Sums, products and powers entry by entry; what moves entries about keeps a form and renames its
             source; linear maps with constant coefficients keep linear and affine; branches join; loops
             settle.
Cost.        A dictionary look-up and a few comparisons for each equation.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tractable.programs.forms import (
    CONSTANT,
    OTHER,
    Form,
    Traced,
    added,
    join,
    multiplied,
    powered,
    scaled,
    summed,
    walk,
)
from tractable.programs.tape import Step, Tape

__all__ = ["RULES", "Equation"]


@dataclass(frozen=True)
class Equation:
    """One step of a tape with the forms of its operands."""

    tape: Tape
    step: Step
    operands: list[Traced]

    @property
    def params(self) -> dict[str, Any]:
        return self.step.params

    def kind(self, place: int) -> str:
        """The kind of number of an operand: "f", "i", "b", ..."""
        return np.dtype(self.tape.types[self.step.inputs[place]].dtype).kind

    def number(self, place: int) -> float | None:
        """The one number that an operand holds throughout, if it is known."""
        value = self.tape.constants.get(self.step.inputs[place])
        array = None if value is None else np.asarray(value)
        return None if array is None or array.size == 0 or np.ptp(array) != 0 else float(array.flat[0])

    def constant(self, *places: int) -> bool:
        return all(self.operands[place].is_constant for place in places)


Found = Traced | list[Traced] | None
RULES: dict[str, Callable[[Equation], Found]] = {}


def _rule(*names: str) -> Callable[[Callable[[Equation], Found]], Callable[[Equation], Found]]:
    def register(function: Callable[[Equation], Found]) -> Callable[[Equation], Found]:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def _moved(equation: Equation, operand: Traced, *others: Any) -> Traced:
    """The form after entries were moved, copied or dropped; a single number needs no new name."""
    if operand.is_constant or operand.is_single or not operand.form.is_power:
        return operand
    if operand.source is None:
        return operand
    shape = equation.tape.types[equation.step.outputs[0]].shape
    loop = equation.step.name == "scan"
    how = id(equation.step.equation) if loop else str(equation.params)
    return Traced(operand.form, ((equation.step.name, how, shape, others), operand.source))


@_rule(
    *("reshape", "transpose", "broadcast_in_dim", "squeeze", "slice", "rev", "expand_dims", "tile"),
    *("gather", "dynamic_slice"),
)
def _structural(equation: Equation) -> Found:
    if not all(each.is_constant for each in equation.operands[1:]):
        return None
    others = tuple((id(equation.tape), slot) for slot in equation.step.inputs[1:])
    return _moved(equation, equation.operands[0], *others)


@_rule("split", "unstack")
def _pieces(equation: Equation) -> Found:
    count = len(equation.step.outputs)
    return [_moved(equation, equation.operands[0], place) for place in range(count)]


@_rule("copy", "copy_p", "stop_gradient", "device_put", "name", "optimization_barrier", "reduce_precision")
@_rule("sharding_constraint")
def _kept(equation: Equation) -> Found:
    return list(equation.operands)


@_rule("convert_element_type")
def _converted(equation: Equation) -> Found:
    kind = np.dtype(equation.params["new_dtype"]).kind
    exact = (equation.kind(0), kind) in [
        ("f", "f"),
        ("i", "i"),
        ("i", "f"),
        ("b", "i"),
        ("b", "f"),
        ("u", "f"),
    ]
    return equation.operands[0] if exact else None


@_rule("neg")
def _negative(equation: Equation) -> Found:
    return scaled(_spread(equation)[0])


@_rule("add", "sub", "add_any")
def _sum(equation: Equation) -> Found:
    return added(*_spread(equation))


@_rule("mul")
def _product(equation: Equation) -> Found:
    return multiplied(*_spread(equation))


@_rule("div")
def _quotient(equation: Equation) -> Found:
    top, bottom = _spread(equation)
    if equation.kind(0) not in "fc":
        return None
    return multiplied(top, powered(bottom, -1.0))


def _spread(equation: Equation) -> list[Traced]:
    """The operands as entries of the output: those that are broadcast take a source of their own."""
    shape = equation.tape.types[equation.step.outputs[0]].shape
    shapes = [equation.tape.types[slot].shape for slot in equation.step.inputs]
    return [e if s == shape else _moved(equation, e, s) for e, s in zip(equation.operands, shapes)]


@_rule("jit", "pjit")
def _of_library(equation: Equation) -> Found:
    """The log or the log-odds of elements: what stands between a probability and its family's parameter."""
    operand = equation.operands[0]
    whole = len(equation.operands) == 1 and operand.form == Form.same
    return Traced(Form(str(equation.params["name"])), operand.source) if whole else None


@_rule("square")
def _squared(equation: Equation) -> Found:
    return powered(equation.operands[0], 2.0)


@_rule("sqrt")
def _root(equation: Equation) -> Found:
    return powered(equation.operands[0], 0.5)


@_rule("rsqrt")
def _inverse_root(equation: Equation) -> Found:
    return powered(equation.operands[0], -0.5)


@_rule("integer_pow")
def _whole_power(equation: Equation) -> Found:
    exponent = equation.params["y"]
    return (
        powered(equation.operands[0], float(exponent)) if equation.kind(0) in "fc" or exponent > 0 else None
    )


@_rule("pow")
def _power(equation: Equation) -> Found:
    exponent = equation.number(1)
    return None if exponent is None else powered(equation.operands[0], exponent)


@_rule("concatenate", "stack", "pad")
def _joined(equation: Equation) -> Found:
    if all(each == equation.operands[0] and each.is_single for each in equation.operands):
        return equation.operands[0]
    found = join(equation.operands)
    return found if found.is_single else Traced(found.form, zero=found.zero)


@_rule("select_n")
def _selected(equation: Equation) -> Found:
    return join(equation.operands[1:]) if equation.constant(0) else None


@_rule("reduce_sum", "cumsum", "reduce_window_sum")
def _total(equation: Equation) -> Found:
    return summed(equation.operands[0])


@_rule("dot_general", "conv_general_dilated")
def _contraction(equation: Equation) -> Found:
    left, right = equation.operands
    if left.is_constant or right.is_constant or (left.is_single and right.is_single):
        return summed(multiplied(left, right))
    return None


@_rule("triangular_solve")
def _solved(equation: Equation) -> Found:
    matrix, right = equation.operands
    if matrix.is_constant:
        return summed(right)
    # (s^p L)^{-1} = s^{-p} L^{-1}: a factor of the whole matrix comes out
    scaled = matrix.is_single and (right.is_constant or right.is_single)
    return (
        multiplied(powered(matrix, -1.0), right) if scaled and not equation.params["unit_diagonal"] else None
    )


@_rule("cholesky")
def _factor(equation: Equation) -> Found:
    """A factor $s^2$ would give $|s|$, which `powered` refuses."""
    return powered(equation.operands[0], 0.5) if equation.operands[0].is_single else None


@_rule("dynamic_update_slice")
def _replaced(equation: Equation) -> Found:
    held, new, *places = equation.operands
    return _unnamed(join([held, new])) if all(each.is_constant for each in places) else None


@_rule("scatter")
def _scattered(equation: Equation) -> Found:
    held, place, new = equation.operands
    return _unnamed(join([held, new])) if place.is_constant else None


@_rule("scatter-add", "scatter_add", "scatter-sub", "scatter_sub")
def _scattered_sum(equation: Equation) -> Found:
    held, place, new = equation.operands
    return added(_unnamed(held), summed(new)) if place.is_constant else None


def _unnamed(each: Traced) -> Traced:
    return each if each.is_single else Traced(each.form, zero=each.zero)


@_rule("cond")
def _branches(equation: Equation) -> Found:
    index, *given = equation.operands
    found = [walk(branch, given) for branch in equation.params["branches"]]
    outputs = [join(each) for each in zip(*found)]
    return outputs if index.is_constant else _all_constant_or_other(equation)


def _all_constant_or_other(equation: Equation) -> list[Traced]:
    free = all(each.is_constant for each in equation.operands)
    return [CONSTANT if free else OTHER for _ in equation.step.outputs]


@_rule("scan")
def _scan(equation: Equation) -> Found:
    held, count = equation.params["num_consts"], equation.params["num_carry"]
    consts, carry, rows = (
        equation.operands[:held],
        equation.operands[held : held + count],
        [_moved(equation, each, "step") for each in equation.operands[held + count :]],
    )
    consts = [_held(each, place) for place, each in enumerate(consts)]
    carry, outputs = _settled(lambda now: walk(equation.params["jaxpr"], [*consts, *now, *rows]), carry)
    final = [_unnamed(each) for each in carry]
    stacked = [_moved(equation, each, "stacked") for each in outputs]
    return [*final, *stacked]


@_rule("while")
def _while(equation: Equation) -> Found:
    tests, held = equation.params["cond_nconsts"], equation.params["body_nconsts"]
    checked = equation.operands[:tests]
    consts = [_held(each, place) for place, each in enumerate(equation.operands[tests : tests + held])]
    body, test = equation.params["body_jaxpr"], equation.params["cond_jaxpr"]
    carry, _ = _settled(lambda now: walk(body, [*consts, *now]), equation.operands[tests + held :])
    if not walk(test, [*checked, *carry])[0].is_constant:
        return _all_constant_or_other(equation)
    return [_unnamed(each) for each in carry]


def _held(each: Traced, place: int) -> Traced:
    """A constant of a loop within its body: the same elements at every step, under a name of its own."""
    return each if each.source is None or each.is_single else Traced(each.form, ("held", place, each.source))


def _settled(body: Callable, carry: list[Traced]) -> tuple[list[Traced], list[Traced]]:
    """The forms of the carries when another round adds nothing, and the body's other outputs there."""
    # within one step a carry is of the same elements wherever it is read, from step to step it is not
    now = [_named(each, place) for place, each in enumerate(carry)]
    while True:
        found = body(now)
        new = found[: len(now)]
        joined = [_named(join([old, each]), place) for place, (old, each) in enumerate(zip(now, new))]
        if joined == now:
            return now, found[len(now) :]
        now = joined


def _named(each: Traced, place: int) -> Traced:
    return Traced(each.form, ("carry", place)) if each.form.is_power and not each.is_single else each
