"""The fuzzer of `python -m benchmarks fuzz` knows a fault when it meets one, and a few cases have none."""

import pytest

from benchmarks import _fuzz_cases
from benchmarks._fuzz_cases import KINDS, Outcome, run_case
from tractable.core.storage import StorageError

ENDS = {
    "an answer": (lambda: Outcome("answered"), "answered"),
    "the one format": (lambda: _raise(ValueError("`scale` must be positive; got -1.0.")), "refused"),
    "an error of our own": (lambda: _raise(StorageError("odd")), "refused"),
    "another's words": (lambda: _raise(ValueError("operands must have the same shape")), "fault"),
    "a stray traceback": (lambda: _raise(KeyError("x")), "fault"),
}


def _raise(error):
    raise error


@pytest.mark.cheap
@pytest.mark.parametrize("name", ENDS)
def test_ends_are_told_apart(name, monkeypatch):
    make, end = ENDS[name]
    monkeypatch.setitem(_fuzz_cases.KINDS, "made up", lambda numbers, folder: make())
    assert run_case("made up", 0).end == end


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("checkpoints", "tables")])
def test_a_few_cases_of_each_kind_end_well(kind):
    for seed in range(6):
        found = run_case(kind, seed)
        assert found.end in ("answered", "refused"), (kind, seed, found.reason)
    assert run_case(kind, 0) == run_case(kind, 0)  # a case is made from its seed alone
