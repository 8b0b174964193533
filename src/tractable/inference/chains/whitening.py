r"""Affine maps that make a density round: what warm-up learns, and every sampler in real space runs behind.

Map.         $x = m + Lz$; a sampler that moves $z$ with unit metric moves $x$ with metric $(LL^\top)^{-1}$.
             `DenseWhitening` holds $L$; `DiagonalWhitening` $L = \mathrm{diag}(s)$;
             `LowRankWhitening` $L = \mathrm{diag}(s)(I + U(\Lambda^{1/2} - I)U^\top)$.
Learning.    For draws with covariance $C_x$ and gradients of the log-density with covariance $C_g$, the map
             that brings $z$ closest to a standard normal in Fisher divergence has $A = LL^\top$ with
             $A C_g A = C_x$: the geometric mean of $C_x$ and $C_g^{-1}$. On a Gaussian it is exact from
             $d + 1$ draws, wherever they are; elementwise it is $s^2 = \mathrm{sd}(x)/\mathrm{sd}(g)$.
Trust.       Behind that map a Gaussian has unit variances in every direction. Directions in which the draws
             vary more than chance explains are not Gaussian: there gradients are ruled by a few steep places
             (the neck of a funnel, the spike of a horseshoe) and the variance of the draws is taken instead.
Cost.        Two products with $L$ per gradient: $O(d^2)$, $O(d)$, $O(dr)$. Learning is $O(d^3)$, in NumPy,
             between blocks: nothing is compiled.
References.  Seyboldt, Carlson and Carpenter (2024), "Preconditioning Hamiltonian Monte Carlo by minimizing
             Fisher divergence".
"""

import abc
from typing import Any

import numpy as np

from tractable.core.module import Module
from tractable.core.types import Array, Float

__all__ = ["DenseWhitening", "DiagonalWhitening", "LowRankWhitening", "Whitening", "identity_whitening"]

_PRIOR_DRAWS = 5.0  # the diagonal counts as so many draws beside the correlations
_DEPENDENCE = 4.0  # so many steps of a chain, at this stage, are worth one independent draw
_LARGEST, _SMALLEST = 1e20, 1e-20


class Whitening(Module):
    """$x = m + Lz$. `forward` is traced by JAX; the other methods are for rows, in NumPy."""

    centre: Float[Array, " d"] | np.ndarray

    @abc.abstractmethod
    def forward(self, z: Any) -> Any:
        """One point of the chain's space in the space of the density."""

    @abc.abstractmethod
    def multiply(self, rows: np.ndarray) -> np.ndarray:
        r"""$L v$ for each row."""

    @abc.abstractmethod
    def solve(self, rows: np.ndarray) -> np.ndarray:
        r"""$L^{-1} v$ for each row."""

    @abc.abstractmethod
    def multiply_transposed(self, rows: np.ndarray) -> np.ndarray:
        r"""$L^\top v$ for each row."""

    @abc.abstractmethod
    def solve_transposed(self, rows: np.ndarray) -> np.ndarray:
        r"""$L^{-\top} v$ for each row."""

    @abc.abstractmethod
    def learn(self, draws: np.ndarray, gradients: np.ndarray | None, settled: bool = True) -> "Whitening":
        """The map of this kind that fits draws, shape `(n, d)`, and the gradients there.

        Points that are not `settled`, such as scattered starts, are no draws of the target: their own
        variance says nothing, the gradients at them say all.
        """

    def points(self, rows: np.ndarray) -> np.ndarray:
        r"""$m + Lz$ for each row."""
        return np.asarray(self.centre) + self.multiply(rows)

    def inverse(self, rows: np.ndarray) -> np.ndarray:
        r"""$L^{-1}(x - m)$ for each row."""
        return self.solve(rows - np.asarray(self.centre))


class DiagonalWhitening(Whitening):
    """Each coordinate has its own scale."""

    scale: Float[Array, " d"] | np.ndarray

    def forward(self, z: Any) -> Any:
        return self.centre + self.scale * z

    def multiply(self, rows: np.ndarray) -> np.ndarray:
        return rows * np.asarray(self.scale)

    def solve(self, rows: np.ndarray) -> np.ndarray:
        return rows / np.asarray(self.scale)

    multiply_transposed, solve_transposed = multiply, solve

    def learn(
        self, draws: np.ndarray, gradients: np.ndarray | None, settled: bool = True
    ) -> "DiagonalWhitening":
        return DiagonalWhitening(_centre(draws), _scales(draws, gradients, settled))


