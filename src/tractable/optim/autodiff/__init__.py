"""Differentiation, seen from inside: differences, dual numbers, tapes, formulas, Jacobians, and a checker.

Real work goes through JAX; these short files show what it does, and check it.
"""

from tractable.optim.autodiff.check import GradientReport, check_gradient
from tractable.optim.autodiff.differences import (
    StepStudy,
    central_difference,
    complex_step,
    finite_difference,
    forward_difference,
    numeric_gradient,
    step_study,
)
from tractable.optim.autodiff.forward import Dual, directional_derivative, forward_gradient
from tractable.optim.autodiff.jacobian import chain_jacobian, hessian, hessian_vector_product, jacobian
from tractable.optim.autodiff.reverse import Node, Tape, Trace, reverse_gradient, trace
from tractable.optim.autodiff.rules import (
    Operand,
    absolute,
    cos,
    exp,
    log,
    relu,
    sigmoid,
    sin,
    sqrt,
    tan,
    tanh,
)
from tractable.optim.autodiff.symbolic import (
    Constant,
    Expression,
    Operation,
    Variable,
    differentiate,
    evaluate,
    simplify,
    to_sympy,
    variables,
)

__all__ = [
    "Constant",
    "Dual",
    "Expression",
    "GradientReport",
    "Node",
    "Operand",
    "Operation",
    "StepStudy",
    "Tape",
    "Trace",
    "Variable",
    "absolute",
    "central_difference",
    "chain_jacobian",
    "check_gradient",
    "complex_step",
    "cos",
    "differentiate",
    "directional_derivative",
    "evaluate",
    "exp",
    "finite_difference",
    "forward_difference",
    "forward_gradient",
    "hessian",
    "hessian_vector_product",
    "jacobian",
    "log",
    "numeric_gradient",
    "relu",
    "reverse_gradient",
    "sigmoid",
    "simplify",
    "sin",
    "sqrt",
    "step_study",
    "tan",
    "tanh",
    "to_sympy",
    "trace",
    "variables",
]
