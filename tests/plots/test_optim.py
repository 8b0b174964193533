"""Pictures of optimisation: the lines are the numbers."""

import jax.numpy as jnp
import jax.random as jr
import matplotlib.pyplot as plt
import numpy as np
import pytest

from tractable.optim.autodiff import step_study
from tractable.optim.gradient import GradientDescent
from tractable.optim.minimise import trajectory
from tractable.optim.rates import verify_descent
from tractable.optim.stochastic import minimise_batches
from tractable.plots.door import plot
from tractable.plots.optim import plot_bounds, plot_descent, plot_rate, plot_step_study


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def valley(x):
    return 2.0 * x[0] ** 2 + 0.5 * x[1] ** 2


def test_path_and_steepest_line_over_contours():
    path = trajectory(valley, np.array([1.0, 3.0]), GradientDescent(0.1), num_steps=20)
    ax = plot_descent(valley, path)
    line, drawn = (np.stack(item.get_data(), axis=1) for item in ax.lines)
    np.testing.assert_allclose(drawn, path.points, rtol=1e-14)
    np.testing.assert_allclose(line[0], [1.0, 3.0])
    # 2 a x0 (y - y0) = 2 b y0 (x - x0)
    np.testing.assert_allclose(4.0 * (line[1, 1] - 3.0), 3.0 * (line[1, 0] - 1.0), rtol=1e-12)
    assert ax.collections  # contours


def test_path_in_three_dimensions_is_refused():
    path = trajectory(lambda x: x @ x, np.ones(3), GradientDescent(0.1), num_steps=2)
    with pytest.raises(ValueError, match="`path` must be in two dimensions; got 3"):
        plot_descent(lambda x: x @ x, path)


def test_bounds_enclose_the_function_and_touch_it():
    ax = plot_bounds(lambda x: jnp.logaddexp(0.0, x), 0.5, smoothness=0.25, low=-3.0, high=4.0)
    value, upper, lower = (item.get_data()[1] for item in ax.lines[:3])
    assert (upper >= value - 1e-12).all()
    assert (lower <= value + 1e-12).all()
    np.testing.assert_allclose(ax.lines[3].get_data()[1], [np.logaddexp(0, 0.5)], rtol=1e-12)
    with pytest.raises(ValueError, match="`low` must be below `high`"):
        plot_bounds(jnp.sin, 0.0, smoothness=1.0, low=1.0, high=0.0)


def test_rates_and_step_errors_are_drawn_on_logarithmic_axes():
    report = verify_descent(valley, np.array([1.0, 3.0]), np.zeros(2), smoothness=4.0, num_steps=20)
    ax = plot_rate(report)
    np.testing.assert_allclose(ax.lines[0].get_data()[1], report.gaps)
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    study = step_study(np.sin, np.cos, 1.0)
    ax = plot_step_study(study)
    np.testing.assert_allclose(ax.lines[0].get_data()[1], study.errors["forward"])


def test_learning_curves_and_the_epoch_that_was_kept():
    rows, held = np.full(16, 3.0), np.full(4, 1.5)
    run = minimise_batches(
        lambda w, row: 0.5 * (w - row) ** 2, 0.0, rows, GradientDescent(0.3), key=jr.key(0), batch=16,
        epochs=9, validation=held, patience=2,
    )  # fmt: skip
    ax = plot(run)
    fitted, out, kept = ax.lines
    np.testing.assert_array_equal(fitted.get_ydata(), run.trace.training)
    np.testing.assert_array_equal(out.get_ydata(), run.trace.validation)
    assert kept.get_xdata()[0] == int(run.best_epoch) == 1 + np.argmin(run.trace.validation)
    assert ax.get_yscale() == "log"
