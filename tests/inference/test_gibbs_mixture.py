"""Mixtures by Gibbs sampling: label vectors against enumeration, running statistics against fresh ones."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import stats

from tests.oracles import mixture_labels as oracle
from tractable.core.iterate import run
from tractable.distributions.normal_priors import NormalInverseWishart
from tractable.inference.gibbs.loops import redraw_collapsed, redraw_labels
from tractable.inference.gibbs.mixture import CollapsedMixtureGibbs, MixtureGibbs, label_predictive
from tractable.inference.trust.autocorrelation import autocorrelation_time

PRIOR = (np.array([0.3, -0.2]), 0.6, 4.5, np.array([[1.2, 0.3], [0.3, 0.8]]))
NIW = NormalInverseWishart(*PRIOR)
TINY = np.array([[0.0, 0.1], [0.3, -0.4], [2.5, 2.2], [2.9, 1.6], [-0.5, 0.8], [1.2, 1.1]])
ALPHA = 0.7


@eqx.filter_jit
def chain(sampler, start, key, num_sweeps, valued=False):
    """Positions, log-densities (if `valued`), running statistics and reports of one chain."""
    key_init, key_run = jr.split(key)
    log_density = sampler.log_density if valued else lambda _: jnp.zeros(())
    state = sampler.init(log_density, start, key_init)

    def step(state, key):
        state, info = sampler.step(log_density, state, key)
        return state, (state.position, state.log_density, state.statistics, info)

    return run(step, state, jr.split(key_run, num_sweeps)).trace


def z_scores(series, exact):
    """How many standard errors the mean of each column of dependent draws is off."""
    series = np.asarray(series, float)
    times = np.asarray(jax.jit(jax.vmap(autocorrelation_time))(series.T))
    error = np.sqrt(series.var(0) * times / len(series))
    return (series.mean(0) - exact) / error


def some_rows(num_rows, dim=2, seed=0):
    rng = np.random.default_rng(seed)
    centres = 3 * rng.normal(size=(4, dim))
    return centres[rng.integers(0, 4, num_rows)] + rng.normal(size=(num_rows, dim)), rng


@pytest.mark.parametrize(("kind", "num_components"), [(MixtureGibbs, 2), (CollapsedMixtureGibbs, 3)])
def test_label_vectors_have_their_exact_probabilities(kind, num_components):
    k = num_components
    sampler = kind(TINY, k, ALPHA, NIW)
    every, probs = oracle.enumerate_labels(TINY, k, ALPHA, PRIOR)
    draws = np.asarray(chain(sampler, sampler.start(jr.key(1)), jr.key(2), 6000)[0]["labels"])
    code = k ** np.arange(len(TINY))[::-1]
    likely = np.argsort(-probs)[:12]
    assert np.abs(z_scores((draws @ code)[:, None] == (every @ code)[None, likely], probs[likely])).max() < 5
    pairs = [(i, j) for i in range(6) for j in range(i)]
    together = np.stack([draws[:, i] == draws[:, j] for i, j in pairs], 1)
    exact = [probs @ (every[:, i] == every[:, j]) for i, j in pairs]
    assert np.abs(z_scores(together, exact)).max() < 5
    # by symmetry every label is equally probable in the long run, whatever the data say
    assert np.abs(z_scores((draws[:, :, None] == np.arange(k)).reshape(-1, 6 * k), 1 / k)).max() < 5
    np.testing.assert_allclose([probs @ (every[:, n] == 0) for n in range(6)], 1 / k, rtol=1e-10)


def test_relabelled_states_are_equally_probable():
    sampler = CollapsedMixtureGibbs(TINY, 3, ALPHA, NIW)
    labels = jnp.array([0, 0, 1, 1, 0, 2])
    values = [
        float(sampler.log_density({"labels": p[labels]}))
        for p in jnp.array([[0, 1, 2], [1, 2, 0], [2, 1, 0]])
    ]
    np.testing.assert_allclose(values, values[0], rtol=1e-12)


def test_densities_are_those_of_the_model():
    collapsed = CollapsedMixtureGibbs(TINY, 3, ALPHA, NIW)
    for labels in ([0, 0, 1, 1, 0, 2], [1, 1, 1, 1, 1, 1]):
        exact = oracle.log_joint(labels, TINY, 3, ALPHA, PRIOR)
        np.testing.assert_allclose(collapsed.log_density({"labels": jnp.array(labels)}), exact, rtol=1e-12)
    labels = np.array([0, 0, 1, 1, 0, 1])
    mean = np.array([[0.1, 0.2], [2.0, 1.5]])
    cov = np.array([[[1.0, 0.2], [0.2, 0.5]], [[0.7, 0.0], [0.0, 0.9]]])
    exact = oracle.log_joint(labels, TINY, 2, ALPHA, PRIOR)
    exact -= sum(oracle.log_evidence(TINY[labels == k], PRIOR) for k in range(2))
    for k in range(2):
        exact += stats.multivariate_normal(mean[k], cov[k]).logpdf(TINY[labels == k]).sum()
        exact += stats.invwishart(PRIOR[2], PRIOR[3]).logpdf(cov[k])
        exact += stats.multivariate_normal(PRIOR[0], cov[k] / PRIOR[1]).logpdf(mean[k])
    point = {"labels": jnp.asarray(labels), "mean": jnp.asarray(mean), "cov": jnp.asarray(cov)}
    np.testing.assert_allclose(MixtureGibbs(TINY, 2, ALPHA, NIW).log_density(point), exact, rtol=1e-12)


def test_the_label_loop_is_that_of_the_oracle():
    rng = np.random.default_rng(0)
    logs, alpha = 2 * rng.normal(size=(60, 4)), np.array([0.5, 1.0, 2.0, 0.1])
    labels, uniforms = rng.integers(0, 4, 60), rng.random(60)
    new, counts = redraw_labels(labels, logs, alpha, uniforms)
    np.testing.assert_array_equal(new, oracle.sweep_given(labels, logs, alpha, uniforms))
    np.testing.assert_array_equal(counts, np.bincount(new, minlength=4))
    assert (new != labels).any()


@pytest.mark.parametrize("dim", [1, 3])
def test_the_collapsed_loop_is_that_of_the_oracle(dim):
    rows, rng = some_rows(40, dim)
    prior = (rng.normal(size=dim), 0.5, dim + 1.5, np.eye(dim) + 0.3)
    sampler = CollapsedMixtureGibbs(rows, 4, [0.5, 1.0, 2.0, 0.1], NormalInverseWishart(*prior))
    labels = rng.integers(0, 4, 40)
    step = eqx.filter_jit(lambda sampler, state, key: sampler.step(lambda p: jnp.zeros(()), state, key))
    for seed in range(3):
        key = jr.key(seed)
        uniforms = np.asarray(jr.uniform(jr.clone(key), (40,)))
        state = sampler.init(lambda p: 0.0, {"labels": labels}, jr.key(9))
        state, _ = step(sampler, state, key)
        expected = oracle.sweep_collapsed(labels, rows, np.array([0.5, 1.0, 2.0, 0.1]), prior, uniforms)
        np.testing.assert_array_equal(state.position["labels"], expected)
        labels = expected


def test_running_statistics_are_those_made_anew():
    rows, _ = some_rows(2000, 3)
    sampler = CollapsedMixtureGibbs(rows + 100.0, 6, 1.0)  # far from zero, where squares would cancel
    positions, _, statistics, info = chain(sampler, sampler.start(jr.key(0)), jr.key(1), 5)
    for t in range(5):
        labels = np.asarray(positions["labels"][t])
        counts, means, factors = (np.asarray(part[t]) for part in statistics)
        prior = tuple(
            np.asarray(x)
            for x in (sampler.prior.loc, sampler.prior.mean_scale, sampler.prior.degrees, sampler.prior.scale)
        )
        np.testing.assert_array_equal(counts, np.bincount(labels, minlength=6))
        for k in range(6):
            mean, _, _, scale = oracle.posterior(np.asarray(sampler.rows)[labels == k], prior)
            np.testing.assert_allclose(means[k], mean, rtol=1e-10)
            np.testing.assert_allclose(factors[k], np.linalg.cholesky(scale), rtol=1e-10, atol=1e-10)
    assert not np.asarray(info.undefined).any()


@pytest.mark.thorough
def test_a_factor_spoilt_by_rounding_is_made_anew():
    """A huge outlier leaves its component: what is left of the others in its factor is rounding alone."""
    rows = np.array([[0.0], [1e-3], [2e-3], [1e9]])
    prior = (np.zeros(1), 1.0, 2.0, 1e-6 * np.eye(1))
    labels = np.zeros(4, np.int64)
    factor = np.stack([np.linalg.cholesky(oracle.posterior(rows, prior)[3]), np.linalg.cholesky(prior[3])])
    means = np.stack([oracle.posterior(rows, prior)[0], prior[0]])
    half = (prior[2] + np.arange(5) + 1) / 2
    log_gammas = oracle.gammaln(half) - oracle.gammaln(half - 0.5)
    start = (np.array([4, 0]), means, factor)
    lower = np.linalg.cholesky(prior[3])
    new, counts, means, factors = redraw_collapsed(
        labels, rows, np.ones(2), (prior[0], 1.0, 2.0, lower), start, log_gammas, np.full(4, 0.999999)
    )
    for k in range(2):
        mean, _, _, scale = oracle.posterior(rows[new == k], prior)
        np.testing.assert_allclose(means[k], mean, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(factors[k] ** 2, scale, rtol=1e-6)
    np.testing.assert_array_equal(counts, np.bincount(new, minlength=2))


def test_components_are_found_and_counted():
    rng = np.random.default_rng(1)
    truth = np.repeat([0, 1, 2], [60, 40, 20])
    centres = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])
    rows = centres[truth] + rng.normal(size=(120, 2))
    sampler = MixtureGibbs(rows, 3)
    positions, values, counts, _ = chain(sampler, sampler.start(jr.key(0)), jr.key(1), 400, valued=True)
    np.testing.assert_array_equal(
        counts, (np.asarray(positions["labels"])[:, :, None] == np.arange(3)).sum(1)
    )
    last = jax.tree.map(lambda leaf: leaf[-1], positions)
    np.testing.assert_allclose(values[-1], sampler.log_density(last), rtol=1e-12)
    means = np.asarray(positions["mean"])[100:]
    # sorted along a direction that tells the components apart: label switching does not matter
    order = np.argsort(means @ [1.0, 2.5], axis=1)
    found = np.take_along_axis(means, order[:, :, None], 1).mean(0)
    exact = np.stack([rows[truth == k].mean(0) for k in range(3)])
    np.testing.assert_allclose(found, exact, atol=0.2)
    covs = np.asarray(positions["cov"])
    np.testing.assert_allclose(covs, np.swapaxes(covs, 2, 3), rtol=1e-12)
    assert (np.linalg.eigvalsh(covs) > 0).all()


def test_the_predictive_of_labels():
    np.testing.assert_allclose(label_predictive([3, 1, 0], 0.5), np.array([3.5, 1.5, 0.5]) / 5.5, rtol=1e-12)
    np.testing.assert_allclose(label_predictive([0, 0], [1.0, 3.0]), [0.25, 0.75], rtol=1e-12)
    # the probability of one more label, by the closed form of two label vectors
    rows = np.zeros((5, 1))
    prior = (np.zeros(1), 1.0, 2.0, np.eye(1))
    flat = [oracle.log_joint(z, rows[: len(z)], 3, 0.5, prior) for z in ([0, 0, 1, 0], [0, 0, 1, 0, 1])]
    likelihood = [
        sum(oracle.log_evidence(rows[: len(z)][np.array(z) == k], prior) for k in range(3))
        for z in ([0, 0, 1, 0], [0, 0, 1, 0, 1])
    ]
    ratio = np.exp((flat[1] - likelihood[1]) - (flat[0] - likelihood[0]))
    np.testing.assert_allclose(label_predictive([3, 1, 0], 0.5)[1], ratio, rtol=1e-12)


def test_the_predictive_density_is_a_ratio_of_evidences():
    sampler = CollapsedMixtureGibbs(TINY, 2, ALPHA, NIW)
    labels, new = np.array([0, 0, 1, 1, 0, 1]), np.array([0.7, -0.3])
    density = sampler.predictive({"labels": labels}).prob(new)
    more = np.vstack([TINY, new])
    exact = sum(
        np.exp(
            oracle.log_joint([*labels, k], more, 2, ALPHA, PRIOR)
            - oracle.log_joint(labels, TINY, 2, ALPHA, PRIOR)
        )
        for k in range(2)
    )
    np.testing.assert_allclose(density, exact, rtol=1e-11)


def test_chains_side_by_side_are_those_alone():
    rows, rng = some_rows(50)
    sampler = CollapsedMixtureGibbs(rows, 4)
    starts = jnp.asarray(rng.integers(0, 4, (3, 50)))
    init = lambda z: sampler.init(lambda p: jnp.zeros(()), {"labels": z}, jr.key(0))  # noqa: E731
    step = lambda s, k: sampler.step(lambda p: jnp.zeros(()), s, k)[0].position["labels"]  # noqa: E731
    keys = jr.split(jr.key(1), 3)
    together = np.asarray(jax.jit(jax.vmap(lambda z, k: step(init(z), k)))(starts, jr.clone(keys)))
    alone = jax.jit(lambda z, k: step(init(z), k))
    np.testing.assert_array_equal(together, [alone(starts[c], keys[c]) for c in range(3)])
    assert (together != np.asarray(starts)).any()


@pytest.mark.thorough
def test_one_component_and_one_row():
    sampler = CollapsedMixtureGibbs([[1.0, 2.0]], 1, prior=NIW)
    draws = chain(sampler, sampler.start(jr.key(0)), jr.key(1), 4)[0]["labels"]
    np.testing.assert_array_equal(draws, 0)


def test_single_precision_stays():
    rows = jnp.asarray(TINY, jnp.float32)
    prior = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), NIW)
    sampler = CollapsedMixtureGibbs(rows, 2, jnp.float32(1.0), prior)
    trace = chain(sampler, sampler.start(jr.key(0)), jr.key(1), 3)
    assert all(leaf.dtype != jnp.float64 for leaf in jax.tree.leaves(trace[0]) + list(trace[2]))


def test_bad_input_is_refused_by_name():
    with pytest.raises(ValueError, match=r"`rows` must be a matrix, one row per point; got shape \(3,\)"):
        MixtureGibbs([1.0, 2.0, 3.0], 2)
    with pytest.raises(ValueError, match=r"`rows` must be finite; got nan"):
        MixtureGibbs([[1.0], [np.nan]], 2)
    with pytest.raises(ValueError, match=r"`num_components` must be a whole number of at least 1; got 0"):
        MixtureGibbs(TINY, 0)
    with pytest.raises(ValueError, match=r"`concentration` must be positive; got -1.0 at index 1"):
        MixtureGibbs(TINY, 2, [1.0, -1.0])
    with pytest.raises(
        ValueError, match=r"`concentration` must be one number, or one for each of 2 components"
    ):
        MixtureGibbs(TINY, 2, [1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match=r"`prior` must be one of 1 dimensions, as the rows"):
        MixtureGibbs(TINY[:, :1], 2, 1.0, NIW)
    sampler = CollapsedMixtureGibbs(TINY, 2, prior=NIW)
    with pytest.raises(ValueError, match=r"`labels` must be from 0 to 1; got 2 at index 5"):
        sampler.init(sampler.log_density, {"labels": np.array([0, 0, 0, 0, 0, 2])}, jr.key(0))
    with pytest.raises(ValueError, match=r"`labels` must be one for each of 6 rows; got shape \(5,\)"):
        sampler.init(sampler.log_density, {"labels": np.zeros(5, int)}, jr.key(0))
    with pytest.raises(ValueError, match=r"`start` must be a dict with `labels`"):
        sampler.init(sampler.log_density, np.zeros(6, int), jr.key(0))
    whole = MixtureGibbs(TINY, 2, prior=NIW)
    with pytest.raises(ValueError, match=r"`mean` must be of shape \(2, 2\)"):
        whole.init(
            whole.log_density,
            {"labels": np.zeros(6, int), "mean": np.zeros(2), "cov": np.zeros(2)},
            jr.key(0),
        )


# Geweke's joint test: labels and components by the kernel, then rows from the model, in turn. Labels,
# parameters and rows must keep their prior distribution.


def geweke(kind, num_steps, seed):
    sampler = kind(TINY[:4], 2, 1.0, NormalInverseWishart(np.zeros(2), 1.0, 8.0, 4 * np.eye(2)))

    @jax.jit
    def go(key):
        key_start, key_run = jr.split(key)

        def step(carry, key):
            rows, point = carry
            key_init, key_sweep, key_components, key_rows = jr.split(key, 4)
            kernel = eqx.tree_at(lambda s: s.rows, sampler, rows)
            state = kernel.init(lambda p: jnp.zeros(()), point, key_init)
            state, _ = kernel.step(lambda p: jnp.zeros(()), state, key_sweep)
            labels = state.position["labels"]
            if kind is MixtureGibbs:
                mean, cov = state.position["mean"], state.position["cov"]
            else:
                drawn = kernel.components(labels).sample(key_components)
                mean, cov = drawn[:, 0], drawn[:, 1:]
            noise = jr.normal(key_rows, (4, 2))
            rows = mean[labels] + jnp.einsum("nij,nj->ni", jnp.linalg.cholesky(cov)[labels], noise)
            same = (labels[0] == labels[1]).astype(float)
            first, other = rows[0], rows[1]
            seen = [
                same,
                labels[3],
                mean[0, 0],
                mean[1, 1] ** 2,
                cov[0, 0, 0],
                cov[1, 0, 1],
                *first,
                first[0] ** 2,
            ]
            return (rows, state.position), jnp.stack([*seen, first[0] * other[0], same * first[1] * other[1]])

        start = (jnp.asarray(TINY[:4]), sampler.start(key_start))
        return run(step, start, jr.split(key_run, num_steps)).trace

    seen = np.asarray(go(jr.key(seed)))[50:]
    # alpha = 1, two components: P(same) = 2/3; E cov = 4/5 I; E mean^2 = 4/5; E x^2 = 8/5, E x x' = 2/3 * 4/5
    exact = [2 / 3, 0.5, 0, 0.8, 0.8, 0, 0, 0, 1.6, 2 / 3 * 0.8, 2 / 3 * 0.8]
    return np.abs(z_scores(seen, exact)).max()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [MixtureGibbs, CollapsedMixtureGibbs])
def test_geweke_long(kind):
    assert geweke(kind, 6_000, 1) < 5


@pytest.mark.slow
def test_a_hundred_thousand_points():
    rows, _ = some_rows(100_000)
    sampler = CollapsedMixtureGibbs(rows, 10)
    _, values, statistics, _ = chain(sampler, sampler.start(jr.key(0)), jr.key(1), 5)
    assert np.isfinite(values).all()
    assert (np.asarray(statistics[0]).sum(1) == 100_000).all()
