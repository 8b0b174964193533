"""Couplings and autoregressive maps: what stays, what depends on what, and conditioners of any kind."""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.bijections.autoregressive import Autoregressive, MaskedMLP, is_autoregressive
from tractable.bijections.coupling import AffineFamily, Conditioner, Coupling

X = np.array([0.5, -1.0, 2.0, 0.1])


def _waves(kept):
    return jnp.concatenate([jnp.sin(kept), 0.1 * kept])


def test_coupling_keeps_what_it_says_and_scales_the_rest():
    layer = Coupling(_waves, [True, False, False, True])
    y, log_det = layer.forward_and_log_det(X)
    shift, raw = (
        np.array([np.sin(0.5), 0.05]),
        np.array([np.sin(0.1), 0.01]),
    )  # rows (shift, raw log-scale) of the moved entries
    log_scale = 5 * np.tanh(raw / 5)
    np.testing.assert_allclose(
        y, [0.5, shift[0] - np.exp(log_scale[0]), shift[1] + 2 * np.exp(log_scale[1]), 0.1], rtol=1e-14
    )
    np.testing.assert_allclose(log_det, log_scale.sum(), rtol=1e-14)


def test_a_perceptron_as_conditioner_compiles_as_an_argument():
    mlp = eqx.nn.MLP(2, 4, 8, 1, key=jr.key(0))  # its activation is a leaf that is not an array
    layer = Coupling(mlp, [True, False, False, True])
    y = jax.jit(lambda c, x: c.forward(x))(layer, jnp.asarray(X))
    free = np.asarray(mlp(X[[0, 3]])).reshape(2, 2)
    expected = free[:, 0] + np.exp(5 * np.tanh(free[:, 1] / 5)) * X[1:3]
    np.testing.assert_allclose(y[1:3], expected, rtol=1e-13)
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(layer))


def test_log_scale_stays_below_its_bound():
    map_ = AffineFamily(2.0)(jnp.asarray([[0.0, 1e3], [0.0, -1e3], [0.0, 1e-3]]))
    np.testing.assert_allclose(np.log(map_.scale), [2.0, -2.0, 1e-3], rtol=1e-6)


def test_masked_perceptron_sees_all_earlier_entries_and_no_others():
    network = _network()
    jacobian = np.asarray(jax.jit(jax.jacfwd(network))(jnp.asarray(X)))  # (row, parameter, entry)
    depends = (jacobian != 0).any(1)
    np.testing.assert_array_equal(depends, np.tril(np.ones((4, 4), bool), -1))
    assert is_autoregressive(network, 4)


def test_jacobian_of_an_autoregressive_map_is_triangular():
    map_ = Autoregressive(_network())
    jacobian = np.asarray(jax.jit(jax.jacfwd(map_.forward))(jnp.asarray(X)))
    np.testing.assert_array_equal(np.triu(jacobian, 1), 0.0)
    assert (np.diag(jacobian) > 0).all()


@cache
def _network():
    return MaskedMLP(jr.key(1), 4, 2, widths=(12, 12))


def _running(x):
    """Row i: the sum of the entries before i, twice."""
    before = jnp.cumsum(x) - x
    return jnp.stack([before, 0.1 * before], 1)


def test_forward_solves_one_entry_after_another():
    map_ = Autoregressive(_running, 4)
    expected = np.zeros(4)
    for i in range(4):  # the definition, entry by entry
        before = expected[:i].sum()
        expected[i] = before + np.exp(5 * np.tanh(0.1 * before / 5)) * X[i]
    y, log_det = map_.forward_and_log_det(X)
    np.testing.assert_allclose(y, expected, rtol=1e-13)
    np.testing.assert_allclose(map_.inverse(expected), X, rtol=1e-13)
    before = np.cumsum(expected) - expected
    np.testing.assert_allclose(log_det, (5 * np.tanh(0.1 * before / 5)).sum(), rtol=1e-13)


def test_one_entry_has_a_free_affine_map():
    map_ = Autoregressive.random(jr.key(3), 1, widths=(4,))
    np.testing.assert_allclose(map_.inverse(map_.forward(np.array([2.0]))), [2.0], rtol=1e-15)


def test_overflowing_guesses_do_not_spread():
    # y_2 = 1e200 - 1e200 y_1 = 0 and y_3 = 1e200 y_2 + 0.5: a guess of y_2 above zero makes y_3 overflow,
    # and 0 * y_3 a NaN in every entry.
    weights = np.array([[0.0, 0.0, 0.0], [-1e200, 0.0, 0.0], [0.0, 1e200, 0.0]])
    map_ = Autoregressive(lambda x: jnp.stack([weights @ x, jnp.zeros(3)], 1), 3)
    np.testing.assert_allclose(map_.forward(np.array([1.0, 1e200, 0.5])), [1.0, 0.0, 0.5], rtol=1e-15)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Coupling(_waves, [True, True]), r"`keep` must be true for some entries and false for some"),
        (
            lambda: Coupling(_waves, [True, False, False]).forward(np.zeros(3)),
            r"`conditioner` must be a function with 4 outputs; got 2",
        ),
        (lambda: Coupling(_waves, [True, False]).forward(np.zeros(3)), r"`x` must be of shape \(2,\)"),
        (
            lambda: Autoregressive(lambda x: jnp.stack([x, x], 1), 3),
            r"`conditioner` must be autoregressive.*`MaskedMLP`",
        ),
        (lambda: Autoregressive(_running), r"`dim` must be the length of the vector"),
        (lambda: MaskedMLP(jr.key(0), 0, 2), r"`dim` must be at least 1"),
        (lambda: AffineFamily(0.0), r"`largest_log_scale` must be positive"),
    ],
)
def test_bad_input_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_conditioner_is_kept_as_it_is():
    assert float(Conditioner(jnp.sin)(jnp.asarray(0.0))) == 0.0
