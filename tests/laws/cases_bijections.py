"""Every public bijection, with points of its domain and the coordinates in which its volume is measured."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tractable.bijections.autoregressive import Autoregressive
from tractable.bijections.compose import Chain, Concatenate, Inverse, Members, Permute, Reshape
from tractable.bijections.coupling import Coupling
from tractable.bijections.elementwise import (
    Affine,
    Exp,
    GumbelMap,
    Identity,
    Log,
    Logit,
    Negate,
    NegativeLog,
    Power,
    Sigmoid,
    Softplus,
    Tanh,
)
from tractable.bijections.interval import OntoInterval
from tractable.bijections.matrix import LowerTriangular, MatrixMap, Orthogonal, Whitening
from tractable.bijections.simplex import OntoOrdered, OntoPositiveOrdered, OntoSphere, Softmax, StickBreaking
from tractable.bijections.spline import RationalQuadraticSpline
from tractable.bijections.triangular import (
    CholeskyToCorrelation,
    CholeskyToCovariance,
    FillTriangular,
    OntoCorrelation,
    OntoCorrelationCholesky,
    OntoLowerCholesky,
    OntoPositiveDefinite,
)
from tractable.core import support as sets

__all__ = ["BIJECTIONS", "SUPPORTS", "MapCase", "SupportCase"]


@dataclass(frozen=True, eq=False)
class MapCase:
    """A map with two points of its domain; `free` picks the coordinates that measure volume on the image."""

    name: str
    build: Callable[[], Any]
    points: np.ndarray
    free: Callable[[Any], Any] = jnp.ravel
    embed: Callable[[Any], Any] | None = None  # from free coordinates of the argument to the argument
    coordinates: np.ndarray | None = None  # the points in those coordinates

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class SupportCase:
    """A continuous support with members, one per leading entry, strictly inside it."""

    name: str
    support: Any
    members: np.ndarray
    free: Callable[[Any], Any] = jnp.ravel

    def __str__(self) -> str:
        return self.name


def _strict(y):
    return y[np.tril_indices(y.shape[0], -1)]


def _triangle(y):
    return y[np.tril_indices(y.shape[0])]


def _drop_last(y):
    return y[:-1]


def _fill(x):
    return jnp.zeros((3, 3)).at[np.tril_indices(3)].set(x)


def _unit_rows(x):
    strict = jnp.zeros((3, 3)).at[np.tril_indices(3, -1)].set(x)
    return strict + jnp.diag(jnp.sqrt(1 - (strict**2).sum(1)))


_RNG = np.random.default_rng(0)
_REAL = _RNG.normal(size=(2, 3))
_SIX = _RNG.normal(size=(2, 6))
_UNIT = _RNG.uniform(0.05, 0.95, (2, 3))
_POSITIVE = np.exp(_REAL)
_TRIANGLES = np.exp(0.5 * _SIX)
_ROWS = _RNG.uniform(-0.5, 0.5, (2, 3))
_COV = np.array([[2.0, 0.6, 0.1], [0.6, 1.0, -0.3], [0.1, -0.3, 0.5]])
_KNOTS = np.array([-2.0, -0.5, 0.4, 2.5])
_OUTPUTS = np.array([-3.0, -1.0, 0.8, 1.5])
_SLOPES = np.array([0.7, 2.0, 0.3, 1.4])


def _spline():
    shift = jnp.arange(3.0)[:, None] * 0.1
    tile = [jnp.broadcast_to(jnp.asarray(k), (3, 4)) for k in (_KNOTS, _OUTPUTS, _SLOPES)]
    return RationalQuadraticSpline(tile[0] + shift, tile[1] - shift, tile[2] + shift)


def _waves(kept):
    return jnp.concatenate([jnp.sin(kept), jnp.cos(2 * kept)])


def _flow():
    coupling = Coupling(_waves, [True, False, False, True])
    lower = np.tril(np.full((4, 4), 0.3)) + np.eye(4)
    return Chain(coupling, Permute([2, 0, 3, 1]), LowerTriangular(lower, np.ones(4)))


BIJECTIONS = [
    MapCase("Identity", Identity, _REAL),
    MapCase("Negate", Negate, _REAL),
    MapCase("Affine", lambda: Affine([1.0, 2.0, 3.0], [2.0, -0.5, 0.1]), _REAL),
    MapCase("Exp", Exp, _REAL),
    MapCase("Log", Log, _POSITIVE),
    MapCase("NegativeLog", NegativeLog, _POSITIVE),
    MapCase("Sigmoid", Sigmoid, _REAL),
    MapCase("Logit", Logit, _UNIT),
    MapCase("Softplus", Softplus, _REAL),
    MapCase("Tanh", Tanh, _REAL),
    MapCase("Power", lambda: Power([2.5, -0.5, 1.0]), _POSITIVE),
    MapCase("GumbelMap", lambda: GumbelMap(1.0, [0.5, 1.0, 2.0]), _UNIT),
    MapCase("OntoInterval", lambda: OntoInterval([-2.0, 1.0, -np.inf], [3.0, np.inf, 0.0]), _REAL),
    MapCase("OntoInterval whole line", lambda: OntoInterval(-np.inf, np.inf), _REAL),
    MapCase("RationalQuadraticSpline", _spline, 1.5 * _REAL),
    MapCase("Inverse", lambda: Inverse(Chain(Affine(0.5, -2.0), Softplus())), _POSITIVE),
    MapCase("Chain", lambda: Chain(Affine(0.5, 2.0), Sigmoid(), Power(3.0)), _REAL),
    MapCase("Chain flow", _flow, _SIX[:, :4]),
    MapCase("Concatenate", lambda: Concatenate([Exp(), Identity()], [2, 1]), _REAL),
    MapCase("Concatenate growing", lambda: Concatenate([Exp(), StickBreaking()], [1, 2]), _REAL, _drop_last),
    MapCase("Members", lambda: Members(OntoOrdered()), _SIX.reshape((2, 2, 3))),
    MapCase("Permute", lambda: Permute([2, 0, 1]), _REAL),
    MapCase("Reshape", lambda: Reshape((6,), (3, 2)), _SIX),
    MapCase("LowerTriangular", lambda: LowerTriangular(np.linalg.cholesky(_COV), [1.0, 2.0, 3.0]), _REAL),
    MapCase("MatrixMap", lambda: MatrixMap(_COV - 2.0, [1.0, 2.0, 3.0]), _REAL),
    MapCase("Orthogonal", lambda: Orthogonal([[1.0, 2.0, 3.0], [0.5, -1.0, 0.0]]), _REAL),
    MapCase("Whitening", lambda: Whitening([1.0, 2.0, 3.0], _COV), _REAL),
    MapCase("StickBreaking", StickBreaking, _REAL, _drop_last),
    MapCase("Softmax", Softmax, _REAL, _drop_last),
    MapCase("OntoOrdered", OntoOrdered, _REAL),
    MapCase("OntoPositiveOrdered", OntoPositiveOrdered, _REAL),
    MapCase("OntoSphere", OntoSphere, _REAL),
    MapCase("FillTriangular", FillTriangular, _SIX, _triangle),
    MapCase("OntoLowerCholesky", OntoLowerCholesky, _SIX, _triangle),
    MapCase("OntoPositiveDefinite", OntoPositiveDefinite, _SIX, _triangle),
    MapCase("OntoCorrelationCholesky", OntoCorrelationCholesky, _SIX, _strict),
    MapCase("OntoCorrelation", OntoCorrelation, _SIX, _strict),
    MapCase(
        "CholeskyToCovariance",
        CholeskyToCovariance,
        np.stack([_fill(t) for t in _TRIANGLES]),
        _triangle,
        _fill,
        _TRIANGLES,
    ),
    MapCase(
        "CholeskyToCorrelation",
        CholeskyToCorrelation,
        np.stack([_unit_rows(r) for r in _ROWS]),
        _strict,
        _unit_rows,
        _ROWS,
    ),
    MapCase("Coupling", lambda: Coupling.random(jr.key(1), [True, False, False], width=4, depth=1), _REAL),
    MapCase("Autoregressive", lambda: Autoregressive.random(jr.key(2), 3, widths=(5,)), _REAL),
]

_SPD = np.stack([_COV, np.eye(3) + 0.2])
_CORRELATIONS = np.stack([np.eye(3), [[1.0, 0.5, -0.2], [0.5, 1.0, 0.3], [-0.2, 0.3, 1.0]]])

SUPPORTS = [
    SupportCase("Real", sets.real, _REAL),
    SupportCase("ExtendedReal", sets.extended_real, _REAL),
    SupportCase("LogWeights", sets.log_weights, _REAL),
    SupportCase("Positive", sets.positive, _POSITIVE),
    SupportCase("NonNegative", sets.nonnegative, _POSITIVE),
    SupportCase("Interval", sets.unit_interval, _UNIT),
    SupportCase("Interval below", sets.bounded(-np.inf, 4.0), -_POSITIVE),
    SupportCase("Interval of arrays", sets.bounded(np.zeros(3), np.array([1.0, 2.0, np.inf])), _UNIT),
    SupportCase("Simplex", sets.simplex, np.array([[0.2, 0.3, 0.5], [0.9, 0.05, 0.05]]), _drop_last),
    SupportCase("Ordered", sets.ordered, np.sort(_REAL, 1)),
    SupportCase("PositiveOrdered", sets.positive_ordered, np.sort(_POSITIVE, 1)),
    SupportCase("Sphere", sets.sphere, _REAL / np.linalg.norm(_REAL, axis=1, keepdims=True)),
    SupportCase("PositiveSemidefinite", sets.psd, _SPD, _triangle),
    SupportCase("LowerCholesky", sets.lower_cholesky, np.linalg.cholesky(_SPD), _triangle),
    SupportCase("Correlation", sets.correlation, _CORRELATIONS, _strict),
    SupportCase("CorrelationCholesky", sets.correlation_cholesky, np.linalg.cholesky(_CORRELATIONS), _strict),
]
