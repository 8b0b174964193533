"""Bundled tables: facts, splits, and generators whose fitted parameters are the ones that they were made
with."""

import numpy as np
import pytest

from tractable import datasets


def test_bundled_tables_have_their_known_sizes():
    sizes = {
        "diabetes": (442, 10),
        "iris": (150, 4),
        "wine": (178, 13),
        "breast_cancer": (569, 30),
        "digits": (1797, 64),
    }
    for name, size in sizes.items():
        table = getattr(datasets, name)()
        assert table.features.shape == size
        assert len(table.feature_names) == size[1]
        assert len(table) == size[0]


def test_split_is_a_partition_of_the_rows():
    table = datasets.diabetes()
    train, test = table.split(0.25, seed=3)
    together = np.concatenate([train.features, test.features])
    assert len(test) == 110
    np.testing.assert_array_equal(np.sort(together[:, 2]), np.sort(table.features[:, 2]))
    with pytest.raises(ValueError, match=r"`test_fraction` must be between 0 and 1; got 1\.5"):
        table.split(1.5)


def test_noisy_line_has_the_stated_coefficients():
    table = datasets.noisy_line(10_000, noise=0.3, seed=1)
    slope, intercept = np.polyfit(table.features[:, 0], table.target, 1)
    assert abs(slope - 2) < 5 * 0.3 / np.sqrt(10_000 / 3)
    assert abs(intercept - 1) < 5 * 0.3 / np.sqrt(10_000)


def test_moons_lie_on_their_circles():
    table = datasets.two_moons(500, noise=0.0)
    upper = table.features[table.target == 0]
    lower = table.features[table.target == 1]
    np.testing.assert_allclose(np.linalg.norm(upper, axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(lower - [1, 0.5], axis=1), 1, rtol=1e-12)


def test_blobs_have_unit_variance_within_groups():
    table = datasets.blobs(30_000, num_groups=3)
    for group in range(3):
        deviation = table.features[table.target == group].std(0)
        np.testing.assert_allclose(deviation, 1, atol=5 / np.sqrt(2 * 10_000))


def test_eight_schools_facts():
    table = datasets.eight_schools()
    assert table.target.sum() == 70
    assert table.features.sum() == 100


def test_rolled_and_bent_strips_lie_where_they_say():
    roll = datasets.swiss_roll(200, seed=3)
    np.testing.assert_allclose(np.hypot(roll.features[:, 0], roll.features[:, 2]), roll.target)
    bent = datasets.s_curve(200, seed=3)
    np.testing.assert_allclose(bent.features[:, 0], np.sin(bent.target))
    assert (np.abs(np.abs(bent.features[:, 2]) - (1 - np.cos(bent.target))) < 1e-12).all()
