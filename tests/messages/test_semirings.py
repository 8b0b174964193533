"""Semirings: the laws that message passing rests on, for every member, in NumPy and in JAX."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tractable.messages.semirings import Counting, Expectation, KBest, SumProduct, as_semiring, namespace

NAMES = ("sum_product", "max_sum", "max_product", "min_sum", "boolean", "counting", "expectation")
MEMBERS = [*map(as_semiring, NAMES), KBest(3)]


def elements(semiring, kind=np):
    """Sums and products of lifted logarithms, zero and one among them: an array of five elements."""
    logs = np.log(
        np.array([0.3, 1.7, 0.0, 2.5, 0.9]), where=np.array([1, 1, 0, 1, 1], bool), out=np.full(5, -np.inf)
    )
    a = semiring.lift(kind.asarray(logs))
    return semiring.plus(a, semiring.times(a, a[::-1]))


def assert_same(a, b):
    a, b = np.asarray(a, float), np.asarray(b, float)
    np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("kind", [np, jnp], ids=["numpy", "jax"])
@pytest.mark.parametrize("semiring", MEMBERS, ids=lambda s: type(s).__name__)
def test_laws(semiring, kind):
    values = elements(semiring, kind)
    size = len(values)
    a = values.repeat(size * size, 0)
    b = kind.concatenate([values.repeat(size, 0)] * size)
    c = kind.concatenate([values] * (size * size))
    plus, times = semiring.plus, semiring.times
    assert_same(plus(a, b), plus(b, a))
    assert_same(times(a, b), times(b, a))
    assert_same(plus(plus(a, b), c), plus(a, plus(b, c)))
    assert_same(times(times(a, b), c), times(a, times(b, c)))
    assert_same(times(a, plus(b, c)), plus(times(a, b), times(a, c)))


@pytest.mark.parametrize("semiring", MEMBERS, ids=lambda s: type(s).__name__)
def test_zero_and_one_are_neutral_and_zero_absorbs(semiring):
    a = elements(semiring)
    zero, one = (np.broadcast_to(e, a.shape) for e in (semiring.zero, semiring.one))
    assert_same(semiring.plus(a, zero), a)
    assert_same(semiring.times(a, one), a)
    assert_same(semiring.times(a, zero), zero)
    assert_same(semiring.lift(np.array([0.0, -np.inf]))[1], semiring.zero)
    if not isinstance(semiring, Expectation):
        assert_same(semiring.lift(np.array([0.0]))[0], semiring.one)


@pytest.mark.parametrize("semiring", MEMBERS, ids=lambda s: type(s).__name__)
def test_a_total_is_a_fold_of_plus(semiring):
    values = np.stack([elements(semiring), elements(semiring)[::-1], elements(semiring)])
    folded = values[:, 0]
    for i in range(1, 5):
        folded = semiring.plus(folded, values[:, i])
    assert_same(semiring.total(values, (1,)), folded)
    assert_same(semiring.total(values, (0, 1)), semiring.total(folded, (0,)))


def test_distributivity_as_on_paper():
    a, b, c = 0.3, 1.7, 0.6
    maximum, logs = as_semiring("max_product"), as_semiring("max_sum")
    ab, ac = maximum.times(np.array([a]), np.array([b])), maximum.times(np.array([a]), np.array([c]))
    assert maximum.plus(ab, ac) == max(a * b, a * c) == a * max(b, c)
    left = logs.plus(np.array([a + b]), np.array([a + c]))
    assert left == a + max(b, c) == logs.times(np.array([a]), logs.plus(np.array([b]), np.array([c])))


def test_maximum_does_not_distribute_over_negative_factors():
    assert max(-1 * 2, -1 * 3) != -1 * max(2, 3)  # why potentials must not be negative


def test_a_sum_of_impossible_states_is_impossible_and_has_a_gradient():
    none = np.full((2, 3), -np.inf)
    assert np.array_equal(SumProduct().total(none, (1,)), [-np.inf, -np.inf])
    slope = jax.grad(lambda a: SumProduct().total(a, (0,)))(jnp.full(3, -jnp.inf))
    assert np.array_equal(slope, np.zeros(3))
    mixed = jax.grad(lambda a: SumProduct().total(a, (0,)))(jnp.array([-jnp.inf, 0.0, 0.0]))
    assert np.array_equal(mixed, [0.0, 0.5, 0.5])
    assert np.isnan(SumProduct().total(np.array([np.nan, 0.0]), (0,)))


def test_large_and_small_logarithms_keep_their_digits():
    values = np.array([-800.0, -801.0])
    assert SumProduct().total(values, (0,)) == pytest.approx(-800 + math.log1p(math.exp(-1)), abs=1e-12)
    assert SumProduct().total(values + 1600, (0,)) == pytest.approx(800 + math.log1p(math.exp(-1)), abs=1e-12)


def test_counts_are_exact_beyond_machine_integers():
    total = np.array([1], object)
    twos = Counting().plus(Counting().lift(np.zeros(1)), Counting().lift(np.zeros(1)))
    for _ in range(100):
        total = Counting().times(total, twos)
    assert total[0] == 2**100


def test_k_best_lists_the_largest_products():
    best, first, second = KBest(4), np.array([0.1, 0.7, 0.4]), np.array([0.5, 0.2])
    pairs = best.times(best.lift(np.log(first))[:, None], best.lift(np.log(second))[None])
    expected = sorted((a * b for a, b in itertools.product(first, second)), reverse=True)[:4]
    np.testing.assert_allclose(np.exp(best.total(pairs, (0, 1))), expected)
    assert best == KBest(4)
    assert hash(best) == hash(KBest(4))
    with pytest.raises(ValueError, match="`num` must be a whole number of at least 1; got 0"):
        KBest(0)


def test_expectations_and_entropy():
    probs, values = np.array([0.2, 0.0, 0.5, 0.3]), np.array([1.0, 9.0, -2.0, 4.0])
    logs = np.log(probs, where=probs > 0, out=np.full(4, -np.inf))
    semiring = Expectation()
    total = semiring.total(semiring.lift(logs, values), (0,))
    np.testing.assert_allclose(total, [0.0, 0.2 - 1.0 + 1.2], atol=1e-15)
    entropy = -sum(p * math.log(p) for p in probs if p)
    scaled = semiring.total(semiring.lift(logs + 3.0), (0,))
    assert semiring.entropy(scaled) == pytest.approx(entropy, abs=1e-14)


def test_names_of_semirings():
    assert namespace(np.zeros(1)) is np
    assert namespace(np.zeros(1), jnp.zeros(1)) is jnp
    with pytest.raises(ValueError, match=r"`semiring` must be one of sum_product, max_sum, .*; got 'sum'"):
        as_semiring("sum")
