"""Reference posteriors are met: every mean within four combined standard errors, every sd within 5 %."""

import json

import pytest

from benchmarks._posterior_models import MODELS, model_of
from benchmarks.posteriors import compare

# the other three, as programs: tests/programs/test_references.py; all ten: `python -m benchmarks posteriors`
NAMES = [
    "eight_schools-eight_schools_noncentered",
    "arK-arK",
    "garch-garch11",
    "gp_pois_regr-gp_regr",
    "kidiq-kidscore_momiq",
    "nes1980-nes",
    "sblrc-blr",
]


def assert_reference(oracles, name, seed):
    """Sample and compare one posterior."""
    path = oracles / "posteriordb" / f"{name}.json"
    if not path.is_file():
        pytest.skip(f"no reference at {path}")
    lines, post = compare(json.loads(path.read_text()), seed)
    assert lines
    assert all(line.ok for line in lines), [line for line in lines if not line.ok]
    assert post.verdict.ok, post.verdict.sentence


@pytest.mark.parametrize("name", NAMES)
def test_reference_is_met(oracles, name):
    assert_reference(oracles, name, seed=1)


def test_models_are_found_by_the_second_part_of_a_name():
    assert model_of("sblri-blr") is MODELS["blr"]
    assert model_of("nes1992-nes") is MODELS["nes"]
    assert model_of("radon-nothing_known") is None
