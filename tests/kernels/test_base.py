"""Operators, printing, padding, precision and the edges of kernels."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tractable.core.iterate import count_traces
from tractable.core.module import field
from tractable.core.support import positive
from tractable.kernels.base import Constant, Kernel, Product, Scaled, Sum
from tractable.kernels.nonstationary import Linear, Polynomial
from tractable.kernels.stationary import RBF, Matern12, Matern32, Periodic

ROWS = np.random.default_rng(0).normal(size=(6, 2))


class Laplace(Kernel):
    """A kernel of one's own, which defines one pair alone."""

    width: float = field(support=positive, default=1.0)

    def pair(self, x, y):
        return jnp.exp(-jnp.abs(x - y).sum() / self.width)


def test_printing_reads_like_the_formula():
    assert repr(2.0 * RBF(length_scale=1.3) + Linear()) == "2.0 * RBF(length_scale=1.3) + Linear()"
    assert repr((RBF() + 1.0) * Linear()) == "(RBF(length_scale=1.0) + 1.0) * Linear()"
    assert repr(3 * (RBF() + Linear())) == "3.0 * (RBF(length_scale=1.0) + Linear())"
    assert repr((2 * RBF([1.0, 1 / 3])) ** 2) == "(2.0 * RBF(length_scale=[1.0, 0.333333]))**2"
    assert repr(Polynomial(3, 0.5)) == "Polynomial(degree=3, offset=0.5)"
    shown = []
    jax.jit(lambda scale: shown.append(repr(RBF(scale))) or scale)(1.0)
    assert shown == ["RBF(length_scale=float64[])"]


def test_operators_flatten_and_accept_numbers_of_any_kind():
    three = RBF() + Linear() + Matern12()
    assert isinstance(three, Sum)
    assert len(three.parts) == 3
    assert len((RBF() * Linear() * Matern12()).parts) == 3
    for two in (2, 2.0, np.float64(2.0), np.array(2.0), jnp.array(2.0)):
        for scaled in (two * RBF(), RBF() * two):
            assert isinstance(scaled, Scaled)
            assert float(scaled(0.0, 0.0)) == 2.0
        assert float((two + Linear())(0.0, 1.0)) == 2.0
    total = sum([RBF(), Linear()])
    assert isinstance(total, Sum)
    assert len(total.parts) == 2
    assert float((RBF() + 0)(1.0, 1.0)) == 1.0


@pytest.mark.parametrize("other", ["text", None, [1.0], True])
def test_operators_refuse_what_is_no_kernel(other):
    with pytest.raises(TypeError):
        RBF() + other
    with pytest.raises(TypeError):
        other * RBF()


def test_signs_that_break_definiteness_are_refused():
    with pytest.raises(ValueError, match=r"`variance` must be positive and finite; got -1\.0"):
        -1.0 * RBF()
    with pytest.raises(ValueError, match=r"`value` must be zero or positive, and finite; got -2\.0"):
        RBF() + (-2.0)
    with pytest.raises(ValueError, match=r"`length_scale` must be positive and finite; got 0\.0"):
        RBF(0.0)
    with pytest.raises(ValueError, match="`exponent` must be a whole number of at least 1"):
        RBF() ** 0
    with pytest.raises(TypeError, match="`parts` must be a tuple of kernels"):
        Product(())


def test_a_kernel_of_ones_own_needs_one_pair():
    kernel = 2.0 * Laplace(0.5) + Constant(1.0)
    want = 2 * np.exp(-np.abs(ROWS[:, None] - ROWS[None]).sum(-1) / 0.5) + 1
    np.testing.assert_allclose(kernel.gram(ROWS), want, rtol=1e-14)
    np.testing.assert_allclose(kernel.diagonal(ROWS), np.full(6, 3.0), rtol=1e-14)


def test_numbers_vectors_and_lists_are_points():
    kernel = RBF(2.0)
    assert float(kernel(1.0, 3.0)) == float(kernel([1.0], [3.0])) == np.exp(-0.5)
    np.testing.assert_array_equal(kernel.gram([1.0, 3.0]), kernel.gram(np.array([[1.0], [3.0]])))
    assert kernel.gram([1, 3]).dtype == np.float64


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda k: k([1.0, 2.0], [1.0]), r"`y` must be a point like `x`, of shape \(2,\); got shape \(1,\)"),
        (lambda k: k(np.ones((2, 2)), 1.0), "`x` must be one point: a number or a vector"),
        (lambda k: k.gram(np.ones((2, 2, 2))), r"`X` must be rows \(n, d\), or a vector of n numbers"),
        (lambda k: k.gram(np.ones((0, 2))), "`X` must be at least one row and one column"),
        (lambda k: k.gram(3.0), r"`X` must be rows \(n, d\)"),
        (lambda k: k.diagonal([1.0, np.inf]), r"`X` must be finite; got inf at index \(1, 0\)"),
        (lambda k: RBF([1.0, 2.0]).gram(np.ones((3, 3))), "`length_scale` must be one number, or one"),
    ],
)  # fmt: skip
def test_wrong_points_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(RBF())
    with pytest.raises(TypeError, match="`X` must be"):
        RBF().gram(["a", "b"])


def test_single_precision_stays_single():
    x = ROWS.astype(np.float32)
    gram = (2.0 * RBF(1.3) + Periodic(1.0, 2.0) * Matern32()).gram(x)
    assert gram.dtype == np.float32
    np.testing.assert_allclose(gram, (2.0 * RBF(1.3) + Periodic(1.0, 2.0) * Matern32()).gram(ROWS), atol=2e-6)


def test_a_new_number_of_rows_runs_the_same_program(monkeypatch):
    counted = count_traces(lambda kernel, x, y: kernel._gram(x, y))
    monkeypatch.setattr("tractable.kernels.base.compiled_gram", eqx.filter_jit(counted))
    for rows, columns in ((9, 12), (14, 9), (16, 16)):
        x = np.linspace(0, 1, rows)
        gram = RBF(0.1 * rows).gram(x, np.linspace(0, 1, columns))
        assert gram.shape == (rows, columns)
        direct = np.exp(-0.5 * (x[:, None] - np.linspace(0, 1, columns)[None]) ** 2 / (0.1 * rows) ** 2)
        np.testing.assert_allclose(gram, direct, rtol=1e-13)
    assert counted.count == 1


def test_tables_work_inside_compiled_and_mapped_functions():
    kernel = 1.5 * Matern32([0.7, 1.2])
    want = kernel.gram(ROWS)
    np.testing.assert_allclose(jax.jit(lambda rows: kernel.gram(rows))(ROWS), want, rtol=1e-14)
    stacked = jax.vmap(kernel.gram)(jnp.stack([ROWS, ROWS + 3.0]))
    np.testing.assert_allclose(stacked, np.stack([want, want]), rtol=1e-12)
    scales = jax.vmap(lambda scale: RBF(scale).gram(ROWS))(jnp.array([0.5, 2.0]))
    np.testing.assert_allclose(scales[1], RBF(2.0).gram(ROWS), rtol=1e-14)
