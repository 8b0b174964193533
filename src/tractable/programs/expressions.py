r"""The parameters of a program's sites as text: what the function computed, read off its jaxpr.

Text.        Sums, products and functions as one would write them; what only moves entries about is left
             out, a gather is an index, a step of a scan speaks of $t$ and of what was at $t - 1$. What
             grows too long is cut to the names that it depends on: f(a, b).
Cost.        Linear in the equations.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tractable.programs.tape import Step, Tape, record

__all__ = ["expressions"]

_LONG = 60  # letters of an expression that is written out
_INFIX = {"add": (" + ", 1), "add_any": (" + ", 1), "sub": (" - ", 1), "mul": (" ", 2), "div": (" / ", 2)}
_FUNCTIONS = {"logistic": "sigmoid", "reduce_sum": "sum", "reduce_max": "max"}
_MOVES = (
    "reshape", "broadcast_in_dim", "squeeze", "expand_dims", "transpose", "convert_element_type", "copy",
    "slice", "stop_gradient", "device_put", "concatenate", "rev",
)  # fmt: skip


class _Text:
    """A piece of text, how strongly it binds, and the names that are in it."""

    def __init__(self, text: str, names: frozenset[str] = frozenset(), strength: int = 9):
        self.text, self.names, self.strength = text, names, strength
        if len(text) > _LONG:
            self.text, self.strength = f"f({', '.join(sorted(names))})", 9

    def within(self, strength: int) -> str:
        return self.text if self.strength >= strength else f"({self.text})"


def expressions(closed: Any, names: Sequence[str]) -> list[str]:
    """The text of each output, in terms of the `names` of the inputs.

    >>> import jax, jax.numpy as jnp
    >>> def function(a, b, x):
    ...     return a + b * x, jnp.exp(a)[jnp.array([0, 0])]
    >>> closed = jax.make_jaxpr(function)(jnp.ones(1), 1.0, 2.0)
    >>> expressions(closed, ["a", "b", "x"])
    ['a + b x', 'exp(a)[...]']
    """
    given = [_Text(name, frozenset([name])) for name in names]
    return [each.text for each in _walk(record(closed), given)]


def _walk(tape: Tape, given: Sequence[_Text]) -> list[_Text]:
    slots: dict[int, _Text] = dict(zip(tape.inputs, given))
    slots.update({slot: _constant(value) for slot, value in tape.constants.items()})
    for step in tape.steps:
        operands = [slots[slot] for slot in step.inputs]
        found = (
            _scanned(step, operands) if step.name == "scan" else [_said(step, operands)] * len(step.outputs)
        )
        slots.update(zip(step.outputs, found))
    return [slots[slot] for slot in tape.outputs]


def _constant(value: Any) -> _Text:
    array = np.asarray(value) if not hasattr(value, "dtype") or value.dtype.kind in "iufb" else np.zeros(0)
    if array.size and array.dtype.kind in "iufb" and (array == array.flat[0]).all():
        return _Text(f"{float(array.flat[0]):.4g}")
    return _Text("c")


def _said(step: Step, operands: list[_Text]) -> _Text:
    """The text of one equation."""
    rule = _RULES.get(step.name)
    names = frozenset().union(*(each.names for each in operands)) if operands else frozenset()
    if step.name in _MOVES and operands:
        named = [each for each in operands if each.names] or operands
        return named[0] if len(named) == 1 else _Text(f"[{', '.join(each.text for each in named)}]", names)
    if step.name in _INFIX and len(operands) == 2:
        sign, strength = _INFIX[step.name]
        return _infix(step.name, sign, strength, operands, names)
    if rule is not None:
        return rule(step, operands, names)
    called = _FUNCTIONS.get(step.name, step.name)
    return _Text(f"{called}({', '.join(each.text for each in operands)})", names)


def _infix(name: str, sign: str, strength: int, operands: list[_Text], names: frozenset[str]) -> _Text:
    first, second = operands
    if name == "mul" and "1" in (first.text, second.text):
        return second if first.text == "1" else first
    if name in ("add", "add_any", "sub") and second.text == "0":
        return first
    if name in ("add", "add_any") and first.text == "0":
        return second
    right = strength + 1 if name in ("sub", "div") else strength
    return _Text(first.within(strength) + sign + second.within(right), names, strength)


def _power(step: Step, operands: list[_Text], names: frozenset[str]) -> _Text:
    exponent = step.params["y"] if step.name == "integer_pow" else operands[1].text
    return _Text(f"{operands[0].within(3)}^{exponent}", names, 3)


def _indexed(step: Step, operands: list[_Text], names: frozenset[str]) -> _Text:
    index = [name for each in operands[1:] for name in sorted(each.names)]
    return _Text(f"{operands[0].within(4)}[{', '.join(index) or '...'}]", names)


def _chosen(step: Step, operands: list[_Text], names: frozenset[str]) -> _Text:
    condition, if_false, if_true = operands[0], operands[1], operands[-1]
    if not condition.names:  # a guard that no value decides
        named = [each for each in operands[1:] if each.names]
        return named[0] if len(named) == 1 else if_true
    return _Text(f"({if_true.text} if {condition.text} else {if_false.text})", names)


def _contracted(step: Step, operands: list[_Text], names: frozenset[str]) -> _Text:
    return _Text(f"{operands[0].within(2)} @ {operands[1].within(2)}", names, 2)


def _compared(step: Step, operands: list[_Text], names: frozenset[str]) -> _Text:
    return _Text(f"{operands[0].text} {_SIGNS[step.name]} {operands[1].text}", names, 0)


def _negated(step: Step, operands: list[_Text], names: frozenset[str]) -> _Text:
    return _Text(f"-{operands[0].within(2)}", names, 1)


_SIGNS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_RULES: dict[str, Callable[[Step, list[_Text], frozenset[str]], _Text]] = {
    "integer_pow": _power,
    "pow": _power,
    "gather": _indexed,
    "dynamic_slice": _indexed,
    "select_n": _chosen,
    "dot_general": _contracted,
    "neg": _negated,
    **dict.fromkeys(_SIGNS, _compared),
}


def _scanned(step: Step, operands: list[_Text]) -> list[_Text]:
    """A scan: its step in terms of what it is given at `t`, and of the carry that was made at `t - 1`."""
    held, count = step.params["num_consts"], step.params["num_carry"]
    here = [
        _Text(f"{each.within(4)}[t]" if each.names else each.text, each.names)
        for each in operands[held + count :]
    ]
    tape = record(step.params["jaxpr"])
    carried = [_Text(f"carry{i}[t-1]", frozenset([f"carry{i}"])) for i in range(count)]
    found = _walk(tape, [*operands[:held], *carried, *here])
    before = [_Text(each.text.replace("[t]", "[t-1]"), each.names) for each in found[:count]]
    named = [old if "carry" in new.text else new for old, new in zip(carried, before)]
    found = _walk(tape, [*operands[:held], *named, *here])
    return found
