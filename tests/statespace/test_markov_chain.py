"""Markov chains: worked numbers, and every question against dense algebra or another way of asking it."""

import itertools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import tractable as tr
from tractable.inference.expectation_maximisation.em import EM
from tractable.statespace.markov_chain.chain import MarkovChain
from tractable.statespace.markov_chain.grids import kernel_on_grid
from tractable.statespace.markov_chain.orders import given_neighbours
from tractable.statespace.markov_chain.stochastic import (
    doubly_stochastic,
    is_column_stochastic,
    is_doubly_stochastic,
    is_row_stochastic,
    perron_frobenius,
    random_stochastic,
)

# 1 -> {2, 3}, 2 -> {1, 3, 4}, 3 -> {1, 3}, 4 -> {2, 3}
PAGES = np.array([[0, 1 / 2, 1 / 2, 0], [1 / 3, 0, 1 / 3, 1 / 3], [1 / 2, 0, 1 / 2, 0], [0, 1 / 2, 1 / 2, 0]])
WEATHER = np.array([[0.7, 0.3], [0.6, 0.4]])
FLIP = np.array([[0.0, 1.0], [1.0, 0.0]])


def eight_states():
    """Transient c, g, h; closed {a, b} and {d, e, f}."""
    steps = {"a": "ab", "b": "a", "c": "abd", "d": "e", "e": "f", "f": "dde", "g": "chg", "h": "gf"}
    names = "abcdefgh"
    matrix = np.zeros((8, 8))
    for source, ends in steps.items():
        for end in ends:
            matrix[names.index(source), names.index(end)] += 1 / len(ends)
    return MarkovChain(matrix, names=names)


@st.composite
def matrices(draw):
    """Random chains with zeros: transient states, several classes and periods all occur."""
    seed, size = draw(st.integers(0, 10**6)), draw(st.integers(1, 7))
    rng = np.random.default_rng(seed)
    weights = rng.random((size, size)) * (rng.random((size, size)) < draw(st.floats(0.15, 1.0)))
    weights[weights.sum(1) == 0, rng.integers(size)] = 1.0
    return weights / weights.sum(1, keepdims=True)


def test_weather_has_closed_forms():
    chain = MarkovChain(WEATHER, names=["rainy", "sunny"])
    np.testing.assert_allclose(chain.stationary(), [2 / 3, 1 / 3], rtol=1e-15)
    p, q = 0.3, 0.6
    for n in (0, 1, 2, 5, 30):
        closed = (np.array([[q, p], [q, p]]) + (1 - p - q) ** n * np.array([[p, -p], [-q, q]])) / (p + q)
        np.testing.assert_allclose(chain.n_step(n), closed, atol=1e-15)
        assert chain.probability("rainy", "sunny", n) == pytest.approx(closed[0, 1], abs=1e-15)
    curve = chain.total_variation(6)
    np.testing.assert_allclose(curve[1:] / curve[:-1], abs(1 - p - q), rtol=1e-9)  # the rate of convergence
    assert chain.spectrum().second == pytest.approx(abs(1 - p - q))
    assert chain.spectrum().reversible


@pytest.mark.cheap
@pytest.mark.parametrize("method", ["elimination", "eigenvector", "power"])
def test_stationary_of_four_pages(method):
    np.testing.assert_allclose(MarkovChain(PAGES).stationary(method) * 17, [5, 3, 8, 1], rtol=1e-12)
    np.testing.assert_allclose(
        MarkovChain(csr_array(PAGES)).stationary(method) * 17, [5, 3, 8, 1], rtol=1e-12
    )


def test_time_spent_by_a_simulation_is_the_equilibrium():
    found = MarkovChain(PAGES).stationary("simulation", key=0, num_steps=20_000)
    np.testing.assert_allclose(found, np.array([5, 3, 8, 1]) / 17, atol=5 * 0.5 / np.sqrt(20_000))


def test_four_pages_are_stationary_but_not_reversible():
    chain = MarkovChain(PAGES)
    flow = 17 * chain.stationary()[:, None] * PAGES
    assert flow[0, 1] == pytest.approx(2.5)
    assert flow[1, 0] == pytest.approx(1.0)
    assert not chain.is_reversible()
    backwards = chain.reversal()
    np.testing.assert_allclose(17 * chain.stationary()[:, None] * backwards.transition, flow.T, atol=1e-14)
    np.testing.assert_allclose(backwards.reversal().transition, PAGES, atol=1e-14)
    assert backwards.is_stationary()
    report = chain.equilibria()
    np.testing.assert_allclose(report.return_times, [17 / 5, 17 / 3, 17 / 8, 17])
    assert report.verdict.ok
    assert report.residuals.max() < 1e-15
    eigenvalues = np.sort(chain.spectrum().eigenvalues.real)
    np.testing.assert_allclose(eigenvalues, [-0.63188131, 0, 0.13188131, 1], atol=1e-8)
    assert (chain.n_step(4) > 0).all()  # primitive
    np.testing.assert_allclose(chain.limit().matrix, np.tile(chain.stationary(), (4, 1)))


