"""Linear-Gaussian systems: worked numbers, the dense joint normal, forms, gaps, inputs, correlated noises."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tests.oracles.kalman import dense_chain
from tractable.statespace.kalman.system import LinearGaussianSystem

NAN = float("nan")


def spd(rng, *shape):
    root = rng.normal(size=(*shape, shape[-1]))
    return root @ np.swapaxes(root, -1, -2) + 0.1 * np.eye(shape[-1])


def random_system(seed=0, d=3, m=2, **options):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(d, d))
    A *= 0.9 / np.abs(np.linalg.eigvals(A)).max()
    return LinearGaussianSystem(
        A, spd(rng, d), rng.normal(size=(m, d)), spd(rng, m), rng.normal(size=d), spd(rng, d), **options
    )


def dense(system, ys, b=None, c=None):
    """The dense joint normal of a system with constant matrices and shifts of each time."""
    T, d, m = len(ys), system.state_size, system.reading_size
    A, Q, C, R = (np.asarray(leaf) for leaf in system.matrices)
    b = np.zeros((T - 1, d)) if b is None else b
    c = np.zeros((T, m)) if c is None else c
    move = np.broadcast_to(A, (T - 1, d, d)), b, np.broadcast_to(Q, (T - 1, d, d))
    look = np.broadcast_to(C, (T, m, d)), c, np.broadcast_to(R, (T, m, m))
    return dense_chain((np.asarray(system.initial_mean), np.asarray(system.initial_cov)), move, look, ys)


def test_the_worked_filter_of_the_inventory():
    """A = 1, offset .5, Q = .1, R = .2 from N(0, 1): means and variances after each of three readings."""
    system = LinearGaussianSystem(
        [[1.0]], [[0.1]], [[1.0]], [[0.2]], [0.5], [[1.1]], transition_offset=np.array([0.5])
    )
    found = system.filter([1.0, 1.2, 2.1])
    np.testing.assert_allclose(found.mean[:, 0], [0.92307692, 1.29508197, 1.95296443], atol=5e-9)
    np.testing.assert_allclose(found.cov[:, 0, 0], [0.16923077, 0.11475410, 0.10355731], atol=5e-9)


@pytest.mark.parametrize(
    ("method", "form"),
    [
        ("host", None),
        ("scan", "covariance"),
        ("scan", "joseph"),
        ("scan", "square-root"),
        ("scan", "information"),
        ("parallel", "covariance"),
        ("parallel", "square-root"),
    ],
)
def test_every_form_is_the_dense_joint_normal(method, form):
    system, T = random_system(), 6
    ys = np.random.default_rng(1).normal(size=(T, 2))
    ys[2], ys[4, 0] = NAN, NAN
    mean, cov, evidence = dense(system, ys)
    found = system.smooth(ys, method=method, form=form)
    assert float(system.log_likelihood(ys, method=method, form=form)) == pytest.approx(evidence, rel=1e-11)
    np.testing.assert_allclose(np.ravel(found.mean), mean, atol=1e-9)
    for t in range(T):
        here = slice(3 * t, 3 * t + 3)
        np.testing.assert_allclose(found.cov[t], cov[here, here], atol=1e-9)
    np.testing.assert_allclose(found.cross[2], cov[6:9, 9:12], atol=1e-9)


def test_square_roots_keep_digits_that_covariances_lose():
    """Readings of variance 1e-14 of a sum of two states of variance one: their difference stays unknown."""
    parts = [np.eye(2), np.zeros((2, 2)), np.array([[1.0, 1.0]]), np.array([[1e-14]]), np.zeros(2), np.eye(2)]
    ys = np.array([0.0, 1e-8, -1e-8, 2e-8])
    exact = -0.5 * (3 * np.log(1e-14) + np.log(8 + 1e-14) + 4 * np.log(2 * np.pi))
    exact -= 0.5 * (ys**2).sum() / 1e-14 - 0.5 * ys.sum() ** 2 / (1e-14 * (4 + 0.5e-14))
    errors = {
        form: abs(float(LinearGaussianSystem(*parts).log_likelihood(ys, method="scan", form=form)) - exact)
        for form in ("square-root", "covariance")
    }
    assert errors["square-root"] < 1e-5
    assert not errors["covariance"] < 10 * errors["square-root"]


def test_many_series_of_any_lengths_and_gaps_are_each_alone():
    system = random_system(seed=3)
    rng = np.random.default_rng(2)
    series = [rng.normal(size=(length, 2)) for length in (5, 9, 9, 3)]
    series[1][4], series[2][0, 1] = NAN, NAN
    together, smooth = system.filter(series), system.smooth(series)
    for i, one in enumerate(series):
        alone = system.filter(one)
        np.testing.assert_allclose(together.mean[i, : len(one)], alone.mean, atol=1e-12)
        np.testing.assert_allclose(together.cov[i, : len(one)], alone.cov, atol=1e-12)
        np.testing.assert_allclose(together.log_likelihood[i], alone.log_likelihood, rtol=1e-12)
        np.testing.assert_allclose(smooth.mean[i, : len(one)], system.smooth(one).mean, atol=1e-11)
        ahead, own = system.forecast(series, 2), system.forecast(one, 2)
        np.testing.assert_allclose(ahead.mean[i], own.mean, atol=1e-12)
        np.testing.assert_allclose(ahead.cov[i], own.cov, atol=1e-12)


def test_inputs_and_offsets_shift_states_and_readings():
    rng = np.random.default_rng(4)
    B, D, b, c = rng.normal(size=(3, 2)), rng.normal(size=(2, 2)), rng.normal(size=3), rng.normal(size=2)
    system = random_system(transition_input=B, observation_input=D, transition_offset=b, observation_offset=c)
    ys, u = rng.normal(size=(6, 2)), rng.normal(size=(8, 2))
    mean, _, evidence = dense(system, ys, b + u[:5] @ B.T, c + u[:6] @ D.T)
    assert float(system.log_likelihood(ys, u[:6])) == pytest.approx(evidence, rel=1e-12)
    np.testing.assert_allclose(np.ravel(system.smooth(ys, u[:6]).mean), mean, atol=1e-10)
    longer = np.concatenate([ys, np.full((2, 2), NAN)])
    mean, cov, _ = dense(system, longer, b + u[:7] @ B.T, c + u @ D.T)
    ahead = system.forecast(ys, 2, u)
    C, R = np.asarray(system.observation), np.asarray(system.observation_cov)
    np.testing.assert_allclose(ahead.mean[1], C @ mean[21:] + c + D @ u[7], atol=1e-10)
    np.testing.assert_allclose(ahead.cov[1], C @ cov[21:, 21:] @ C.T + R, atol=1e-10)
    with pytest.raises(ValueError, match="`inputs` must be given"):
        system.filter(ys)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.cheap
def test_correlated_noises_equal_the_dense_joint_normal(gaps):
    rng, T, d, m = np.random.default_rng(5), 4, 2, 2
    joint = spd(rng, d + m)
    Q, N, R = joint[:d, :d], joint[:d, d:], joint[d:, d:]
    A, C, m0, P0 = 0.7 * rng.normal(size=(d, d)), rng.normal(size=(m, d)), rng.normal(size=d), spd(rng, d)
    ys = rng.normal(size=(T, m))
    if gaps:
        ys[1, 0], ys[2] = NAN, NAN
    # every state and reading as a linear map of (x_1, w_1, v_1, w_2, v_2, ...)
    size = d + T * (d + m)
    noise = np.zeros((size, size))
    noise[:d, :d] = P0
    for t in range(T):
        here = slice(d + t * (d + m), d + (t + 1) * (d + m))
        noise[here, here] = joint
    x, shift, states, looks, centres = np.eye(d, size), m0, [], [], []
    for t in range(T):
        start = d + t * (d + m)
        look = C @ x
        look[:, start + d : start + d + m] += np.eye(m)
        states.append(x), looks.append(look), centres.append(shift)
        x, shift = A @ x, A @ shift
        x[:, start : start + d] += np.eye(d)
    X, Y = np.concatenate(states), np.concatenate(looks)
    mean = np.concatenate(centres)
    seen = ~np.isnan(ys.ravel())
    Y, gap = Y[seen], (ys - np.stack(centres) @ C.T).ravel()[seen]
    S, cross = Y @ noise @ Y.T, X @ noise @ Y.T
    evidence = -0.5 * (gap @ np.linalg.solve(S, gap) + np.linalg.slogdet(2 * np.pi * S)[1])
    system = LinearGaussianSystem(A, Q, C, R, m0, P0, noise_cov=N)
    assert float(system.log_likelihood(ys)) == pytest.approx(evidence, rel=1e-11)
    found = system.smooth(ys)
    np.testing.assert_allclose(np.ravel(found.mean), mean + cross @ np.linalg.solve(S, gap), atol=1e-10)
    cov = X @ noise @ X.T - cross @ np.linalg.solve(S, cross.T)
    np.testing.assert_allclose(found.cov[1], cov[d : 2 * d, d : 2 * d], atol=1e-10)
    np.testing.assert_allclose(found.cross[1], cov[d : 2 * d, 2 * d : 3 * d], atol=1e-10)


def test_draws_given_readings_have_the_moments_of_the_smoother():
    system, num = random_system(seed=6), 20_000
    ys = np.random.default_rng(7).normal(size=(5, 2))
    ys[1], ys[3, 0] = NAN, NAN
    mean, cov, _ = dense(system, ys)
    draws = system.sample_paths(jr.key(0), ys, num).reshape(num, -1)
    assert np.abs((draws.mean(0) - mean) / np.sqrt(np.diag(cov) / num)).max() < 4.5
    spread = np.sqrt(np.diag(cov))
    assert np.abs((np.cov(draws.T) - cov) / np.outer(spread, spread) * np.sqrt(num / 2)).max() < 5.5


def test_simulated_paths_have_the_moments_of_the_model():
    """Monte Carlo moments of states and readings, with correlated noises."""
    joint = spd(np.random.default_rng(8), 5)
    system = random_system(seed=9)
    system = LinearGaussianSystem(
        system.transition, joint[:3, :3], system.observation, joint[3:, 3:], system.initial_mean,
        system.initial_cov, noise_cov=joint[:3, 3:],
    )  # fmt: skip
    A, Q, C, R = (np.asarray(leaf) for leaf in system.matrices)
    num = 40_000
    states, looks = system.sample(jr.key(1), 2, num)
    P = np.asarray(system.initial_cov)
    both = np.concatenate([states[:, 1], looks[:, 0]], 1)
    cov = np.block(
        [[A @ P @ A.T + Q, A @ P @ C.T + joint[:3, 3:]], [C @ P @ A.T + joint[3:, :3], C @ P @ C.T + R]]
    )
    spread = np.sqrt(np.diag(cov))
    assert np.abs((np.cov(both.T) - cov) / np.outer(spread, spread) * np.sqrt(num / 2)).max() < 5.5
    mean = np.concatenate([A @ system.initial_mean, C @ system.initial_mean])
    assert np.abs((both.mean(0) - mean) / (spread / np.sqrt(num))).max() < 4.5


def test_the_steady_state_is_where_the_filter_settles():
    system = random_system(seed=10)
    steady = system.steady_state()
    found = system.filter(np.zeros((400, 2)))
    np.testing.assert_allclose(steady.predicted_cov, found.predicted_cov[-1], rtol=1e-9)
    np.testing.assert_allclose(steady.cov, found.cov[-1], rtol=1e-9)
    assert steady.radius < 1
    unseen = LinearGaussianSystem(np.eye(2), np.eye(2), [[1.0, 0.0]], [[1.0]], np.zeros(2), np.eye(2))
    with pytest.raises(ValueError, match=r"`observation` must be .*eigenvalue 1 that no reading sees"):
        unseen.steady_state()
    known = LinearGaussianSystem([[1.0]], [[0.0]], [[1.0]], [[1.0]], [0.0], [[1.0]])
    with pytest.raises(ValueError, match="`transition_cov` must be noise in modes that persist"):
        known.steady_state()


def test_intervals_hold_what_they_say():
    """Of forecasts of simulated series, nine in ten lie within the interval of level 0.9."""
    system = random_system(seed=11)
    _, looks = system.sample(jr.key(2), 12, 2000)
    low, high = system.forecast(looks[:, :8], 4).interval(0.9)
    inside = (looks[:, 8:] > low) & (looks[:, 8:] < high)
    assert np.abs(inside.mean(0) - 0.9).max() < 4.5 * np.sqrt(0.09 / 2000)


def test_degenerate_series():
    system = random_system()
    nothing = np.full((4, 2), NAN)
    assert float(system.log_likelihood(nothing)) == 0.0
    found = system.smooth(nothing)
    mean, cov, _ = dense(system, nothing)
    np.testing.assert_allclose(np.ravel(found.mean), mean, atol=1e-12)
    np.testing.assert_allclose(found.cov[3], cov[9:, 9:], atol=1e-12)
    one = np.array([[0.3, -0.2]])
    assert float(system.log_likelihood(one)) == pytest.approx(dense(system, one)[2])
    assert system.smooth(one).cross.shape == (0, 3, 3)
    assert system.forecast(one, 3).mean.shape == (3, 2)
    walk = LinearGaussianSystem([[1.0]], [[1.0]], [[1.0]], [[1.0]], [0.0], [[1.0]])
    assert walk.forecast([1.0, 2.0], 50).cov[-1, 0, 0] > 50
    fixed = LinearGaussianSystem([[1.0]], [[0.0]], [[1.0]], [[1.0]], [0.0], [[1.0]])
    np.testing.assert_allclose(fixed.smooth([1.0, 2.0, 4.0]).mean, 7 / 4)


def test_a_likelihood_of_minus_eight_hundred_per_step_is_that():
    system = LinearGaussianSystem([[0.0]], [[1.0]], [[0.0]], [[1.0]], [0.0], [[1.0]])
    far = np.sqrt(2 * (800 - 0.5 * np.log(2 * np.pi)))
    assert float(system.log_likelihood(np.full(1000, far))) == pytest.approx(-800_000, rel=1e-12)


def test_mistakes_are_named_with_their_time():
    system = random_system()
    with pytest.raises(ValueError, match="inf at time 2"):
        system.filter([[0.0, 0.0], [1.0, 1.0], [0.0, np.inf]])
    with pytest.raises(ValueError, match="`y` must be of shape"):
        system.filter(np.zeros((4, 3)))
    with pytest.raises(ValueError, match="`y` must be of at least one time"):
        system.filter(np.zeros((0, 2)))
    same = LinearGaussianSystem([[1.0]], [[0.0]], [[1.0]], [[0.0]], [0.0], [[1.0]])
    with pytest.raises(ValueError, match="singular innovations at time 2"):
        same.filter([1.0, NAN, 1.0])
    with pytest.raises(ValueError, match="singular innovations at time 2"):
        same.filter([1.0, NAN, 1.0], method="scan")
    with pytest.raises(ValueError, match="`method` must be one of"):
        system.filter(np.zeros((4, 2)), method="fast")
    varying = LinearGaussianSystem(
        np.ones((3, 1, 1)), np.ones((1, 1)), np.ones((1, 1)), np.ones((1, 1)), [0.0], [[1.0]]
    )
    assert varying.filter(np.zeros(4)).mean.shape == (4, 1)
    with pytest.raises(ValueError, match=r"`transition` allow \(4 times\)"):
        varying.filter(np.zeros(5))
    with pytest.raises(ValueError, match="`observation_cov` must be of shape"):
        LinearGaussianSystem(np.eye(2), np.eye(2), np.eye(2), np.eye(1), np.zeros(2), np.eye(2))


def test_it_differentiates_and_maps():
    import jax

    system = LinearGaussianSystem([[0.9]], [[0.1]], [[1.0]], [[0.2]], [0.0], [[1.0]])
    ys = jnp.array([0.3, NAN, 0.5])
    slope = jax.grad(lambda s: s.log_likelihood(ys))(system)
    up, down = (
        float(LinearGaussianSystem([[0.9 + h]], [[0.1]], [[1.0]], [[0.2]], [0.0], [[1.0]]).log_likelihood(ys))
        for h in (1e-6, -1e-6)
    )
    assert float(slope.transition[0, 0]) == pytest.approx((up - down) / 2e-6, rel=1e-6)


def test_covariances_that_leave_the_range_of_numbers_are_named_as_such():
    system = LinearGaussianSystem([[10.0]], [[1.0]], [[1.0]], [[1.0]], [0.0], [[1.0]])
    with pytest.raises(ValueError, match="range of numbers; got one beyond it at time 15"):
        system.filter(np.full(400, np.nan))
