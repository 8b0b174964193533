"""Convexity, curvature and Lipschitz constants against functions whose answers are known."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.optim.convexity import check_convexity, check_inequalities, curvature
from tractable.optim.lipschitz import layer_bound, lipschitz, lipschitz_growth

MATRIX = np.array([[3.0, 1.0, 0.0], [1.0, 2.0, 0.5], [0.0, 0.5, 1.5]])
VALUES = np.linalg.eigvalsh(MATRIX)
LOW, HIGH = -np.ones(3), 2 * np.ones(3)


def quadratic(x):
    return 0.5 * x @ MATRIX @ x + x[0]


def judged(fun, low=-1.0, high=2.0, **options):
    return check_convexity(fun, low, high, key=jr.key(0), num_pairs=256, **options)


@pytest.mark.parametrize(
    ("fun", "smallest"),
    [(lambda x: 3 * x - 1, 0.0), (lambda x: x**2, 1.0), (jnp.exp, None)],
    ids=["line", "square", "exponential"],
)
def test_line_square_and_exponential_are_convex(fun, smallest):
    report = judged(fun)
    assert report.convex
    assert report.hessian_applies
    if smallest is not None:
        np.testing.assert_allclose(report.smallest_eigenvalue, smallest, atol=1e-14)


def test_absolute_value_is_convex_but_has_no_hessian_at_zero():
    report = judged(jnp.abs)
    assert report.convex
    assert not report.hessian_applies
    np.testing.assert_allclose(report.kink, 0.0, atol=1e-9)
    assert np.isnan(report.smallest_eigenvalue)
    assert "not applicable: the slope jumps near" in repr(report)


def test_kink_is_found_under_curvature_and_in_several_dimensions():
    sharp = judged(lambda x: 10 * x**2 + jnp.abs(x - 0.3))
    np.testing.assert_allclose(sharp.kink, 0.3, atol=1e-9)
    hinge = check_convexity(
        lambda x: x @ x + jnp.maximum(0.0, x[0] + x[1]), LOW, HIGH, key=jr.key(1), num_pairs=256
    )
    assert hinge.convex
    np.testing.assert_allclose(hinge.kink[0] + hinge.kink[1], 0.0, atol=1e-9)


@pytest.mark.parametrize("fun", [lambda x: x**3, lambda x: jnp.sqrt(jnp.abs(x) + 0.1)], ids=["cube", "root"])
def test_what_is_not_convex_is_refuted_with_a_witness(fun):
    report = judged(fun)
    assert not report.convex
    x, y, t = report.chord
    assert fun(t * x + (1 - t) * y) > t * fun(x) + (1 - t) * fun(y)
    assert "NOT CONVEX" in repr(report)


def test_saddle_is_refuted_by_its_hessian():
    report = check_convexity(lambda x: x[0] ** 2 - 1e-4 * x[1] ** 2, LOW[:2], HIGH[:2], key=jr.key(0))
    assert not report.convex
    np.testing.assert_allclose(report.smallest_eigenvalue, -1e-4, rtol=1e-9)


def test_function_without_a_value_is_not_called_convex():
    assert not judged(lambda x: jnp.log(x)).convex


def test_curvature_of_a_quadratic_is_that_of_its_matrix():
    found = curvature(quadratic, LOW, HIGH, key=jr.key(0), num_pairs=256)
    np.testing.assert_allclose([found.strong_convexity, found.smoothness], VALUES[[0, -1]], rtol=1e-10)
    np.testing.assert_allclose(found.condition_number, VALUES[-1] / VALUES[0], rtol=1e-10)
    assert "L >=" in repr(found)


def test_curvature_of_the_logistic_loss_is_at_most_a_quarter():
    found = curvature(lambda x: jnp.logaddexp(0.0, x), -1.0, 1.0, key=jr.key(0), num_pairs=512)
    assert 0.2499 < found.smoothness <= 0.25
    slope = 1 / (1 + np.exp(-1.0))
    assert slope * (1 - slope) <= found.strong_convexity < slope * (1 - slope) + 1e-2


def inequalities(**constants):
    return check_inequalities(quadratic, LOW, HIGH, key=jr.key(0), num_pairs=256, **constants)


def test_all_inequalities_hold_with_the_true_constants():
    minimum = -0.5 * np.linalg.inv(MATRIX)[0, 0]
    report = inequalities(smoothness=VALUES[-1], strong_convexity=VALUES[0], minimum=minimum)
    assert report.holds == dict.fromkeys(report.slack, True)
    assert len(report.slack) == 4
    assert "BROKEN" not in repr(report)


def test_each_inequality_breaks_with_a_wrong_constant():
    minimum = -0.5 * np.linalg.inv(MATRIX)[0, 0]
    small = inequalities(smoothness=0.5 * VALUES[-1], strong_convexity=2 * VALUES[0], minimum=minimum)
    assert not small.holds["quadratic upper bound"]
    assert not small.holds["strong convexity"]
    assert small.holds["linear lower bound"]
    assert "BROKEN" in repr(small)
    high = inequalities(smoothness=VALUES[-1], minimum=minimum + 1.0)
    assert not high.holds["gradient bound"]
    concave = check_inequalities(lambda x: -(x**2), -1.0, 1.0, key=jr.key(0), smoothness=2.0, num_pairs=256)
    assert not concave.holds["linear lower bound"]
    assert "gradient bound" not in concave.slack


def test_boxes_without_room_are_refused():
    with pytest.raises(ValueError, match="`low` must be below `high`"):
        check_convexity(jnp.abs, 1.0, 1.0, key=jr.key(0))
    with pytest.raises(ValueError, match=r"`high` must be of the shape of `low`, \(3,\); got shape \(2,\)"):
        curvature(quadratic, LOW, HIGH[:2], key=jr.key(0))
    with pytest.raises(ValueError, match="`high` must be finite; got inf"):
        curvature(jnp.abs, 0.0, np.inf, key=jr.key(0))


def test_absolute_value_has_constant_one_and_the_square_has_none():
    np.testing.assert_allclose(lipschitz(jnp.abs, -2.0, 3.0, key=jr.key(0)).estimate, 1.0, rtol=1e-12)
    for radius in (1.0, 8.0):
        square = lipschitz(lambda x: x**2, -radius, radius, key=jr.key(0))
        assert 1.98 * radius < square.estimate <= 2 * radius  # |f'| <= 2r, approached at the edge
    levelled = lipschitz_growth(jnp.abs, 0.0, key=jr.key(0), doublings=4, num_points=500)
    growing = lipschitz_growth(lambda x: x**2, 0.0, key=jr.key(0), doublings=4, num_points=500)
    assert levelled.bounded
    assert not growing.bounded
    ratios = np.array(growing.estimates[1:]) / np.array(growing.estimates[:-1])
    np.testing.assert_allclose(ratios, 2.0, rtol=0.02)
    assert "no global constant in sight" in repr(growing)


def test_linear_map_has_its_spectral_norm():
    matrix = np.array([[1.0, 2.0, 0.0], [0.0, -1.0, 3.0]])
    report = lipschitz(lambda x: matrix @ x, LOW, HIGH, key=jr.key(0))
    norm = np.linalg.norm(matrix, 2)
    np.testing.assert_allclose(report.slopes, norm, rtol=1e-12)
    assert 0.9 * norm < report.pairs <= norm * (1 + 1e-12)


def test_product_of_layer_norms_bounds_a_network_from_above():
    generator = np.random.default_rng(0)
    first, second = generator.normal(size=(5, 3)), generator.normal(size=(1, 5))

    def network(x):
        return second @ jax.nn.sigmoid(first @ x)

    bound = layer_bound([first, second], 0.25)
    expected = 0.25 * np.linalg.norm(first, 2) * np.linalg.norm(second, 2)
    np.testing.assert_allclose(bound, expected, rtol=1e-12)
    found = lipschitz(network, LOW, HIGH, key=jr.key(0)).estimate
    assert 0.1 * bound < found <= bound
    # a chain of rotations with the identity between attains it
    angle = np.array([[np.cos(1.0), -np.sin(1.0)], [np.sin(1.0), np.cos(1.0)]])
    np.testing.assert_allclose(layer_bound([angle, 2 * angle]), 2.0, rtol=1e-12)


def test_bad_layers_are_refused():
    with pytest.raises(ValueError, match="`weights` must be at least one matrix; got none"):
        layer_bound([])
    with pytest.raises(ValueError, match="`slopes` must be one for each of the 1 activations; got 2"):
        layer_bound([np.eye(2), np.eye(2)], [1.0, 1.0])
    with pytest.raises(ValueError, match="`low` must be below `high`"):
        lipschitz(jnp.abs, 2.0, 1.0, key=jr.key(0))
