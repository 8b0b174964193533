"""Perceptrons against their own rule in plain Python, brute force over lines, and the mistake bound."""

from itertools import product

import jax.random as jr
import numpy as np
import pytest

from tractable.core.iterate import Status
from tractable.kernels.nonstationary import Linear, Polynomial
from tractable.supervised.perceptrons.perceptron import (
    KernelPerceptron,
    Perceptron,
    linear_sign,
    minimise_zero_one,
    mistake_trace,
    perceptron_loss,
    subgradient_path,
)
from tractable.supervised.perceptrons.separability import (
    augmented,
    best_direction,
    margin,
    mistake_bound,
    radius,
    separability,
)
from tractable.supervised.svm.machine import SupportVectorMachine

XOR = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
EVEN = np.array([1.0, 1.0, -1.0, -1.0])


def separable(n=40, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, 2))
    X = X[np.abs(X @ [0.8, 0.6] + 0.2) > 0.15]
    return X, np.where(X @ [0.8, 0.6] + 0.2 > 0, 1.0, -1.0)


def by_the_rule(rows, signs, epochs):
    """The rule, word for word; the weights after each row."""
    w, path, mistakes = np.zeros(rows.shape[1]), [], []
    for _ in range(epochs):
        mistakes.append(0)
        for x, y in zip(rows, signs):
            if np.sign(w @ x) != y:
                w = w + y * x
                mistakes[-1] += 1
            path.append(w)
        if mistakes[-1] == 0:
            break
    return np.array(path), mistakes


def test_training_is_the_rule():
    X, y = separable()
    path, mistakes = by_the_rule(augmented(X), y, 1000)
    fitted = Perceptron.fit(X, y)
    np.testing.assert_allclose(np.r_[fitted.weights, fitted.bias], path[-1], atol=1e-12)
    np.testing.assert_allclose(fitted.average, path.mean(0), atol=1e-12)
    assert fitted.mistakes.tolist() == mistakes
    assert fitted.num_updates == sum(mistakes)
    assert fitted.status is Status.converged
    np.testing.assert_array_equal(fitted.predict(X), y)


def test_orders_weights_starts_and_limits():
    X, y = separable()
    plain, shuffled = Perceptron.fit(X, y), Perceptron.fit(X, y, key=jr.key(3))
    assert not np.allclose(plain.weights, shuffled.weights)  # another plane, which separates too
    np.testing.assert_array_equal(shuffled.predict(X), y)
    np.testing.assert_array_equal(Perceptron.fit(X, y, key=jr.key(3)).weights, shuffled.weights)
    stopped = Perceptron.fit(XOR, EVEN, max_epochs=20)
    assert stopped.status is Status.exhausted
    assert "still errs" in repr(stopped)
    doubled = Perceptron.fit(X, y, weights=np.full(len(y), 2.0))
    np.testing.assert_allclose(doubled.weights, 2 * plain.weights)
    absent = Perceptron.fit(np.vstack([X, [[9.0, 9.0]]]), np.r_[y, -1.0], weights=np.r_[np.ones(len(y)), 0.0])
    np.testing.assert_array_equal(absent.weights, plain.weights)
    good = np.r_[plain.weights, plain.bias]
    assert Perceptron.fit(X, y, start=good).num_updates == 0


def test_the_sign_of_zero_is_zero_and_a_mistake():
    assert linear_sign([1.0, -1.0], [[1.0, 1.0], [2.0, 1.0], [0.0, 1.0]]).tolist() == [0, 1, -1]
    assert Perceptron.fit([[1.0, 1.0]], [1], bias=False).num_updates == 1  # from w = 0
    np.testing.assert_array_equal(augmented([[1.0, 2.0]]), [[1.0, 2.0, 1.0]])


def test_stochastic_subgradients_with_step_one_are_the_perceptron():
    X, y = separable()
    rows = augmented(X)
    path, mistakes = by_the_rule(rows, y, 1000)
    steps = subgradient_path(rows, y, num_steps=len(rows) * len(mistakes), batch=False)
    np.testing.assert_allclose(steps, path, atol=1e-12)


def test_batch_subgradients_lower_the_loss():
    X, y = separable()
    rows = augmented(X)
    path = subgradient_path(rows, y, step=0.1, num_steps=400)
    assert np.abs(path[0]).max() > 0  # it leaves w = 0
    losses = [float(perceptron_loss(w, rows, y)) for w in path[::20]]
    assert losses[-1] < 0.01 * losses[0] + 1e-12
    w, v = path[3], path[50]  # convex: below its chords
    middle = float(perceptron_loss((w + v) / 2, rows, y))
    assert middle <= (float(perceptron_loss(w, rows, y)) + float(perceptron_loss(v, rows, y))) / 2 + 1e-12


