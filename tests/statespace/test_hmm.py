"""Hidden Markov models: worked numbers, all paths, bridges, sequences of every form, what cannot be."""

import itertools
from fractions import Fraction

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tractable.core.checks import ImpossibleEvidence
from tractable.distributions import Gaussian, Normal, Poisson
from tractable.messages import propagate
from tractable.statespace import Gaussians, HiddenMarkov
from tractable.statespace.hmm.gaussian_emissions import GaussianMixtures, StudentTs
from tractable.statespace.hmm.linear_emissions import LinearGaussians

ICE = HiddenMarkov([0.8, 0.2], [[0.6, 0.4], [0.5, 0.5]], [[0.2, 0.4, 0.4], [0.5, 0.4, 0.1]])
CREAM = [2, 0, 2]
UMBRELLA = HiddenMarkov([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], [[0.9, 0.1], [0.2, 0.8]])
STAMP = HiddenMarkov([0.6, 0.4], [[0.7, 0.3], [0.4, 0.6]], [[0.1, 0.4, 0.5], [0.7, 0.2, 0.1]])
LETTERS = HiddenMarkov([0.5, 0.5], [[1 / 3, 2 / 3], [0.5, 0.5]], [[1, 0, 0], [1 / 3, 1 / 2, 1 / 6]])
ABC = [0, 1, 2, 0, 0, 0, 0, 0, 1]


def number(text):
    return float(Fraction(text))


def all_paths(hmm, x):
    """Every path and its log p(x, z)."""
    paths = np.array(list(itertools.product(range(hmm.num_states), repeat=len(x))))
    return paths, np.array([hmm.log_joint(path, x) for path in paths])


def test_ice_cream():
    filtered = hmm_alpha(ICE, CREAM)
    np.testing.assert_allclose(filtered, [[0.32, 0.02], [0.0404, 0.069], [0.023496, 0.005066]], rtol=1e-12)
    assert np.exp(ICE.log_likelihood(CREAM)) == pytest.approx(0.028562, rel=1e-12)
    smoothed = ICE.smooth(CREAM)
    np.testing.assert_allclose(smoothed.marginals[:, 0], [0.936629, 0.396051, 0.822631], atol=5e-7)
    beta = smoothed.marginals * np.exp(ICE.log_likelihood(CREAM)) / filtered
    np.testing.assert_allclose(beta, [[0.0836, 0.0905], [0.28, 0.25], [1, 1]], rtol=1e-12)
    path, value = ICE.viterbi(CREAM)
    assert path.tolist() == [0, 1, 0]
    assert np.exp(value) == pytest.approx(0.0128, rel=1e-12)
    totals = (filtered * beta).sum(1)  # the likelihood, from any time
    np.testing.assert_allclose(totals, 0.028562, rtol=1e-12)


def hmm_alpha(hmm, x):
    """p(x up to t, z_t) from filtered beliefs and the likelihoods of the beginnings."""
    totals = [hmm.log_likelihood(x[: t + 1]) for t in range(len(x))]
    return hmm.filter(x).probabilities * np.exp(totals)[:, None]


def test_umbrella():
    found = UMBRELLA.filter([0, 0])
    expected = [[0.8181818, 0.1818182], [0.8833570, 0.1166430]]
    np.testing.assert_allclose(found.probabilities, expected, atol=5e-8)
    assert np.exp(found.log_likelihood) == pytest.approx(0.3515, rel=1e-12)
    np.testing.assert_allclose(UMBRELLA.smooth([0, 0]).marginals[0], expected[1], atol=5e-8)


def test_the_best_path_is_not_the_path_of_best_states():
    x = [0, 1, 0, 2]
    alpha = [[0.06, 0.28], [0.0616, 0.0372], [0.0058, 0.02856], [0.007742, 0.0018876]]
    np.testing.assert_allclose(hmm_alpha(STAMP, x), alpha, rtol=1e-10)
    assert np.exp(STAMP.log_likelihood(x)) == pytest.approx(0.0096296, rel=1e-12)
    path, value = STAMP.viterbi(x)
    assert path.tolist() == [1, 1, 1, 0]
    assert np.exp(value) == pytest.approx(0.0028224, rel=1e-12)
    np.testing.assert_allclose(
        STAMP.smooth(x).marginals[:, 0], [0.18816981, 0.51943175, 0.22887763, 0.8039794], atol=5e-9
    )
    assert STAMP.decode(x).tolist() == [1, 0, 1, 0]


