"""Every kernel of points, with a formula of one pair that an independent source evaluates."""

from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import field as field_of
from typing import Any

import jax.numpy as jnp
import numpy as np

from tests.oracles.covariances import FORMULAS as F
from tractable.core.module import Module, field
from tractable.core.support import positive
from tractable.kernels.asymmetric import Attention, ConditionalProbability, TKernel, Transition
from tractable.kernels.base import Constant
from tractable.kernels.graph import Diffusion, RegularisedLaplacian
from tractable.kernels.nonstationary import (
    Bilinear,
    CosineSimilarity,
    HomogeneousPolynomial,
    Linear,
    NeuralNetwork,
    Polynomial,
    ProductFeature,
    Sigmoid,
    Wiener,
)
from tractable.kernels.stationary import (
    RBF,
    Cosine,
    Matern,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    RationalQuadratic,
    SpectralMixture,
)
from tractable.kernels.structured import (
    Exponentiated,
    Modulated,
    Normalised,
    OnColumns,
    PolynomialOf,
    Warped,
    direct_product,
    direct_sum,
)

__all__ = ["CASES", "CLOSURES", "NODES", "ROWS", "WEIGHTS", "Case", "Level", "Stretch"]


class Stretch(Module):
    """A warp with a hyperparameter."""

    rate: Any = field(support=positive)

    def __call__(self, x):
        return jnp.tanh(self.rate * x)


class Level(Module):
    """A factor with a hyperparameter."""

    rate: Any = field(support=positive)

    def __call__(self, x):
        return 1 + self.rate * x[0] ** 2


ROWS = np.random.default_rng(3).uniform(0.1, 2.0, size=(7, 3))
NODES = np.array([[0.0], [2.0], [3.0], [1.0], [2.0], [4.0], [0.0]])
WEIGHTS = np.array(
    [[0, 1, 0, 0.5, 0], [1, 0, 2, 0, 0], [0, 2, 0, 1, 1], [0.5, 0, 1, 0, 0], [0, 0, 1, 0, 0]], dtype=float
)
ONE_WAY = WEIGHTS + np.triu(np.ones((5, 5)), 1)
_A = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 0.5]])
_W = np.array([[0.3, -0.2, 0.1], [0.4, 0.1, 0.0], [0.0, 0.5, -0.3]])
_L = np.array([0.7, 1.3, 2.1])
_P = np.array([1.5, 2.5, 3.5])
_MIX = (np.array([0.6, 0.4]), np.array([[0.1, 0.2, 0.3], [0.5, 0.0, -0.2]]), np.full((2, 3), 0.3))


def _heat(beta):
    from scipy.linalg import expm

    heat = expm(-beta * (np.diag(WEIGHTS.sum(1)) - WEIGHTS))
    return lambda x, y: heat[int(x[0]), int(y[0])]


def _inverse(beta):
    table = np.linalg.inv(np.eye(5) + beta * (np.diag(WEIGHTS.sum(1)) - WEIGHTS))
    return lambda x, y: table[int(x[0]), int(y[0])]


def _step(x, y):
    return ONE_WAY[int(x[0]), int(y[0])] / ONE_WAY[int(x[0])].sum()


def _neighbour(similarity):
    def value(x, y):
        return similarity(((x - y) ** 2).sum() / 0.8**2) / sum(
            similarity(((x - z) ** 2).sum() / 0.8**2) for z in ROWS[:5]
        )

    return value


@dataclass(frozen=True)
class Case:
    """A kernel, its points, and the value of one pair."""

    name: str
    build: Callable[[], Any]
    formula: Callable
    points: np.ndarray = field_of(default_factory=lambda: ROWS)
    hold: tuple[str, ...] = ()  # data inside the kernel, not hyperparameters

    def __str__(self) -> str:
        return self.name


def _rbf(l):
    return lambda x, y: F["rbf"](x, y, l)


