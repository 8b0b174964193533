"""Starts, burn-in, plateaus and stopping rules on chains whose state is known."""

import jax.random as jr
import numpy as np
import pytest

from tests.inference.test_diagnostics import autoregressive
from tractable.core.support import positive, simplex
from tractable.inference.trust.diagnostics import classic_rhat, split_rhat
from tractable.inference.trust.stopping import (
    drop_burn_in,
    enough,
    over_dispersed_starts,
    plateau,
    protocol_sequences,
    scalar_summaries,
)


def test_starts_are_wider_than_the_posterior():
    starts = over_dispersed_starts(
        jr.key(0), {"a": 1.0, "b": np.array([0.0, 5.0])}, {"a": 2.0, "b": 0.5}, 2000
    )
    spread = [np.std(starts["a"]), *np.std(starts["b"], axis=0)]
    np.testing.assert_allclose(spread, [4.0, 1.0, 1.0], rtol=5 / np.sqrt(2 * 2000))
    np.testing.assert_allclose(np.mean(starts["b"], axis=0), [0, 5], atol=5 / np.sqrt(2000))
    with pytest.raises(ValueError, match=r"`factor` must be above 1"):
        over_dispersed_starts(jr.key(0), 0.0, 1.0, 4, factor=0.5)


def test_protocol_drops_half_and_splits_the_rest():
    chains = np.arange(16.0).reshape(2, 8)
    np.testing.assert_array_equal(protocol_sequences(chains), [[4, 5], [6, 7], [12, 13], [14, 15]])
    np.testing.assert_array_equal(drop_burn_in(chains, 6), [[6, 7], [14, 15]])
    with pytest.raises(ValueError, match=r"`num` must be a whole number from 0 to 7; got 8"):
        drop_burn_in(chains, 8)


def test_protocol_forgets_the_starts():
    """Chains from far apart: with the climb they disagree, after the protocol they do not."""
    t = np.arange(4000)
    x = autoregressive(0.5, (4, 4000)) + np.array([-50, -20, 20, 50.0])[:, None] * 0.995 ** t[None]
    assert split_rhat(x) > 1.05
    assert classic_rhat(protocol_sequences(x)) < 1.01


def test_scalar_summaries_are_on_the_line():
    rng = np.random.default_rng(0)
    draws = {
        "tau": rng.gamma(1, size=(2, 5)),
        "p": rng.dirichlet(np.ones(3), (2, 5)),
        "x": rng.normal(size=(2, 5)),
    }
    found = scalar_summaries(draws, {"tau": positive, "p": simplex})
    np.testing.assert_allclose(found["tau"], np.log(draws["tau"]), rtol=1e-12)
    assert found["p"].shape == (2, 5, 2)
    np.testing.assert_array_equal(found["x"], draws["x"])
    with pytest.raises(ValueError, match=r"`supports` must be keyed by variables \(p, tau, x\); got \['y'\]"):
        scalar_summaries(draws, {"y": positive})


def test_plateau_finds_the_end_of_the_climb():
    climb = -40 * np.exp(-np.arange(2000) / 60)[None] + autoregressive(0.5, (3, 2000), 1)
    found = plateau(climb)
    assert found.settled
    assert (
        100 <= found.burn_in <= 500
    )  # the climb is below a tenth of the noise after 60 log(400) = 360 steps
    assert found.verdict.sentence.startswith(f"Plateau after {found.burn_in} draws")
    flat = plateau(autoregressive(0.5, (3, 2000), 2))
    assert (flat.settled, flat.burn_in) == (True, 0)


def test_a_lasting_climb_is_no_plateau():
    found = plateau(0.05 * np.arange(1000)[None] + autoregressive(0.5, (2, 1000), 3))
    assert not found.settled
    assert "run longer" in repr(found)
    assert not plateau(np.full((1, 100), np.nan)).settled
    with pytest.raises(ValueError, match=r"`log_density` must be 80 draws or more per chain"):
        plateau(np.zeros((1, 20)))


def test_enough_is_size_and_agreement():
    good = {"x": autoregressive(0.5, (4, 2000), 4), "fixed": np.ones((4, 2000))}
    found = enough(good)
    assert found.ok
    assert found.numbers["more"] == 0
    more = enough(good, effective_size=50_000)
    assert not more
    # sizes grow in proportion: what is missing can be counted
    assert more.numbers["more"] == pytest.approx(2000 * (50_000 / more.numbers["effective_size"] - 1), abs=1)
    apart = enough({"x": good["x"] + np.arange(4)[:, None]})
    assert not apart.ok
    assert apart.numbers["rhat"] > 1.1
    assert not enough({"x": np.full((2, 50), np.nan)}).ok
    assert "draw" in repr(apart)
