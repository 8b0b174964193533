"""Composition, inversion and parts: log-determinants add."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import stats

from tractable.bijections.base import Image
from tractable.bijections.compose import Chain, Concatenate, Inverse, Members, Parts, Permute, Reshape
from tractable.bijections.elementwise import Affine, Exp, Identity, Negate, Sigmoid, Softplus
from tractable.bijections.matrix import MatrixMap
from tractable.bijections.simplex import Softmax, StickBreaking
from tractable.core.support import positive, real, simplex, unit_interval

MATRIX = np.array([[1.0, 2.0], [-0.5, 3.0]])


def test_chain_sums_log_dets_and_undoes_itself():
    first, second, third = MatrixMap(MATRIX, [0.5, -1.0]), Softplus(), Affine([1.0, 2.0], [3.0, -4.0])
    x = np.array([0.3, -0.8])
    flow = first >> second >> third
    value, log_det = flow.forward_and_log_det(x)
    h1 = MATRIX @ x + [0.5, -1.0]
    h2 = np.log1p(np.exp(h1))
    np.testing.assert_allclose(value, [1.0, 2.0] + np.array([3.0, -4.0]) * h2, rtol=1e-14)
    expected = np.log(abs(np.linalg.det(MATRIX))) - np.log1p(np.exp(-h1)).sum() + np.log(12.0)
    np.testing.assert_allclose(log_det, expected, rtol=1e-14)
    back, inverse_log_det = flow.inverse_and_log_det(value)
    np.testing.assert_allclose(back, x, rtol=1e-13)
    np.testing.assert_allclose(inverse_log_det, -log_det, rtol=1e-13)


def test_density_of_a_flow_is_that_of_the_noise_minus_the_log_det():
    # log p(x) = log pi(z) - log|det df/dz|, for a linear flow against N(b, A A^T).
    flow = Chain(MatrixMap(MATRIX, [0.0, 0.0]), Affine([1.0, 2.0], 2.0))
    z = np.array([0.7, -1.1])
    x, log_det = flow.forward_and_log_det(z)
    log_p = stats.norm.logpdf(z).sum() - float(log_det)
    cov = 4 * MATRIX @ MATRIX.T
    np.testing.assert_allclose(log_p, stats.multivariate_normal([1.0, 2.0], cov).logpdf(x), rtol=1e-13)


def test_chain_is_associative():
    f, g, h = Affine(1.0, 2.0), Sigmoid(), Affine(-1.0, 3.0)
    left, right = (f >> g) >> h, f >> (g >> h)
    for a, b in zip(left.forward_and_log_det(0.3), right.forward_and_log_det(0.3)):
        assert float(a) == pytest.approx(float(b), rel=1e-15)


def test_inverse_of_an_inverse_is_the_map():
    map_ = Affine(1.0, 2.0)
    assert map_.inverted.inverted is map_
    assert float(Inverse(map_).forward(5.0)) == 2.0


def test_knowledge_of_affine_maps_passes_through():
    affine = Affine(1.0, 2.0)
    assert (affine >> Negate()).is_affine
    assert affine.inverted.is_affine
    assert not (affine >> Exp()).is_affine
    assert (affine >> Exp() >> affine).has_affine_log_det  # const + (a x + b) + const
    assert not (Exp() >> Exp()).has_affine_log_det  # x + exp(x)
    assert not Exp().inverted.has_affine_log_det


def test_parts_have_their_own_maps_and_lengths():
    map_ = Concatenate([Exp(), Softmax(), Identity()], [1, 2, 1])
    x = np.array([0.5, 1.0, -1.0, 4.0])
    value, log_det = map_.forward_and_log_det(x)
    probs = np.exp([1.0, -1.0, 0.0]) / np.exp([1.0, -1.0, 0.0]).sum()
    np.testing.assert_allclose(value, [np.exp(0.5), *probs, 4.0], rtol=1e-14)
    np.testing.assert_allclose(log_det, 0.5 + np.log(probs).sum(), rtol=1e-13)
    np.testing.assert_allclose(map_.inverse(value), x, rtol=1e-13)


def test_codomain_of_parts_judges_each_part():
    codomain = Concatenate([Exp(), StickBreaking()], [1, 1]).codomain
    assert isinstance(codomain, Parts)
    points = np.array([[1.0, 0.2, 0.8], [-1.0, 0.2, 0.8], [1.0, 0.2, 0.9]])
    np.testing.assert_array_equal(codomain.contains(points), [True, False, False])
    assert bool(codomain.contains(codomain.interior(points[1])))
    assert "1 x positive and finite; 2 x probabilities" in codomain.words
    assert Concatenate([Identity(), Negate()], [1, 1]).codomain is real


def test_rearrangements():
    assert Permute([2, 0, 1]).forward(np.array([10.0, 20.0, 30.0])).tolist() == [30.0, 10.0, 20.0]
    assert Permute([2, 0, 1]).inverse(np.array([30.0, 10.0, 20.0])).tolist() == [10.0, 20.0, 30.0]
    assert Reshape((4,), (2, 2)).forward(np.arange(4.0)).tolist() == [[0.0, 1.0], [2.0, 3.0]]
    assert Permute([1, 0]).image(positive) is positive
    permuted = Permute([1, 0]).image(simplex)
    assert isinstance(permuted, Image)
    assert bool(permuted.contains(np.array([0.3, 0.7])))


def test_members_share_one_map():
    x = jr.normal(jr.key(0), (2, 3, 2))
    value, log_det = Members(StickBreaking()).forward_and_log_det(x)
    single = [[StickBreaking().forward_and_log_det(x[i, j]) for j in range(3)] for i in range(2)]
    np.testing.assert_allclose(value, [[pair[0] for pair in row] for row in single], rtol=1e-14)
    np.testing.assert_allclose(log_det, sum(float(pair[1]) for row in single for pair in row), rtol=1e-14)
    assert Members(Sigmoid()).codomain is unit_interval


def test_chains_are_pytrees_that_compile():
    chain = Chain(Affine(0.0, [1.0, 2.0]), Exp())
    gradient = jax.grad(lambda c, x: c.forward_and_log_det(x)[1])(chain, jnp.ones(2))
    np.testing.assert_allclose(gradient.bijections[0].scale, [2.0, 1.5], rtol=1e-14)  # 1/scale + x


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Chain(), r"`bijections` must be at least one map; got none"),
        (
            lambda: Concatenate([Exp()], [1, 2]),
            r"`sizes` must be one length for each of 1 maps; got \[1, 2\]",
        ),
        (
            lambda: Concatenate([Exp()], [2]).forward(np.zeros(3)),
            r"`x` must be of shape \(2,\); got shape \(3,\)",
        ),
        (lambda: Permute([0, 2]), r"`order` must be each of 0 .. n - 1 once; got \[0, 2\]"),
        (lambda: Permute([1, 0]).forward(np.zeros(3)), r"`x` must be of shape \(2,\)"),
        (lambda: Reshape((3,), (2, 2)), r"`after` must be a shape with as many entries as \(3,\)"),
        (
            lambda: StickBreaking().forward(np.zeros((2, 3))),
            r"`x` must be one point of rank 1.*use `jax.vmap` for many",
        ),
    ],
)
def test_bad_input_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()
