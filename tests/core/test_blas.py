"""One thread of the linear algebra, inside and only there."""

import numpy as np
import pytest
import threadpoolctl

from tractable.core.blas import one_blas_thread


def blas_threads() -> list[int]:
    return [each["num_threads"] for each in threadpoolctl.threadpool_info() if each["user_api"] == "blas"]


@pytest.mark.parametrize("wanted", [True, False])
def test_threads_are_limited_inside_and_given_back(wanted):
    np.ones((2, 2)) @ np.ones((2, 2))  # the library is loaded
    before = blas_threads()
    assert before
    with one_blas_thread(wanted):
        assert blas_threads() == ([1] * len(before) if wanted else before)
    assert blas_threads() == before
