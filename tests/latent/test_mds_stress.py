"""Least stress by majorisation: monotone, as good as scikit-learn, gradients zero, weights and order."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform
from sklearn.isotonic import IsotonicRegression
from sklearn.manifold import smacof
from sklearn.manifold import trustworthiness as sklearn_trustworthiness

from tractable.latent.manifold import smacof as module
from tractable.latent.manifold.classical import classical_mds
from tractable.latent.manifold.smacof import metric_mds
from tractable.latent.manifold.stress import continuity, kruskal_stress, stress, trustworthiness

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(40, 5))
GIVEN = squareform(pdist(ROWS))
pytestmark = pytest.mark.cheap


def gradient(places, given, weights):
    """Of the raw stress, from its definition."""
    apart = places[:, None] - places[None]
    found = np.linalg.norm(apart, axis=2) + np.eye(len(places))
    return 2 * ((weights * (found - given) / found)[:, :, None] * apart).sum(1)


@pytest.mark.parametrize("options", [{}, {"ordinal": True}, {"weights": True}, {"pairs": True}])
def test_stress_never_rises_and_ends_where_it_is_flat(options):
    weights, pairs = np.resize([1.0, 2.0, 0.5], 40), RNG.uniform(size=(40, 40))
    pairs = pairs + pairs.T
    pairs[:3, 20:] = pairs[20:, :3] = 0  # unknown distances
    asked = {"ordinal": options.get("ordinal", False)}
    asked |= {"weights": weights} if "weights" in options else {}
    asked |= {"pair_weights": pairs} if "pairs" in options else {}
    found = metric_mds(ROWS, 2, tol=1e-13, max_steps=5000, **asked)
    assert np.diff(found.trace).max() <= 1e-9 * found.trace[0]
    assert found.status.ok
    table = np.outer(weights, weights) if "weights" in options else np.ones((40, 40))
    table = pairs if "pairs" in options else table
    slope = gradient(found.points, squareform(found.disparities), table * (1 - np.eye(40)))
    assert np.abs(slope).max() < 1e-4 * table.mean() * GIVEN.sum(1).mean()
    assert found.stress == pytest.approx(found.trace[-1], rel=1e-9)
    if not options:
        assert found.stress == pytest.approx(stress(ROWS, found.points), rel=1e-9)
        assert found.kruskal == pytest.approx(kruskal_stress(ROWS, found.points), rel=1e-9)


def test_as_good_as_scikit_learn_from_the_same_start():
    start = classical_mds(ROWS, 2).points
    found = metric_mds(ROWS, 2, start=start, tol=1e-12, max_steps=3000)
    _, wanted = smacof(
        GIVEN, n_components=2, init=start, n_init=1, max_iter=3000, eps=1e-12, normalized_stress=False
    )
    assert found.stress == pytest.approx(wanted, rel=1e-6)
    assert found.stress < stress(ROWS, start)
    many = metric_mds(ROWS, 2, num_restarts=4, key=0)
    assert many.stress <= metric_mds(ROWS, 2).stress


def test_one_look_at_all_pairs_is_the_dense_sum(monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 7)
    places, pairs = RNG.normal(size=(40, 3)), RNG.uniform(size=(40, 40))
    pairs = pairs + pairs.T
    found = module._look(places, GIVEN, pairs)
    apart = squareform(pdist(places))
    ratio = -pairs * GIVEN / (apart + np.eye(40))
    np.fill_diagonal(ratio, 0)
    np.fill_diagonal(ratio, -ratio.sum(1))
    np.testing.assert_allclose(found.product, ratio @ places, atol=1e-11)
    assert found.cross == pytest.approx((pairs * GIVEN * apart).sum() / 2, rel=1e-12)
    assert found.squares == pytest.approx((pairs * apart**2).sum() / 2, rel=1e-12)


def test_euclidean_distances_have_no_stress():
    found = metric_mds(ROWS[:, :2], 2)
    assert found.kruskal < 1e-6
    np.testing.assert_allclose(pdist(found.points), pdist(ROWS[:, :2]), atol=1e-5)


def test_order_is_all_that_ordinal_scaling_sees():
    plain, cubed = (metric_mds(GIVEN**p, 2, metric="precomputed", ordinal=True, tol=1e-9) for p in (1, 1.5))
    flat = GIVEN[np.triu_indices(40, 1)]
    order = np.argsort(flat)
    assert np.all(np.diff(plain.disparities[order]) >= -1e-12)
    assert plain.kruskal < metric_mds(ROWS, 2).kruskal
    assert plain.kruskal == pytest.approx(cubed.kruskal, abs=5e-3)
    bent = metric_mds(np.exp(squareform(pdist(ROWS[:, :2]))) - 1, 2, metric="precomputed", ordinal=True,
                      tol=1e-10, max_steps=4000)  # fmt: skip
    assert bent.kruskal < 0.01  # an increasing function of planar distances: nothing is lost


def test_disparities_are_isotonic_regression_with_ties_broken():
    found, given = RNG.uniform(size=60), np.sort(RNG.integers(0, 60, 60)).astype(float)
    given += np.arange(60) * 1e-6
    weights = RNG.uniform(0.5, 2, 60)
    wanted = IsotonicRegression().fit_transform(given, found, sample_weight=weights)
    ours = module._disparities(given, found, weights, float((weights * wanted**2).sum()))
    np.testing.assert_allclose(ours, wanted, rtol=1e-10)
    tied = module._disparities(np.ones(60), found, None, float((found**2).sum()))
    np.testing.assert_allclose(tied, found)  # among equals nothing is asked


def test_weights_count_rows():
    counts = np.resize([2, 0, 1, 1], 40)
    weighted = metric_mds(ROWS, 2, weights=counts, tol=1e-12, max_steps=4000)
    repeated = metric_mds(np.repeat(ROWS, counts, 0), 2, tol=1e-12, max_steps=4000)
    assert weighted.stress == pytest.approx(repeated.stress, rel=1e-6)
    assert len(weighted.points) == (counts > 0).sum()


def test_degenerate_tables_and_faults():
    same = metric_mds(np.ones((4, 2)), 2)
    np.testing.assert_array_equal(same.points, 0)
    assert same.status.ok
    even = metric_mds(1 - np.eye(6), 2, metric="precomputed")
    assert 0 < even.kruskal < 0.5
    large = metric_mds(1e12 * ROWS, 2, tol=1e-9)
    assert large.kruskal == pytest.approx(metric_mds(ROWS, 2, tol=1e-9).kruskal, rel=1e-6)
    apart = np.kron(np.eye(2), np.ones((20, 20)))
    with pytest.raises(ValueError, match="known pairs join all rows; got 2 separate parts"):
        metric_mds(ROWS, 2, pair_weights=apart)
    with pytest.raises(ValueError, match=r"`start` must be of shape \(40, 2\)"):
        metric_mds(ROWS, 2, start=np.zeros((3, 2)))
    with pytest.raises(ValueError, match="`key` must be given for random restarts"):
        metric_mds(ROWS, 2, num_restarts=1)
    with pytest.raises(ValueError, match="at least two rows"):
        metric_mds([[1.0]], 1)


def test_neighbours_that_are_kept():
    places = classical_mds(ROWS, 2).points
    for k in (1, 5, 12):
        assert trustworthiness(ROWS, places, k) == pytest.approx(
            sklearn_trustworthiness(ROWS, places, n_neighbors=k), rel=1e-12
        )
        assert continuity(ROWS, places, k) == pytest.approx(
            sklearn_trustworthiness(places, ROWS, n_neighbors=k), rel=1e-12
        )
    assert trustworthiness(ROWS, 3 * ROWS) == 1
    with pytest.raises(ValueError, match="`num_neighbours` must be"):
        trustworthiness(ROWS, places, 20)
    with pytest.raises(ValueError, match="`embedding` must be as long as `X`"):
        trustworthiness(ROWS, places[:9], 2)
