"""Step-size schedules: exact and numeric verdicts, and runs that do what the verdict says."""

import jax.numpy as jnp
import numpy as np
import pytest

from tractable.optim.gradient import GradientDescent, NormalisedGradient
from tractable.optim.minimise import minimise
from tractable.optim.schedules import PowerLaw, check_schedule, constant, inverse_root, inverse_time

# sum infinite, tends to zero, squares sum: from the exponents of the series
VERDICTS = {
    "constant": (constant(0.1), lambda t: 0.1, (True, False, False)),
    "inverse root": (inverse_root(), lambda t: 1 / jnp.sqrt(t + 1.0), (True, True, False)),
    "inverse time": (inverse_time(2.0, 5.0), lambda t: 2 / (t + 5.0), (True, True, True)),
    "power 3/4": (PowerLaw(1.0, 0.75), lambda t: (t + 1.0) ** -0.75, (True, True, True)),
    "power 3/2": (PowerLaw(1.0, 1.5), lambda t: (t + 1.0) ** -1.5, (False, True, True)),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_exact_and_numeric_verdicts_agree(name):
    schedule, same, expected = VERDICTS[name]
    for report, exact in ((check_schedule(schedule), True), (check_schedule(same), False)):
        assert (report.sum_diverges, report.tends_to_zero, report.squares_sum) == expected
        assert report.robbins_monro == all(expected)
        assert report.exact is exact
        assert ("numeric judgement" in repr(report)) is not exact


def test_values_are_those_of_the_formula():
    t = np.arange(5)
    np.testing.assert_allclose(inverse_time(3.0, 2.0)(t), 3 / (t + 2), rtol=1e-15)
    np.testing.assert_allclose(inverse_root(3.0, 2.0)(t), 3 / np.sqrt(t + 2), rtol=1e-15)
    np.testing.assert_allclose(constant(0.3)(t), 0.3, rtol=1e-15)


def test_other_decays_are_judged_by_their_numbers():
    geometric = check_schedule(lambda t: 0.5**t)
    assert (geometric.sum_diverges, geometric.total) == (False, 2.0)
    slow = check_schedule(lambda t: 1 / jnp.log(t + 3.0))
    assert (slow.sum_diverges, slow.tends_to_zero, slow.squares_sum) == (True, True, False)
    levelled = check_schedule(lambda t: 0.01 + 1 / (t + 1.0))
    assert not levelled.tends_to_zero
    basel = check_schedule(lambda t: 1 / (t + 1.0) ** 2)
    np.testing.assert_allclose(basel.total, np.pi**2 / 6, rtol=1e-7)
    ended = check_schedule(lambda t: jnp.where(t < 10, 0.5, 0.0))
    assert (ended.sum_diverges, ended.total) == (False, 5.0)
    late = check_schedule(lambda t: jnp.where(t < 140_000, 0.0, 0.5))
    assert late.sum_diverges


def test_numbers_count_as_constant_schedules():
    assert check_schedule(0.1).sum_diverges


def test_total_of_a_power_law_is_the_zeta_function():
    np.testing.assert_allclose(check_schedule(PowerLaw(2.0, 2.0)).total, 2 * np.pi**2 / 6, rtol=1e-12)
    assert check_schedule(inverse_time()).total == np.inf


def test_run_stalls_where_the_sum_is_finite():
    # On x^2/2 the point is multiplied by 1 - a_t: with a_t = 1/(t+2)^2 the product tends to one half.
    schedule = PowerLaw(1.0, 2.0, 2.0)
    assert not check_schedule(schedule).sum_diverges
    run = minimise(lambda x: 0.5 * x**2, 1.0, GradientDescent(schedule), max_steps=20_000)
    assert not run.status.ok
    np.testing.assert_allclose(run.state, 0.5, rtol=1e-4)
    # with unit steps the distance travelled is the sum itself
    unit = minimise(lambda x: x, 10.0, NormalisedGradient(lambda t: 0.5**t), max_steps=200)
    np.testing.assert_allclose(10.0 - unit.state, check_schedule(lambda t: 0.5**t).total, rtol=1e-12)


def test_run_arrives_where_the_sum_diverges():
    run = minimise(lambda x: 0.5 * x**2, 1.0, GradientDescent(inverse_root()), max_steps=2000)
    assert run.status.ok


def test_verdicts_are_sentences():
    assert "Stalls: it moves at most 2 times" in repr(check_schedule(lambda t: 0.5**t))
    assert "Hovers" in repr(check_schedule(0.1))
    assert "Converges in mean" in repr(check_schedule(inverse_root()))
    assert "Robbins and Monro" in repr(check_schedule(inverse_time()))


def test_uphill_steps_and_bad_numbers_are_refused():
    with pytest.raises(
        ValueError, match=r"`schedule` must be zero or positive, and finite; got -1\.0 at index 3"
    ):
        check_schedule(lambda t: 2.0 - t)
    with pytest.raises(
        ValueError, match="`schedule` must be zero or positive, and finite; got inf at index 0"
    ):
        check_schedule(lambda t: 1 / t)
    with pytest.raises(ValueError, match="`scale` must be"):
        inverse_time(-1.0)
    with pytest.raises(ValueError, match="`horizon` must be a whole number of at least 64; got 8"):
        check_schedule(lambda t: 1.0, horizon=8)
