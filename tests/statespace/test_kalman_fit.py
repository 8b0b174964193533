"""Fits of linear-Gaussian systems: EM climbs, adds over series, and bridges to what is known."""

import jax.random as jr
import numpy as np
import pytest

import tractable as tr
from tractable.inference import EM
from tractable.statespace.kalman.system import LEARNT, LinearGaussianSystem

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


def numeric(system, ys, name, index, h=1e-5):
    """The central difference of the total likelihood in one entry (and its mirror, of a covariance)."""
    import dataclasses

    totals = []
    for sign in (1, -1):
        leaf = np.array(getattr(system, name))
        leaf[index] += sign * h
        if name.endswith("cov") and index[0] != index[1]:
            leaf[index[::-1]] += sign * h
        totals.append(float(np.sum(dataclasses.replace(system, **{name: leaf}).log_likelihood(ys))))
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
    with pytest.raises(ValueError, match="`system` must be without inputs"):
        driven.e_step(rows(), np.ones(6))
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