def test_letters_by_fractions():
    assert np.exp(LETTERS.log_likelihood(ABC)) == pytest.approx(number("3865/8957952"), rel=1e-13)
    run = np.array([1, 2, 2, 1, 1, 2, 1, 1, 2]) - 1
    assert np.exp(LETTERS.log_joint(run, ABC)) == pytest.approx(1 / 34992, rel=1e-13)
    marginals = [
        number(v) for v in ("4/5", "0", "0", "556/773", "468/773", "484/773", "468/773", "556/773", "0")
    ]
    np.testing.assert_allclose(LETTERS.smooth(ABC).marginals[:, 0], marginals, rtol=1e-13)
    alpha = [("1/2", "1/6"), ("0", "5/24"), ("0", "5/288"), ("5/576", "5/1728"), ("5/1152", "25/10368"),
             ("55/20736", "85/62208"), ("65/41472", "305/373248"), ("695/746496", "1085/2239488"),
             ("0", "3865/8957952")]  # fmt: skip
    np.testing.assert_allclose(
        hmm_alpha(LETTERS, ABC), [[number(v) for v in row] for row in alpha], rtol=1e-12
    )
    path, value = LETTERS.viterbi(ABC)
    assert np.exp(value) == pytest.approx(1 / 34992, rel=1e-13)
    paths, values = LETTERS.best_paths(ABC, 6)
    np.testing.assert_allclose(np.exp(values[:5]), 1 / 34992, rtol=1e-12)  # five paths tie
    assert np.exp(values[5]) < 0.999 / 34992
    ties = {"".join(str(s + 1) for s in each) for each in paths[:5]}
    assert ties == {"122111112", "122111212", "122112112", "122121112", "122121212"}
    assert "".join(str(s + 1) for s in path) in ties
    always = HiddenMarkov([1.0, 0.0], LETTERS.transition, LETTERS.emissions)
    assert np.exp(always.log_likelihood(ABC)) == pytest.approx(number("773/1119744"), rel=1e-13)
    assert np.exp(always.log_joint(run, ABC)) == pytest.approx(1 / 17496, rel=1e-13)
    stationary = HiddenMarkov([3 / 7, 4 / 7], LETTERS.transition, LETTERS.emissions)
    assert np.exp(stationary.log_likelihood(ABC)) == pytest.approx(number("773/1959552"), rel=1e-13)


def test_all_paths_give_the_same_answers():
    x = [2, 0, 1, 1, 2]
    paths, logs = all_paths(ICE, x)
    weights = np.exp(logs)
    assert ICE.log_likelihood(x) == pytest.approx(np.log(weights.sum()), rel=1e-13)
    posterior = weights / weights.sum()
    smoothed = ICE.smooth(x)
    for t in range(5):
        share = np.bincount(paths[:, t], posterior, 2)
        np.testing.assert_allclose(smoothed.marginals[t], share, atol=1e-14)
    pairs = smoothed.pair_marginals
    for t in range(1, 5):
        table = np.zeros((2, 2))
        np.add.at(table, (paths[:, t - 1], paths[:, t]), posterior)
        np.testing.assert_allclose(pairs[t - 1], table, atol=1e-14)
    np.testing.assert_allclose(pairs.sum(2), smoothed.marginals[:-1], atol=1e-14)
    np.testing.assert_allclose(pairs.sum(0), smoothed.transitions, atol=1e-13)
    np.testing.assert_allclose(smoothed.visits, smoothed.marginals.sum(0), atol=1e-13)
    found, values = ICE.best_paths(x, 4)
    order = np.argsort(-logs)[:4]
    np.testing.assert_allclose(values, logs[order], rtol=1e-12)
    assert np.array_equal(found[0], ICE.viterbi(x)[0])


def test_what_is_independent_given_what():
    """Facts of the joint table of three states and three symbols: Markov, and outputs by themselves."""
    joint = np.zeros((2,) * 3 + (3,) * 3)
    for z in itertools.product(range(2), repeat=3):
        for x in itertools.product(range(3), repeat=3):
            joint[(*z, *x)] = np.exp(ICE.log_joint(np.array(z), list(x)))
    assert joint.sum() == pytest.approx(1.0, rel=1e-13)
    states = joint.sum((3, 4, 5))
    np.testing.assert_allclose(
        states / states.sum(2, keepdims=True), np.broadcast_to(ICE.transition, (2, 2, 2))
    )
    own = joint.sum((3, 5))  # z1, z2, z3, x2
    shares = own / own.sum(3, keepdims=True)
    np.testing.assert_allclose(
        shares, np.broadcast_to(np.asarray(ICE.emissions.table)[None, :, None], shares.shape)
    )


