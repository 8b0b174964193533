"""Classes of kernels and the smoothness of their paths: declared against measured."""

import jax.random as jr
import numpy as np
import pytest

from tests.kernels.registry import CASES, CLOSURES, ROWS
from tractable.kernels.base import Constant
from tractable.kernels.nonstationary import Linear, Polynomial, Wiener
from tractable.kernels.smoothness import (
    smoothness_report,
    trait_violations,
)
from tractable.kernels.stationary import (
    RBF,
    Matern,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    RationalQuadratic,
)

OF_POINTS = [case for case in [*CASES, *CLOSURES] if case.points is ROWS]
BOUNDED = ("Wiener", "direct-product")  # times below zero are refused


@pytest.mark.parametrize("case", [c for c in OF_POINTS if c.name not in BOUNDED], ids=str)
def test_declared_classes_are_kept_under_their_moves(case):
    kernel = case.build()
    found = trait_violations(kernel, ROWS, jr.key(0))
    scale = float(np.abs(kernel.gram(ROWS)).max())
    for name, violation in found.items():
        if getattr(kernel.traits, name):
            assert violation < 1e-12 * scale, name
        else:
            assert violation > 1e-3 * scale, name


def test_predicates():
    assert RBF([1.0, 2.0]).traits.stationary
    assert not RBF([1.0, 2.0]).traits.isotropic
    assert (2.0 * Matern32() + RBF()).traits.isotropic
    assert (Polynomial(2) * Linear()).traits.dot_product
    assert not Linear().traits.stationary
    known = Constant(1.0).traits
    assert known.stationary
    assert known.isotropic
    assert known.dot_product


@pytest.mark.parametrize(
    ("kernel", "derivatives"),
    [(Matern12(), 0), (Matern32(), 1), (Matern52(), 2), (RBF(), 3), (Matern(0.6), 0), (Matern(2.4), 2),
     (Wiener(), 0), (RationalQuadratic(), 3), (Periodic(1.0, 3.0), 3), (RBF() + 0.5 * Matern32(), 1),
     (RBF() * Matern12(), 0)],
)  # fmt: skip
def test_measured_derivatives_are_the_declared_ones(kernel, derivatives):
    report = smoothness_report(kernel)
    assert report.continuous
    assert report.measured == derivatives == min(report.declared, 3)


def test_powers_of_a_matern_kernel_are_twice_its_order():
    report = smoothness_report(Matern12())
    np.testing.assert_allclose(report.exponents, [1.0, 1.0, 1.0], atol=0.1)
    np.testing.assert_allclose(smoothness_report(Matern32()).exponents[1:], [3.0, 3.0], atol=0.15)
    assert repr(report).endswith("Mean-square continuous; 0 mean-square derivatives (declared 0).")
    assert report.verdict.ok
    assert "at least 3" in repr(smoothness_report(RBF()))
