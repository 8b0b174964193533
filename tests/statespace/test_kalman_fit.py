"""Fits of linear-Gaussian systems: EM climbs, adds over series, and bridges to what is known."""

import dataclasses

import jax.random as jr
import numpy as np
import pytest

import tractable as tr
from tractable.inference import EM
from tractable.statespace.kalman.system import LEARNT, OFFSETS, LinearGaussianSystem

NAN = float("nan")


def start(**options):
    return LinearGaussianSystem(
        [[0.5, 0.1], [0.0, 0.5]],
        np.eye(2),
        [[1.0, 0.0], [0.3, 1.0]],
        np.eye(2),
        np.zeros(2),
        np.eye(2),
        **options,
    )


def truth():
    return LinearGaussianSystem(
        [[0.9, 0.2], [-0.2, 0.8]], 0.2 * np.eye(2), [[1.0, 0.0], [0.3, 1.0]], [[0.3, 0.1], [0.1, 0.2]],
        [1.0, -1.0], 0.5 * np.eye(2),
    )  # fmt: skip


def rows(num=6, times=40):
    _, ys = truth().sample(jr.key(0), times, num)
    ys = np.array(ys)
    ys[0, 3], ys[1, 5, 0], ys[2, 7:9, 1], ys[3, 30:] = NAN, NAN, NAN, NAN
    return ys


def numeric(system, ys, name, index, h=1e-5, inputs=None):
    """The central difference of the total likelihood in one entry (and its mirror, of a covariance)."""
    totals = []
    for sign in (1, -1):
        leaf = np.array(getattr(system, name))
        leaf[index] += sign * h
        if name.endswith("cov") and index[0] != index[1]:
            leaf[index[::-1]] += sign * h
        moved = dataclasses.replace(system, **{name: leaf})
        totals.append(float(np.sum(moved.log_likelihood(ys, inputs))))
    return (totals[0] - totals[1]) / (2 * h)


def test_em_climbs():
    ys = rows()
    run = tr.fit(start(), ys, EM(max_steps=40))
    values = np.asarray(run.values)
    assert (np.diff(values) > -1e-8 * np.abs(values[1:])).all()
    assert float(np.sum(run.state.log_likelihood(ys))) > float(np.sum(truth().log_likelihood(ys)))


def test_expected_statistics_give_the_gradient_of_the_likelihood():
    """Fisher's identity, with gaps of every kind: the slope of the bound is that of the evidence."""
    ys, model = rows(num=4, times=12), start()
    S = model.e_step(ys, np.ones(4))[0]
    A, Q, C, R = (np.asarray(leaf) for leaf in model.matrices)
    for name, spread, W, N, square, cross, past, count in (
        ("transition", "transition_cov", A, Q, S["next"], S["step"], S["state"], S["steps"]),
        ("observation", "observation_cov", C, R, S["reading"], S["look"], S["seen"], S["looks"]),
    ):
        inverse, cross, past = np.linalg.inv(N), cross[:, :-1], past[:-1, :-1]
        slope = inverse @ (cross - W @ past)
        rest = square - W @ cross.T - cross @ W.T + W @ past @ W.T
        spread_slope = 0.5 * (inverse @ rest @ inverse - count * inverse)
        for index in ((0, 0), (0, 1), (1, 0)):
            assert slope[index] == pytest.approx(numeric(model, ys, name, index), rel=1e-5, abs=1e-5)
        for index in ((0, 0), (0, 1)):
            twice = 1 if index[0] == index[1] else 2
            assert twice * spread_slope[index] == pytest.approx(
                numeric(model, ys, spread, index), rel=1e-5, abs=1e-5
            )


def driven(**options):
    """A system with two inputs, of which both enter the state and the reading."""
    B, D = np.array([[0.5, 0.0], [0.1, -0.3]]), np.array([[0.2, 0.0], [0.0, 0.4]])
    return start(transition_input=B, observation_input=D, **options)


