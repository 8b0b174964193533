"""Random programs: the density with latents eliminated, and their exact draws, against brute force."""

import jax
import jax.random as jr
import numpy as np
import pytest

from tests.programs.brute_force import TOLERANCE, assert_exact_draws, compare
from tests.programs.random_programs import random_program
from tractable.distributions import DiscreteUniform, HalfNormal, Normal
from tractable.programs import model, plate, sample

DISCRETE, GAUSSIAN, BOTH = "discrete", "gaussian", "discrete and gaussian"
# networks, chains of labels; vectors by groups, walks, by the dense route (even) and the sparse one
FEW = {57: DISCRETE, 13: GAUSSIAN, 46: GAUSSIAN, 10: BOTH}
MORE = {5: DISCRETE, 33: GAUSSIAN, 53: GAUSSIAN, 36: BOTH, 52: BOTH, 60: BOTH}


def compared(seed):
    return compare(*random_program(seed), sparse=seed % 2 == 1)


@pytest.mark.parametrize("programs", [FEW, MORE], ids=["few", "more"])
def test_a_few_programs(programs):
    for seed, kind in programs.items():
        found = compared(seed)
        assert found.kind == kind, seed
        # an error in the eighth digit would have been seen
        assert abs(found.value - found.want) < TOLERANCE * abs(found.want) < abs(found.value * 1e-8)


@pytest.mark.thorough
@pytest.mark.parametrize("first", range(1000, 1020, 10))
def test_many_programs(first):
    kinds = [compared(seed).kind for seed in range(first, first + 10)]
    jax.clear_caches()
    assert kinds.count("neither") <= 3  # something is found in most


@model
def change(y):
    """A place of change from one, not from zero, and sizes that begin at two."""
    spread = sample("spread", HalfNormal(1.0))
    place = sample("place", DiscreteUniform(1.0, 3.0))
    with plate("row", 3) as rows:
        size = sample("size", DiscreteUniform(2.0, 3.0))
        sample("y", Normal(jax.numpy.where(rows < place, -1.0, 1.0) * size, spread), obs=y)


def test_draws_of_labels_that_do_not_begin_at_zero():
    rng = np.random.default_rng(0)
    assert_exact_draws(compare(change.bind(np.array([-1.0, 2.0, 3.0])), rng), jr.key(0))


@pytest.mark.parametrize("seed", [52, 13, 57, 36])
@pytest.mark.thorough
def test_exact_draws(seed):
    assert_exact_draws(compared(seed), jr.key(seed))