def test_power_iteration_takes_the_steps_of_the_notes():
    """From ones to (20, 12, 32, 4)/17; from uniform the error is below 1e-8 after 37 steps, not before."""
    chain = MarkovChain(PAGES, np.full(4, 0.25))
    errors = 2 * chain.total_variation(40, np.full(4, 0.25))
    assert int(np.argmax(errors < 1e-8)) == 37
    np.testing.assert_allclose(4 * chain.after(200), np.array([20, 12, 32, 4]) / 17, rtol=1e-12)


def test_eight_states():
    chain = eight_states()
    found = chain.classify()
    assert set(found.transient_states) == set("cgh")
    assert [set(states) for states in found.recurrent_classes] == [set("ab"), set("def")]
    assert not found.is_irreducible
    assert not found.is_ergodic
    assert not found.verdict.ok
    with pytest.raises(ValueError, match="`equilibria\\(\\)` gives them all"):
        chain.stationary()
    both = chain.equilibria()
    assert both.distributions.shape == (2, 8)
    assert "Not unique" in repr(both)
    ends = chain.absorption()
    inner = [2, 6, 7]
    q = chain.transition[np.ix_(inner, inner)]
    fundamental = np.linalg.inv(np.eye(3) - q)
    np.testing.assert_allclose(ends.times, fundamental.sum(1), rtol=1e-13)
    into = np.stack(
        [chain.transition[inner][:, [0, 1]].sum(1), chain.transition[inner][:, [3, 4, 5]].sum(1)], 1
    )
    np.testing.assert_allclose(ends.probabilities, fundamental @ into, rtol=1e-13)
    np.testing.assert_allclose(
        chain.limit().matrix, np.linalg.matrix_power(chain.transition, 4000), atol=1e-12
    )


def test_identity_flip_and_lazy():
    """The identity has many equilibria, the flip one but no limit, its lazy version converges."""
    for matrix in ([[0.5, 0.5], [0.5, 0.5]], [[0.9, 0.1], [0.1, 0.9]], FLIP):
        np.testing.assert_allclose(MarkovChain(matrix).stationary(), 0.5)
        assert MarkovChain(matrix).is_reversible()
    assert len(MarkovChain(np.eye(2)).equilibria().distributions) == 2
    flip = MarkovChain(FLIP)
    assert flip.classify().periods.tolist() == [2]
    assert flip.mixing_time() == np.inf
    assert not flip.limit().converges
    np.testing.assert_allclose(flip.limit().matrix, 0.5)  # of averages
    assert flip.total_variation(5).tolist() == [0.5] * 6
    assert flip.spectrum().gap == 0
    lazy = flip.lazy(0.25)
    assert lazy.classify().is_ergodic
    assert lazy.limit().verdict.ok
    assert lazy.mixing_time() < 5
    np.testing.assert_allclose(lazy.stationary(), 0.5)


def test_perron_and_frobenius():
    for matrix, multiplicity, second, primitive in [
        (np.eye(3), 3, 0.0, False),
        (FLIP, 1, 1.0, False),
        (PAGES, 1, 0.63188131, True),
        ([[0.5, 0.5], [0.0, 1.0]], 1, 0.5, False),
    ]:
        found = perron_frobenius(matrix)
        assert found.multiplicity == multiplicity
        assert found.second == pytest.approx(second, abs=1e-8)
        assert found.primitive == primitive
    assert (perron_frobenius(PAGES).vector > 0).all()


@pytest.mark.cheap
@pytest.mark.parametrize("seed", range(4))
def test_products_keep_their_kind_and_balanced_matrices_are_uniform(seed):
    one, two = (random_stochastic(jr.key(2 * seed + i), 5) for i in range(2))
    assert is_row_stochastic(one @ two)
    assert is_column_stochastic(one.T @ two.T)
    twice = [doubly_stochastic(m) for m in (one, two)]
    assert is_doubly_stochastic(twice[0] @ twice[1], 1e-10)
    ratios = twice[0] / one
    np.testing.assert_allclose(ratios * ratios[0, 0], np.outer(ratios[:, 0], ratios[0]), rtol=1e-9)
    np.testing.assert_allclose(MarkovChain(twice[0] / twice[0].sum(1)[:, None]).stationary(), 0.2, atol=1e-11)