def test_a_chain_of_factors_has_the_same_beliefs():
    x = [2, 0, 1]
    table = np.asarray(ICE.emissions.table)
    factors = {"f0": (("z0",), np.log(np.asarray(ICE.initial) * table[:, x[0]]))}
    for t in (1, 2):
        factors[f"f{t}"] = ((f"z{t - 1}", f"z{t}"), np.log(np.asarray(ICE.transition) * table[None, :, x[t]]))
    found = propagate(factors)
    assert float(found.total) == pytest.approx(float(ICE.log_likelihood(x)), rel=1e-13)
    for t in range(3):
        np.testing.assert_allclose(found.marginal(f"z{t}").probs, ICE.smooth(x).marginals[t], atol=1e-13)
    best = propagate(factors, semiring="max_sum")
    assert float(best.total) == pytest.approx(float(ICE.viterbi(x)[1]), rel=1e-13)


def test_one_state_is_independent_rows():
    rows = np.random.default_rng(0).normal(size=(7, 2))
    cov = np.array([[1.0, 0.3], [0.3, 2.0]])
    one = HiddenMarkov([1.0], [[1.0]], Gaussians([[0.5, 0.0]], cov[None]))
    expected = Gaussian(np.array([0.5, 0.0]), cov).log_prob(rows).sum()
    assert float(one.log_likelihood(rows)) == pytest.approx(float(expected), rel=1e-13)


def test_predictions_and_forecasts():
    ahead = ICE.predict(CREAM, 3)
    last = ICE.filter(CREAM).probabilities[-1]
    for h in range(3):
        np.testing.assert_allclose(ahead[h], last @ np.linalg.matrix_power(np.asarray(ICE.transition), h + 1))
    shown = ICE.forecast(CREAM, 2)
    for h, symbol in itertools.product(range(2), range(3)):
        follow = [
            ICE.log_likelihood([*CREAM, *middle, symbol]) for middle in itertools.product(range(3), repeat=h)
        ]
        share = np.exp(np.logaddexp.reduce(follow) - ICE.log_likelihood(CREAM))
        assert shown.symbols[h, symbol] == pytest.approx(share, rel=1e-12)
    np.testing.assert_allclose(shown.mean, shown.symbols @ np.arange(3))


def test_every_form_of_several_sequences():
    parts = [[2, 0, 2], [1], [0, 0, 1, 2]]
    expected = [float(ICE.log_likelihood(part)) for part in parts]
    flat, lengths = np.concatenate(parts), [3, 1, 4]
    padded = np.zeros((3, 4), int)
    for s, part in enumerate(parts):
        padded[s, : len(part)] = part
    mask = np.arange(4)[None] < np.array(lengths)[:, None]
    for form in (parts, [np.array(p) for p in parts], (flat, lengths), (padded, lengths), (padded, mask)):
        np.testing.assert_allclose(ICE.log_likelihood(form), expected, rtol=1e-13)
    smoothed = ICE.smooth(parts)
    assert [part.shape for part in smoothed.marginals] == [(3, 2), (1, 2), (4, 2)]
    assert [len(part) for part in smoothed.pair_marginals] == [2, 0, 3]
    paths, values = ICE.viterbi((flat, lengths))
    assert paths[0].tolist() == [0, 1, 0]
    assert values.shape == (3,)
    np.testing.assert_allclose(ICE.log_likelihood(np.array([[2, 0, 2], [0, 1, 1]]))[0], expected[0])


def test_missing_rows_are_summed_out():
    x = [2.0, np.nan, 0.0, np.nan]
    each = [ICE.log_likelihood([2, a, 0, b]) for a, b in itertools.product(range(3), repeat=2)]
    assert ICE.log_likelihood(x) == pytest.approx(np.logaddexp.reduce(each), rel=1e-13)
    assert ICE.log_likelihood([np.nan, np.nan]) == pytest.approx(0.0, abs=1e-14)
    masked = (np.array([[2, 0, 0, 0]]), np.array([[True, False, True, True]]))
    assert ICE.log_likelihood(masked)[0] == pytest.approx(ICE.log_likelihood([2.0, np.nan, 0.0, 0.0]))


def test_missing_entries_of_gaussian_rows():
    cov = np.stack([[[1.0, 0.5], [0.5, 1.0]], [[2.0, -0.3], [-0.3, 1.0]]])
    both = HiddenMarkov(ICE.initial, ICE.transition, Gaussians([[0.0, 1.0], [3.0, 0.0]], cov))
    first = HiddenMarkov(ICE.initial, ICE.transition, Gaussians([[0.0], [3.0]], cov[:, :1, :1]))
    rows = np.array([[0.3, np.nan], [2.0, np.nan]])
    assert both.log_likelihood(rows) == pytest.approx(float(first.log_likelihood(rows[:, :1])), rel=1e-13)


