"""Variants of EM against plain EM, enumeration or the law they obey; mixtures of exponential families."""

import itertools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import optimize, stats

from tractable.bijections import unconstrain
from tractable.core import Status
from tractable.distributions import Bernoulli, Binomial, Gaussian, Mixture, Normal, Poisson
from tractable.inference.expectation_maximisation.em import EM, objective
from tractable.inference.expectation_maximisation.gradient import EvidenceAscent
from tractable.inference.expectation_maximisation.labels import (
    HardEM,
    MonteCarloEM,
    StochasticEM,
    emptied_components,
)
from tractable.inference.expectation_maximisation.prior import Partial, WithPrior
from tractable.inference.expectation_maximisation.report import decompose, half_steps
from tractable.inference.expectation_maximisation.streams import IncrementalEM, OnlineEM
from tractable.optim import GradientDescent

ROWS = np.r_[np.random.default_rng(0).normal(0, 1, 350), np.random.default_rng(1).normal(3, 1, 150)]


def start(left=-1.0, right=1.0):
    return Mixture([0.5, 0.5], Normal(jnp.array([left, right]), 1.0))


@pytest.fixture(scope="module")
def fitted():
    return EM(tol=1e-12, max_steps=5000).fit(start(), ROWS)


def counts_of_two_rates():
    generator = np.random.default_rng(3)
    return np.r_[generator.poisson(2.0, 300), generator.poisson(9.0, 200)].astype(float)


def test_poisson_mixture_meets_a_direct_search():
    rows = counts_of_two_rates()
    run = EM(tol=1e-13, max_steps=5000).fit(Mixture([0.5, 0.5], Poisson(jnp.array([1.0, 5.0]))), rows)

    def loss(v):
        share = 1 / (1 + np.exp(-v[0]))
        first, second = stats.poisson(np.exp(v[1])).pmf(rows), stats.poisson(np.exp(v[2])).pmf(rows)
        return -np.log(share * first + (1 - share) * second).sum()

    best = optimize.minimize(loss, [0.0, 0.5, 2.0], options={"gtol": 1e-8})
    np.testing.assert_allclose(run.values[-1], -best.fun, rtol=1e-10)
    np.testing.assert_allclose(np.log(run.state.components.rate), best.x[1:], atol=1e-4)


@pytest.mark.parametrize(
    ("components", "rows"),
    [
        (Bernoulli(jnp.array([[0.3, 0.4], [0.6, 0.8]])), [[0.0, 1.0], [1.0, 1.0], [0.0, 0.0]]),
        (Binomial(6.0, jnp.array([0.2, 0.7])), [1.0, 5.0, 3.0]),
        (
            Gaussian(jnp.array([[0.0, 0.0], [1.0, 2.0]]), jnp.stack([jnp.eye(2)] * 2)),
            [[0.0, 1.0], [2.0, 1.0]],
        ),
    ],
    ids=["Bernoulli vectors", "Binomial", "Gaussian"],
)
def test_statistics_reproduce_the_joint_of_every_labelling(components, rows):
    """The k^n terms of E[log p(X, Z)] collapse to n k: the sum over all labellings, term by term."""
    mixture, rows = Mixture([0.3, 0.7], components), jnp.asarray(rows)
    old = Mixture([0.6, 0.4], components)
    statistics, evidence = old.e_step(rows, jnp.ones(len(rows)))
    joint, shares = np.asarray(mixture.log_joint(rows)), np.asarray(old.responsibilities(rows))
    total = 0.0
    for labels in itertools.product(range(2), repeat=len(rows)):
        probability = np.prod([shares[n, z] for n, z in enumerate(labels)])
        total += probability * sum(joint[n, z] for n, z in enumerate(labels))
    np.testing.assert_allclose(mixture.expected_log_joint(statistics), total, rtol=1e-12)
    np.testing.assert_allclose(evidence, np.asarray(old.log_prob(rows)).sum(), rtol=1e-12)


def test_decomposition_at_arbitrary_parameters():
    old, new = start(), Mixture([0.2, 0.8], Normal(jnp.array([0.5, 2.0]), jnp.array([0.7, 1.5])))
    parts = decompose(new, old, ROWS)
    q, p = np.asarray(old.responsibilities(ROWS)), np.asarray(new.responsibilities(ROWS))
    np.testing.assert_allclose(parts.entropy, stats.entropy(q, axis=1).sum(), rtol=1e-10)
    np.testing.assert_allclose(parts.divergence, stats.entropy(q, p, axis=1).sum(), rtol=1e-10)
    np.testing.assert_allclose(
        parts.expected_log_joint, (q * np.asarray(new.log_joint(ROWS))).sum(), rtol=1e-12
    )
    np.testing.assert_allclose(parts.log_evidence, objective(new, ROWS), rtol=1e-12)
    np.testing.assert_allclose(parts.log_evidence, parts.expected_log_joint + parts.cross_entropy, rtol=1e-12)
    assert "divergence" in repr(parts)


