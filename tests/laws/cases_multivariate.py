"""Every public distribution of vectors and matrices, with what independent sources know about it.

`quadrature` gives points and weights with a sum of weight times density equal to one; `projections` are
functions of draws whose law SciPy knows. Nothing here uses the code under test, apart from `build`.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.special as special
import scipy.stats as stats

from tests.laws.case import Case
from tractable.distributions.matrix import InverseWishart, LKJCholesky, MatrixNormal, Wishart
from tractable.distributions.multivariate import (
    Dirichlet,
    DirichletMultinomial,
    Multinomial,
    MultivariateStudentT,
)
from tractable.distributions.normal_priors import NormalGamma, NormalInverseWishart

__all__ = ["CASES", "VectorCase"]

Quadrature = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class VectorCase(Case):
    """A case with a quadrature rule, one-dimensional laws and an independent log-density."""

    log_density: Callable[[np.ndarray], np.ndarray] | None = None
    quadrature: Callable[[], Quadrature] | None = None
    projections: Sequence[tuple[Callable[[np.ndarray], np.ndarray], Any]] = ()


ALPHA = np.array([0.7, 1.5, 2.3])
PROBS = np.array([0.2, 0.3, 0.5])
TOTAL = 5
LOC = np.array([1.0, -2.0])
SCALE = np.array([[2.0, 0.6], [0.6, 1.0]])
ROOT = np.linalg.cholesky(SCALE)
INVERSE = np.linalg.inv(SCALE)
DEGREES = 5.0
MANY = 13.0  # so many that fourth moments exist, and with them the standard errors of variances
COLUMNS = np.array([[1.0, 0.3, 0.0], [0.3, 2.0, -0.4], [0.0, -0.4, 0.7]])
CENTRE = np.array([[0.5, -1.0, 2.0], [0.0, 1.0, -0.5]])
DIRECTION = np.array([1.0, -0.7])
SIMPLEX = np.array([[0.2, 0.3, 0.5], [0.9, 0.06, 0.04], [1e-6, 1e-9, 1 - 1e-6 - 1e-9]])
COUNTS = np.array([[1, 2, 2], [5, 0, 0], [0, 3, 2]])
PLANE = np.array([[1.0, -2.0], [3.0, 0.5], [-40.0, 60.0]])
DEFINITE = np.array([SCALE, [[5.0, -1.0], [-1.0, 0.3]], [[1e-3, 0.0], [0.0, 20.0]]])
BAD_COUNTS = np.array([[1, 2, 3], [-1, 3, 3], [1.5, 1.5, 2]])
BAD_MATRICES = np.array([[[1.0, 0.5], [0.2, 1.0]], [[1.0, 2.0], [2.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]])
BAD_PLANE = np.array([[np.inf, 0.0], [0.0, -np.inf]])


def _product(*rules: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The nodes (m, k) and weights (m,) of a product of one-dimensional rules."""
    nodes = np.array(list(itertools.product(*(rule[0] for rule in rules))))
    return nodes, np.array([np.prod(w) for w in itertools.product(*(rule[1] for rule in rules))])


def _simplex_rule() -> Quadrature:
    """x = (u, (1 - u) v, (1 - u)(1 - v)) with Gauss-Jacobi rules, exact for the powers at the three edges."""
    a, b, c = ALPHA

    def jacobi(power_low, power_high):
        t, w = special.roots_jacobi(12, power_high, power_low)
        u = (1 + t) / 2
        return u, w / 2 ** (power_low + power_high + 1) / (u**power_low * (1 - u) ** power_high)

    nodes, weights = _product(jacobi(a - 1, b + c - 1), jacobi(b - 1, c - 1))
    u, v = nodes.T
    return np.stack([u, (1 - u) * v, (1 - u) * (1 - v)], -1), weights * (1 - u)


def _enumeration() -> Quadrature:
    grid = np.array([m for m in itertools.product(range(TOTAL + 1), repeat=3) if sum(m) == TOTAL])
    return grid, np.ones(len(grid))


def _plane_rule() -> Quadrature:
    """Polar coordinates of the whitened plane, the radius s / (1 - s)."""
    t, w = np.polynomial.legendre.leggauss(120)
    s, angle = (1 + t) / 2, np.arange(7) * 2 * np.pi / 7
    nodes, weights = _product((s, w / 2), (angle, np.full(7, 2 * np.pi / 7)))
    radius = nodes[:, 0] / (1 - nodes[:, 0])
    z = radius[:, None] * np.stack([np.cos(nodes[:, 1]), np.sin(nodes[:, 1])], -1)
    return LOC + z @ ROOT.T, weights * radius / (1 - nodes[:, 0]) ** 2 * np.linalg.det(ROOT)


