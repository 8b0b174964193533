"""Fingerprints: the same up to rounding, and nothing else."""

import numpy as np
import pytest

from tractable.core.fingerprint import check_same_values, digest, is_same

VALUES = -1e7 + np.array([-3.0, -1.5, 0.25, np.inf, np.nan])


def test_digest_sees_every_bit_shape_and_type():
    base = digest("a", [np.arange(4.0), 1, "text"])
    others = [
        digest("b", [np.arange(4.0), 1, "text"]),
        digest("a", [np.arange(4.0).reshape(2, 2), 1, "text"]),
        digest("a", [np.arange(4.0, dtype=np.float32), 1, "text"]),
        digest("a", [np.nextafter(np.arange(4.0), 9), 1, "text"]),
        digest("a", [np.arange(4.0), 2, "text"]),
        digest("a", [np.arange(4.0), 1, "tent"]),
    ]
    assert base == digest("a", [np.arange(4.0), 1, "text"])
    assert base not in others


def test_values_agree_up_to_the_rounding_of_another_machine():
    noise = 1e-15 * np.array([3.0, -2.0, 1.0, 0.0, 0.0])
    assert is_same(VALUES, VALUES * (1 + noise))
    assert is_same(VALUES.astype(np.float32), (VALUES * (1 + 1e8 * noise)).astype(np.float32))
    assert is_same(np.zeros(0), np.zeros(0))
    assert is_same(np.array([1, 2]), np.array([1, 2]))


@pytest.mark.cheap
@pytest.mark.parametrize(
    "other",
    [
        VALUES + np.array([1e-4, 0, 0, 0, 0]),  # far below a millionth of the values
        VALUES * (1 + 1e-5),
        np.where(np.isinf(VALUES), -np.inf, VALUES),
        np.where(np.isnan(VALUES), -1e7, VALUES),
        VALUES[:-1],
    ],
)
def test_another_function_is_told_apart(other):
    assert not is_same(VALUES, other)
    assert not is_same(np.array([1, 2]), np.array([1, 3]))
    with pytest.raises(ValueError, match=r"`density` must be the one; got values .* where here.tr holds"):
        check_same_values("density", "the one", "here.tr", {"x": VALUES}, {"x": other})
