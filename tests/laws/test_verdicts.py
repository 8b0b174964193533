"""Verdicts on targets with known answers: what `python -m benchmarks zoo` measures, on cheap members."""

import pytest

from benchmarks._zoo_targets import targets
from benchmarks.zoo import outcome

ZOO = {target.name: target for target in targets()}


def test_the_zoo_is_large():
    assert len(ZOO) >= 40
    assert len({target.kind for target in ZOO.values()}) >= 8


CHAINS = [
    "two modes, 20 apart", "normal, 2 dimensions, away from the start",
    "two modes of 10 dimensions, 25 apart", "a spike in a slab of 10 dimensions",
]  # fmt: skip


@pytest.mark.parametrize("name", CHAINS)
def test_chains_are_trusted_where_they_are_right(name):
    found = outcome("mcmc", ZOO[name], 0)
    assert not found.false_trust, found.sentence
    assert not found.false_alarm, found.sentence
