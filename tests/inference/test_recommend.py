"""The decision diagram of variational methods."""

import pytest

from tractable.inference.variational.recommend import recommend_vi

CASES = [
    ({"enumerable": True}, "enumeration", "discrete_cavi"),
    ({"conjugate": True}, "coordinate ascent", "factor_cavi"),
    ({"differentiable": False}, "score gradient", "control=True"),
    ({"num_rows": 10**6}, "pathwise gradient on mini-batches", "batch="),
    ({"dim": 5}, "pathwise gradient", "lbfgs"),
    ({"dim": 5000}, "pathwise gradient", "low_rank"),
]


@pytest.mark.parametrize(("options", "method", "call"), CASES)
def test_each_kind_of_model_gets_its_method(options, method, call):
    advice = recommend_vi(**options)
    assert advice.method == method
    assert call in advice.call
    assert method in repr(advice)


def test_bad_input_is_refused_by_name():
    with pytest.raises(ValueError, match="`dim` must be a whole number of at least 1; got 0"):
        recommend_vi(dim=0)