def _hermite(size: int) -> tuple[np.ndarray, np.ndarray]:
    """A rule for the whole line that is exact for a normal density times a polynomial."""
    z, w = special.roots_hermitenorm(size)
    return z, w * np.exp(z**2 / 2)


def _laguerre(size: int, power: float) -> tuple[np.ndarray, np.ndarray]:
    """A rule for the half-line that is exact for t^power e^-t times a polynomial."""
    t, w = special.roots_genlaguerre(size, power)
    return t, w * np.exp(t) / t**power


def _cone_rule(root: np.ndarray) -> Quadrature:
    """X = B B^T with B = root A: the half-squares of A's diagonal by Laguerre, its lower entry by Hermite."""
    nodes, weights = _product(_laguerre(5, 0.5), _hermite(5), _laguerre(5, 0.0))
    a, b, c = np.sqrt(2 * nodes[:, 0]), nodes[:, 1], np.sqrt(2 * nodes[:, 2])
    factor = np.zeros((len(nodes), 2, 2))
    factor[:, 0, 0], factor[:, 1, 0], factor[:, 1, 1] = a, b, c
    half = root @ factor
    volume = (
        4 * a * np.linalg.det(root) ** 3
    )  # dX = 4 a^2 c |root|^3 da db dc, and a da c dc are the half-squares
    return half @ half.swapaxes(1, 2), weights * volume


def _inverse_cone_rule() -> Quadrature:
    """dX = |Y|^-(d + 1) dY for X = Y^-1."""
    y, weights = _cone_rule(np.linalg.cholesky(INVERSE))
    return np.linalg.inv(y), weights / np.linalg.det(y) ** 3


def _matrix_rule() -> Quadrature:
    nodes, weights = _product(*[_hermite(2)] * 6)
    column_root = np.linalg.cholesky(COLUMNS)
    points = CENTRE + ROOT @ nodes.reshape(-1, 2, 3) @ column_root.T
    return points, weights * np.linalg.det(ROOT) ** 3 * np.linalg.det(column_root) ** 2


def _correlation_rule() -> Quadrature:
    """Row 2 by the angle of its entry; row 3 by angle and by sin of the radius."""
    t, w = np.polynomial.legendre.leggauss(20)
    turn = (np.arange(7) * 2 * np.pi / 7, np.full(7, 2 * np.pi / 7))
    nodes, weights = _product((np.pi / 2 * t, np.pi / 2 * w), (np.pi / 4 * (1 + t), np.pi / 4 * w), turn)
    first, polar, angle = nodes.T
    points = np.zeros((len(nodes), 3, 3))
    points[:, 0, 0], points[:, 1, 0], points[:, 1, 1] = 1, np.sin(first), np.cos(first)
    points[:, 2, 0], points[:, 2, 1] = np.sin(polar) * np.cos(angle), np.sin(polar) * np.sin(angle)
    points[:, 2, 2] = np.cos(polar)
    return points, weights * np.cos(first) * np.sin(polar) * np.cos(polar)


def _normal_gamma_rule() -> Quadrature:
    nodes, weights = _product(_hermite(3), _laguerre(3, 4.5))
    precision = nodes[:, 1] / 4.0
    spread = 1 / np.sqrt(2.0 * precision)
    return np.stack([1.0 + spread * nodes[:, 0], precision], -1), weights * spread / 4.0


def _normal_inverse_wishart_rule() -> Quadrature:
    covs, cone = _inverse_cone_rule()
    nodes, weights = _product(_hermite(2), _hermite(2))
    roots = np.linalg.cholesky(covs) / np.sqrt(3.0)
    means = LOC + np.einsum("nij,mj->nmi", roots, nodes)
    points = np.concatenate([means[:, :, None], np.broadcast_to(covs[:, None], (len(covs), 4, 2, 2))], 2)
    return points.reshape(-1, 3, 2), (cone[:, None] * np.linalg.det(roots)[:, None] * weights).reshape(-1)


def _lkj_log_density(factors: np.ndarray) -> np.ndarray:
    """p(R) of Lewandowski, Kurowicka and Joe by partial correlations, times the Jacobian of R in L."""
    eta, d = 2.0, 3
    constant = 0.0
    for k in range(1, d):  # the normaliser as a product of Beta functions of the vine
        b = eta + (d - k - 1) / 2
        constant += (d - k) * ((2 * b - 1) * np.log(2) + special.betaln(b, b))
    log_diagonal = np.log(np.diagonal(factors, axis1=1, axis2=2))
    return 2 * (eta - 1) * log_diagonal.sum(1) - constant + log_diagonal @ (d - np.arange(1, d + 1))