CASES = [
    Case("RBF", lambda: RBF(1.3), _rbf(1.3)),
    Case("RBF-ARD", lambda: RBF(_L), _rbf(_L)),
    Case("Matern12", lambda: Matern12(1.3), lambda x, y: F["exponential"](x, y, 1.3)),
    Case("Matern32", lambda: Matern32(_L), lambda x, y: F["matern32"](x, y, _L)),
    Case("Matern52", lambda: Matern52(0.8), lambda x, y: F["matern52"](x, y, 0.8)),
    Case("Matern-0.7", lambda: Matern(0.7, 1.1), lambda x, y: F["matern"](x, y, 0.7, 1.1)),
    Case("Matern-3.5", lambda: Matern(3.5, _L), lambda x, y: F["matern"](x, y, 3.5, _L)),
    Case("RationalQuadratic", lambda: RationalQuadratic(1.2, 0.7),
         lambda x, y: F["rational"](x, y, 1.2, 0.7)),
    Case("Periodic", lambda: Periodic(0.9, _P), lambda x, y: F["periodic"](x, y, 0.9, _P)),
    Case("Cosine", lambda: Cosine(2.3), lambda x, y: F["cosine"](x, y, 2.3)),
    Case("SpectralMixture", lambda: SpectralMixture(*_MIX), lambda x, y: F["mixture"](x, y, *_MIX)),
    Case("Constant", lambda: Constant(1.7), lambda x, y: 1.7),
    Case("Linear", Linear, F["linear"]),
    Case("Bilinear", lambda: Bilinear(_A), lambda x, y: F["bilinear"](x, y, _A)),
    Case("Polynomial", lambda: Polynomial(3, 0.5), lambda x, y: F["polynomial"](x, y, 3, 0.5)),
    Case("Homogeneous", lambda: HomogeneousPolynomial(2), lambda x, y: F["polynomial"](x, y, 2, 0.0)),
    Case("CosineSimilarity", CosineSimilarity, F["angle"]),
    Case("ProductFeature", ProductFeature, F["product"]),
    Case("NeuralNetwork", lambda: NeuralNetwork(_L, 0.4), lambda x, y: F["arcsine"](x, y, _L, 0.4)),
    Case("Wiener", Wiener, F["wiener"]),
    Case("Sigmoid", lambda: Sigmoid(0.3, -1.0), lambda x, y: F["sigmoid"](x, y, 0.3, -1.0)),
    Case("Diffusion", lambda: Diffusion(WEIGHTS, 0.6), _heat(0.6), NODES, ("values", "vectors")),
    Case("Laplacian", lambda: RegularisedLaplacian(WEIGHTS, 0.6), _inverse(0.6), NODES,
         ("values", "vectors")),
    Case("Transition", lambda: Transition(ONE_WAY), _step, NODES, ("probs",)),
    Case("Neighbour", lambda: ConditionalProbability(ROWS[:5], 0.8), _neighbour(lambda s: np.exp(-s)),
         ROWS, ("rows",)),
    Case("TKernel", lambda: TKernel(ROWS[:5], 0.8), _neighbour(lambda s: 1 / (1 + s)), ROWS, ("rows",)),
    Case("Attention", lambda: Attention(_W), lambda x, y: np.exp(x @ _W @ y)),
]  # fmt: skip

# The ten closure rules, and the others that follow from them.
CLOSURES = [
    Case("scale", lambda: 2.5 * RBF(0.9), lambda x, y: 2.5 * _rbf(0.9)(x, y)),
    Case("function", lambda: Modulated(RBF(0.9), Level(0.4)),
         lambda x, y: (1 + 0.4 * x[0] ** 2) * _rbf(0.9)(x, y) * (1 + 0.4 * y[0] ** 2)),
    Case("polynomial", lambda: PolynomialOf(Linear(), [0.5, 0.2, 1.5]),
         lambda x, y: 0.5 + 0.2 * (x @ y) + 1.5 * (x @ y) ** 2),
    Case("exponential", lambda: Exponentiated(Bilinear(0.3 * _A)), lambda x, y: np.exp(0.3 * x @ _A @ y)),
    Case("sum", lambda: Matern12(1.1) + Linear(), lambda x, y: F["exponential"](x, y, 1.1) + x @ y),
    Case("product", lambda: Periodic(1.0, 2.0) * RBF(1.5),
         lambda x, y: F["periodic"](x, y, 1.0, 2.0) * _rbf(1.5)(x, y)),
    Case("pull-back", lambda: Warped(RBF(0.5), Stretch(0.8)),
         lambda x, y: _rbf(0.5)(np.tanh(0.8 * x), np.tanh(0.8 * y))),
    Case("bilinear", lambda: Bilinear(_A) + 0.5, lambda x, y: x @ _A @ y + 0.5),
    Case("direct-sum", lambda: direct_sum((RBF(0.6), [0]), (Linear(), [1, 2])),
         lambda x, y: _rbf(0.6)(x[:1], y[:1]) + x[1:] @ y[1:]),
    Case("direct-product", lambda: direct_product((RBF(0.6), [0]), (Wiener(), [2])),
         lambda x, y: _rbf(0.6)(x[:1], y[:1]) * min(x[2], y[2])),
    Case("power", lambda: (RBF(1.0) + Linear()) ** 2, lambda x, y: (_rbf(1.0)(x, y) + x @ y) ** 2),
    Case("normalised", lambda: Normalised(Polynomial(2, 1.0)),
         lambda x, y: (1 + x @ y) ** 2 / ((1 + x @ x) * (1 + y @ y))),
    Case("columns", lambda: 0.3 * OnColumns(Matern32(0.6), (2, 0)) * (Linear() + 1.0),
         lambda x, y: 0.3 * F["matern32"](x[[2, 0]], y[[2, 0]], 0.6) * (x @ y + 1)),
]  # fmt: skip
