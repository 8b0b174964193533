"""Layer 4: optimisers, line searches, projections, constrained and convex problems, rates,
differentiation."""

from tractable.optim import autodiff
from tractable.optim.constrained import ConstrainedMinimum, minimise_constrained, proportions
from tractable.optim.convex import ConvexProgram, DualValue, SlaterPoint
from tractable.optim.convexity import (
    ConvexityReport,
    Curvature,
    InequalityReport,
    check_convexity,
    check_inequalities,
    curvature,
)
from tractable.optim.duality import DualSolution, dual_ascent, saddle_point
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
from tractable.optim.kkt import KKTReport, Outcome, kkt_report
from tractable.optim.linear_program import LinearProgram, LinearSolution, linear_program
from tractable.optim.lipschitz import (
    LipschitzGrowth,
    LipschitzReport,
    layer_bound,
    lipschitz,
    lipschitz_growth,
)
from tractable.optim.minimise import Minimum, Trajectory, minimise, trajectory
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
from tractable.optim.quadratic_program import QuadraticSolution, quadratic_program
from tractable.optim.quasi_newton import BFGS, LBFGS
from tractable.optim.rates import (
    DescentReport,
    PowerFit,
    StochasticRate,
    descent_bound,
    fit_linear_rate,
    fit_power,
    linear_bound,
    stochastic_rate,
    verify_descent,
)
from tractable.optim.schedules import (
    PowerLaw,
    ScheduleReport,
    check_schedule,
    constant,
    inverse_root,
    inverse_time,
)
from tractable.optim.steepest import SteepestDirection, distance_to_line, steepest_direction
from tractable.optim.stochastic import batch_gradient, minimise_batches

__all__ = [
    "BFGS", "LBFGS", "Adagrad", "Adam", "AffineSet", "Box", "ConstrainedMinimum", "ConvexProgram",
    "ConvexSet", "ConvexityReport", "Curvature", "DescentReport", "DualSolution", "DualValue",
    "ExponentialAverage", "GaussNewton", "GradientDescent", "HalfSpace", "InequalityReport", "KKTReport",
    "L1Ball", "L1Penalty", "L2Ball", "LineSearchDescent", "LinearProgram", "LinearSolution",
    "LipschitzGrowth", "LipschitzReport", "Method", "Minimum", "Momentum", "Nesterov", "Newton",
    "NormalisedGradient", "Outcome", "Penalty", "PowerFit", "PowerLaw", "ProbabilitySimplex",
    "ProjectedGradient", "ProximalGradient", "PsdCone", "QuadraticSolution", "RMSProp", "ScheduleReport",
    "SlaterPoint", "SteepestDirection", "StochasticRate", "Trajectory", "autodiff", "batch_gradient",
    "check_convexity", "check_inequalities", "check_schedule", "constant", "coordinate_descent", "curvature",
    "descent_bound", "distance_to_line", "dual_ascent", "fit_linear_rate", "fit_power", "inverse_root",
    "inverse_time", "kkt_report", "layer_bound", "linear_bound", "linear_program", "lipschitz",
    "lipschitz_growth", "minimise", "minimise_batches", "minimise_constrained", "proportions",
    "quadratic_program", "saddle_point", "soft_threshold", "steepest_direction", "stochastic_rate",
    "trajectory", "verify_descent",
]  # fmt: skip
