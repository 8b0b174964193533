"""What every kernel owes: pairs, tables, diagonals, symmetry, definiteness, derivatives, storage."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tests.kernels.registry import CASES, CLOSURES, Level, Stretch
from tests.oracles.covariances import table
from tractable.bijections.support import unconstrain
from tractable.core.storage import load, save
from tractable.kernels.checks import falsify_psd, is_psd, is_symmetric

EVERY = [*CASES, *CLOSURES]
_by_name = pytest.mark.parametrize("case", EVERY, ids=str)


@eqx.filter_jit
def _pairs(kernel, x, y):
    return jax.vmap(lambda a: jax.vmap(lambda b: kernel.pair(a, b))(y))(x)


@eqx.filter_jit
def _weighted(rebuild, free, x, weights):
    def total(free, x):
        kernel = rebuild(free)[0]
        return (weights * kernel.gram(x)).sum() + kernel.diagonal(x).sum()

    return total(free, x), jax.grad(total, argnums=(0, 1))(free, x)


@_by_name
def test_table_diagonal_and_pairs_are_the_written_formula(case):
    kernel, x = case.build(), case.points
    want = table(case.formula, x, x)
    np.testing.assert_allclose(kernel.gram(x), want, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(kernel.gram(x, x[2:5]), want[:, 2:5], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(kernel.diagonal(x), np.diag(want), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(_pairs(kernel, x, x), want, rtol=1e-12, atol=1e-14)


@_by_name
def test_symmetry_and_definiteness_are_as_declared(case):
    kernel = case.build()
    gram = kernel.gram(case.points)
    assert is_symmetric(gram) == kernel.traits.symmetric
    if kernel.traits.psd:
        assert is_psd(gram)
        assert kernel.traits.symmetric


@pytest.mark.parametrize("case", CLOSURES[:10], ids=str)
def test_ten_closure_rules_stay_psd_on_random_points(case):
    found = falsify_psd(case.build(), jr.key(0), dim=3, num_points=8, num_sets=40, low=0.0)
    assert not found.found
    assert "No counter-example in 40 sets of 8 points" in repr(found)


@_by_name
def test_gradients_in_hyperparameters_and_points(case):
    kernel = case.build()
    free, rebuild = unconstrain(kernel, dict.fromkeys(case.hold))
    again = rebuild(free)[0]
    np.testing.assert_allclose(again.gram(case.points), kernel.gram(case.points), rtol=1e-12, atol=1e-14)
    x, rng = jnp.asarray(case.points), np.random.default_rng(5)
    weights = jnp.asarray(rng.normal(size=(len(x), len(x))))
    of_free, of_points = _weighted(rebuild, free, x, weights)[1]
    assert np.isfinite(of_free).all()
    assert np.isfinite(of_points).all()
    moves_points = case.points.shape[1] == 3  # nodes of a graph do not move
    step_free = 1e-5 * rng.normal(size=free.shape)
    step_x = 1e-5 * rng.normal(size=x.shape) * moves_points
    up, _ = _weighted(rebuild, free + step_free, x + step_x, weights)
    down, _ = _weighted(rebuild, free - step_free, x - step_x, weights)
    slope = (of_free * step_free).sum() + (of_points * step_x).sum()
    np.testing.assert_allclose(slope, (up - down) / 2, rtol=1e-6, atol=1e-10)


@_by_name
def test_stored_and_loaded(case, tmp_path):
    kernel = case.build()
    save(tmp_path / "kernel.safetensors", kernel)
    again = load(tmp_path / "kernel.safetensors", types=[Stretch, Level])
    assert repr(again) == repr(kernel)
    np.testing.assert_array_equal(again.gram(case.points), kernel.gram(case.points))


@_by_name
def test_bad_rows_are_refused_by_name(case):
    kernel = case.build()
    bad = case.points.copy()
    bad[3, -1] = np.nan
    with pytest.raises(ValueError, match=r"`X` must be finite; got nan at index \(3, \d\)"):
        kernel.gram(bad)
    with pytest.raises(ValueError, match=r"`Y` must be (rows of|numbers of nodes)"):
        kernel.gram(case.points, np.ones((2, case.points.shape[1] + 1)))