def test_controls_choose_the_transition():
    steps = np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.1, 0.9], [0.8, 0.2]]])
    hmm = HiddenMarkov([0.5, 0.5], steps, ICE.emissions)
    x, controls = [0, 2, 1, 0], np.array([0, 1, 1, 0])
    total = 0.0
    for z in itertools.product(range(2), repeat=4):
        table = np.asarray(ICE.emissions.table)
        moves = np.prod([steps[controls[t], z[t - 1], z[t]] for t in range(1, 4)])
        total += 0.5 * moves * np.prod([table[z[t], x[t]] for t in range(4)])
    assert np.exp(hmm.log_likelihood(x, controls=controls)) == pytest.approx(total, rel=1e-12)
    assert hmm.smooth(x, controls=controls).transitions.shape == (2, 2, 2)
    with pytest.raises(ValueError, match="`controls` must be whole numbers from 0 to 1; got none"):
        hmm.log_likelihood(x)


def test_likelihoods_are_never_floored():
    """Every row costs 800 nats at least: so does the answer."""
    rows = np.full((50, 1), 40.0)
    far = HiddenMarkov([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], Gaussians([[0.0], [0.5]], np.ones((2, 1, 1))))
    logs = np.asarray(Normal(jnp.array([0.0, 0.5]), 1.0).log_prob(np.full((1, 2), 40.0)))
    assert logs < -1500
    chain = far.log_likelihood(rows)
    assert chain == pytest.approx(50 * float(Normal(0.5, 1.0).log_prob(40.0)), rel=1e-2)
    assert chain < -700 * 50
    certain = HiddenMarkov([1.0, 0.0], np.eye(2), Gaussians([[0.0], [40.0]], np.ones((2, 1, 1))))
    assert certain.log_likelihood(rows) == pytest.approx(
        50 * float(Normal(0.0, 1.0).log_prob(40.0)), rel=1e-13
    )
    np.testing.assert_allclose(certain.smooth(rows).marginals[:, 0], 1.0)


def test_what_cannot_be_is_minus_infinity_and_named():
    right = HiddenMarkov([1.0, 0.0], [[0.5, 0.5], [0.0, 1.0]], np.eye(2))
    assert right.log_likelihood([0, 0, 1, 0]) == -np.inf
    assert right.log_likelihood([[0, 0, 1], [0, 1, 0]]).tolist()[1] == -np.inf
    for ask in (right.filter, right.smooth, right.viterbi, right.decode):
        with pytest.raises(ImpossibleEvidence, match=r"got a sequence \(1\) whose rows up to time 2"):
            ask([[0, 0, 1], [0, 1, 0]])
    with pytest.raises(ImpossibleEvidence, match="up to time 0"):
        right.smooth([1, 1])


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: ICE.log_likelihood([0, 3]), r"whole numbers from 0 to 2; got 3 at time 1 of sequence 0"),
        (lambda: ICE.log_likelihood([[0, 1], []]), "`sequences` must be"),
        (lambda: ICE.log_likelihood(([0, 1], [1, 2])), "`lengths` must be numbers that add up to the 2 rows"),
        (lambda: HiddenMarkov([0.5, 0.6], np.eye(2), np.eye(2)), "`initial` must be"),
        (lambda: HiddenMarkov([0.5, 0.5], np.eye(3), np.eye(2)), r"`transition` must be of shape \(2, 2\)"),
        (lambda: HiddenMarkov([0.5, 0.5], np.eye(2), np.eye(3)), "`emissions` must be for the 2 states"),
        (lambda: ICE.log_joint([0, 1], CREAM), "`states` must be whole numbers, one per row"),
    ],
)
def test_slips_are_named(ask, message):
    with pytest.raises(ValueError, match=message):
        ask()


def test_drawn_sequences_have_the_probabilities_of_the_model():
    states, x = ICE.sample(jr.key(0), 20_000)
    share = np.mean(states == 0)  # stationary: 5/9
    assert abs(share - 5 / 9) < 5 * np.sqrt(0.25 / 20_000) * 1.2
    table = np.asarray(ICE.emissions.table)
    for k in range(2):
        own = x[states == k]
        error = np.sqrt(table[k] * (1 - table[k]) / len(own))
        assert (np.abs(np.bincount(own, minlength=3) / len(own) - table[k]) < 4.5 * error).all()
    moves = np.mean(states[1:][states[:-1] == 0] == 0)
    assert abs(moves - 0.6) < 4.5 * np.sqrt(0.24 / np.sum(states[:-1] == 0))