class DenseWhitening(Whitening):
    """Every pair of coordinates has a covariance."""

    lower: Float[Array, "d d"] | np.ndarray

    def forward(self, z: Any) -> Any:
        return self.centre + self.lower @ z

    def multiply(self, rows: np.ndarray) -> np.ndarray:
        return rows @ np.asarray(self.lower).T

    def solve(self, rows: np.ndarray) -> np.ndarray:
        return _solved(np.asarray(self.lower), rows)

    def multiply_transposed(self, rows: np.ndarray) -> np.ndarray:
        return rows @ np.asarray(self.lower)

    def solve_transposed(self, rows: np.ndarray) -> np.ndarray:
        return _solved(np.asarray(self.lower).T, rows)

    def learn(
        self, draws: np.ndarray, gradients: np.ndarray | None, settled: bool = True
    ) -> "DenseWhitening":
        scale = _scales(draws, gradients, settled)
        try:
            spread = _spread(draws / scale, None if gradients is None else gradients * scale, settled)
            lower = np.linalg.cholesky(spread)
        except np.linalg.LinAlgError:  # chains of an improper density, so far out that no digits are left
            lower = np.eye(scale.size)
        return DenseWhitening(_centre(draws), scale[:, None] * lower)


class LowRankWhitening(Whitening):
    """Own scales, and a few directions that are longer or shorter than those say."""

    scale: Float[Array, " d"] | np.ndarray
    basis: Float[Array, "d r"] | np.ndarray
    stretch: Float[Array, " r"] | np.ndarray  # of the directions; one is none

    def forward(self, z: Any) -> Any:
        return self.centre + self.scale * (z + self.basis @ ((self.stretch - 1) * (self.basis.T @ z)))

    def multiply(self, rows: np.ndarray) -> np.ndarray:
        return self._stretched(rows, np.asarray(self.stretch)) * np.asarray(self.scale)

    def solve(self, rows: np.ndarray) -> np.ndarray:
        return self._stretched(rows / np.asarray(self.scale), 1 / np.asarray(self.stretch))

    def multiply_transposed(self, rows: np.ndarray) -> np.ndarray:
        return self._stretched(rows * np.asarray(self.scale), np.asarray(self.stretch))

    def solve_transposed(self, rows: np.ndarray) -> np.ndarray:
        return self._stretched(rows, 1 / np.asarray(self.stretch)) / np.asarray(self.scale)

    def learn(
        self, draws: np.ndarray, gradients: np.ndarray | None, settled: bool = True
    ) -> "LowRankWhitening":
        scale, rank = _scales(draws, gradients, settled), np.asarray(self.stretch).size
        values, vectors = _main_directions(
            draws / scale, None if gradients is None else gradients * scale, settled
        )
        order = np.argsort(-np.abs(np.log(values)))[:rank]
        basis, stretch = np.zeros((scale.size, rank)), np.ones(rank)
        basis[:, : order.size], stretch[: order.size] = vectors[:, order], np.sqrt(values[order])
        return LowRankWhitening(_centre(draws), scale, basis, stretch)

    def _stretched(self, rows: np.ndarray, factors: np.ndarray) -> np.ndarray:
        basis = np.asarray(self.basis)
        return rows + ((rows @ basis) * (factors - 1)) @ basis.T


def identity_whitening(position: np.ndarray, kind: str, rank: int = 10) -> Whitening:
    """The map of a kind (`dense`, `diagonal`, `low_rank`) that changes nothing."""
    centre, ones = np.zeros_like(position), np.ones_like(position)
    if kind == "dense":
        return DenseWhitening(centre, np.diag(ones))
    if kind == "diagonal":
        return DiagonalWhitening(centre, ones)
    rank = min(rank, position.size)
    return LowRankWhitening(centre, ones, np.zeros((position.size, rank), position.dtype), ones[:rank])


