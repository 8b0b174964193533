"""Layer 4: optimisers, line searches, projections, constrained and convex problems, rates,
differentiation."""

from tractable.optim.gradient import (
    Adagrad,
    Adam,
    ExponentialAverage,
    GradientDescent,
    LineSearchDescent,
    Momentum,
    Nesterov,
    NormalisedGradient,
    RMSProp,
)
from tractable.optim.minimise import Minimum, minimise
from tractable.optim.newton import GaussNewton, Newton
from tractable.optim.objective import Method
from tractable.optim.quasi_newton import BFGS, LBFGS

__all__ = [
    "BFGS",
    "LBFGS",
    "Adagrad",
    "Adam",
    "ExponentialAverage",
    "GaussNewton",
    "GradientDescent",
    "LineSearchDescent",
    "Method",
    "Minimum",
    "Momentum",
    "Nesterov",
    "Newton",
    "NormalisedGradient",
    "RMSProp",
    "minimise",
]
