"""Ranks and probabilities that keep their promises: densities, quantiles, maps, choices by score."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats
from scipy.optimize import minimize

from tractable.distributions.continuous import Normal
from tractable.distributions.counts import Poisson
from tractable.distributions.leading_axes import unit_log_probs
from tractable.distributions.recalibrated import Recalibrated, moved_tails
from tractable.supervised.selection.recalibration import fit_rank_map
from tractable.supervised.selection.share_maps import METHODS, fit_share_map

WEIGHTS = np.array([0.1, 0.3, 0.4, 0.2])
MAPS = {"plain": (0.3, 0.6, 0.8), "shaped": (0.3, 0.6, 0.8, WEIGHTS)}


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.cheap
def test_the_density_is_the_slope_of_the_moved_ranks(name):
    law = Recalibrated(Normal(jnp.array([0.0, 2.0]), jnp.array([1.0, 3.0])), *MAPS[name])
    x = np.linspace(-40, 40, 8001)
    at = jax.vmap(lambda v: unit_log_probs(law, jnp.stack([v, v])))(x)
    density = np.exp(np.asarray(at))
    cumulative = integrate.cumulative_simpson(density, x=x, axis=0, initial=0)
    np.testing.assert_allclose(cumulative[-1], 1.0, rtol=1e-8)
    some = slice(None, None, 800)
    said = np.asarray(jax.vmap(lambda v: law.cdf(jnp.stack([v, v])))(x[some]))
    np.testing.assert_allclose(said, cumulative[some], atol=1e-8)
    mean = integrate.simpson(density * x[:, None], x=x, axis=0)
    np.testing.assert_allclose(np.asarray(law.mean), mean, atol=1e-6)
    spread = integrate.simpson(density * (x[:, None] - mean) ** 2, x=x, axis=0)
    np.testing.assert_allclose(np.asarray(law.variance), spread, rtol=1e-6)
    for p in (1e-9, 0.03, 0.5, 0.97):
        np.testing.assert_allclose(np.asarray(law.cdf(law.icdf(p))), p, rtol=1e-9)
    np.testing.assert_allclose(np.asarray(law.survival(law.inverse_survival(1e-60))), 1e-60, rtol=1e-8)


def test_equal_weights_and_unit_powers_change_nothing():
    u = jnp.array([1e-30, 0.2, 0.9])
    logs = jnp.log(u), jnp.log1p(-u)
    below, above, slope = moved_tails(*logs, 0.0, 1.0, 1.0, jnp.full(6, 1 / 6))
    np.testing.assert_allclose(below, logs[0], rtol=1e-12)
    np.testing.assert_allclose(above, logs[1], rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(slope, 0.0, atol=1e-13)


@pytest.mark.thorough
def test_masses_of_moved_counts():
    law = Recalibrated(Poisson(jnp.full(128, 4.0)), *MAPS["plain"])
    k = np.arange(128.0)
    masses = np.exp(np.asarray(unit_log_probs(law, k)))
    assert masses.sum() == pytest.approx(1.0, rel=1e-12)
    np.testing.assert_allclose(np.cumsum(masses), np.asarray(law.cdf(k)), rtol=1e-10)
    assert float(law.mean[0]) == pytest.approx(masses @ k, rel=1e-10)
    assert float(law.icdf(0.5)[0]) == k[np.searchsorted(np.cumsum(masses), 0.5)]


def logs_of(z):
    return stats.norm.logcdf(z), stats.norm.logsf(z)


def log_slope(theta, low, up):
    """The log-density of the moved ranks, written out; `theta` may have leading axes."""
    a, alpha, beta = (
        np.asarray(v)[..., None] for v in (theta[..., 0], *np.exp(np.moveaxis(theta[..., 1:], -1, 0)))
    )
    G = 1 / (1 + np.exp(-(a + alpha * low - beta * up)))
    return np.log(G * (1 - G) * (alpha * np.exp(-low) + beta * np.exp(-up)))


def test_the_map_is_the_maximum_and_the_evidence_its_integral():
    low, up = logs_of(1.4 * np.random.default_rng(0).normal(size=200) + 0.2)
    found = fit_rank_map(low, up)
    mine = np.array([found.shift, np.log(found.lower), np.log(found.upper)])

    def height(theta, spread):
        return log_slope(theta, low, up).sum(-1) - 0.5 * (theta**2).sum(-1) / spread**2

    evidences, modes = [], []
    for spread in (0.03, 0.1, 0.3):
        best = minimize(lambda theta, s=spread: -height(theta, s), np.zeros(3), tol=1e-13).x
        axes = [centre + np.linspace(-1.0, 1.0, 41) * min(1.0, 5 * spread) for centre in best]
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 3)
        heights = np.concatenate([height(part, spread) for part in np.array_split(grid, 40)])
        cell = np.prod([axis[1] - axis[0] for axis in axes])
        volume = np.log(np.exp(heights - heights.max()).sum() * cell) + heights.max()
        evidences.append(volume - 3 * np.log(spread) - 1.5 * np.log(2 * np.pi) - np.log(3))
        modes.append(best)
    assert float(found.log_evidence) == pytest.approx(max(evidences), abs=0.15)
    np.testing.assert_allclose(mine, modes[int(np.argmax(evidences))], atol=1e-4)


def test_right_distributions_stay_and_few_rows_change_little():
    draw = np.random.default_rng(1)
    kept = [fit_rank_map(*logs_of(draw.normal(size=300))).is_identity for _ in range(20)]
    assert sum(kept) >= 14
    grid = logs_of(stats.norm.ppf((np.arange(2000) + 0.5) / 2000))
    few = [fit_rank_map(*logs_of(draw.normal(size=6))) for _ in range(30)]
    lost = [-log_slope(np.array([m.shift, np.log(m.lower), np.log(m.upper)]), *grid).mean() for m in few]
    assert np.mean(lost) < 0.02
    many = fit_rank_map(*logs_of(2 * draw.normal(size=4000)))
    assert float(many.lower) < 0.5
    weighed = fit_rank_map(*logs_of(np.array([-2.0, 3.0, 1.0])), [2.0, 1.0, 0.0])
    copied = fit_rank_map(*logs_of(np.array([-2.0, -2.0, 3.0])))
    assert float(weighed.lower) == pytest.approx(float(copied.lower), rel=1e-7)
    with pytest.raises(ValueError, match="`log_lower` must be finite"):
        fit_rank_map([-np.inf], [0.0])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["narrow", "skewed", "heavy", "two"])
def test_moved_ranks_are_uniform_and_gain_on_new_rows(kind):
    draw = np.random.default_rng(2)
    make = {
        "narrow": lambda n: 1.7 * draw.normal(size=n),
        "skewed": lambda n: draw.gamma(2.0, size=n) - 2.0,
        "heavy": lambda n: draw.standard_t(3, size=n) / np.sqrt(3),
        "two": lambda n: np.where(draw.random(n) < 0.5, -1.0, 1.0) + 0.3 * draw.normal(size=n),
    }[kind]
    found = fit_rank_map(*logs_of(make(4000)))
    low, up = logs_of(make(20000))
    below, _, slope = found.moved(low, up)
    assert float(slope.mean()) > 0.02
    ranks = np.exp(np.asarray(below))
    for level in (0.5, 0.8, 0.9, 0.95):
        inside = np.mean(np.abs(ranks - 0.5) < level / 2)
        assert inside == pytest.approx(level, abs=0.02)


def table_of_shares(kind: str, count: int = 1500, seed: int = 0):
    draw = np.random.default_rng(seed)
    score = draw.normal(size=count) * 2
    truth = 1 / (1 + np.exp(-score))
    said = {
        "right": truth,
        "sharp": 1 / (1 + np.exp(-3 * score)),
        "moved": 1 / (1 + np.exp(-2 * score - 2.0)),
        "bent": np.where(truth > 0.5, 0.9, truth),
        "blind": draw.random(count),
    }[kind]
    if kind == "bent":
        truth = np.where(truth > 0.5, 0.6, truth**3)
    return np.column_stack([1 - said, said]), (draw.random(count) < truth).astype(int)


@pytest.mark.parametrize("kind", ["right", "sharp", "moved", "bent", "blind"])
@pytest.mark.cheap
def test_the_chosen_map_is_never_worse_than_the_base_rate_or_the_classifier(kind):
    probs, codes = table_of_shares(kind)
    found = fit_share_map(probs, codes)
    new, labels = table_of_shares(kind, 20000, 1)
    own = np.arange(len(labels)), labels
    score = np.log(found(new)[own]).mean()
    base = np.log(np.bincount(labels)[labels] / len(labels)).mean()
    assert score > base - 0.005
    assert score > np.log(new[own]).mean() - 0.005
    np.testing.assert_allclose(found(new).sum(1), 1.0, rtol=1e-12)
    assert found(np.array([[0.0, 1.0], [1.0, 0.0]])).min() > 0  # nothing is impossible


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.cheap
def test_each_map_serves_three_classes(method):
    draw = np.random.default_rng(3)
    logits = 1.5 * draw.normal(size=(900, 3))
    truth = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    codes = (draw.random((900, 1)) > np.cumsum(truth, 1)).sum(1)
    sharp = truth**2 / (truth**2).sum(1, keepdims=True)
    found = fit_share_map(sharp, codes, method=method)
    said = found(sharp)
    assert np.log(said[np.arange(900), codes]).mean() > np.log(sharp[np.arange(900), codes]).mean()
    assert found.verdict.ok
    with pytest.raises(ValueError, match="`method` must be"):
        fit_share_map(sharp, codes, method="platt")
