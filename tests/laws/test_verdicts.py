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


PARTICLES = ["funnel, width 1.5", "Cauchy, 5 dimensions", "three logistics"]


@pytest.mark.parametrize("name", PARTICLES)
@pytest.mark.thorough
def test_particles_are_trusted_where_they_are_right(name):
    found = outcome("smc", ZOO[name], 1)
    assert not found.false_trust, found.sentence
    assert not found.false_alarm, found.sentence
    assert found.trusted == found.easy, found.sentence


APPROXIMATIONS = [
    ("vi mean-field", "Cauchy"), ("vi mean-field", "correlation .9"),
    ("pathfinder", "flat in one of two directions"),
    ("pathfinder", "two modes of 5 dimensions, 22 apart"), ("pathfinder", "correlation .9"),
    ("laplace", "funnel, width 3"), ("laplace", "two modes of 10 dimensions, 25 apart"),
    ("laplace", "correlation .99"), ("importance", "Cauchy"), ("importance", "normal, 1 dimension"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "name"), APPROXIMATIONS)
def test_approximations_are_trusted_where_they_are_right(method, name):
    found = outcome(method, ZOO[name], 0)
    assert not found.false_trust, found.sentence
    assert not found.false_alarm, found.sentence
    assert found.trusted == found.easy, found.sentence
