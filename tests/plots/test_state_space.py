"""Pictures of state-space models: what is drawn is what was found."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import tractable as tr
from tractable.statespace.kalman.components import Level, Seasonal
from tractable.statespace.kalman.structural import Structural
from tractable.statespace.kalman.system import LinearGaussianSystem
from tractable.statespace.linear_systems.system import mass_spring_damper


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def test_states_forecasts_components_and_responses_are_drawn():
    system = LinearGaussianSystem([[0.9]], [[0.1]], [[1.0]], [[0.2]], [0.0], [[1.0]])
    y = np.sin(np.arange(20.0))
    found = system.smooth(y)
    np.testing.assert_allclose(tr.plot(found).lines[0].get_ydata(), found.mean[:, 0])
    ahead = system.forecast(y, 4)
    np.testing.assert_allclose(tr.plot(ahead).lines[0].get_ydata(), ahead.mean[:, 0])
    fitted = Structural((Level(), Seasonal(4))).fit(y)
    assert len(tr.plot(fitted).lines) == 2
    axes = tr.plot(fitted, kind="decomposition").figure.axes
    assert [axis.get_ylabel() for axis in axes[1:]] == ["level", "seasonal 4"]
    path = mass_spring_damper().simulate(start=[1.0, 0.0], times=np.linspace(0, 5, 30))
    np.testing.assert_allclose(tr.plot(path).lines[0].get_ydata(), path.outputs[:, 0])
    with pytest.raises(ValueError, match="`result` must be of one series"):
        tr.plot(system.smooth(np.stack([y, y])[..., None]))