def test_bound_touches_the_evidence_with_equal_slope():
    model = start()
    real, rebuild = unconstrain(model)
    rows, ones = jnp.asarray(ROWS), jnp.ones(len(ROWS))
    statistics, _ = model.e_step(rows, ones)
    slope = jax.grad(lambda x: rebuild(x)[0].e_step(rows, ones)[1])(real)
    tangent = jax.grad(lambda x: rebuild(x)[0].expected_log_joint(statistics))(real)
    np.testing.assert_allclose(slope, tangent, rtol=1e-10, atol=1e-10)


def test_softmax_gradient_of_the_weights_is_responsibilities_less_expectation():
    model, rows = start(), jnp.asarray(ROWS)

    def evidence(logits):
        return Mixture(jax.nn.softmax(logits), model.components).log_prob(rows).sum()

    slope = jax.grad(evidence)(jnp.log(model.weights))
    expected = np.asarray(model.responsibilities(rows)).sum(0) - len(ROWS) * np.asarray(model.weights)
    np.testing.assert_allclose(slope, expected, rtol=1e-10)


def test_half_steps_are_coordinate_ascent():
    steps = half_steps(start(), ROWS, 4)
    assert (np.diff(steps.bound) > -1e-9).all()
    assert (np.diff(steps.log_evidence) > -1e-9).all()
    np.testing.assert_allclose(steps.bound[::2], steps.log_evidence[::2], rtol=1e-12)  # E closes the gap
    assert (steps.log_evidence[1::2] > steps.bound[1::2]).all()  # M opens it


def test_hard_em_climbs_the_classification_likelihood_to_a_fixed_point():
    run = HardEM().fit(start(), ROWS)
    assert run.status is Status.converged
    assert (np.diff(run.values) >= -1e-9).all()
    labels = np.asarray(run.state.log_joint(ROWS)).argmax(1)
    means = [ROWS[labels == k].mean() for k in range(2)]
    np.testing.assert_allclose(run.state.components.loc, means, rtol=1e-12)
    np.testing.assert_allclose(run.state.weights, np.bincount(labels) / len(ROWS), rtol=1e-12)


def test_monte_carlo_em_tends_to_em():
    """One step with many draws: the counts differ from the expected ones by their standard error."""
    draws = 4000
    step = MonteCarloEM(num_steps=1, num_draws=draws).fit(start(), ROWS, key=jr.key(5))
    q = np.asarray(start().responsibilities(ROWS))
    error = np.sqrt((q * (1 - q)).sum(0) / draws)
    counts = np.asarray(step.trace.counts[0])
    assert (np.abs(counts - q.sum(0)) < 5 * error).all()
    assert (counts != q.sum(0)).any()


def test_stochastic_em_leaves_a_local_maximum_and_loses_components_for_good(fitted):
    best = EM(tol=1e-12, max_steps=5000).fit(start(0.0, 3.0), ROWS)
    assert fitted.values[-1] < best.values[-1] - 5  # the start of `fitted` leads to a lower maximum
    run = StochasticEM(num_steps=300).fit(start(), ROWS, key=jr.key(2))
    late = np.asarray(run.trace.log_evidence[-100:])
    assert late.max() <= best.values[-1] + 1e-6  # no model beats the maximum
    assert np.median(late) > fitted.values[-1] + 5
    assert emptied_components(run) == []
    far = Mixture([0.5, 0.5], Normal(jnp.array([1.0, 500.0]), 1.0))
    lost = StochasticEM(num_steps=300).fit(far, ROWS, key=jr.key(2))
    assert emptied_components(lost) == [1]
    assert (np.asarray(lost.trace.counts)[:, 1] == 0).all()


def test_incremental_em_reaches_the_same_maximum_in_fewer_passes(fitted):
    run = IncrementalEM(num_blocks=10, tol=1e-12, max_steps=5000).fit(start(), ROWS)
    assert (np.diff(run.values) > -1e-9).all()
    np.testing.assert_allclose(run.values[-1], fitted.values[-1], rtol=1e-9)
    assert int(run.num_steps) < int(fitted.num_steps)


def test_incremental_em_of_one_block_is_em():
    plain = EM(tol=0.0, max_steps=6).fit(start(), ROWS)
    run = IncrementalEM(num_blocks=1, tol=0.0, max_steps=5).fit(start(), ROWS)
    # its bound after the M-step lies between the evidences before and after that step
    assert (run.values >= plain.values[:5] - 1e-9).all()
    assert (run.values <= plain.values[1:] + 1e-9).all()
    np.testing.assert_allclose(
        run.state.components.loc, EM(tol=0.0, max_steps=5).fit(start(), ROWS).state.components.loc, rtol=1e-10
    )