@pytest.mark.parametrize("seed", range(4))
def test_lines_by_brute_force_are_the_best_of_all_splits(seed):
    generator = np.random.default_rng(seed)
    X, y = generator.normal(size=(6, 2)), generator.choice([-1.0, 1.0], 6)
    errors, normal, bias = minimise_zero_one(X, y)
    assert errors == (linear_sign(normal, X, bias) != y).sum()
    best = min(
        sum(a != b for a, b in zip(labels, y))
        for labels in product([-1.0, 1.0], repeat=6)
        if len(set(labels)) == 1 or separability(X, labels).separable
    )  # every labelling that some line gives
    assert errors == best


def test_surrogates_are_not_better_than_brute_force():
    assert minimise_zero_one(XOR, EVEN)[0] == 1
    generator = np.random.default_rng(1)
    X = generator.normal(size=(15, 2))
    y = np.where(X[:, 0] + 0.8 * generator.normal(size=15) > 0, 1.0, -1.0)
    least = minimise_zero_one(X, y)[0]
    assert least <= (SupportVectorMachine.fit(X, y).predict(X) != y).sum()
    assert least <= (Perceptron.fit(X, y, max_epochs=50).predict(X) != y).sum()
    with pytest.raises(ValueError, match=r"`X` must be rows of two columns; got 3 columns"):
        minimise_zero_one(np.zeros((2, 3)), [1, -1])


def test_separability_comes_with_a_plane_or_a_proof():
    X, y = separable()
    found = separability(X, y)
    assert found.separable
    assert (y * (X @ found.normal + found.bias)).min() > 0
    none = separability(XOR, EVEN)
    assert not none.separable
    np.testing.assert_allclose((none.proof * EVEN) @ augmented(XOR), 0.0, atol=1e-9)  # the mixed means agree
    assert none.proof.sum() == pytest.approx(1.0)
    assert none.proof.min() >= 0
    for unit in (1e-12, 1e12):  # units do not matter
        assert separability(X * [unit, 1.0], y).separable
        assert not separability(XOR * unit, EVEN).separable
    through = separability([[1.0, 1.0], [2.0, 2.0]], [1, -1], bias=False)
    assert not through.separable
    assert separability([[1.0, 1.0], [2.0, 2.0]], [1, -1]).separable


def test_the_best_direction_has_the_widest_margin():
    X, y = separable()
    rows = augmented(X)
    u = best_direction(rows, y)
    assert np.linalg.norm(u) == pytest.approx(1.0)
    angles = np.random.default_rng(0).normal(size=(1000, 3))
    assert margin(rows, y, u) >= max(margin(rows, y, v) for v in angles) - 1e-9
    hard = SupportVectorMachine.fit(rows, y, C=np.inf, bias=False)
    assert margin(rows, y, u) == pytest.approx(1 / hard.norm, rel=1e-6)
    assert radius([[3.0, 4.0], [1.0, 0.0]]) == 5.0


@pytest.mark.parametrize("seed", range(4))
def test_no_more_mistakes_than_the_bound(seed):
    X, y = separable(seed=seed)
    rows = augmented(X)
    u = best_direction(rows, y)
    trace = mistake_trace(rows, y, u)
    mistakes = Perceptron.fit(X, y).num_updates
    assert len(trace) == mistakes
    assert mistakes <= mistake_bound(rows, y)
    k, low, along, squared, high = trace.T
    np.testing.assert_array_equal(k, np.arange(1, mistakes + 1))
    assert (low <= along + 1e-9).all()
    assert (along**2 <= squared + 1e-9).all()
    assert (squared <= high + 1e-9).all()


def test_the_kernel_perceptron_with_a_linear_kernel_is_the_perceptron():
    X, y = separable()
    rows = augmented(X)
    plain, kernel = Perceptron.fit(rows, y, bias=False), KernelPerceptron.fit(rows, y, Linear())
    np.testing.assert_allclose(kernel.coefficients @ rows, plain.weights, atol=1e-10)
    assert kernel.mistakes.tolist() == plain.mistakes.tolist()
    assert kernel.counts.sum() == plain.num_updates
    np.testing.assert_allclose(kernel.decision(rows), plain.decision(rows), atol=1e-10)
    solved = KernelPerceptron.fit(XOR, EVEN, Polynomial(2, 1.0))
    np.testing.assert_array_equal(solved.predict(XOR), EVEN)
    assert solved.status is Status.converged


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"`y` must be as long as `X`"):
        Perceptron.fit(XOR, [1, -1])
    with pytest.raises(ValueError, match=r"`direction` must be one that separates the classes"):
        mistake_bound(augmented(separable()[0]), separable()[1], [0.0, 0.0, 1.0])
    with pytest.raises(ValueError, match=r"`y` must be separable by a plane through the origin"):
        best_direction(XOR, EVEN)
