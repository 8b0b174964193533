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
from tractable.optim.projected import (
    AffineSet,
    Box,
    ConvexSet,
    HalfSpace,
    L1Ball,
    L2Ball,
    ProbabilitySimplex,
    ProjectedGradient,
    PsdCone,
)
from tractable.optim.proximal import L1Penalty, Penalty, ProximalGradient, coordinate_descent, soft_threshold
from tractable.optim.quasi_newton import BFGS, LBFGS

__all__ = [
    "BFGS",
    "LBFGS",
    "Adagrad",
    "Adam",
    "AffineSet",
    "Box",
    "ConvexSet",
    "ExponentialAverage",
    "GaussNewton",
    "GradientDescent",
    "HalfSpace",
    "L1Ball",
    "L1Penalty",
    "L2Ball",
    "LineSearchDescent",
    "Method",
    "Minimum",
    "Momentum",
    "Nesterov",
    "Newton",
    "NormalisedGradient",
    "Penalty",
    "ProbabilitySimplex",
    "ProjectedGradient",
    "ProximalGradient",
    "PsdCone",
    "RMSProp",
    "coordinate_descent",
    "minimise",
    "soft_threshold",
]
