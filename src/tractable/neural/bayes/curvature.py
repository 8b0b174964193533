r"""The curvature of a network's likelihood at its mode, in units of the prior: full, diagonal, Kronecker.

Units.       With $u_i = w_i\sqrt{b_i}$ ($b$ the base of the prior) the prior of $u$ has precision
             $\alpha_g$ alone, and the posterior $A = \beta G + \mathrm{diag}(\alpha_{g(i)})$ with $G$ the
             Gauss-Newton matrix of the unit loss in $u$, $\beta$ the noise precision.
Forms.       `full`: $G$ itself; `diagonal`: its diagonal; `kronecker`: a pair of factors for each dense
             layer; `last_layer`: the block of the last layer, the other weights as they are.
Cost.        $O(n m p^2)$, $O(n m p)$, $O(n m \sum_l n_l^2)$.
References.  Daxberger et al. (2021), "Laplace redux"; Ritter, Botev and Barber (2018).
"""

from abc import abstractmethod

import jax.numpy as jnp

from tractable.core.module import Module, field
from tractable.core.types import Array, Float, Scalar
from tractable.inference.curvature.gauss_newton import ggn, ggn_diagonal
from tractable.inference.curvature.kronecker import KroneckerBlock, KroneckerPrecision
from tractable.inference.curvature.precision import DensePrecision, DiagonalPrecision, Precision
from tractable.neural.bayes.kronecker import check_dense_layers, kronecker_factors
from tractable.neural.bayes.priors import NormalWeights
from tractable.neural.bayes.statement import BayesianNetwork

__all__ = ["FORMS", "UnitCurvature", "unit_curvature"]

FORMS = ("full", "kronecker", "diagonal", "last_layer")


class UnitCurvature(Module):
    """$G$ over the weights from `first` on, in units of the prior."""

    @abstractmethod
    def precision(self, beta: Scalar, prior: NormalWeights) -> Precision:
        r"""$\\beta G + \\mathrm{diag}(\\alpha)$."""


class _Dense(UnitCurvature):
    matrix: Float[Array, "k k"]
    first: int = field(static=True)

    def precision(self, beta, prior):
        factor = prior.factor[prior.layer[self.first :]]
        return DensePrecision.of(beta * self.matrix + jnp.diag(factor))


class _Diagonal(UnitCurvature):
    diagonal: Float[Array, " p"]

    def precision(self, beta, prior):
        return DiagonalPrecision(beta * self.diagonal + prior.factor[prior.layer])


class _Kronecker(UnitCurvature):
    factors: tuple[tuple[Array, Array], ...]
    has_bias: tuple[bool, ...] = field(static=True)

    def precision(self, beta, prior):
        blocks, start = [], 0
        for (inner, outer), bias in zip(self.factors, self.has_bias):
            blocks.append(KroneckerBlock.of(inner, beta * outer, prior.factor[prior.layer[start]], bias))
            start += blocks[-1].size
        return KroneckerPrecision(tuple(blocks))


class _Outputs(Module):
    """The outputs as a function of the weights from `first` on, in units of the prior."""

    stated: BayesianNetwork
    rest: Float[Array, " r"]
    scale: Float[Array, " k"]  # of a weight in these units

    def __call__(self, u: Array, x: Array) -> Array:
        return self.stated.output(jnp.concatenate([self.rest, u * self.scale]), x)


class _UnitLoss(Module):
    stated: BayesianNetwork

    def __call__(self, output: Array, target: Array) -> Array:
        return target[1] * self.stated.likelihood.unit_loss(output, target[0])  # as often as the row counts


def outputs_in_units(
    stated: BayesianNetwork, weights: Float[Array, " p"], first: int
) -> tuple[_Outputs, Float[Array, " k"]]:
    """The network as a function of the moved weights in units of the prior, and these weights."""
    assert isinstance(stated.prior, NormalWeights)
    scale = stated.prior.base[first:] ** -0.5
    return _Outputs(stated, weights[:first], scale), weights[first:] / scale


def unit_curvature(
    stated: BayesianNetwork, weights: Float[Array, " p"], form: str, first: int
) -> UnitCurvature:
    """$G$ at these weights in one of the `FORMS`; `first` is the first weight of the last layer, or 0."""
    if form == "kronecker":
        return _kronecker(stated, weights)
    model, u = outputs_in_units(stated, weights, first)
    rows = (stated.inputs, jnp.stack([stated.targets, stated.counts], axis=1))
    if form == "diagonal":
        return _Diagonal(ggn_diagonal(model, _UnitLoss(stated), u, *rows))
    return _Dense(ggn(model, _UnitLoss(stated), u, *rows), first)


def _kronecker(stated: BayesianNetwork, weights: Array) -> UnitCurvature:
    """The factors; each weight of a layer has one base, and so has its bias."""
    check_dense_layers(stated, weights)
    assert isinstance(stated.prior, NormalWeights)
    found, biases, start = [], [], 0
    for inner, outer in kronecker_factors(stated, weights):
        slots = [slot for slot in stated.rebuild.slots if slot.size]
        size = inner.shape[0] * outer.shape[0]
        columns = _weight_size(slots, start) // outer.shape[0]
        has_bias = columns < inner.shape[0]
        base = stated.prior.base[start : start + size]
        scale = jnp.full(inner.shape[0], base[0] ** -0.5)
        scale = scale.at[-1].set(base[-1] ** -0.5) if has_bias else scale
        found.append((inner * scale[:, None] * scale[None], outer))
        biases.append(bool(has_bias))
        start += size
    return _Kronecker(tuple(found), tuple(biases))


def _weight_size(slots: list, start: int) -> int:
    """The size of the array that begins at the weight `start`."""
    place = 0
    for slot in slots:
        if place == start:
            return slot.size
        place += slot.size
    raise AssertionError("layers follow each other in the order of the weights")
