r"""Reverse mode: record the computation on a tape, then send adjoints back from the output.

Sweep.       With $\bar w_i = \partial y/\partial w_i$ and $\bar y = 1$,
             $\bar w_j \leftarrow \bar w_j + \bar w_i\,\partial w_i/\partial w_j$ for every operation $i$,
             last first. The same tape gives tangents $\dot w_i$ by the sweep in the other direction.
Picture.     Printing a `Trace` shows each node with its operation, value, tangent and adjoint: the table that
             one would write by hand.
Cost.        A few times the function for the whole gradient, whatever the number of inputs; memory for every
             operation.
References.  Griewank and Walther (2008) chapter 3.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tractable.core.checks import check, check_length
from tractable.optim.autodiff.rules import PARTIALS, VALUES, Operand

__all__ = ["Node", "Tape", "Trace", "reverse_gradient", "trace"]

Vector = Sequence[float] | np.ndarray

_INFIX = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "power": "**"}


@dataclass
class Tape:
    """The operations of a computation, in order; an entry refers to earlier entries or plain numbers."""

    nodes: list["Node"] = field(default_factory=list)
    num_inputs: int = 0

    def variable(self, value: float, label: str) -> "Node":
        """A new input."""
        self.num_inputs += 1
        return self._record(Node(self, len(self.nodes), float(value), "input", (), label))

    def variables(self, values: Any, label: str) -> Any:
        """Inputs for every entry of an array, as an array of nodes that NumPy can multiply and add."""
        values = np.asarray(values, float)
        nodes = np.empty(values.shape, object)
        for index in np.ndindex(values.shape):
            place = ",".join(str(i + 1) for i in index)
            nodes[index] = self.variable(values[index], f"{label}{place}")
        return nodes

    def operation(self, name: str, arguments: Sequence[Any]) -> "Node":
        """A new entry that applies an operation to earlier ones."""
        values = [a.value if isinstance(a, Node) else float(a) for a in arguments]
        index, label = len(self.nodes), f"v{len(self.nodes) - self.num_inputs + 1}"
        return self._record(Node(self, index, VALUES[name](*values), name, tuple(arguments), label))

    def _record(self, node: "Node") -> "Node":
        self.nodes.append(node)
        return node

    def adjoints(self, output: "Node") -> np.ndarray:
        r"""$\bar w_i = \partial y / \partial w_i$ for every entry of the tape, by one sweep back."""
        adjoints = np.zeros(len(self.nodes))
        adjoints[output.index] = 1.0
        for node in reversed(self.nodes[: output.index + 1]):
            for argument, slope in node.slopes():
                adjoints[argument.index] += adjoints[node.index] * slope
        return adjoints

    def tangents(self, seeds: dict[int, float]) -> np.ndarray:
        r"""$\dot w_i$ for every entry, by one sweep forward from the seeds of the inputs (by index)."""
        tangents = np.zeros(len(self.nodes))
        for node in self.nodes:
            inner = sum(slope * tangents[argument.index] for argument, slope in node.slopes())
            tangents[node.index] = seeds.get(node.index, 0.0) + inner
        return tangents


@dataclass(frozen=True, eq=False)
class Node(Operand):
    """One entry of a tape."""

    tape: Tape = field(repr=False)
    index: int
    value: float
    operation: str
    arguments: tuple = field(repr=False)
    label: str

    @classmethod
    def operate(cls, name: str, arguments: Sequence[Any]) -> "Node":
        tapes = {id(a.tape): a.tape for a in arguments if isinstance(a, Node)}
        check(len(tapes) == 1, "arguments", "nodes of one tape", f"nodes of {len(tapes)}")
        return next(iter(tapes.values())).operation(name, arguments)

    def slopes(self) -> list[tuple["Node", float]]:
        """Each argument that is a node, with the derivative of this entry in it."""
        values = [a.value if isinstance(a, Node) else float(a) for a in self.arguments]
        partials = PARTIALS.get(self.operation, ())
        return [(a, float(d(*values))) for d, a in zip(partials, self.arguments) if isinstance(a, Node)]

    def formula(self) -> str:
        """How the entry was made, such as `x1 / x2` or `sin(v1)`."""
        names = [a.label if isinstance(a, Node) else f"{float(a):g}" for a in self.arguments]
        if self.operation in _INFIX:
            return f" {_INFIX[self.operation]} ".join(names)
        return self.operation if self.operation == "input" else f"{self.operation}({', '.join(names)})"


@dataclass(frozen=True)
class Trace:
    """A recorded function of several numbers: values, tangents along one direction, adjoints."""

    tape: Tape
    inputs: tuple[Node, ...]
    output: Node
    tangents: np.ndarray
    adjoints: np.ndarray

    @property
    def value(self) -> float:
        """The function at the inputs."""
        return self.output.value

    @property
    def gradient(self) -> np.ndarray:
        """The adjoints of the inputs."""
        return np.array([self.adjoints[node.index] for node in self.inputs])

    def __repr__(self) -> str:
        """One line for each node: label, operation, value, tangent and adjoint."""
        nodes = self.tape.nodes[: self.output.index + 1]
        width = max(12, *(len(node.formula()) + 2 for node in nodes))
        lines = [f"{'node':<8}{'operation':<{width}}{'value':>14}{'tangent':>14}{'adjoint':>14}"]
        for node in nodes:
            numbers = (node.value, self.tangents[node.index], self.adjoints[node.index])
            cells = "".join(f"{number:>14.8g}" for number in numbers)
            lines.append(f"{node.label:<8}{node.formula():<{width}}{cells}")
        return "\n".join(lines)


def trace(function: Callable[..., Any], point: Vector, direction: Vector | None = None) -> Trace:
    """Record `function` at `point`, whose entries are its arguments, and sweep forward and back.

    The tangents belong to `direction`, by default the first input.

    >>> trace(lambda x, y, z: (x + y) * z, (1.0, 2.0, 4.0))
    node    operation            value       tangent       adjoint
    x       input                    1             1             4
    y       input                    2             0             4
    z       input                    4             0             3
    v1      x + y                    3             1             4
    v2      v1 * z                  12             4             1
    """
    along = np.eye(len(point))[0] if direction is None else np.asarray(direction, float)
    check_length("direction", along, "point", np.asarray(point))
    tape = Tape()
    inputs = tuple(tape.variable(x, label) for x, label in zip(point, _labels(function, len(point))))
    output = function(*inputs)
    fix = "Use the functions of `tractable.optim.autodiff`, not NumPy's."
    must = "one that returns a number made from its inputs"
    check(isinstance(output, Node), "function", must, type(output).__name__, fix, TypeError)
    seeds = {node.index: float(seed) for node, seed in zip(inputs, along)}
    return Trace(tape, inputs, output, tape.tangents(seeds), tape.adjoints(output))


def reverse_gradient(function: Callable[..., Any], point: Vector) -> np.ndarray:
    r"""$\nabla f$ by one sweep back, for a function of the entries of `point`."""
    return trace(function, point).gradient


def _labels(function: Callable[..., Any], count: int) -> list[str]:
    """The names of the arguments where they are plain, else x1, x2, ..."""
    parameters = list(inspect.signature(function).parameters.values())
    plain = all(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
    if plain and len(parameters) == count:
        return [parameter.name for parameter in parameters]
    return [f"x{i + 1}" for i in range(count)]