def test_statistics_with_inputs_give_the_gradient_of_the_likelihood():
    """Fisher's identity for all matrices, also of inputs, with gaps of every kind."""
    ys, u, model = rows(num=4, times=12), np.random.default_rng(5).normal(size=(4, 12, 2)), driven()
    S = model.e_step((ys, u), np.ones(4))[0]
    for name, square, cross, past, count in (
        ("transition", S["next"], S["step"], S["state"], S["steps"]),
        ("observation", S["reading"], S["look"], S["seen"], S["looks"]),
    ):
        W = np.hstack([getattr(model, name), getattr(model, f"{name}_input"), np.zeros((2, 1))])
        inverse = np.linalg.inv(getattr(model, f"{name}_cov"))
        slope = inverse @ (cross - W @ past)
        for index in ((0, 0), (1, 0), (0, 1)):
            got = numeric(model, ys, f"{name}_input", index, inputs=u)
            assert slope[index[0], 2 + index[1]] == pytest.approx(got, rel=1e-5, abs=1e-5)
            got = numeric(model, ys, name, index, inputs=u)
            assert slope[index] == pytest.approx(got, rel=1e-5, abs=1e-5)
        rest = square - W @ cross.T - cross @ W.T + W @ past @ W.T
        spread = 0.5 * (inverse @ rest @ inverse - count * inverse)
        got = numeric(model, ys, f"{name}_cov", (0, 0), inputs=u)
        assert spread[0, 0] == pytest.approx(got, rel=1e-5, abs=1e-5)


def test_em_with_inputs_ends_where_the_slope_of_the_likelihood_vanishes():
    ys, u = rows(num=4, times=12), np.random.default_rng(5).normal(size=(4, 12, 2))
    names = ("transition", "transition_input", "observation_input")
    model = driven(learnt=names)
    run = tr.fit(model, (ys, u), EM(max_steps=250, tol=1e-15))
    values = np.asarray(run.values)
    assert (np.diff(values) > -1e-10 * np.abs(values[1:])).all()
    found = run.state
    assert float(np.sum(found.log_likelihood(ys, u))) == pytest.approx(values[-1], rel=1e-9)
    for name in names:
        for index in ((0, 0), (0, 1), (1, 0)):
            start_slope = abs(numeric(model, ys, name, index, inputs=u))
            assert abs(numeric(found, ys, name, index, inputs=u)) < 1e-5 * max(1.0, start_slope)


def test_a_constant_input_is_an_offset_and_a_state_that_stays():
    """Three ways to write b and c, step by step the same: an input of one, an offset, a third state."""
    ys, one = rows(num=4, times=12), np.ones((4, 12, 1))
    b, c = np.array([0.3, -0.2]), np.array([0.1, 0.4])
    by_input = start(transition_input=b[:, None], observation_input=c[:, None])
    by_offset = start(transition_offset=b, observation_offset=c, learnt=LEARNT + OFFSETS)
    A, Q, C, R = (np.asarray(leaf) for leaf in start().matrices)
    still, none = np.zeros((1, 2)), np.zeros((2, 1))
    wide = LinearGaussianSystem(
        np.block([[A, b[:, None]], [still, np.ones((1, 1))]]), np.block([[Q, none], [still, 0.0]]),
        np.hstack([C, c[:, None]]), R, [0.0, 0.0, 1.0], np.diag([1.0, 1.0, 0.0]),
    )  # fmt: skip
    for _ in range(4):
        steps = [m.e_step(r, np.ones(4)) for m, r in ((by_input, (ys, one)), (by_offset, ys), (wide, ys))]
        assert float(steps[0][1]) == pytest.approx(float(steps[1][1]), rel=1e-10)
        assert float(steps[0][1]) == pytest.approx(float(steps[2][1]), rel=1e-8)
        by_input, by_offset, wide = (m.m_step(s) for m, (s, _) in zip((by_input, by_offset, wide), steps))
    np.testing.assert_allclose(by_input.transition_input[:, 0], by_offset.transition_offset, rtol=1e-8)
    np.testing.assert_allclose(by_input.observation_input[:, 0], by_offset.observation_offset, rtol=1e-8)
    np.testing.assert_allclose(by_input.transition_input[:, 0], wide.transition[:2, 2], rtol=1e-6)
    np.testing.assert_allclose(by_input.observation_cov, wide.observation_cov, rtol=1e-6)


