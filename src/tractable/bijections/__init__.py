"""Layer 2: invertible maps with their log-determinants, and any model as real numbers."""

from tractable.bijections.autoregressive import Autoregressive, MaskedMLP, is_autoregressive
from tractable.bijections.base import Bijection, Chain, Image, Inverse
from tractable.bijections.compose import Concatenate, Members, Parts, Permute, Reshape
from tractable.bijections.coupling import AffineFamily, Conditioner, Coupling, Family
from tractable.bijections.elementwise import (
    Affine,
    Exp,
    GumbelMap,
    Identity,
    Log,
    Logit,
    Negate,
    NegativeLog,
    OntoInterval,
    Power,
    Sigmoid,
    Softplus,
    Tanh,
)
from tractable.bijections.matrix import LowerTriangular, MatrixMap, Orthogonal, Whitening
from tractable.bijections.monotone import Elementwise, Ends, ends
from tractable.bijections.simplex import (
    OntoOrdered,
    OntoPositiveOrdered,
    OntoSphere,
    Softmax,
    StickBreaking,
    softmax_gradient,
)
from tractable.bijections.spline import RationalQuadraticSpline, SplineFamily
from tractable.bijections.support import Rebuild, bijection_onto, unconstrain
from tractable.bijections.triangular import (
    CholeskyToCorrelation,
    CholeskyToCovariance,
    FillTriangular,
    OntoCorrelation,
    OntoCorrelationCholesky,
    OntoLowerCholesky,
    OntoPositiveDefinite,
)

__all__ = [
    "Affine",
    "AffineFamily",
    "Autoregressive",
    "Bijection",
    "Chain",
    "CholeskyToCorrelation",
    "CholeskyToCovariance",
    "Concatenate",
    "Conditioner",
    "Coupling",
    "Elementwise",
    "Ends",
    "Exp",
    "Family",
    "FillTriangular",
    "GumbelMap",
    "Identity",
    "Image",
    "Inverse",
    "Log",
    "Logit",
    "LowerTriangular",
    "MaskedMLP",
    "MatrixMap",
    "Members",
    "Negate",
    "NegativeLog",
    "OntoCorrelation",
    "OntoCorrelationCholesky",
    "OntoInterval",
    "OntoLowerCholesky",
    "OntoOrdered",
    "OntoPositiveDefinite",
    "OntoPositiveOrdered",
    "OntoSphere",
    "Orthogonal",
    "Parts",
    "Permute",
    "Power",
    "RationalQuadraticSpline",
    "Rebuild",
    "Reshape",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "SplineFamily",
    "StickBreaking",
    "Tanh",
    "Whitening",
    "bijection_onto",
    "ends",
    "is_autoregressive",
    "softmax_gradient",
    "unconstrain",
]