def _solved(matrix: np.ndarray, rows: np.ndarray) -> np.ndarray:
    flat = rows.reshape((-1, rows.shape[-1]))
    return np.linalg.solve(matrix, flat.T).T.reshape(rows.shape)


def _centre(draws: np.ndarray) -> np.ndarray:
    return draws.mean(0)


def _scales(draws: np.ndarray, gradients: np.ndarray | None, settled: bool) -> np.ndarray:
    r"""The root of $\mathrm{sd}(x)/\mathrm{sd}(g)$ where $\mathrm{sd}(x)\,\mathrm{sd}(g) \approx 1$, as for
    a Gaussian; $\mathrm{sd}(x)$ where it is far more, or without gradients; 1 where there is no spread."""
    with np.errstate(all="ignore"):  # chains of an improper density may be anywhere
        scale = draws.std(0)
        if gradients is not None:
            slope = gradients.std(0)
            scale = np.sqrt(
                scale / slope * np.maximum(1.0, scale * slope / _surprise(1, len(draws), settled))
            )
    usable = np.isfinite(scale) & (scale > _SMALLEST) & (scale < _LARGEST)
    return np.where(usable, scale, 1.0)


def _spread(draws: np.ndarray, gradients: np.ndarray | None, settled: bool) -> np.ndarray:
    """The covariance to whiten by: the geometric mean, or more in directions that are not Gaussian."""
    covariance = _shrunk_covariance(draws)
    if gradients is None:
        return covariance
    lower = np.linalg.cholesky(_geometric_mean(covariance, _shrunk_covariance(gradients)))
    half = np.linalg.solve(lower, covariance)
    values, vectors = np.linalg.eigh(np.linalg.solve(lower, half.T))
    factors = np.maximum(1.0, values / _surprise(draws.shape[1], draws.shape[0], settled))
    root = lower @ (vectors * np.sqrt(factors))
    return root @ root.T


def _surprise(dim: int, count: int, settled: bool) -> float:
    """The largest variance that so many (dependent) draws of a standard normal may show in a direction."""
    if not settled:
        return np.inf
    return 1.2 * (1 + np.sqrt(dim * _DEPENDENCE / count)) ** 2


def _shrunk_covariance(rows: np.ndarray) -> np.ndarray:
    """The covariance; where draws are few, its correlations shrunk as if a few draws more had shown none.

    With many draws nothing is shrunk: in a Gaussian of condition 1000 gradients have condition $10^6$, and a
    thousandth of their diagonal would drown the small directions.
    """
    covariance = np.atleast_2d(np.cov(rows, rowvar=False, bias=True))
    count, dim = rows.shape
    share = count / (count + _PRIOR_DRAWS * max(0.0, 1 - count / (4 * dim)))
    diagonal = np.diagonal(covariance)
    floor = np.where(diagonal > 0, diagonal, 1.0)  # a coordinate that never moved has no say
    return share * covariance + np.diag(floor - share * diagonal)


def _geometric_mean(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    r"""The $A$ with $A b A = a$: $b^{-1/2}(b^{1/2} a\, b^{1/2})^{1/2} b^{-1/2}$."""
    values, vectors = np.linalg.eigh(b)
    values = np.maximum(values, values[-1] * np.finfo(b.dtype).eps)
    root = (vectors * np.sqrt(values)) @ vectors.T
    inverse = (vectors / np.sqrt(values)) @ vectors.T
    inner, directions = np.linalg.eigh(root @ a @ root)
    inner = np.maximum(inner, inner[-1] * np.finfo(b.dtype).eps)
    mean = inverse @ ((directions * np.sqrt(inner)) @ directions.T) @ inverse
    return 0.5 * (mean + mean.T)


def _main_directions(
    draws: np.ndarray, gradients: np.ndarray | None, settled: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Variances and directions of the geometric mean inside the span of draws and gradients."""
    parts = [draws - draws.mean(0)] + ([] if gradients is None else [gradients - gradients.mean(0)])
    _, sizes, rows = np.linalg.svd(np.concatenate(parts), full_matrices=False)
    span = rows[sizes > sizes[0] * 1e-9].T
    spread = _spread(draws @ span, None if gradients is None else gradients @ span, settled)
    values, vectors = np.linalg.eigh(spread)
    return values, span @ vectors