def test_zeros_that_cannot_be_balanced_are_named():
    np.testing.assert_allclose(doubly_stochastic([[2.0, 0.0], [0.0, 5.0]]), np.eye(2))
    with pytest.raises(ValueError, match=r"entry \(0, 1\)"):
        doubly_stochastic([[1.0, 1.0], [0.0, 1.0]])
    with pytest.raises(ValueError, match="positive diagonal"):
        doubly_stochastic([[1.0, 0.0], [1.0, 0.0]])


@settings(max_examples=60)
@given(matrices())
@pytest.mark.thorough
def test_classes_periods_and_limits_are_those_of_powers(matrix):
    """Reachability, periods and averages over time by brute force."""
    chain, size = MarkovChain(matrix), len(matrix)
    powers = [np.linalg.matrix_power(matrix, n) for n in range(1, 61)]
    reach = np.eye(size, dtype=bool) | np.any([power > 0 for power in powers[: size + 1]], 0)
    found = chain.classify()
    for i, j in itertools.product(range(size), repeat=2):
        assert (found.labels[i] == found.labels[j]) == (reach[i, j] and reach[j, i])
    for i in range(size):
        assert found.recurrent[i] == all(reach[j, i] for j in np.flatnonzero(reach[i]))
        returns = [n + 1 for n, power in enumerate(powers) if power[i, i] > 0]
        assert found.periods[found.labels[i]] == (np.gcd.reduce(returns) if returns else 0)
    mean = chain.limit()
    np.testing.assert_allclose(mean.matrix @ matrix, mean.matrix, atol=1e-12)
    np.testing.assert_allclose(matrix @ mean.matrix, mean.matrix, atol=1e-12)
    np.testing.assert_allclose(mean.matrix @ mean.matrix, mean.matrix, atol=1e-12)
    lazy = np.linalg.matrix_power(0.5 * (matrix + np.eye(size)), 2**12)
    if chain.spectrum().second <= 0.99:
        np.testing.assert_allclose(lazy, mean.matrix, atol=1e-9)


@settings(max_examples=60)
@given(matrices(), st.integers(0, 6))
@pytest.mark.thorough
def test_passages_are_those_of_first_step_equations(given_matrix, place):
    chain = MarkovChain(given_matrix)
    target = place % chain.num_states
    times, ever = chain.hitting_times(target), chain.hitting_probabilities(target)
    matrix = chain.transition.copy()
    matrix[target] = np.eye(chain.num_states)[target]
    caught = np.linalg.matrix_power(0.5 * (matrix + np.eye(len(matrix))), 2**40)[:, target]
    np.testing.assert_allclose(ever, caught, atol=1e-6)
    assert np.isinf(times).tolist() == (ever < 1 - 1e-9).tolist()
    finite = np.isfinite(times) & (np.arange(len(times)) != target)
    known = np.where(np.isfinite(times), times, 0.0)
    np.testing.assert_allclose(times[finite], 1 + (chain.transition @ known)[finite], rtol=1e-9)
    sparse = MarkovChain(csr_array(chain.transition))
    np.testing.assert_allclose(sparse.hitting_times(target), times, rtol=1e-12)


def test_rare_steps_keep_all_digits():
    """Ways out of probability 1e-200: what would be 1 - 1 by subtraction."""
    tiny = 1e-200
    chain = MarkovChain([[1 - tiny, tiny, 0], [3 * tiny, 1 - 3 * tiny, 0], [0.5, 0, 0.5]])
    np.testing.assert_allclose(chain.stationary()[:2], [0.75, 0.25], rtol=1e-15)
    np.testing.assert_allclose(chain.hitting_times(1), [1e200, 0, 1e200], rtol=1e-15)


def test_elimination_in_blocks_is_that_of_single_states():
    rng = np.random.default_rng(0)
    matrix = rng.random((200, 200)) ** 8
    matrix /= matrix.sum(1, keepdims=True)
    chain = MarkovChain(matrix)
    pi = chain.stationary()
    np.testing.assert_allclose(pi @ matrix, pi, rtol=1e-13)
    np.testing.assert_allclose(pi, chain.stationary("eigenvector"), rtol=1e-9)
    times = chain.hitting_times([3, 150])
    np.testing.assert_allclose(times[5], 1 + matrix[5] @ times, rtol=1e-12)


