"""Labels up to permutation: loops over pairs and permutations, and chains that do or do not switch."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tractable.inference.trust.labels import (
    co_clustering,
    equivalent_solutions,
    label_symmetry,
    match_components,
    matched_distance,
    relabel,
)


def switching_labels(seed, switch, shape=(4, 2000), rows=6, count=3):
    """A fixed clustering of rows whose labels are permuted at random with probability `switch` per draw."""
    rng = np.random.default_rng(seed)
    truth = np.arange(rows) % count
    out = np.empty((*shape, rows), int)
    for chain in range(shape[0]):
        order = rng.permutation(count)
        for draw in range(shape[1]):
            if rng.random() < switch:
                order = rng.permutation(count)
            out[chain, draw] = order[truth]
    return out


def test_co_clustering_is_the_share_of_pairs():
    labels = np.random.default_rng(0).integers(0, 3, (2, 40, 5))
    flat = labels.reshape(-1, 5)
    expected = [[np.mean(flat[:, i] == flat[:, j]) for j in range(5)] for i in range(5)]
    np.testing.assert_allclose(co_clustering(labels), expected, rtol=1e-14)


def test_co_clustering_does_not_know_labels():
    labels = switching_labels(1, 0.5, (1, 300))
    truth = np.arange(6) % 3
    np.testing.assert_array_equal(co_clustering(labels), truth[:, None] == truth[None])


@given(st.integers(1, 5), st.integers(1, 3), st.integers(0, 1000))
def test_matching_is_the_best_of_all_permutations(count, dim, seed):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, count, dim))
    costs = {p: ((a - b[list(p)]) ** 2).sum() for p in itertools.permutations(range(count))}
    found = match_components(a, b)
    np.testing.assert_allclose(costs[tuple(found)], min(costs.values()), rtol=1e-12)
    np.testing.assert_allclose(matched_distance(a, b), math.sqrt(min(costs.values()) / count), rtol=1e-12)


def test_all_equivalent_solutions_are_at_distance_zero():
    rows = np.random.default_rng(2).normal(size=(4, 2))
    solutions = equivalent_solutions(rows)
    assert len({tuple(map(tuple, each)) for each in solutions}) == math.factorial(4)
    assert all(matched_distance(rows, each) == 0 for each in solutions)
    assert matched_distance(rows, rows + 1) > 0


def test_relabelling_undoes_switches():
    rng = np.random.default_rng(3)
    centre = np.array([-4.0, 0.0, 4.0])
    plain = {"loc": centre + 0.3 * rng.normal(size=(2, 200, 3)), "cov": rng.gamma(9, 0.1, (2, 200, 3, 2, 2))}
    orders = np.argsort(rng.random((2, 200, 3)), -1)
    mixed = {
        "loc": np.take_along_axis(plain["loc"], orders, 2),
        "cov": np.take_along_axis(plain["cov"], orders[..., None, None], 2),
    }
    places = np.argsort(orders, -1)  # where each old component went
    labels = np.take_along_axis(places, np.broadcast_to(np.arange(3), (2, 200, 3)), 2)
    found = relabel(mixed, {"loc": centre, "cov": np.full((3, 2, 2), 0.9)}, labels)
    np.testing.assert_array_equal(found.draws["loc"], plain["loc"])
    np.testing.assert_array_equal(found.draws["cov"], plain["cov"])
    np.testing.assert_array_equal(found.labels, np.broadcast_to(np.arange(3), (2, 200, 3)))
    # without a reference every draw agrees with one of them
    alone = relabel(mixed).draws["loc"]
    assert np.ptp(np.sign(np.round(alone / 4)), axis=(0, 1)).max() == 0


def test_long_runs_that_switch_have_equal_shares():
    found = label_symmetry(switching_labels(4, 0.3), 3)
    assert found.verdict.ok
    assert np.abs(found.z).max() < 5
    # shares of 1/3 with errors of some percent: the test can fail
    assert np.abs(found.shares - 1 / 3).max() < 0.05
    assert found.verdict.sentence.startswith("Labels switch freely")


def gibbs_labels(rows, num_draws, seed):
    """Labels of two Gaussians of variance one with means N(0, 4) and weights Dirichlet(1, 1), by Gibbs."""
    rng = np.random.default_rng(seed)
    z, out = rng.integers(0, 2, len(rows)), np.empty((num_draws, len(rows)), int)
    for draw in range(num_draws):
        counts = np.bincount(z, minlength=2)
        weight = rng.beta(1 + counts[1], 1 + counts[0])
        sums = np.bincount(z, rows, minlength=2)
        precision = 1 / 4 + counts
        means = sums / precision + rng.normal(size=2) / np.sqrt(precision)
        odds = np.log(weight / (1 - weight)) + 0.5 * ((rows - means[0]) ** 2 - (rows - means[1]) ** 2)
        z = (rng.random(len(rows)) < 1 / (1 + np.exp(-odds))).astype(int)
        out[draw] = z
    return out


def exact_co_clustering(rows):
    """By the probability of each of the labellings, with weights and means integrated out."""
    total, together = 0.0, np.zeros((len(rows), len(rows)))
    for z in itertools.product((0, 1), repeat=len(rows)):
        z = np.array(z)
        log_p = sum(math.lgamma(1 + (z == k).sum()) for k in (0, 1))
        for k in (0, 1):
            x = rows[z == k]
            if len(x):
                cov = np.eye(len(x)) + 4.0
                log_p += -0.5 * x @ np.linalg.solve(cov, x) - 0.5 * np.linalg.slogdet(2 * np.pi * cov)[1]
        total += math.exp(log_p)
        together += math.exp(log_p) * (z[:, None] == z[None])
    return together / total


def test_a_mixture_sampled_long_enough_is_symmetric():
    rows = np.array([-1.5, -1.0, 1.2, 1.4])
    labels = np.stack([gibbs_labels(rows, 4000, seed) for seed in range(4)])
    found = label_symmetry(labels, 2)
    assert found.verdict.ok
    np.testing.assert_allclose(found.shares, 0.5, atol=0.06)
    exact = exact_co_clustering(rows)
    # agreement of two labels is a Bernoulli variable: 16000 draws worth a tenth of that
    error = np.sqrt(exact * (1 - exact) / 1600)
    np.testing.assert_array_less(np.abs(co_clustering(labels) - exact), 5 * error + 1e-12)
    # far apart, no chain switches: shares of one half from two chains are an accident
    short = np.stack([gibbs_labels(6 * rows, 200, seed) for seed in range(2)])
    apart = label_symmetry(short, 2)
    np.testing.assert_array_equal(apart.shares, 0.5)
    assert not apart.verdict.ok
    assert apart.verdict.sentence.startswith("Labels hardly switch")


def test_z_scores_are_standard_under_symmetry():
    z = np.array([label_symmetry(switching_labels(s, 0.5, (2, 300), 1), 2 + 1).z[0, 0] for s in range(60)])
    np.testing.assert_allclose(z.std(), 1, rtol=5 / np.sqrt(2 * 59))
    assert abs(z.mean()) < 5 / np.sqrt(60)


def test_chains_that_hardly_switch_are_found_out():
    rng = np.random.default_rng(5)
    labels = np.where(rng.random((4, 1000, 2)) < 0.2, 1, 0)  # label 0 is preferred: no symmetry
    found = label_symmetry(labels, 2)
    assert not found.verdict.ok
    assert found.verdict.sentence.startswith("Labels do not switch freely")
    still = label_symmetry(np.zeros((4, 50, 2), int), 2)  # four chains, never a switch: worth four draws
    np.testing.assert_allclose(still.z[:, 0], 0.5 / np.sqrt(0.25 / 4))


def test_bad_input_is_refused():
    with pytest.raises(TypeError, match=r"`labels` must be an array of whole numbers; got dtype float64"):
        co_clustering([[0.0, 1.0]])
    with pytest.raises(ValueError, match=r"`labels` must be from 0 to 1; got 2 at index \(0, 1, 0\)"):
        label_symmetry([[[0], [2]]], 2)
    with pytest.raises(ValueError, match=r"`labels` must be of shape \(chains, draws, rows\)"):
        label_symmetry([[0, 1]], 2)
    with pytest.raises(ValueError, match=r"`components` must be of the shape of `reference` \(2, 1\)"):
        match_components([[0.0], [1.0]], [[0.0]])
    with pytest.raises(ValueError, match=r"`components` must be finite; got nan at index \(0, 0\)"):
        match_components([[0.0]], [[np.nan]])
    with pytest.raises(ValueError, match=r"at most 8 to list their orders; got 9. There would be 362880"):
        equivalent_solutions(np.zeros((9, 1)))
    with pytest.raises(ValueError, match=r"`draws` must be of one number of components"):
        relabel({"a": np.zeros((1, 2, 3)), "b": np.zeros((1, 2, 4))})
    with pytest.raises(ValueError, match=r"`labels` must be \(chains, draws, rows\)"):
        relabel({"a": np.zeros((1, 2, 3))}, labels=[[[0]]])
