"""Adaptive rejection: exact draws of log-concave densities, and a plain word about others."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.stats import gamma, kstest, laplace, norm, uniform

from tractable.inference.weighted.adaptive_rejection import adaptive_rejection

KINDS = ("normal", "gamma", "laplace", "flat", "two bumps")


def log_density(x, kind):
    """One of five, so that all tests share one program; the gamma has shape 3 and rate 3."""
    each = [
        -0.5 * x**2,
        2 * jnp.log(jnp.where(kind == 1, x, 1.0)) - 3 * x,
        -jnp.abs(x),
        0.0 * x,
        jnp.logaddexp(-0.5 * (x - 3) ** 2, -0.5 * (x + 3) ** 2),
    ]
    return jnp.stack(each)[kind]


def sample(kind, points, **options):
    args = (jnp.asarray(KINDS.index(kind)),)
    return adaptive_rejection(log_density, points, key=jr.key(0), num_draws=5000, args=args, **options)


def test_normal_draws_and_a_tight_envelope():
    found = sample("normal", [-1.0, 2.0])
    assert kstest(np.asarray(found.draws), norm.cdf).pvalue > 1e-3
    assert found.concave
    assert float(found.acceptance.value) > 0.8
    # the tangents lie above the density, by little in the end
    exact = 0.5 * np.log(2 * np.pi)
    assert exact < float(found.log_envelope) < exact + 0.02
    points = np.asarray(found.points)[: int(found.num_points)]
    assert (np.diff(points) > 0).all()
    assert len(points) > 5
    assert "Exact draws" in repr(found)


def test_gamma_draws_on_a_half_line():
    found = sample("gamma", [0.2, 2.0], low=0.0)
    assert kstest(np.asarray(found.draws), gamma(3, scale=1 / 3).cdf).pvalue > 1e-3
    assert float(found.draws.min()) > 0


def test_flat_and_kinked_densities_are_their_own_envelope():
    flat = sample("flat", [0.1, 0.2], low=0.0, high=1.0)
    assert float(flat.acceptance.value) == 1
    assert kstest(np.asarray(flat.draws), uniform.cdf).pvalue > 1e-3
    kinked = sample("laplace", [-4.0, 4.0])
    assert float(kinked.acceptance.value) == 1
    assert kstest(np.asarray(kinked.draws), laplace.cdf).pvalue > 1e-3
    np.testing.assert_allclose(kinked.log_envelope, np.log(2), rtol=1e-10)


def test_a_density_that_is_not_log_concave_is_reported():
    found = sample("two bumps", [-4.0, 4.0])
    assert not found.concave
    assert "not concave near" in repr(found)


def test_running_out_of_proposals_leaves_nan():
    found = sample("normal", [-1.0, 2.0], max_proposals=256)
    assert not found.status.ok
    assert int(np.isnan(np.asarray(found.draws)).sum()) == 5000 - int(found.num_accepted)
    assert "limit of proposals" in repr(found)


def test_bad_starts_are_refused_by_name():
    with pytest.raises(ValueError, match=r"`points` must be on the rising side at the left; got slope -1"):
        sample("normal", [1.0, 2.0])
    with pytest.raises(ValueError, match=r"`points` must be two or more numbers"):
        sample("normal", [1.0])
    with pytest.raises(ValueError, match=r"`points` must be distinct and inside \(0.0, inf\)"):
        sample("normal", [-1.0, 1.0], low=0.0)