def test_many_sparse_states():
    """A walk on a ring of 20,000 states with a drift and loops: every answer stays sparse."""
    n = 20_000
    here = np.arange(n)
    rows = np.concatenate([here, here, here])
    columns = np.concatenate([(here + 1) % n, (here - 1) % n, here])
    matrix = csr_array((np.repeat([0.5, 0.2, 0.3], n), (rows, columns)), shape=(n, n))
    chain = MarkovChain(matrix)
    assert chain.classify().is_ergodic
    np.testing.assert_allclose(chain.stationary(), 1 / n, rtol=1e-9)
    assert not chain.is_reversible(1e-9)
    assert chain.hitting_times(0)[n - 10] == pytest.approx(10 / 0.3, rel=1e-9)
    assert chain.sample(jr.key(0), 50, 10, start=0).shape == (10, 51)


def test_paths_have_their_probabilities():
    """All paths of three steps sum to one; each is the product of its steps."""
    names = "abcd"
    chain = MarkovChain(PAGES, [0.1, 0.2, 0.3, 0.4], names)
    total = 0.0
    for path in itertools.product(range(4), repeat=4):
        word = "".join(names[i] for i in path)
        product = chain.initial[path[0]] * np.prod([PAGES[i, j] for i, j in itertools.pairwise(path)])
        with np.errstate(divide="ignore"):
            assert chain.log_prob(word) == pytest.approx(np.log(product))
        total += product
    assert total == pytest.approx(1)
    assert chain.log_prob("aad") == -np.inf
    assert chain.impossible_step("bbd") == 1
    assert chain.impossible_step("bcad") == 3
    assert chain.impossible_step("bcab") is None
    assert chain.log_likelihood(["bc", "ca"], [2.0, 0.0]) == pytest.approx(2 * chain.log_prob("bc"))
    assert chain.log_likelihood(["bc", "ad"], [2.0, 0.0]) == pytest.approx(2 * chain.log_prob("bc"))


def test_chains_pass_through_jit_and_grad():
    path = jnp.array([0, 1, 0, 0])
    chain = MarkovChain(WEATHER, [0.5, 0.5])
    compiled = jax.jit(lambda c, x: c.log_prob(x))(chain, path)
    assert float(compiled) == pytest.approx(chain.log_prob([0, 1, 0, 0]))
    slope = jax.grad(lambda p: MarkovChain(p).log_prob(path))(jnp.asarray(WEATHER))
    np.testing.assert_allclose(slope, [[1 / 0.7, 1 / 0.3], [1 / 0.6, 0]])
    power = jax.jit(lambda p: MarkovChain(p).n_step(3))(jnp.asarray(WEATHER))
    np.testing.assert_allclose(power, np.linalg.matrix_power(WEATHER, 3))


def test_draws_have_the_frequencies_of_the_rows():
    chain = MarkovChain(PAGES, [0.0, 0.5, 0.0, 0.5])
    paths = chain.sample(jr.key(1), 3, 20_000)
    assert paths.shape == (20_000, 4)
    for t, probs in enumerate([chain.after(t) for t in range(4)]):
        counts = np.bincount(paths[:, t], minlength=4)
        error = np.sqrt(20_000 * probs * (1 - probs))
        assert (np.abs(counts - 20_000 * probs) <= 4.5 * error).all()
    assert (PAGES[paths[:, :-1], paths[:, 1:]] > 0).all()  # nothing impossible
    again = MarkovChain(csr_array(PAGES), [0.0, 0.5, 0.0, 0.5]).sample(jr.key(1), 3, 20_000)
    np.testing.assert_array_equal(paths, again)


def test_counts_are_the_likeliest_and_weights_are_copies():
    words = ["abba", "abab", "b"]
    chain = MarkovChain.fit(words)
    assert chain.names == ("a", "b")
    np.testing.assert_allclose(chain.transition, [[0, 1], [2 / 3, 1 / 3]])
    np.testing.assert_allclose(chain.initial, [2 / 3, 1 / 3])
    best = chain.log_likelihood(words)
    for row in ([0.05, 0.95], [0.0, 1.0]):
        other = MarkovChain([row, [0.7, 0.3]], [0.6, 0.4], "ab")
        assert other.log_likelihood(words) < best
    twice = MarkovChain.fit([*words, "abba"], smoothing=0.5)
    weighted = MarkovChain.fit(words, smoothing=0.5, weights=[2, 1, 1])
    np.testing.assert_allclose(weighted.transition, twice.transition)
    np.testing.assert_allclose(weighted.initial, twice.initial)
    np.testing.assert_allclose(twice.transition[0], [0.5 / 5, 4.5 / 5])