def _normal_gamma_log_density(x: np.ndarray) -> np.ndarray:
    return stats.norm(1.0, 1 / np.sqrt(2.0 * x[:, 1])).logpdf(x[:, 0]) + stats.gamma(
        5.5, scale=1 / 4.0
    ).logpdf(x[:, 1])


def _normal_inverse_wishart_log_density(x: np.ndarray) -> np.ndarray:
    cov = stats.invwishart(MANY, SCALE)
    return np.array([stats.multivariate_normal(LOC, p[1:] / 3.0).logpdf(p[0]) + cov.logpdf(p[1:]) for p in x])


def _along(direction: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: x @ direction


def _quadratic(x: np.ndarray) -> np.ndarray:
    return np.einsum("i,nij,j->n", DIRECTION, x, DIRECTION)


def _correlation(i: int, j: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: (1 + (x[:, i] * x[:, j]).sum(-1)) / 2


_SPREAD = np.sqrt(DIRECTION @ SCALE @ DIRECTION)
_CENTRE = LOC @ DIRECTION
_STUDENT = [
    (_along(DIRECTION), stats.t(9.5, _CENTRE, _SPREAD)),
    (_along(np.eye(2)[1]), stats.t(9.5, -2.0, 1.0)),
]
_NORMAL = [(_along(DIRECTION), stats.norm(_CENTRE, _SPREAD)), (_along(np.eye(2)[1]), stats.norm(-2.0, 1.0))]
_GAUSSIAN = {
    "inside": PLANE,
    "outside": BAD_PLANE,
    "log_density": stats.multivariate_normal(LOC, SCALE).logpdf,
    "quadrature": _plane_rule,
    "projections": _NORMAL,
}


def _gaussian() -> Any:
    from tractable.distributions.gaussian import Gaussian

    return Gaussian(LOC, SCALE)


def _gaussian_precision() -> Any:
    from tractable.distributions.gaussian_forms import GaussianPrecision

    return GaussianPrecision(LOC, INVERSE)


def _gaussian_information() -> Any:
    from tractable.distributions.gaussian_forms import GaussianInformation

    return GaussianInformation(INVERSE, INVERSE @ LOC)


CASES = [
    VectorCase(
        "Dirichlet",
        lambda: Dirichlet(ALPHA),
        inside=SIMPLEX,
        outside=np.array([[0.2, 0.3, 0.6], [-0.1, 0.6, 0.5], [0.2, 0.2, 0.2]]),
        log_density=lambda x: np.array([stats.dirichlet(ALPHA).logpdf(p) for p in x]),
        quadrature=_simplex_rule,
        projections=[
            (_along(np.eye(3)[0]), stats.beta(0.7, 3.8)),
            (_along(np.eye(3)[2]), stats.beta(2.3, 2.2)),
            (_along(np.array([1.0, 1.0, 0.0])), stats.beta(2.2, 2.3)),
        ],
    ),
    VectorCase(
        "Multinomial",
        lambda: Multinomial(TOTAL, PROBS),
        inside=COUNTS,
        outside=BAD_COUNTS,
        log_density=stats.multinomial(TOTAL, PROBS).logpmf,
        quadrature=_enumeration,
        projections=[
            (_along(np.eye(3)[0]), stats.binom(5, 0.2)),
            (_along(np.array([1.0, 1.0, 0.0])), stats.binom(5, 0.5)),
        ],
    ),
    VectorCase(
        "DirichletMultinomial",
        lambda: DirichletMultinomial(TOTAL, ALPHA),
        inside=COUNTS,
        outside=BAD_COUNTS,
        log_density=stats.dirichlet_multinomial(ALPHA, TOTAL).logpmf,
        quadrature=_enumeration,
        projections=[
            (_along(np.eye(3)[0]), stats.betabinom(5, 0.7, 3.8)),
            (_along(np.eye(3)[2]), stats.betabinom(5, 2.3, 2.2)),
        ],
    ),
    VectorCase(
        "MultivariateStudentT",
        lambda: MultivariateStudentT(9.5, LOC, SCALE),
        inside=PLANE,
        outside=BAD_PLANE,
        log_density=stats.multivariate_t(LOC, SCALE, 9.5).logpdf,
        quadrature=_plane_rule,
        projections=_STUDENT,
    ),
    VectorCase(
        "Wishart",
        lambda: Wishart(DEGREES, SCALE),
        inside=DEFINITE,
        outside=BAD_MATRICES,
        log_density=lambda x: stats.wishart(DEGREES, SCALE).logpdf(np.moveaxis(x, 0, -1)),
        quadrature=lambda: _cone_rule(ROOT),
        projections=[(lambda x: _quadratic(x) / _SPREAD**2, stats.chi2(DEGREES))],
    ),
    VectorCase(
        "InverseWishart",
        lambda: InverseWishart(MANY, SCALE),
        inside=DEFINITE,
        outside=BAD_MATRICES,
        log_density=lambda x: stats.invwishart(MANY, SCALE).logpdf(np.moveaxis(x, 0, -1)),
        quadrature=_inverse_cone_rule,
        projections=[
            (lambda x: _quadratic(np.linalg.inv(x)) / (DIRECTION @ INVERSE @ DIRECTION), stats.chi2(MANY)),
            (lambda x: _SPREAD**2 / _quadratic(x), stats.chi2(MANY - 1)),
        ],
    ),
    VectorCase(
        "MatrixNormal",
        lambda: MatrixNormal(CENTRE, SCALE, COLUMNS),
        inside=np.stack([CENTRE, CENTRE + 1, CENTRE * [1.0, -20.0, 3.0]]),
        outside=np.stack([CENTRE * [1.0, np.inf, 3.0]]),
        log_density=stats.matrix_normal(CENTRE, SCALE, COLUMNS).logpdf,
        quadrature=_matrix_rule,
        projections=[
            (
                lambda x: DIRECTION @ (x - CENTRE) @ np.ones(3),
                stats.norm(0, _SPREAD * np.sqrt(COLUMNS.sum())),
            ),
        ],
    ),
    VectorCase(
        "LKJCholesky",
        lambda: LKJCholesky(3, 2.0),
        inside=np.array(
            [
                np.eye(3),
                [[1, 0, 0], [0.6, 0.8, 0], [0, -0.8, 0.6]],
                [[1, 0, 0], [-0.28, 0.96, 0], [0.48, 0.64, 0.6]],
            ]
        ),
        outside=np.array(
            [
                np.ones((3, 3)),
                2 * np.eye(3),
                [[1, 0, 0], [0.6, -0.8, 0], [0, 0.8, 0.6]],
                [[1, 0.1, 0], [0, 1, 0], [0, 0, 1]],
            ]
        ),
        log_density=_lkj_log_density,
        quadrature=_correlation_rule,
        projections=[(_correlation(i, j), stats.beta(2.5, 2.5)) for i, j in ((1, 0), (2, 0), (2, 1))],
    ),
    VectorCase(
        "NormalGamma",
        lambda: NormalGamma(1.0, 2.0, 5.5, 4.0),
        inside=np.array([[1.0, 0.5], [3.0, 0.01], [-2.0, 6.0]]),
        outside=np.array([[1.0, 0.0], [1.0, -2.0], [np.inf, 1.0]]),
        log_density=_normal_gamma_log_density,
        quadrature=_normal_gamma_rule,
        projections=[
            (_along(np.eye(2)[0]), stats.t(11.0, 1.0, np.sqrt(4.0 / (5.5 * 2.0)))),
            (_along(np.eye(2)[1]), stats.gamma(5.5, scale=1 / 4.0)),
        ],
    ),
    VectorCase(
        "NormalInverseWishart",
        lambda: NormalInverseWishart(LOC, 3.0, MANY, SCALE),
        inside=np.concatenate([PLANE[:, None], DEFINITE], 1),
        outside=np.concatenate([np.zeros((3, 1, 2)), BAD_MATRICES], 1),
        log_density=_normal_inverse_wishart_log_density,
        quadrature=_normal_inverse_wishart_rule,
        projections=[
            (lambda x: (x[:, 0] - LOC) @ DIRECTION, stats.t(12.0, 0, _SPREAD / np.sqrt(3.0 * 12.0))),
            (lambda x: _SPREAD**2 / _quadratic(x[:, 1:]), stats.chi2(12.0)),
        ],
    ),
    VectorCase("Gaussian", _gaussian, **_GAUSSIAN),
    VectorCase("GaussianPrecision", _gaussian_precision, **_GAUSSIAN),
    VectorCase("GaussianInformation", _gaussian_information, **_GAUSSIAN),
]