def test_inputs_that_are_held_stay_and_those_without_effect_change_nothing():
    ys, u = rows(num=4, times=12), np.random.default_rng(6).normal(size=(4, 12, 2))
    model = driven(learnt=("transition", "transition_cov"))
    one = model.m_step(model.e_step((ys, u), np.ones(4))[0])
    np.testing.assert_array_equal(one.transition_input, model.transition_input)
    assert np.abs(np.asarray(one.transition) - np.asarray(model.transition)).max() > 0.01
    idle = start(transition_input=np.zeros((2, 2)), learnt=LEARNT)
    plain = start()
    with_u, without = (
        m.m_step(m.e_step(r, np.ones(4))[0]) for m, r in ((idle, (ys, u)), (plain, ys))
    )  # fmt: skip
    for name in LEARNT:
        np.testing.assert_allclose(getattr(with_u, name), getattr(without, name), rtol=1e-9, atol=1e-12)
    run = tr.fit(driven(), (ys, u), EM(max_steps=3), chunk=2)
    whole = tr.fit(driven(), (ys, u), EM(max_steps=3))
    np.testing.assert_allclose(np.asarray(run.values), np.asarray(whole.values), rtol=1e-10)


def test_statistics_add_over_series_and_count_weights():
    ys, model = rows(), start()
    whole, evidence = model.e_step(ys, np.array([1.0, 2, 0, 1, 1, 1]))
    again = np.concatenate([ys[[0, 1, 1]], ys[3:]])
    parts = [model.e_step(again[:2], np.ones(2)), model.e_step(again[2:], np.ones(4))]
    for name, leaf in whole.items():
        np.testing.assert_allclose(leaf, parts[0][0][name] + parts[1][0][name], rtol=1e-9, atol=1e-9)
    assert float(evidence) == pytest.approx(float(parts[0][1] + parts[1][1]))


def test_what_is_not_learnt_stays_and_series_may_differ_in_length():
    ys = rows()
    model = start(learnt=("transition_cov",))
    one = model.m_step(model.e_step(ys, np.ones(6))[0])
    for name in LEARNT:
        same = np.array_equal(np.asarray(getattr(one, name)), np.asarray(getattr(model, name)))
        assert same == (name != "transition_cov")
    series = [ys[3, :30], ys[4]]
    filled = model.rows(series)
    assert filled.shape == (2, 40, 2)
    alone = [model.e_step(one[None], np.ones(1))[0] for one in series]
    together = model.e_step(filled, np.ones(2))[0]
    np.testing.assert_allclose(together["state"], alone[0]["state"] + alone[1]["state"], rtol=1e-9)


def test_missing_entries_of_a_static_system_are_those_of_a_normal():
    """Without dynamics the readings are independent normals: EM with gaps finds their maximum likelihood."""
    rng = np.random.default_rng(1)
    ys = rng.multivariate_normal([0, 0], [[2.0, 1.2], [1.2, 1.5]], size=60)
    ys[:15, 1] = NAN
    model = LinearGaussianSystem(
        np.zeros((1, 1)),
        np.eye(1),
        np.zeros((2, 1)),
        np.eye(2),
        np.zeros(1),
        np.eye(1),
        learnt=("observation_cov",),
    )
    R = np.asarray(tr.fit(model, ys[None], EM(max_steps=500, tol=1e-14)).state.observation_cov)
    # closed form for a monotone pattern: first column from all rows, the regression from whole rows
    first = (ys[:, 0] ** 2).mean()
    slope = (ys[15:, 0] * ys[15:, 1]).sum() / (ys[15:, 0] ** 2).sum()
    rest = ((ys[15:, 1] - slope * ys[15:, 0]) ** 2).mean()
    expected = [[first, slope * first], [slope * first, rest + slope**2 * first]]
    np.testing.assert_allclose(R, expected, rtol=1e-5)


def test_a_constant_state_is_recursive_least_squares():
    from tractable.distributions.gaussian import Gaussian
    from tractable.supervised.linear.recursive import recursive_least_squares

    rng = np.random.default_rng(2)
    X = rng.normal(size=(12, 3))
    y = X @ [1.0, -2.0, 0.5] + 0.3 * rng.normal(size=12)
    system = LinearGaussianSystem(
        np.eye(3), np.zeros((3, 3)), X[:, None], [[0.09]], np.zeros(3), 10 * np.eye(3)
    )
    found = system.filter(y)
    run = recursive_least_squares(X, y, Gaussian(np.zeros(3), 10 * np.eye(3)), 0.09)
    np.testing.assert_allclose(found.mean, run.trace.mean, atol=1e-9)
    np.testing.assert_allclose(found.cov[-1], run.state.cov, atol=1e-9)