def test_online_em_of_a_whole_chunk_is_one_em_step_and_many_passes_come_close(fitted, tmp_path):
    once = OnlineEM().fit(start(), ROWS, chunk=len(ROWS))
    step = EM(tol=0.0, max_steps=1).fit(start(), ROWS)
    np.testing.assert_allclose(once.state.components.loc, step.state.components.loc, rtol=1e-12)
    np.testing.assert_allclose(float(once.trace[0]) * len(ROWS), step.values[0], rtol=1e-12)
    shuffled = np.random.default_rng(8).permutation(ROWS)
    many = OnlineEM(power=1.0, passes=60).fit(start(), shuffled, chunk=100, checkpoint=tmp_path / "online")
    assert float(objective(many.state, ROWS)) > fitted.values[-1] - 1.0
    again = OnlineEM(power=1.0, passes=60).fit(start(), shuffled, chunk=100, checkpoint=tmp_path / "online")
    assert (again.state.components.loc == many.state.components.loc).all()


def test_online_em_reads_a_one_shot_stream_once():
    stream = OnlineEM().fit(start(), iter(ROWS), chunk=100)
    array = OnlineEM().fit(start(), ROWS, chunk=100)
    np.testing.assert_allclose(stream.state.components.loc, array.state.components.loc, rtol=1e-12)
    with pytest.raises(ValueError, match="`data` must be readable more than once"):
        OnlineEM(passes=2).fit(start(), iter(ROWS), chunk=100)
    with pytest.raises(ValueError, match="`power` must be above 1/2"):
        OnlineEM(power=0.5).fit(start(), ROWS)


def test_prior_of_imaginary_rows_is_em_on_more_rows():
    """Rows with known labels, counted as a prior: the mode is where EM ends with those rows clamped."""
    extra, shares = jnp.array([-2.0, 5.0, 5.0]), jnp.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    model = WithPrior(start(), start().labelled_stats(extra, shares))
    run = EM(tol=1e-12, max_steps=5000).fit(model, ROWS)
    assert run.status is Status.converged
    assert (np.diff(run.values) > -1e-9).all()

    def posterior(real):
        mixture = rebuild(real)[0]
        known = (shares * mixture.log_joint(extra)).sum()
        return mixture.log_prob(jnp.asarray(ROWS)).sum() + known

    real, rebuild = unconstrain(run.state.model)
    np.testing.assert_allclose(run.values[-1], posterior(real), rtol=1e-10)
    assert np.abs(jax.grad(posterior)(real)).max() < 1e-3  # stationary, to the tolerance of the climb


def test_prior_keeps_a_component_that_owns_one_row_away_from_zero_variance():
    rows = np.r_[np.zeros(20) + np.linspace(-0.1, 0.1, 20), 50.0]
    trap = Mixture([0.5, 0.5], Normal(jnp.array([0.0, 50.0]), jnp.array([1.0, 0.5])))
    bare = EM(max_steps=200).fit(trap, rows)
    assert not bare.status.ok  # the likelihood is unbounded: a density of no width on one row
    pseudo = trap.labelled_stats(
        jnp.array([-1.0, 1.0, 49.0, 51.0]), jnp.array([[1.0, 0], [1, 0], [0, 1], [0, 1]])
    )
    safe = EM(max_steps=200).fit(WithPrior(trap, pseudo), rows)
    assert safe.status is Status.converged
    np.testing.assert_allclose(safe.state.model.components.scale[1] ** 2, 2 / 3, rtol=1e-6)  # (1 + 1 + 0) / 3


def test_partial_m_steps_still_climb(fitted):
    run = EM(tol=1e-12, max_steps=5000).fit(Partial(start(), 2), ROWS)
    assert (np.diff(run.values) > -1e-9).all()
    np.testing.assert_allclose(run.values[-1], fitted.values[-1], rtol=1e-8)


def test_gradient_ascent_meets_em(fitted):
    quasi_newton = EvidenceAscent(tol=1e-9).fit(start(), ROWS)
    np.testing.assert_allclose(quasi_newton.values[-1], fitted.values[-1], rtol=1e-9)
    assert int(quasi_newton.num_steps) < int(fitted.num_steps)
    plain = EvidenceAscent(GradientDescent(0.3), tol=1e-9, max_steps=50).fit(start(), ROWS)
    em = EM(tol=0.0, max_steps=50).fit(start(), ROWS)
    assert plain.values[-1] < em.values[-1]  # a fixed step is slower than EM, which has none to tune


def test_models_without_labels_are_refused():
    with pytest.raises(ValueError, match="`model` must be one with `log_joint`"):
        HardEM().fit(Normal(0.0, 1.0), ROWS)
    with pytest.raises(ValueError, match="`model` must be one with `expected_log_joint`"):
        IncrementalEM().fit(Normal(0.0, 1.0), ROWS)
    with pytest.raises(ValueError, match="`old` must be one with `e_step`"):
        decompose(start(), Normal(0.0, 1.0), ROWS)
