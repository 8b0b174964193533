"""Exact kernels on finite spaces: worked numbers, and every rule against another way of finding it."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tractable.distributions.tables import JointTable
from tractable.inference.chains.finite_chains import (
    check_kernel,
    detailed_balance_error,
    gibbs_kernel,
    gibbs_matrix,
    is_aperiodic,
    is_irreducible,
    metropolis_matrix,
    mixing_time,
    period,
    return_times,
    stationary,
    stationary_error,
    total_variation_path,
)

TARGET = np.array([5.0, 3.0, 8.0, 1.0]) / 17
UNIFORM = np.full((4, 4), 0.25)
CYCLE = np.roll(np.eye(3), 1, 0)  # 0 to 1 to 2 to 0


def random_chain(seed, n=5, zeros=0.0):
    rng = np.random.default_rng(seed)
    weights = rng.random((n, n)) * (rng.random((n, n)) >= zeros) + 1e-3 * np.roll(np.eye(n), 1, 0)
    return weights / weights.sum(0)


def test_metropolis_matrix_of_four_states():
    """Target (5, 3, 8, 1)/17 with uniform proposals; what is rejected stays on the diagonal."""
    expected = [
        [0.55, 0.25, 0.15625, 0.25],
        [0.15, 0.41666667, 0.09375, 0.25],
        [0.25, 0.25, 0.71875, 0.25],
        [0.05, 0.08333333, 0.03125, 0.25],
    ]
    matrix = metropolis_matrix([5.0, 3.0, 8.0, 1.0], UNIFORM)
    np.testing.assert_allclose(matrix, expected, atol=1e-8)
    report = check_kernel(matrix, TARGET)
    assert report.verdict.ok
    assert float(report.stationary_error) < 1e-15
    assert float(report.detailed_balance_error) < 1e-15
    np.testing.assert_allclose(return_times(matrix), 17 / np.array([5.0, 3.0, 8.0, 1.0]))
    assert float(report.longest_return) == pytest.approx(17)
    assert "Valid: the chain converges" in repr(report)


@pytest.mark.parametrize("seed", range(3))
def test_metropolis_flow_is_the_smaller_of_two(seed):
    """T(x'; x) p(x) = min{Q(x'; x) p(x), Q(x; x') p(x')}, cell by cell; the proposals are not symmetric."""
    q = random_chain(seed, zeros=0.4)
    p = np.random.default_rng(seed + 10).dirichlet(np.ones(5))
    matrix = np.asarray(metropolis_matrix(p, q))
    for i, j in itertools.permutations(range(5), 2):
        assert matrix[i, j] * p[j] == pytest.approx(min(q[i, j] * p[j], q[j, i] * p[i]), abs=1e-15)
    np.testing.assert_allclose(matrix.sum(0), 1, atol=1e-14)
    assert (np.diag(matrix) >= 0).all()


def test_metropolis_with_the_target_as_proposal_accepts_everything():
    q = np.repeat(TARGET[:, None], 4, 1)
    np.testing.assert_allclose(metropolis_matrix(TARGET, q), q, atol=1e-15)
    assert float(mixing_time(metropolis_matrix(TARGET, q), 1e-12)) == 1


def test_impossible_states_are_left_and_never_entered():
    matrix = np.asarray(metropolis_matrix([0.0, 1.0, 0.0], np.full((3, 3), 1 / 3)))
    np.testing.assert_allclose(matrix[:, 1], [0, 1, 0])
    np.testing.assert_allclose(matrix[1], [1 / 3, 1, 1 / 3])  # 0/0 is never accepted: 0 and 2 do not swap
    np.testing.assert_allclose(np.diag(matrix), [2 / 3, 1, 2 / 3])
    np.testing.assert_array_equal(stationary(matrix), [0, 1, 0])
    assert check_kernel(matrix, [0.0, 1.0, 0.0]).verdict.ok
    assert not is_irreducible(matrix)


@given(st.integers(0, 10_000), st.sampled_from([1, 5]))
def test_stationary_is_the_eigenvector(seed, n):
    matrix = random_chain(seed, n, zeros=0.5)
    p = np.asarray(stationary(matrix))
    np.testing.assert_allclose(matrix @ p, p, atol=1e-14)
    assert p.sum() == pytest.approx(1)
    assert (p > 0).all()


def test_stationary_keeps_the_digits_of_small_probabilities():
    """A birth-death chain down 30 steps of odds 1/10: probabilities to 1e-30, all to relative precision."""
    n = 31
    matrix = np.zeros((n, n))
    for k in range(n - 1):
        matrix[k + 1, k], matrix[k, k + 1] = 0.05, 0.5
    matrix += np.diag(1 - matrix.sum(0))
    exact = 0.1 ** np.arange(n)
    np.testing.assert_allclose(stationary(matrix), exact / exact.sum(), rtol=1e-12)


def test_a_periodic_chain_has_one_stationary_distribution_and_never_settles():
    swap = np.array([[0.0, 1.0], [1.0, 0.0]])
    np.testing.assert_allclose(stationary(swap), [0.5, 0.5])
    assert is_irreducible(swap)
    assert period(swap) == 2
    assert not is_aperiodic(swap)
    np.testing.assert_allclose(total_variation_path(swap, 5, [1.0, 0.0]), 0.5)
    assert float(mixing_time(swap)) == np.inf
    report = check_kernel(swap, [0.5, 0.5])
    assert not report.verdict.ok
    assert float(report.stationary_error) == 0
    assert "periodic (2)" in repr(report)


def test_periods_of_cycles_and_of_classes():
    assert period(CYCLE) == 3
    lazy = 0.9 * CYCLE + 0.1 * np.eye(3)
    assert period(lazy) == 1
    assert is_aperiodic(lazy)
    both = np.zeros((5, 5))
    both[:3, :3], both[3:, 3:] = CYCLE, [[0, 1], [1, 0]]
    assert period(both) == 6
    assert not is_irreducible(both)
    transient = np.array([[0.0, 0.0, 0.0], [0.5, 0.0, 1.0], [0.5, 1.0, 0.0]])
    assert period(transient) == 2  # the first state is left for good
    longer = np.zeros((4, 4))  # returns to 0 take 2 or 4 steps
    longer[1, 0] = longer[0, 3] = longer[3, 2] = 1
    longer[0, 1] = longer[2, 1] = 0.5
    assert period(longer) == 2


@pytest.mark.parametrize("seed", range(4))
def test_return_times_by_first_steps(seed):
    """Kac: 1/p(x), against the linear equations of the hitting times h(y) = 1 + sum_z T(z; y) h(z)."""
    matrix = random_chain(seed, 4)
    expected = []
    for x in range(4):
        others = [y for y in range(4) if y != x]
        hitting = np.linalg.solve(np.eye(3) - matrix[np.ix_(others, others)].T, np.ones(3))
        expected.append(1 + matrix[others, x] @ hitting)
    np.testing.assert_allclose(return_times(matrix), expected, rtol=1e-10)


def test_total_variation_falls_and_the_mixing_time_is_its_first_crossing():
    matrix = np.asarray(metropolis_matrix(TARGET, UNIFORM))
    path = np.asarray(total_variation_path(matrix, 30))
    powers = [np.linalg.matrix_power(matrix, t) for t in range(31)]
    expected = [0.5 * np.abs(power - TARGET[:, None]).sum(0).max() for power in powers]
    np.testing.assert_allclose(path, expected, atol=1e-14)
    assert (np.diff(path) <= 1e-15).all()
    for tol in (0.25, 0.01, 1e-6):
        assert float(mixing_time(matrix, tol)) == np.argmax(path <= tol)
    one = total_variation_path(matrix, 3, [0.0, 0.0, 1.0, 0.0], TARGET)
    np.testing.assert_allclose(one[1], 0.5 * np.abs(matrix[:, 2] - TARGET).sum())
    # eigenvalue 1 - 2e-6: distance (1 - 2e-6)^t / 2 from two equal states
    slow = np.array([[1 - 1e-6, 1e-6], [1e-6, 1 - 1e-6]])
    assert float(mixing_time(slow, 0.25)) == pytest.approx(np.log(0.5) / np.log1p(-2e-6), rel=1e-5)
    assert float(mixing_time([[1.0]], 0.25)) == 0


def test_exploration_against_exploitation_between_two_modes():
    """On a line with two modes, neighbours as proposals are accepted often and cross hardly ever; proposals
    from everywhere are rejected often and mix fast: acceptance does not say how fast a chain mixes."""
    x = np.arange(41) - 20
    p = np.exp(-0.5 * ((np.abs(x) - 12) / 2.0) ** 2)
    p /= p.sum()
    near = 0.5 * (np.eye(41, k=1) + np.eye(41, k=-1))
    near[0, 0] = near[-1, -1] = 0.5
    far = np.full((41, 41), 1 / 41)
    times, acceptances = [], []
    for q in (near, far):
        matrix = np.asarray(metropolis_matrix(p, q))
        times.append(float(mixing_time(matrix)))
        acceptances.append(float(((matrix - np.diag(np.diag(matrix))) @ p).sum()))
    assert acceptances[0] > 0.75 > 0.4 > acceptances[1]
    assert times[0] > 1e8 > 50 > times[1]


# Gibbs

JOINT = np.random.default_rng(3).random((2, 3, 2))


def conditional_by_loops(joint, block):
    """T(new; old) from the definition, cell by cell."""
    cells = list(itertools.product(*map(range, joint.shape)))
    matrix = np.zeros((joint.size, joint.size))
    for (i, new), (j, old) in itertools.product(enumerate(cells), repeat=2):
        if all(new[a] == old[a] for a in range(joint.ndim) if a not in block):
            rivals = [c for c in cells if all(c[a] == old[a] for a in range(joint.ndim) if a not in block)]
            matrix[i, j] = joint[new] / sum(joint[c] for c in rivals)
    return matrix


@pytest.mark.parametrize("block", [(0,), (1,), (2,), (0, 2), (0, 1, 2)])
def test_gibbs_kernel_is_the_conditional(block):
    kernel = gibbs_kernel(JOINT, block)
    np.testing.assert_allclose(kernel, conditional_by_loops(JOINT, block), atol=1e-14)
    p = JOINT.ravel() / JOINT.sum()
    assert float(detailed_balance_error(kernel, p)) < 1e-16  # each kernel alone is reversible
    np.testing.assert_allclose(kernel @ kernel, kernel, atol=1e-14)  # and a projection


def test_gibbs_is_metropolis_with_the_conditional_as_proposal():
    """Its acceptance is one, so that the Metropolis matrix of the proposal is the proposal."""
    for axis in range(3):
        kernel = np.asarray(gibbs_kernel(JOINT, axis))
        np.testing.assert_allclose(metropolis_matrix(JOINT.ravel(), kernel), kernel, atol=1e-14)


def test_scans_leave_the_joint_stationary_and_only_some_are_reversible():
    p = JOINT.ravel() / JOINT.sum()
    kernels = [conditional_by_loops(JOINT, (axis,)) for axis in range(3)]
    systematic, random = gibbs_matrix(JOINT), gibbs_matrix(JOINT, scan="random")
    np.testing.assert_allclose(systematic, kernels[2] @ kernels[1] @ kernels[0], atol=1e-14)
    np.testing.assert_allclose(random, sum(kernels) / 3, atol=1e-14)
    there_and_back = gibbs_matrix(JOINT, [0, 1, 2, 1, 0])
    for matrix in (systematic, random, there_and_back):
        assert float(stationary_error(matrix, p)) < 1e-15
    assert float(detailed_balance_error(systematic, p)) > 1e-3
    assert float(detailed_balance_error(random, p)) < 1e-15
    assert float(detailed_balance_error(there_and_back, p)) < 1e-15


def test_blocks_mix_faster_and_one_block_is_exact():
    ridge = np.array([[0.499, 0.001], [0.001, 0.499]])
    assert float(mixing_time(gibbs_matrix(ridge))) > 50
    whole = gibbs_matrix(ridge, [(0, 1)])
    np.testing.assert_allclose(whole, np.repeat(ridge.reshape(4, 1), 4, 1), atol=1e-15)
    assert float(mixing_time(whole)) == 1


def test_gibbs_on_islands_depends_on_the_start():
    """Two islands that share no coordinate: two closed sets, found by the report; the empty cells stay."""
    islands = JointTable(["x", "y"], [[0.5, 0.0], [0.0, 0.5]])
    report = check_kernel(gibbs_matrix(islands), [0.5, 0.0, 0.0, 0.5])
    assert not report.verdict.ok
    assert report.num_closed == 2
    assert "2 sets of states are never left" in report.verdict.sentence
    with pytest.raises(ValueError, match=r"one closed class; got 2, of sizes \[1, 1\]"):
        stationary(gibbs_matrix(islands))


def test_it_runs_compiled_and_batched():
    targets = jnp.asarray([[5.0, 3.0, 8.0, 1.0], [1.0, 1.0, 1.0, 1.0]])
    many = jax.jit(jax.vmap(lambda p: stationary(metropolis_matrix(p, UNIFORM))))(targets)
    np.testing.assert_allclose(
        many, np.asarray(targets) / np.asarray(targets).sum(1, keepdims=True), rtol=1e-12
    )


def test_a_wrong_target_is_said():
    report = check_kernel(metropolis_matrix(TARGET, UNIFORM), [0.25] * 4)
    assert "not stationary" in report.verdict.sentence
    assert not report.verdict.ok


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match=r"`matrix` must be a matrix whose columns sum to one.*transpose"):
        stationary(random_chain(0).T)
    with pytest.raises(ValueError, match=r"`matrix` must be a square matrix; got shape \(2, 3\)"):
        period(np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"`target` must be zero or positive; got -1.0 at index 1"):
        metropolis_matrix([1.0, -1.0], np.full((2, 2), 0.5))
    with pytest.raises(ValueError, match=r"`target` must be finite; got nan at index 0"):
        metropolis_matrix([np.nan, 1.0], np.full((2, 2), 0.5))
    with pytest.raises(ValueError, match=r"`proposal` must be of shape \(2, 2\)"):
        metropolis_matrix([0.5, 0.5], UNIFORM)
    with pytest.raises(ValueError, match=r"`joint` must be positive somewhere; got zeros"):
        gibbs_matrix(np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"`block` must be different axes from 0 to 2; got \(0, 3\)"):
        gibbs_kernel(JOINT, (0, 3))
    with pytest.raises(ValueError, match=r"`scan` must be one of 'systematic', 'random'"):
        gibbs_matrix(JOINT, scan="zigzag")
    with pytest.raises(ValueError, match=r"`target` must be of shape \(4,\)"):
        detailed_balance_error(UNIFORM, [0.5, 0.5])
    with pytest.raises(ValueError, match=r"`tol` must be between 0 and 1"):
        mixing_time(UNIFORM, 0.0)