def test_a_sampled_matern_process_is_the_gaussian_process():
    from tractable.gp.regression import GaussianProcess
    from tractable.kernels.stationary import Matern32
    from tractable.statespace.linear_systems.discretise import sampled_system

    times = np.sort(np.random.default_rng(3).uniform(0, 4, 12))
    y = np.sin(times)
    rate = np.sqrt(3) / 0.7
    system = sampled_system(
        times, [[0.0, 1.0], [-(rate**2), -2 * rate]], np.diag([0.0, 6 * rate**3]), [[1.0, 0.0]], [[0.01]],
        np.zeros(2), np.diag([1.5, 1.5 * rate**2]),
    )  # fmt: skip
    process = GaussianProcess(1.5 * Matern32(0.7), noise=0.01)
    dense = process.posterior(times[:, None], y)
    assert float(system.log_likelihood(y)) == pytest.approx(float(dense.log_evidence), rel=1e-9)
    np.testing.assert_allclose(system.smooth(y).mean[:, 0], dense.latent(times[:, None]).mean, atol=1e-8)


def test_mistakes_are_named():
    model = start()
    with pytest.raises(ValueError, match=r"`series` must be of shape \(series, times, 2\)"):
        model.e_step(np.zeros((4, 2)), np.ones(4))
    driven = start(transition_input=np.ones((2, 1)))
    with pytest.raises(ValueError, match="`series` must be a pair of series and inputs"):
        driven.e_step(rows(), np.ones(6))
    with pytest.raises(ValueError, match=r"`inputs` must be of shape \(6, 40, 1\)"):
        driven.e_step((rows(), np.ones((6, 39, 1))), np.ones(6))
    with pytest.raises(ValueError, match="`learnt` must be parameters of a step that is the same"):
        dataclasses.replace(start(), transition_cov=np.tile(np.eye(2), (39, 1, 1))).e_step(rows(), np.ones(6))
    with pytest.raises(ValueError, match="`learnt` must be names among"):
        start(learnt=("gain",))


@pytest.mark.thorough
def test_the_likelihood_is_climbed_by_its_score_and_errors_are_those_of_an_autoregression():
    """Readings without noise of an autoregression: the conditional maximum and error of its coefficient."""
    from tractable.statespace.kalman.likelihood import fit_likelihood

    rng = np.random.default_rng(4)
    ys = np.zeros((3, 80))
    for t in range(79):
        ys[:, t + 1] = 0.7 * ys[:, t] + 0.5 * rng.normal(size=3)
    model = LinearGaussianSystem(
        [[0.2]], [[1.0]], [[1.0]], [[1e-9]], [0.0], [[1.0]], learnt=("transition", "transition_cov")
    )
    fitted = fit_likelihood(model, ys[..., None], tol=1e-13)
    past, after = ys[:, :-1].ravel(), ys[:, 1:].ravel()
    slope = past @ after / (past @ past)
    variance = ((after - slope * past) ** 2).mean()
    assert float(fitted.system.transition[0, 0]) == pytest.approx(slope, rel=1e-5)
    assert float(fitted.system.transition_cov[0, 0]) == pytest.approx(variance, rel=1e-5)
    assert float(fitted.standard_errors["transition"][0, 0]) == pytest.approx(
        np.sqrt(variance / (past @ past)), rel=1e-3
    )
    assert float(fitted.standard_errors["transition_cov"][0, 0]) == pytest.approx(
        variance * np.sqrt(2 / len(past)), rel=1e-3
    )
    assert fitted.verdict.ok


def test_what_no_fit_can_learn_from_is_refused_or_said():
    start = LinearGaussianSystem([[0.5]], [[1.0]], [[1.0]], [[1.0]], [0.0], [[1.0]], learnt=("transition",))
    with pytest.raises(ValueError, match="at least one reading"):
        tr.statespace.fit_likelihood(start, np.full(5, np.nan))
    free = LinearGaussianSystem(
        [[0.5]], [[1.0]], [[1.0]], [[1.0]], [0.0], [[1.0]], learnt=("transition_cov", "observation_cov")
    )
    assert not tr.statespace.fit_likelihood(free, np.zeros(20), max_steps=20).verdict  # it has no bound
