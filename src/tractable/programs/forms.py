r"""In which form the outputs of a jaxpr depend on chosen inputs, all others being arbitrary constants.

Forms.       constant; same: each entry is an element $s$ of the chosen inputs; power $c\,s^p$, entry by
             entry of one element $s$ of the chosen inputs (on the side of zero where it is real); linear
             $\sum_i c_i s_i$; affine $c_0 + \sum_i c_i s_i$, jointly in all chosen elements; other. A form
             is claimed only where it follows: `other` may still be affine.
Method.      One walk along the tape with a rule for each primitive; two powers multiply to a power where
             both are of the same elements, which is known by the way that led there. Loops are walked until
             their carries settle.
Cost.        Linear in the equations, nothing traced or compiled.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jax.extend.core import ClosedJaxpr

from tractable.core.checks import check
from tractable.programs.tape import record

__all__ = ["Form", "forms"]


@dataclass(frozen=True)
class Form:
    """How an array depends on the chosen inputs; of a power $c\\,s^p$ the `exponent` is $p$.

    >>> Form.power(1).is_linear, Form.linear.is_affine, Form.power(0.5).is_affine
    (True, True, False)
    """

    kind: str
    exponent: float = 1.0

    constant: ClassVar["Form"]
    same: ClassVar["Form"]
    linear: ClassVar["Form"]
    affine: ClassVar["Form"]
    other: ClassVar["Form"]

    @classmethod
    def power(cls, exponent: float | int) -> "Form":
        """$c\\,s^p$ with one element $s$ of the chosen inputs for each entry."""
        return cls("power", float(exponent))

    @property
    def is_constant(self) -> bool:
        return self.kind == "constant"

    @property
    def is_power(self) -> bool:
        return self.kind in ("power", "same")

    @property
    def is_linear(self) -> bool:
        """Homogeneous of degree one and additive: powers of exponent one are."""
        return self.kind == "linear" or (self.is_power and self.exponent == 1)

    @property
    def is_affine(self) -> bool:
        """A constant plus something linear; either may be absent."""
        return self.kind in ("constant", "affine") or self.is_linear

    def __repr__(self) -> str:
        return f"Form.power({self.exponent:g})" if self.kind == "power" else f"Form.{self.kind}"


Form.constant, Form.same, Form.linear, Form.affine, Form.other = map(
    Form, ("constant", "same", "linear", "affine", "other")
)


@dataclass(frozen=True)
class Traced:
    """A form with what is needed to go on: `source` names the elements of a power, `zero` a constant zero.

    Equal sources, other than None, mean that the same entry holds the same element; a source that is an `int`
    is that one number of that input, in every entry.
    """

    form: Form
    source: Any = None
    zero: bool = False

    @property
    def is_constant(self) -> bool:
        return self.form.is_constant

    @property
    def is_single(self) -> bool:
        """Whether all entries are multiples of a power of the same number."""
        return self.form.is_power and isinstance(self.source, int)


CONSTANT, ZERO, OTHER = Traced(Form.constant), Traced(Form.constant, zero=True), Traced(Form.other)


def forms(closed_jaxpr: ClosedJaxpr, chosen: Sequence[bool]) -> list[Form]:
    """The joint form of each output in the inputs marked `chosen`.

    >>> import jax, jax.numpy as jnp
    >>> def program(mu, slope, tau):
    ...     return mu + slope * jnp.arange(3.0), slope * tau, tau**2
    >>> closed = jax.make_jaxpr(program)(0.0, 1.0, 2.0)
    >>> forms(closed, [True, True, False])
    [Form.linear, Form.power(1), Form.constant]
    >>> forms(closed, [False, False, True])
    [Form.constant, Form.power(1), Form.power(2)]
    """
    inputs = closed_jaxpr.jaxpr.invars
    check(len(chosen) == len(inputs), "chosen", f"one mark for each of the {len(inputs)} inputs", len(chosen))
    given = []
    for place, (variable, mark) in enumerate(zip(inputs, chosen)):
        single = int(np.prod(variable.aval.shape)) == 1
        source = place if single else ("input", place)
        given.append(Traced(Form.same, source) if mark else CONSTANT)
    return [each.form for each in walk(closed_jaxpr, given)]


def walk(closed: ClosedJaxpr, given: Sequence[Traced]) -> list[Traced]:
    """The forms of the outputs of a jaxpr whose inputs have the forms `given`."""
    from tractable.programs.form_rules import RULES, Equation

    tape = record(closed, whole=True)
    slots: list[Traced] = [CONSTANT] * len(tape.types)
    for slot, each in zip(tape.inputs, given):
        slots[slot] = each
    for slot, value in tape.constants.items():
        slots[slot] = ZERO if _is_nought(value) else CONSTANT
    for step in tape.steps:
        operands = [slots[slot] for slot in step.inputs]
        if all(each is CONSTANT for each in operands):
            continue
        equation = Equation(tape, step, operands)
        rule = RULES.get(step.name)
        found = rule(equation) if rule is not None else None
        if found is None:
            found = CONSTANT if all(each.is_constant for each in operands) else OTHER
        many = found if isinstance(found, list) else [found] * len(step.outputs)
        for slot, each in zip(step.outputs, many):
            slots[slot] = each
    return [slots[slot] for slot in tape.outputs]


def _is_nought(value: Any) -> bool:
    """Whether a constant is zero throughout; large ones are not looked at."""
    kind = getattr(value, "dtype", None)
    if kind is not None and not (np.issubdtype(kind, np.number) and np.size(value) <= 10_000):
        return False
    array = np.asarray(value)
    return array.dtype.kind in "iuf" and array.size > 0 and not array.any()


def join(parts: Sequence[Traced]) -> Traced:
    """The form of an array that takes each entry from one of `parts`."""
    return functools.reduce(_join, parts)


def _join(a: Traced, b: Traced) -> Traced:
    if a == b:
        return a
    if a.zero or b.zero:
        return scaled(b if a.zero else a)
    if a.form == b.form:
        return Traced(a.form)
    if a.form.is_power and b.form.is_power and a.form.exponent == b.form.exponent:
        return Traced(Form.power(a.form.exponent))
    if a.form.is_linear and b.form.is_linear:
        return Traced(Form.linear)
    return Traced(Form.affine) if a.form.is_affine and b.form.is_affine else OTHER


def added(a: Traced, b: Traced) -> Traced:
    """The form of a sum, entry by entry."""
    if a.zero or b.zero:
        return b if a.zero else a
    alike = a.form.is_power and b.form.is_power and a.form.exponent == b.form.exponent
    if alike and a.source == b.source and a.source is not None:
        return scaled(a)
    if a.form.is_linear and b.form.is_linear:
        return Traced(Form.linear)
    if a.is_constant and b.is_constant:
        return CONSTANT
    return Traced(Form.affine) if a.form.is_affine and b.form.is_affine else OTHER


def multiplied(a: Traced, b: Traced) -> Traced:
    """The form of a product, entry by entry."""
    if a.zero or b.zero:
        return ZERO
    if a.is_constant or b.is_constant:
        return scaled(b if a.is_constant else a)
    same = a.form.is_power and b.form.is_power and a.source == b.source and a.source is not None
    return raised_to(a, a.form.exponent + b.form.exponent) if same else OTHER


def summed(a: Traced) -> Traced:
    """The form of sums with constant coefficients over entries."""
    if a.is_constant or a.is_single or a.form.is_affine:
        return scaled(a) if a.is_constant or a.is_single or not a.form.is_power else Traced(Form.linear)
    return OTHER


def scaled(a: Traced) -> Traced:
    """The form of multiples: no longer the elements themselves."""
    return Traced(Form.power(1), a.source) if a.form == Form.same else a


def powered(a: Traced, exponent: float) -> Traced:
    """The form of a power with a known exponent, entry by entry."""
    if a.is_constant or exponent == 1:
        return CONSTANT if a.is_constant else a
    if not a.form.is_power:
        return CONSTANT if exponent == 0 else OTHER
    # (s^2)^(1/2) is |s|: the sign of s is lost, and with it the claim
    lost = exponent != round(exponent) and a.form.exponent % 2 == 0
    return OTHER if lost else raised_to(a, a.form.exponent * exponent)


def raised_to(a: Traced, exponent: float) -> Traced:
    """A power of the elements of `a`."""
    return CONSTANT if exponent == 0 else Traced(Form.power(exponent), a.source)
