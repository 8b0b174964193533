"""Reference posteriors, each a program with all its latents: means and deviations within four errors.

What remains after the elimination is asserted too: it is why the programs are fast.
"""

import json

import numpy as np
import pytest

from benchmarks._mcmc_measure import columns, mean_error
from benchmarks._program_models import infer_reference

# how many numbers remain, of how many
SIZES = {
    "gp_pois_regr-gp_regr": (3, 14),
    "arK-arK": (1, 7),
    "diamonds-diamonds": (2, 26),
    "eight_schools-eight_schools_noncentered": (1, 10),
    "garch-garch11": (5, 5),
    "hmm_example-hmm_example": (6, 106),
    "kidiq-kidscore_momiq": (1, 3),
    "low_dim_gauss_mix-low_dim_gauss_mix": (5, 1005),
    "nes1980-nes": (1, 10),
    "sblrc-blr": (1, 6),
}


def gaps(values, wanted):
    """How far the mean and the deviation are from the reference, in standard errors of both."""
    mean_gap = (values.mean() - wanted["mean"]) / np.hypot(mean_error(values), wanted["mcse"])
    squares = (values - values.mean()) ** 2
    error = np.hypot(mean_error(squares) / (2 * values.std()), wanted["sd"] * np.sqrt(0.5 / 10_000))
    return abs(mean_gap), abs(values.std() - wanted["sd"]) / error


@pytest.mark.thorough
@pytest.mark.parametrize("name", SIZES)
def test_the_program_meets_its_reference(oracles, name):
    path = oracles / "posteriordb" / f"{name}.json"
    if not path.is_file():
        pytest.skip(f"no reference at {path}")
    entry = json.loads(path.read_text())
    draws, post = infer_reference(entry, key=1)
    found = dict(columns(draws, first=1))
    worst = {name: max(gaps(found[name], wanted)) for name, wanted in entry["reference"].items()}
    assert max(worst.values()) < 4, worst
    assert post.verdict.ok, post.verdict.sentence
    assert (post.explain().after, post.explain().before) == SIZES[name]