def test_drawn_paths_have_the_posterior():
    paths = ICE.sample_paths(jr.key(1), CREAM, 4000)
    every, logs = all_paths(ICE, CREAM)
    share = np.exp(logs - ICE.log_likelihood(CREAM))
    counts = np.bincount(paths @ [4, 2, 1], minlength=8) / 4000
    assert (np.abs(counts - share) < 4.5 * np.sqrt(share * (1 - share) / 4000)).all()
    assert [part.shape for part in ICE.sample_paths(jr.key(1), [CREAM, [0]], 2)] == [(2, 3), (2, 1)]
    assert np.array_equal(every[0], [0, 0, 0])


def test_the_likelihood_passes_through_jit_and_has_gradients():
    x = np.array(CREAM)
    jitted = jax.jit(lambda hmm, x: hmm.log_likelihood(x))(ICE, x)
    assert float(jitted) == pytest.approx(float(ICE.log_likelihood(x)), rel=1e-13)
    slope = jax.grad(lambda table: HiddenMarkov(ICE.initial, ICE.transition, table).log_likelihood(x))(
        ICE.emissions.table
    )
    stats, _ = ICE.e_step(ICE.gathered(x), None)  # Fisher's identity
    np.testing.assert_allclose(
        slope, np.asarray(stats.emissions) / np.asarray(ICE.emissions.table), atol=1e-12
    )


EYES = np.tile(np.eye(2), (2, 1, 1))
FOUR = Gaussians([[0.0, 0.0], [1.0, 1.0], [3.0, 1.0], [5.0, 5.0]], np.tile(np.eye(2), (4, 1, 1)))
LAGGED = np.array([[[0.0, 0.5, 0], [0, 0, 0.5]], [[1.0, -0.5, 0], [1, 0, -0.5]]])
PAIR = Gaussians([[0.0, 0.0], [3.0, 1.0]], EYES)


@pytest.mark.cheap
@pytest.mark.parametrize(
    "emissions",
    [
        PAIR,
        GaussianMixtures([[0.5, 0.5], [1.0, 0.0]], FOUR),
        StudentTs(PAIR, [3.0, 5.0]),
        LinearGaussians(LAGGED, EYES, lags=1),
    ],
    ids=lambda e: type(e).__name__,
)  # fmt: skip
def test_densities_of_emissions_by_definition(emissions):
    hmm = HiddenMarkov([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], emissions)
    _, rows = hmm.sample(jr.key(2), 6)
    found = emissions.log_prob(hmm.gathered(rows))
    from scipy import stats

    for t, k in itertools.product(range(1, 6), range(2)):
        x = rows[t]
        if isinstance(emissions, Gaussians):
            expected = stats.multivariate_normal(emissions.means[k], np.eye(2)).logpdf(x)
        elif isinstance(emissions, GaussianMixtures):
            own = FOUR.means[2 * k : 2 * k + 2]
            inner = [stats.multivariate_normal(m, np.eye(2)).pdf(x) for m in own]
            expected = np.log(np.asarray(emissions.shares[k]) @ inner)
        elif isinstance(emissions, StudentTs):
            expected = stats.multivariate_t(PAIR.means[k], np.eye(2), df=float(emissions.degrees[k])).logpdf(
                x
            )
        else:
            mean = np.asarray(emissions.coefficients[k]) @ np.array([1.0, *rows[t - 1]])
            expected = stats.multivariate_normal(mean, np.eye(2)).logpdf(x)
        assert found[t, k] == pytest.approx(expected, rel=1e-10)


def test_families_and_conditionals():
    stacked = HiddenMarkov([0.5, 0.5], ICE.transition, Poisson(jnp.array([1.0, 6.0])))
    called = HiddenMarkov([0.5, 0.5], ICE.transition, lambda k: Poisson(1.0 + 5.0 * k))
    x = [0, 3, 7, 1]
    assert stacked.log_likelihood(x) == pytest.approx(float(called.log_likelihood(x)), rel=1e-14)
    table = np.exp(np.stack([Poisson(r).log_prob(np.arange(30.0)) for r in (1.0, 6.0)]))
    symbols = HiddenMarkov([0.5, 0.5], ICE.transition, table / table.sum(1, keepdims=True))
    assert stacked.log_likelihood(x) == pytest.approx(float(symbols.log_likelihood(x)), rel=1e-8)
    gone = stacked.log_likelihood([0.0, np.nan, 7.0, 1.0])
    every = [stacked.log_likelihood([0, v, 7, 1]) for v in range(40)]
    assert gone == pytest.approx(np.logaddexp.reduce(every), rel=1e-10)