def test_counts_add_so_em_chunks_and_memory_agree():
    rows = MarkovChain(WEATHER, [0.5, 0.5]).sample(jr.key(0), 9, 200)
    start = MarkovChain([[0.5, 0.5], [0.5, 0.5]], [0.5, 0.5])
    direct = MarkovChain.fit(rows)
    memory = tr.fit(start, rows, EM()).state
    streamed = tr.fit(start, rows, EM(), chunk=37).state
    for fitted in (memory, streamed):
        np.testing.assert_allclose(fitted.transition, direct.transition, rtol=1e-12)
        np.testing.assert_allclose(fitted.initial, direct.initial, rtol=1e-12)


def test_the_future_matters_where_it_is_known():
    chain = MarkovChain([[0.9, 0.1], [0.2, 0.8]])
    assert chain.probability(1, 1) == 0.8
    assert given_neighbours(chain, 1, 0)[1] == pytest.approx(0.470588, abs=5e-7)


def test_chapman_and_kolmogorov():
    chain = MarkovChain(PAGES, np.full(4, 0.25))
    np.testing.assert_allclose(chain.n_step(5), chain.n_step(2) @ chain.n_step(3), atol=1e-15)
    np.testing.assert_allclose(chain.after(5), chain.initial @ chain.n_step(5), atol=1e-15)
    assert chain.mixing_time(1e-3) == int(np.argmax(chain.total_variation(60) <= 1e-3))


def test_gaussian_steps_on_a_grid_have_their_equilibrium():
    """x' = 0.5 x + N(0, 1): N(0, 4/3), and the correlation of neighbours is 0.5."""

    def density(x, y):
        return np.exp(-0.5 * (y - 0.5 * x) ** 2) / np.sqrt(2 * np.pi)

    grid = kernel_on_grid(density, np.linspace(-9, 9, 181))
    expected = np.exp(-0.375 * grid.points**2) * np.sqrt(0.375 / np.pi)
    np.testing.assert_allclose(grid.stationary_density(), expected, atol=1e-8)
    assert grid.verdict.ok
    two = grid.chain.n_step(2)[90] / grid.widths  # from zero: N(0, 1.25)
    np.testing.assert_allclose(two, np.exp(-0.4 * grid.points**2) * np.sqrt(0.4 / np.pi), atol=1e-8)
    assert not kernel_on_grid(density, np.linspace(-1, 1, 21)).verdict.ok


@pytest.mark.cheap
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MarkovChain([[0.5, 0.4], [0.5, 0.5]]), "a row with sum 0.9 at index 0"),
        (lambda: MarkovChain([[1.5, -0.5], [0.5, 0.5]]), r"zero or positive, and finite; got -0.5 at index"),
        (lambda: MarkovChain([[0.5, 0.5]]), "a square matrix; got shape"),
        (lambda: MarkovChain(FLIP, [0.5, 0.6]), "sum to one; got a sum of 1.1"),
        (lambda: MarkovChain(FLIP, names="aa"), "different from each other"),
        (lambda: MarkovChain(FLIP).sample(jr.key(0), 3), "given where the chain has no `initial`"),
        (lambda: MarkovChain(FLIP).log_prob([0, 2]), "below 2, the number of states; got 2 at time 1"),
        (lambda: MarkovChain(FLIP, names="ab").log_prob("abc"), "one of the names of the states; got 'c'"),
        (lambda: MarkovChain.fit([[0, 1, np.nan]]), "whole numbers 0, 1, 2, ...; got nan at time 2"),
        (lambda: MarkovChain.fit([[0, 1]]), "1 at the end of a sequence only, or nowhere. Give `smoothing`"),
        (lambda: MarkovChain.fit([]), "at least one s"),
        (lambda: MarkovChain.fit(["ab"], weights=[-1.0]), "zero or positive"),
        (lambda: MarkovChain(FLIP).hitting_times(7), "the number of a state, of 2; got 7"),
        (lambda: MarkovChain(FLIP).lazy(1.0), "a probability below one"),
    ],
)  # fmt: skip
def test_faults_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_one_state_and_one_symbol():
    chain = MarkovChain([[1.0]], [1.0])
    assert chain.stationary().tolist() == [1.0]
    assert chain.mixing_time() == 0
    assert chain.lazy().transition.tolist() == [[1.0]]
    assert chain.log_prob([0]) == 0
    assert chain.classify().is_ergodic
    assert MarkovChain.fit([0, 0, 0]).transition.tolist() == [[1.0]]
