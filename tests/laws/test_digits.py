"""Laws of digits, over every family: single precision; of numbers, both logarithms in both tails, slopes.

One member of each class is enough. The double-precision values of the first law are those that the other laws
compute, and the second has one program per family.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tests.laws.cases_multivariate import CASES as VECTORS
from tests.laws.cases_univariate import CASES
from tests.laws.test_univariate import LEVELS, log_prob_at, member, quantiles

BY_CLASS = {case.name.partition("-")[0]: case for case in reversed(CASES)}
RELATIVES = {"ChiSquared", "InverseGamma", "Truncated"}  # the functions of Gamma, and of a base
MEMBERS = [name for name in BY_CLASS if name not in RELATIVES][::-1]
SMOOTH = [name for name in MEMBERS if not BY_CLASS[name].discrete and name != "Tabulated"]


@eqx.filter_jit
def _single(distribution, x, p, key):
    tails = distribution.log_prob(x), distribution.log_survival(x)
    return *tails, distribution.icdf(p), distribution.sample(key, (256,))


@pytest.mark.parametrize("name", MEMBERS)
def test_single_precision_agrees_with_double(name):
    case, double = BY_CLASS[name], member(BY_CLASS[name].name)
    x, p = np.asarray(case.inside, np.float32), np.asarray(LEVELS, np.float32)
    with jax.enable_x64(False):
        log_prob, log_survival, found, draws = map(np.asarray, _single(case.build(), x, p, jr.key(3)))
    assert log_prob.dtype == log_survival.dtype == found.dtype == np.float32
    np.testing.assert_allclose(log_prob, log_prob_at(case.name, x.astype(float)), rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(log_survival, double.log_survival(x.astype(float)), rtol=2e-5, atol=2e-6)
    # a quantile is right where its level is, to the rounding of the level and of the number
    shares, slack = np.asarray(double.cdf(found.astype(float))), 1e-5 * p + 2e-6
    before = np.asarray(double.cdf(np.nextafter(found, -np.inf).astype(float))) if case.discrete else shares
    assert ((shares >= p - slack) & (before <= p + slack)).all()
    assert np.isfinite(draws).all()
    assert np.isfinite(double.log_prob(draws[:8].astype(float))).all()


@eqx.filter_jit
def _single_vectors(distribution, x, key):
    return distribution.log_prob(x), distribution.mean, distribution.sample(key, (256,))


@pytest.mark.parametrize("case", VECTORS, ids=str)
def test_single_precision_of_vectors_agrees_with_double(case):
    double, x = case.build(), np.asarray(case.inside, np.float32)
    with jax.enable_x64(False):
        log_prob, mean, draws = map(np.asarray, _single_vectors(case.build(), x, jr.key(3)))
    assert log_prob.dtype == mean.dtype == np.float32
    np.testing.assert_allclose(log_prob, double.log_prob(x.astype(float)), rtol=5e-5, atol=1e-5)
    np.testing.assert_allclose(mean, double.mean, rtol=1e-5, atol=1e-6)
    assert np.isfinite(draws).all()
    assert np.isfinite(double.log_prob(draws[:32].astype(float))).all()


@eqx.filter_jit
def _tails(distribution, x):
    log_cdf, slope = jax.jvp(distribution.log_cdf, (x,), (jnp.ones_like(x),))
    return log_cdf, slope, distribution.log_survival(x), distribution.log_prob(x)


@pytest.mark.parametrize("name", SMOOTH)
def test_both_logarithms_and_their_slope_in_both_tails(name):
    case, centre = BY_CLASS[name], quantiles(BY_CLASS[name].name)[4]
    far = [centre] if case.scipy is None else [case.scipy().isf(1e-25), case.scipy().ppf(1e-25)]
    points = jnp.asarray([*case.inside, centre, getattr(member(case.name), "loc", centre), *far])
    log_cdf, slope, log_survival, log_prob = map(np.asarray, _tails(member(case.name), points))
    for ours, other in ((log_cdf, log_survival), (log_survival, log_cdf)):
        small = (other < -1) & (other > -700)
        np.testing.assert_allclose(ours[small], np.log1p(-np.exp(other[small])), rtol=1e-9)
        assert (ours[small] < 0).all()
    seen = (log_cdf > -700) & (log_survival > -700) & (log_prob > -700)
    np.testing.assert_allclose(slope[seen], np.exp(log_prob[seen] - log_cdf[seen]), rtol=1e-8)
