"""Outputs as laws: SciPy's densities, the minimiser of the check loss, tails that join."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st

from tractable.neural.heads import MixtureOutputs, NormalOutputs, QuantileOutputs

OUTPUTS = np.random.default_rng(0).normal(size=(4, 6))


def test_losses_of_normals_and_mixtures_are_minus_log_densities_of_their_laws():
    y = np.array([0.3, -1.0, 2.0, 0.0])
    scale = np.sqrt(np.exp(OUTPUTS[:, 1]) + 0.01**2)
    wanted = st.norm(OUTPUTS[:, 0], scale)
    found = jax.vmap(NormalOutputs().loss)(jnp.asarray(OUTPUTS[:, :2]), y)
    np.testing.assert_allclose(found, -wanted.logpdf(y), rtol=1e-12)
    law = NormalOutputs().law(OUTPUTS[:, :2], 5.0, 2.0)
    np.testing.assert_allclose(law.icdf(0.9), 5 + 2 * wanted.ppf(0.9), rtol=1e-10)
    head = MixtureOutputs(2)
    weights = np.exp(OUTPUTS[:, :2]) / np.exp(OUTPUTS[:, :2]).sum(1, keepdims=True)
    scale = np.sqrt(np.exp(OUTPUTS[:, 4:]) + 0.01**2)
    loc = OUTPUTS[:, 2:4] + st.norm.ppf([0.25, 0.75])
    density = (weights * st.norm(loc, scale).pdf(y[:, None])).sum(1)
    np.testing.assert_allclose(jax.vmap(head.loss)(jnp.asarray(OUTPUTS), y), -np.log(density), rtol=1e-12)
    law = head.law(OUTPUTS, 5.0, 2.0)
    np.testing.assert_allclose(law.log_prob(5 + 2 * y), np.log(density / 2).sum(), rtol=1e-10)
    np.testing.assert_allclose(5 + 2 * head.means(OUTPUTS), law.mean, rtol=1e-12)


def test_a_variance_is_never_below_the_least():
    law = NormalOutputs(0.1).law(np.array([[0.0, -1e6]]), 0.0, 1.0)
    np.testing.assert_allclose(law.std, 0.1)
    slope = jax.grad(NormalOutputs(0.1).loss)(jnp.array([0.0, -1e6]), 0.0)
    assert np.isfinite(slope).all()


def test_quantiles_never_cross_and_the_law_goes_through_them_with_tails_that_join():
    head = QuantileOutputs((0.1, 0.3, 0.5, 0.6, 0.8, 0.9))
    law = head.law(10 * OUTPUTS, 0.0, 1.0)
    assert (np.diff(law.places, axis=1) >= 0).all()
    wide = head.law(OUTPUTS, 1.0, 3.0)
    for column, level in enumerate(head.levels):
        np.testing.assert_allclose(wide.icdf(level), wide.places[:, column], rtol=1e-12)
    # an exponential tail through the last two quantiles
    tail = (wide.places[:, 1] - wide.places[:, 0]) / np.log(3)
    np.testing.assert_allclose(wide.icdf(0.1 / np.e), wide.places[:, 0] - tail, rtol=1e-10)
    np.testing.assert_allclose(wide.places[:, 3], 1 + 3 * OUTPUTS[:, 0], rtol=1e-12)  # the middle one is free


def test_the_check_loss_is_least_at_the_quantiles_of_the_targets():
    head, y = QuantileOutputs((0.25, 0.5, 0.75)), np.arange(101.0) / 10

    def total(places):
        steps = np.diff(places)
        raw = np.log(np.expm1(steps)) + 1.0
        output = jnp.asarray(np.r_[places[1], raw])
        return float(jax.vmap(lambda target: head.loss(output, target))(y).mean())

    best = np.array([2.5, 5.0, 7.5])
    for change in (-0.2, 0.2):
        for k in range(3):
            moved = best.copy()
            moved[k] += change
            assert total(moved) > total(best)


@pytest.mark.parametrize("levels", [(0.5,), (0.5, 0.2), (0.0, 0.5)])
@pytest.mark.cheap
def test_levels_rise_between_zero_and_one(levels):
    with pytest.raises(ValueError, match="`levels` must be at least two rising numbers"):
        QuantileOutputs(levels)
